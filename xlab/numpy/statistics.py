"""Averages, covariance, interpolation."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import max_dim
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.lax.sort import sort as _sort
from xlab.numpy.arithmetic import as_array, is_complex, select_promoted
from xlab.numpy.index_entries import cast_dim
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.moments import mean as _mean
from xlab.numpy.operands import (
    aligned,
    cast_operand,
    check,
    dtype_of,
    host,
    ndim_of,
    promoted_inexact,
    shape_of,
    whole_along,
)
from xlab.numpy.reductions import axes_of
from xlab.numpy.reductions import sum as _sum

__all__ = ["average", "corrcoef", "cov", "interp"]


@jit_when_eager(static=("axis", "returned", "keepdims"))
def average(
    a: ArrayLike,
    axis: AxisLike | None = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """Mean over axes, with weights; `returned` gives the sum of the weights too.

    Args:
        a: an array.
        axis: the axis or axes to work along; all of them by default.
        weights: a weight for each element, or None for equal ones.
        returned: whether the sum of the weights is returned too.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
        Array(1.5, dtype=float32)
    """
    from xlab.numpy.ufuncs import multiply

    if weights is None:
        (a,) = promoted_inexact("average", a)
        out = _mean(a, axis=axis, keepdims=keepdims)
        count = math.prod([shape_of(a)[i] for i in axes_of("average", axis, ndim_of(a))])
        total = lax.full(shape_of(out), count, aval_of(out).dtype)
        return (out, total) if returned else out
    a, weights = (as_array(x) for x in promoted_inexact("average", a, weights))
    if weights.shape != a.shape:
        if not isinstance(axis, (int, np.integer)):
            raise ValueError(
                "Axis must be specified as an int when shapes of a and weights differ."
            )
        if weights.ndim != 1 or weights.shape[0] != a.shape[axis]:
            raise ValueError(
                f"average: weights of shape {weights.shape} must be a vector as long as axis {axis} of {a.shape}"
            )
        weights = lax.reshape(
            weights, [weights.shape[0] if i == axis % a.ndim else 1 for i in range(a.ndim)]
        )
    total = _sum(weights, axis=axis, keepdims=keepdims)
    out = lax.div(
        *aligned("average", _sum(multiply(a, weights), axis=axis, keepdims=keepdims), total)
    )
    return (
        (
            out,
            as_array(
                lax.broadcast_in_dim(total, out.shape, range(out.ndim - total.ndim, out.ndim))
            ),
        )
        if returned
        else out
    )


def _inexact_dtype(name, dtype):
    dtype = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"{name}: dtype must be a subclass of float or complex; got dtype={dtype}")
    return dtype


@jit_when_eager(static=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Covariance of variables, which are rows (or columns, with `rowvar=False`); `dtype` is what it is computed in.

    Args:
        m: variables along rows, observations along columns.
        y: more variables.
        rowvar: whether rows are variables.
        bias: whether the divisor is n instead of n - 1.
        ddof: delta degrees of freedom, in place of `bias`.
        fweights: how often each observation counts, integers.
        aweights: how much each observation weighs.
        dtype: the dtype of the result; by default that of the operands.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    from xlab.numpy.joining import concatenate
    from xlab.numpy.logic import conjugate
    from xlab.numpy.shape import atleast_2d
    from xlab.numpy.tensor_contractions import dot
    from xlab.numpy.ufuncs import divide, multiply, subtract

    parts = promoted_inexact("cov", m) if y is None else promoted_inexact("cov", m, y)
    if dtype is not None:
        dtype = _inexact_dtype("cov", dtype)
        real = not dtypes.issubdtype(dtype, np.complexfloating)
        parts = [cast_operand(lax.real(p) if real and is_complex(p) else p, dtype) for p in parts]
    if any(ndim_of(p) > 2 for p in parts):
        raise ValueError("cov: inputs have more than 2 dimensions")
    rows = []
    for i, part in enumerate(parts):
        part = atleast_2d(part)
        if not rowvar and (i or ndim_of(parts[0]) != 1) and part.shape[0] != 1:
            part = lax.transpose(part, (1, 0))
        rows.append(part)
    x = concatenate(rows, axis=0) if len(rows) > 1 else rows[0]
    if ddof is None:
        ddof = 0 if bias else 1
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            (w,) = check("cov", given)
            if ndim_of(w) > 1 or shape_of(w)[0] != x.shape[1]:
                raise ValueError(
                    f"cov: weights must be a vector of {x.shape[1]}, got shape {shape_of(w)}"
                )
            weights = as_array(w) if weights is None else multiply(weights, w)
    center, total = average(x, axis=1, weights=weights, returned=True)
    total = lax.index_in_dim(total, 0, 0, keepdims=False)
    if weights is None:
        factor = lax.sub(total, cast_operand(ddof, total.dtype))
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = lax.sub(total, cast_operand(ddof, total.dtype))
    else:
        squared = _sum(multiply(weights, aweights))
        factor = subtract(total, multiply(ddof, divide(squared, total)))
    x = lax.sub(x, lax.expand_dims(center, (1,)))
    other = conjugate(lax.transpose(x if weights is None else multiply(x, weights), (1, 0)))
    out = divide(dot(x, other), factor)
    return lax.squeeze(out, [i for i, d in enumerate(out.shape) if d == 1])


@jit_when_eager(static=("rowvar", "dtype"))
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """Correlation coefficients of variables; see `cov`.

    Args:
        x: variables along rows, observations along columns.
        y: more variables.
        rowvar: whether rows are variables.
        dtype: the dtype of the result; by default that of the operands.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.corrcoef(jnp.array([[1.0, 2.0], [2.0, 1.0]])).shape
        (2, 2)
    """
    from xlab.numpy.flip_roll_repeat import diag
    from xlab.numpy.logic import clip, real
    from xlab.numpy.ufuncs import divide

    if dtype is not None:
        dtype = _inexact_dtype("corrcoef", dtype)
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return divide(c, c)
    size = lax.sqrt(real(diag(c)))
    out = divide(
        divide(c, cast_operand(lax.expand_dims(size, (1,)), c.dtype)),
        cast_operand(lax.expand_dims(size, (0,)), c.dtype),
    )
    if out.dtype.kind == "c":
        return lax.complex(clip(lax.real(out), -1, 1), clip(lax.imag(out), -1, 1))
    return clip(out, -1, 1)


# -- interpolation ----------------------------------------------------------------------------------------


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Values at positions between given points, on straight lines.

    Args:
        x: positions.
        xp: positions of the points, increasing.
        fp: values of the points.
        left, right: values outside; those of the first and last point by default.
        period: length after which positions repeat.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.interp(1.5, jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0]))
        Array(15., dtype=float32)
    """
    check("interp", x, xp, fp)
    if shape_of(xp) != shape_of(fp) or ndim_of(xp) != 1:
        raise ValueError(
            f"xp and fp must be one-dimensional arrays of equal size, got {shape_of(xp)} and {shape_of(fp)}"
        )
    if period is not None and not hasattr(period, "aval") and host(period, "interp") == 0:
        raise ValueError("period must be a non-zero value; got 0")
    return _interp(x, xp, fp, left, right, period)


