"""The normal distribution cut off at `loc + a * scale` and `loc + b * scale`."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.scipy.stats.functions import density, log_mass

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@density
def logpdf(x, a, b, loc=0, scale=1):
    """The logarithm of the density of the truncated normal distribution."""
    z = (x - loc) / scale
    log = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_mass(a, b) - jnp.log(scale)
    return jnp.where((z < a) | (z > b), -jnp.inf, log)


@density
def pdf(x, a, b, loc=0, scale=1):
    """The density of the truncated normal distribution."""
    z = (x - loc) / scale
    log = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_mass(a, b) - jnp.log(scale)
    return jnp.where((z < a) | (z > b), 0, jnp.exp(log))


@density
def logcdf(x, a, b, loc=0, scale=1):
    """The logarithm of `cdf` of the truncated normal distribution."""
    z = (x - loc) / scale
    log = log_mass(a, jnp.clip(z, a, b)) - log_mass(a, b)
    return jnp.where(z <= a, -jnp.inf, jnp.where(z >= b, 0, log))


@density
def cdf(x, a, b, loc=0, scale=1):
    """The probability of at most `x` under the truncated normal distribution."""
    z = (x - loc) / scale
    log = log_mass(a, jnp.clip(z, a, b)) - log_mass(a, b)
    return jnp.where(z <= a, 0, jnp.where(z >= b, 1, jnp.exp(log)))


@density
def logsf(x, a, b, loc=0, scale=1):
    """The logarithm of `sf` of the truncated normal distribution."""
    z = (x - loc) / scale
    log = log_mass(jnp.clip(z, a, b), b) - log_mass(a, b)
    return jnp.where(z <= a, 0, jnp.where(z >= b, -jnp.inf, log))


@density
def sf(x, a, b, loc=0, scale=1):
    """The probability of more than `x` under the truncated normal distribution."""
    z = (x - loc) / scale
    log = log_mass(jnp.clip(z, a, b), b) - log_mass(a, b)
    return jnp.where(z <= a, 1, jnp.where(z >= b, 0, jnp.exp(log)))
