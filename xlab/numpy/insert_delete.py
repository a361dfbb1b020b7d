"""Arrays with elements left out, put in, or cut off at the ends.

Positions may be traced wherever the shape of the result does not depend on their values.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.trace import Tracer
from xlab.core.typing import Array, ArrayLike, AxisLike
from xlab.lax.shape import canonical_axes, canonical_axis
from xlab.lax.sort import sort
from xlab.numpy.arithmetic import as_array
from xlab.numpy.arithmetic import select_promoted as choose_by_mask
from xlab.numpy.indexing import take
from xlab.numpy.joining import concatenate
from xlab.numpy.operands import cast_operand, check, dtype_of, host, kind_of, ndim_of, shape_of
from xlab.numpy.shape import broadcast_to, moveaxis, ravel

__all__ = ["delete", "insert", "trim_zeros"]

_INDEX = np.dtype(np.int32)


def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """The array without the elements at given positions.

    Args:
        arr: array.
        obj: an integer, an array of them, a mask, or a slice.
        axis: along which positions count; the flattened array by default.
        assume_unique_indices: a promise that no position comes twice. With it an array of positions may be traced, since their
            number says the shape of the result; those outside the array stand for its ends.

    Raises:
        ConcretizationTypeError: traced positions without the promise, or a traced mask.
        IndexError: a position in an array is outside.
        ValueError: a single position is outside; a mask has another length than the axis.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> jnp.delete(jnp.arange(4), 1)
        Array([0, 2, 3], dtype=int32)
        >>> xlab.jit(lambda x, i: jnp.delete(x, i, assume_unique_indices=True))(jnp.arange(4), jnp.array([2, 0]))
        Array([1, 3], dtype=int32)
    """
    (arr,) = check("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, ndim_of(arr))
    n = shape_of(arr)[axis]
    if isinstance(obj, slice):
        return _without(arr, np.arange(n)[obj], axis)
    (obj,) = check("delete", obj)
    dtype = dtype_of(obj)
    if not dtypes.issubdtype(dtype, np.integer) and dtype != np.bool_:
        raise ValueError(
            f"delete takes integer positions, a boolean mask or a slice, got an array of dtype {dtypes.name(dtype)}"
        )
    if dtype != np.bool_ and assume_unique_indices and (ndim_of(obj) or isinstance(obj, Tracer)):
        return _without_unique(arr, ravel(obj), axis)
    gone = host(obj, "delete")
    if not gone.ndim:
        return _without(arr, np.array([canonical_axis(int(gone), n)]), axis)
    if dtype == np.bool_:
        if gone.shape != (n,):
            raise ValueError(
                f"delete: a mask says of each of the {n} elements along axis {axis} whether it goes; got one of shape "
                f"{gone.shape}"
            )
        return _without(arr, np.flatnonzero(gone), axis)
    if gone.size and (gone.max() >= n or gone.min() < -n):
        raise IndexError(f"delete: index {gone} is out of bounds for axis {axis} with size {n}")
    return _without(arr, np.where(gone < 0, gone + n, gone), axis)


def _without(arr, gone, axis):
    kept = np.setdiff1d(np.arange(shape_of(arr)[axis]), gone)
    return take(arr, kept.astype(_INDEX), axis=axis)


def _without_unique(arr, gone, axis):
    """The k-th element kept stands k + j places from the front, where j positions less their rank are at most k."""
    n, m = shape_of(arr)[axis], shape_of(gone)[0]
    if not m:
        return as_array(arr)
    if m >= n:
        return lax.slice_in_dim(as_array(arr), 0, 0, axis=axis)
    index = lax.clamp(_INDEX.type(0), _from_front(gone, n), _INDEX.type(n - 1))
    free = lax.sub(sort(index, 0), lax.iota(_INDEX, m))
    place = lax.iota(_INDEX, n - m)
    before = lax.le(lax.expand_dims(free, (0,)), lax.expand_dims(place, (1,)))
    kept = lax.add(place, lax.reduce_sum(lax.convert_element_type(before, _INDEX), (1,)))
    return take(arr, kept, axis=axis, mode="clip")


def _from_front(index, n):
    """Positions, those counted from the end too, as positions from the front."""
    index = as_array(cast_operand(index, _INDEX))
    return choose_by_mask(lax.lt(index, _INDEX.type(0)), lax.add(index, _INDEX.type(n)), index)


def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None
) -> Array:
    """The array with values put in before given positions, which may be traced; those outside stand for the ends.

    Args:
        arr: array.
        obj: an integer, a vector of them, or a slice.
        values: what to put in, in the dtype of `arr`: broadcast over the positions and the other axes.
        axis: along which positions count; the flattened array by default.

    Raises:
        ValueError: positions are no integers or have several dimensions, or the values do not fit.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.insert(jnp.array([1, 2, 3]), 1, 9)
        Array([1, 9, 2, 3], dtype=int32)
    """
    arr, values = check("insert", arr, values)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, ndim_of(arr))
    n, aval = shape_of(arr)[axis], aval_of(arr)
    if isinstance(obj, slice):
        obj = np.arange(n)[obj].astype(_INDEX)
    ours = kind_of(obj) == "array"
    (obj,) = check("insert", obj)
    given = math.prod(shape_of(obj))
    if (given or ours) and not dtypes.issubdtype(dtype_of(obj), np.integer):
        raise ValueError(
            f"insert takes integer positions or a slice, got an array of dtype {dtypes.name(dtype_of(obj))}; for a mask, "
            f"give flatnonzero(mask)"
        )
    if ndim_of(obj) > 1:
        raise ValueError(
            f"insert takes a position, a vector of them or a slice, got an array of shape {shape_of(obj)}"
        )
    rest = [d for i, d in enumerate(aval.shape) if i != axis]
    values = as_array(cast_operand(values, aval.dtype, aval.weak_type))
    if values.ndim < len(rest) + 1:
        values = lax.expand_dims(values, range(len(rest) + 1 - values.ndim))
    if not ndim_of(obj):
        values = moveaxis(values, 0, axis)
    count = values.shape[axis] if given == 1 else given
    values = broadcast_to(values, (*rest[:axis], count, *rest[axis:]))
    where = lax.clamp(_INDEX.type(0), broadcast_to(_from_front(obj, n), (count,)), _INDEX.type(n))
    # Old elements have odd ranks and new ones even ranks below them; a stable sort keeps new ones in their own order.
    two = _INDEX.type(2)
    ranks = lax.concatenate(
        [lax.add(lax.mul(lax.iota(_INDEX, n), two), _INDEX.type(1)), lax.mul(where, two)], 0
    )
    order = sort([ranks, lax.iota(_INDEX, n + count)], 0, num_keys=1)[1]
    return take(concatenate([arr, values], axis), order, axis=axis, mode="clip")


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: AxisLike | None = None) -> Array:
    """The array without the zeros at its ends, along some or all of its axes; needs concrete values.

    Args:
        filt: array.
        trim: where zeros go: "f" at the front, "b" at the back, or both letters.
        axis: an axis or a tuple of them, all by default. A slice across an axis goes where all of it is zero.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.trim_zeros(jnp.array([0, 1, 0]))
        Array([1], dtype=int32)
        >>> jnp.trim_zeros(jnp.array([[0, 0], [0, 1]]), axis=0)
        Array([[0, 1]], dtype=int32)
    """
    (filt,) = check("trim_zeros", filt)
    ndim = ndim_of(filt)
    if axis is None:
        axes = tuple(range(ndim))
    else:
        axes = canonical_axes(
            axis if isinstance(axis, (tuple, list)) else (operator.index(axis),), ndim
        )
    if len(set(axes)) < len(axes):
        raise ValueError(f"trim_zeros: repeated axis: {axis}")
    if not isinstance(trim, str):
        raise TypeError(
            f'trim_zeros: trim says where zeros go, in the letters "f" and "b"; got {trim!r} of type {type(trim).__name__}'
        )
    ends = trim.lower()
    starts, stops = [0] * ndim, list(shape_of(filt))
    for a, found in zip(range(ndim), np.nonzero(host(filt, "trim_zeros")) if ndim else ()):
        if a in axes:
            first, last = (int(found.min()), int(found.max()) + 1) if found.size else (stops[a], 0)
            starts[a] = first if "f" in ends else 0
            stops[a] = max(last, starts[a]) if "b" in ends else stops[a]
    return lax.slice(as_array(filt), starts, stops)
