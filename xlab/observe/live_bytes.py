"""How many bytes of a program are alive at each step of its schedule."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from xlab.observe.records import Buffer


def changes(buffers: Sequence[Buffer]) -> dict[int, int]:
    """By how many bytes what is alive changes at each step; what lies at the same place counts once."""
    slots: dict[tuple[int, int], list[Buffer]] = {}
    for n, b in enumerate(buffers):
        slots.setdefault((b.allocation, b.offset) if b.allocation >= 0 else (-1, n), []).append(b)
    change: dict[int, int] = {}
    for held in slots.values():
        if len(held) == 1:
            _add(change, held[0].start, held[0].end + 1, held[0].size)
            continue
        # Where several share a place, the largest of those alive counts.
        waiting = sorted(held, key=lambda b: -b.start)
        alive: list[tuple[int, int]] = []
        for start, stop in itertools.pairwise(sorted({edge for b in held for edge in (b.start, b.end + 1)})):
            while waiting and waiting[-1].start <= start:
                b = waiting.pop()
                heapq.heappush(alive, (-b.size, b.end))
            while alive and alive[0][1] < start:
                heapq.heappop(alive)
            if alive:
                _add(change, start, stop, -alive[0][0])
    return change


def _add(change: dict[int, int], start: int, stop: int, size: int) -> None:
    change[start] = change.get(start, 0) + size
    change[stop] = change.get(stop, 0) - size


def peak(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """The step at which most bytes are alive, and how many; -1 and 0 where there is nothing.

    >>> peak((Buffer("a", 8, start=0, end=2), Buffer("b", 4, start=1, end=1)))
    (1, 12)
    >>> peak((Buffer("a", 8, start=0, end=1, allocation=0), Buffer("b", 4, start=2, end=3, allocation=0), Buffer("c", 3, start=3, end=3)))
    (0, 8)
    """
    change = changes(buffers)
    now = best = 0
    at = -1
    for step in sorted(change):
        now += change[step]
        if now > best:
            best, at = now, step
    return at, best


def live_bytes(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """Bytes alive at each of so many steps.

    >>> live_bytes((Buffer("a", 8, start=0, end=2), Buffer("b", 4, start=1, end=1)), 4)
    [8, 12, 8, 0]
    """
    change = changes(buffers)
    now = 0
    out = []
    for step in range(steps):
        now += change.get(step, 0)
        out.append(now)
    return out
