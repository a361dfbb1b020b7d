"""Indexing by NumPy's rules: reading.

An index without arrays becomes a slice or a dynamic slice; the others become a gather. Eagerly, positions are operands of
the compiled program, so that a loop over `x[i]` or `x[i:i+8]` compiles once. What an index means is in `index_entries.py`.
"""

from __future__ import annotations

import contextlib
import functools

import numpy as np

from xlab.backend import caches
from xlab.compile.jit import jit
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, max_dim, min_dim, within
from xlab.core.trace import EVAL, state
from xlab.core.typing import Array, ArrayLike
from xlab.lax.arithmetic import add, rem
from xlab.lax.comparison import eq, lt, select
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import broadcasted_iota, full, iota
from xlab.lax.dot import dot_general
from xlab.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather
from xlab.lax.shape import (
    broadcast_in_dim,
    broadcast_shapes,
    canonical_axis,
    expand_dims,
    reshape,
    rev,
    squeeze,
    transpose,
)
from xlab.lax.slicing import dynamic_slice_p
from xlab.lax.slicing import slice as lax_slice
from xlab.numpy.index_entries import (
    NEW,
    Many,
    New,
    One,
    Parsed,
    Span,
    cast_dim,
    parse,
    plan_positions,
    position,
)
from xlab.numpy.jit_when_eager import jit_when_eager

__all__ = ["put_along_axis", "take", "take_along_axis"]


# -- reading ------------------------------------------------------------------------------------------------

# Modes in which a position outside gives a value of its own, so that no slice can stand for the read.
_READ_OUTSIDE = (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)


def getitem(
    x,
    index,
    *,
    mode=None,
    fill_value=None,
    indices_are_sorted=False,
    unique_indices=False,
    wrap=True,
):
    """`x[index]` as equations of whatever is being traced."""
    parsed = parse(index, x.aval.shape, wrap)
    return read(x, parsed, mode, fill_value, indices_are_sorted, unique_indices, wrap)


def read(
    x,
    parsed: Parsed,
    mode=None,
    fill_value=None,
    indices_are_sorted=False,
    unique_indices=False,
    wrap=True,
):
    """Reads with a parsed index: by a slice where no array is involved, else by a gather."""
    entries, flags = parsed
    if flags:
        x = expand_dims(x, flags)
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if mode not in _READ_OUTSIDE and not any(type(e) is Many for e in entries):
        return _read_slice(x, entries, wrap)
    plan = plan_positions(aval_of(x).shape, entries, wrap)
    if not plan.size:
        out = full(plan.shape, 0, aval_of(x).dtype)
    else:
        out = gather(
            x,
            plan.indices,
            GatherDimensionNumbers(plan.windows, plan.collapsed, plan.dims),
            plan.sizes,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted or plan.sorted,
            unique_indices=unique_indices or plan.unique,
        )
    return expand_dims(out, plan.new) if plan.new else out


def _read_slice(x, entries, wrap):
    shape = aval_of(x).shape
    starts, sizes, steps, reverse, drop, new = [], [], [], [], [], []
    dynamic = False
    place = 0
    for e in entries:
        kind = type(e)
        if kind is New:
            new.append(place)
            place += 1
            continue
        d = len(starts)
        if kind is One:
            start = e.index
            if type(start) is int:
                start = min_dim(max(start, 0), shape[d] - 1)
            elif type(start) is SymbolicDim:
                start = min_dim(max_dim(start, 0), shape[d] - 1)
            else:
                if not shape[d]:
                    raise IndexError(f"index is out of bounds for axis {d} with size 0")
                dynamic, start = True, _scalar_position(start, shape[d], e.wrap and wrap)
            drop.append(d)
            size, step = 1, 1
        else:
            start, size, step = e
            if type(start) is not int and type(start) is not SymbolicDim:
                dynamic = True
            elif step < 0:  # an empty one stays where it is
                start, step = min_dim(start + (size - 1) * step, start), -step
                reverse.append(d)
            place += 1
        starts.append(start)
        sizes.append(size)
        steps.append(step)
    if dynamic:
        if any(s != 1 for s in steps):
            x, starts = _static_part(x, starts, sizes, steps)
        x = dynamic_slice_p.bind(
            x,
            *(
                np.int32(s)
                if type(s) is int
                else convert_element_type(s, np.int32)
                if type(s) is SymbolicDim
                else s
                for s in starts
            ),
            slice_sizes=tuple(sizes),
        )
    else:
        x = lax_slice(
            x,
            starts,
            list(map(_limit, starts, sizes, steps)),
            steps,
        )
    if reverse:
        x = rev(x, reverse)
    if drop:
        x = squeeze(x, drop)
    return expand_dims(x, new) if new else x


