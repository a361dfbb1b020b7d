"""The beta distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, log_of, numbers, on_support, weighted_log

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _defined(x, a, b, loc, scale):
    return numbers(x, loc) & (a > 0) & (b > 0) & (scale > 0)


def _log(gap, width, a, b):
    """The logarithm of the density of `gap / width`."""
    z = gap / width
    return weighted_log(a - 1, gap, width) + special.xlog1py(b - 1, -z) - special.betaln(a, b)


def _between(z):
    return (z > 0) & (z < 1)


def _end(all_of_it, z, a, b):
    """What is outside, where there is a distribution at all."""
    possible = (a >= 0) & (b >= 0) & (a + b > 0) & (z == z)
    return jnp.where(possible, jnp.where(all_of_it, 1, 0), jnp.nan)


@density(strong=True, defined=_defined)
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    inside = (z >= 0) & (z <= 1)
    log = lambda gap, width: _log(gap, width, a, b) - jnp.log(scale)
    return on_support(log, inside, -jnp.inf, x, loc, scale)


@density(strong=True, defined=_defined)
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    # At an end it has no slope where it is 0 or has no bound.
    limit = ((z == 0) & (a != 1)) | ((z == 1) & (b != 1))
    infinite = ((z == 0) & (a < 1)) | ((z == 1) & (b < 1))
    inside = (z >= 0) & (z <= 1) & ~limit
    at = lambda gap, width: jnp.exp(_log(gap, width, a, b)) / scale
    return on_support(at, inside, jnp.where(infinite, jnp.inf, 0), x, loc, scale)


@density(strong=True)
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of at most `x` under the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    lower = lambda gap, width: special.betainc(a, b, gap / width)
    return on_support(lower, _between(z), _end(z >= 1, z, a, b), x, loc, scale)


@density(strong=True)
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf` of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(cdf(x, a, b, loc, scale))


@density(strong=True)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    # From the other end, where it is small (DLMF 8.17.4).
    upper = lambda gap, width: special.betainc(b, a, 1 - gap / width)
    return on_support(upper, _between(z), _end(z <= 0, z, a, b), x, loc, scale)


@density(strong=True)
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf` of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(sf(x, a, b, loc, scale))
