"""Products, and parts of stacks of matrices, in the forms of the array API."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlab.lax.precision import PrecisionLike
from xlab.lax.shape import canonical_axis
from xlab.numpy import flip_roll_repeat as _repeating
from xlab.numpy import tensor_contractions as _p
from xlab.numpy.arithmetic import as_array
from xlab.numpy.einsum import einsum
from xlab.numpy.grids import eye
from xlab.numpy.linalg.systems import inv
from xlab.numpy.operands import check, ndim_of, shape_of
from xlab.numpy.shape import broadcast_to, matrix_transpose
from xlab.numpy.tensor_contractions import vecdot

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Matrix product over the last two axes, the others broadcast; see `xlab.numpy.matmul`.

    Args:
        x1, x2: operands with at least one dimension.
        precision: see `xlab.lax.Precision`.
        preferred_element_type: the dtype to accumulate in and to return.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.linalg.matmul(jnp.ones((1, 2)), jnp.ones((2, 1))))
        [[2.]]
    """
    return _p.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Sum product over pairs of axes; see `xlab.numpy.tensordot`.

    Args:
        x1, x2: arrays.
        axes: how many, the last of `x1` with the first of `x2`; or two lists of axes.
        precision: see `xlab.lax.Precision`.
        preferred_element_type: the dtype to accumulate in and to return.
        out_sharding: how the result is sharded, over explicit mesh axes.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((2, 3)), axes=2))
        6.0
    """
    return _p.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross products of vectors of three elements.

    Args:
        x1, x2: vectors of 3 components along the axis.
        axis: the axis of the components.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0])))
        [0 0 1]
    """
    a, b = check("cross", x1, x2)
    sizes = [shape_of(x)[canonical_axis(axis, ndim_of(x))] for x in (a, b)]
    if sizes != [3, 3]:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they have x1.shape[axis]={sizes[0]} "
            f"and x2.shape[axis]={sizes[1]}"
        )
    return _p.cross(a, b, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """All products of an element of one vector with one of another.

    Args:
        x1, x2: vectors.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4])))
        [[3 4]
         [6 8]]
    """
    a, b = check("outer", x1, x2)
    if (aval_of(a).ndim, aval_of(b).ndim) != (1, 1):
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={aval_of(a).ndim} "
            f"x2.ndim={aval_of(b).ndim}; numpy.outer flattens them"
        )
    return _p.outer(a, b)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonal of each matrix in a stack, above the main one by `offset`.

    Args:
        x: matrices `(..., m, n)`.
        offset: which diagonal: 0 the main one, positive above, negative below.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.diagonal(jnp.ones((2, 3, 4))).shape
        (2, 3)
    """
    return _repeating.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sum of the diagonal of each matrix in a stack.

    Args:
        x: matrices `(..., m, n)`.
        offset: which diagonal: 0 the main one, positive above, negative below.
        dtype: the dtype of the result; by default that of the operands.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(jnp.linalg.trace(jnp.ones((2, 3, 3))))
        [3. 3.]
    """
    return _repeating.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix multiplied by itself, or its inverse where `n` is negative.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3)
        Array([[1, 3],
               [0, 1]], dtype=int32)
    """
    a = as_array(*check("matrix_power", a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(f"matrix_power takes square matrices, got shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError as e:
        raise TypeError(f"exponent must be an integer, got {n}") from e
    if n < 0:
        a, n = inv(a), -n
    out = None
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    while n:
        if n & 1:
            out = a if out is None else matmul(out, a)
        n >>= 1
        if n:
            a = matmul(a, a)
    return out


def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike | None = None) -> Array:
    """Product of several matrices in the cheapest order; the first and last may be vectors.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)]).shape
        (2,)
    """
    arrays = list(check("multi_dot", *arrays))
    if not arrays:
        raise ValueError("multi_dot needs arrays to multiply, got none")
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    terms, last = [], next(letters)
    first = last
    for i, x in enumerate(arrays):
        ndim = aval_of(x).ndim
        if ndim == 1 and i in (0, len(arrays) - 1):
            terms.append(last)
            first = "" if i == 0 else first
            last = last if i == 0 else ""
        elif ndim == 2:
            new = next(letters)
            terms.append(last + new)
            last = new
        else:
            raise ValueError(
                f"multi_dot takes matrices (and vectors at the ends), got shape {aval_of(x).shape} at {i}"
            )
    return einsum(f"{','.join(terms)}->{first}{last}", *arrays, precision=precision)
