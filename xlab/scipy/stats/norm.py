"""The normal distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the normal distribution."""
    z = (x - loc) / scale
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi) - jnp.log(scale)


@density
def pdf(x, loc=0, scale=1):
    """The density of the normal distribution."""
    z = (x - loc) / scale
    return jnp.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * scale)


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the normal distribution."""
    z = (x - loc) / scale
    return special.ndtr(z)


@density
def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf` of the normal distribution."""
    z = (x - loc) / scale
    return special.log_ndtr(z)


@density
def sf(x, loc=0, scale=1):
    """The probability of more than `x` under the normal distribution."""
    z = (x - loc) / scale
    return special.ndtr(-z)


@density
def logsf(x, loc=0, scale=1):
    """The logarithm of `sf` of the normal distribution."""
    z = (x - loc) / scale
    return special.log_ndtr(-z)


@density
def ppf(q, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the normal distribution."""
    return special.ndtri(q) * scale + loc


@density
def isf(q, loc=0, scale=1):
    """The inverse of `sf` of the normal distribution."""
    return special.ndtri(1 - q) * scale + loc
