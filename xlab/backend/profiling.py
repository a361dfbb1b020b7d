"""What ran when: one event per HLO instruction and device, waits of collectives, and passes of the compiler.

Example:
    >>> with profile() as taken:
    ...     pass
    >>> taken.instructions
    ()
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class InstructionEvent:
    """One execution of one HLO instruction on one device, in nanoseconds since the session began.

    `wait_ns` is the part a collective spent waiting for other devices; `waits` are when.
    """

    hlo_op: str
    hlo_module: str
    device: int
    run: int
    start_ns: float
    end_ns: float
    wait_ns: float = 0.0
    waits: tuple[tuple[float, float], ...] = ()

    @property
    def duration_ns(self) -> float:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class HostEvent:
    """Something the runtime or the compiler did on a host thread: a launch, a compiler pass, a marker."""

    name: str
    thread: str
    start_ns: float
    end_ns: float
    stats: tuple[tuple[str, Any], ...] = ()

    @property
    def duration_ns(self) -> float:
        return self.end_ns - self.start_ns


@dataclass
class Profile:
    """What a session saw; filled when its `with` block ends."""

    instructions: tuple[InstructionEvent, ...] = ()
    host: tuple[HostEvent, ...] = ()
    raw: bytes | None = field(default=None, repr=False)
    begun_ns: int = 0
    """The time from which events count, in nanoseconds since 1970 by this machine's clock; 0 where the profile does not say."""

    def by_instruction(self) -> dict[str, dict[int, list[InstructionEvent]]]:
        """Events by instruction name and device."""
        out: dict[str, dict[int, list[InstructionEvent]]] = {}
        for event in self.instructions:
            out.setdefault(event.hlo_op, {}).setdefault(event.device, []).append(event)
        return out

    def compiler_passes(self) -> tuple[HostEvent, ...]:
        """The compiler's passes and pipelines in order, where the block compiled something."""
        spans = [e for e in self.host if _COMPILE.search(e.name)]
        if not spans:
            return ()
        return tuple(
            e for e in self.host
            if not _NOISE.search(e.name) and any(s.start_ns <= e.start_ns and e.end_ns <= s.end_ns for s in spans)
        )  # fmt: skip


_COMPILE = re.compile(r"Client::Compile(AndLoad)?\b|^PjRtCpuClient::Compile")
_NOISE = re.compile(r"^(end: |ThreadpoolListener|Wait: )")
_END = "end: "
_WAIT = "Wait: "


@contextlib.contextmanager
def profile(*, detail: int = 2, keep_raw: bool = False) -> Iterator[Profile]:
    """Profiles a block; the yielded `Profile` is complete when the block ends.

    Args:
        detail: 2 for instructions, 3 to include the passes of compilations.
        keep_raw: also keep the serialized trace, which trace viewers read.
    """
    from jaxlib import _profile_data, _profiler

    options = _profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = detail
    taken = Profile()
    session = _profiler.ProfilerSession(options)
    try:
        yield taken
    finally:
        if keep_raw:
            taken.raw = session.stop()
            data = _profile_data.ProfileData.from_serialized_xspace(taken.raw)
        else:
            data = session.stop_and_get_profile_data()
        taken.instructions, taken.host, taken.begun_ns = _read(data)


@contextlib.contextmanager
def marker(name: str, **stats: Any) -> Iterator[None]:
    """A named span that shows up among a profile's host events."""
    from jaxlib import _profiler

    with _profiler.TraceMe(name, **stats):
        yield


def read(serialized: bytes) -> Profile:
    """A profile that was written to a file, or kept with `keep_raw`."""
    from jaxlib import _profile_data

    data = _profile_data.ProfileData.from_serialized_xspace(serialized)
    instructions, host, begun = _read(data)
    return Profile(instructions, host, serialized, begun)


def _read(data: Any) -> tuple[tuple[InstructionEvent, ...], tuple[HostEvent, ...], int]:
    ops: list[tuple[str, Any, dict[str, Any]]] = []
    ends: dict[Any, float] = {}
    waits: dict[str, list[tuple[float, float]]] = {}
    host: list[HostEvent] = []
    session = 0
    for plane in data.planes:
        session = session or int(dict(plane.stats).get("profile_start_time", 0))
        for line in plane.lines:
            # Lines of one name exist in several planes; a wait belongs to the operation on its own thread.
            thread = f"{plane.name}/{line.name}"
            for event in line.events:
                stats = dict(event.stats)
                name = event.name
                if "hlo_op" in stats and "device_ordinal" in stats:
                    ops.append((thread, event, stats))
                elif name.startswith(_END) and "_c" in stats:
                    ends[stats["_c"]] = event.start_ns
                else:
                    start = event.start_ns
                    if name.startswith(_WAIT):
                        waits.setdefault(thread, []).append((start, start + event.duration_ns))
                    shown = tuple((k, v) for k, v in stats.items() if not k.startswith("_"))
                    host.append(HostEvent(name, line.name, start, start + event.duration_ns, shown))
    origin = min([e.start_ns for _, e, _ in ops] + [h.start_ns for h in host], default=0.0)
    found = []
    for thread, event, stats in ops:
        start = event.start_ns
        # An operation split over threads ends where its marker is, possibly on another thread.
        end = max(ends.get(stats.get("_p"), 0.0), start + event.duration_ns)
        waited = tuple(
            (max(s, start), min(e, end)) for s, e in waits.get(thread, ()) if s < end and e > start
        )
        found.append(
            InstructionEvent(str(stats["hlo_op"]), str(stats.get("hlo_module", "")), int(stats["device_ordinal"]),
                             int(stats.get("run_id", 0)), start - origin, end - origin, sum(e - s for s, e in waited),
                             tuple((s - origin, e - origin) for s, e in waited))
        )  # fmt: skip
    found.sort(key=lambda e: (e.start_ns, e.device, e.hlo_op))
    moved = [
        HostEvent(h.name, h.thread, h.start_ns - origin, h.end_ns - origin, h.stats) for h in host
    ]
    moved.sort(key=lambda e: (e.start_ns, -e.end_ns))
    return tuple(found), tuple(moved), session + round(origin) if session else 0
