"""The logistic distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the logistic distribution."""
    z = (x - loc) / scale
    return -z - 2 * jnp.logaddexp(0, -z) - jnp.log(scale)


@density
def pdf(x, loc=0, scale=1):
    """The density of the logistic distribution."""
    z = (x - loc) / scale
    return jnp.exp(-z - 2 * jnp.logaddexp(0, -z)) / scale


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the logistic distribution."""
    z = (x - loc) / scale
    return special.expit(z)


@density
def sf(x, loc=0, scale=1):
    """The probability of more than `x` under the logistic distribution."""
    z = (x - loc) / scale
    return special.expit(-z)


@density
def ppf(x, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the logistic distribution."""
    return special.logit(x) * scale + loc


@density
def isf(x, loc=0, scale=1):
    """The inverse of `sf` of the logistic distribution."""
    return -special.logit(x) * scale + loc
