"""Positions of elements: results whose size depends on values, which `size=` fixes while tracing."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import dim_index
from xlab.core.typing import Array, ArrayLike, ShardingLike
from xlab.errors import ShardingTypeError
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.creation import asarray
from xlab.numpy.index_entries import cast_dim
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.logic import choose_where, truth
from xlab.numpy.operands import cast_operand, check, host, index_dtype, ndim_of, promoted, shape_of
from xlab.numpy.shape import ravel
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = ["argwhere", "bincount", "compress", "extract", "flatnonzero", "nonzero", "where"]


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
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
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use atleast_1d(scalar).nonzero() instead."
        )
    if fill_value is None:
        fill_value = 0
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * ndim_of(a)
    if isinstance(fill_value, list) or len(fills) != ndim_of(a) or any(map(shape_of, fills)):
        raise ValueError(
            f"nonzero: fill_value must be a number or a tuple of one per axis, here {ndim_of(a)}; got {fill_value}"
        )
    if size is None:
        found = [asarray(i.astype(index_dtype())) for i in np.nonzero(host(a, "nonzero"))]
        # Fill values fill nothing here, but positions have their type; none of them have no such type.
        return tuple(promoted("nonzero", i, f)[0] if i.size else i for i, f in zip(found, fills))
    return tuple(_nonzero(a, list(fills), size=dim_index(size)))


@jit_when_eager(static="size")
def _nonzero(a, fills, size):
    """The k-th true element is where the running count first reaches k + 1."""
    from xlab.lax.cumulative import cumsum
    from xlab.numpy.sorting import _searchsorted

    shape = shape_of(a)
    mask = lax.reshape(truth(a), (math.prod(shape),))
    index = index_dtype()
    if not mask.shape[0] or not size:
        return [
            lax.full((size,), cast_operand(f, index) if not hasattr(f, "aval") else f, index)
            for f in fills
        ]
    counts = cumsum(lax.convert_element_type(mask, index), 0)
    wanted = lax.add(lax.iota(index, size), index.type(1))
    flat = cast_operand(_searchsorted(counts, wanted, side="left"), index)
    total = lax.index_in_dim(counts, -1, 0, keepdims=False)
    missing = lax.gt(wanted, total)
    out = []
    for n, fill in zip(shape[::-1], fills[::-1]):
        out.append(
            select_promoted(missing, *promoted("nonzero", fill, lax.rem(flat, cast_dim(n, index))))
        )
        flat = lax.div(flat, cast_dim(n, index))
    return out[::-1]


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> Array | tuple[Array, ...]:
    """Elements of `x` where the condition holds, of `y` elsewhere; with the condition alone, as `nonzero`.

    Args:
        condition: booleans.
        x, y: what is taken where they are true, and false; without both, the positions of true
            elements are returned.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

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


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Positions in the flattened array of the elements that are not zero.

    Args:
        a: an array.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]]))
        Array([1, 2], dtype=int32)
    """
    check("flatnonzero", a)
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Positions of the elements that are not zero, a row each.

    Args:
        a: an array.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

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


def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = 0,
) -> Array:
    """Elements of the flattened array at which a condition holds.

    Args:
        condition: which elements to take.
        arr: an array of as many elements.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = 0,
    out: None = None,
) -> Array:
    """Slices along an axis at which a vector of conditions holds.

    Args:
        condition: which slices to take, a vector.
        a: an array.
        axis: the axis of the slices; None for the flattened array.
        size: how many entries the result has; needed while tracing, where it cannot depend on
            values.
        fill_value: what stands in entries of `size` that nothing was found for.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    from xlab.numpy.indexing import take

    if out is not None:
        raise NotImplementedError(
            "compress: arrays are not changed in place, so out= is not supported; use the result"
        )
    condition, a = check("compress", condition, a)
    if ndim_of(condition) != 1:
        raise ValueError(f"condition must be a 1D array, got shape {shape_of(condition)}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, ndim_of(a))
    n, given = shape_of(a)[axis], shape_of(condition)[0]
    if given > n and host(condition, "compress")[n:].any():
        raise ValueError(
            f"condition contains entries that are out of bounds: {given} conditions for the {n} elements along axis {axis}"
        )
    if size is None:
        kept = np.flatnonzero(host(condition, "compress"))
        return take(a, kept.astype(np.int32), axis=axis)
    size, most = dim_index(size), min(given, n)
    if not 0 <= size <= most:
        raise ValueError(
            f"compress: size must not be negative nor more than the {most} elements that the conditions are for, got {size}"
        )
    kept = flatnonzero(condition, size=size, fill_value=n)
    return _filled(take(a, kept, axis=axis, mode="clip"), kept, n, axis, fill_value)


def _filled(x, positions, n, axis, fill_value):
    """Slices along an axis whose position is outside an array of size `n` as the fill value, which may be traced."""
    there = lax.expand_dims(lax.lt(positions, np.int32(n)), [i for i in range(x.ndim) if i != axis])
    return select_promoted(there, x, cast_operand(fill_value, x.dtype, x.weak_type))


@jit_when_eager(static=("minlength", "length"))
def _bincount(x, weights, minlength, length):
    from xlab.numpy.creation import zeros

    weights = cast_operand(1, index_dtype()) if weights is None else weights
    x = lax.max(as_array(x), aval_of(x).dtype.type(0))
    return zeros(length, aval_of(weights).dtype).at[x].add(weights, mode="drop")


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """How often each of 0, 1, 2, ... occurs; `length` fixes the size of the result while tracing.

    Args:
        x: integers, or bools, in one dimension.
        weights: what each counts for.
        minlength: least length of the result.
        length: its length, where `x` is traced.
        out_sharding: how it lies, a `PartitionSpec` or a `NamedSharding` that shards no dimension.

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
            raise ShardingTypeError(
                f"bincount: out_sharding={out_sharding} shards the result, which every device computes in full: "
                f"leave it out, and reshard the result"
            )
        return resharded(bincount(x, weights, minlength, length=length), out_sharding, "bincount")
    if aval_of(x).dtype == np.bool_:
        x = cast_operand(x, np.dtype(np.int32))
    if not dtypes.issubdtype(aval_of(x).dtype, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {aval_of(x).dtype}")
    if ndim_of(x) != 1:
        raise ValueError(f"only 1-dimensional input supported by bincount, got shape {shape_of(x)}")
    minlength = dim_index(minlength)
    if length is None:
        values = host(x, "bincount")
        length = max(minlength, int(values.max()) + 1 if values.size else 0)
    return _bincount(x, weights, minlength=minlength, length=max(minlength, dim_index(length)))
