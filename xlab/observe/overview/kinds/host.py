"""Calls of the host in a step: the device waits for Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlab.core.jaxpr import JaxprEqn, Var
from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import EquationPlace, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof
from xlab.observe.programs.rewriting import changed
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Amount, Finding
from xlab.observe.records.units import size_text

CALL_US = 50.0
"""Microseconds of a call of Python from a program, about."""

_WATCHES = frozenset(("debug_callback", "debug_print"))
_CALLS = frozenset(("pure_callback", "io_callback"))


@kind("host transfer")
def host_transfers(at: Inspection) -> Iterable[Finding]:
    """Each place at which a step goes through the host, with how often."""
    for place in at.places:
        eqn = place.eqn
        name = eqn.primitive.name
        if name not in _WATCHES and name not in _CALLS:
            continue
        often = 1 if place.times is None else place.times
        nbytes = often * (bytes_of([v.aval for v in eqn.invars]) + bytes_of([v.aval for v in eqn.outvars]))  # fmt: skip
        step = "once a step" if often == 1 else f"{often:,} times a step"
        times = "each round of a loop" if place.times is None else step
        found = at.finding(
            "host transfer",
            f"{name} calls Python {times}, with {size_text(nbytes)} to or from the host",
            eqn,
            nbytes=nbytes,
            us=often * CALL_US,
        )
        yield from _watching(at, found, place) if name in _WATCHES else _calling(at, found, place)


def _watching(at: Inspection, found: Finding, place: EquationPlace) -> Iterable[Finding]:
    """What only looks can go, or look once."""
    eqn = place.eqn
    where = "print after the step what it returns, or take the line out"
    if place.loops:
        where = "let the loop return the value and print it after the step, or take the line out"
    yield from at.offered(found, where, lambda: _without(at, eqn), _fewer_calls)


def _calling(at: Inspection, found: Finding, place: EquationPlace) -> Iterable[Finding]:
    """What reads arguments alone can be called before the step."""
    eqn = place.eqn
    operands = [a for a in eqn.invars if type(a) is Var]
    jaxpr = at.stages.closed.jaxpr
    if all(at.argument_of(a) >= 0 for a in operands) and place.jaxpr is jaxpr:
        yield from at.offered(
            found,
            "call it before the step and give its result as an argument: it reads arguments alone",
            lambda: _without(at, eqn),
            _fewer_calls,
        )
    else:
        yield found


def _without(at: Inspection, eqn: JaxprEqn) -> ProgramStages:
    """The program without a call of the host; zeros stand for what it gives."""
    avals: list[Any] = [v.aval for v in eqn.outvars]
    zeros = [np.zeros(a.shape, a.dtype) for a in avals]
    return changed(at.stages, lambda _eqn, _given: zeros, [eqn])


def _fewer_calls(before: Measures, after: Measures) -> Proof | None:
    count = lambda m: sum(
        i.opcode in ("custom-call", "outfeed", "send", "infeed") and "callback" in i.attributes.lower()
        for c in m.stages.hlo.computations.values()
        for i in c.instructions
    )  # fmt: skip
    b, a = count(before), count(after)
    calls = Amount("calls of the host", b, a, "")
    return Proof("compiled like that", (calls,)) if a < b else None
