"""The binomial distribution whose probability has a beta distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["logpmf", "pmf"]


@density(
    strong=True,
    defined=lambda k, n, a, b, loc: numbers(k, loc) & (n >= 0) & (a > 0) & (b > 0),
)
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the beta-binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of trials.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
    """
    x = k - loc

    def log(x):
        x = jnp.floor(x)
        ways = -jnp.log1p(n) - special.betaln(n - x + 1, x + 1)
        return ways + special.betaln(x + a, n - x + b) - special.betaln(a, b)

    return on_support(log, (x >= 0) & (x <= n), -jnp.inf, k, loc, at=0)


@density(strong=True)
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the beta-binomial distribution.

    Args:
        k: where to evaluate, an array of integers.
        n: number of trials.
        a: the two shape parameters, positive.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, n, a, b, loc))
