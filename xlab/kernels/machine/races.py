"""Accesses that nothing orders: vector clocks for cores, and per element the last write and the last reads.

Core c's clock counts its signals. A signal carries the clock of its core to who waits for it; two accesses are ordered if the later
core knew of the earlier one's clock. Copies in flight are agents of their own, one per core and semaphore, whose accesses are ordered
after the start of the copy and before the wait for it. Buffers that one core alone sees are followed once it has started a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from xlab.kernels.machine.buffers import MemoryBuffer


class _Known(NamedTuple):
    """An access as the detector keeps it."""

    agent: int
    clock: int
    t: int
    core: int
    pair: int
    grid: tuple
    eqn: str
    line: str
    kind: str
    box: tuple


class Race(NamedTuple):
    """Two accesses to the same elements that nothing orders, the earlier first."""

    ref: str
    kinds: tuple[str, str]
    cores: tuple[int, int]
    pairs: tuple[int, int]
    eqns: tuple[str, str]
    lines: tuple[str, str]
    slices: tuple[tuple, tuple]
    grids: tuple[tuple, tuple]
    turns: tuple[int, int]
    count: int

    def to_dict(self) -> dict[str, Any]:
        """The race as plain data."""
        out = {k: list(v) if isinstance(v, tuple) else v for k, v in self._asdict().items()}
        out["slices"] = [[list(b) for b in box] for box in self.slices]
        out["grids"] = [list(g) for g in self.grids]
        return out

    def __str__(self):
        parts = [
            f"core {c} {k}s {self.ref}[{', '.join(f'{a}:{b}' for a, b in box)}] at {eqn}, {line}"
            for c, k, box, eqn, line in zip(
                self.cores, self.kinds, self.slices, self.eqns, self.lines
            )
        ]
        return f"race on {self.ref}: " + "; ".join(parts)


class _Track:
    """Per element the number of the last write, and per agent those of its last read and addition; -1 for none."""

    __slots__ = ("kept", "others", "writes")

    def __init__(self, size: int):
        self.writes = np.full(size, -1, np.int32)
        self.others: dict[tuple[int, str], np.ndarray] = {}
        self.kept = False

    def copy(self) -> _Track:
        new = object.__new__(_Track)
        new.writes, new.others = self.writes, dict(self.others)
        new.kept = self.kept = True
        return new

    def own(self) -> None:
        if self.kept:
            self.writes = self.writes.copy()
            self.others = {k: v.copy() for k, v in self.others.items()}
            self.kept = False


class Detector:
    """Follows clocks and accesses; `races` is what it found."""

    def __init__(self, cores: Sequence[Any], size: int | None = None):
        n = len(cores)
        self.num_cores = n
        if size is not None and size < n:
            raise ValueError(
                f"vector_clock_size={size} is too small for {n} cores: a clock has an entry per core"
            )
        self.clocks = [[0] * n for _ in range(n)]
        for c in range(n):
            self.clocks[c][c] = 1
        self.started = [0] * n  # copies of each core
        self.flights: dict[tuple, int] = {}  # agents of copies, by core and semaphore
        self.known: dict[int, _Known] = {}
        self.count = 0
        self.tracks: dict[int, _Track] = {}
        self.found: dict[tuple, Race] = {}

    @property
    def races(self) -> list[Race]:
        return sorted(self.found.values(), key=lambda r: (r.turns[1], r.turns[0]))

    def copy(self, apart: bool = False) -> Detector:
        """The state for a checkpoint. What is known of accesses is shared, since numbers below `count` do not change; `apart` copies it."""
        new = object.__new__(Detector)
        new.__dict__.update(self.__dict__)
        new.clocks = [list(c) for c in self.clocks]
        new.started, new.flights = list(self.started), dict(self.flights)
        new.known = dict(self.known) if apart else self.known
        new.tracks = {n: t.copy() for n, t in self.tracks.items()}
        new.found = dict(self.found)
        return new

    # -- order ---------------------------------------------------------------------------------------------

    def release(self, core: int) -> tuple[int, ...]:
        """The clock that a signal of a core carries; what the core does next comes after it."""
        clock = tuple(self.clocks[core])
        self.clocks[core] = list(clock)
        self.clocks[core][core] += 1
        return clock

    def acquire(self, core: int, clock: Sequence[int] | None) -> None:
        """A core has waited for a signal."""
        if clock is not None:
            # A clock from before an agent was there knows nothing of it.
            self.clocks[core] = [max(p) for p in zip_longest(self.clocks[core], clock, fillvalue=0)]

    def start_copy(self, core: int, semaphore: tuple) -> tuple[int, tuple[int, ...]]:
        """A copy begins: its agent, and the clock under which it works, and which its arrival carries."""
        self.started[core] += 1
        key = (core, semaphore)
        agent = self.flights.get(key)
        if agent is None:
            agent = self.flights[key] = self.num_cores + len(self.flights)
            for c in self.clocks:
                c += [0] * (agent + 1 - len(c))
        clock = list(self.clocks[core])
        clock[agent] = self.started[core]
        self.clocks[core][core] += 1
        return agent, tuple(clock)

    # -- accesses ------------------------------------------------------------------------------------------

    def access(
        self,
        core: Any,
        buffer: MemoryBuffer,
        elements: np.ndarray,
        kind: str,
        box: tuple,
        place: tuple,
        agent: int | None = None,
        clock: Sequence[int] | None = None,
    ) -> None:
        """An access of a core (or of its copy in flight) to elements of a buffer that several cores see.

        Args:
            kind: "read", "write" or "accum".
            place: turn, equation, line.
        """
        if agent is None:
            agent, clock = core.number, self.clocks[core.number]
            epoch = clock[agent]
        else:
            assert clock is not None
            epoch = clock[agent]
            # An earlier copy of the same core that nobody waited for is not ordered before this one.
            clock = [*clock[:agent], self.clocks[core.number][agent], *clock[agent + 1 :]]
        track = self.tracks.get(buffer.number)
        if track is None:
            track = self.tracks[buffer.number] = _Track(buffer.values.size)
        track.own()
        t, eqn, line = place
        me = _Known(
            agent, epoch, t, core.number, core.pair.number, core.coords, eqn, line, kind, box
        )
        self._meet(buffer, me, clock, track.writes[elements])
        for (other, what), numbers in track.others.items():
            if other != agent or other >= self.num_cores:
                if kind == "write" or what != kind:
                    self._meet(buffer, me, clock, numbers[elements])
        number = self.count
        self.count += 1
        self.known[number] = me
        if kind == "write":
            track.writes[elements] = number
        else:
            last = track.others.get((agent, kind))
            if last is None:
                last = track.others[agent, kind] = np.full(buffer.values.size, -1, np.int32)
            last[elements] = number

    def _meet(self, buffer, me: _Known, clock, numbers) -> None:
        for number in np.unique(numbers).tolist():
            if number < 0:
                continue
            other = self.known[number]
            if other.agent >= len(clock) or other.clock > clock[other.agent]:
                self._report(buffer, other, me)

    def _report(self, buffer, first: _Known, second: _Known) -> None:
        key = (buffer.number, first.core, first.eqn, second.core, second.eqn)
        found = self.found.get(key)
        slices = (first.box, second.box)
        if found is not None:
            slices = tuple(map(_union, found.slices, slices))  # type: ignore[assignment]
            self.found[key] = found._replace(slices=slices, count=found.count + 1)
            return
        self.found[key] = Race(
            buffer.name,
            (first.kind, second.kind),
            (first.core, second.core),
            (first.pair, second.pair),
            (first.eqn, second.eqn),
            (first.line, second.line),
            slices,
            (first.grid, second.grid),
            (first.t, second.t),
            1,
        )

    @property
    def fresh_bytes(self) -> int:
        """Bytes of what has changed since the last checkpoint."""
        tracks = [t for t in self.tracks.values() if not t.kept]
        return sum(a.nbytes for t in tracks for a in (t.writes, *t.others.values()))

    def forget(self, others: Sequence[Detector] = ()) -> None:
        """Drops accesses that no element refers to any more, here or in checkpoints."""
        tracks = [t for d in (self, *others) for t in d.tracks.values()]
        arrays = {id(a): a for t in tracks for a in (t.writes, *t.others.values())}
        used = {int(n) for a in arrays.values() for n in np.unique(a)}
        for n in [n for n in self.known if n not in used]:
            del self.known[n]


def _union(a: tuple, b: tuple) -> tuple:
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b))
