"""A program that takes or gives something else: made of its equations as they are, so that nothing is traced anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from xlab.compile.equal_programs import plain
from xlab.compile.executable import Executable
from xlab.compile.lowering import MeshComputation
from xlab.compile.stages import AHEAD
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, subjaxprs_of_params
from xlab.interpreters.mlir.locations import strip_locations
from xlab.observe.programs.rewriting import asked_of, lowered, shardings_of
from xlab.observe.programs.stages import ProgramStages


def without_arguments(stages: ProgramStages, gone: Collection[int]) -> ProgramStages:
    """The program without arguments that it does not read.

    >>> import numpy as np, xlab
    >>> from xlab.observe.programs.stages import program_stages
    >>> stages = program_stages(xlab.jit(lambda x, y: y + 1), (np.ones(3, np.float32),) * 2)
    >>> without_arguments(stages, [0]).closed.jaxpr.debug_info.arg_names
    ('y',)
    """
    return _regrouped(stages, stages.closed, arguments=_rest(stages.closed.in_avals, gone))


def without_results(
    stages: ProgramStages, gone: Collection[int], arguments: Collection[int] = ()
) -> ProgramStages:
    """The program without results, and without arguments that it then does not read."""
    closed = stages.closed
    return _regrouped(
        stages,
        closed,
        arguments=_rest(closed.in_avals, arguments),
        results=_rest(closed.out_avals, gone),
    )


def with_constant_given(stages: ProgramStages, number: int, name: str = "") -> ProgramStages:
    """The program that takes one of its constants as its last argument; it lies where the constant lies."""
    closed = stages.closed
    jaxpr, consts = closed.jaxpr, list(closed.consts)
    v, value = jaxpr.constvars[number], consts.pop(number)
    info = jaxpr.debug_info
    names = [info.arg_name(i) for i in range(len(jaxpr.invars))]
    made = jaxpr.replace(
        constvars=[c for c in jaxpr.constvars if c is not v],
        invars=[*jaxpr.invars, v],
        debug_info=_renamed(info, [*names, name or f"constant {number}"], info.result_names),
    )
    where = None
    if len(stages.lowered.devices) > 1 and stages.beside is None:
        for c, placed in zip(stages.lowered.module.hoisted, stages.executable.consts):
            where = placed.sharding if c is value else where
    return _regrouped(stages, ClosedJaxpr(made, consts), more=[where])


def without_equations(
    stages: ProgramStages, gone: Collection[int], instead: Mapping[int, JaxprEqn] | None = None
) -> ProgramStages:
    """The program without equations that nothing reads, however deep they stand, by their `id`; or with narrower ones in their place."""
    rebuilt = _rebuilder(gone, instead or {})
    closed = stages.closed
    return _regrouped(stages, closed.replace(jaxpr=rebuilt(closed.jaxpr)))


def same_compiled(one: ProgramStages, other: ProgramStages) -> bool:
    """Whether two programs are compiled, and to the same executable."""
    return (
        one.is_compiled and other.is_compiled and one.executable.native is other.executable.native
    )


def _rest(all_of: Sequence[Any], gone: Collection[int]) -> list[int]:
    return [i for i in range(len(all_of)) if i not in gone]


def _renamed(info: DebugInfo, arguments: Sequence[str], results: Sequence[str]) -> DebugInfo:
    return DebugInfo(info.name, arguments, results, info.position, info.around)


def _regrouped(
    stages: ProgramStages,
    closed: ClosedJaxpr,
    arguments: Sequence[int] | None = None,
    results: Sequence[int] | None = None,
    more: Sequence[Any] = (),
) -> ProgramStages:
    """A program with some of its arguments and results, each as it lies, and with `more` arguments at the end."""
    before, low, lie, asked = stages.closed, stages.lowered, shardings_of(stages), asked_of(stages)
    arguments = range(len(before.in_avals)) if arguments is None else arguments
    results = range(len(before.out_avals)) if results is None else results
    jaxpr = closed.jaxpr
    if (len(arguments), len(results)) != (len(before.in_avals), len(before.out_avals)):
        info = jaxpr.debug_info
        jaxpr = jaxpr.replace(
            invars=[jaxpr.invars[i] for i in arguments],
            outvars=[jaxpr.outvars[n] for n in results],
            debug_info=_renamed(
                info, [info.arg_name(i) for i in arguments], [info.result_name(n) for n in results]
            ),
        )
        closed = closed.replace(jaxpr=jaxpr)
    made = lowered(
        stages,
        closed,
        [*(lie[i] for i in arguments), *more],
        donated=[k for k, i in enumerate(arguments) if i in low.donated],
        outs=[asked[n] for n in results],
    )
    if stages.beside is not None or not _same(low, made.lowered):
        return made
    native = stages.executable.native
    return ProgramStages(
        made.closed,
        made.name,
        lowered=made.lowered,
        executable=Executable(made.lowered, AHEAD, loaded=native),
    )


def _same(a: MeshComputation, b: MeshComputation) -> bool:
    """Whether two lowered programs are one to the compiler: all but the numbers and lines of equations."""
    if a.module.callbacks or len(a.module.hoisted) != len(b.module.hoisted):
        return False
    kept = lambda low: (low.devices, low.in_shardings, low.out_shardings, low.compiler_options)
    return (
        kept(a) == kept(b)
        and all(x is y for x, y in zip(a.module.hoisted, b.module.hoisted))
        and strip_locations(plain(a)) == strip_locations(plain(b))
    )


def _rebuilder(gone: Collection[int], instead: Mapping[int, JaxprEqn]) -> Callable[[Jaxpr], Jaxpr]:
    """Makes of a program, and of those that it calls, the same without equations."""
    done: dict[int, Jaxpr] = {}

    def remade(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(remade, value))
        if isinstance(value, ClosedJaxpr):
            inner = rebuilt(value.jaxpr)
            return value if inner is value.jaxpr else value.replace(jaxpr=inner)
        return rebuilt(value) if isinstance(value, Jaxpr) else value

    def rebuilt(jaxpr: Jaxpr) -> Jaxpr:
        if id(jaxpr) not in done:
            eqns = []
            for e in jaxpr.eqns:
                if id(e) in gone:
                    continue
                if id(e) in instead:
                    eqns.append(instead[id(e)])
                    continue
                params = {k: remade(v) for k, v in e.params.items()} if any(subjaxprs_of_params(e.params)) else e.params  # fmt: skip
                same = all(params[k] is e.params[k] for k in params)
                eqns.append(e if same else e.replace(params=params))
            same = len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns))
            done[id(jaxpr)] = jaxpr if same else jaxpr.replace(eqns=eqns)
        return done[id(jaxpr)]

    return rebuilt
