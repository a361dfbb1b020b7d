"""Times: phases of a recording, and cold and warm times of functions."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form, add_table, limited
from xlab.observe.records.units import plural, time_text


@record_type
class Phase(Record):
    """A stretch of time. `start_us` counts from the start of the recording; `parent` is an index in the same tuple, or -1.

    `kind` is `trace`, `lower`, `compile`, `cache_hit`, `cache_miss`, `execute`, `gate` (waiting until all processes
    are about to start the same program) or `transfer`. `cache` is `hit` or `miss`, with
    `where` it was looked up (`memory`, `disk`) and the `reason` for a miss; of a transfer, `reason` is the
    way the data took. `steady` marks a run that is not the first. `thread` numbers the threads of the recording in the order in which they
    begin something.
    """

    kind: str
    function: str
    start_us: float = 0.0
    duration_us: float = 0.0
    depth: int = 0
    parent: int = -1
    cache: str = ""
    where: str = ""
    reason: str = ""
    steady: bool = False
    error: str = ""
    thread: int = 0


@record_type
class Timing(Record):
    """Cold and warm time of one function, never mixed: `warm_us` is the median of `runs` steady runs. `note` says why a time is not there.

    `made_by` says who traced and compiled it, where that was not this package.
    """

    function: str
    cold_us: float | None = None
    warm_us: float | None = None
    spread_us: float | None = None
    runs: int = 0
    note: str = ""
    made_by: str = ""


def phase_text(p: Phase, o: Options) -> str:
    outcome = f" {p.cache} ({p.where})" if p.cache and p.where else f" {p.cache}" if p.cache else ""
    return (
        f"{p.kind} {p.function}{outcome}"
        + (f" {time_text(p.duration_us)}" if o.times else "")
        + (f": {p.reason}" if p.reason else "")
        + (f" failed: {p.error}" if p.error else "")
    )


def phases_table(phases: Sequence[Phase], o: Options) -> str:
    shown, more = limited(phases, o, "phase")
    return "\n".join(["  " + "  " * p.depth + phase_text(p, o) for p in shown] + more)


def warm_text(t: Timing) -> str:
    """`12.0 μs ± 1.0 μs (20 runs)`: median and spread of the steady runs; empty where there were none."""
    if t.warm_us is None:
        return ""
    spread = f" ± {time_text(t.spread_us)}" if t.spread_us is not None else ""
    return f"{time_text(t.warm_us)}{spread} ({plural(t.runs, 'run')})"


def timing_text(t: Timing, o: Options) -> str:
    if not o.times:
        runs = plural(t.runs, "steady run") if t.runs else "no steady run"
        return f"{t.function}: {runs}" + (f" (no cold time: {t.note})" if t.note else "")
    parts = []
    if t.cold_us is not None:
        parts.append(f"cold {time_text(t.cold_us)}")
    if t.warm_us is not None:
        parts.append(f"warm {warm_text(t)}")
    if t.note:
        parts.append(f"(no cold time: {t.note})")
    return f"{t.function}: " + ("   ".join(parts) or "not run")


add_form(Phase, phase_text)
add_table(Phase, phases_table)
add_form(Timing, timing_text)
