"""`polyfit`: polynomials through data, by least squares."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.grids import vander
from xlab.numpy.operands import check, promoted_inexact

__all__ = ["polyfit"]


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool = False,
) -> Array | tuple[Array, ...]:
    """The polynomial of a degree that comes closest to the points `(x, y)`: its coefficients, highest power first.

    Args:
        x: vector of M places.
        y: M values, or a matrix whose columns are such.
        deg: the degree.
        rcond: singular values below this fraction of the largest count as zero; `M * eps` by default.
        full: whether to return also the residuals, the rank, the singular values, and `rcond`.
        w: weights of the points: what the difference at each is multiplied by.
        cov: whether to return also the covariance of the coefficients; with "unscaled", as if the weights were exact.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyfit(jnp.arange(4.0), 2 * jnp.arange(4.0) + 1, 1).round(3)
        Array([2., 1.], dtype=float32)
    """
    from xlab.numpy.linalg import inv, lstsq

    x, y = map(as_array, check("polyfit", x, y))
    order = int(deg) + 1
    if order < 1:
        raise ValueError(f"expected deg >= 0, got {deg}")
    if x.ndim != 1:
        raise TypeError(f"expected 1D vector for x, got shape {x.shape}")
    if not x.size:
        raise TypeError("expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError(f"expected 1D or 2D array for y, got shape {y.shape}")
    if len(x) != len(y):
        raise TypeError(f"expected x and y to have same length, got {len(x)} and {len(y)}")
    x, y = map(as_array, promoted_inexact("polyfit", x, y))
    if rcond is None:
        rcond = len(x) * float(dtypes.finfo(x.dtype).eps)
    lhs, rhs = vander(x, order), y
    if w is not None:
        w = as_array(*check("polyfit", w))
        if w.ndim != 1:
            raise TypeError(f"expected a 1-d array for weights, got shape {w.shape}")
        if len(w) != len(y):
            raise TypeError(f"expected w and y to have the same length, got {len(w)} and {len(y)}")
        _, w = map(as_array, promoted_inexact("polyfit", lhs, w))
        lhs = lhs * w[:, None]
        rhs = rhs * (w[:, None] if y.ndim == 2 else w)
    scale = lax.sqrt((lhs * lhs).sum(0))
    lhs = lhs / scale
    c, residuals, rank, s = lstsq(lhs, rhs, rcond)
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, as_array(rcond)
    if not cov:
        return c
    base = inv(lhs.T @ lhs) / (scale[:, None] * scale)
    if isinstance(cov, str) and cov == "unscaled":
        factor = lax.full((1,), 1, np.float32)
    elif len(x) <= order:
        raise ValueError(
            f"the number of data points must exceed order to scale the covariance matrix: got {len(x)} points for order {order}"
        )
    else:
        factor = residuals / (len(x) - order)
    return c, base * factor if y.ndim == 1 else base[:, :, None] * factor
