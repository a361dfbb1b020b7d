"""The Cauchy distribution wrapped around a circle."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.stats.functions import density, numbers, on_support

__all__ = ["logpdf", "pdf"]


def _log(x, c):
    return jnp.log1p(-c * c) - math.log(2 * math.pi) - jnp.log1p(c * c - 2 * c * jnp.cos(x))


def _around(x):
    return (x >= 0) & (x <= 2 * math.pi)


@density(defined=lambda x, c: numbers(x) & (c > 0) & (c < 1))
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density of the wrapped Cauchy distribution."""
    return on_support(lambda x: _log(x, c), _around(x), -jnp.inf, x)


@density(defined=lambda x, c: numbers(x) & (c > 0) & (c < 1))
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density of the wrapped Cauchy distribution."""
    return on_support(lambda x: jnp.exp(_log(x, c)), _around(x), 0, x)
