"""Memory of the value interpreter: one NumPy array per reference and owner, which elements were written, and how they are read.

A checkpoint keeps the arrays of a buffer and marks it as kept; the first write after that copies them.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.kernels.machine.regions import BufferRegion


class RefPlace(NamedTuple):
    """A reference, as a variable of a running program holds it: the number of its buffer."""

    number: int


class BlockWindow(NamedTuple):
    """Where a block lies in its operand: a range per dimension of the operand, and which dimensions the block has."""

    starts: tuple[int, ...]
    kept: tuple[int, ...]
    rank: int

    def box(self, box: tuple) -> tuple:
        """A box of the block in coordinates of the operand's array."""
        out = [(s, s + 1) for s in self.starts]
        for d, (lo, hi) in zip(self.kept, box):
            out[d] = (self.starts[d] + lo, self.starts[d] + hi)
        return tuple(out)


class MemoryBuffer:
    """An array in memory.

    `written` says which elements hold something, None means all. `owner` is a core, or None for the whole call; `root` is the
    number of the operand's buffer that a block is a copy of, `window` says where the block lies. `dirty`: written in this grid point;
    `touched`: written at all; `kept`: a checkpoint has the arrays.
    """

    __slots__ = (
        "dirty",
        "kept",
        "left",
        "name",
        "number",
        "owner",
        "root",
        "space",
        "touched",
        "values",
        "window",
        "written",
    )

    def __init__(
        self,
        number: int,
        name: str,
        space: str,
        owner: int | None,
        values: np.ndarray,
        written: np.ndarray | None = None,
        root: int | None = None,
    ):
        self.number, self.name, self.space, self.owner = number, name, space, owner
        self.values, self.written = values, written
        self.root, self.window = root, None
        self.dirty = self.kept = self.touched = False
        self.left: int | None = None  # elements that hold nothing, once they were counted

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)

    def copy(self) -> MemoryBuffer:
        """The buffer for a checkpoint; both share the arrays until one writes."""
        new = object.__new__(MemoryBuffer)
        new.number, new.name, new.space, new.owner = self.number, self.name, self.space, self.owner
        new.values, new.written, new.root = self.values, self.written, self.root
        new.left = self.left
        new.window, new.dirty, new.touched = self.window, self.dirty, self.touched
        new.kept = self.kept = True
        return new

    def fill(self, values: np.ndarray, written: np.ndarray | None, window: Any) -> None:
        """Puts a block in."""
        self.values, self.written, self.window = values, written, window
        self.dirty = self.kept = False
        self.left = None

    def read(self, region: BufferRegion, fill: Any) -> np.ndarray:
        """A copy of the elements; `fill` where they are missing."""
        if region.index is not None:
            return np.array(self.values[region.index])
        return _take(self.values, region, fill)

    def unwritten(self, region: BufferRegion) -> int:
        """How many of the elements hold nothing yet."""
        if self.written is None:
            return 0
        if region.index is not None:
            part = self.written[region.index]
            return int(part.size - np.count_nonzero(part))
        numbers = region.elements(self.shape, self.dtype.itemsize)
        return int(numbers.size - np.count_nonzero(self.written.reshape(-1)[numbers]))

    def write(
        self, region: BufferRegion, value: np.ndarray, mask: np.ndarray | None = None
    ) -> None:
        """Replaces the elements, where `mask` says so; what is missing is dropped."""
        if region.index == (Ellipsis,) and mask is None:
            self.values = np.array(value)  # a fresh array: nobody else has it
            self.written, self.kept = None, False
            self.dirty = self.touched = True
            return
        self.own()
        if region.index is not None:
            if mask is None:
                self.values[region.index] = value
            else:
                view = self.values[region.index]
                if view.ndim:
                    np.copyto(view, value, where=mask)
                elif mask:
                    self.values[region.index] = value
        else:
            _put(self.values, region, value, mask)
        if self.written is not None:
            self._mark(region, mask)
        self.dirty = self.touched = True

    def _mark(self, region: BufferRegion, mask) -> None:
        assert self.written is not None
        if region.index is not None:
            self.mark(region.index, True if mask is None else mask)
            return
        ids = region.ids
        assert ids is not None
        if mask is not None:
            ids = ids[np.broadcast_to(mask, ids.shape if region.dtype is None else ids.shape[:-1])]
        ids = ids.reshape(-1)
        ids = ids[ids >= 0] // (1 if region.dtype is None else self.dtype.itemsize)
        flat = self.written.reshape(-1)
        flat[ids] = True
        self.left = None
        if len(ids) and flat.all():
            self.written = None

    def mark(self, index: Any, new: Any) -> None:
        """Notes that elements hold something now: those of a NumPy index, where `new` says so."""
        written = self.written
        assert written is not None
        part = written[index]
        if self.left is None:
            self.left = written.size - int(np.count_nonzero(written))
        before = int(np.count_nonzero(part))
        if new is True:
            written[index] = True
            gained = int(np.size(part)) - before
        else:
            both = part | new
            written[index] = both
            gained = int(np.count_nonzero(both)) - before
        self.left -= gained
        if not self.left:
            self.written = None

    def own(self) -> None:
        """Before a write into the arrays: copies them if a checkpoint has them."""
        if self.kept:
            self.values = self.values.copy()
            if self.written is not None:
                self.written = self.written.copy()
            self.kept = False

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.written is None else self.written.nbytes)


