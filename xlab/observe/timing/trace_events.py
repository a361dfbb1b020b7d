"""Phases, and what devices did, as Chrome trace events, the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
import os
from typing import Any

from xlab.observe.records import Phase, Timing
from xlab.observe.records.timeline import Operation, Timeline

_SHOWN = {"execute": "run", "cache_hit": "cache hit", "cache_miss": "cache miss"}


def trace_events(
    title: str,
    phases: tuple[Phase, ...],
    measured: tuple[Timing, ...] = (),
    path: str | os.PathLike[str] | None = None,
    timelines: tuple[Timeline, ...] = (),
) -> dict[str, Any]:
    """Phases, measured steady runs and device timelines as a trace; written to a file when `path` is given."""
    rows = _rows(phases)
    events: list[dict[str, Any]] = [
        named("process_name", 1, 0, title),
        *(
            named("thread_name", 1, n + 1, f"phases {n + 1}" if n else "phases")
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
    # Another clock saw the devices, in runs that came later: they stand behind the phases.
    behind = round(max((p.start_us + p.duration_us for p in phases), default=0.0), 3)
    for n, line in enumerate(timelines):
        events += device_events(line, n + 2, behind)
    return write_trace(events, {"steady runs": [t.to_json() for t in measured]}, path)


def write_trace(
    events: list[dict[str, Any]], other: dict[str, Any], path: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """Events as a trace, with what else is to be told; written to a file when `path` is given."""
    made = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(made, file)
    return made


def named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """The name of a process or of one of its rows (`kind` is `process_name`, `thread_name`)."""
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def span(
    name: str, kind: str, pid: int, tid: int, at: float, time: float, args: dict | None = None
) -> dict[str, Any]:
    """Something that takes time, in a row; `at` and `time` in microseconds."""
    return {
        "name": name, "cat": kind, "ph": "X", "pid": pid, "tid": tid, "ts": round(at, 3), "dur": round(max(time, 0.0), 3),
        "args": args or {},
    }  # fmt: skip


LANES = 64
"""Numbers of rows that a device may have."""


def device_events(line: Timeline, pid: int, behind: float = 0.0) -> list[dict[str, Any]]:
    """A timeline as a process: a row per device and lane, arrows between the executions of a collective, counters of memory."""
    name = f"devices of {line.function}"
    out: list[dict[str, Any]] = [named("process_name", pid, 0, name)]
    row = lambda o: o.device * LANES + o.lane + 1
    at = lambda us: round(us + behind, 3)
    for device, lane in sorted({(o.device, o.lane) for o in line.operations}):
        shown = f"device {device}" + (f", beside {lane}" if lane else "")
        out.append(named("thread_name", pid, device * LANES + lane + 1, shown))
    meetings: dict[int, list[Operation]] = {}
    for o in line.operations:
        args = {"equation": o.equation, "line": o.where} if o.equation >= 0 else {}
        out.append(span(o.instruction, o.kind, pid, row(o), at(o.start_us), o.duration_us, args))
        out += [span("wait", "wait", pid, row(o), at(start), end - start) for start, end in o.waits]
        if o.meeting >= 0:
            meetings.setdefault(o.meeting, []).append(o)
    for number, members in meetings.items():
        late = next((o for o in members if o.device == o.late), None)
        for o in members if late is not None else ():
            if late is None or o is late or not o.start_us <= late.start_us <= o.end_us:
                continue
            flow = {
                "name": o.instruction,
                "cat": "meeting",
                "id": number * LANES * LANES + o.device,
                "pid": pid,
                "ts": at(late.start_us),
            }
            out.append({**flow, "ph": "s", "tid": row(late)})
            out.append({**flow, "ph": "f", "bp": "e", "tid": row(o)})
    for device, points in line.memory:
        out += [
            {
                "name": f"memory of device {device}",
                "ph": "C",
                "pid": pid,
                "ts": at(us),
                "args": {"bytes": size},
            }
            for us, size in points
        ]
    return out


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
