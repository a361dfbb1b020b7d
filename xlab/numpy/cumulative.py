"""Running sums, products and differences."""

from __future__ import annotations

import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.lax import cumulative as _c
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, select_like
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    dtype_of,
    kind_of,
    kinds_of,
    narrow_host_dtype,
    ndim_of,
    no_out,
    promoted,
    shape_of,
)
from xlab.numpy.reductions import widened
from xlab.numpy.shape import ravel

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "ediff1d",
    "gradient",
    "nancumprod",
    "nancumsum",
    "trapezoid",
    "unwrap",
]


def _running(name, op, a, axis, dtype, out, fill=None):
    no_out(name, out)
    a = narrow_host_dtype(*check(name, a))
    if axis is None or not ndim_of(a):
        a, axis = ravel(a), 0 if axis is None else axis
    axis = canonical_axis(axis, ndim_of(a))
    if fill is not None and dtypes.issubdtype(dtype_of(a), np.inexact):
        a = select_like(lax.ne(a, a), fill, a)
    if dtype is None:
        dtype = dtype_of(a)
        if dtype == np.bool_:
            dtype = dtypes.canonicalize_dtype(np.int64)
    else:
        dtype = dtypes.check_user_dtype(dtype, name)
        if dtype == np.bool_:
            return cast_operand(
                op(cast_operand(cast_operand(a, dtype), np.dtype(np.int32)), axis), dtype
            )
    return op(cast_operand(as_array(a), dtype), axis)


