"""Several processes as Chrome trace events: a track per process, its phases and its devices in rows, arrows to those that waited."""

from __future__ import annotations

import math
from typing import Any

from xlab.observe.records.processes import Processes, clock_text, launched, waits
from xlab.observe.timing.trace_events import named, span

_HOST, _LAUNCHES, _DEVICES = 1, 2, 3
"""Rows of a process: its phases, the programs that it started, its devices."""


def process_tracks(p: Processes) -> list[dict[str, Any]]:
    """Processes as events.

    >>> from xlab.observe.records.processes import Attendance, ProcessInfo
    >>> met = ((0, 0, 0.0, 58.0), (1, 1, 55.0, 59.0))
    >>> found = process_tracks(Processes(2, (ProcessInfo(0), ProcessInfo(1)), (), (Attendance("psum", "ar", members=(0, 1), times=(met,)),)))
    >>> [(e["pid"], e["name"], e["ts"], e["dur"]) for e in found if e["ph"] == "X"]
    [(1, 'psum, waiting', 0.0, 55.0), (1, 'psum', 55.0, 3.0), (2, 'psum', 55.0, 4.0)]
    """
    events: list[dict[str, Any]] = []
    for m in p.members:
        pid = m.index + 1
        where = f"process {m.index}" + (f" on {m.host}" if m.host else "")
        rows = {_HOST: "phases", _LAUNCHES: "programs"}
        rows.update({_DEVICES + n: f"device {d}" for n, d in enumerate(m.devices)})
        events += [
            named("process_name", pid, 0, where),
            {"name": "process_labels", "ph": "M", "pid": pid, "tid": 0,
             "args": {"labels": f"clock {clock_text(m)}"}},
            {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": {"sort_index": m.index}},
            *(named("thread_name", pid, row, name) for row, name in rows.items()),
        ]  # fmt: skip
        events += [
            span(f"{x.kind} {x.function}".strip(), x.kind, pid, _HOST, x.start_us, x.duration_us)
            for x in m.phases
        ]
    for together in launched(p):
        for x in together:
            args = {"number": x.number, "program": x.fingerprint, "line": x.where}
            pid = x.process + 1
            events.append(
                span(x.program, "launch", pid, _LAUNCHES, x.begun_us, x.ended_us - x.begun_us, args)
            )
            if x.gate_us:
                events.append(span("gate", "gate", pid, _LAUNCHES, x.begun_us, x.gate_us))
    place = {(m.index, d): n + _DEVICES for m in p.members for n, d in enumerate(m.devices)}
    number = 0
    for a in p.attendance:
        for met in a.meetings():
            late = max(met, key=lambda x: x[2])
            row = lambda x: {
                "pid": x[0] + 1,
                "tid": place.get((x[0], x[1]), _DEVICES + max(x[1], 0)),
            }
            for one, (_, _, waited, moved) in zip(met, waits(met), strict=True):
                at = row(one)
                if waited:
                    events.append(
                        span(
                            f"{a.call}, waiting", "wait", at["pid"], at["tid"], one[2], waited,
                            {"for process": late[0], "line": a.where},
                        )
                    )  # fmt: skip
                events.append(
                    span(
                        a.call, "collective", at["pid"], at["tid"], one[2] + waited, moved,
                        {"instruction": a.instruction, "line": a.where},
                    )
                )  # fmt: skip
                if one[0] != late[0]:
                    number += 1
                    flow = {"name": a.call, "cat": "meeting", "id": number, "ts": round(late[2], 3)}
                    events.append({**flow, "ph": "s", **row(late)})
                    events.append({**flow, "ph": "f", "bp": "e", **at})
    return [e for e in events if all(math.isfinite(e.get(k, 0.0)) for k in ("ts", "dur"))]
