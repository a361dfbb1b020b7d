"""The Cauchy distribution wrapped around a circle."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, numbers

__all__ = ["logpdf", "pdf"]


@density(defined=lambda x, c: numbers(x) & (c > 0) & (c < 1))
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density of the wrapped Cauchy distribution."""
    return jnp.where(
        (x >= 0) & (x <= 2 * math.pi),
        jnp.log1p(-c * c) - math.log(2 * math.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x)),
        -jnp.inf,
    )


@density(defined=lambda x, c: numbers(x) & (c > 0) & (c < 1))
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density of the wrapped Cauchy distribution."""
    return jnp.where(
        (x >= 0) & (x <= 2 * math.pi),
        jnp.exp(jnp.log1p(-c * c) - math.log(2 * math.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x))),
        0,
    )
