"""The Poisson distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density, on_support

__all__ = ["cdf", "entropy", "logpmf", "pmf"]


@density(defined=lambda k, mu, loc: loc == loc)
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of the Poisson distribution.

    Args:
        k: where to evaluate, an array of integers.
        mu: the rate.
        loc: shift of the distribution.
    """
    x = k - loc
    inside = (x >= 0) & (x < jnp.inf) & (jnp.round(x) == x)
    log = lambda x: special.xlogy(x, mu) - special.gammaln(x + 1) - mu
    return on_support(log, inside, -jnp.inf, k, loc, at=0)


@density(defined=lambda k, mu, loc: loc == loc)
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
    mass = lambda x: special.gammaincc(jnp.floor(x) + 1, mu)
    return on_support(mass, ~(x < 0), 0, k, loc, at=0)


@density
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The differential entropy of the Poisson distribution, in nats.

    A sum over what can happen for small rates, an expansion in powers of `1 / mu` for large ones.

    Args:
        mu: the rate.
        loc: shift of the distribution, which changes nothing.

    Source:
        Evans and Boersma (1988), The entropy of a Poisson distribution, SIAM Review 30.
    """
    # The expansion is exact to the last digit from here on, and the sum loses digits where many numbers are added.
    border = 10 if mu.dtype.itemsize <= 4 else 40
    small = jnp.where(mu <= border, mu, 1)
    k = jnp.arange(128, dtype=small.dtype).reshape(-1, *(1,) * small.ndim)
    logs = special.xlogy(k, small) - special.gammaln(k + 1) - small
    summed = -(jnp.exp(logs) * jnp.where(logs > -jnp.inf, logs, 0)).sum(0)
    large = jnp.where(mu > border, mu, 100)
    y = 1 / large
    series = y * (1 / 12 + y * (1 / 24 + y * (19 / 360 + y * (9 / 80 + y * (863 / 2520)))))
    expanded = 0.5 * (jnp.log(2 * jnp.pi * large) + 1) - series
    return jnp.where(mu > border, expanded, jnp.where(mu >= 0, summed, jnp.nan)) + 0 * loc
