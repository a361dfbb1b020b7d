"""Activation functions, element by element."""

from __future__ import annotations

import numpy as np

import xlab.numpy as jnp
from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.comparison import select
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, scalar
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    promoted,
    promoted_inexact,
    strip_weak_type,
)
from xlab.transforms.custom_jvp import custom_jvp

tanh = jnp.tanh


def _zero_like(x):
    return lax.full_like(x, 0)


@custom_jvp
def _relu(x):
    return jnp.maximum(x, 0)


# The derivative at 0 is 0, where that of the maximum would be a half.
_relu.defjvp(
    lambda primals, tangents: (
        _relu(*primals),
        select(jnp.greater(primals[0], 0), tangents[0], _zero_like(tangents[0])),
    )
)


def _activation(name, fun, doc):
    def activation(x: ArrayLike) -> Array:
        (x,) = check(name, x)
        return fun(as_array(x))

    activation.__name__ = activation.__qualname__ = name
    out = jit_when_eager(activation)
    out.__module__ = "xlab.nn"
    out.__doc__ = (
        f"{doc}\n\n    Example:\n        >>> import xlab\n        >>> xlab.nn.{name}(xlab.numpy.ones(3)).shape\n"
        f"        (3,)\n    "
    )
    return out


relu = _activation("relu", _relu, "Rectified linear unit, `max(x, 0)`, with derivative 0 at 0.")


@custom_jvp
def _relu6(x):
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


_relu6.defjvp(
    lambda primals, tangents: (
        _relu6(*primals),
        select(
            lax.bitwise_and(jnp.greater(primals[0], 0), jnp.less(primals[0], 6)),
            tangents[0],
            _zero_like(tangents[0]),
        ),
    )
)

relu6 = _activation("relu6", _relu6, "`min(max(x, 0), 6)`.")


def _floats(name, *xs):
    return tuple(as_array(x) for x in promoted_inexact(name, *xs))


sigmoid = _activation("sigmoid", lax.logistic, "Logistic function, `1 / (1 + exp(-x))`.")


def _silu(x):
    return lax.mul(x, lax.logistic(x))


silu = swish = _activation("silu", _silu, "`x * sigmoid(x)`.")
# The zero takes the type of what became of `x`: integers give floats that are not weak.
softplus = _activation(
    "softplus",
    lambda x: jnp.logaddexp(*promoted_inexact("softplus", x), 0.0),
    "`log(1 + exp(x))` without overflow.",
)
log_sigmoid = _activation(
    "log_sigmoid",
    lambda x: lax.neg(jnp.logaddexp(lax.neg(*_floats("log_sigmoid", x)), 0.0)),
    "Logarithm of the logistic function.",
)
soft_sign = _activation(
    "soft_sign", lambda x: jnp.divide(x, jnp.add(jnp.abs(x), 1)), "`x / (1 + |x|)`."
)


def _hard_tanh(x):
    if not dtypes.issubdtype(x.dtype, np.unsignedinteger):
        x = jnp.where(jnp.less(x, -1), -1, x)
    return jnp.where(jnp.greater(x, 1), 1, x)


hard_tanh = _activation("hard_tanh", _hard_tanh, "The input limited to [-1, 1].")
hard_sigmoid = _activation(
    "hard_sigmoid", lambda x: jnp.divide(relu6(jnp.add(x, 3.0)), 6.0), "`relu6(x + 3) / 6`."
)
hard_silu = hard_swish = _activation(
    "hard_silu", lambda x: jnp.multiply(x, hard_sigmoid(x)), "`x * relu6(x + 3) / 6`."
)


def _mish(x):
    (x,) = _floats("mish", x)
    return lax.mul(x, lax.tanh(softplus(x)))


mish = _activation("mish", _mish, "`x * tanh(softplus(x))`.")
identity = _activation("identity", lambda x: x, "The input itself.")


def _sparse_plus(x):
    quarter = jnp.multiply(jnp.square(jnp.add(x, 1.0)), 0.25)
    return jnp.where(jnp.less_equal(x, -1.0), 0.0, jnp.where(jnp.greater_equal(x, 1.0), x, quarter))


sparse_plus = _activation(
    "sparse_plus", _sparse_plus, "0 below -1, `x` above 1, `(x + 1)² / 4` between."
)
sparse_sigmoid = _activation(
    "sparse_sigmoid",
    lambda x: jnp.multiply(0.5, jnp.clip(jnp.add(x, 1.0), 0.0, 2.0)),
    "0 below -1, 1 above 1, `(x + 1) / 2` between.",
)


