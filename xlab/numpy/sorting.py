"""Sorting and positions in sorted order."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.lax.shape import canonical_axis
from xlab.lax.sort import sort as _sorted
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    index_dtype,
    ndim_of,
    promoted,
    shape_of,
    whole_along,
)
from xlab.numpy.shape import ravel
from xlab.numpy.ufuncs import greater_equal

__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
]


def _check_kind(name, kind, order):
    if kind is not None:
        raise TypeError(f"{name}: 'kind' is not supported; use stable=True or stable=False")
    if order is not None:
        raise TypeError(f"{name}: 'order' is not supported: arrays have no fields")


@jit_when_eager(static=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in increasing order along an axis; NaN comes last.

    Args:
        a: an array.
        axis: the axis to sort along; None for the flattened array.
        kind: has to be None.
        order: has to be None.
        stable: whether equal elements keep their order.
        descending: whether the largest come first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.sort(jnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
    """
    _check_kind("sort", kind, order)
    check("sort", a)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), canonical_axis(axis, ndim_of(a)))
    out = _sorted(a, axis, is_stable=stable)
    return lax.rev(out, (axis,)) if descending else out


@jit_when_eager(static=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """Positions that sort the elements along an axis, as int32 or the dtype that is asked for.

    Args:
        a: an array.
        axis: the axis to sort along; None for the flattened array.
        kind: has to be None.
        order: has to be None.
        stable: whether equal elements keep their order.
        descending: whether the largest come first.
        dtype: an integer dtype, int32 by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.argsort(jnp.array([3, 1, 2]))
        Array([1, 2, 0], dtype=int32)
    """
    _check_kind("argsort", kind, order)
    check("argsort", a)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), canonical_axis(axis, ndim_of(a)))
    dtype = index_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "argsort")
    index = lax.broadcasted_iota(dtype, a.shape, axis)
    if not descending:
        return _sorted([a, index], axis, is_stable=stable, num_keys=1)[1]
    # Sorted backwards, with the positions of equal elements in their own order.
    return lax.rev(
        _sorted([lax.rev(a, (axis,)), lax.rev(index, (axis,))], axis, is_stable=stable, num_keys=1)[
            1
        ],
        (axis,),
    )


@jit_when_eager(static="axis")
def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """Positions that sort by several keys, the last one first in rank.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.lexsort((jnp.array([2, 1, 1]), jnp.array([0, 0, 1])))
        Array([1, 0, 2], dtype=int32)
    """
    keys = [keys[i] for i in range(shape_of(keys)[0])] if hasattr(keys, "aval") else list(keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    keys = [as_array(k) for k in check("lexsort", *keys)]
    if len({k.shape for k in keys}) > 1:
        raise ValueError("all keys need to be the same shape in lexsort")
    if not keys[0].ndim:
        return lax.full((), 0, index_dtype())
    axis = canonical_axis(axis, keys[0].ndim)
    index = lax.broadcasted_iota(index_dtype(), keys[0].shape, axis)
    return _sorted([*keys[::-1], index], axis, num_keys=len(keys))[-1]


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements with the `kth` smallest in its place, smaller ones before it in increasing and larger ones after it in
    decreasing order.

    Args:
        a: an array.
        kth: which place: smaller elements stand before it, larger ones behind.
        axis: the axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.partition(jnp.array([3, 1, 4, 2, 5]), 1)
        Array([1, 2, 5, 4, 3], dtype=int32)
    """
    a, axis, kth = _kth("partition", a, kth, axis)
    out = sort(a, axis)
    return lax.concatenate(
        [
            lax.slice_in_dim(out, 0, kth + 1, axis=axis),
            lax.rev(lax.slice_in_dim(out, kth + 1, None, axis=axis), (axis,)),
        ],
        axis,
    )


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Positions that partition the elements, those of the larger ones in increasing order; see `partition`.

    Args:
        a: an array.
        kth: which place: positions of smaller elements stand before it, of larger ones behind.
        axis: the axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.argpartition(jnp.array([3, 1, 4, 2, 5]), 1)
        Array([1, 3, 0, 2, 4], dtype=int32)
    """
    a, axis, kth = _kth("argpartition", a, kth, axis)
    out = cast_operand(argsort(a, axis), np.dtype(np.int32))
    return lax.concatenate(
        [
            lax.slice_in_dim(out, 0, kth + 1, axis=axis),
            sort(lax.slice_in_dim(out, kth + 1, None, axis=axis), axis),
        ],
        axis,
    )


def _kth(name, a, kth, axis):
    (a,) = check(name, a)
    if aval_of(a).dtype.kind == "c":
        raise NotImplementedError(
            f"{name} does not take complex numbers: sort them, with sort or argsort"
        )
    axis = canonical_axis(axis, ndim_of(a))
    return as_array(a), axis, canonical_axis(operator.index(kth), shape_of(a)[axis])


def sort_complex(a: ArrayLike) -> Array:
    """The elements as complex numbers, in order.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.sort_complex(jnp.array([2.0, 1.0])).dtype
        dtype('complex64')
    """
    check("sort_complex", a)
    a = as_array(a)
    real = (
        a.dtype
        if not dtypes.issubdtype(a.dtype, np.integer)
        else np.float32
        if a.dtype.itemsize < 8
        else np.float64
    )
    return sort(cast_operand(a, dtypes.promote_types(real, np.complex64)))


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Positions in a sorted vector at which values would go in.

    Args:
        a: sorted vector.
        v: values.
        side: "left" for the first position that keeps the order, "right" for the last.
        sorter: positions that sort `a`, if it is not sorted.
        method: "scan", "scan_unrolled", "sort" or "compare_all": the results are equal.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.searchsorted(jnp.array([1, 3, 5]), jnp.array([0, 3, 9]))
        Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(
            f"{side!r} is an invalid value for keyword 'side': expected 'left' or 'right'"
        )
    _check_method(method)
    check("searchsorted", a, v)
    if ndim_of(a) != 1:
        raise ValueError(f"a should be 1-dimensional, got shape {shape_of(a)}")
    if sorter is not None:
        from xlab.numpy.indexing import take

        whole_along("searchsorted", "sorted vector", a, 0)
        whole_along("searchsorted", "sorter", sorter, 0)
        a = take(a, sorter)
    return _searchsorted(a, v, side=side)


def _check_method(method):
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method': expected one of 'scan', 'scan_unrolled', 'sort', "
            f"'compare_all'"
        )