def _limit(start, size, step):
    """Where a slice of a size ends, whose size may turn out to be 0."""
    return max_dim(start + (size - 1) * step + 1, start)


def _static_part(x, starts, sizes, steps):
    """Takes strided slices out first, since a dynamic slice has no strides."""
    lows, highs, left = [], [], []
    for start, size, step, n in zip(starts, sizes, steps, aval_of(x).shape):
        static = type(start) is int or type(start) is SymbolicDim
        lows.append(start if static else 0)
        highs.append(_limit(start, size, step) if static else n)
        left.append(0 if static else start)
    return lax_slice(x, lows, highs, steps), left


def _scalar_position(i, n: int, wrap: bool):
    dtype = (
        np.int32
        if dtypes.itemsize(aval_of(i).dtype) < 8 or within(n, np.iinfo(np.int32).max)
        else np.int64
    )
    signed = dtypes.issubdtype(aval_of(i).dtype, np.signedinteger)
    i = convert_element_type(i, dtype)
    if not wrap or not signed:
        return i
    return select(lt(i, np.zeros((), dtype)[()]), add(i, cast_dim(n, np.dtype(dtype))), i)


# -- eager reading ------------------------------------------------------------------------------------------


def eager_parts(parsed: Parsed):
    """Splits a parsed index into what selects a program and the positions that are its operands."""
    entries, flags = parsed
    basic = not flags and not any(type(e) is Many for e in entries)
    key, operands = [], []
    for e in entries:
        kind = type(e)
        if kind is One:
            key.append(e.wrap)
            operands.append(e.index)
        elif kind is Span:
            if basic and e.step == 1 and e.start:
                key.append(("window", e.size))
                operands.append(e.start)
            else:
                key.append(e)
        elif kind is Many:
            key.append("many")
            operands.append(e.index)
        else:
            key.append(None)
    return (tuple(key), flags), operands


def from_parts(parts, operands) -> Parsed:
    """The inverse of `eager_parts`, with traced operands."""
    key, flags = parts
    given = iter(operands)
    entries = []
    for k in key:
        if k is None:
            entries.append(NEW)
        elif type(k) is bool:
            entries.append(One(next(given), k))
        elif k == "many":
            entries.append(Many(next(given)))
        elif type(k) is Span:
            entries.append(k)
        else:
            entries.append(Span(_scalar_position(next(given), 0, False), k[1], 1))
    return Parsed(tuple(entries), flags)


@functools.lru_cache(maxsize=4096)
def _reader(parts, options):
    def getitem(x, *operands):
        return read(x, from_parts(parts, operands), **dict(options))

    return jit(getitem)


caches.register(_reader.cache_clear)


