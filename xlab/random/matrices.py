"""Distributions that need linear algebra: several normal variables together, and rotations."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.lax.linalg.common import adjoint, broadcast_over_columns, diagonal
from xlab.lax.shape import canonical_shape
from xlab.numpy.einsum import einsum
from xlab.numpy.operands import promoted_inexact
from xlab.random.continuous import normal
from xlab.random.drawing import as_dtype, drawn, float_dtype, to_shape
from xlab.random.keys import one_key
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = ["multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: Array,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Normal vectors with a mean and a covariance.

    Args:
        key: a key, used up by the call.
        mean: mean of shape (..., n).
        cov: covariance matrices of shape (..., n, n).
        shape: shape of the result without its last dimension; that of the parameters together by default.
        dtype: a floating dtype, by default the one of `mean` and `cov` together.
        method: how to take the root of `cov`: "cholesky" (the fastest), "eigh" or "svd" (for singular ones).
        out_sharding: where the result goes.

    Example:
        >>> import numpy as np, xlab
        >>> xlab.random.multivariate_normal(xlab.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
        (5, 2)
    """
    key, _ = one_key("multivariate_normal", key)
    if dtype is None:
        mean, cov = promoted_inexact("multivariate_normal", mean, cov)
        dtype = aval_of(mean).dtype
    dtype = float_dtype("multivariate_normal", dtype)
    # Matrices are factored in 32 bits at least.
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    mean, cov = as_dtype(mean, dtype), as_dtype(cov, wide)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"method must be one of 'svd', 'eigh' and 'cholesky', got {method!r}")
    m, c = aval_of(mean), aval_of(cov)
    if m.ndim < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {m.ndim}")
    if c.ndim < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {c.ndim}")
    n = m.shape[-1]
    if c.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape == {c.shape}."
        )
    batch = lax.broadcast_shapes(m.shape[:-1], c.shape[:-2])
    if shape is not None:
        shape = canonical_shape(shape)
        if lax.broadcast_shapes(shape, batch) != shape:
            raise ValueError(
                f"multivariate_normal got shape {shape}, to which its parameters of batch shape {batch} do not "
                f"broadcast; it does not include the dimension of the vectors"
            )
        batch = shape
    return _multivariate_normal(key, batch, dtype, method, mean, cov, out_sharding=out_sharding)


@drawn(3)
def _multivariate_normal(key, shape, dtype, method, mean, cov):
    if method == "svd":
        u, s, _ = lax.linalg.svd(cov)
        root = _scaled(u, lax.sqrt(s))
    elif method == "eigh":
        v, w = lax.linalg.eigh(cov)
        root = _scaled(v, lax.sqrt(w))
    else:
        root = lax.linalg.cholesky(cov)
    root = as_dtype(root, dtype)
    full = (*shape, aval_of(mean).shape[-1])
    draw = normal(key, full, dtype)
    return lax.add(to_shape(mean, full), einsum("...ij,...j->...i", root, draw))


def _scaled(columns, factors):
    return lax.mul(columns, broadcast_over_columns(factors, aval_of(columns).shape))


def orthogonal(
    key: Array,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Orthogonal matrices (unitary for complex dtypes), every one of them equally likely.

    Args:
        key: a key, used up by the call.
        n: number of rows.
        shape: batch dimensions.
        dtype: a floating or complex dtype, float32 by default.
        m: number of columns, `n` by default; where the two differ, the shorter side is orthonormal.
        out_sharding: where the result goes.

    Example:
        >>> import numpy as np, xlab
        >>> q = xlab.random.orthogonal(xlab.random.key(0), 3)
        >>> bool(abs(q @ q.T - np.eye(3)).max() < 1e-5)
        True
    """
    key, _ = one_key("orthogonal", key)
    shape, dtype = canonical_shape(shape), float_dtype("normal", dtype, complexes=True)
    if n < 0 or (m is not None and m < 0):
        raise ValueError(f"negative dimensions are not allowed, got {n} and {m}")
    return _orthogonal(
        key, int(n), shape, dtype, int(n if m is None else m), out_sharding=out_sharding
    )


@drawn(4)
def _orthogonal(key, n, shape, dtype, m):
    draw = normal(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = lax.linalg.qr(draw, full_matrices=False)
    # The decomposition prefers signs; those of r's diagonal undo that.
    q = _scaled(q, lax.sign(diagonal(r)))
    return adjoint(q) if n < m else q