@jit_when_eager(static="side")
def _searchsorted(a, v, side):
    """Bisection: the interval of each value is halved until it is empty."""
    from xlab.lax.control import fori_loop
    from xlab.numpy.indexing import take

    a, v = (as_array(x) for x in promoted("searchsorted", a, v))
    whole_along("searchsorted", "sorted vector", a, 0)
    n = a.shape[0]
    index = np.dtype(np.int32)
    low, high = lax.full_like(v, 0, index), lax.full_like(v, n, index)
    if not n:
        return low

    def halve(_, bounds):
        low, high = bounds
        middle = lax.add(low, lax.shift_right_logical(lax.sub(high, low), index.type(1)))
        here = take(a, middle, mode="clip")
        ahead = _before(here, v) if side == "left" else lax.bitwise_not(_before(v, here))
        open_ = lax.lt(low, high)
        ahead = lax.bitwise_and(ahead, open_)
        return select_promoted(ahead, lax.add(middle, index.type(1)), low), select_promoted(
            lax.bitwise_or(ahead, lax.bitwise_not(open_)), high, middle
        )

    return fori_loop(0, 32 if isinstance(n, SymbolicDim) else n.bit_length(), halve, (low, high))[0]


def _before(x, y):
    """Strict order with NaN after everything."""
    if x.dtype.kind == "c":
        x0, y0, x1, y1 = lax.real(x), lax.real(y), lax.imag(x), lax.imag(y)
        tie = lax.bitwise_not(lax.bitwise_or(_before(x0, y0), _before(y0, x0)))
        return lax.bitwise_or(_before(x0, y0), lax.bitwise_and(tie, _before(x1, y1)))
    if not dtypes.issubdtype(x.dtype, np.floating):
        return lax.lt(x, y)
    return lax.bitwise_or(lax.lt(x, y), lax.bitwise_and(lax.eq(x, x), lax.ne(y, y)))


def digitize(
    x: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike],
    right: bool = False,
    *,
    method: str | None = None,
) -> Array:
    """The bin of each value, given increasing (or decreasing) bounds of bins.

    Args:
        x: values.
        bins: vector of bounds.
        right: whether a value equal to a bound belongs to the bin of smaller values, not of larger ones.
        method: as for `searchsorted`; the results are equal.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([0.0, 1.0, 2.0]))
        Array([1, 3], dtype=int32)
    """
    check("digitize", x, bins)
    if ndim_of(bins) != 1:
        raise ValueError(
            f"digitize: bins must be a 1-dimensional array; got shape {shape_of(bins)}"
        )
    _check_method("scan" if method is None else method)
    return _digitize(x, bins, right=bool(right))


@jit_when_eager(static="right")
def _digitize(x, bins, right):
    bins = as_array(bins)
    whole_along("digitize", "bins", bins, 0)
    n = bins.shape[0]
    side = "right" if not right else "left"
    if not n:
        return lax.full_like(x, 0, np.dtype(np.int32))
    first, last = (
        lax.index_in_dim(bins, 0, 0, keepdims=False),
        lax.index_in_dim(bins, -1, 0, keepdims=False),
    )
    # Of decreasing bounds the bins count from the other end: n less the place among the bounds in increasing order.
    down = lax.sub(np.int32(n), _searchsorted(lax.rev(bins, (0,)), x, side=side))
    return select_promoted(greater_equal(last, first), _searchsorted(bins, x, side=side), down)
