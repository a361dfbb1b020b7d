"""The generalized normal distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logpdf", "pdf"]


@density
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density of the generalized normal distribution."""
    return jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta


@density
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density of the generalized normal distribution."""
    return jnp.exp(jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta)


@density
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of at most `x` under the generalized normal distribution."""
    return 0.5 * (1 + jnp.sign(x) * special.gammainc(1 / beta, jnp.abs(x) ** beta))
