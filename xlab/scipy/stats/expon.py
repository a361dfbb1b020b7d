"""The exponential distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, -jnp.inf, -z - jnp.log(scale))


@density
def pdf(x, loc=0, scale=1):
    """The density of the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, jnp.exp(-z) / scale)


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, -jnp.expm1(-z))


@density
def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf` of the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, -jnp.inf, jnp.log1p(-jnp.exp(-z)))


@density
def sf(x, loc=0, scale=1):
    """The probability of more than `x` under the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, 1, jnp.exp(-z))


@density
def logsf(x, loc=0, scale=1):
    """The logarithm of `sf` of the exponential distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, -z)


@density
def ppf(q, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the exponential distribution."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc - scale * jnp.log1p(-q))
