"""The uniform distribution on an interval, `loc` to `loc + scale`."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the uniform distribution."""
    z = (x - loc) / scale
    return jnp.where((z < 0) | (z > 1), -jnp.inf, -jnp.log(scale))


@density
def pdf(x, loc=0, scale=1):
    """The density of the uniform distribution."""
    z = (x - loc) / scale
    return jnp.where((z < 0) | (z > 1), 0, 1 / scale)


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the uniform distribution."""
    z = (x - loc) / scale
    return jnp.where(z < 0, 0, jnp.where(z > 1, 1, z))


@density
def ppf(q, loc=0, scale=1):
    """The quantile, the inverse of `cdf`, of the uniform distribution."""
    return jnp.where(jnp.isnan(q) | (q < 0) | (q > 1), jnp.nan, loc + scale * q)
