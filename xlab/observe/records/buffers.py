"""Buffers of a compiled program, and how many bytes are alive at each step of its schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import size_text


@record_type
class Buffer(Record):
    """One logical buffer, alive from step `start` to `end`; `kind`: argument, output, temporary, constant. `allocation` -1: unknown."""

    name: str
    size: int
    kind: str = "temporary"
    start: int = 0
    end: int = 0
    instruction: str = ""
    equation: int = -1
    source: Source | None = None
    allocation: int = -1
    offset: int = 0


def _buffer(b: Buffer, o: Options) -> str:
    return f"{b.name} {size_text(b.size)} {b.kind}, alive {b.start}–{b.end}" + (
        f", {line_text(b.source)}" if b.source else ""
    )


def changes(buffers: Sequence[Buffer]) -> dict[int, int]:
    """The change of live bytes at each step; bytes shared by several buffers count once.

    >>> changes((Buffer("a", 8, end=1, allocation=0), Buffer("b", 8, end=1, allocation=0, offset=4)))
    {0: 12, 2: -12}
    """
    change: dict[int, int] = {}
    held: dict[int, list[Buffer]] = {}
    for b in buffers:
        if b.allocation >= 0:
            held.setdefault(b.allocation, []).append(b)
        else:
            _add(change, b.start, b.size)
            _add(change, b.end + 1, -b.size)
    for together in held.values():
        if len(together) == 1:
            _add(change, together[0].start, together[0].size)
            _add(change, together[0].end + 1, -together[0].size)
            continue
        _within(change, together)
    return change


def _within(change: dict[int, int], held: Sequence[Buffer]) -> None:
    """The same for one allocation: it is cut where a buffer begins or ends, and of each piece is known how many buffers have it."""
    edges = np.array(sorted({edge for b in held for edge in (b.offset, b.offset + b.size)}))
    sizes = np.diff(edges)
    taken = np.zeros(len(sizes), np.int64)
    first, last = (
        np.searchsorted(edges, places).tolist()
        for places in ([b.offset for b in held], [b.offset + b.size for b in held])
    )
    events = sorted(
        [(b.end + 1, -1, n) for n, b in enumerate(held)]
        + [(b.start, 1, n) for n, b in enumerate(held)]
    )
    for step, way, n in events:
        at = first[n]
        if last[n] == at + 1:  # nothing begins or ends inside of it, as in most cases
            held_by = int(taken[at])
            taken[at] = held_by + way
            if not held_by or not held_by + way:
                _add(change, step, way * int(sizes[at]))
            continue
        here = slice(at, last[n])
        before = taken[here] > 0
        taken[here] += way
        _add(change, step, way * int(sizes[here][before != (taken[here] > 0)].sum()))


def _add(change: dict[int, int], step: int, size: int) -> None:
    change[step] = change.get(step, 0) + size


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


def alive_at(buffers: Sequence[Buffer], step: int) -> list[tuple[Buffer, int]]:
    """The buffers alive at a step, the largest first, each with the bytes of it that no larger one has: their sum is what is alive.

    >>> a, b = Buffer("a", 8, end=2, allocation=0), Buffer("b", 4, end=2, allocation=0, offset=6)
    >>> [(x.name, n) for x, n in alive_at((b, a), 1)]
    [('a', 8), ('b', 2)]
    """
    taken: dict[int, list[tuple[int, int]]] = {}
    out = []
    for b in sorted(
        (b for b in buffers if b.start <= step <= b.end), key=lambda b: (-b.size, b.name)
    ):
        free = [(b.offset, b.offset + b.size)]
        if b.allocation >= 0:
            for low, high in taken.setdefault(b.allocation, []):
                free = [
                    piece
                    for start, stop in free
                    for piece in ((start, min(stop, low)), (max(start, high), stop))
                    if piece[0] < piece[1]
                ]
            taken[b.allocation] += free
        out.append((b, sum(stop - start for start, stop in free)))
    return out


add_form(Buffer, _buffer)
