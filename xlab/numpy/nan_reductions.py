"""Reductions that leave NaN out."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.numpy import moments
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import select_like, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    dtype_of,
    extreme_value,
    narrow_host_dtype,
    ndim_of,
    no_out,
    strip_weak_type,
)

__all__ = [
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _without(name, a, fill):
    """The operand with NaN replaced, and where it was (None for integers)."""
    a = narrow_host_dtype(*check(name, a))
    if not dtypes.issubdtype(dtype_of(a), np.inexact):
        return a, None
    missing = lax.ne(a, a)
    return select_like(missing, fill, a), missing


def _extremum(name, reduce, fill, a, axis, out, keepdims, initial, where):
    fill = extreme_value(fill, dtype_of(*check(name, a)))
    filled, missing = _without(name, a, fill)
    found = reduce(
        filled,
        axis=axis,
        out=out,
        keepdims=keepdims,
        initial=fill if where is not None and initial is None else initial,
        where=where,
    )
    if missing is None or initial is not None:
        return found
    return select_promoted(
        _r.all(missing, axis=axis, keepdims=keepdims, where=where),
        cast_operand(np.nan, aval_of(found).dtype),
        found,
    )


@jit_when_eager(static=("axis", "out", "keepdims"))
def nanmax(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanmax(jnp.array([1.0, jnp.nan]))
        Array(1., dtype=float32)
    """
    return _extremum("nanmax", _r.max, -np.inf, a, axis, out, keepdims, initial, where)


@jit_when_eager(static=("axis", "out", "keepdims"))
def nanmin(
    a: ArrayLike,
    axis: AxisLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanmin(jnp.array([1.0, jnp.nan]))
        Array(1., dtype=float32)
    """
    return _extremum("nanmin", _r.min, np.inf, a, axis, out, keepdims, initial, where)


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def nansum(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nansum(jnp.array([1.0, jnp.nan]))
        Array(1., dtype=float32)
    """
    return _r.sum(
        _without("nansum", a, 0)[0],
        axis=axis,
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def nanprod(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        initial: a value the reduction starts from.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanprod(jnp.array([2.0, jnp.nan]))
        Array(2., dtype=float32)
    """
    return _r.prod(
        _without("nanprod", a, 1)[0],
        axis=axis,
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def nanmean(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Mean of the elements that are not NaN.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    no_out("nanmean", out)
    filled, missing = _without("nanmean", a, 0)
    if missing is None:
        return moments.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    result = dtype_of(a) if dtype is None else dtypes.check_user_dtype(dtype, "nanmean")
    count = _r.sum(
        lax.bitwise_not(missing), axis=axis, dtype=np.int32, keepdims=keepdims, where=where
    )
    total = _r.sum(filled, axis=axis, dtype=result, keepdims=keepdims, where=where)
    return lax.div(total, cast_operand(count, aval_of(total).dtype))


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def nanvar(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int | float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Variance of the elements that are not NaN, from `mean` where that is known (with the dimensions of `a`).

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        ddof: delta degrees of freedom: the divisor is `n - ddof`.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.
        mean: the mean along the same axes, of a shape that broadcasts to `a`, if it is known.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    no_out("nanvar", out)
    _, missing = _without("nanvar", a, 0)
    if missing is None:
        return moments.variance("nanvar", a, axis, dtype, ddof, keepdims, where, mean)
    if (
        dtype is not None
        and dtype_of(a).kind == "c"
        and dtypes.check_user_dtype(dtype, "nanvar").kind != "c"
    ):
        raise ValueError(
            f"nanvar: dtype={dtype} must be complex if the operand is; take the real part first"
        )
    if mean is None:
        mean = nanmean(a, axis=axis, keepdims=True, where=where)
    else:
        (mean,) = check("nanvar", mean)
        mean = cast_operand(mean, dtype_of(a))
    centered = lax.sub(strip_weak_type(narrow_host_dtype(a)), mean)
    squared = (
        lax.square(select_like(missing, 0, centered))
        if dtype_of(a).kind != "c"
        else lax.square(lax.abs(select_like(missing, 0, centered)))
    )
    total = _r.sum(squared, axis=axis, keepdims=keepdims, where=where)
    count = _r.sum(
        lax.bitwise_not(missing), axis=axis, dtype=total.dtype, keepdims=keepdims, where=where
    )
    count = lax.sub(count, cast_operand(ddof, total.dtype))
    out_ = select_promoted(
        lax.gt(count, cast_operand(0, total.dtype)),
        lax.div(total, count),
        cast_operand(np.nan, total.dtype),
    )
    return out_ if dtype is None else cast_operand(out_, dtypes.check_user_dtype(dtype, "nanvar"))


@jit_when_eager(static=("axis", "dtype", "out", "keepdims"))
def nanstd(
    a: ArrayLike,
    axis: AxisLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int | float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Standard deviation of the elements that are not NaN; the arguments are those of `nanvar`.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.
        ddof: delta degrees of freedom: the divisor is `n - ddof`.
        keepdims: whether the reduced dimensions stay, with size 1.
        where: which elements count, a boolean array that broadcasts to `a`; all by default.
        mean: the mean along the same axes, of a shape that broadcasts to `a`, if it is known.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    return lax.sqrt(
        nanvar(
            a, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, where=where, mean=mean
        )
    )


def _position(name, arg, fill, a, axis, out, keepdims):
    filled, missing = _without(name, a, extreme_value(fill, dtype_of(*check(name, a))))
    found = arg(filled, axis=axis, out=out, keepdims=keepdims)
    if missing is None:
        return found
    none = _r.all(missing, axis=axis, keepdims=bool(keepdims))
    return select_promoted(
        none if ndim_of(none) == ndim_of(found) else lax.reshape(none, found.shape),
        cast_operand(-1, found.dtype),
        found,
    )


@jit_when_eager(static=("axis", "out", "keepdims"))
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Position of the maximum of the elements that are not NaN; -1 where there is none.

    Args:
        a: an array.
        axis: the axis to search; by default the flattened array.
        out: has to be None: arrays are not written to.
        keepdims: whether the searched dimension stays, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2, dtype=int32)
    """
    return _position("nanargmax", _r.argmax, -np.inf, a, axis, out, keepdims)


@jit_when_eager(static=("axis", "out", "keepdims"))
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Position of the minimum of the elements that are not NaN; -1 where there is none.

    Args:
        a: an array.
        axis: the axis to search; by default the flattened array.
        out: has to be None: arrays are not written to.
        keepdims: whether the searched dimension stays, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 3.0]))
        Array(0, dtype=int32)
    """
    return _position("nanargmin", _r.argmin, np.inf, a, axis, out, keepdims)
