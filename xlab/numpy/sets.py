"""Arrays as sets: distinct elements, membership, union, intersection and differences; `size=` fixes sizes while tracing."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import compared, dim_index
from xlab.core.typing import Array, ArrayLike
from xlab.lax.sort import sort
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.creation import asarray
from xlab.numpy.index_entries import cast_dim
from xlab.numpy.indexing import take
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.joining import concatenate
from xlab.numpy.operands import (
    cast_operand,
    check,
    host,
    index_dtype,
    promoted,
    shape_of,
    strip_weak_type,
)
from xlab.numpy.searching import _nonzero, flatnonzero
from xlab.numpy.shape import ravel
from xlab.numpy.sorting import _searchsorted

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

_INDEX = np.dtype(np.int32)


# -- distinct elements ------------------------------------------------------------------------------------


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Array | tuple[Array, ...]:
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
        # Asked for positions, NumPy sorts stably: of zeros of both signs the first one stands for them.
        values, index, inverse, counts = np.unique(
            host(ar, "unique"), True, True, True, axis, equal_nan=equal_nan
        )
        out = [
            _made(values, ar),
            *(
                asarray(v.astype(index_dtype()))
                for v, asked in (
                    (index, return_index),
                    (inverse, return_inverse),
                    (counts, return_counts),
                )
                if asked
            ),
        ]
        return out[0] if len(out) == 1 else tuple(out)
    shape = shape_of(ar)
    if axis is None:
        flat = lax.reshape(as_array(ar), (math.prod(shape), 1))
    else:
        from xlab.numpy.shape import moveaxis

        moved = moveaxis(ar, axis, 0)
        flat = lax.reshape(moved, (moved.shape[0], math.prod(moved.shape[1:])))
    values, index, inverse, counts = _unique(
        flat, fill_value, size=dim_index(size), equal_nan=bool(equal_nan)
    )
    if axis is None:
        values, inverse = lax.squeeze(values, (1,)), lax.reshape(inverse, shape)
    else:
        values = moveaxis(lax.reshape(values, (values.shape[0], *moved.shape[1:])), 0, axis)
    out = [
        values,
        *([index] if return_index else []),
        *([inverse] if return_inverse else []),
        *([counts] if return_counts else []),
    ]
    return out[0] if len(out) == 1 else tuple(out)


@jit_when_eager(static=("size", "equal_nan"))
def _unique(rows, fill_value, size, equal_nan):
    """Rows sorted by all columns; a row that differs from the one before it is new."""
    from xlab.lax.cumulative import cumsum
    from xlab.lax.sort import sort
    from xlab.numpy.indexing import take

    n, width = rows.shape
    index = index_dtype()
    if not n:
        if size and fill_value is None:
            raise ValueError("unique of an empty array with a size needs fill_value")
        values = lax.full(
            (size, width),
            cast_operand(0 if fill_value is None else fill_value, rows.dtype),
            rows.dtype,
        )
        empty = lax.full((size,), 0, index)
        return values, empty, lax.full((0,), 0, index), empty
    columns = [lax.index_in_dim(rows, i, 1, keepdims=False) for i in range(width)]
    *columns, order = sort([*columns, lax.iota(index, n)], 0, num_keys=width)
    ordered = lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)
    ahead, behind = lax.slice_in_dim(ordered, 1, n), lax.slice_in_dim(ordered, 0, n - 1)
    differ = lax.ne(ahead, behind)
    if equal_nan and dtypes.issubdtype(rows.dtype, np.inexact):
        differ = lax.bitwise_and(
            differ, lax.bitwise_not(lax.bitwise_and(lax.ne(ahead, ahead), lax.ne(behind, behind)))
        )
    new = lax.concatenate([lax.full((1,), True, np.dtype(bool)), lax.reduce_or(differ, (1,))], 0)
    (starts,) = _nonzero(new, [n], size=size + 1)  # and one more: where the last of them ends
    starts, ends = lax.slice_in_dim(starts, 0, size), lax.slice_in_dim(starts, 1, size + 1)
    there = lax.lt(starts, cast_dim(n, index))
    values = take(ordered, starts, axis=0, mode="clip")
    fill = (
        lax.slice_in_dim(ordered, 0, 1)
        if fill_value is None
        else cast_operand(fill_value, rows.dtype)
    )
    values = select_promoted(lax.expand_dims(there, (1,)), values, fill)
    first = take(order, starts, mode="clip")
    first = (
        select_promoted(there, first, lax.index_in_dim(first, 0, 0, keepdims=False))
        if size
        else first
    )
    counts = select_promoted(there, lax.sub(ends, starts), index.type(0))
    groups = lax.sub(cumsum(lax.convert_element_type(new, index), 0), index.type(1))
    inverse = lax.full((n,), 0, index).at[order].set(groups)
    return values, first, inverse, counts


def _made(values, like):
    """A host array as one of the type of another, weak where that is."""
    return cast_operand(asarray(values), aval_of(like).dtype, aval_of(like).weak_type)


class _UniqueAllResult(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class _UniqueCountsResult(NamedTuple):
    values: Any
    counts: Any


class _UniqueInverseResult(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The different elements; every NaN is one of its own.

    Args:
        x: an array, flattened.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_values(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """The different elements as `values` and how often they occur as `counts`.

    Args:
        x: an array, flattened.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
        Array([1, 2], dtype=int32)
    """
    return _UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """The different elements as `values`, and as `inverse_indices` the positions that rebuild the array from them.

    Args:
        x: an array, flattened.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    return _UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """The different elements (`values`), their first positions (`indices`), the way back (`inverse_indices`), and `counts`.

    Args:
        x: an array, flattened.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unique_all(jnp.array([3, 1, 3])).indices
        Array([1, 0], dtype=int32)
    """
    return _UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


