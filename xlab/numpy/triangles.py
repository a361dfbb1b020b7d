"""Triangles of matrices, and the indices of their elements."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.dims import dim_index, known_negative
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.numpy.arithmetic import select_promoted
from xlab.numpy.creation import array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    check,
    shape_of,
    spread_to,
)

__all__ = ["tri", "tril", "tril_indices", "triu", "triu_indices"]


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """A matrix with ones at and below a diagonal.

    Args:
        N: number of rows.
        M: number of columns, by default as many as rows.
        k: which diagonal: 0 the main one, positive above, negative below.
        dtype: its dtype, float32 by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.tri(2, dtype=int)
        Array([[1, 0],
               [1, 1]], dtype=int32)
    """
    dtype = (
        dtypes.canonicalize_dtype(np.float64)
        if dtype is None
        else dtypes.check_user_dtype(dtype, "tri")
    )
    n = dim_index(N)
    return _tri(n, n if M is None else dim_index(M), dim_index(k), dtype)


@jit_when_eager(static=("n", "m", "k", "dtype"))
def _tri(n, m, k, dtype):
    return lax.convert_element_type(_below((n, m), k), dtype)


def _below(shape, k):
    """Mask of a matrix at and below diagonal `k`."""
    rows = lax.add(lax.broadcasted_iota(np.int32, shape, 0), np.int32(k))
    return lax.ge(rows, lax.broadcasted_iota(np.int32, shape, 1))


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The array with zeros above a diagonal of its last two dimensions.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.tril(jnp.ones((2, 2), int))
        Array([[1, 0],
               [1, 1]], dtype=int32)
    """
    return _triangle(*check("tril", m), k=dim_index(k), lower=True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The array with zeros below a diagonal of its last two dimensions.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.triu(jnp.ones((2, 2), int))
        Array([[1, 1],
               [0, 1]], dtype=int32)
    """
    return _triangle(*check("triu", m), k=dim_index(k), lower=False)


@jit_when_eager(static=("k", "lower"))
def _triangle(m, k, lower):
    name = "tril" if lower else "triu"
    shape = shape_of(m)
    if len(shape) < 2:
        raise ValueError(f"Argument to {name} must have at least two dimensions, got shape {shape}")
    mask = spread_to(_below(shape[-2:], k if lower else k - 1), shape)
    zeros = lax.full_like(m, 0)
    return select_promoted(mask, m, zeros) if lower else select_promoted(mask, zeros, m)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Row and column indices of the lower triangle.

    Args:
        n: number of rows.
        k: which diagonal: 0 the main one, positive above, negative below.
        m: number of columns, by default as many as rows.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.tril_indices(2)[0]
        Array([0, 1, 1], dtype=int32)
    """
    return _indices(np.tril_indices, "tril_indices", n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Row and column indices of the upper triangle.

    Args:
        n: number of rows.
        k: which diagonal: 0 the main one, positive above, negative below.
        m: number of columns, by default as many as rows.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.triu_indices(2)[1]
        Array([0, 1, 1], dtype=int32)
    """
    return _indices(np.triu_indices, "triu_indices", n, k, m)


def _indices(find, name, n, k, m):
    n, k, m = dim_index(n), dim_index(k), dim_index(n if m is None else m)
    if known_negative(n) or known_negative(m):
        raise TypeError(
            f"{name}: the numbers of rows and columns must not be negative, got {n} and {m}"
        )
    return tuple(array(i) for i in find(n, k, m))
