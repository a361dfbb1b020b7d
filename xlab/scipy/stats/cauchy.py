"""The Cauchy distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, log_of, scaled

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density(strong=True)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return -jnp.log(math.pi * scale) - jnp.log1p(z * z)


@density(strong=True, defined=scaled)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return 1 / (math.pi * scale * (1 + z * z))


@density(strong=True)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return 0.5 + jnp.arctan(z) / math.pi


@density(strong=True)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(cdf(x, loc, scale))


@density(strong=True)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return 0.5 + jnp.arctan(-z) / math.pi


@density(strong=True)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the Cauchy distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return log_of(sf(x, loc, scale))


@density(strong=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the Cauchy distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return loc + scale * _quantile(q)


@density(strong=True)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of `sf` of the Cauchy distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return loc - scale * _quantile(q)


def _quantile(q):
    """tan(pi (q - 1/2)), from the end that is nearer: there 1/2 takes the digits of q away."""
    middle = (q > 0.25) & (q < 0.75)
    nearer = jnp.where(middle, 0.25, jnp.where(q < 0.5, q, -(1 - q)))
    return jnp.where(middle, jnp.tan(math.pi * (q - 0.5)), -1 / jnp.tan(math.pi * nearer))