@jit_when_eager
def _interp(x, xp, fp, left, right, period):
    from xlab.numpy.arithmetic import remainder
    from xlab.numpy.indexing import take
    from xlab.numpy.sorting import _searchsorted

    x, xp = (as_array(v) for v in promoted_inexact("interp", x, xp))
    (fp,) = (as_array(v) for v in promoted_inexact("interp", fp))
    for what, points in (("positions `xp`", xp), ("values `fp`", fp)):
        whole_along("interp", what, points, 0)
    if period is not None:
        period = cast_operand(period, xp.dtype)
        x, xp = remainder(x, period), remainder(xp, period)
        xp, fp = _sort([xp, fp], 0, num_keys=1)
        xp = lax.concatenate([lax.sub(xp[-1:], period), xp, lax.add(xp[:1], period)], 0)
        fp = lax.concatenate([fp[-1:], fp, fp[:1]], 0)
    n = xp.shape[0]
    at = lax.clamp(
        np.int32(1),
        _searchsorted(xp, x, side="right"),
        cast_dim(max_dim(n - 1, 1), np.dtype(np.int32)),
    )
    before = lax.sub(at, np.int32(1))
    f0, f1, x0, x1 = (
        take(v, i, mode="clip") for v, i in ((fp, before), (fp, at), (xp, before), (xp, at))
    )
    gap = lax.sub(x1, x0)
    tiny = lax.le(
        lax.abs(gap), cast_operand(float(np.spacing(dtypes.finfo(xp.dtype).eps)), gap.dtype)
    )
    slope = lax.div(lax.sub(x, x0), select_promoted(tiny, cast_operand(1, gap.dtype), gap))
    out = select_promoted(
        tiny, f0, lax.add(f0, lax.mul(cast_operand(slope, fp.dtype), lax.sub(f1, f0)))
    )
    if period is None:
        low, high = (
            lax.index_in_dim(fp, 0, 0, keepdims=False),
            lax.index_in_dim(fp, -1, 0, keepdims=False),
        )
        low, high = (
            low if left is None else cast_operand(left, fp.dtype),
            high if right is None else cast_operand(right, fp.dtype),
        )
        out = select_promoted(lax.lt(x, lax.index_in_dim(xp, 0, 0, keepdims=False)), low, out)
        out = select_promoted(lax.gt(x, lax.index_in_dim(xp, -1, 0, keepdims=False)), high, out)
    return cast_operand(out, dtype_of(fp))
