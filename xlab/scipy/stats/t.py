"""Student's t distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["logpdf", "pdf"]


@density(strong=True)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of Student's t distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return (
        special.gammaln((df + 1) / 2)
        - special.gammaln(df / 2)
        - 0.5 * jnp.log(df * math.pi)
        - (df + 1) / 2 * jnp.log1p(z * z / df)
        - jnp.log(scale)
    )


@density(strong=True)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of Student's t distribution.

    Args:
        x: where to evaluate, an array.
        df: degrees of freedom.
        loc: shift of the distribution.
        scale: its scale, positive.
    """
    z = (x - loc) / scale
    return jnp.exp(
        special.gammaln((df + 1) / 2)
        - special.gammaln(df / 2)
        - 0.5 * jnp.log(df * math.pi)
        - (df + 1) / 2 * jnp.log1p(z * z / df)
        - jnp.log(scale)
    )
