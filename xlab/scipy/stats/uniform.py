"""The uniform distribution on an interval, `loc` to `loc + scale`."""

from __future__ import annotations

import operator

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.operands import strip_weak_type
from xlab.scipy.stats.functions import density, on_support

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


@density
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the uniform distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = lambda _, width: -jnp.log(width)
    return on_support(log, ~((z < 0) | (z > 1)), -jnp.inf, x, loc, scale)


@density
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the uniform distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    at = lambda _, width: 1 / width
    return on_support(at, ~((z < 0) | (z > 1)), 0, x, loc, scale)


@density
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the uniform distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    inside = ~((z < 0) | (z > 1))
    mass = on_support(operator.truediv, inside, jnp.where(z > 1, 1, 0), x, loc, scale)
    return strip_weak_type(mass)


@density
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the uniform distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.where(jnp.isnan(q) | (q < 0) | (q > 1), jnp.nan, loc + scale * q)
