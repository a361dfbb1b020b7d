"""The beta distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _defined(x, a, b, loc, scale):
    return numbers(x, loc) & (a > 0) & (b > 0) & (scale > 0)


@density(strong=True, defined=_defined)
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    inside = jnp.clip(z, 0, 1)
    log = (
        special.xlogy(a - 1, inside)
        + special.xlog1py(b - 1, -inside)
        - special.betaln(a, b)
        - jnp.log(scale)
    )
    return jnp.where((z >= 0) & (z <= 1), log, -jnp.inf)


@density(strong=True, defined=_defined)
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    inside = jnp.clip(z, 0, 1)
    log = special.xlogy(a - 1, inside) + special.xlog1py(b - 1, -inside) - special.betaln(a, b)
    return jnp.where((z >= 0) & (z <= 1), jnp.exp(log) / scale, 0)


@density(strong=True)
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of at most `x` under the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return special.betainc(a, b, jnp.clip(z, 0, 1))


@density(strong=True)
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf` of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    return jnp.log(cdf(x, a, b, loc, scale))


@density(strong=True)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x` under the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return _upper(z, a, b)


@density(strong=True)
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf` of the beta distribution.

    Args:
        x: where to evaluate, an array.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.log(_upper(z, a, b))


def _upper(z, a, b):
    """From the other end, where it is small (DLMF 8.17.4)."""
    return special.betainc(b, a, 1 - jnp.clip(z, 0, 1))
