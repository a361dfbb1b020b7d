"""What buffers hold while a machine runs: small ones element by element, large ones as the means of a coarse grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.kernels.machine.events import Access, Event
from xlab.kernels.machine.state import NOTHING, inside
from xlab.observe.records.kernel import MOST_CELLS, BufferChange, KernelBuffer

COARSE = 16
"""Rows and columns of the grid that stands for a large buffer."""
MOST_NUMBERS = 120_000
"""Cells of all changes that are kept."""
MOST_WORK = 200_000_000
"""Elements that are looked at in all."""
_CHANGING = frozenset(("write", "accum", "copy", "signal", "wait"))


class Contents:
    """Follows the buffers of a machine."""

    def __init__(self, machine: Any):
        self.machine = machine
        self.made: list[KernelBuffer] = []
        self.changes: list[BufferChange] = []
        self.cut: int | None = None  # the time from which on nothing was kept
        self.work = 0
        self._places: dict[tuple[int, int], int] = {}  # buffer number and shape: place in `made`
        self._last: dict[int, tuple] = {}
        self._numbers = 0
        self._count = -1
        self._names: dict[str, list[Any]] = {}
        for buffer in list(machine.now.buffers.values()):
            if buffer.values is not NOTHING:
                self._meet(buffer, True)

    def buffers(self) -> tuple[KernelBuffer, ...]:
        """All buffers, as they were first."""
        return tuple(self.made)

    def look(self, events: Sequence[Event]) -> None:
        """Takes in what a turn has changed."""
        if self.cut is not None:
            return
        names = {
            word
            for e in events
            for word in (_touched(e) if isinstance(e, Access) else (e.operand,))
        }
        if not names:
            return
        t = self.machine.count - 1
        for buffer in list(self.machine.now.buffers.values()):
            if buffer.name in names and buffer.values is not NOTHING:
                self._note(buffer, t)

    def _note(self, buffer: Any, t: int) -> None:
        place = self._meet(buffer, False)
        cells = self._cells(buffer, self.made[place])
        if self._last.get(place) == cells:
            return
        if self._numbers > MOST_NUMBERS or self.work > MOST_WORK:
            self.cut = t
            return
        self._last[place] = cells
        self._numbers += len(cells)
        if self.changes and self.changes[-1].t == t and self.changes[-1].buffer == place:
            self.changes.pop()
        self.changes.append(BufferChange(t, place, cells))

    def _meet(self, buffer: Any, first: bool) -> int:
        """The place of a buffer; one that is new was uninitialized before."""
        values = self._values(buffer)[0]
        key = (buffer.number, hash(values.shape))
        found = self._places.get(key)
        if found is not None:
            return found
        place = self._places[key] = len(self.made)
        exact = values.size <= MOST_CELLS
        grid = (1, 1) if exact else coarse(values.shape)
        owner = "call" if buffer.owner is None else f"core {buffer.owner}"
        # Counts of semaphores are kept wider than the type that kernels see.
        dtype = "i16" if buffer.space == "semaphore" else dtypes.short_name(values.dtype)
        made = KernelBuffer(buffer.name, owner, values.shape, dtype, grid, exact)
        count = values.size if exact else math.prod(grid)
        cells = self._cells(buffer, made) if first else (None,) * count
        self._last[place] = cells
        self.made.append(made.replace(cells=cells))
        return place

    def _values(self, buffer: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """The elements, and which of them hold something; without the padding of an operand."""
        values, written = buffer.values, buffer.written
        program = self.machine.program
        if buffer.owner is None and buffer.number < len(program.operands):
            operand = program.operands[buffer.number]
            if any(lo or hi for lo, hi in operand.padding):
                at = inside(operand)
                values, written = values[at], None if written is None else written[at]
        return values, written

    def _cells(self, buffer: Any, made: KernelBuffer) -> tuple[float | None, ...]:
        values, written = self._values(buffer)
        self.work += values.size
        if made.exact:
            return exact_cells(values, written)
        return coarse_cells(values, written, made.grid)


def _touched(e: Access) -> tuple[str, ...]:
    if e.kind not in _CHANGING:
        return ()
    more = dict(e.more)
    return (str(more["to"]),) if "to" in more else (e.ref,)


def as_floats(values: np.ndarray) -> np.ndarray:
    """Values as float64: of complex numbers the magnitude."""
    if dtypes.issubdtype(values.dtype, np.complexfloating):
        return np.abs(values).astype(np.float64)
    return values.astype(np.float64)


def exact_cells(values: np.ndarray, written: np.ndarray | None) -> tuple[float | None, ...]:
    """Every element; None where nobody has written.

    >>> exact_cells(np.asarray([1, 2]), np.asarray([True, False]))
    (1.0, None)
    """
    cells = as_floats(values).reshape(-1).tolist()
    if written is None:
        return tuple(cells)
    return tuple(x if known else None for x, known in zip(cells, written.reshape(-1).tolist()))


def coarse(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns that stand for an array: the last dimension across, the others down.

    >>> coarse((4, 256)), coarse((1000,))
    ((4, 16), (16, 16))
    """
    if len(shape) < 2:
        return COARSE, COARSE
    return min(COARSE, math.prod(shape[:-1])), min(COARSE, shape[-1])


def coarse_cells(
    values: np.ndarray, written: np.ndarray | None, grid: tuple[int, int]
) -> tuple[float | None, ...]:
    """The mean of each part of a grid over an array; NaN where it holds one, None where nobody has written anything."""
    rows, cols = grid
    flat = as_floats(values)
    if flat.ndim < 2:
        pad = -flat.size % (rows * cols)
        width = (flat.size + pad) // (rows * cols)
        given = np.ones(flat.size, bool) if written is None else written.reshape(-1)
        flat = np.concatenate([flat.reshape(-1), np.zeros(pad)]).reshape(rows * cols, width)
        known = np.concatenate([given, np.zeros(pad, bool)]).reshape(rows * cols, width)
        total = np.where(known, flat, 0).sum(1)
        count = known.sum(1)
    else:
        plane = flat.reshape(-1, flat.shape[-1])
        known = np.ones(plane.shape, bool) if written is None else written.reshape(plane.shape)
        down = np.linspace(0, plane.shape[0], rows, endpoint=False).astype(np.intp)
        across = np.linspace(0, plane.shape[1], cols, endpoint=False).astype(np.intp)

        def sums(x: np.ndarray) -> np.ndarray:
            return np.add.reduceat(np.add.reduceat(x, down, 0), across, 1).reshape(-1)

        with np.errstate(invalid="ignore", over="ignore"):
            total = sums(plane if written is None else np.where(known, plane, 0))
        count = sums(known.astype(np.int64))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = total / count
    return tuple(float(f"{m:.6g}") if n else None for m, n in zip(means.tolist(), count.tolist()))
