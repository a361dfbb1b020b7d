"""The normal distribution cut off at `loc + a * scale` and `loc + b * scale`."""

from __future__ import annotations

import math

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, log_mass, on_support

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _defined(x, a, b, loc, scale):
    return a < b


def _log(z, a, b):
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_mass(a, b)


def _within(z, a, b):
    return ~((z < a) | (z > b) | (jnp.abs(z) == jnp.inf))


def _middle(a, b):
    """A point between the ends."""
    right, left = jnp.where(a > -jnp.inf, a + 1, 0), jnp.where(a > -jnp.inf, b, b - 1)
    either = jnp.where(b < jnp.inf, left, right)
    both = (a > -jnp.inf) & (b < jnp.inf)
    return lax.stop_gradient(jnp.where(both, a + (b - a) / 2, either))


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
    log = lambda gap, width: _log(gap / width, a, b) - jnp.log(width)
    return on_support(log, _within(z, a, b), -jnp.inf, x, loc, scale)


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
    at = lambda gap, width: jnp.exp(_log(gap / width, a, b) - jnp.log(width))
    return on_support(at, _within(z, a, b), 0, x, loc, scale)


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
    log = lambda gap, width: log_mass(a, gap / width) - log_mass(a, b)
    end = jnp.where(z <= a, -jnp.inf, 0)
    return on_support(log, ~((z <= a) | (z >= b)), end, x, loc, scale, at=_middle(a, b))


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
    return jnp.exp(logcdf(x, a, b, loc, scale))


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
    log = lambda gap, width: log_mass(gap / width, b) - log_mass(a, b)
    end = jnp.where(z <= a, 0, -jnp.inf)
    return on_support(log, ~((z <= a) | (z >= b)), end, x, loc, scale, at=_middle(a, b))


@density(defined=_defined)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the truncated normal distribution.

    Args:
        x: where to evaluate, an array.
        a: the ends of the interval, in units of `scale` from `loc`.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.exp(logsf(x, a, b, loc, scale))
