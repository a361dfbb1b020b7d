"""Ranks and errors of samples."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.numpy.reductions import axes_of

__all__ = ["rankdata", "sem"]


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The rank of each value among all, or along an axis, from 1; equal values share one as `method` says.

    Args:
        a: an array.
        method: "average", "min", "max", "dense" (as "min", without gaps) or "ordinal" (by position).
        axis: along which to rank; by default all values, as one list.
        nan_policy: "propagate" is available: where one value is NaN, all ranks are.
    """
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"rankdata: nan_policy={nan_policy!r} is not available, only 'propagate'"
        )
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method {method!r}: choose average, min, max, dense or ordinal")
    a = as_array(a)
    if axis is None:
        return rankdata(a.ravel(), method, axis=-1)
    axis = canonical_axis(axis, a.ndim)
    if a.ndim > 1:
        return jnp.apply_along_axis(lambda row: rankdata(row, method, axis=-1), axis, a)
    ranks = _ranks(a, method)
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return ranks
    return jnp.where(jnp.isnan(a).any(), jnp.nan, ranks)


def _ranks(a, method):
    order = jnp.argsort(a)
    places = jnp.zeros_like(order).at[order].set(jnp.arange(1, a.size + 1, dtype=order.dtype))
    result = jnp.result_type(float)
    if method == "ordinal":
        return places.astype(result)
    ranked = a[order]
    first = jnp.concatenate([jnp.ones(min(a.size, 1), bool), ranked[1:] != ranked[:-1]])
    dense = first.cumsum()[places - 1]
    if method == "dense":
        return dense.astype(result)
    starts = jnp.nonzero(first, size=a.size + 1, fill_value=a.size)[0]
    if method == "max":
        return starts[dense].astype(result)
    if method == "min":
        return (starts[dense - 1] + 1).astype(result)
    return 0.5 * (starts[dense] + starts[dense - 1] + 1).astype(result)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean.

    Args:
        a: an array.
        axis: the axis to work along; None for the flattened array.
        ddof: delta degrees of freedom.
        nan_policy: 'propagate' or 'omit'.
        keepdims: whether the reduced dimension stays, with size 1.
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"sem: nan_policy={nan_policy!r} is neither 'propagate' nor 'omit'")
    a = as_array(*promoted_inexact("sem", a))
    axes = axes_of("sem", axis, a.ndim)
    if nan_policy == "omit":
        count = (~jnp.isnan(a)).sum(axes, keepdims=keepdims)
        return jnp.nanstd(a, axes, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count.astype(a.dtype))
    count = math.prod(a.shape[i] for i in axes)
    return a.std(axes, ddof=ddof, keepdims=keepdims) / math.sqrt(count)
