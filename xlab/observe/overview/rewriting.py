"""A program with a change, traced anew from its equations: what findings compile before they offer it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.jaxpr import ClosedJaxpr, JaxprEqn, open_jaxpr, results_of, subjaxprs_of_params
from xlab.observe.overview.inspection import Inspection, run
from xlab.observe.programs.stages import ProgramStages
from xlab.transforms.make_jaxpr import make_jaxpr


def types_of(avals: Sequence[Any]) -> list[ShapeDtypeStruct]:
    """Types to trace for."""
    return [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) for a in avals
    ]


def retraced(
    at: Inspection,
    body: Callable[..., Sequence[Any]],
    *,
    types: Sequence[Any] | None = None,
    shardings: Sequence[Any] | None = None,
    outs: Sequence[Any] | None = None,
) -> ProgramStages:
    """A function of arrays in the place of a program, lowered.

    Args:
        types: of its arguments; by default those of the program.
        shardings: one per argument; by default as they lie.
        outs: as asked for, one per result.
    """
    closed = at.stages.closed
    made = make_jaxpr(body)(*(types_of(closed.in_avals) if types is None else types))
    if types is not None and shardings is None:
        shardings = [None] * len(types)
    donated = None if types is None else ()
    return at.lowered(made, shardings, donated=donated, outs=outs)


def changed(
    at: Inspection, instead: Callable[[JaxprEqn, list], Any], where: Iterable[JaxprEqn]
) -> ProgramStages:
    """The program with other equations in the place of some, in loops and in the programs that it calls too.

    Args:
        instead: gives the results of an equation, or None for one that stays.
        where: the equations that are changed.
    """
    closed = at.stages.closed
    step = within(instead, {id(e) for e in where})
    return retraced(at, lambda *args: run(closed.jaxpr, closed.consts, args, step))


def within(
    instead: Callable[[JaxprEqn, list], Any], where: set[int]
) -> Callable[[JaxprEqn, list], Any]:
    """What `run` does in the place of equations so that those with these ids are changed however deep they stand."""
    holding: dict[int, bool] = {}

    def holds(program: Any) -> bool:
        jaxpr = open_jaxpr(program)
        if id(jaxpr) not in holding:
            holding[id(jaxpr)] = any(
                id(e) in where or any(holds(p) for _, p in subjaxprs_of_params(e.params))
                for e in jaxpr.eqns
            )
        return holding[id(jaxpr)]

    def remade(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(remade, value))
        if not isinstance(value, ClosedJaxpr) or not holds(value):
            return value
        return make_jaxpr(lambda *args: run(value.jaxpr, value.consts, args, step))(
            *types_of(value.in_avals)
        )

    def step(eqn: JaxprEqn, given: list) -> Any:
        if id(eqn) in where:
            made = instead(eqn, given)
            if made is not None:
                return made
        if not any(holds(p) for _, p in subjaxprs_of_params(eqn.params)):
            return None
        return results_of(eqn.replace(params={k: remade(v) for k, v in eqn.params.items()}), given)

    return step
