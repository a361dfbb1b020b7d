"""Parses an index into entries, one per dimension it selects or adds, and their positions.

`indexing.py` reads with them and `updates.py` writes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dim_values import range_size, slice_indices
from xlab.core.dims import SymbolicDim, dim_index, known_negative, max_dim, min_dim, within
from xlab.core.trace import Tracer
from xlab.errors import NonConcreteBooleanIndexError
from xlab.lax.arithmetic import add, mul
from xlab.lax.comparison import lt, select
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import iota
from xlab.lax.indexers import Slice, check_size
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes, concatenate, reshape


class New:
    """A new dimension of size 1 (`None`)."""

    __slots__ = ()


class One(NamedTuple):
    """One position: a Python int counted from the front, or an integer scalar; `wrap` if it may be negative."""

    index: Any
    wrap: bool = False


class Span(NamedTuple):
    """`size` positions from `start`, `step` apart; `start` may be a traced scalar where the step is 1."""

    start: Any
    size: int
    step: int


class Many(NamedTuple):
    """Positions from an integer array."""

    index: Any


NEW = New()


class Parsed(NamedTuple):
    """An index in terms of dimensions: entries, and where `True` and `False` add dimensions to the operand first."""

    entries: tuple
    flags: tuple[int, ...] = ()


# -- parsing ------------------------------------------------------------------------------------------------


def _window(i: Slice, n: int, d: int):
    """The positions of `ds(start, size, stride)`, moved so that they lie inside, as those of a dynamic slice."""
    check_size(i, d, "an array")
    reach = (i.size - 1) * i.stride + 1 if i.size else 0
    if known_negative(n - reach):
        raise ValueError(
            f"Out of bound slice: {i} reaches over {reach} positions of dimension {d}, which has {n}"
        )
    if not isinstance(i.start, Tracer):
        return Span(min_dim(max_dim(dim_index(i.start), 0), n - reach), i.size, i.stride)
    start = convert_element_type(i.start, np.int32)
    if i.stride == 1 or i.size == 0:
        return Span(start, i.size, 1)
    return Many(
        add(broadcast_in_dim(start, (i.size,), ()), mul(iota(np.int32, i.size), np.int32(i.stride)))
    )


def parse(index, shape, wrap: bool = True) -> Parsed:
    """Entries for an index into an array of the given shape; IndexError or TypeError where it does not fit.

    `wrap` says that negative positions count from the end.
    """
    if type(index) is not tuple:
        if isinstance(index, list):
            raise TypeError(
                "using a list as an index is not allowed, since it converts implicitly: use x[xlab.numpy.array(index)], or "
                "x[tuple(index)] for one index per dimension"
            )
        index = (index,)
    items, used, ellipsis = [], 0, None
    for i in index:
        kind = type(i)
        if kind is int or kind is slice or kind is Slice or kind is SymbolicDim:
            used += 1
        elif i is Ellipsis:
            if ellipsis is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = len(items)
        elif i is not None:
            i, dims = _interpret(i, len(items))
            used += dims
        items.append(i)
    left = len(shape) - used
    if left < 0:
        raise IndexError(
            f"Too many indices: {len(shape)}-dimensional array indexed with {used} regular indices"
        )
    rest = [slice(None)] * left
    if ellipsis is None:
        items += rest
    else:
        items[ellipsis : ellipsis + 1] = rest
    entries, flags, d = [], [], 0
    for i in items:
        kind = type(i)
        if kind is int or kind is SymbolicDim:
            n = shape[d]
            if not n:
                raise IndexError(f"index {i} is out of bounds for axis {d} with size 0")
            entries.append(
                One(i + n if (i < 0 if kind is int else known_negative(i)) and wrap else i)
            )
            d += 1
        elif kind is slice:
            entries.append(_span(i, shape[d], d))
            d += 1
        elif kind is Slice:
            entries.append(_window(i, shape[d], d))
            d += 1
        elif i is None:
            entries.append(NEW)
        elif kind is bool:
            # `True` picks all of a new dimension of size 1, `False` none of it.
            flags.append(d + len(flags))
            entries.append(Many(np.zeros(int(i), np.int32)))
        elif isinstance(i, np.ndarray) and i.dtype == np.bool_:
            for k, (n, m) in enumerate(zip(shape[d:], i.shape)):
                if n != m:
                    raise IndexError(
                        f"boolean index did not match shape of indexed array in dimension {d + k}: got {i.shape}, "
                        f"expected {shape[d : d + i.ndim]}"
                    )
            entries.extend(Many(p) for p in np.nonzero(i))
            d += i.ndim
        else:
            entries.append(Many(i) if aval_of(i).ndim else One(i, True))
            d += 1
    return Parsed(tuple(entries), tuple(flags))


def _interpret(i, place: int):
    """An array-like element of an index, and how many dimensions it consumes."""
    if isinstance(i, (bool, np.bool_)):
        return bool(i), 0
    if isinstance(i, (int, np.integer)):
        return int(i), 1
    if isinstance(i, (list, tuple)):
        if any(isinstance(v, Tracer) for v in i):
            i = concatenate([reshape(v, (1,)) for v in i], 0)
        else:
            i = np.asarray(i) if len(i) else np.zeros(0, np.int32)
    if isinstance(i, str):
        raise TypeError(f"arrays cannot be indexed with a string: got {i!r}")
    if isinstance(i, slice):
        return i, 1
    if not hasattr(i, "dtype"):
        try:
            return dim_index(i), 1
        except TypeError:
            raise TypeError(
                f"an index must be made of integers, slices, None, Ellipsis, and integer or boolean arrays; got "
                f"{i!r} of type {type(i).__name__} at position {place}"
            ) from None
    if i.dtype == np.bool_:
        mask = _concrete_mask(i)
        return (bool(mask), 0) if mask.ndim == 0 else (mask, mask.ndim)
    if not dtypes.issubdtype(i.dtype, np.integer):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {dtypes.name(i.dtype)}"
        )
    return i, 1


def _concrete_mask(mask) -> np.ndarray:
    value = mask
    if isinstance(mask, Tracer):
        value = mask.concrete()
        if value is None:
            raise NonConcreteBooleanIndexError(
                f"Array boolean indices must be concrete; got {mask.aval.str_short(short_dtypes=True)}: how many elements they select, and so "
                f"the shape of the result, must be known while tracing. Write xlab.numpy.where(mask, a, b) to choose per "
                f"element (x.at[mask].set(v) is where(mask, v, x)), pass where=mask to a reduction, or use "
                f"xlab.numpy.nonzero(mask, size=n)."
            )
    return np.asarray(value)


def _span(i: slice, n: int, axis: int) -> Span:
    if i.start is None and i.stop is None and i.step is None:
        return Span(0, n, 1)
    try:
        if (
            type(n) is not int
            or isinstance(i.start, SymbolicDim)
            or isinstance(i.stop, SymbolicDim)
        ):
            start, stop, step = slice_indices(i, n)
            size = range_size(start, stop, step)
            return Span(start if size != 0 else 0, size, step)
        start, stop, step = i.indices(n)
    except TypeError:
        raise IndexError(
            f"Slice entries must be static integers. Got {i} at position {axis}. A slice of fixed size at a traced position "
            f"is xlab.lax.dynamic_slice_in_dim(x, start, size, axis={axis})."
        ) from None
    size = len(range(start, stop, step))
    return Span(start if size else 0, size, step if size > 1 else 1)


# -- positions for gather and scatter -----------------------------------------------------------------------


class Positions(NamedTuple):
    """Operands and dimension numbers of a gather or scatter, in the terms both share.

    `shape` is the shape of what is read or written without the new dimensions, whose places in the result are `new`.
    """

    indices: Any
    windows: tuple[int, ...]
    collapsed: tuple[int, ...]
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    new: tuple[int, ...]
    size: int
    sorted: bool
    unique: bool


def plan_positions(shape, entries, wrap: bool = True) -> Positions:
    """Works out the positions that entries mean for an operand of the given shape."""
    advanced = any(type(e) is Many for e in entries)
    arrays = [aval_of(e.index).shape for e in entries if type(e) is Many]
    block = broadcast_shapes(*arrays) if advanced else ()
    places = [k for k, e in enumerate(entries) if type(e) is Many or (advanced and type(e) is One)]
    together = not places or places[-1] - places[0] == len(places) - 1
    dtype = np.dtype(
        np.int32 if all(within(n, np.iinfo(np.int32).max) for n in shape) else np.int64
    )

    batch: list[int] = []  # dimensions of the indices
    result: list[int] = []  # dimensions of what is read, new ones left out
    windows, collapsed, sizes, new, parts = [], [], [], [], []
    block_at = None
    in_order = not advanced
    if advanced and not together:
        block_at = 0
        batch += block
        result += block
    d, place = 0, len(result)
    for e in entries:
        kind = type(e)
        if kind is New:
            new.append(place)
            place += 1
            continue
        n = shape[d]
        if kind is Many or kind is One:
            if advanced and block_at is None:
                block_at = len(batch)
                batch += block
                result += block
                place += len(block)
            collapsed.append(d)
            sizes.append(1)
            value = position(e, n, dtype, wrap)
            # Arrays are aligned at the end of the block they broadcast to; scalars go anywhere.
            ndim = 0 if type(value) is int else aval_of(value).ndim
            parts.append((d, value, block_at + len(block) - ndim if ndim else 0))
        elif e.step == 1:
            windows.append(len(result))
            result.append(e.size)
            sizes.append(e.size)
            place += 1
            if type(e.start) is not int or e.size != n:
                parts.append((d, e.start, 0))
        else:
            parts.append((d, _stride(e, dtype), len(batch)))
            batch.append(e.size)
            result.append(e.size)
            collapsed.append(d)
            sizes.append(1)
            place += 1
            in_order = in_order and e.step > 0
        d += 1
    size = math.prod(result)
    indices = _joined(parts, tuple(batch), dtype) if size else None
    return Positions(
        indices,
        tuple(windows),
        tuple(collapsed),
        tuple(p[0] for p in parts),
        tuple(sizes),
        tuple(result),
        tuple(new),
        size,
        in_order,
        not advanced,
    )


def position(e, n: int, dtype, wrap: bool):
    """Positions along one dimension in the dtype of indices, counted from the front."""
    i = e.index
    if type(i) is int:
        return i
    if type(i) is SymbolicDim:
        return convert_element_type(i, dtype)
    if isinstance(i, np.ndarray) and type(n) is int:
        i = i.astype(np.int64)
        return (np.where(i < 0, i + n, i) if wrap else i).clip(*_limits(dtype)).astype(dtype)
    aval = aval_of(i)
    if aval.dtype != dtype or aval.weak_type:
        i = convert_element_type(i, dtype)
    if (
        (type(e) is One and not e.wrap)
        or not wrap
        or dtypes.issubdtype(aval.dtype, np.unsignedinteger)
    ):
        return i
    return select(lt(i, dtype.type(0)), add(i, cast_dim(n, dtype)), i)


def cast_dim(d, dtype):
    """A size or a position as a scalar of a dtype."""
    return convert_element_type(d, dtype) if type(d) is SymbolicDim else dtype.type(d)


def _limits(dtype):
    info = np.iinfo(dtype)
    return info.min, info.max


def _stride(e: Span, dtype):
    return add(cast_dim(e.start, dtype), mul(dtype.type(e.step), iota(dtype, e.size)))


def _joined(parts, batch, dtype):
    """One array of positions from its components; on the host where all are known."""
    if not parts:
        return np.zeros((*batch, 0), dtype)
    if len(parts) > 1 and all(isinstance(v, (int, np.ndarray)) for _, v, _ in parts):
        out = np.empty((*batch, len(parts)), dtype)
        for k, (_, v, first) in enumerate(parts):
            v = np.asarray(v)
            out[..., k] = v.reshape(v.shape + (1,) * (len(batch) - first - v.ndim)) if v.ndim else v
        return out
    columns = []
    for _, v, first in parts:
        v = dtype.type(v) if type(v) is int else convert_element_type(v, dtype)
        columns.append(broadcast_in_dim(v, (*batch, 1), range(first, first + aval_of(v).ndim)))
    return columns[0] if len(columns) == 1 else concatenate(columns, len(batch))
