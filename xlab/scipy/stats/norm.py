"""The normal distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density(strong=True)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi) - jnp.log(scale)


@density(strong=True)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * scale)


@density(strong=True)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.ndtr(z)


@density(strong=True)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.log_ndtr(z)


@density(strong=True)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.ndtr(-z)


@density(strong=True)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the normal distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.log_ndtr(-z)


@density(strong=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the normal distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return special.ndtri(q) * scale + loc


@density(strong=True)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of `sf` of the normal distribution.

    Args:
        q: probabilities.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return special.ndtri(1 - q) * scale + loc
