"""What each equation costs: arithmetic, and bytes read and written, by one rule per primitive.

A rule in `cost_rules` counts one equation on one device, without the programs inside it; `runs` says which of these run, and how often.
What a collective sends is no matter of this table: `communication.collective_rules` says it. Everything here is a count; how long
it takes is for whoever knows a machine.

>>> from xlab.core.avals import ShapedArray
>>> import numpy as np
>>> x = ShapedArray((4, 8), np.dtype("float32"))
>>> each()([x, x], [x]).flops, reduction([x], [ShapedArray((4,), np.dtype("float32"))]).flops
(32, 28)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.backend.values import value_class
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import Jaxpr, JaxprEqn, open_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef
from xlab.core.rules import RuleTable
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.control_flow import BranchFlow, LoopFlow, flow_of

UNITS = ("elementwise", "reduction", "matrix", "decomposition", "transform", "serial", "other", "host", "free")  # fmt: skip
"""How an equation meets its neighbours in a compiled program: `elementwise` is fused with what it reads and with what reads it, `reduction`
with what it reads, `matrix` is a product or a convolution, `decomposition` one of linear algebra, `transform` one of Fourier's, `serial` goes
from element to element (the comparisons of a sort, running sums), `other` stands alone, `host` leaves the device, `free` has no code of its own."""

TRANSCENDENTAL = 10.0
"""Additions in the time of one exponential, about."""


@value_class
class Cost:
    """What one equation costs on one device.

    Args:
        flops: arithmetic operations.
        transcendentals: evaluations of exp, sin and the like.
        nbytes: bytes read and written if it stands alone; None for those of its operands and results.
        unit: one of `UNITS`.
        referenced: the bytes among them that go through references.
        sent: bytes sent to other devices by other ways than a collective.
    """

    flops: int = 0
    transcendentals: int = 0
    nbytes: int | None = None
    unit: str = "elementwise"
    referenced: int = 0
    sent: int = 0

    @property
    def work(self) -> float:
        """Additions that take about as long."""
        return self.flops + TRANSCENDENTAL * self.transcendentals


FREE = Cost(nbytes=0, unit="free")

cost_rules = RuleTable(
    "costs.cost_rules",
    "count the work of",
    "rule(avals_in, avals_out, **params) -> Cost",
    required=False,
)
"""The cost of one equation; types are those of one device. Worked example, an elementwise operation of one addition:
`lambda avals_in, avals_out, **_: Cost(avals_out[0].size)`."""


def bytes_of(avals: Sequence[Any]) -> int:
    """Bytes of all arrays of these types; references and tokens have none."""
    arrays = [a for a in avals if type(a) is not AbstractRef and isinstance(a, ShapedArray)]
    return sum(math.prod(a.shape) * dtypes.itemsize(a.dtype) for a in arrays)


# -- rules that many primitives share ----------------------------------------------------------------------------


def each(flops: int = 1, transcendentals: int = 0) -> Callable[..., Cost]:
    """The rule of an elementwise operation: so many operations for each element of its result."""

    def rule(avals_in, avals_out, **_):
        size = avals_out[0].size
        return Cost(flops * size, transcendentals * size)

    return rule


def free(avals_in, avals_out, **_):
    """The rule of what has no code of its own: another view of the same bytes, or a word to the compiler."""
    return FREE


def moves(avals_in, avals_out, **_):
    """The rule of what copies: everything it reads and writes, and no arithmetic."""
    return Cost(unit="other")


def fused_moves(avals_in, avals_out, **_):
    """The rule of what rearranges inside the loop of its neighbours."""
    return Cost()


def reads_result(avals_in, avals_out, **_):
    """The rule of what reads only the part of its first operand that it gives back."""
    return Cost(nbytes=2 * bytes_of(avals_out) + bytes_of(avals_in[1:]))


def writes_update(avals_in, avals_out, **_):
    """The rule of what writes its second operand into its first, in place."""
    return Cost(nbytes=2 * bytes_of(avals_in[1:2]) + bytes_of(avals_in[2:]), unit="other")


def host(avals_in, avals_out, **_):
    """The rule of what is done outside of the program: what goes there and comes back."""
    return Cost(unit="host")


def reduction(avals_in, avals_out, **_):
    """The rule of a reduction: every element but the first of each group is combined once; a group without elements has nothing to combine."""
    return Cost(max(0, avals_in[0].size - avals_out[0].size), unit="reduction")


def per_element(
    count: Callable[[int], float], over: Callable[..., int], unit: str = "other"
) -> Callable[..., Cost]:
    """The rule of what takes `count(n)` operations for each of its first operand's elements; `over(aval, params)` is n."""

    def rule(avals_in, avals_out, **params):
        x = avals_in[0]
        return Cost(int(x.size * count(over(x, params))), unit=unit)

    return rule


