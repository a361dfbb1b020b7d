"""Quantiles: of one rule or another between two elements, of weighted elements, and of those that are not NaN."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike, AxisLike, ShardingLike
from xlab.lax.cumulative import cumsum
from xlab.lax.sort import sort as _sort
from xlab.numpy.arithmetic import as_array, is_complex, select_like, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import cast_operand, check, dtype_of, ndim_of, promoted_inexact, shape_of
from xlab.numpy.reductions import axes_of
from xlab.numpy.reductions import sum as _sum
from xlab.numpy.ufuncs import maximum, minimum

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which a fraction `q` of the elements lies, along axes.

    Args:
        a: array.
        q: fractions from 0 to 1; their dimensions come first in the result.
        axis: an axis or a tuple of them; all by default.
        out, overwrite_input: not supported.
        method: between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; or "inverted_cdf", the first element up to which
            lies at least the fraction `q`.
        weights: how often each element counts, for the method "inverted_cdf": an array of the shape of `a`, or of its reduced axes. NaN
            is the result where one is negative.
        keepdims: whether reduced axes stay as dimensions of size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0]), 0.75)
        Array(2.5, dtype=float32)
    """
    return _public_quantile(
        "quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False
    )


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `quantile`, of the elements that are not NaN.

    Args:
        a: an array.
        q: quantiles to find, in [0, 1].
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        overwrite_input: has to be False.
        method: how ranks between two elements are read, as NumPy calls it: 'linear', 'lower',
            'higher', 'midpoint', 'nearest' or 'inverted_cdf'.
        keepdims: whether the reduced dimensions stay, with size 1.
        weights: a weight for each element, or None for equal ones.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
        Array(2., dtype=float32)
    """
    return _public_quantile(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def _public_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, skip_nan):
    if overwrite_input or out is not None:
        raise ValueError(
            f"{name} does not support overwrite_input=True or out != None: arrays are not changed in place"
        )
    if method not in _METHODS:
        raise ValueError(
            f"{name}: method can only be {', '.join(map(repr, _METHODS))}; got {method!r}"
        )
    if weights is None:
        check(name, a, q)
    else:
        _, _, weights = check(name, a, q, weights)
        if method != "inverted_cdf":
            raise NotImplementedError(
                f"{name}: only the method 'inverted_cdf' supports weights, got {method!r}"
            )
        if is_complex(weights):
            raise ValueError(f"{name}: weights are real numbers, got {dtype_of(weights)}")
        weights = _weights_like(name, a, weights, axis)
    axis = None if axis is None else axes_of(name, axis, ndim_of(a))
    return _quantile(
        a, q, weights, axis=axis, method=method, keepdims=bool(keepdims), skip_nan=skip_nan
    )


def _weights_like(name, a, weights, axis):
    """Weights with the dimensions of `a`: as they are, or placed along the reduced axes in the order in which these are given."""
    shape, given = shape_of(a), shape_of(weights)
    if given == shape:
        return weights
    if axis is None:
        raise ValueError(
            f"{name}: without an axis, weights must have the shape of a, {shape}; got {given}"
        )
    order = axes_of(name, axis, len(shape))
    if given != tuple(shape[i] for i in order):
        raise ValueError(
            f"{name}: weights must have the shape of a, {shape}, or that of its axes {order}; got {given}"
        )
    turned = sorted(range(len(order)), key=order.__getitem__)
    return lax.broadcast_in_dim(lax.transpose(as_array(weights), turned), shape, sorted(order))


@jit_when_eager(static=("axis", "method", "keepdims", "skip_nan"))
def _quantile(a, q, weights, axis, method, keepdims, skip_nan):
    operands = (a,) if weights is None else (a, weights)
    a, *weights = (as_array(x) for x in promoted_inexact("quantile", *operands))
    (q,) = promoted_inexact("quantile", q)
    # Halves do not hold the positions in long arrays.
    q = cast_operand(as_array(q), dtypes.promote_types(dtype_of(q), np.float32))
    if is_complex(a) or is_complex(q):
        raise ValueError(
            "quantile does not support complex input, as the operation is poorly defined."
        )
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    shape, dtype = a.shape, a.dtype
    axes = axes_of("quantile", axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    n = math.prod([shape[i] for i in axes])
    if not n:
        raise TypeError(
            f"quantile of no elements: the reduced axes of an array of shape {shape} are empty"
        )
    last = len(rest)
    a, *weights = (
        lax.reshape(lax.transpose(x, [*rest, *axes]), [*(shape[i] for i in rest), n])
        for x in (a, *weights)
    )
    isnan = lax.ne(a, a)
    if not skip_nan:
        a = select_like(lax.expand_dims(lax.reduce_or(isnan, (last,)), (last,)), np.nan, a)
    elif weights:
        weights = [select_like(isnan, 0, weights[0])]
    a, *weights = _sort([a, *weights], last, num_keys=1)
    count = (
        _sum(lax.bitwise_not(isnan), axis=-1, dtype=q.dtype)
        if skip_nan
        else lax.full(a.shape[:-1], n, q.dtype)
    )
    wide = (*q.shape, *a.shape[:-1])
    q = lax.broadcast_in_dim(q, wide, range(q.ndim))
    count = lax.broadcast_in_dim(count, wide, range(len(wide) - count.ndim, len(wide)))
    if weights:
        out = _weighted(a, weights[0], q, count)
    else:
        out = _between(a, q, count, method)
    if keepdims:
        out = lax.reshape(
            out, (*wide[: len(wide) - last], *(1 if i in axes else d for i, d in enumerate(shape)))
        )
    return cast_operand(out, dtype)


def _weighted(a, weights, q, count):
    """The first sorted element up to which the share of the weights reaches `q`; NaN where a weight is negative or NaN."""
    last = a.ndim - 1
    # Sums against `q` times the total: sums of quotients would not reach 1.
    total = cast_operand(_sum(weights, axis=-1), q.dtype)
    q = lax.mul(q, lax.broadcast_in_dim(total, q.shape, range(q.ndim - last, q.ndim)))
    share = cumsum(weights, last)
    wide = (*q.shape, share.shape[-1])
    share = lax.broadcast_in_dim(
        cast_operand(share, q.dtype), wide, range(q.ndim - last, q.ndim + 1)
    )
    below = lax.lt(share, lax.broadcast_in_dim(q, wide, range(q.ndim)))
    index = lax.reduce_sum(lax.convert_element_type(below, np.int32), (q.ndim,))
    top = lax.max(lax.sub(lax.convert_element_type(count, np.int32), np.int32(1)), np.int32(0))
    out = _take_last(a, lax.min(index, top), q.shape)
    wrong = lax.bitwise_not(lax.ge(weights, cast_operand(0, weights.dtype)))
    return select_like(lax.reduce_or(wrong, (last,)), np.nan, out)


def _between(a, q, count, method):
    """The sorted element at the position of `q`, or what a method makes of the two around it."""
    zero, one = cast_operand(0, q.dtype), cast_operand(1, q.dtype)
    top = lax.sub(count, one)
    place = (
        lax.mul(q, top) if method != "inverted_cdf" else lax.sub(lax.ceil(lax.mul(q, count)), one)
    )
    low, high = lax.floor(place), lax.ceil(place)
    upper = lax.sub(place, low)
    lower = lax.sub(one, upper)
    below, above = (
        _take_last(a, lax.convert_element_type(maximum(zero, minimum(v, top)), np.int32), q.shape)
        for v in (low, high)
    )
    if method == "linear":
        return lax.add(
            lax.mul(cast_operand(below, q.dtype), lower),
            lax.mul(cast_operand(above, q.dtype), upper),
        )
    if method == "midpoint":
        return lax.mul(lax.add(below, above), cast_operand(0.5, a.dtype))
    if method == "nearest":
        return select_promoted(lax.gt(upper, cast_operand(0.5, q.dtype)), above, below)
    return above if method == "higher" else below


def _take_last(a, index, wide):
    """Elements of the last axis at positions that broadcast against the others."""
    from xlab.numpy.indexing import take_along_axis

    lead = len(wide) - (a.ndim - 1)
    index = lax.broadcast_in_dim(index, wide, range(len(wide)))
    n = math.prod(wide[:lead])
    flat = lax.reshape(index, (n, *wide[lead:]))
    moved = lax.transpose(flat, [*range(1, flat.ndim), 0])
    out = take_along_axis(a, moved, axis=a.ndim - 1, mode="clip")
    return lax.reshape(lax.transpose(out, [out.ndim - 1, *range(out.ndim - 1)]), wide)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """As `quantile`, with `q` from 0 to 100; `out_sharding` says how the result lies over explicit axes of the mesh.

    Args:
        a: an array.
        q: percentages to find, in [0, 100].
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        overwrite_input: has to be False.
        method: how ranks between two elements are read, as NumPy calls it: 'linear', 'lower',
            'higher', 'midpoint', 'nearest' or 'inverted_cdf'.
        keepdims: whether the reduced dimensions stay, with size 1.
        weights: a weight for each element, or None for equal ones.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), 50)
        Array(2., dtype=float32)
    """
    from xlab.numpy.ufuncs import divide

    check("percentile", a, q)
    (q,) = promoted_inexact("percentile", q)
    found = quantile(
        a, divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights
    )
    if out_sharding is None:
        return found
    from xlab.numpy.creation import resharded

    return resharded(found, out_sharding, "percentile")


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `percentile`, of the elements that are not NaN.

    Args:
        a: an array.
        q: percentages to find, in [0, 100].
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        overwrite_input: has to be False.
        method: how ranks between two elements are read, as NumPy calls it: 'linear', 'lower',
            'higher', 'midpoint', 'nearest' or 'inverted_cdf'.
        keepdims: whether the reduced dimensions stay, with size 1.
        weights: a weight for each element, or None for equal ones.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
        Array(2., dtype=float32)
    """
    from xlab.numpy.ufuncs import divide

    check("nanpercentile", a, q)
    (q,) = promoted_inexact("nanpercentile", q)
    return nanquantile(
        a, divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights
    )


def median(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element along axes, or the mean of the two in the middle.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        overwrite_input: has to be False.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.median(jnp.array([1.0, 5.0, 2.0]))
        Array(2., dtype=float32)
    """
    check("median", a)
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """As `median`, of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        overwrite_input: has to be False.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanmedian(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    check("nanmedian", a)
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)
