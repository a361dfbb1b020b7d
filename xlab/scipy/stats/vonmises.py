"""The von Mises distribution on a circle."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["logpdf", "pdf"]


@density(defined=lambda x, kappa: kappa >= 0)
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density of the von Mises distribution."""
    return kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * special.i0e(kappa))


@density(defined=lambda x, kappa: kappa >= 0)
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density of the von Mises distribution."""
    return jnp.exp(kappa * (jnp.cos(x) - 1)) / (2 * math.pi * special.i0e(kappa))
