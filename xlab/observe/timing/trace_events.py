"""Phases as Chrome trace events, the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
import os
from typing import Any

from xlab.observe.records import Phase, Timing

_SHOWN = {"execute": "run", "cache_hit": "cache hit", "cache_miss": "cache miss"}


def trace_events(
    title: str,
    phases: tuple[Phase, ...],
    measured: tuple[Timing, ...] = (),
    path: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Phases and measured steady runs as a trace; written to a file when `path` is given."""
    rows = _rows(phases)
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": title}},
        *(
            {
                "name": "thread_name",
                "ph": "M",
                "pid": 1,
                "tid": n + 1,
                "args": {"name": f"phases {n + 1}" if n else "phases"},
            }
            for n in range(max(rows, default=0) + 1)
        ),
    ]
    for phase, row in zip(phases, rows, strict=True):
        name = f"{_SHOWN.get(phase.kind, phase.kind)} {phase.function}".rstrip()
        event = {
            "name": name,
            "cat": phase.kind,
            "ts": phase.start_us,
            "pid": 1,
            "tid": row + 1,
            "args": _arguments(phase),
        }
        events.append(
            {**event, "ph": "X", "dur": phase.duration_us}
            if phase.duration_us > 0
            else {**event, "ph": "i", "s": "t"}
        )
    made = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"steady runs": [t.to_json() for t in measured]},
    }
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(made, file)
    return made


def _arguments(phase: Phase) -> dict[str, Any]:
    found = {
        "function": phase.function,
        "reason": phase.reason,
        "where": phase.where,
        "error": phase.error,
        "run": ("steady" if phase.steady else "first") if phase.kind == "execute" else "",
    }
    return {k: v for k, v in found.items() if v}


def _rows(phases: tuple[Phase, ...]) -> list[int]:
    """A row per phase: that of the phase around it, otherwise the first that is free."""
    free: list[float] = []
    out: list[int] = []
    for p in phases:
        if 0 <= p.parent < len(out):
            out.append(out[p.parent])
            continue
        row = next((n for n, end in enumerate(free) if end <= p.start_us), len(free))
        free[row : row + 1] = [p.start_us + p.duration_us]
        out.append(row)
    return out
