"""The geometric distribution: trials up to the first success."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, numbers

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
    return jnp.where(
        (x >= 1) & (jnp.round(x) == x), jnp.log(p) + special.xlog1py(x - 1, -p), -jnp.inf
    )


@density(strong=True)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of the geometric distribution.

    Args:
        k: where to evaluate, an array of integers.
        p: probability of success.
        loc: shift of the distribution.
    """
    return jnp.exp(logpmf(k, p, loc))
