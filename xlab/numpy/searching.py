"""Positions of elements, and sets: results whose size depends on values, which `size=` fixes while tracing."""

from __future__ import annotations

import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.errors import ShardingTypeError
from xlab.numpy.arithmetic import as_array, choose
from xlab.numpy.creation import asarray
from xlab.numpy.elementary import elementary
from xlab.numpy.logic import choose_where, truth
from xlab.numpy.operands import bring, check, dtype_of, host, ndim_of, promoted, shape_of
from xlab.numpy.shape import ravel
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = ["argwhere", "bincount", "compress", "extract", "flatnonzero", "intersect1d", "isin", "nonzero", "setdiff1d",
           "setxor1d", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where"]


def nonzero(a, *, size: int | None = None, fill_value=None):
    """Positions of the elements that are not zero, one vector per axis.

    Args:
        a: array.
        size: number of positions to return, needed while tracing; missing ones are filled, extra ones left out.
        fill_value: what missing positions are, 0 by default; a number, or one per axis. All positions are promoted with it.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nonzero(jnp.array([0, 5, 0, 7]))[0]
        Array([1, 3], dtype=int32)
    """
    (a,) = check("nonzero", a)
    if not ndim_of(a):
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use atleast_1d(scalar).nonzero() instead.")
    if size is None:
        found = np.nonzero(host(a, "nonzero"))
        if fill_value is not None:      # fills nothing, but the positions have its type
            return nonzero(a, size=len(found[0]), fill_value=fill_value)
        return tuple(asarray(i.astype(np.int32)) for i in found)
    if fill_value is None:
        fill_value = 0
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim_of(a)
    if len(fills) != ndim_of(a):
        raise ValueError(f"nonzero: fill_value has {len(fills)} entries for {ndim_of(a)} axes")
    return tuple(_nonzero(a, list(fills), size=operator.index(size)))


@elementary(static="size")
def _nonzero(a, fills, size):
    """The k-th true element is where the running count first reaches k + 1."""
    from xlab.lax.cumulative import cumsum
    from xlab.numpy.sorting import _searchsorted
    shape = shape_of(a)
    mask = lax.reshape(truth(a), (int(np.prod(shape, dtype=np.int64)),))
    index = np.dtype(np.int32)
    if not mask.shape[0] or not size:
        return [lax.full((size,), bring(f, index) if not hasattr(f, "aval") else f, index) for f in fills]
    counts = cumsum(lax.convert_element_type(mask, index), 0)
    wanted = lax.add(lax.iota(index, size), index.type(1))
    flat = _searchsorted(counts, wanted, side="left")
    total = lax.index_in_dim(counts, -1, 0, keepdims=False)
    missing = lax.gt(wanted, total)
    out = []
    for n, fill in zip(shape[::-1], fills[::-1]):
        out.append(choose(missing, *promoted("nonzero", fill, lax.rem(flat, index.type(n)))))
        flat = lax.div(flat, index.type(n))
    return out[::-1]


def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """Elements of `x` where the condition holds, of `y` elsewhere; with the condition alone, as `nonzero`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.where(jnp.array([True, False]), 1.0, jnp.zeros(2))
        Array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        check("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    check("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value go with the condition alone, not with x and y")
    return choose_where(condition, x, y)


def flatnonzero(a, *, size: int | None = None, fill_value=None):
    """Positions in the flattened array of the elements that are not zero.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]]))
        Array([1, 2], dtype=int32)
    """
    check("flatnonzero", a)
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a, *, size: int | None = None, fill_value=None):
    """Positions of the elements that are not zero, a row each.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]]))
        Array([[0, 1],
               [1, 0]], dtype=int32)
    """
    from xlab.numpy.joining import stack
    (a,) = check("argwhere", a)
    if not ndim_of(a):
        found = nonzero(lax.reshape(as_array(a), (1,)), size=size, fill_value=fill_value)[0]
        return lax.slice_in_dim(lax.expand_dims(found, (1,)), 0, 0, axis=1)
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=1)


def extract(condition, arr, *, size: int | None = None, fill_value=0):
    """Elements of the flattened array at which a condition holds.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(condition, a, axis: int | None = None, *, size: int | None = None, fill_value=0, out=None):
    """Slices along an axis at which a vector of conditions holds.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    from xlab.numpy.indexing import take
    if out is not None:
        raise NotImplementedError("compress: arrays are not changed in place, so out= is not supported; use the result")
    condition = asarray(condition)
    (a,) = check("compress", a)
    if condition.ndim != 1:
        raise ValueError(f"condition must be a 1D array, got shape {condition.shape}")
    if axis is None:
        a, axis = ravel(a), 0
    n = shape_of(a)[axis]
    if size is None:
        kept = np.flatnonzero(host(condition, "compress"))
        if kept.size and kept[-1] >= n:
            raise ValueError(f"compress: the condition holds at {kept[-1]}, which is out of bounds for the {n} elements along axis {axis}")
        return take(a, kept.astype(np.int32), axis=axis)
    if not 0 <= operator.index(size) <= n:
        raise ValueError(f"compress: size={size} has to be from 0 to the {n} elements along axis {axis}")
    kept = flatnonzero(condition, size=size, fill_value=n)
    return take(a, kept, axis=axis, mode="fill", fill_value=fill_value)


@elementary(static=("minlength", "length"))
def _bincount(x, weights, minlength, length):
    from xlab.numpy.creation import zeros
    weights = bring(1, np.dtype(np.int32)) if weights is None else weights
    x = lax.max(as_array(x), aval_of(x).dtype.type(0))
    return zeros(length, aval_of(weights).dtype).at[x].add(weights, mode="drop")


def bincount(x, weights=None, minlength: int = 0, *, length: int | None = None, out_sharding=None):
    """How often each of 0, 1, 2, ... occurs; `length` fixes the size of the result while tracing.

    Args:
        x: integers, or bools, in one dimension.
        weights: what each counts for.
        minlength: least length of the result.
        length: its length, where `x` is traced.
        out_sharding: how it lies, a `PartitionSpec` or a `NamedSharding` that cuts no dimension.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.bincount(jnp.array([0, 2, 2]))
        Array([1, 0, 2], dtype=int32)
    """
    (x,) = check("bincount", x)
    if out_sharding is not None:
        from xlab.numpy.creation import resharded
        asked = canonical_out_sharding(out_sharding, "jnp.bincount", 1)
        if asked is not None and tuple(asked.spec.axes()):
            raise ShardingTypeError(f"bincount: out_sharding={out_sharding} cuts the result, which every device computes in full: "
                                    f"leave it out, and reshard the result")
        return resharded(bincount(x, weights, minlength, length=length), out_sharding, "bincount")
    if aval_of(x).dtype == np.bool_:
        x = bring(x, np.dtype(np.int32))
    if not dtypes.issubdtype(aval_of(x).dtype, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {aval_of(x).dtype}")
    if ndim_of(x) != 1:
        raise ValueError(f"only 1-dimensional input supported by bincount, got shape {shape_of(x)}")
    minlength = operator.index(minlength)
    if length is None:
        values = host(x, "bincount")
        length = max(minlength, int(values.max()) + 1 if values.size else 0)
    return _bincount(x, weights, minlength=minlength, length=max(minlength, operator.index(length)))


# -- sets -------------------------------------------------------------------------------------------------


def unique(ar, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None,
           *, equal_nan: bool = True, size: int | None = None, fill_value=None, sorted: bool = True):
    """The different elements in order; optionally their first positions, the way back, and how often they occur.

    Args:
        ar: array.
        return_index, return_inverse, return_counts: what else to return.
        axis: along which slices are compared; the flattened array by default.
        equal_nan: whether NaN equals NaN.
        size: length of the result, needed while tracing; missing entries are filled.
        fill_value: what missing entries are, the smallest element by default.
        sorted: kept for compatibility; the result is in order.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    (ar,) = check("unique", ar)
    if size is None:
        found = np.unique(host(ar, "unique"), return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
        if not isinstance(found, tuple):
            return asarray(found)
        return tuple(asarray(f if i == 0 else f.astype(np.int32)) for i, f in enumerate(found))
    shape = shape_of(ar)
    if axis is None:
        flat = lax.reshape(as_array(ar), (int(np.prod(shape, dtype=np.int64)), 1))
    else:
        from xlab.numpy.shape import moveaxis
        moved = moveaxis(ar, axis, 0)
        flat = lax.reshape(moved, (moved.shape[0], int(np.prod(moved.shape[1:], dtype=np.int64))))
    values, index, inverse, counts = _unique(flat, fill_value, size=operator.index(size), equal_nan=bool(equal_nan))
    if axis is None:
        values, inverse = lax.squeeze(values, (1,)), lax.reshape(inverse, shape)
    else:
        values = moveaxis(lax.reshape(values, (values.shape[0], *moved.shape[1:])), 0, axis)
    out = [values, *([index] if return_index else []), *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return out[0] if len(out) == 1 else tuple(out)


@elementary(static=("size", "equal_nan"))
def _unique(rows, fill_value, size, equal_nan):
    """Rows sorted by all columns; a row that differs from the one before it is new."""
    from xlab.lax.cumulative import cumsum
    from xlab.lax.sort import sort
    from xlab.numpy.indexing import take
    n, width = rows.shape
    index = np.dtype(np.int32)
    if not n:
        if size and fill_value is None:
            raise ValueError("unique of an empty array with a size needs fill_value")
        values = lax.full((size, width), bring(0 if fill_value is None else fill_value, rows.dtype), rows.dtype)
        empty = lax.full((size,), 0, index)
        return values, empty, lax.full((0,), 0, index), empty
    columns = [lax.index_in_dim(rows, i, 1, keepdims=False) for i in range(width)]
    *columns, order = sort([*columns, lax.iota(index, n)], 0, num_keys=width)
    ordered = lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)
    ahead, behind = lax.slice_in_dim(ordered, 1, n), lax.slice_in_dim(ordered, 0, n - 1)
    differ = lax.ne(ahead, behind)
    if equal_nan and dtypes.issubdtype(rows.dtype, np.inexact):
        differ = lax.bitwise_and(differ, lax.bitwise_not(lax.bitwise_and(lax.ne(ahead, ahead), lax.ne(behind, behind))))
    new = lax.concatenate([lax.full((1,), True, np.dtype(bool)), lax.reduce_or(differ, (1,))], 0)
    (starts,) = _nonzero(new, [n], size=size)
    there = lax.lt(starts, index.type(n))
    values = take(ordered, starts, axis=0, mode="clip")
    fill = lax.slice_in_dim(ordered, 0, 1) if fill_value is None else bring(fill_value, rows.dtype)
    values = choose(lax.expand_dims(there, (1,)), values, fill)
    first = take(order, starts, mode="clip")
    first = choose(there, first, lax.index_in_dim(first, 0, 0, keepdims=False)) if size else first
    ends = lax.concatenate([lax.slice_in_dim(starts, 1, size), lax.full((1,), n, index)], 0) if size else starts
    counts = choose(there, lax.sub(ends, starts), index.type(0))
    groups = lax.sub(cumsum(lax.convert_element_type(new, index), 0), index.type(1))
    inverse = lax.full((n,), 0, index).at[order].set(groups)
    return values, first, inverse, counts


def unique_values(x, /, *, size: int | None = None, fill_value=None):
    """The different elements.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_values(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(x, /, *, size: int | None = None, fill_value=None):
    """The different elements and how often they occur.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_counts(jnp.array([3, 1, 3]))[1]
        Array([1, 2], dtype=int32)
    """
    return unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)


def unique_inverse(x, /, *, size: int | None = None, fill_value=None):
    """The different elements and the positions that rebuild the array from them.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_inverse(jnp.array([3, 1, 3]))[1]
        Array([1, 0, 1], dtype=int32)
    """
    return unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)


def unique_all(x, /, *, size: int | None = None, fill_value=None):
    """The different elements, their first positions, the way back, and how often they occur.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.unique_all(jnp.array([3, 1, 3])))
        4
    """
    return unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)


@elementary(static=("assume_unique", "invert", "method"))
def isin(element, test_elements, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"):
    """Whether each element is among others.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isin(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([False,  True], dtype=bool)
    """
    if shape_of(test_elements) != (0,) and method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"isin: method has to be 'auto', 'compare_all', 'binary_search' or 'sort', got {method!r}")
    element, test = promoted("isin", element, test_elements)
    element, test = bring(as_array(element), dtype_of(element)), bring(ravel(test), dtype_of(test))
    if not test.shape[0]:
        return lax.full(shape_of(element), invert, np.dtype(bool))
    wide = lax.expand_dims(as_array(element), (ndim_of(element),))
    found = lax.eq(wide, lax.broadcast_in_dim(test, (1,) * ndim_of(element) + test.shape, (ndim_of(element),)))
    found = lax.reduce_or(found, (ndim_of(element),))
    return lax.bitwise_not(found) if invert else found


def _by_numpy(name, *arrays):
    arrays = check(name, *arrays)
    dtype = dtypes.result_type(*arrays)
    return [host(ravel(a), name).astype(dtype) for a in arrays]


def union1d(ar1, ar2, *, size: int | None = None, fill_value=None):
    """The different elements of both arrays.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 2, 3], dtype=int32)
    """
    from xlab.numpy.joining import concatenate
    check("union1d", ar1, ar2)
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def setdiff1d(ar1, ar2, assume_unique: bool = False, *, size: int | None = None, fill_value=None):
    """The different elements of the first array that are not in the second.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.setdiff1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1], dtype=int32)
    """
    if size is None:
        return asarray(np.setdiff1d(*_by_numpy("setdiff1d", ar1, ar2), assume_unique))
    from xlab.numpy.indexing import take
    ar1 = ravel(ar1) if assume_unique else unique(ar1, size=int(np.prod(shape_of(ar1))))
    mask = isin(ar1, ar2, invert=True)
    first = flatnonzero(mask, size=size, fill_value=ar1.shape[0])
    fill = 0 if fill_value is None else fill_value
    return take(ar1, first, mode="fill", fill_value=fill)


def intersect1d(ar1, ar2, assume_unique: bool = False, return_indices: bool = False, *, size: int | None = None,
                fill_value=None):
    """The different elements that are in both arrays; optionally their first positions in each.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.intersect1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([2], dtype=int32)
    """
    if size is not None:
        from xlab.numpy.indexing import take
        if return_indices:
            raise NotImplementedError("intersect1d: return_indices does not go with size=")
        one = unique(ar1, size=int(np.prod(shape_of(ar1))))
        first = flatnonzero(isin(one, ar2), size=size, fill_value=one.shape[0])
        return take(one, first, mode="fill", fill_value=0 if fill_value is None else fill_value)
    found = np.intersect1d(*_by_numpy("intersect1d", ar1, ar2), assume_unique, return_indices)
    return tuple(map(asarray, found)) if return_indices else asarray(found)


def setxor1d(ar1, ar2, assume_unique: bool = False):
    """The different elements that are in exactly one of the arrays.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 3], dtype=int32)
    """
    return asarray(np.setxor1d(*_by_numpy("setxor1d", ar1, ar2), assume_unique))
