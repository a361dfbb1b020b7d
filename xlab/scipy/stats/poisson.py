"""The Poisson distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logpmf", "pmf"]


@density
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the Poisson distribution.

    Args:
        k: where to evaluate, an array of integers.
        mu: the rate.
        loc: shift of the distribution.
    """
    x = k - loc
    return jnp.where(
        (x >= 0) & (jnp.round(x) == x), special.xlogy(x, mu) - special.gammaln(x + 1) - mu, -jnp.inf
    )


@density
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the Poisson distribution.

    Args:
        k: where to evaluate, an array of integers.
        mu: the rate.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, mu, loc))


@density(strong=True)
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of at most `x` under the Poisson distribution.

    Args:
        k: where to evaluate, an array of integers.
        mu: the rate.
        loc: shift of the distribution.
    """
    x = k - loc
    return jnp.where(x < 0, 0, special.gammaincc(jnp.floor(jnp.maximum(x, 0)) + 1, mu))
