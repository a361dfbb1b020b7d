"""The normal distribution of vectors."""

from __future__ import annotations

import math

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at vectors listed along the last axis, through the Cholesky factor of the covariance.

    Raises:
        NotImplementedError: for `allow_singular`.
        ValueError: when the shapes do not fit.

    Args:
        x: points, of shape `(..., n)`.
        mean: their mean, of shape `(n,)` or what broadcasts to `x`.
        cov: their covariance: a number, `(n,)` or `(..., n, n)`.
        allow_singular: has to be None.
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf: a singular covariance has no density"
        )
    x, mean, cov = (
        as_array(v) for v in promoted_inexact("multivariate_normal.logpdf", x, mean, cov)
    )
    if not mean.shape:
        return -0.5 * jnp.square(x - mean) / cov - 0.5 * (math.log(2 * math.pi) + jnp.log(cov))
    n = mean.shape[-1]
    if not cov.shape:
        gap = x - mean
        return -0.5 * (gap * gap).sum(-1) / cov - n / 2 * (math.log(2 * math.pi) + jnp.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            "multivariate_normal.logpdf got incompatible shapes: the covariance of "
            f"{n} entries is ({n}, {n}), got {cov.shape}"
        )
    factor = jnp.linalg.cholesky(cov)
    gap = x - mean
    batch = jnp.broadcast_shapes(gap.shape[:-1], cov.shape[:-2])
    white = lax.linalg.triangular_solve(
        jnp.broadcast_to(factor, (*batch, n, n)),
        jnp.broadcast_to(gap, (*batch, n))[..., None],
        left_side=True,
        lower=True,
    )[..., 0]
    spread = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (white * white).sum(-1) - n / 2 * math.log(2 * math.pi) - spread


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density at vectors.

    Args:
        x: points, of shape `(..., n)`.
        mean: their mean, of shape `(n,)` or what broadcasts to `x`.
        cov: their covariance: a number, `(n,)` or `(..., n, n)`.
    """
    return jnp.exp(logpdf(x, mean, cov))
