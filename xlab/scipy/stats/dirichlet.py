"""The Dirichlet distribution."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.scipy import special

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density of the Dirichlet distribution at points listed by columns; a last entry may be left out."""
    x, alpha = (as_array(v) for v in promoted_inexact("dirichlet.logpdf", x, alpha))
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            f"`x` must have either the same number of entries as `alpha` or one entry fewer; got x.shape={x.shape}, "
            f"alpha.shape={alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - x.sum(axis=0, keepdims=True)])
    inside = jnp.all(x > 0, axis=0) & (jnp.abs(x.sum(axis=0) - 1) < 1e-6)
    x = jnp.where(inside, x, 1)  # no slope outside
    weights = lax.expand_dims(alpha, range(1, x.ndim))
    log = (
        special.gammaln(alpha.sum())
        - special.gammaln(alpha).sum()
        + special.xlogy(weights - 1, x).sum(axis=0)
    )
    return jnp.where(inside, log, -np.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density of the Dirichlet distribution."""
    return jnp.exp(logpdf(x, alpha))