def _take(values, region, fill):
    ids = region.ids
    if region.dtype is None:
        out = values.reshape(-1)[ids]
        missing = ids < 0
    else:
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        raw = np.ascontiguousarray(flat[ids])
        out = raw.view(region.dtype)[..., 0]
        missing = (ids < 0).any(-1)
    if missing.any():
        out = np.where(missing, fill, out)
    return np.asarray(out)


def _put(values, region, value, mask):
    ids, value = region.ids, np.asarray(value)
    if region.dtype is None:
        ids, flat = ids.reshape(-1), values.reshape(-1)
        value = np.broadcast_to(value, region.ids.shape).reshape(-1)
        chosen = ids >= 0
        if mask is not None:
            chosen = chosen & np.broadcast_to(mask, region.ids.shape).reshape(-1)
        flat[ids[chosen]] = value[chosen]
        return
    shape = ids.shape
    raw = np.ascontiguousarray(np.broadcast_to(value, shape[:-1])).reshape(-1).view(np.uint8)
    chosen = ids.reshape(-1) >= 0
    if mask is not None:
        chosen = chosen & np.broadcast_to(
            np.broadcast_to(mask, shape[:-1])[..., None], shape
        ).reshape(-1)
    values.reshape(-1).view(np.uint8)[ids.reshape(-1)[chosen]] = raw[chosen]


def uninitialized_value(dtype: Any, zero: bool = False) -> np.ndarray:
    """What an element holds that nobody has written."""
    dtype = np.dtype(dtype)
    if zero or dtype == np.bool_ or dtype == np.int16:
        return np.zeros((), dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.array(complex(np.nan, np.nan), dtype)
    if dtypes.issubdtype(dtype, np.inexact):
        return np.array(np.nan).astype(dtype)
    return np.array(dtypes.iinfo(dtype).min).astype(dtype)


COUNTS = np.dtype(np.int64)  # of semaphores: copies count elements, however many


def empty(aval: ShapedArray, zero: bool = False) -> np.ndarray:
    """An array of such elements."""
    out = np.empty(aval.shape, aval.dtype)
    out[...] = uninitialized_value(aval.dtype, zero)
    return out


def digest(value: np.ndarray) -> int:
    """A number that differs where values differ."""
    value = np.asarray(value)
    return zlib.crc32(
        value if value.flags.c_contiguous and value.dtype.isbuiltin == 1 else value.tobytes()
    )
