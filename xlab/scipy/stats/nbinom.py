"""The negative binomial distribution: failures before the n-th success."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["logpmf", "pmf"]


@density(strong=True, defined=numbers)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the negative binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of successes.
        p: probability of success.
        loc: shift of the distribution.
    """
    x = k - loc
    ways = lambda x: special.gammaln(x + n) - special.gammaln(x + 1) - special.gammaln(n)
    log = lambda x: ways(x) + special.xlogy(n, p) + special.xlog1py(x, -p)
    return on_support(log, x >= 0, -jnp.inf, k, loc, at=0)


@density(strong=True)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the negative binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of successes.
        p: probability of success.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, n, p, loc))
