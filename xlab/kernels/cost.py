"""What a function computes and how much memory it touches, counted in its jaxpr."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.jaxpr import Jaxpr, JaxprEqn, open_jaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.interpreters.costs import Cost, bytes_of, cost_of, cost_rules


@dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs, for compilers and for views.

    Args:
        flops: arithmetic operations.
        transcendentals: evaluations of exp, sin and the like.
        bytes_accessed: bytes read and written.
        remote_bytes_transferred: bytes that go to other devices.

    Raises:
        ValueError: a field is no int.

    Example:
        >>> from xlab.kernels import CostEstimate
        >>> CostEstimate(flops=10, transcendentals=0, bytes_accessed=80).to_json()
        b'{"flops": 10, "transcendentals": 0, "bytes_accessed": 80, "remote_bytes_transferred": 0}'
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(
                    f"the fields of a CostEstimate are ints, but {name} is {value!r} of type {type(value).__name__}"
                )

    def to_json(self) -> bytes:
        """The fields as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    def __add__(self, other: CostEstimate) -> CostEstimate:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other))
        return CostEstimate(*(a + b for a, b in pairs))

    def times(self, n: int) -> CostEstimate:
        """The cost of doing it `n` times."""
        return CostEstimate(*(n * x for x in dataclasses.astuple(self)))


NOTHING = CostEstimate(0, 0, 0)


def checked_cost(cost: Any) -> CostEstimate | None:
    """A `cost_estimate=`.

    Raises:
        ValueError: it is none.
    """
    if cost is not None and not isinstance(cost, CostEstimate):
        raise ValueError(f"cost_estimate is a CostEstimate, got {cost!r}")
    return cost


def register_cost_rule(prim: Primitive, rule: Callable[..., CostEstimate]) -> None:
    """Says what a primitive costs, where it is not nothing.

    Args:
        prim: the primitive.
        rule: `rule(in_avals, out_avals, **params) -> CostEstimate`.

    Example:
        >>> from xlab.extend.core import Primitive
        >>> from xlab.kernels import CostEstimate, register_cost_rule
        >>> twice_p = Primitive("doubled")
        >>> register_cost_rule(twice_p, lambda ins, outs, **params: CostEstimate(outs[0].size, 0, 0))
    """

    def cost(avals_in, avals_out, **params):
        found = rule(avals_in, avals_out, **params)
        read = found.bytes_accessed
        return Cost(
            found.flops,
            found.transcendentals,
            max(read, bytes_of(avals_in) + bytes_of(avals_out)),
            unit="matrix",
            referenced=read,
            sent=found.remote_bytes_transferred,
        )

    cost_rules[prim] = cost


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """What a call of a function costs, by rules for its primitives.

    An elementwise operation is one flop, or one transcendental, for each element of its result; a product of matrices two for each
    product of elements. Loops count as often as they run where that is known, else once; of branches the most expensive counts.
    Bytes are those of arguments and results, and of what is read from and written to references.

    Args:
        fun: the function.
        args, kwargs: arrays, their types, or trees of them.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import estimate_cost
        >>> estimate_cost(lambda a, b: jnp.sin(a @ b), jnp.ones((4, 8)), jnp.ones((8, 16)))
        CostEstimate(flops=1024, transcendentals=64, bytes_accessed=896, remote_bytes_transferred=0)
    """
    leaves, tree = _tree.flatten((args, kwargs))

    def flat(*values):
        given, named = _tree.unflatten(tree, values)
        return _tree.leaves(fun(*given, **named))

    jaxpr, _ = pe.trace_to_jaxpr(flat, [aval_of(x) for x in leaves])
    outside = bytes_of([*jaxpr.in_avals, *jaxpr.out_avals])
    return jaxpr_cost(jaxpr) + CostEstimate(0, 0, outside)


def jaxpr_cost(jaxpr: Jaxpr) -> CostEstimate:
    """What the equations of a jaxpr cost, without the bytes of its inputs and outputs."""
    total = NOTHING
    for eqn in jaxpr.eqns:
        total = total + equation_cost(eqn)
    return total


def equation_cost(eqn: JaxprEqn) -> CostEstimate:
    """What one equation costs, with the programs inside it.

    What the field counts here: elementwise operations and products of matrices, and the bytes that go through references.
    """
    cost = cost_of(eqn)
    if cost is not None:
        counted = cost.unit in ("elementwise", "matrix")
        return CostEstimate(
            cost.flops * counted, cost.transcendentals * counted, cost.referenced, cost.sent
        )
    flow = flow_of(eqn)
    if type(flow) is BranchFlow:
        return max(map(_inner, flow.branches), key=lambda c: (c.flops, c.transcendentals))
    if type(flow) is LoopFlow:
        return _inner(flow.body).times(1 if flow.length is None else flow.length)
    return _inner(flow.jaxpr) if type(flow) is CallFlow else NOTHING


def _inner(jaxpr) -> CostEstimate:
    return jaxpr_cost(open_jaxpr(jaxpr))
