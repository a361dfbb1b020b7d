"""A program with a change, traced anew from its equations: what is compiled before it is offered."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.compile.history.provenance import provenance
from xlab.compile.jit import jit
from xlab.compile.lowering import lower
from xlab.compile.resolve import LoweringRequest, needed
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    open_jaxpr,
    results_of,
    subjaxprs_of_params,
)
from xlab.observe.programs.stages import ProgramStages


def types_of(avals: Sequence[Any]) -> list[ShapeDtypeStruct]:
    """Types to trace for."""
    return [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) for a in avals
    ]


def lowered(
    stages: ProgramStages,
    closed: ClosedJaxpr,
    shardings: Sequence[Any] | None = None,
    *,
    donated: Sequence[int] | None = None,
    outs: Sequence[Any] | None = None,
) -> ProgramStages:
    """Another program in the place of one: by default with arguments and results that lie as there."""
    low = stages.lowered
    made = lower(
        closed,
        low.name,
        LoweringRequest(
            shardings_of(stages) if shardings is None else shardings,
            out_shardings=asked_of(stages) if outs is None else outs,
            donated=low.donated if donated is None else donated,
            keep_unused=_keeps_unused(stages),
            compiler_options=low.compiler_options,
        ),
    )
    return ProgramStages(made.closed, low.name, lowered=made)


def _keeps_unused(stages: ProgramStages) -> bool:
    """Whether it was asked for that arguments which nothing reads stay."""
    return stages.beside is None and len(stages.lowered.kept) > len(needed(stages.closed)[1])


def asked_of(stages: ProgramStages) -> list[Any]:
    """How results were asked to lie, None for those that the compiler places."""
    low = stages.lowered
    several = len(low.devices) > 1
    return [
        s if several and getattr(s, "mesh", None) is not None else None for s in low.out_shardings
    ]


def shardings_of(stages: ProgramStages) -> list[Any]:
    """How arguments lie, one for each."""
    low = stages.lowered
    found: list[Any] = [None] * len(stages.closed.in_avals)
    for i, s in zip(low.kept, low.in_shardings):
        found[i] = s
    return found


def retraced(
    stages: ProgramStages,
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
    closed = stages.closed
    made = jit(body).trace(*(types_of(closed.in_avals) if types is None else types)).jaxpr
    if types is not None and shardings is None:
        shardings = [None] * len(types)
    donated = None if types is None else ()
    return lowered(stages, made, shardings, donated=donated, outs=outs)


def called_with(
    stages: ProgramStages,
    avals: Sequence[Any],
    in_tree: Any = None,
    shardings: Sequence[Any] | None = None,
) -> ProgramStages:
    """The function of a program, traced and lowered for arguments of other types.

    Args:
        in_tree: of arguments of another structure, with one of `shardings` for each.

    Raises:
        ValueError: the function is not known any more, or has static arguments, whose values are not.
    """
    if stages.origin is None:
        raise ValueError(f"the function of {stages.name} is not known any more")
    owner, own_tree = stages.origin
    if owner.static_argnums or owner.static_argnames:
        raise ValueError(f"the static arguments of {stages.name} are not known any more")
    flat, in_tree = types_of(avals), own_tree if in_tree is None else in_tree
    lying = tuple(shardings_of(stages) if shardings is None else shardings)
    made = owner.lower(owner.program(flat, in_tree, ()), lying, flat, in_tree)
    return ProgramStages(made.closed, stages.name, lowered=made)


def with_ordinary(stages: ProgramStages, name: str) -> ProgramStages:
    """The function of a program with a static argument as an ordinary one: a number that is traced, the first argument of the new program.

    Where the function's Python depends on the value, tracing raises what it raises.

    Raises:
        ValueError: the function or the values of its static arguments are not known any more, or this one is no number.
    """
    if stages.origin is None:
        raise ValueError(f"the function of {stages.name} is not known any more")
    owner, in_tree = stages.origin
    key = provenance(stages.closed).traced
    try:
        values = {k: ast.literal_eval(text) for k, text in key.static.items()} if key else {}
    except (SyntaxError, ValueError):
        values = {}
    if not values:
        raise ValueError(f"the static arguments of {stages.name} are not known any more")
    if type(values.get(name)) not in (bool, int, float, complex):
        raise ValueError(f"`{name}` of {stages.name} is no number")
    names = [p for p in inspect.signature(owner.fun).parameters if p not in values]

    def body(value: Any, *flat: Any) -> list:
        args, kwargs = _tree.unflatten(in_tree, flat)
        # By name: where the static ones stood among the positions is not kept.
        given = {**values, **dict(zip(names, args, strict=False)), **kwargs, name: value}
        return _tree.leaves(owner.fun(**given))

    made = jit(body).trace(values[name], *types_of(stages.closed.in_avals)).jaxpr
    return lowered(stages, made, [None, *shardings_of(stages)], donated=())


def changed(
    stages: ProgramStages,
    instead: Callable[[JaxprEqn, list], Any],
    where: Iterable[JaxprEqn],
) -> ProgramStages:
    """The program with other equations in the place of some, in loops and in the programs that it calls too.

    Args:
        instead: gives the results of an equation, or None for one that stays.
        where: the equations that are changed.
    """
    closed = stages.closed
    step = within(instead, {id(e) for e in where})
    return retraced(stages, lambda *args: run(closed.jaxpr, closed.consts, args, step))


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
        again = jit(lambda *args: run(value.jaxpr, value.consts, args, step))
        return again.trace(*types_of(value.in_avals)).jaxpr

    def step(eqn: JaxprEqn, given: list) -> Any:
        if id(eqn) in where:
            made = instead(eqn, given)
            if made is not None:
                return made
        if not any(holds(p) for _, p in subjaxprs_of_params(eqn.params)):
            return None
        return results_of(eqn.replace(params={k: remade(v) for k, v in eqn.params.items()}), given)

    return step


def run(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    instead: Callable[[JaxprEqn, list], Any],
) -> list:
    """Runs a program with other equations in the place of some: `instead` gives their results, or None for one that stays."""
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    values.update(zip(jaxpr.invars, args))
    run_equations(jaxpr.eqns, values, instead)
    return read(jaxpr.outvars, values)


def read(atoms: Sequence[Any], values: Mapping[Var, Any]) -> list:
    """The values of variables, and of literals their own."""
    return [a.val if type(a) is Literal else values[a] for a in atoms]


def run_equations(
    eqns: Sequence[JaxprEqn],
    values: dict[Var, Any],
    instead: Callable[[JaxprEqn, list], Any] = lambda eqn, given: None,
) -> None:
    """Runs equations on the values of their operands, and adds those of their results; `instead` as in `run`."""
    for eqn in eqns:
        given = read(eqn.invars, values)
        outs = instead(eqn, given)
        values.update(zip(eqn.outvars, results_of(eqn, given) if outs is None else outs))
