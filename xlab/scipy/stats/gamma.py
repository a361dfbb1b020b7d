"""The gamma distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, log_of, on_support, scaled, weighted_log

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log(gap, width, a):
    """The logarithm of the density of `gap / width`."""
    return weighted_log(a - 1, gap, width) - gap / width - special.gammaln(a)


def _between(z):
    return (z > 0) & (z < jnp.inf)


def _end(all_of_it, z, a):
    """What is outside, where there is a distribution at all."""
    possible = ((a > 0) & (z == z)) | ((a == 0) & (z > 0))
    return jnp.where(possible, jnp.where(all_of_it, 1, 0), jnp.nan)


@density(strong=True, defined=scaled)
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = lambda gap, width: _log(gap, width, a) - jnp.log(scale)
    return on_support(log, z >= 0, -jnp.inf, x, loc, scale)


@density(strong=True, defined=scaled)
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    # At the end it has no slope where it is 0 or has no bound.
    limit = (z == 0) & (a != 1)
    end = jnp.where(limit & (a < 1), jnp.where(a > 0, jnp.inf, jnp.nan), 0)
    at = lambda gap, width: jnp.exp(_log(gap, width, a)) / scale
    return on_support(at, (z >= 0) & ~limit, end, x, loc, scale)


@density(strong=True)
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: special.gammainc(a, gap / width)
    return on_support(mass, _between(z), _end(z > 0, z, a), x, loc, scale)


@density(strong=True)
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(cdf(x, a, loc, scale))


@density
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: special.gammaincc(a, gap / width)
    return on_support(mass, _between(z), _end(z <= 0, z, a), x, loc, scale)


@density
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(sf(x, a, loc, scale))
