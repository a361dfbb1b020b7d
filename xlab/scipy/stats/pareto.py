"""The Pareto distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, scaled

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density(strong=True, defined=scaled)
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 1, -jnp.inf, jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(z, 1)))


@density(strong=True, defined=scaled)
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.exp(logpdf(x, b, loc, scale))


@density(strong=True)
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x` under the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 1, 0, -jnp.expm1(-b * jnp.log(jnp.maximum(z, 1))))


@density(defined=scaled)
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf` of the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 1, -jnp.inf, jnp.log1p(-(jnp.maximum(z, 1) ** -b)))


@density(strong=True, defined=scaled)
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 1, 1, jnp.maximum(z, 1) ** -b)


@density(strong=True, defined=scaled)
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf` of the Pareto distribution.

    Args:
        x: where to evaluate, an array.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.where(z < 1, 0, -b * jnp.log(jnp.maximum(z, 1)))


@density(strong=True)
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile, the inverse of `cdf`, of the Pareto distribution.

    Args:
        q: probabilities.
        b: the exponent, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc + scale * (1 - q) ** (-1 / b))