@jit_when_eager(static=("axis", "dtype", "out"))
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Sums of the elements so far along an axis (of the flattened array by default).

    Args:
        a: an array.
        axis: the axis to run along; by default the flattened array.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cumsum(jnp.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", _c.cumsum, a, axis, dtype, out)


@jit_when_eager(static=("axis", "dtype", "out"))
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Products of the elements so far along an axis (of the flattened array by default).

    Args:
        a: an array.
        axis: the axis to run along; by default the flattened array.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cumprod(jnp.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", _c.cumprod, a, axis, dtype, out)


@jit_when_eager(static=("axis", "dtype", "out"))
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """As `cumsum`, with NaN counted as 0.

    Args:
        a: an array.
        axis: the axis to run along; by default the flattened array.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 3.0]))
        Array([1., 1., 4.], dtype=float32)
    """
    return _running("nancumsum", _c.cumsum, a, axis, dtype, out, 0)


@jit_when_eager(static=("axis", "dtype", "out"))
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """As `cumprod`, with NaN counted as 1.

    Args:
        a: an array.
        axis: the axis to run along; by default the flattened array.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
        Array([2., 2., 6.], dtype=float32)
    """
    return _running("nancumprod", _c.cumprod, a, axis, dtype, out, 1)


def _standard(name, op, x, axis, dtype, include_initial, start):
    (x,) = check(name, x)
    if not ndim_of(x):
        raise ValueError(
            f"The input must be non-scalar to take {name}, however a scalar value or scalar array was given."
        )
    if axis is None:
        if ndim_of(x) > 1:
            raise ValueError(
                f"The input array has rank {ndim_of(x)}, however axis was not set to an explicit value. The axis "
                f"argument is only optional for one-dimensional arrays."
            )
        axis = 0
    axis = canonical_axis(axis, ndim_of(x))
    out = op(x, axis=axis, dtype=dtype)
    if include_initial:
        shape = [1 if i == axis else d for i, d in enumerate(out.shape)]
        out = lax.concatenate([lax.full(shape, start, out.dtype), out], axis)
    return out


@jit_when_eager(static=("axis", "dtype", "include_initial"))
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sums of the elements so far; `include_initial` puts a 0 in front.

    Args:
        x: an array.
        axis: the axis to run along; may be left out for a vector alone.
        dtype: the dtype of the result; integers are summed in at least 32 bits by default.
        include_initial: whether the result begins with 0.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
        Array([0, 1, 3], dtype=int32)
    """
    if dtype is None and kind_of(x) is not None:  # as in `sum`
        dtype = widened(dtypes.canonicalize_dtype(dtype_of(x)))
    return _standard("cumulative_sum", cumsum, x, axis, dtype, include_initial, 0)


@jit_when_eager(static=("axis", "dtype", "include_initial"))
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Products of the elements so far; `include_initial` puts a 1 in front.

    Args:
        x: an array.
        axis: the axis to run along; may be left out for a vector alone.
        dtype: the dtype of the result; by default that of the operands.
        include_initial: whether the result begins with 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
        Array([1, 2, 6], dtype=int32)
    """
    return _standard("cumulative_prod", cumprod, x, axis, dtype, include_initial, 1)


def _slice(a, start, stop, axis):
    return lax.slice_in_dim(a, start, stop, axis=axis)


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Differences of neighbors along an axis, taken `n` times.

    Args:
        a: an array.
        n: how often to take differences.
        axis: the axis to take them along.
        prepend, append: values to put before and after `a` along the axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.diff(jnp.array([1, 4, 9]))
        Array([3, 5], dtype=int32)
    """
    check("diff", a, *[v for v in (prepend, append) if v is not None])
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not ndim_of(a):
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    return (
        _diff(a, prepend, append, n=n, axis=canonical_axis(axis, ndim_of(a))) if n else as_array(a)
    )


@jit_when_eager(static=("n", "axis"))
def _diff(a, prepend, append, n, axis):
    from xlab.numpy.joining import concatenate

    a = as_array(a)
    ends = []
    for end in (prepend, append):
        if end is None:
            ends.append([])
        elif ndim_of(end):
            ends.append([end])
        else:
            ends.append(
                [
                    lax.broadcast_in_dim(
                        end, [1 if i == axis else d for i, d in enumerate(a.shape)], ()
                    )
                ]
            )
    if ends != [[], []]:
        (*_, weak) = dtypes.result_of(kinds_of([v for v in (a, prepend, append) if v is not None]))
        a = concatenate([*ends[0], a, *ends[1]], axis=axis)
        a = cast_operand(a, a.dtype, weak)
    for _ in range(n):
        size = a.shape[axis]
        ahead, behind = _slice(a, min(1, size), size, axis), _slice(a, 0, max(size - 1, 0), axis)
        a = lax.ne(ahead, behind) if a.dtype == np.bool_ else lax.sub(ahead, behind)
    return a


@jit_when_eager
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Differences of neighbors of the flattened array, with values put around them.

    Args:
        ary: an array, flattened.
        to_end: what follows the differences.
        to_begin: what precedes them.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_end=0)
        Array([3, 5, 0], dtype=int32)
    """
    check("ediff1d", ary)
    flat = ravel(ary)
    n = flat.shape[0]
    out = lax.sub(_slice(flat, min(1, n), n, 0), _slice(flat, 0, max(n - 1, 0), 0))
    if to_begin is not None:
        out = lax.concatenate([cast_operand(ravel(to_begin), flat.dtype), out], 0)
    if to_end is not None:
        out = lax.concatenate([out, cast_operand(ravel(to_end), flat.dtype)], 0)
    return out


@jit_when_eager(static=("axis", "edge_order"))
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: AxisLike | None = None, edge_order: int | None = None
) -> Array | list[Array]:
    """Slopes between neighbors: central inside, one-sided at the ends.

    Args:
        f: samples of a function, of shape `(n, ...)`.
        varargs: the distance of samples: one number, one for each axis, or the coordinates along
            each axis.
        axis: the axes to differentiate along.
        edge_order: has to be 1 or None: one-sided differences of first order at the ends.

    Source:
        Second-order central differences in the interior (three-point stencil for uneven distances).

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
        Array([3., 4., 5.], dtype=float32)
    """
    from xlab.numpy.operands import promoted_inexact
    from xlab.numpy.reductions import axes_of

    if edge_order not in (None, 1):
        raise NotImplementedError("gradient: only edge_order=1 is available")
    (f, *steps) = promoted_inexact("gradient", f, *varargs)
    f = as_array(f)
    axes = axes_of("gradient", axis, f.ndim)
    if not steps:
        steps = [cast_operand(1.0, f.dtype)] * len(axes)
    elif len(steps) == 1:
        steps = steps * len(axes)
    elif len(steps) != len(axes):
        raise TypeError(
            f"gradient takes no spacing, one, or one per axis ({len(axes)}), got {len(steps)}"
        )
    out = []
    for i, step in zip(axes, steps):
        n = f.shape[i]
        if n < 2:
            raise ValueError(f"gradient needs at least 2 elements along axis {i}, got {n}")
        first = lax.sub(_slice(f, 1, 2, i), _slice(f, 0, 1, i))
        last = lax.sub(_slice(f, n - 1, n, i), _slice(f, n - 2, n - 1, i))
        if not shape_of(step):
            inside = lax.mul(
                lax.sub(_slice(f, 2, n, i), _slice(f, 0, n - 2, i)), cast_operand(0.5, f.dtype)
            )
            out.append(lax.concatenate([lax.div(v, step) for v in (first, inside, last)], i))
            continue
        if shape_of(step) != (n,):
            raise ValueError(
                f"gradient: positions along axis {i} must be a vector of {n}, got shape {shape_of(step)}"
            )
        gaps = lax.sub(_slice(step, 1, n, 0), _slice(step, 0, n - 1, 0))
        gaps = lax.broadcast_in_dim(gaps, [n - 1 if j == i else 1 for j in range(f.ndim)], (i,))
        before, after = _slice(gaps, 0, n - 2, i), _slice(gaps, 1, n - 1, i)
        both = lax.add(before, after)
        terms = [
            lax.mul(lax.div(lax.neg(after), lax.mul(before, both)), _slice(f, 0, n - 2, i)),
            lax.mul(
                lax.div(lax.sub(after, before), lax.mul(before, after)), _slice(f, 1, n - 1, i)
            ),
            lax.mul(lax.div(before, lax.mul(after, both)), _slice(f, 2, n, i)),
        ]
        inside = lax.add(lax.add(terms[0], terms[1]), terms[2])
        ends = lax.div(first, _slice(gaps, 0, 1, i)), lax.div(last, _slice(gaps, n - 2, n - 1, i))
        out.append(lax.concatenate([ends[0], inside, ends[1]], i))
    return out[0] if len(out) == 1 else out


@jit_when_eager(static="axis")
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integral along an axis by the trapezoidal rule.

    Args:
        y: samples of the function.
        x: where the samples are; by default at distances `dx`.
        dx: distance of samples.
        axis: the axis to integrate along.

    Source:
        The composite trapezoidal rule.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
        Array(4., dtype=float32)
    """
    from xlab.numpy.operands import promoted_inexact
    from xlab.numpy.reductions import sum
    from xlab.numpy.shape import moveaxis
    from xlab.numpy.ufuncs import add, multiply

    (y,) = promoted_inexact("trapezoid", y)
    y, dx = (
        promoted_inexact("trapezoid", y, dx) if x is None else (promoted_inexact("trapezoid", y, x))
    )
    y = moveaxis(y, axis, -1)
    n = y.ndim - 1
    if x is not None:
        dx = _diff(
            dx if ndim_of(dx) == 1 else moveaxis(dx, axis, -1),
            None,
            None,
            n=1,
            axis=ndim_of(dx) - 1,
        )
    pairs = lax.add(_slice(y, 1, y.shape[n], n), _slice(y, 0, y.shape[n] - 1, n))
    return (
        multiply(cast_operand(0.5, y.dtype), sum(multiply(dx, pairs), axis=-1))
        if x is not None or ndim_of(dx)
        else multiply(
            dx,
            sum(y, axis=-1)
            if not y.shape[n]
            else lax.sub(
                sum(y, axis=-1),
                multiply(
                    cast_operand(0.5, y.dtype),
                    add(
                        lax.index_in_dim(y, 0, n, keepdims=False),
                        lax.index_in_dim(y, -1, n, keepdims=False),
                    ),
                ),
            ),
        )
    )


@jit_when_eager(static="axis")
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi
) -> Array:
    """Angles with jumps of more than half a period taken out.

    Args:
        p: angles.
        discont: the jump that counts as one, by default half the period.
        axis: the axis to run along.
        period: the period.

    Raises:
        ValueError: for complex numbers.
        IndexError: for a scalar, which has no axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unwrap(jnp.array([0.0, 6.0])).shape
        (2,)
    """
    from xlab.numpy.arithmetic import remainder, select_promoted
    from xlab.numpy.ufuncs import divide, less

    p, period = promoted("unwrap", p, period)
    p = as_array(p)
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise ValueError(
            f"unwrap takes real angles, got dtype {dtypes.name(p.dtype)}; use jnp.angle"
        )
    if not p.ndim:
        raise IndexError("unwrap runs along an axis, and a scalar has none; pass an array")
    axis = canonical_axis(axis, p.ndim)
    if not p.shape[axis]:
        return p
    half = (
        divide(period, 2)
        if dtypes.issubdtype(p.dtype, np.inexact)
        else lax.div(period, cast_operand(2, p.dtype))
    )
    jump = _diff(p, None, None, n=1, axis=axis)
    small = lax.sub(remainder(lax.add(jump, half), period), half)
    small = select_promoted(
        lax.bitwise_and(lax.eq(small, lax.neg(half)), lax.gt(jump, cast_operand(0, p.dtype))),
        half,
        small,
    )
    change = select_promoted(
        less(lax.abs(jump), half if discont is None else discont),
        cast_operand(0, aval_of(jump).dtype),
        lax.sub(small, jump),
    )
    n = p.shape[axis]
    return lax.concatenate(
        [_slice(p, 0, 1, axis), lax.add(_slice(p, 1, n, axis), _c.cumsum(change, axis))], axis
    )
