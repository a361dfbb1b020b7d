"""The gamma distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, scaled

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


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
    return jnp.where(
        z >= 0,
        special.xlogy(a - 1, jnp.maximum(z, 0)) - z - special.gammaln(a) - jnp.log(scale),
        -jnp.inf,
    )


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
    return jnp.where(
        z >= 0, jnp.exp(special.xlogy(a - 1, jnp.maximum(z, 0)) - z - special.gammaln(a)) / scale, 0
    )


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
    return special.gammainc(a, jnp.maximum(z, 0))


@density(strong=True)
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.log(cdf(x, a, loc, scale))


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
    return special.gammaincc(a, jnp.maximum(z, 0))


@density
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the gamma distribution.

    Args:
        x: where to evaluate, an array.
        a: the shape parameter, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.log(sf(x, a, loc, scale))
