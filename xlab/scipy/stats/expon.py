"""The exponential distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, on_support, scaled

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _finite(z):
    return (z >= 0) & (z < jnp.inf)


def _end(all_of_it, z):
    return jnp.where(z == z, jnp.where(all_of_it, 1, 0), jnp.nan)


@density(defined=scaled)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = lambda gap, width: -(gap / width) - jnp.log(scale)
    return on_support(log, z >= 0, -jnp.inf, x, loc, scale)


@density(defined=scaled)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    at = lambda gap, width: jnp.exp(-(gap / width)) / scale
    return on_support(at, _finite(z), 0, x, loc, scale)


@density
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: -jnp.expm1(-(gap / width))
    return on_support(mass, _finite(z), _end(z > 0, z), x, loc, scale)


@density(defined=scaled)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = lambda gap, width: jnp.log1p(-jnp.exp(-(gap / width)))
    end = jnp.where(z > 0, 0, -jnp.inf)
    return on_support(log, (z > 0) & (z < jnp.inf), end, x, loc, scale)


@density
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: jnp.exp(-(gap / width))
    return on_support(mass, _finite(z), _end(z < 0, z), x, loc, scale)


@density
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the exponential distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return on_support(lambda gap, width: -(gap / width), ~(z < 0), 0, x, loc, scale)


@density
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the exponential distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc - scale * jnp.log1p(-q))
