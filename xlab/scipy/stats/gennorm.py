"""The generalised normal distribution."""

from __future__ import annotations

from xlab import numpy as jnp
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["cdf", "logpdf", "pdf"]


@density
def logpdf(x, beta):
    """The logarithm of the density of the generalised normal distribution."""
    return jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta


@density
def pdf(x, beta):
    """The density of the generalised normal distribution."""
    return jnp.exp(jnp.log(0.5 * beta) - special.gammaln(1 / beta) - jnp.abs(x) ** beta)


@density
def cdf(x, beta):
    """The probability of at most `x` under the generalised normal distribution."""
    return 0.5 * (1 + jnp.sign(x) * special.gammainc(1 / beta, jnp.abs(x) ** beta))
