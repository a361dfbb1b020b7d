"""Collectives that another sharding removes or makes smaller, and arrays that every device rebuilds to keep a part."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlab.observe.overview.inspection import Inspection, kind, proven
from xlab.observe.overview.measures import Measures, Proof, grown_peak, sent
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Amount, Finding, amount_text
from xlab.observe.sharding.advice import compiled_as_advised
from xlab.observe.sharding.experiment import BaseExperiment, placements_of
from xlab.observe.sharding.reasons import spec_text

MOST_SMALLER = 2
"""Collectives for which other placements are tried."""

MOST = 6
"""Placements that are tried for one collective."""

LESS = 0.9
"""The part of what is sent that may be left of it for a word on it."""


@kind("removable collective", "full rematerialization", "smaller collective", "resharding")
def removable(at: Inspection) -> Iterable[Finding]:
    """Collectives that a sharding removes, as it was compiled; and those that nobody wrote and for which no better is known."""
    left: list[Transfer] = []
    told: dict[tuple, Finding] = {}
    for t in sorted(at.surprises, key=lambda t: not t.full_rematerialization):
        if (t.reshards and t.fix and t.tried) or t.full_rematerialization:
            found = _finding(at, t)
            # What one change takes away is one finding.
            key = t.equation, found.change or t.instruction
            told[key] = _joined(told.get(key), found)
        else:
            left.append(t)
    for (_, change), found in told.items():
        made = compiled_as_advised(at.stages, change) if found.proof else None
        if made is not None:
            less = Amount("sent per device", at.before.sent, made.sent)
            found = found.replace(proof=f"{found.proof}; {amount_text(less)}", outcome=(less,))
        yield at.timed(found, made.stages if made is not None else None)
    groups: dict[int, list[Transfer]] = {}
    for t in left:
        groups.setdefault(t.equation if t.equation >= 0 else -1 - len(groups), []).append(t)
    tried = [g for g in groups if not any(g == equation for equation, *_ in told)]
    tried = sorted(tried, key=lambda g: -sum(t.sent_in_run for t in groups[g]))
    for g, of in groups.items():
        largest = max(of, key=lambda t: t.sent_in_run)
        smaller = next(iter(_smaller(at, largest)), None) if g in tried[:MOST_SMALLER] else None
        whole: Finding | None = None
        for t in of:
            whole = _joined(whole, _resharding(at, t))
        if whole is not None:
            yield (
                whole
                if smaller is None
                else smaller.replace(
                    nbytes=whole.nbytes, us=whole.us, collectives=whole.collectives
                )
            )


def _joined(first: Finding | None, more: Finding) -> Finding:
    """A finding with what another one is about too."""
    if first is None:
        return more
    return first.replace(
        nbytes=first.nbytes + more.nbytes,
        us=first.us + more.us,
        collectives=first.collectives + more.collectives,
    )


def _resharding(at: Inspection, t: Transfer) -> Finding:
    """A collective for which no change is known."""
    return _finding(at, t).replace(kind="resharding", change="", proof="")


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
        collectives=1,
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
        tab="collectives",
        source=t.source,
    )
    outcome = sent(at.before, made), *grown_peak(at.before, made, 1.02)
    change = f"give `{trying.names[number]}` the sharding {spec_text(spec)} where it is made"
    yield at.timed(proven(found, change, Proof("compiled like that", outcome)), made.stages)
