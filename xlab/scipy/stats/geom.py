"""The geometric distribution: trials up to the first success."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["logpmf", "pmf"]


@density(strong=True)
def logpmf(k, p, loc=0):
    """The logarithm of the probability of the geometric distribution."""
    x = k - loc
    return jnp.where((x >= 1) & (jnp.round(x) == x), jnp.log(p) + special.xlog1py(x - 1, -p), -jnp.inf)


@density(strong=True)
def pmf(k, p, loc=0):
    """The probability of the geometric distribution."""
    return jnp.exp(logpmf(k, p, loc))
