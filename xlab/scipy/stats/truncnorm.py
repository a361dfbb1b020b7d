"""The normal distribution cut off at `loc + a * scale` and `loc + b * scale`."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, log_mass

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _defined(x, a, b, loc, scale):
    return a < b


@density(defined=_defined)
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_mass(a, b) - jnp.log(scale)
    return jnp.where((z < a) | (z > b), -jnp.inf, log)


@density(defined=_defined)
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = -0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_mass(a, b) - jnp.log(scale)
    return jnp.where((z < a) | (z > b), 0, jnp.exp(log))


@density(defined=_defined)
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf` of the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = log_mass(a, jnp.clip(z, a, b)) - log_mass(a, b)
    return jnp.where(z <= a, -jnp.inf, jnp.where(z >= b, 0, log))


@density(defined=_defined)
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of at most `x` under the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = log_mass(a, jnp.clip(z, a, b)) - log_mass(a, b)
    return jnp.where(z <= a, 0, jnp.where(z >= b, 1, jnp.exp(log)))


@density(defined=_defined)
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf` of the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = log_mass(jnp.clip(z, a, b), b) - log_mass(a, b)
    return jnp.where(z <= a, 0, jnp.where(z >= b, -jnp.inf, log))


@density(defined=_defined)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    log = log_mass(jnp.clip(z, a, b), b) - log_mass(a, b)
    return jnp.where(z <= a, 1, jnp.where(z >= b, 0, jnp.exp(log)))