def _row(x, i):
    """One position along the first dimension, counted from the front."""
    shape = x.aval.shape
    i = convert_element_type(i, np.int32)
    out = dynamic_slice_p.bind(x, i, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return squeeze(out, (0,))


row = jit(_row)


def eager_getitem(x, index, **options):
    """`x[index]` for a concrete array: one compiled program per form of the index."""
    parts, operands = eager_parts(parse(index, x.aval.shape, options.get("wrap", True)))
    return _reader(parts, tuple(options.items()))(x, *operands)


def array_getitem(x, index):
    """`x[index]` for arrays, concrete or traced."""
    if state.trace is not EVAL:
        return getitem(x, index)
    if type(index) is int:
        shape = x.aval.shape
        if shape and shape[0] and -2147483648 <= index <= 2147483647:
            return row(x, index + shape[0] if index < 0 else index)
    return eager_getitem(x, index)


def key_getitem(x: KeyArray, index):
    """`x[index]` for an array of random keys: eagerly the same on its base, whose trailing dimensions stay whole."""
    parsed = parse(index, x.shape)
    if state.trace is not EVAL:
        return read(x, parsed)
    whole = tuple(Span(0, n, 1) for n in x.base.aval.shape[x.ndim :])
    parsed = parsed._replace(entries=parsed.entries + whole)
    parts, operands = eager_parts(parsed)
    out = KeyArray(_reader(parts, ())(x.base, *operands), x.dtype)
    cells = getattr(x, "_cells", None)
    if cells is not None:  # what becomes of a part becomes of the whole
        with contextlib.suppress(IndexError, TypeError):
            out._cells = np.asarray(cells[index])
    return out


CHUNK = 32


@jit
def _rows(x, i):
    """`CHUNK` positions along the first dimension from position i."""
    shape = x.aval.shape
    part = dynamic_slice_p.bind(
        x,
        convert_element_type(i, np.int32),
        *[np.int32(0)] * (len(shape) - 1),
        slice_sizes=(CHUNK, *shape[1:]),
    )
    return unstack(part)


def unstack(x):
    """The positions along the first dimension, one by one."""
    shape = x.aval.shape
    return [
        squeeze(
            lax_slice(x, (i, *[0] * (len(shape) - 1)), (i + 1, *shape[1:]), (1,) * len(shape)), (0,)
        )
        for i in range(shape[0])
    ]


def iterate(x):
    """Iteration over the first dimension; eagerly in chunks, so that the number of programs stays small."""
    shape = x.aval.shape
    if not shape:
        raise TypeError("iteration over a 0-d array")
    if state.trace is not EVAL:
        return iter(unstack(x))
    return _chunks(x, shape[0])


def _chunks(x, n: int):
    start = 0
    while n - start >= CHUNK:
        yield from _rows(x, start)
        start += CHUNK
    for i in range(start, n):
        yield row(x, i)


def iterate_keys(x: KeyArray):
    if not x.shape:
        raise TypeError("iteration over a 0-d array")
    return (key_getitem(x, i) for i in range(x.shape[0]))


# -- functions ----------------------------------------------------------------------------------------------


@jit_when_eager(static=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value"))
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Elements of an array at integer positions along an axis, or of the flattened array.

    Args:
        a: the array.
        indices: integer positions; the result has their shape in place of the axis.
        axis: the axis, or None for the flattened array.
        out: not supported.
        mode: outside the array 'fill' (the default) reads `fill_value`, 'clip' the nearest element (negative positions
            too), 'wrap' counts round.
        unique_indices, indices_are_sorted: promises about the positions.
        fill_value: NaN, or the lowest integer, by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.take(jnp.array([10, 20, 30]), jnp.array([2, -1, 0])))
        [30 30 10]
    """
    if getattr(indices, "dtype", None) == np.bool_:
        indices = convert_element_type(indices, np.int32)
    a, indices = _array_operands("take", a, indices)
    if out is not None:
        raise NotImplementedError(
            "the 'out' argument of take is not supported: arrays are immutable"
        )
    if axis is None:
        a, axis = reshape(a, (aval_of(a).size,)), 0
    aval = aval_of(a)
    axis = canonical_axis(axis, aval.ndim)
    n = aval.shape[axis]
    wrap = True
    if mode == "raise":
        raise NotImplementedError(
            "mode='raise' of take is not supported: a compiled program cannot raise for a value. Use "
            "'fill', 'clip' or 'wrap'"
        )
    if mode == "wrap":
        index = aval_of(indices)
        size = np.asarray(n).astype(index.dtype)[()]
        indices = rem(add(rem(indices, size), size), size)
        mode = "promise_in_bounds"
    elif mode == "clip":
        wrap = False
    one = Many(indices) if aval_of(indices).ndim else One(indices, True)
    entries = tuple(one if d == axis else Span(0, s, 1) for d, s in enumerate(aval.shape))
    return read(
        a,
        Parsed(entries),
        "fill" if mode is None else mode,
        fill_value,
        indices_are_sorted,
        unique_indices,
        wrap,
    )


@jit_when_eager(static=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Elements at one position along an axis for each place of `indices`.

    The other dimensions of array and indices correspond (or broadcast). Outside the array NaN is read, or the lowest
    integer; `mode` and `fill_value` as for `take`. With `mode='one_hot'` the elements are read by a product with a matrix of
    zeros and ones, which a partitioner cuts better than a gather; outside the array that reads zero.

    Args:
        arr: an array.
        indices: positions along the axis, of as many dimensions as `arr`.
        axis: the axis; None for the flattened array.
        mode: as for `x.at[...].get`.
        fill_value: what indices outside of the bounds read, with mode 'fill'.
        wrap_negative_indices: whether negative indices count from the end.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.array([[1, 3, 2], [6, 4, 5]])
        >>> print(jnp.take_along_axis(x, jnp.argmax(x, axis=1, keepdims=True), axis=1))
        [[3]
         [6]]
    """
    arr, indices = _array_operands("take_along_axis", arr, indices)
    if axis is None:
        if aval_of(indices).ndim != 1:
            raise ValueError(
                f"take_along_axis without axis needs 1-dimensional indices, got {aval_of(indices)}"
            )
        arr, axis = reshape(arr, (aval_of(arr).size,)), 0
    aval, index = aval_of(arr), aval_of(indices)
    if aval.ndim != index.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {index.ndim} vs. {aval.ndim}"
        )
    axis = canonical_axis(axis, aval.ndim)
    shape = broadcast_shapes(_without(aval.shape, axis), _without(index.shape, axis))
    arr = _broadcast_others(arr, shape, axis)
    indices = _broadcast_others(indices, shape, axis)
    n = aval.shape[axis]
    indices = position(
        Many(indices),
        n,
        np.dtype(np.int32 if within(n, np.iinfo(np.int32).max) else np.int64),
        wrap_negative_indices is not False,
    )
    if not aval_of(indices).size:
        return full(aval_of(indices).shape, 0, aval.dtype)
    others = tuple(d for d in range(aval.ndim) if d != axis)
    if mode is not None and GatherScatterMode.from_any(mode) is GatherScatterMode.ONE_HOT:
        return _take_by_product(arr, indices, axis, others)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(
        arr,
        reshape(indices, (*aval_of(indices).shape, 1)),
        numbers,
        (1,) * aval.ndim,
        mode="fill" if mode is None else mode,
        fill_value=fill_value,
    )


