"""What one process of several knows of a recording: its own part of what `merge` joins."""

from __future__ import annotations

import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlab import events
from xlab.backend import client as _client
from xlab.compile import launching
from xlab.observe.programs.recorder import Session
from xlab.observe.records import Ledger, Phase, Transfer
from xlab.observe.records.processes import Attendance, Launch, Processes, ProcessInfo
from xlab.observe.timing.profile import Times
from xlab.parallel import group

MOST_PHASES = 400
MOST_LAUNCHES = 400
MOST_TIMES = 2000
"""Times of a device at a collective that a record has, of all its collectives."""
_OF_A_CACHE = ("cache_hit", "cache_miss")


def own_part(
    session: Session,
    transfers: Sequence[Transfer] = (),
    phases: Sequence[Phase] = (),
    ledger: Ledger | None = None,
    held: Callable[[], Mapping[int, int]] = dict,
) -> Processes | None:
    """This process's part of a recording; None where it works alone.

    Args:
        session: the recording.
        transfers, phases, ledger: what the report says of it.
        held: gives the bytes of live arrays on each device.
    """
    if not _client.started() or _client.process_count() < 2:
        return None
    index = _client.process_index()
    begun_us = (_between_clocks_ns() + session.start_ns) / 1e3
    ended = session.end_ns or events.clock()
    own = tuple(d.id for d in _client.local_devices())
    arrays = held()
    info = ProcessInfo(
        index,
        socket.gethostname(),
        os.getpid(),
        own,
        begun_us,
        (ended - session.start_ns) / 1e3,
        resident=group.resident_bytes(),
        live_bytes=sum(arrays.get(d, 0) for d in own),
        phases=tuple(
            p.replace(parent=-1, depth=min(p.depth, 1))
            for p in phases
            if p.kind not in _OF_A_CACHE and (p.depth == 0 or p.kind in ("compile", "gate"))
        )[:MOST_PHASES],
        compiles=tuple(
            (c.function, c.duration_us, c.cache)
            for c in (ledger.entries if ledger is not None else ())
            if not c.shared
        ),
        error=f"{type(session.error).__name__}: {session.error}" if session.error else "",
    )
    return Processes(
        _client.process_count(),
        (info,),
        _launches(session, index),
        _attendance(session, transfers, index, begun_us),
    )


def _between_clocks_ns() -> int:
    """What the clock of other processes says more than the one that events count by; of several readings that between which least time went by,
    for a busy machine may stop this process between two clocks."""
    found = []
    for _ in range(5):
        before, there, after = events.clock(), time.time_ns(), events.clock()
        found.append((after - before, there - (before + after) // 2))
    return min(found)[1]


def _launches(session: Session, index: int) -> tuple[Launch, ...]:
    gates = [e for e in session.events if e.kind == "gate"]
    out: list[Launch] = []
    for e in sorted(session.events, key=lambda e: e.start_ns):
        executable = e.attrs.get("executable")
        if e.kind != "execute" or not getattr(executable, "across_processes", False):
            continue
        inside = [
            g
            for g in gates
            if g.thread == e.thread and e.start_ns <= g.start_ns and g.end_ns <= e.end_ns
        ]
        out.append(
            Launch(
                index,
                len(out),
                str(e.attrs.get("name", "")),
                launching.fingerprint(executable),
                str(inside[0].attrs.get("line", "")) if inside else "",
                (e.start_ns - session.start_ns) / 1e3,
                (e.end_ns - session.start_ns) / 1e3,
                sum(g.duration_ns for g in inside) / 1e3,
            )
        )
        if len(out) == MOST_LAUNCHES:
            break
    return tuple(out)


def _attendance(
    session: Session, transfers: Sequence[Transfer], index: int, begun_us: float
) -> tuple[Attendance, ...]:
    """When this process's devices came to each collective, as far as a profile says."""
    taken: Any = session.profile
    module = ""
    if isinstance(taken, Times):
        taken, module = taken.taken, taken.module
    if taken is None or not taken.begun_ns:
        return ()
    names = _modules(session)
    seen: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    shift = taken.begun_ns / 1e3 - begun_us
    for e in sorted(taken.instructions, key=lambda e: e.start_ns):
        seen[e.hlo_module, e.hlo_op][e.device].append(
            (round(e.start_ns / 1e3 + shift, 3), round(e.end_ns / 1e3 + shift, 3))
        )
    groups = []
    for t in transfers:
        known = names.get(t.program)
        if not t.instruction or known is None or (module and known[1] != module):
            continue
        found = seen.get((known[0], t.instruction)) or seen.get(("", t.instruction)) or {}
        for members in _members(t):
            here = {d: found[d] for d in members if d in found}
            if here and len(members) > len(here):
                groups.append((t, members, here))
    each = MOST_TIMES // max(1, sum(len(here) for _, _, here in groups))
    return tuple(
        Attendance(
            t.call or t.kind,
            t.instruction,
            t.kind,
            t.program,
            t.equation,
            f"{t.source.file}:{t.source.line}" if t.source is not None else "",
            members,
            tuple(
                tuple((index, d, *spans[k]) for d, spans in here.items() if k < len(spans))
                for k in range(min(each, max(map(len, here.values()))))
            ),
        )
        for t, members, here in groups
    )


def _modules(session: Session) -> dict[int, tuple[str, str]]:
    """The name and the text of each program's compiled module."""
    out = {}
    for n, stages in enumerate(session.subjects):
        try:
            out[n] = stages.hlo.name, stages.hlo.text
        except Exception:  # what cannot be shown has a notice already
            continue
    return out


def _members(t: Transfer) -> tuple[tuple[int, ...], ...]:
    if t.groups:
        return t.groups
    if t.pairs:
        return (tuple(sorted({d for pair in t.pairs for d in pair})),)
    return (t.mesh.device_ids,) if t.mesh is not None else ()
