"""Large arguments that every device holds whole, though they could be split for nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import LEAST, Inspection, kind, proven
from xlab.observe.overview.measures import Measures, Proof, operations, peak, sent
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import plural, size_text
from xlab.observe.sharding.experiment import BaseExperiment, placements_of
from xlab.observe.sharding.reasons import spec_text

MOST = 3
"""Arguments, and placements of each, that are tried."""


@kind("replicated value")
def replicated_values(at: Inspection) -> Iterable[Finding]:
    """Arguments that a split makes smaller on each device without more being sent."""
    mesh = at.stages.mesh
    if mesh is None or at.tries < 1 or not getattr(mesh, "are_all_axes_auto", False):
        return
    try:
        trying = BaseExperiment(at.stages)
    except ValueError:
        return
    shardings, avals = at.shardings, at.stages.closed.in_avals
    whole = [
        (bytes_of([avals[a]]), n, a)
        for n, a in enumerate(trying.arguments)
        if bytes_of([avals[a]]) >= LEAST and getattr(shardings[a], "is_fully_replicated", True)
    ]
    for nbytes, n, a in sorted(whole, reverse=True)[:MOST]:
        options = sorted(
            (s for s in placements_of(trying.shapes[n], at.sizes) if any(s)),
            key=functools.partial(_order, at, trying.shapes[n]),
        )
        best: tuple[Measures, tuple] | None = None
        for spec in options[:MOST]:
            made = at.tried(("placed", n, spec), functools.partial(trying.placed, {n: spec}))
            if made is not None and _better(at.before, made, nbytes) and (
                best is None or (made.peak, made.flops) < (best[0].peak, best[0].flops)
            ):  # fmt: skip
                best = made, spec
        if best is None:
            continue
        made, spec = best
        name = trying.names[n]
        reader = next(iter(at.readers.get(at.stages.closed.jaxpr.invars[a], ())), None)
        work = (operations(at.before, made),) if made.flops < 0.98 * at.before.flops else ()
        outcome = peak(at.before, made), sent(at.before, made), *work
        found = at.finding(
            "replicated value",
            f"`{name}` of {size_text(nbytes)} is whole on each of {plural(mesh.size, 'device')}",
            reader,
            nbytes=nbytes - nbytes // at.ways(spec),
            tab="shardings",
        )
        change = f"give `{name}` the sharding {spec_text(spec)} where it is made"
        yield at.timed(proven(found, change, Proof("compiled like that", outcome)), made.stages)


def _order(at: Inspection, shape: Sequence[int], spec: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Placements that split most first, of these those that leave no narrow dimension."""
    narrowest = min(size // at.ways([axes]) for size, axes in zip(shape, spec))
    return -sum(map(len, spec)), -narrowest


def _better(before: Measures, after: Measures, nbytes: int) -> bool:
    """Whether a good part of the value is no longer there, and nothing more is sent or computed."""
    return (
        after.peak <= before.peak - nbytes // 4
        and after.sent <= before.sent
        and after.flops <= 1.02 * before.flops + 64
    )