def on_matrices(count: Callable[..., float]) -> Callable[..., Cost]:
    """The rule of a matrix algorithm: `count(m, n, params)` operations for each matrix of a batch, complex ones four times as many."""

    def rule(avals_in, avals_out, **params):
        x = avals_in[0]
        m, n = x.shape[-2:]
        batch = math.prod(x.shape[:-2])
        harder = 4 if x.dtype.kind == "c" else 1
        return Cost(int(harder * batch * count(m, n, params)), unit="decomposition")

    return rule


def register(rule: Callable[..., Cost], *primitives: Primitive) -> None:
    """Gives a family of primitives one rule."""
    for primitive in primitives:
        cost_rules[primitive] = rule


# -- equations and the programs inside them ----------------------------------------------------------------------


def cost_of(eqn: JaxprEqn) -> Cost | None:
    """What one equation costs by itself; None where nobody said so, and for what is made of the programs inside it."""
    rule = cost_rules.get(eqn.primitive)
    if rule is None:
        return None
    return rule([a.aval for a in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params)


def bytes_alone(eqn: JaxprEqn, cost: Cost) -> int:
    """Bytes that an equation reads and writes if it stands alone."""
    if cost.nbytes is not None:
        return cost.nbytes
    return bytes_of([a.aval for a in eqn.invars]) + bytes_of([v.aval for v in eqn.outvars])


class InnerRun(NamedTuple):
    """A program inside an equation: how often it runs (None: not known before it does), and which one of several branches it is, or -1."""

    jaxpr: Jaxpr
    times: int | None
    branch: int = -1


def runs(eqn: JaxprEqn) -> tuple[InnerRun, ...]:
    """The programs inside an equation as they run each time that it does; none where a rule says what it costs."""
    if eqn.primitive in cost_rules or eqn.primitive in collective_rules:
        return ()
    flow = flow_of(eqn)
    if flow is None:
        return ()
    if isinstance(flow, BranchFlow):
        return tuple(InnerRun(open_jaxpr(b), 1, i) for i, b in enumerate(flow.branches))
    if isinstance(flow, LoopFlow):
        again = () if flow.cond is None else (InnerRun(open_jaxpr(flow.cond), flow.length),)
        return (*again, InnerRun(open_jaxpr(flow.body), flow.length))
    return tuple(InnerRun(open_jaxpr(inner), 1) for _, inner in flow.jaxprs)


def total(jaxpr: Jaxpr) -> Cost:
    """Operations of all equations of a program, as those of one that stands alone.

    Loops of unknown length count once, and of branches the one with the most work.
    """
    flops = transcendentals = 0
    for eqn in jaxpr.eqns:
        cost = cost_of(eqn)
        inside = [(cost, 1)] if cost is not None else []
        if cost is None:
            found = [(total(r.jaxpr), r) for r in runs(eqn)]
            inside = [(c, 1 if r.times is None else r.times) for c, r in found if r.branch < 0]
            branches = [c for c, r in found if r.branch >= 0]
            inside += [(max(branches, key=lambda c: c.work), 1)] if branches else []
        flops += sum(c.flops * times for c, times in inside)
        transcendentals += sum(c.transcendentals * times for c, times in inside)
    return Cost(flops, transcendentals, unit="other")
