"""Student's t distribution."""

from __future__ import annotations

import math

from xlab import numpy as jnp
from xlab.scipy import special
from xlab.scipy.stats.functions import density

__all__ = ["logpdf", "pdf"]


@density
def logpdf(x, df, loc=0, scale=1):
    """The logarithm of the density of Student's t distribution."""
    z = (x - loc) / scale
    return (special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * jnp.log(df * math.pi)
            - (df + 1) / 2 * jnp.log1p(z * z / df) - jnp.log(scale))


@density
def pdf(x, df, loc=0, scale=1):
    """The density of Student's t distribution."""
    z = (x - loc) / scale
    return jnp.exp(special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * jnp.log(df * math.pi)
                   - (df + 1) / 2 * jnp.log1p(z * z / df) - jnp.log(scale))
