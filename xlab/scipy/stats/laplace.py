"""The Laplace distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logpdf", "pdf"]


@density
def logpdf(x, loc=0, scale=1):
    """The logarithm of the density of the Laplace distribution."""
    z = (x - loc) / scale
    return -jnp.abs(z) - jnp.log(2 * scale)


@density
def pdf(x, loc=0, scale=1):
    """The density of the Laplace distribution."""
    z = (x - loc) / scale
    return jnp.exp(-jnp.abs(z)) / (2 * scale)


@density
def cdf(x, loc=0, scale=1):
    """The probability of at most `x` under the Laplace distribution."""
    z = (x - loc) / scale
    return jnp.where(z <= 0, 0.5 * jnp.exp(jnp.minimum(z, 0)), 1 - 0.5 * jnp.exp(-jnp.maximum(z, 0)))
