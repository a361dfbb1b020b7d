"""Softmax and its kin: normalized exponentials, their logarithms, normalization, one-hot vectors."""

from __future__ import annotations

import functools
import math

import numpy as np

import xlab.numpy as jnp
from xlab import lax
from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import dim_index
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike
from xlab.errors import ConcretizationTypeError
from xlab.lax.comparison import select
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, scalar, select_like
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    extreme_value,
    kind_of,
    ndim_of,
    promoted_inexact,
    shape_of,
    strip_weak_type,
)
from xlab.numpy.reductions import axes_of
from xlab.transforms.custom_jvp import custom_jvp


def _shifted(x, axis, where):
    """The input minus its maximum, through which no derivative flows; not weak, though its derivative is as weak as the input."""
    x = strip_weak_type(x)
    biggest = jnp.max(
        x, axis=axis, where=where, initial=extreme_value(-np.inf, x.dtype), keepdims=True
    )
    if where is not None:
        x = jnp.where(where, x, -np.inf)
    return x, lax.sub(x, lax.stop_gradient(biggest))


@jit_when_eager(static="axis")
def softmax(x: ArrayLike, axis: AxisLike | None = -1, where: ArrayLike | None = None) -> Array:
    """Exponentials divided by their sum along axes.

    Args:
        x: input.
        axis: an axis, or a tuple of them.
        where: mask of the elements that take part; the others become 0.

    Example:
        >>> import xlab
        >>> xlab.nn.softmax(xlab.numpy.zeros(4))
        Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    (x,) = promoted_inexact("softmax", x)
    if config.softmax_custom_jvp:
        return _softmax(as_array(x), axis, where)
    return _plain_softmax(as_array(x), axis, where)


def _plain_softmax(x, axis, where):
    _, shifted = _shifted(x, axis, where)
    weights = lax.exp(shifted)
    out = lax.div(weights, jnp.sum(weights, axis=axis, where=where, keepdims=True))
    return out if where is None else jnp.where(where, out, 0)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x, axis, where):
    return _plain_softmax(x, axis, where)


@_softmax.defjvp
def _softmax_jvp(axis, primals, tangents):
    """The derivative as a function of the result, which is the only residual."""
    (x, where), (t, _) = primals, tangents
    y = _softmax(x, axis, where)
    return y, lax.mul(y, lax.sub(t, jnp.sum(lax.mul(y, t), axis=axis, where=where, keepdims=True)))


@jit_when_eager(static="axis")
def log_softmax(x: ArrayLike, axis: AxisLike | None = -1, where: ArrayLike | None = None) -> Array:
    """Logarithm of `softmax`, without overflow.

    Args:
        x: logits.
        axis: the axis or axes to normalize over; None for all.
        where: which elements count, a boolean array that broadcasts to `x`.

    Example:
        >>> import xlab
        >>> xlab.nn.log_softmax(xlab.numpy.array([0.0, 0.0]))
        Array([-0.6931472, -0.6931472], dtype=float32)
    """
    (x,) = promoted_inexact("log_softmax", x)
    _, shifted = _shifted(as_array(x), axis, where)
    out = lax.sub(
        shifted, lax.log(jnp.sum(lax.exp(shifted), axis=axis, where=where, keepdims=True))
    )
    return out if where is None else jnp.where(where, out, -np.inf)


@jit_when_eager(static=("axis", "keepdims", "return_sign"))
def logsumexp(
    a: ArrayLike,
    axis: AxisLike | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """Logarithm of the sum of exponentials, without overflow.

    Args:
        a: exponents.
        axis: an axis or a tuple of them; all by default.
        b: factors of the exponentials.
        keepdims: whether reduced axes stay as dimensions of size 1.
        return_sign: whether to return the sign of the sum too, and the logarithm of its size.
        where: mask of the elements that take part.

    Example:
        >>> import xlab
        >>> xlab.nn.logsumexp(xlab.numpy.zeros(2))
        Array(0.6931472, dtype=float32)
    """
    check("logsumexp", a)
    if b is not None:
        a, b = promoted_inexact("logsumexp", a, b)
        a = jnp.where(jnp.not_equal(b, 0), a, -np.inf)
    else:
        (a,) = promoted_inexact("logsumexp", a)
    a = as_array(a)
    axes = axes_of("logsumexp", axis, a.ndim)
    if where is not None:
        a = jnp.where(where, a, 0)
    biggest = jnp.max(
        lax.real(a) if a.dtype.kind == "c" else a,
        axis=axes,
        keepdims=False,
        where=where,
        initial=-np.inf,
    )
    biggest = lax.stop_gradient(select(lax.is_finite(biggest), biggest, lax.full_like(biggest, 0)))
    wide = lax.expand_dims(biggest, axes)
    weights = lax.exp(lax.sub(a, cast_operand(wide, a.dtype)))
    if b is not None:
        weights = jnp.multiply(weights, b)
    total = jnp.sum(weights, axis=axes, where=where)
    sign = lax.sign(total)
    if return_sign or a.dtype.kind != "c":
        total = lax.abs(total)
    out = lax.add(lax.log(total), cast_operand(biggest, aval_of(total).dtype))
    if return_sign is False and a.dtype.kind != "c" and b is not None:
        out = select_like(lax.lt(sign, scalar(0, sign)), np.nan, out)
    if keepdims:
        out, sign = lax.expand_dims(out, axes), lax.expand_dims(sign, axes)
    return (out, sign) if return_sign else out


@jit_when_eager(static=("axis", "keepdims"))
def logmeanexp(
    x: ArrayLike,
    axis: AxisLike | None = None,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Logarithm of the mean of exponentials, without overflow.

    Args:
        x: an array.
        axis: the axis or axes to average over; all by default.
        where: which elements count, a boolean array that broadcasts to `x`.
        keepdims: whether the reduced dimensions stay, with size 1.

    Example:
        >>> import xlab
        >>> xlab.nn.logmeanexp(xlab.numpy.zeros(2))
        Array(0., dtype=float32)
    """
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        count = math.prod(shape_of(x)[i] for i in axes_of("logmeanexp", axis, ndim_of(x)))
        return lax.sub(total, lax.log(cast_operand(count, aval_of(total).dtype)))
    mask = jnp.broadcast_to(where, shape_of(x))
    return lax.sub(
        total, lax.log(jnp.sum(mask, axis=axis, dtype=aval_of(total).dtype, keepdims=keepdims))
    )


