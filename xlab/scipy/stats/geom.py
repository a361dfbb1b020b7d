"""The geometric distribution: trials up to the first success."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["logpmf", "pmf"]


@density(strong=True, defined=numbers)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the geometric distribution.

    Args:
        k: where to evaluate, an array of integers.
        p: probability of success.
        loc: shift of the distribution.
    """
    x = k - loc
    inside = (x >= 1) & (x < jnp.inf) & (jnp.round(x) == x)
    log = lambda x: jnp.log(p) + special.xlog1py(x - 1, -p)
    return on_support(log, inside, -jnp.inf, k, loc, at=1)


@density(strong=True)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the geometric distribution.

    Args:
        k: where to evaluate, an array of integers.
        p: probability of success.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, p, loc))
