"""The binomial distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers

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
    within = jnp.clip(x, 0, n)
    ways = special.gammaln(n + 1) - special.gammaln(within + 1) - special.gammaln(n - within + 1)
    return jnp.where(
        (x >= 0) & (x <= n),
        ways + special.xlogy(within, p) + special.xlog1py(n - within, -p),
        -jnp.inf,
    )


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
