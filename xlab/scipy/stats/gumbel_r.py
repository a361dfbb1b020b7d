"""The Gumbel distribution of maxima."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the Gumbel distribution of maxima."""
    z = (x - loc) / scale
    return -z - jnp.exp(-z) - jnp.log(scale)


@density
def pdf(x, loc=0, scale=1):
    """The density of the Gumbel distribution of maxima."""
    z = (x - loc) / scale
    return jnp.exp(-z - jnp.exp(-z)) / scale


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the Gumbel distribution of maxima."""
    z = (x - loc) / scale
    return jnp.exp(-jnp.exp(-z))


@density
def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf` of the Gumbel distribution of maxima."""
    z = (x - loc) / scale
    return -jnp.exp(-z)


@density
def sf(x, loc=0, scale=1):
    """The probability of more than `x` under the Gumbel distribution of maxima."""
    z = (x - loc) / scale
    return -jnp.expm1(-jnp.exp(-z))


@density
def logsf(x, loc=0, scale=1):
    """The logarithm of `sf` of the Gumbel distribution of maxima."""
    return jnp.log(sf(x, loc, scale))


@density
def ppf(p, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the Gumbel distribution of maxima."""
    return loc - scale * jnp.log(-jnp.log(p))