def _take_by_product(arr, indices, axis: int, others: tuple[int, ...]):
    aval, ndim = aval_of(arr), aval_of(arr).ndim
    words = np.dtype(np.int32) if aval.dtype == bool else aval.dtype
    hot = eq(
        expand_dims(indices, (ndim,)),
        broadcasted_iota(aval_of(indices).dtype, (*(1,) * ndim, aval.shape[axis]), ndim),
    )
    out = dot_general(
        convert_element_type(hot, words),
        convert_element_type(arr, words),
        (((ndim,), (axis,)), (others, others)),
        precision="highest",
    )
    order = [*range(ndim - 1)]
    order.insert(axis, ndim - 1)
    return convert_element_type(transpose(out, order), aval.dtype)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """The array with values at one position along an axis for each place of `indices`; needs `inplace=False`.

    Args:
        arr: an array.
        indices: positions along the axis, of as many dimensions as `arr`.
        values: what to put there.
        axis: the axis; None for the flattened array.
        inplace: has to be False: arrays are not written to, the result is a new one.
        mode: as for `x.at[...].set`.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.put_along_axis(jnp.zeros((2, 3)), jnp.array([[1], [2]]), 9.0, axis=1, inplace=False))
        [[0. 9. 0.]
         [0. 0. 9.]]
    """
    if inplace:
        raise ValueError(
            "put_along_axis cannot change its argument, since arrays are immutable: pass inplace=False and use "
            "the result"
        )
    arr, indices = _array_operands("put_along_axis", arr, indices)
    shape = aval_of(arr).shape
    if axis is None:
        flat = put_along_axis(
            reshape(arr, (aval_of(arr).size,)), indices, values, 0, False, mode=mode
        )
        return reshape(flat, shape)
    axis = canonical_axis(axis, len(shape))
    grid = [
        reshape(iota(np.int32, n), [n if d == k else 1 for k in range(len(shape))])
        for d, n in enumerate(shape)
    ]
    grid[axis] = indices
    return arr.at[tuple(grid)].set(values, mode=mode)


def _without(shape, axis):
    return (*shape[:axis], *shape[axis + 1 :])


def _broadcast_others(x, shape, axis):
    mine = aval_of(x).shape
    wanted = (*shape[:axis], mine[axis], *shape[axis:])
    return x if mine == wanted else broadcast_in_dim(x, wanted, range(len(wanted)))


def _array_operands(name: str, a, indices):
    for place, v in enumerate((a, indices)):
        if isinstance(v, (list, tuple)):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(v)} at position {place}: convert it "
                f"with xlab.numpy.asarray"
            )
    a, indices = (v if hasattr(v, "aval") else np.asarray(v) for v in (a, indices))
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            f"{name} needs indices of an integer type, got {dtypes.name(indices.dtype)}"
        )
    return (a if hasattr(a, "aval") else a.astype(dtypes.canonicalize_dtype(a.dtype))), indices
