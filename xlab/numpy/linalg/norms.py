"""Lengths of vectors and sizes of matrices."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core.typing import Array, ArrayLike, AxisLike
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import cast_operand, promoted_inexact
from xlab.numpy.shape import expand_dims, moveaxis

__all__ = ["matrix_norm", "norm", "vector_norm"]


@jit_when_eager(static=("ord", "axis", "keepdims"))
def norm(
    x: ArrayLike,
    ord: int | float | str | None = None,
    axis: AxisLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Length of vectors or size of matrices.

    Args:
        x: array.
        ord: for vectors any number, `inf` or `-inf`; for matrices "fro", "nuc", 1, -1, 2, -2, `inf` or `-inf`. The Euclidean
            length, or "fro", by default.
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
            raise ValueError(
                f"Improper number of axes for norm: axis={axis}. Pass one axis to compute a vector-norm, or two axes "
                f"to compute a matrix-norm."
            )
    axes = _r.axes_of("norm", axis, x.ndim)
    if len(axes) == 1:
        return _vector(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: {axis}; expected one for vectors or two for matrices"
        )
    return _matrix(x, ord, axes, keepdims)


def _squares(x, axes, keepdims):
    squared = lax.real(lax.mul(x, lax.conj(x))) if x.dtype.kind == "c" else lax.mul(x, x)
    return _r.sum(squared, axis=axes, keepdims=keepdims)


def _largest(sizes, axes, keepdims=False):
    """The largest of what is not negative: 0 of nothing."""
    return _r.max(sizes, axis=axes, keepdims=keepdims, initial=None if sizes.size else 0)


def _vector(x, ord, axes, keepdims):
    if ord is None or ord == 2:
        return lax.sqrt(_squares(x, axes, keepdims))
    if ord == np.inf:
        return _largest(lax.abs(x), axes, keepdims)
    if ord == -np.inf:
        return _r.min(lax.abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return _r.sum(
            lax.ne(x, cast_operand(0, x.dtype)),
            axis=axes,
            keepdims=keepdims,
            dtype=lax.abs(x).dtype,
        )
    if ord == 1:
        return _r.sum(lax.abs(x), axis=axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order {ord!r} for vector norm: expected a number")
    size = lax.abs(x)
    return lax.pow(
        _r.sum(lax.pow(size, cast_operand(ord, size.dtype)), axis=axes, keepdims=keepdims),
        cast_operand(1 / ord, size.dtype),
    )


def _matrix(x, ord, axes, keepdims):
    rows, columns = axes
    if ord in (None, "fro", "f"):
        return lax.sqrt(_squares(x, axes, keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
        if not keepdims and kept > summed:
            kept -= 1
        total = _r.sum(lax.abs(x), axis=summed, keepdims=keepdims)
        return (_largest if ord > 0 else _r.min)(total, kept, keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        s = lax.linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        out = _r.sum(s, axis=-1) if ord == "nuc" else (_largest if ord > 0 else _r.min)(s, -1)
        return expand_dims(out, axes) if keepdims else out
    raise ValueError(
        f"Invalid order {str(ord)!r} for matrix norm: expected None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
    )


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    ord: int | float | str = 2,
) -> Array:
    """Length of vectors along axes; of the flattened array by default.

    Args:
        x: an array.
        axis: the axes of the vectors; all by default.
        keepdims: whether the reduced dimensions stay, with size 1.
        ord: the order: a number, or inf.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.vector_norm(jnp.array([[3.0], [4.0]]))
        Array(5., dtype=float32)
    """
    return _vector_norm(x, axis=axis, keepdims=bool(keepdims), ord=ord)


@jit_when_eager(static=("axis", "keepdims", "ord"))
def _vector_norm(x, axis, keepdims, ord):
    (x,) = promoted_inexact("vector_norm", x)
    x = as_array(x)
    return _vector(x, ord, _r.axes_of("vector_norm", axis, x.ndim), keepdims)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro"
) -> Array:
    """Size of the matrices in the last two axes.

    Args:
        x: matrices `(..., m, n)`.
        keepdims: whether the last two dimensions stay, with size 1.
        ord: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.matrix_norm(jnp.ones((2, 2)))
        Array(2., dtype=float32)
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))
