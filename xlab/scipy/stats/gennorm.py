"""The generalized normal distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.special.functions import with_slopes
from xlab.scipy.stats.functions import density
from xlab.transforms.jvp import jvp

__all__ = ["cdf", "logpdf", "pdf"]


@density
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density of the generalized normal distribution."""
    return jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta


@density
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density of the generalized normal distribution."""
    return _density(x, beta)


@density
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of at most `x` under the generalized normal distribution."""
    return _cdf(*jnp.broadcast_arrays(x, beta))


def _density(x, beta):
    return jnp.exp(jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta)


def _mass(x, beta):
    return 0.5 * (1 + jnp.sign(x) * special.gammainc(1 / beta, jnp.abs(x) ** beta))


def _slope_by_beta(ans, x, beta):
    """By the formula, which has none in the middle and far out, where the mass is one half, none or all for every `beta`."""
    fixed = (x == 0) | (jnp.abs(x) == jnp.inf)
    x = jnp.where(fixed, 1, x)
    slope = jvp(lambda b: _mass(x, b), (beta,), (jnp.ones_like(beta),))[1]
    return jnp.where(fixed, 0, slope)


# The incomplete gamma function's own slope at 0 has no bound, and that of a power is 0.
_cdf = with_slopes(lambda ans, x, beta: _density(x, beta), _slope_by_beta)(_mass)