# -- membership -------------------------------------------------------------------------------------------


METHODS = ("auto", "binary_search", "compare_all", "sort")

MOST_COMPARED = 1 << 16
"""Pairs up to which comparing all of them is the method chosen."""


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element is among others.

    Args:
        element: array.
        test_elements: array of the others.
        assume_unique: a promise that changes nothing here.
        invert: whether to say which are not among them.
        method: "compare_all" (all pairs at once), "binary_search" and "sort" (in sorted others), or "auto"; the results are equal.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isin(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([False,  True], dtype=bool)
    """
    check("isin", element, test_elements)
    if method not in METHODS and 0 not in (*shape_of(element), *shape_of(test_elements)):
        raise ValueError(
            f"isin: method={method!r} is not implemented; options are {', '.join(map(repr, METHODS))}"
        )
    return _isin(element, test_elements, invert=bool(invert), method=method)


@jit_when_eager(static=("invert", "method"))
def _isin(element, test_elements, invert, method):
    element, test = promoted("isin", element, test_elements)
    if method != "binary_search":  # whose comparison of two numbers is weak
        element, test = strip_weak_type(element), strip_weak_type(test)
    found = _among(as_array(element), ravel(test), method)
    return lax.bitwise_not(found) if invert else found


def _among(element, test, method="auto"):
    m, pairs = test.shape[0], element.size * test.shape[0]
    if not pairs:
        return lax.full(element.shape, False, np.dtype(bool))
    if (
        method == "compare_all"
        or (method == "auto" and compared(pairs, "<=", MOST_COMPARED))
        or aval_of(test).dtype.kind == "c"
    ):
        wide = lax.expand_dims(element, (element.ndim,))
        same = lax.eq(
            wide, lax.broadcast_in_dim(test, (1,) * element.ndim + test.shape, (element.ndim,))
        )
        return lax.reduce_or(same, (element.ndim,))
    ordered = sort(test, 0)
    place = lax.min(_searchsorted(ordered, element, side="left"), cast_dim(m - 1, _INDEX))
    return lax.eq(take(ordered, place, mode="clip"), element)


# -- two arrays -------------------------------------------------------------------------------------------


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The different elements of both arrays.

    Args:
        ar1, ar2: arrays, flattened.
        size: length of the result, needed while tracing.
        fill_value: what missing elements are, the smallest element by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 2, 3], dtype=int32)
    """
    ar1, ar2 = check("union1d", ar1, ar2)
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements of the first array that are not in the second, in the dtype of the first.

    Args:
        ar1, ar2: arrays, flattened.
        assume_unique: a promise that nothing in `ar1` comes twice; the result then keeps the order of `ar1`.
        size: length of the result, needed while tracing.
        fill_value: what missing elements are, 0 by default; it may be traced.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.setdiff1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1], dtype=int32)
    """
    ar1, ar2 = check("setdiff1d", ar1, ar2)
    values, keep = _difference(ravel(ar1), ravel(ar2), assume_unique=bool(assume_unique))
    return _picked("setdiff1d", keep, size, (values, 0 if fill_value is None else fill_value))[0]


@jit_when_eager(static="assume_unique")
def _difference(x, y, assume_unique):
    new = lax.full(x.shape, True, np.dtype(bool))
    if not assume_unique:
        x, _, new = _sorted_groups(x)
    return x, lax.bitwise_and(new, lax.bitwise_not(_among(*promoted("setdiff1d", x, y))))


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The different elements that are in both arrays; optionally their first positions in each.

    Args:
        ar1, ar2: arrays, flattened.
        assume_unique: a promise that nothing comes twice in either array.
        return_indices: whether to return the positions in `ar1` and `ar2` too.
        size: length of the results, needed while tracing.
        fill_value: what missing elements are, by default the smallest one (0 if there is none). Missing positions are the sizes of the
            arrays.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.intersect1d(jnp.array([1, 2]), jnp.array([2, 3]), size=2, fill_value=-1)
        Array([ 2, -1], dtype=int32)
    """
    x, y = (ravel(v) for v in promoted("intersect1d", ar1, ar2))
    values, first, second, keep = _intersection(x, y)
    fill = _lowest(values, keep) if fill_value is None and size is not None else fill_value
    out = _picked(
        "intersect1d", keep, size, (values, fill), (first, x.shape[0]), (second, y.shape[0])
    )
    return tuple(out) if return_indices else out[0]


