"""Bessel functions."""

from __future__ import annotations

import operator

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.special.functions import number, special, with_slopes

__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e"]


@special
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.i0(1.0)), 4)
        1.2661
    """
    return _i0(x)


@with_slopes(lambda ans, x: _i1(x))
def _i0(x):
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


def _i1_slope(ans, x):
    """I0(x) - I1(x) / x (DLMF 10.29.2), 1/2 at 0; by the scaled functions, which have a difference where these have overflowed."""
    away = ~(jnp.abs(x) <= float(dtypes.finfo(x.dtype).eps))
    safe = jnp.where(away, x, number(1, x))
    scaled = lax.bessel_i0e(safe) - lax.bessel_i1e(safe) / safe
    return jnp.where(away, jnp.exp(jnp.abs(safe)) * scaled, number(0.5, x))


@with_slopes(_i1_slope)
def _i1(x):
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


@special
def i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0, times `exp(-|x|)`."""
    return lax.bessel_i0e(x)


@special
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1."""
    return _i1(x)


@special
def i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1, times `exp(-|x|)`."""
    return lax.bessel_i1e(x)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind of orders 0 to `v`, along a new first dimension.

    Miller's method: the recurrence runs down from order `n_iter`, which has to be well above `|z|`.

    Args:
        z: where to evaluate.
        v: the highest order.
        n_iter: where the recurrence starts, an order above `v`.

    Source:
        Miller's backward recurrence (Abramowitz and Stegun, 9.12).
    """
    v, n_iter = operator.index(v), operator.index(n_iter)
    if v < 0:
        raise ValueError(f"bessel_jn takes a non-negative order, got v={v}")
    return _bessel_jn(z, v, n_iter)


@special(keywords=("v", "n_iter"), lists=True)
def _bessel_jn(z, v, n_iter):
    top = max(n_iter, v + 16)
    zero = z == 0
    safe = jnp.where(zero, jnp.ones_like(z), z)
    ratios, ratio = {}, jnp.zeros_like(z)
    for k in range(top, 0, -1):
        ratio = safe / (2 * k - safe * ratio)  # of order k to order k - 1
        ratios[k] = ratio
    relative, product = [jnp.ones_like(z)], jnp.ones_like(z)
    total = jnp.ones_like(z)
    for k in range(1, top + 1):
        product = product * ratios[k]
        if k <= v:
            relative.append(product)
        if k % 2 == 0:
            total = total + 2 * product
    at_zero = [jnp.ones_like(z), *(jnp.zeros_like(z) for _ in range(v))]
    return jnp.stack([jnp.where(zero, e, r / total) for e, r in zip(at_zero, relative)])
