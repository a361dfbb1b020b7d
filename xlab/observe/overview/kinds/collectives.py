"""Collectives that another sharding removes or makes smaller, and arrays that every device rebuilds to keep a part."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlab.observe.overview.inspection import Inspection, Measures, kind
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import size_text
from xlab.observe.sharding.advice import compiled_as_advised
from xlab.observe.sharding.experiment import BaseExperiment, placements_of
from xlab.observe.sharding.reasons import spec_text

MOST = 6
"""Placements that are tried for one collective."""

LESS = 0.9
"""The part of what is sent that may be left of it for a word on it."""


@kind("removable collective", "full rematerialization", "smaller collective")
def removable(at: Inspection) -> Iterable[Finding]:
    """Collectives that a sharding removes, as it was compiled."""
    left: list[Transfer] = []
    told: dict[tuple, Finding] = {}
    for t in sorted(at.surprises, key=lambda t: not t.full_rematerialization):
        if (t.reshards and t.fix and t.tried) or t.full_rematerialization:
            found = _finding(at, t)
            # What one change takes away is one finding.
            key = t.equation, found.change or t.instruction
            first = told.get(key)
            told[key] = (
                found
                if first is None
                else first.replace(nbytes=first.nbytes + found.nbytes, us=first.us + found.us)
            )
        elif t.reshards:
            left.append(t)
    for (_, change), found in told.items():
        yield at.timed(found, compiled_as_advised(at.stages, change) if found.proof else None)
    left = [t for t in left if not any(t.equation == equation for equation, *_ in told)]
    for t in sorted(left, key=lambda t: -t.sent_in_run)[:2]:
        yield from _smaller(at, t)


def _finding(at: Inspection, t: Transfer) -> Finding:
    often = 1 if t.times is None else t.times
    return at.finding(
        "full rematerialization" if t.full_rematerialization else "removable collective",
        t.reason or f"{t.kind} of {t.operand or t.value}",
        at.stages.equations.get(t.equation),
        nbytes=t.sent_in_run,
        us=(t.predicted_us or 0.0) * often,
        change=t.fix if t.tried else "",
        proof="compiled like that: it is gone, and nothing larger is in its place"
        if t.tried
        else "",
        tab="collectives",
        source=t.source,
        equation=t.equation,
    )


def _smaller(at: Inspection, t: Transfer) -> Iterable[Finding]:
    """A collective that stays, and sends less under another placement of an argument that it moves."""
    eqn = at.stages.equations.get(t.equation)
    mesh = at.stages.mesh
    if eqn is None or at.tries < 1 or mesh is None or not getattr(mesh, "are_all_axes_auto", False):
        return
    try:
        trying = BaseExperiment(at.stages)
    except ValueError:
        return
    best: tuple[Measures, int, tuple] | None = None
    for a in dict.fromkeys(at.argument_of(v) for v in eqn.invars):
        if a < 0 or a not in trying.arguments:
            continue
        number = trying.arguments.index(a)
        for spec in list(placements_of(trying.shapes[number], at.sizes))[:MOST]:
            if not any(spec):
                continue
            made = at.tried(
                ("placed", number, spec), functools.partial(trying.placed, {number: spec})
            )
            if made is None or made.flops > 1.02 * at.before.flops + 64:
                continue
            if made.sent < LESS * (best[0].sent if best else at.before.sent):
                best = made, number, spec
    if best is None:
        return
    made, number, spec = best
    found = at.finding(
        "smaller collective",
        t.reason or f"{t.kind} of {t.operand or t.value}",
        eqn,
        nbytes=t.sent_in_run,
        us=(t.predicted_us or 0.0) * (t.times or 1),
        change=f"give `{trying.names[number]}` the sharding {spec_text(spec)} where it is made",
        proof=f"compiled like that: sent per device {size_text(at.before.sent)} → {size_text(made.sent)}"
        + (
            f", peak {size_text(at.before.peak)} → {size_text(made.peak)}"
            if made.peak > 1.02 * at.before.peak
            else ""
        ),
        tab="collectives",
        source=t.source,
    )
    yield at.timed(found, made.stages)
