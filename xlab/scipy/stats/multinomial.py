"""The multinomial distribution."""

from __future__ import annotations

import numpy as np

from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact
from xlab.scipy import special

__all__ = ["logpmf", "pmf"]


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of counts that sum to `n`, listed along the last axis.

    Args:
        x: counts, of shape `(..., classes)`.
        n: number of trials.
        p: probabilities of the classes, along the last dimension.
    """
    (p,) = promoted_inexact("multinomial.logpmf", p)
    p, x, n = as_array(p), as_array(x), as_array(n)
    counts = x.astype(p.dtype)
    log = special.gammaln(n.astype(p.dtype) + 1) + (
        special.xlogy(counts, p) - special.gammaln(counts + 1)
    ).sum(axis=-1)
    return jnp.where(x.sum(axis=-1) == n, log, -np.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of counts that sum to `n`.

    Args:
        x: counts, of shape `(..., classes)`.
        n: number of trials.
        p: probabilities of the classes, along the last dimension.
    """
    return jnp.exp(logpmf(x, n, p))
