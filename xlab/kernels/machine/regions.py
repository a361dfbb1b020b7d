"""Which elements of a buffer an access means: from a view's transforms, whose positions are numbers by now, to a region.

Slices and single positions are a NumPy index, so that reading is one copy; every other view is a list of element numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.lax.indexers import NDIndexer, Slice


class BufferRegion(NamedTuple):
    """Elements of a buffer.

    `index` is a NumPy index that gives a view. Where there is none, `ids` are the elements' numbers in row-major order (-1: missing),
    with one more dimension of byte numbers where elements are read as another dtype (`dtype`).
    """

    index: tuple | None
    ids: np.ndarray | None
    box: tuple[tuple[int, int], ...]  # half-open, per dimension of the buffer
    count: int  # elements of the view
    dtype: Any = None
    moved: bool = False  # an index reached outside

    def elements(self, shape: tuple[int, ...], itemsize: int) -> np.ndarray:
        """The numbers of the buffer's elements, those that are missing left out."""
        if self.index is not None:
            return element_numbers(shape)[self.index].reshape(-1)
        assert self.ids is not None
        found = self.ids.reshape(-1)
        found = found[found >= 0]
        return found if self.dtype is None else np.unique(found // itemsize)


@functools.lru_cache(maxsize=64)
def element_numbers(shape: tuple[int, ...]) -> np.ndarray:
    """The number of each element of an array, in row-major order."""
    out = np.arange(math.prod(shape)).reshape(shape)
    out.flags.writeable = False
    return out


def whole(shape: Sequence[int]) -> BufferRegion:
    """The region that is all of a buffer."""
    return BufferRegion((Ellipsis,), None, tuple((0, n) for n in shape), math.prod(shape))


def outside(transforms: Sequence[Any]) -> list[str]:
    """What is said of each index that reaches outside what it indexes; negative ones count from the end."""
    return [text for t in transforms if isinstance(t, NDIndexer) for text in t.outside()]


def locate(
    transforms: Sequence[Any],
    shape: tuple[int, ...],
    dtype: Any,
    missing: bool = False,
    writing: bool = False,
) -> BufferRegion:
    """The region that transforms select.

    Args:
        shape, dtype: of the buffer.
        missing: positions outside are missing; otherwise they are moved inside, as compiled programs do.
        writing: compiled writes to single positions outside are dropped.
    """
    if not transforms:
        return whole(shape)
    if len(transforms) == 1 and not missing:
        found = _basic(transforms[0])
        if found is not None:
            return found
    bytes_of = dtypes.itemsize_bits(dtype) // 8 if any(_rewords(t) for t in transforms) else 1
    ids = element_numbers((*shape, bytes_of) if bytes_of > 1 else shape)
    if bytes_of == 1:
        ids = ids[..., None]
    view = dtype
    for t in transforms:
        ids = t.touched(ids, "missing" if missing else "clamp", -1, writing)
        view = t.result_dtype(view)
    reworded = bytes_of > 1 or view != dtype
    count = math.prod(ids.shape[:-1])
    if not reworded:
        ids = ids[..., 0]
    moved = bool(outside(transforms))
    return BufferRegion(
        None, ids, _box(ids, shape, bytes_of), count, view if reworded else None, moved
    )


def _rewords(t) -> bool:
    return not isinstance(t, NDIndexer) and t.result_dtype(None) is not None


def _basic(t) -> BufferRegion | None:
    """A region of slices and single positions."""
    if not isinstance(t, NDIndexer):
        return None
    index, box, count, moved = [], [], 1, False
    for i, n in zip(t.indices, t.shape):
        if type(i) is Slice:
            size, stride = i.size, i.stride
            if stride > 1 and not i.is_static:
                return None
            start, span = int(i.start), (size - 1) * stride + 1 if size else 0
            if start < 0:
                start += n
            if not 0 <= start <= n - span:
                moved = moved or size > 0
                start = min(max(start, 0), n - span)
            index.append(slice(start, start + span, stride))
            box.append((start, start + span))
            count *= size
        else:
            if type(i) is not int:
                if np.ndim(i):
                    return None
                i = int(i)
            start = i + n if i < 0 else i
            if not 0 <= start < n:
                start, moved = min(max(start, 0), max(n - 1, 0)), True
            index.append(start)
            box.append((start, start + 1))
    return BufferRegion(tuple(index), None, tuple(box), count, None, moved)


def _box(ids, shape, bytes_of):
    found = ids.reshape(-1)
    found = found[found >= 0]
    if not found.size:
        return ((0, 0),) * len(shape)
    places = np.unravel_index(found // bytes_of if bytes_of > 1 else found, shape)
    return tuple((int(p.min()), int(p.max()) + 1) for p in places)


def boxed(ids: np.ndarray, shape: tuple[int, ...]) -> BufferRegion:
    """The region of some elements, by their numbers."""
    return BufferRegion(None, ids, _box(ids, shape, 1), ids.size)
