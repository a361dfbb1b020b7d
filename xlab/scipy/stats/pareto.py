"""The Pareto distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density
def logpdf(x, b, loc=0, scale=1):
    """The logarithm of the density of the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, -jnp.inf, jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(z, 1)))


@density
def pdf(x, b, loc=0, scale=1):
    """The density of the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, 0, b / scale * jnp.maximum(z, 1) ** -(b + 1))


@density
def cdf(x, b, loc=0, scale=1):
    """The probability of at most `x` under the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, 0, -jnp.expm1(-b * jnp.log(jnp.maximum(z, 1))))


@density
def logcdf(x, b, loc=0, scale=1):
    """The logarithm of `cdf` of the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, -jnp.inf, jnp.log1p(-(jnp.maximum(z, 1) ** -b)))


@density
def sf(x, b, loc=0, scale=1):
    """The probability of more than `x` under the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, 1, jnp.maximum(z, 1) ** -b)


@density
def logsf(x, b, loc=0, scale=1):
    """The logarithm of `sf` of the Pareto distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 1, 0, -b * jnp.log(jnp.maximum(z, 1)))


@density
def ppf(q, b, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the Pareto distribution."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc + scale * (1 - q) ** (-1 / b))
