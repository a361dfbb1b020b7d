"""Logarithms with their limits: entropies, log-odds, power transforms."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax, nn
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike, AxisLike
from xlab.scipy.special.functions import number, polynomial, special, with_slopes

__all__ = [
    "boxcox",
    "boxcox1p",
    "entr",
    "expit",
    "kl_div",
    "log_softmax",
    "logit",
    "logsumexp",
    "rel_entr",
    "softmax",
    "xlog1py",
    "xlogy",
]


def logsumexp(
    a: ArrayLike,
    axis: AxisLike | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """Logarithm of the sum of exponentials, without overflow; see `xlab.nn.logsumexp`.

    Args:
        a: an array.
        axis: the axes to add up; all by default.
        b: factors of the exponentials.
        keepdims: whether the reduced dimensions stay, with size 1.
        return_sign: whether to return the sign of the sum too, and the logarithm of its size.
        where: which elements count.
    """
    return nn.logsumexp(a, axis=axis, b=b, keepdims=keepdims, return_sign=return_sign, where=where)


def softmax(x: ArrayLike, /, *, axis: AxisLike | None = None) -> Array:
    """Exponentials divided by their sum, over all elements by default."""
    x = jnp.asarray(x)
    return nn.softmax(x, axis=tuple(range(x.ndim)) if axis is None else axis)


def log_softmax(x: ArrayLike, /, *, axis: AxisLike | None = None) -> Array:
    """Logarithm of `softmax`."""
    x = jnp.asarray(x)
    return nn.log_softmax(x, axis=tuple(range(x.ndim)) if axis is None else axis)


@special(complexes=True)
def expit(x: ArrayLike) -> Array:
    """The logistic function, `1 / (1 + exp(-x))`."""
    return lax.logistic(x)


@special(complexes=True)
def logit(x: ArrayLike) -> Array:
    """The logarithm of the odds, `log(x / (1 - x))`."""
    return _logit(x)


@with_slopes(lambda ans, x: 1 / (x * (1 - x)))
def _logit(x):
    return jnp.log(x / (1 - x))


@special(complexes=True)
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """`x log(y)`, and 0 where `x` is 0."""
    return _xlogy(*jnp.broadcast_arrays(x, y))


@with_slopes(lambda ans, x, y: 1 / y, lambda ans, x, y: -quotient(ans, y))
def quotient(x, y):
    """`x / y`, and 0 where `x` is 0: the slope by `y` of `x log(y)`, which is 0 for all `y` there."""
    none = (x == 0) & (y == 0)
    return jnp.where(none, number(0, x), x / jnp.where(none, number(1, y), y))


@with_slopes(lambda ans, x, y: jnp.log(y), lambda ans, x, y: quotient(x, y))
def _xlogy(x, y):
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log(y), number(0, x))


@special(complexes=True)
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """`x log(1 + y)`, and 0 where `x` is 0."""
    return _xlog1py(*jnp.broadcast_arrays(x, y))


@with_slopes(lambda ans, x, y: lax.log1p(y), lambda ans, x, y: quotient(x, 1 + y))
def _xlog1py(x, y):
    return jnp.where((x != 0) | jnp.isnan(y), x * lax.log1p(y), number(0, x))


@with_slopes(lambda ans, x: jnp.log(x) + 1)
def _xlogx(x):
    return _xlogy(x, x)


@special
def entr(x: ArrayLike) -> Array:
    """`-x log(x)`; minus infinity below zero.

    Example:
        >>> from xlab.scipy import special
        >>> float(special.entr(1.0)) == 0
        True
    """
    outside = x < 0  # where a logarithm would leave a slope that is NaN
    return jnp.where(outside, number(-np.inf, x), -_xlogx(jnp.where(outside, number(1, x), x)))


@special
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """`p log(p / q)`, 0 where `p` is 0 and `q` is not negative, infinite outside."""
    inside, at_zero = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = jnp.where(inside, p, number(1, p)), jnp.where(inside, q, number(1, q))
    value = _relative(*jnp.broadcast_arrays(safe_p, safe_q))
    return jnp.where(inside, value, jnp.where(at_zero, number(0, p), number(np.inf, p)))


@with_slopes(lambda ans, p, q: jnp.log(p) - jnp.log(q) + 1, lambda ans, p, q: -(p / q))
def _relative(p, q):
    """`p log(p / q)` of positive numbers. Of nearly equal ones the logarithms cancel; of very different ones the ratio is out of range."""
    ratio = p / q
    within = (ratio > 0) & (ratio < np.inf)
    together = p * jnp.log(jnp.where(within, ratio, number(1, p)))
    return jnp.where(within, together, _xlogx(p) - _xlogy(p, q))


@special
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """`p log(p / q) - p + q`, the terms of the Kullback-Leibler divergence."""
    return rel_entr(p, q) - p + q


# With L = log z and a = lmbda L, and z = x or 1 + x, the transform is f = (e^a - 1) / lmbda. Its slopes have limits where L is infinite:
# df/dx = z^(lmbda - 1), which is 1 for lmbda = 1, and df/dlmbda = L^2 h(a), with h(a) = ((a - 1) e^a + 1) / a^2 = 1/2 + a/3 + ...


def _power(log, x, exponent):
    """`z ** exponent` by `log(x) = log z`, 1 for an exponent of 0."""
    z = log(x)
    endless = (exponent == 0) & jnp.isinf(z)
    return lax.exp(exponent * jnp.where(endless, number(0, z), z))


def _slope_of_exponent(log, x, lmbda):
    z = log(x)
    a = lmbda * jnp.where((lmbda == 0) & jnp.isinf(z), number(0, x), z)
    small = jnp.abs(a) < 0.5
    # Coefficient k is 1/(k+1)! - 1/(k+2)!, and so (k + 1) / (k + 2)!.
    series = polynomial(
        jnp.where(small, a, number(0, a)),
        [(k + 1) / math.factorial(k + 2) for k in range(16)][::-1],
    )
    large = jnp.where(small, number(1, a), a)
    falls = lax.exp(large) == 0  # where (a - 1) e^a has gone to zero, for infinite a, too
    over = jnp.where(small | (lmbda == 0), number(1, lmbda), lmbda)
    direct = jnp.where(falls, number(0, a), (large - 1) * lax.exp(large)) + 1
    return jnp.where(small, z * z * series, direct / (over * over))


def _power_transform(log, x, lmbda):
    zero = lmbda == 0
    power = jnp.where(zero, number(1, x), lmbda)
    return jnp.where(zero, log(x), lax.expm1(power * log(x)) / power)


@with_slopes(
    lambda ans, x, lmbda: _power(jnp.log, x, lmbda - 1),
    lambda ans, x, lmbda: _slope_of_exponent(jnp.log, x, lmbda),
)
def _boxcox(x, lmbda):
    return _power_transform(jnp.log, x, lmbda)


@with_slopes(
    lambda ans, x, lmbda: _power(jnp.log1p, x, lmbda - 1),
    lambda ans, x, lmbda: _slope_of_exponent(jnp.log1p, x, lmbda),
)
def _boxcox1p(x, lmbda):
    return _power_transform(jnp.log1p, x, lmbda)


@special(complexes=True)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`(x**lmbda - 1) / lmbda`, and `log(x)` where `lmbda` is 0."""
    return _boxcox(*jnp.broadcast_arrays(x, lmbda))


@special(complexes=True)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`((1 + x)**lmbda - 1) / lmbda`, and `log(1 + x)` where `lmbda` is 0."""
    return _boxcox1p(*jnp.broadcast_arrays(x, lmbda))
