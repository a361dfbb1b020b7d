"""The Bernoulli distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


@density(strong=True, defined=numbers)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the Bernoulli distribution.

    Args:
        k: where to evaluate, an array of integers.
        p: probability of 1.
        loc: shift of the distribution.
    """
    x = k - loc
    log = lambda x: special.xlogy(x, p) + special.xlog1py(1 - x, -p)
    return on_support(log, (x == 0) | (x == 1), -jnp.inf, k, loc, at=0)


@density(strong=True)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the Bernoulli distribution.

    Args:
        k: where to evaluate, an array of integers.
        p: probability of 1.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, p, loc))


@density(strong=True)
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of at most `x` under the Bernoulli distribution."""
    valid = (p >= 0) & (p <= 1) & (k == k)
    return jnp.where(valid, jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)), jnp.nan)


@density(strong=True)
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile, the inverse of `cdf`, of the Bernoulli distribution."""
    valid = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
    return jnp.where(valid, jnp.where(q <= 1 - p, jnp.zeros_like(q), 1), jnp.nan)
