"""The binomial distribution whose probability has a beta distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers

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
    within = jnp.clip(jnp.floor(x), 0, n)
    ways = -jnp.log1p(n) - special.betaln(n - within + 1, within + 1)
    return jnp.where(
        (x >= 0) & (x <= n),
        ways + special.betaln(within + a, n - within + b) - special.betaln(a, b),
        -jnp.inf,
    )


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