@jit_when_eager
def _intersection(x, y):
    x, first, new = _sorted_groups(x)
    y, order, _ = _sorted_groups(y)
    keep = lax.bitwise_and(new, _among(x, y))
    second = (
        take(order, _searchsorted(y, x, side="left"), mode="clip")
        if y.shape[0]
        else lax.full(x.shape, 0, _INDEX)
    )
    return x, cast_operand(first, index_dtype()), cast_operand(second, index_dtype()), keep


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different elements that are in exactly one of the arrays.

    Args:
        ar1, ar2: arrays, flattened.
        assume_unique: a promise that nothing comes twice in either array.
        size: length of the result, needed while tracing.
        fill_value: what missing elements are, by default the smallest one (0 if there is none).

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 3], dtype=int32)
    """
    x, y = (ravel(v) for v in promoted("setxor1d", ar1, ar2))
    values, keep = _exclusive(x, y, assume_unique=bool(assume_unique))
    fill = _lowest(values, keep) if fill_value is None and size is not None else fill_value
    return _picked("setxor1d", keep, size, (values, fill))[0]


@jit_when_eager(static="assume_unique")
def _exclusive(x, y, assume_unique):
    if assume_unique:
        values, n = sort(lax.concatenate([x, y], 0), 0), x.shape[0] + y.shape[0]
        if not n:
            return values, lax.full((0,), True, np.dtype(bool))
        end = lax.full((1,), True, np.dtype(bool))
        differ = lax.ne(lax.slice_in_dim(values, 1, n), lax.slice_in_dim(values, 0, n - 1))
        return values, lax.bitwise_and(
            lax.concatenate([end, differ], 0), lax.concatenate([differ, end], 0)
        )
    parts = []
    for one, other in ((x, y), (y, x)):
        values, _, new = _sorted_groups(one)
        parts.append((values, lax.bitwise_and(new, lax.bitwise_not(_among(values, other)))))
    values, keep = (lax.concatenate(list(p), 0) for p in zip(*parts))
    gone, values = sort([lax.bitwise_not(keep), values], 0, num_keys=2)
    return values, lax.bitwise_not(gone)


def _sorted_groups(x):
    """A vector in order, the positions its elements came from, and where a new element begins; NaN equals NaN here."""
    n = x.shape[0]
    x, order = sort([x, lax.iota(_INDEX, n)], 0, num_keys=1)
    if not n:
        return x, order, lax.full((0,), True, np.dtype(bool))
    ahead, behind = lax.slice_in_dim(x, 1, n), lax.slice_in_dim(x, 0, n - 1)
    differ = lax.ne(ahead, behind)
    if dtypes.issubdtype(x.dtype, np.inexact):
        differ = lax.bitwise_and(
            differ, lax.bitwise_not(lax.bitwise_and(lax.ne(ahead, ahead), lax.ne(behind, behind)))
        )
    return x, order, lax.concatenate([lax.full((1,), True, np.dtype(bool)), differ], 0)


@jit_when_eager
def _lowest(values, keep):
    """The smallest value kept, NaN if there is one, 0 if nothing is kept."""
    if not values.shape[0]:
        return lax.full((), 0, values.dtype)
    start = lax.argmax(keep, 0, _INDEX)
    first = take(values, start, mode="clip")
    low = lax.reduce_min(select_promoted(keep, values, first), (0,))
    return select_promoted(lax.reduce_or(keep, (0,)), low, cast_operand(0, values.dtype))


def _picked(name, keep, size, *columns):
    """The entries of vectors where a mask holds, in their order: as many as there are, or `size` of them with fill values.

    Columns are pairs of a vector and its fill value.
    """
    if size is None:
        where = np.flatnonzero(host(keep, name))
        return [_made(host(x, name)[where], x) for x, _ in columns]
    n = shape_of(keep)[0]
    if not n:
        return [
            lax.full((dim_index(size),), cast_operand(fill, x.dtype, x.weak_type), None)
            for x, fill in columns
        ]
    places = flatnonzero(keep, size=size, fill_value=n)
    there = lax.lt(places, places.dtype.type(n))
    return [
        select_promoted(
            there, take(x, places, mode="clip"), cast_operand(fill, x.dtype, x.weak_type)
        )
        for x, fill in columns
    ]
