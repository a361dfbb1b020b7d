"""Norms and products under the names of `numpy.linalg`."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array
from xlab.numpy.elementary import elementary
from xlab.numpy.operands import bring, check, promoted_inexact
from xlab.numpy.products import cross, matmul, outer, tensordot, vecdot
from xlab.numpy.repeating import diagonal, trace
from xlab.numpy.shape import matrix_transpose

__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer",
           "tensordot", "trace", "vecdot", "vector_norm"]


@elementary(static=("ord", "axis", "keepdims"))
def norm(x, ord=None, axis=None, keepdims: bool = False):
    """Length of vectors or size of matrices.

    Args:
        x: array.
        ord: for vectors any number, `inf` or `-inf`; for matrices "fro", 1, -1, `inf` or `-inf`. The Euclidean length, or
            "fro", by default.
        axis: an axis for vectors, a pair of axes for matrices; the flattened array by default.
        keepdims: whether reduced axes stay as dimensions of size 1.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
        Array(5., dtype=float32)
    """
    (x,) = promoted_inexact("norm", x)
    x = as_array(x)
    if axis is None:
        if ord is None:
            return lax.sqrt(_squares(x, tuple(range(x.ndim)), keepdims))
        axis = tuple(range(x.ndim))
        if len(axis) > 2:
            raise ValueError(f"Improper number of axes for norm: {x.shape} with ord={ord}; give axis=")
    axes = _r.axes_of("norm", axis, x.ndim)
    if len(axes) == 1:
        return _vector(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(f"Improper number of axes for norm: {axis}; expected one for vectors or two for matrices")
    return _matrix(x, ord, axes, keepdims)


def _squares(x, axes, keepdims):
    squared = lax.real(lax.mul(x, lax.conj(x))) if x.dtype.kind == "c" else lax.mul(x, x)
    return _r.sum(squared, axis=axes, keepdims=keepdims)


def _vector(x, ord, axes, keepdims):
    if ord is None or ord == 2:
        return lax.sqrt(_squares(x, axes, keepdims))
    if ord == np.inf:
        return _r.max(lax.abs(x), axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return _r.min(lax.abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return _r.sum(lax.ne(x, bring(0, x.dtype)), axis=axes, keepdims=keepdims, dtype=lax.abs(x).dtype)
    if ord == 1:
        return _r.sum(lax.abs(x), axis=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm: expected a number")
    size = lax.abs(x)
    return lax.pow(_r.sum(lax.pow(size, bring(ord, size.dtype)), axis=axes, keepdims=keepdims), bring(1 / ord, size.dtype))


def _matrix(x, ord, axes, keepdims):
    rows, columns = axes
    if ord in (None, "fro", "f"):
        return lax.sqrt(_squares(x, axes, keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
        if not keepdims and kept > summed:
            kept -= 1
        total = _r.sum(lax.abs(x), axis=summed, keepdims=keepdims)
        return (_r.max if ord > 0 else _r.min)(total, axis=kept, keepdims=keepdims)
    raise ValueError(f"Invalid order {ord!r} for matrix norm: expected None, 'fro', 1, -1, inf or -inf (those of singular "
                     f"values, 2, -2 and 'nuc', need a decomposition that is not part of this package)")


def vector_norm(x, /, *, axis=None, keepdims: bool = False, ord=2):
    """Length of vectors along axes; of the flattened array by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.vector_norm(jnp.array([[3.0], [4.0]]))
        Array(5., dtype=float32)
    """
    return _vector_norm(x, axis=axis, keepdims=bool(keepdims), ord=ord)


@elementary(static=("axis", "keepdims", "ord"))
def _vector_norm(x, axis, keepdims, ord):
    (x,) = promoted_inexact("vector_norm", x)
    x = as_array(x)
    return _vector(x, ord, _r.axes_of("vector_norm", axis, x.ndim), keepdims)


def matrix_norm(x, /, *, keepdims: bool = False, ord="fro"):
    """Size of the matrices in the last two axes.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.matrix_norm(jnp.ones((2, 2)))
        Array(2., dtype=float32)
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def matrix_power(a, n: int):
    """A square matrix multiplied by itself.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3)
        Array([[1, 3],
               [0, 1]], dtype=int32)
    """
    from xlab.numpy.ranges import eye
    from xlab.numpy.shape import broadcast_to
    a = as_array(*check("matrix_power", a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(f"matrix_power takes square matrices, got shape {a.shape}")
    if n < 0:
        raise ValueError("matrix_power: negative powers need an inverse, which is not part of this package")
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


def multi_dot(arrays, *, precision=None):
    """Product of several matrices in the cheapest order; the first and last may be vectors.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)]).shape
        (2,)
    """
    from xlab.numpy.einsum import einsum
    arrays = list(check("multi_dot", *arrays))
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
            raise ValueError(f"multi_dot takes matrices (and vectors at the ends), got shape {aval_of(x).shape} at {i}")
    return einsum(f"{','.join(terms)}->{first}{last}", *arrays, precision=precision)
