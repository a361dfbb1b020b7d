"""The chi-squared distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, log_of, on_support, scaled, weighted_log

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log(gap, width, df):
    """The logarithm of the density of `gap / width`."""
    z = gap / width
    return weighted_log(df / 2 - 1, gap, 2 * width) - z / 2 - special.gammaln(df / 2)


def _between(z):
    return (z > 0) & (z < jnp.inf)


def _end(all_of_it, z, df):
    """What is outside, where there is a distribution at all."""
    possible = ((df > 0) & (z == z)) | ((df == 0) & (z > 0))
    return jnp.where(possible, jnp.where(all_of_it, 1, 0), jnp.nan)


@density(strong=True, defined=scaled)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = lambda gap, width: _log(gap, width, df) - jnp.log(2 * scale)
    return on_support(log, z >= 0, -jnp.inf, x, loc, scale)


@density(strong=True, defined=scaled)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    # At the end it has no slope where it is 0 or has no bound.
    limit = (z == 0) & (df != 2)
    end = jnp.where(limit & (df < 2), jnp.where(df > 0, jnp.inf, jnp.nan), 0)
    at = lambda gap, width: jnp.exp(_log(gap, width, df)) / (2 * scale)
    return on_support(at, (z >= 0) & ~limit, end, x, loc, scale)


@density(strong=True)
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: special.gammainc(df / 2, gap / width / 2)
    return on_support(mass, _between(z), _end(z > 0, z, df), x, loc, scale)


@density(strong=True)
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(cdf(x, df, loc, scale))


@density(strong=True)
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    mass = lambda gap, width: special.gammaincc(df / 2, gap / width / 2)
    return on_support(mass, _between(z), _end(z <= 0, z, df), x, loc, scale)


@density(strong=True)
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(sf(x, df, loc, scale))
