"""Slices that the moves of a schedule carry, for each kind of collective.

`Slices` turns the moves of one group, of which each is about a chunk, into events about slices of the buffers of devices: `input` (the
operand), `output` (the result), and `work`, where sums grow and blocks for others wait.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xlab.interpreters import communication, schedules
from xlab.interpreters.communication import CollectiveOp

Box = tuple[tuple[int, int], ...]
"""Half-open bounds per dimension."""


class SliceEvent(NamedTuple):
    """A slice of one device becomes, or is added to (`reduce`), a slice of another; `keep` is what stays on its device.

    `src` is None where nobody sends: the slice is filled with `fill`. `reads` and `writes` name buffers. `chunk` numbers the pieces
    of the collective, `group` the row of its groups, `eqn` the equation.
    """

    step: int
    src: int | None
    dst: int
    bytes: int
    kind: str
    group: int = 0
    chunk: int = 0
    src_slice: Box = ()
    dst_slice: Box = ()
    reads: str = "input"
    writes: str = "output"
    fill: int | None = None
    op: str = ""
    eqn: int = -1

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON writes it."""
        made = self._asdict()
        for name in ("src_slice", "dst_slice"):
            made[name] = [list(bounds) for bounds in made[name]]
        if self.fill is None:
            del made["fill"]
        return made


def whole_of(shape: Sequence[int]) -> Box:
    return tuple((0, n) for n in shape)


def _volume(box: Box) -> int:
    return math.prod(b - a for a, b in box)


