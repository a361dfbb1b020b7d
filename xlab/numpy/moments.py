"""Means and variances along axes."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.lax.convert import convert
from xlab.numpy.arithmetic import select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.logic import truth
from xlab.numpy.operands import (
    cast_operand,
    check,
    dtype_of,
    narrow_host_dtype,
    ndim_of,
    no_out,
    shape_of,
)
from xlab.numpy.reductions import (
    axes_of,
    is_half,
    sum,
)

__all__ = ["mean", "std", "var"]


def _computed_in(name, a, dtype):
    """The operand in the dtype means are computed in, and the result's dtype."""
    a = narrow_host_dtype(*check(name, a))
    if dtype is not None:
        result = dtypes.check_user_dtype(dtype, name)
    else:
        result = dtypes.inexact_dtype(dtype_of(a))
    computed = np.dtype(np.float32) if is_half(result) else result
    return cast_operand(a, computed), result


def _count(a, axes, where, dtype, keepdims):
    shape = shape_of(a)
    if where is None or where is True:
        return cast_operand(math.prod([shape[i] for i in axes]), dtype)
    mask = lax.broadcast_in_dim(truth(where), shape, range(len(shape) - ndim_of(where), len(shape)))
    return sum(mask, axis=axes, dtype=dtype, keepdims=keepdims)


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def mean(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Mean over axes.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.mean(jnp.array([1.0, 2.0, 6.0]))
        Array(3., dtype=float32)
    """
    no_out("mean", out)
    a, result = _computed_in("mean", a, dtype)
    axes = axes_of("mean", axis, ndim_of(a))
    count = _count(a, axes, where, aval_of(a).dtype, keepdims)
    total = sum(a, axis=axes, where=where, keepdims=keepdims, dtype=aval_of(a).dtype)
    return convert(lax.div(total, count), result, False)


def variance(name, a, axis, dtype, ddof, keepdims, where, mean_given):
    if (
        dtypes.issubdtype(dtype_of(*check(name, a)), np.complexfloating)
        and dtype is not None
        and not dtypes.issubdtype(dtypes.to_dtype(dtype), np.complexfloating)
    ):
        raise ValueError(
            f"{name}: dtype={dtype} must be complex if the operand is; take the real part first"
        )
    if dtype is not None and not dtypes.issubdtype(dtypes.to_dtype(dtype), np.inexact):
        raise ValueError(
            f"{name}: dtype must be a floating-point or complex type, got {dtype}; convert the result with astype"
        )
    a, result = _computed_in(name, a, dtype)
    axes = axes_of(name, axis, ndim_of(a))
    center = (
        mean(a, axis=axes, keepdims=True, where=where)
        if mean_given is None
        else cast_operand(mean_given, aval_of(a).dtype)
    )
    centered = lax.sub(a, center)
    if result.kind == "c":
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
        result = aval_of(centered).dtype if dtype is None else result
    else:
        centered = lax.square(centered)
    real = aval_of(centered).dtype
    count = lax.sub(_count(a, axes, where, real, keepdims), cast_operand(ddof, real))
    total = sum(centered, axis=axes, keepdims=keepdims, where=where, dtype=real)
    spread = convert(lax.div(total, count), result, False)
    return select_promoted(
        lax.gt(count, cast_operand(0, real)), spread, cast_operand(np.nan, result)
    )


def var(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int | float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Variance over axes; `ddof` (or `correction`) is subtracted from the number of elements.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        ddof: delta degrees of freedom: the divisor is `n - ddof`.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.
        mean: the mean along the same axes, of a shape that broadcasts to `a`, if it is known.
        correction: the array API's name of `ddof`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.var(jnp.array([1.0, 3.0]))
        Array(1., dtype=float32)
    """
    no_out("var", out)
    return _var(
        a,
        axis=axis,
        dtype=dtype,
        ddof=_one_of(ddof, correction),
        keepdims=keepdims,
        where=where,
        mean=mean,
    )


@jit_when_eager(static=("axis", "dtype", "keepdims"))
def _var(a, axis, dtype, ddof, keepdims, where, mean):
    return variance("var", a, axis, dtype, ddof, keepdims, where, mean)


def _one_of(ddof, correction):
    """`ddof` or `correction`, two names for what is subtracted from the number of elements."""
    if correction is None:
        return ddof
    if not (isinstance(ddof, int) and ddof == 0):
        raise ValueError(
            f"var and std: ddof={ddof} and correction={correction} are two names of one argument: give one of them"
        )
    return correction


def std(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int | float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Standard deviation over axes; the arguments are those of `var`.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        ddof: delta degrees of freedom: the divisor is `n - ddof`.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.
        mean: the mean along the same axes, of a shape that broadcasts to `a`, if it is known.
        correction: the array API's name of `ddof`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.std(jnp.array([1.0, 3.0]))
        Array(1., dtype=float32)
    """
    no_out("std", out)
    return _std(
        a,
        axis=axis,
        dtype=dtype,
        ddof=_one_of(ddof, correction),
        keepdims=keepdims,
        where=where,
        mean=mean,
    )


@jit_when_eager(static=("axis", "dtype", "keepdims"))
def _std(a, axis, dtype, ddof, keepdims, where, mean):
    return lax.sqrt(variance("std", a, axis, dtype, ddof, keepdims, where, mean))
