"""Arguments that nothing reads, and those that come back as they are."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlab.core.jaxpr import Var
from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, peak
from xlab.observe.programs.signatures import same_compiled, without_arguments, without_results
from xlab.observe.records.finding import Amount, Finding
from xlab.observe.records.units import listed

NAMED = 4
"""Arrays of an argument that are named where it has others that are needed."""


@kind("unused argument", "returned argument", last=True)
def arguments(at: Inspection) -> Iterable[Finding]:
    """Arguments that the program does not need; the arrays of one argument of the function are one finding."""
    jaxpr = at.stages.closed.jaxpr
    read = {a for e in jaxpr.eqns for a in e.invars if isinstance(a, Var)}
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    numbers = {h: [i for i in range(len(jaxpr.invars)) if at.heads([i]) == (h,)] for h in at.heads(range(len(jaxpr.invars)))}  # fmt: skip
    for whole in numbers.values():
        spare = [i for i in whole if jaxpr.invars[i] not in read]
        unused = [i for i in spare if jaxpr.invars[i] not in returned]
        if unused:
            yield from _unused(at, unused, len(unused) == len(whole))
        back = [i for i in spare if jaxpr.invars[i] in returned]
        if back:
            yield from _returned(at, back, len(back) == len(whole))


def _named(at: Inspection, of: list[int], whole: bool) -> str:
    """Arrays as one argument of the function where they are all of it."""
    info = at.stages.closed.jaxpr.debug_info
    if whole and len(of) > 1:
        return f"`{at.heads(of)[0]}`, {len(of)} arrays,"
    return listed([f"`{info.arg_name(i)}`" for i in of], NAMED, "array")


def _bytes(at: Inspection, of: list[int]) -> int:
    return bytes_of([at.stages.closed.in_avals[i] for i in of])


def _unused(at: Inspection, of: list[int], whole: bool) -> Iterable[Finding]:
    one = whole or len(of) == 1
    found = at.finding(
        "unused argument",
        f"{_named(at, of, whole)} {'is' if one else 'are'} given and not used",
        nbytes=_bytes(at, of),
    )
    yield from at.offered(
        found,
        f"leave {'it' if one else 'them'} out of the call",
        functools.partial(without_arguments, at.stages, of),
        _less_given,
        lowers=True,
        holds=True,
    )


def _less_given(before: Measures, after: Measures) -> Proof | None:
    given = lambda m: bytes_of(m.stages.closed.in_avals)
    outcome = [Amount("given at a call", given(before), given(after))]
    if same_compiled(before.stages, after.stages):
        return Proof(
            "compiled without",
            tuple(outcome),
            ", and the compiled program, which leaves out what it does not read, is the same",
        )
    b, a = before.memory.arguments, after.memory.arguments
    if a > b or after.peak > before.peak:
        return None
    outcome += [Amount("arguments per device", b, a), peak(before, after)]
    return Proof("compiled without", tuple(outcome))


def _returned(at: Inspection, of: list[int], whole: bool) -> Iterable[Finding]:
    jaxpr, one = at.stages.closed.jaxpr, whole or len(of) == 1
    given = {jaxpr.invars[i] for i in of}
    results = [n for n, v in enumerate(jaxpr.outvars) if isinstance(v, Var) and v in given]
    it = "it" if one else "them"
    found = at.finding(
        "returned argument",
        f"{_named(at, of, whole)} {'comes' if one else 'come'} back as {'it was' if one else 'they were'} given",
        nbytes=_bytes(at, of),
    )
    # A caller has not any more what was donated.
    donated = any(i in at.stages.lowered.donated for i in of)
    yield from at.offered(
        found,
        f"neither give nor return {it}: the caller keeps {it}"
        if donated
        else f"do not return {it}: the caller has {it}",
        functools.partial(without_results, at.stages, results, of),
        _less_returned,
        holds=True,
    )


def _less_returned(before: Measures, after: Measures) -> Proof | None:
    b, a = before.memory.outputs, after.memory.outputs
    if a >= b or after.peak > before.peak:
        return None
    outcome = Amount("results per device", b, a), peak(before, after)
    return Proof("compiled without", outcome)
