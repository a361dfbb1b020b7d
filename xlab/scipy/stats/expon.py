"""The exponential distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, scaled

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density(defined=scaled)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, -jnp.inf, -z - jnp.log(scale))


@density(defined=scaled)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, jnp.exp(-z) / scale)


@density
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, -jnp.expm1(-z))


@density(defined=scaled)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, -jnp.inf, jnp.log1p(-jnp.exp(-z)))


@density
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, 1, jnp.exp(-z))


@density
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, -z)


@density
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the exponential distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc - scale * jnp.log1p(-q))