def _pieces(box: Box, k: int) -> list[Box]:
    """A box in `k` pieces along its longest dimension that can be cut evenly, else its longest; of unequal ones the first are larger."""
    if k == 1:
        return [box]
    extents = [b - a for a, b in box]
    even = [d for d, e in enumerate(extents) if e and e % k == 0]
    if not extents:
        return [box] + [((0, 0),)] * (k - 1)
    d = max(even or range(len(box)), key=lambda d: extents[d])
    a, e = box[d][0], extents[d]
    cuts = [a + -(-e * i // k) for i in range(k + 1)]
    return [(*box[:d], (cuts[i], cuts[i + 1]), *box[d + 1 :]) for i in range(k)]


def _grid(shape: Sequence[int], n: int) -> list[Box]:
    """A buffer in `n` blocks, of equal size where the dimensions allow it.

    >>> _grid((2, 4), 4)
    [((0, 1), (0, 2)), ((0, 1), (2, 4)), ((1, 2), (0, 2)), ((1, 2), (2, 4))]
    """
    left, counts = n, []
    for size in shape:
        counts.append(math.gcd(size, left) if size else 1)
        left //= counts[-1]
    if left == 1:
        cuts = [
            [(size * i // c, size * (i + 1) // c) for i in range(c)]
            for size, c in zip(shape, counts)
        ]
        return list(itertools.product(*cuts))
    if not shape:
        return [()] + [((0, 0),)] * (n - 1)
    d = max(range(len(shape)), key=lambda d: shape[d])
    whole, size = whole_of(shape), shape[d]
    return [(*whole[:d], (size * i // n, size * (i + 1) // n), *whole[d + 1 :]) for i in range(n)]


def _at(box: Box, dim: int, start: int) -> Box:
    """A box moved along a dimension."""
    return tuple((a + start, b + start) if d == dim else (a, b) for d, (a, b) in enumerate(box))


@dataclass
class Slices:
    """Makes the events of one group, by rank."""

    move: CollectiveOp
    shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    algorithm: str
    sizes: tuple[int, ...]
    itemsize: int

    @property
    def stages(self) -> tuple[str, ...]:
        return communication.collectives[self.move.kind].stages

    def used(self, n: int) -> str:
        if self.stages == ("pairs",):
            return "direct"
        return schedules.carried_out(self.stages, n, self.algorithm, self.sizes)

    def work_shape(self, n: int) -> tuple[int, ...]:
        return (n, *self.shape) if self.stages == ("exchange",) else self.shape

    def event(
        self, step, src, dst, kind, chunk, read: Box, written: Box, reads, writes
    ) -> SliceEvent:
        n = _volume(read) * self.itemsize
        return SliceEvent(step, src, dst, n, kind, 0, chunk, read, written, reads, writes)

    def group(self, n: int, given) -> list[SliceEvent]:
        if self.stages == ("pairs",):
            return self.pairs(n)
        if self.move.kind == "ragged_all_to_all":
            made = self.ragged(n, given)
        elif self.stages[0] == "scatter":
            made = self.all_reduce(n) if "gather" in self.stages else self.reduce_scatter(n)
        else:
            make = {"gather": self.all_gather, "broadcast": self.broadcast}
            made = make.get(self.stages[0], self.all_to_all)(n)
        return [e for e in made if _volume(e.src_slice)]

    def staged(self, n: int) -> Iterator[tuple[str, schedules.Move, int]]:
        """The moves with the number of parts of a chunk; the first step is for what devices keep."""
        used = self.used(n)
        for stage, moves in schedules.of_stages(self.stages, n, self.algorithm, self.sizes):
            k = schedules.parts_of(stage, used, self.sizes)
            for m in moves:
                yield stage, m._replace(step=m.step + 1), k

    def last(self, made: list[SliceEvent]) -> int:
        return max((e.step for e in made), default=0) + 1

    def pairs(self, n: int) -> list[SliceEvent]:
        whole, out = whole_of(self.shape), []
        arrives = {d: s for s, d in self.move.perm}
        for d in range(n):
            s = arrives.get(d)
            if s is None:
                out.append(SliceEvent(0, None, d, 0, "keep", 0, 0, (), whole, fill=0))
            else:
                kind = "keep" if s == d else "copy"
                out.append(self.event(0, s, d, kind, 0, whole, whole, "input", "output"))
        return out

    def all_reduce(self, n: int) -> list[SliceEvent]:
        whole, grid = whole_of(self.shape), _grid(self.shape, n)
        out = [self.event(0, r, r, "keep", r, whole, whole, "input", "output") for r in range(n)]
        direct = self.used(n) == "direct"
        for stage, m, k in self.staged(n):
            box = _pieces(grid[m.chunk], k)[m.part]
            kind = "reduce" if stage == "scatter" else "copy"
            reads = "input" if direct and stage == "scatter" else "output"
            out.append(
                self.event(
                    m.step,
                    m.source,
                    m.target,
                    kind,
                    k * m.chunk + m.part,
                    box,
                    box,
                    reads,
                    "output",
                )
            )
        return out

    def reduce_scatter(self, n: int) -> list[SliceEvent]:
        whole, dim = whole_of(self.shape), self.move.dimension
        each = self.shape[dim] // n
        blocks = [
            tuple((c * each, (c + 1) * each) if d == dim else w for d, w in enumerate(whole))
            for c in range(n)
        ]
        out = [self.event(0, r, r, "keep", r, whole, whole, "input", "work") for r in range(n)]
        reads = "input" if self.used(n) == "direct" else "work"
        for _, m, k in self.staged(n):
            box = _pieces(blocks[m.chunk], k)[m.part]
            out.append(
                self.event(
                    m.step,
                    m.source,
                    m.target,
                    "reduce",
                    k * m.chunk + m.part,
                    box,
                    box,
                    reads,
                    "work",
                )
            )
        end = self.last(out)
        done = whole_of(self.out_shape)
        out += [
            self.event(end, r, r, "keep", r, blocks[r], done, "work", "output") for r in range(n)
        ]
        return out

    def all_gather(self, n: int) -> list[SliceEvent]:
        whole, dim = whole_of(self.shape), self.move.dimension

        def slot(c: int, box: Box) -> Box:
            if self.move.tiled:
                return _at(box, dim, c * self.shape[dim])
            return (*box[:dim], (c, c + 1), *box[dim:])

        out = [
            self.event(0, r, r, "keep", r, whole, slot(r, whole), "input", "output")
            for r in range(n)
        ]
        for _, m, k in self.staged(n):
            place = slot(m.chunk, _pieces(whole, k)[m.part])
            out.append(
                self.event(
                    m.step,
                    m.source,
                    m.target,
                    "copy",
                    k * m.chunk + m.part,
                    place,
                    place,
                    "output",
                    "output",
                )
            )
        return out

    def broadcast(self, n: int) -> list[SliceEvent]:
        whole = whole_of(self.shape)
        out = [self.event(0, 0, 0, "keep", 0, whole, whole, "input", "output")]
        for _, m, k in self.staged(n):
            box = _pieces(whole, k)[m.part]
            out.append(
                self.event(m.step, m.source, m.target, "copy", m.part, box, box, "output", "output")
            )
        return out

    def all_to_all(self, n: int) -> list[SliceEvent]:
        split, concat = self.move.dimension, self.move.concat
        each, wide = self.shape[split] // n, self.out_shape[concat] // n
        whole, result = whole_of(self.shape), whole_of(self.out_shape)
        block = [
            tuple((r * each, (r + 1) * each) if d == split else w for d, w in enumerate(whole))
            for r in range(n)
        ]
        place = [
            tuple((r * wide, (r + 1) * wide) if d == concat else w for d, w in enumerate(result))
            for r in range(n)
        ]
        out = [
            self.event(0, r, r, "keep", r * n + r, block[r], place[r], "input", "output")
            for r in range(n)
        ]
        return out + self.passed_on(n, lambda o, t: [(block[t], place[o])])

    def passed_on(
        self, n: int, blocks: Callable[[int, int], list[tuple[Box, Box]]]
    ) -> list[SliceEvent]:
        """Blocks from origins to targets, which wait at ranks on their way in a slot of their origin."""
        out = []
        for _, m, _ in self.staged(n):
            first, final = m.source == m.origin, m.target == m.chunk
            for read, written in blocks(m.origin, m.chunk):
                slot = ((m.origin, m.origin + 1), *read)
                out.append(
                    self.event(
                        m.step,
                        m.source,
                        m.target,
                        "copy",
                        m.origin * n + m.chunk,
                        read if first else slot,
                        written if final else slot,
                        "input" if first else "work",
                        "output" if final else "work",
                    )
                )
        return out

    def ragged(self, n: int, given) -> list[SliceEvent]:
        rows, tail = self.shape[0], whole_of(self.shape[1:])
        if given is None:  # as many rows as there are, dealt out evenly
            each = rows // n
            given = [
                (
                    [each * t for t in range(n)],
                    [each] * n,
                    [min(each * o, self.out_shape[0]) for _ in range(n)],
                )
                for o in range(n)
            ]

        def blocks(origin: int, target: int) -> list[tuple[Box, Box]]:
            starts, counts, places = ([int(i) for i in np.ravel(v)] for v in given[origin])
            each = len(starts) // n
            found = []
            for k in range(target * each, (target + 1) * each):
                fits = max(0, min(counts[k], self.out_shape[0] - places[k]))
                if fits:
                    found.append(
                        (
                            ((starts[k], starts[k] + fits), *tail),
                            ((places[k], places[k] + fits), *tail),
                        )
                    )
            return found

        whole = whole_of(self.out_shape)
        out = [self.event(0, r, r, "keep", 0, whole, whole, "result", "output") for r in range(n)]
        for r in range(n):
            out += [
                self.event(1, r, r, "keep", r * n + r, read, written, "input", "output")
                for read, written in blocks(r, r)
            ]
        return out + self.passed_on(n, blocks)
