"""The logistic distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, scaled

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


@density(strong=True)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    # As even as it is, so that no infinities meet far out.
    return -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z))) - jnp.log(scale)


@density(strong=True, defined=scaled)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    half = jnp.exp(-jnp.abs(z))
    return half / ((1 + half) ** 2 * scale)


@density
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.expit(z)


@density
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.expit(-z)


@density(strong=True)
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return special.logit(x) * scale + loc


@density(strong=True)
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of `sf` of the logistic distribution.

    Args:
        x: where to evaluate, an array.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return -special.logit(x) * scale + loc
