"""The Pareto distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, on_support, scaled

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
    log = lambda gap, width: jnp.log(b / scale) - (b + 1) * jnp.log(gap / width)
    return on_support(log, z >= 1, -jnp.inf, x, loc, scale, at=2)


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
    mass = lambda gap, width: -jnp.expm1(-b * jnp.log(gap / width))
    end = jnp.where(z == jnp.inf, jnp.where(b > 0, 1, jnp.nan), 0)
    return on_support(mass, ~((z < 1) | (z == jnp.inf)), end, x, loc, scale, at=2)


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
    log = lambda gap, width: jnp.log1p(-((gap / width) ** -b))
    return on_support(log, z > 1, -jnp.inf, x, loc, scale, at=2)


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
    return on_support(lambda gap, width: (gap / width) ** -b, z >= 1, 1, x, loc, scale, at=2)


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
    log = lambda gap, width: -b * jnp.log(gap / width)
    return on_support(log, z >= 1, 0, x, loc, scale, at=2)


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