@custom_jvp
def _log1mexp(x):
    small = lax.lt(x, scalar(float(np.log(2.0)), x))
    return jnp.where(
        small, jnp.log(lax.neg(lax.expm1(lax.neg(x)))), lax.log1p(lax.neg(lax.exp(lax.neg(x))))
    )


_log1mexp.defjvp(
    lambda primals, tangents: (_log1mexp(*primals), lax.div(tangents[0], lax.expm1(primals[0])))
)

log1mexp = _activation(
    "log1mexp",
    lambda x: _log1mexp(*_floats("log1mexp", x)),
    "`log(1 - exp(-x))` for positive inputs.",
)


@jit_when_eager(static="approximate")
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Gaussian error linear unit: `x` times the normal distribution function at `x`.

    Args:
        x: input.
        approximate: whether to use the tanh approximation.

    Example:
        >>> import xlab
        >>> xlab.nn.gelu(xlab.numpy.array([0.0, 10.0]))
        Array([ 0., 10.], dtype=float32)
    """
    (x,) = _floats("gelu", x)
    x = strip_weak_type(x)
    if approximate:
        cubic = lax.add(x, lax.mul(scalar(0.044715, x), lax.integer_pow(x, 3)))
        inner = lax.tanh(lax.mul(cast_operand(float(np.sqrt(2 / np.pi)), x.dtype), cubic))
        return lax.mul(x, lax.mul(scalar(0.5, x), lax.add(scalar(1.0, x), inner)))
    half = lax.mul(scalar(0.5, x), x)
    return lax.mul(half, lax.erfc(lax.mul(lax.neg(x), cast_operand(float(np.sqrt(0.5)), x.dtype))))


@jit_when_eager
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` where positive, `alpha (exp(x) - 1)` elsewhere.

    Example:
        >>> import xlab
        >>> xlab.nn.elu(xlab.numpy.array([1.0, 0.0]))
        Array([1., 0.], dtype=float32)
    """
    (x,) = check("elu", x)
    up = jnp.greater(x, 0)
    return jnp.where(up, x, jnp.multiply(alpha, jnp.expm1(jnp.where(up, 0.0, x))))


@jit_when_eager
def selu(x: ArrayLike) -> Array:
    """Scaled `elu` that keeps mean and variance of normal inputs.

    Example:
        >>> import xlab
        >>> xlab.nn.selu(xlab.numpy.array([0.0]))
        Array([0.], dtype=float32)
    """
    return jnp.multiply(
        1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717)
    )


@jit_when_eager
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)`.

    Example:
        >>> import xlab
        >>> xlab.nn.celu(xlab.numpy.array([2.0, 0.0]))
        Array([2., 0.], dtype=float32)
    """
    (x,) = check("celu", x)
    up = jnp.greater(x, 0)
    return jnp.where(
        up, x, jnp.multiply(alpha, jnp.expm1(jnp.divide(jnp.where(up, 0.0, x), alpha)))
    )


@jit_when_eager
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """`x` where not negative, `negative_slope * x` elsewhere.

    Example:
        >>> import xlab
        >>> xlab.nn.leaky_relu(xlab.numpy.array([-100.0, 2.0]))
        Array([-1.,  2.], dtype=float32)
    """
    (x,) = check("leaky_relu", x)
    return jnp.where(jnp.greater_equal(x, 0), x, jnp.multiply(negative_slope, x))


@jit_when_eager
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """`(x + sqrt(x² + b)) / 2`.

    Example:
        >>> import xlab
        >>> xlab.nn.squareplus(xlab.numpy.array([0.0]))
        Array([1.], dtype=float32)
    """
    x, b = promoted("squareplus", x, b)
    return jnp.divide(jnp.add(x, jnp.sqrt(jnp.add(jnp.square(x), b))), 2)


@jit_when_eager(static="axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Gated linear unit: the first half along an axis, times the sigmoid of the second.

    Example:
        >>> import xlab
        >>> xlab.nn.glu(xlab.numpy.ones((2, 4))).shape
        (2, 2)
    """
    (x,) = _floats("glu", x)
    axis = canonical_axis(axis, x.ndim)
    n = x.shape[axis]
    if n % 2:
        raise ValueError(
            f"glu: axis size must be divisible by 2, got {n} for axis {axis} of {aval_of(x)}"
        )
    first, second = lax.split(x, (n // 2, n // 2), axis)
    return lax.mul(first, cast_operand(lax.logistic(second), aval_of(first).dtype))
