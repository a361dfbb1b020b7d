"""The binomial distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["logpmf", "pmf"]


@density(defined=numbers)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of trials.
        p: probability of success.
        loc: shift of the distribution.
    """
    x = k - loc
    inside = (x >= 0) & (x <= n)
    some = jnp.where(n >= 0, n, 0)

    def log(x):
        ways = special.gammaln(some + 1) - special.gammaln(x + 1) - special.gammaln(some - x + 1)
        return ways + special.xlogy(x, p) + special.xlog1py(some - x, -p)

    return on_support(log, inside, -jnp.inf, k, loc, at=0)


@density
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of trials.
        p: probability of success.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, n, p, loc))