@jit_when_eager(static=("axis", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: AxisLike | None = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """The input with mean 0 and variance 1 along axes.

    Args:
        algorithm: `"fast"` subtracts the squared mean from the mean square, which cancels where the mean is large; `"stable"`
            takes the mean of the squared distances from the mean.

    Example:
        >>> import xlab
        >>> abs(float(xlab.nn.standardize(xlab.numpy.arange(4.0)).mean())) < 1e-6
        True
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm has to be 'fast' or 'stable', got {algorithm!r}")
    (x,) = promoted_inexact("standardize", x)
    x = as_array(x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "stable":
        variance = jnp.mean(jnp.square(jnp.subtract(x, mean)), axis, keepdims=True, where=where)
    elif variance is None:
        variance = jnp.clip(
            jnp.subtract(
                jnp.mean(jnp.square(x), axis, keepdims=True, where=where), jnp.square(mean)
            ),
            min=0,
        )
    return jnp.multiply(jnp.subtract(x, mean), lax.rsqrt(jnp.add(variance, epsilon)))


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """Vectors with a one at the given positions; zeros where a position is out of range.

    Args:
        x: integers.
        num_classes: length of the vectors, known while tracing.
        dtype: type of the result, the default float if not given.
        axis: where the new axis stands.

    Example:
        >>> import xlab
        >>> xlab.nn.one_hot(xlab.numpy.array([0, 2]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    try:
        classes = dim_index(num_classes)
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise TypeError(
            f"one_hot: num_classes must be an integer known while tracing, got {num_classes!r}"
        ) from None
    if kind_of(x) is None:
        x = jnp.asarray(x)
    dtype = (
        dtypes.canonicalize_dtype(np.float64)
        if dtype is None
        else dtypes.check_user_dtype(dtype, "one_hot")
    )
    return _one_hot(x, classes=classes, dtype=dtype, axis=axis)


@jit_when_eager(static=("classes", "dtype", "axis"))
def _one_hot(x, classes, dtype, axis):
    x = as_array(x)
    axis = canonical_axis(axis, x.ndim + 1)
    spread = lax.expand_dims(x, (axis,))
    shape = tuple(classes if i == axis else 1 for i in range(x.ndim + 1))
    return lax.convert_element_type(
        lax.eq(spread, lax.broadcasted_iota(x.dtype, shape, axis)), dtype
    )
