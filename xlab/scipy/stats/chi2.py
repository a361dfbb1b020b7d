"""The chi-squared distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, scaled

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


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
    return jnp.where(
        z >= 0,
        special.xlogy(df / 2 - 1, jnp.maximum(z, 0) / 2)
        - z / 2
        - special.gammaln(df / 2)
        - jnp.log(2 * scale),
        -jnp.inf,
    )


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
    return jnp.where(
        z >= 0,
        jnp.exp(special.xlogy(df / 2 - 1, jnp.maximum(z, 0) / 2) - z / 2 - special.gammaln(df / 2))
        / (2 * scale),
        0,
    )


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
    return special.gammainc(df / 2, jnp.maximum(z, 0) / 2)


@density(strong=True)
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.log(cdf(x, df, loc, scale))


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
    return special.gammaincc(df / 2, jnp.maximum(z, 0) / 2)


@density(strong=True)
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the chi-squared distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.log(sf(x, df, loc, scale))
