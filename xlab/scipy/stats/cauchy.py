"""The Cauchy distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the Cauchy distribution."""
    z = (x - loc) / scale
    return -jnp.log(math.pi * scale) - jnp.log1p(z * z)


@density
def pdf(x, loc=0, scale=1):
    """The density of the Cauchy distribution."""
    z = (x - loc) / scale
    return 1 / (math.pi * scale * (1 + z * z))


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the Cauchy distribution."""
    z = (x - loc) / scale
    return 0.5 + jnp.arctan(z) / math.pi


@density
def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf` of the Cauchy distribution."""
    return jnp.log(cdf(x, loc, scale))


@density
def sf(x, loc=0, scale=1):
    """The probability of more than `x` under the Cauchy distribution."""
    z = (x - loc) / scale
    return 0.5 + jnp.arctan(-z) / math.pi


@density
def logsf(x, loc=0, scale=1):
    """The logarithm of `sf` of the Cauchy distribution."""
    return jnp.log(sf(x, loc, scale))


@density
def ppf(q, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the Cauchy distribution."""
    return loc + scale * jnp.tan(math.pi * (q - 0.5))


@density
def isf(q, loc=0, scale=1):
    """The inverse of `sf` of the Cauchy distribution."""
    return loc + scale * jnp.tan(math.pi * (0.5 - q))
