"""Which products and sums of a backward pass make the gradient of a parameter, and which that of the data that flows through."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr, subjaxprs_of_params
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.observe.programs import names as _names
from xlab.observe.programs.memoize import memoize
from xlab.observe.programs.stages import ProgramStages

_PRODUCTS = frozenset(("dot_general", "conv_general_dilated", "ragged_dot_general"))
_HEAVY = frozenset(("dot_general", "conv_general_dilated", "scan", "while", "shard_map"))
_VIEWS = frozenset(
    ("broadcast_in_dim", "convert_element_type", "copy", "dynamic_slice", "reshape", "sharding_constraint", "slice", "squeeze", "transpose")
)  # fmt: skip


def synchronizes(stages: ProgramStages, equation: int) -> bool:
    """Whether an equation makes the gradient of a parameter that is only returned or used elementwise, as in a parameter update."""
    eqn = stages.equations.get(equation)
    if eqn is None or not _names.is_transposed(eqn) or of_data(stages, eqn):
        return False
    if eqn.primitive.name not in _PRODUCTS and not like_an_argument(stages, eqn):
        return False
    home = next(
        (
            (jaxpr, outer)
            for jaxpr, outer in _bodies(stages.closed.jaxpr)
            if any(e is eqn for e in jaxpr.eqns)
        ),
        None,
    )
    if home is None:
        return False
    jaxpr, outer = home
    reached = set(eqn.outvars)
    after = itertools.islice(
        jaxpr.eqns, next(i for i, e in enumerate(jaxpr.eqns) if e is eqn) + 1, None
    )
    for e in after:
        if any(type(v) is Var and v in reached for v in e.invars):
            if e.primitive.name in _HEAVY:
                return False
            reached.update(e.outvars)
    flow = None if outer is None else flow_of(outer)
    carried = flow.num_carry if isinstance(flow, LoopFlow) else 0
    return not any(
        type(v) is Var and v in reached and n < carried for n, v in enumerate(jaxpr.outvars)
    )


def like_an_argument(stages: ProgramStages, eqn: JaxprEqn) -> bool:
    """Whether the result has the shape of an argument or of one row of it, as in a loop over layers; in any order, without ones."""

    def plain(shape: Any) -> list[str]:
        return sorted(str(n) for n in shape if n != 1)

    shape = plain(getattr(eqn.outvars[0].aval, "shape", ()))
    given = [getattr(a, "shape", ()) for a in stages.closed.in_avals]
    return any(shape in (plain(s), plain(s[1:])) for s in given)


def of_data(stages: ProgramStages, eqn: JaxprEqn) -> bool:
    """Whether a product of the backward pass has a weight as an operand: what it makes is then the gradient of what met the weight."""
    if eqn.primitive.name not in _PRODUCTS or not _names.is_transposed(eqn):
        return False
    at = _program(stages)
    return any(at.argument_of(v) in at.weights for v in eqn.invars[:2])


class _Program(NamedTuple):
    """Where values come from, and which arguments are weights."""

    inputs: dict[Var, int]
    makers: dict[Var, JaxprEqn]
    outside: dict[Var, Any]
    weights: set[int]

    def argument_of(self, v: Any) -> int:
        """The argument that a value is or is a view of; -1 where it is none."""
        for _ in range(64):
            if type(v) is not Var:
                return -1
            if v in self.inputs:
                return self.inputs[v]
            made = self.makers.get(v)
            if made is not None and made.primitive.name not in _VIEWS:
                return -1
            v = made.invars[0] if made is not None else self.outside.get(v)
        return -1


def _program(stages: ProgramStages) -> _Program:
    def make() -> _Program:
        jaxpr = stages.closed.jaxpr
        at = _Program({v: n for n, v in enumerate(jaxpr.invars)}, {}, {}, set())
        for body, outer in _bodies(jaxpr):
            at.makers.update((v, e) for e in body.eqns for v in e.outvars)
            if outer is not None:
                # An index of a cond and constants of another function stand in front.
                at.outside.update(zip(reversed(body.invars), reversed(outer.invars), strict=False))
        returned = [_shape_and_dtype(v) for v in jaxpr.outvars]
        for body, _ in _bodies(jaxpr):
            for e in body.eqns:
                if e.primitive.name in _PRODUCTS and not _names.is_transposed(e):
                    n = _weight(at, e, returned)
                    if n >= 0:
                        at.weights.add(n)
        return at

    return memoize(stages, "weights", make)


def _weight(at: _Program, eqn: JaxprEqn, returned: list) -> int:
    """The argument that is the weight of a product: the operand with fewer dimensions, of equal ones the right one; -1 for none.

    One on the left that meets a computed value is a weight where its gradient may be a result.
    """
    left, right = eqn.invars[:2]
    a, b = at.argument_of(left), at.argument_of(right)
    ranks = [len(_shape_and_dtype(v)[0]) for v in (left, right)]
    if b >= 0 and ranks[1] <= ranks[0]:
        return b
    if a >= 0 and ranks[0] < ranks[1]:
        return a
    alike = _shape_and_dtype(left) in returned
    return a if a >= 0 and b < 0 and ranks[0] == ranks[1] and alike else -1


def _shape_and_dtype(v: Any) -> tuple[tuple, Any]:
    return getattr(v.aval, "shape", ()), getattr(v.aval, "dtype", None)


def _bodies(jaxpr: Jaxpr, outer: JaxprEqn | None = None) -> Iterable[tuple[Jaxpr, JaxprEqn | None]]:
    yield jaxpr, outer
    for eqn in jaxpr.eqns:
        for _, inner in subjaxprs_of_params(eqn.params):
            yield from _bodies(open_jaxpr(inner), eqn)
