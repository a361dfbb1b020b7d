"""`findings`: what a program does that costs something and need not be so; and the patterns that are known by a name.

A change is offered only where it is sure, or where the program was compiled with it. What belongs to a known way of dividing work (the gradient
sum of data parallelism, the sum of a row-parallel product) is a `Pattern` and no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlab.core.jaxpr import JaxprEqn, Var
from xlab.interpreters.costs import bytes_of
from xlab.observe.programs import names as _names
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Finding, Pattern
from xlab.observe.records.units import size_text
from xlab.observe.sharding.transfers import TRIES
from xlab.observe.sharding.transfers import transfers as _transfers

LEAST_CONSTANT = 1 << 16
"""Bytes from which a constant of a program is worth a word."""


class Findings(tuple):
    """Findings, the most expensive first.

    Attributes:
        patterns: the known patterns that the program's other collectives belong to.
    """

    patterns: tuple[Pattern, ...] = ()


def findings(what: Any, *args: Any, tries: int = TRIES, **kwargs: Any) -> Findings:
    """What a program does that costs something and need not be so.

    Kinds: `captured constant`, `unused argument`, `returned argument`, `removable collective`, `full rematerialization`.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr.
        tries: how many programs may be compiled to see which other shardings take a collective away.

    Returns:
        A tuple of findings, the most expensive first, whose attribute `patterns` has what is known by a name.

    Example:
        >>> import numpy as np
        >>> found = findings(lambda x, scale: x * 2, np.ones(4, np.float32), np.ones(1000, np.float32))
        >>> [(f.kind, f.text, f.nbytes) for f in found]
        [('unused argument', '`scale` is given and not used', 4000)]
    """
    stages = program_stages(what, args, kwargs)
    stages.executable  # noqa: B018  (collectives are those of what is compiled)
    found = findings_of(stages, _transfers(stages, tries=tries))
    made = Findings(found[0])
    made.patterns = found[1]
    return made


def findings_of(
    stages: ProgramStages, transfers: Sequence[Transfer], program: int = 0
) -> tuple[tuple[Finding, ...], tuple[Pattern, ...]]:
    """The findings and patterns of a program whose collectives are known."""
    mine = [t for t in transfers if t.program == program]
    known = {n: name for n, t in enumerate(mine) if (name := pattern_of(t, stages))}
    others = [t for n, t in enumerate(mine) if n not in known]
    found = [
        *_constants(stages, program),
        *_arguments(stages, program),
        *(_collective(t) for t in others if (t.reshards and t.fix and t.tried) or t.full_rematerialization),
    ]  # fmt: skip
    found.sort(key=lambda f: (-f.us, -f.nbytes))
    return tuple(found), _patterns(mine, known, program)


def pattern_of(t: Transfer, stages: ProgramStages) -> str:
    """The name of the way to divide work that a collective belongs to; empty for one that belongs to none."""
    eqn = stages.equations.get(t.equation)
    if t.origin != "partitioner" or t.kind != "all_reduce" or t.reduction != "add" or eqn is None:
        return ""
    if eqn.primitive.name == "dot_general":
        if not _names.is_transposed(eqn):
            return "row-parallel product"
        return "data-parallel gradient sum" if _is_gradient(eqn, stages) else "column-parallel product, backward"  # fmt: skip
    if eqn.primitive.name == "reduce_sum":
        if _names.is_transposed(eqn) and _is_gradient(eqn, stages):
            return "data-parallel gradient sum"
        if not getattr(eqn.outvars[0].aval, "shape", (1,)):
            return "sum of a loss over devices"
    return ""


def _is_gradient(eqn: JaxprEqn, stages: ProgramStages) -> bool:
    """Whether the result of an equation has the type of an argument, in any order of its dimensions."""
    shape = sorted(getattr(eqn.outvars[0].aval, "shape", ()))
    return any(sorted(getattr(a, "shape", (-1,))) == shape for a in stages.closed.in_avals)


def _patterns(mine: Sequence[Transfer], known: dict[int, str], program: int) -> tuple[Pattern, ...]:
    groups: dict[tuple[str, tuple[str, ...]], list[Transfer]] = {}
    for n, name in known.items():
        groups.setdefault((name, mine[n].axes), []).append(mine[n])
    return tuple(
        Pattern(
            name,
            len(of),
            sum(t.sent_in_run for t in of),
            axes,
            tuple(dict.fromkeys(t.equation for t in of)),
            program,
        )
        for (name, axes), of in sorted(groups.items(), key=lambda g: -len(g[1]))
    )


def _collective(t: Transfer) -> Finding:
    often = 1 if t.times is None else t.times
    proof = "compiled like that: it is gone, and nothing larger is in its place" if t.tried else ""
    return Finding(
        "full rematerialization" if t.full_rematerialization else "removable collective",
        t.reason or f"{t.kind} of {t.operand or t.value}",
        t.sent_in_run,
        (t.predicted_us or 0.0) * often,
        t.fix if t.tried else "",
        proof,
        "collectives",
        t.source,
        t.equation,
        t.program,
    )


def _constants(stages: ProgramStages, program: int) -> Iterable[Finding]:
    """Arrays that a function takes from around it: they are a part of the program, and traced anew with another value."""
    jaxpr = stages.closed.jaxpr
    for v in jaxpr.constvars:
        nbytes = bytes_of([v.aval])
        if nbytes < LEAST_CONSTANT:
            continue
        user = next((e for e in jaxpr.eqns if any(a is v for a in e.invars)), None)
        yield Finding(
            "captured constant",
            f"an array {v.aval.str_short()} of {size_text(nbytes)} is a constant of the program, not an argument",
            nbytes,
            change="give it to the function as an argument",
            source=_names.source_of(user) if user is not None else None,
            equation=stages.numbers[id(user)] if user is not None else -1,
            program=program,
        )


def _arguments(stages: ProgramStages, program: int) -> Iterable[Finding]:
    """Arguments that nothing reads, and those that come back as they are."""
    jaxpr = stages.closed.jaxpr
    read = {a for e in jaxpr.eqns for a in e.invars if isinstance(a, Var)}
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    for i, v in enumerate(jaxpr.invars):
        name, nbytes = jaxpr.debug_info.arg_name(i), bytes_of([v.aval])
        if v not in read and v not in returned:
            text, kind = f"`{name}` is given and not used", "unused argument"
            change = "leave it out of the call"
        elif v in returned and v not in read:
            text, kind = f"`{name}` comes back as it was given", "returned argument"
            change = "do not return it: the caller has it"
        else:
            continue
        yield Finding(kind, text, nbytes, change=change, program=program)
