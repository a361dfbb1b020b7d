"""`qdwh`: the polar decomposition by dynamically weighted Halley iterations (Nakatsukasa, Bai and Gygi, 2010)."""

from __future__ import annotations

import math

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import abs, add, mul, square, sub
from xlab.lax.bits import bitwise_and, bitwise_not
from xlab.lax.comparison import eq, gt, lt, select
from xlab.lax.control.while_loop import while_loop
from xlab.lax.convert import convert
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.linalg.cholesky import cholesky
from xlab.lax.linalg.common import adjoint, eye, product, real_of, symmetrize
from xlab.lax.linalg.qr import qr
from xlab.lax.linalg.triangular import triangular_solve
from xlab.lax.reductions import reduce_max, reduce_sum
from xlab.lax.shape import concatenate
from xlab.lax.slicing import slice_in_dim
from xlab.lax.transcendental import rsqrt, sqrt

__all__ = ["qdwh"]

# Weights above this need the iteration by `qr`; below it the cheaper one by `cholesky` is as exact.
_QR_ABOVE = 100.0


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Polar decomposition `x == u @ h` with orthonormal columns in `u` and positive semidefinite `h`.

    Args:
        x: one matrix of shape (m, n) with m at least n.
        is_hermitian: whether `x` is Hermitian, which `u` then is too.
        max_iterations: 10 by default.
        eps: the precision to work for, that of the dtype by default.
        dynamic_shape: rows and columns of `x` that count; the others are taken as zero.

    Returns:
        `u`, `h`, the number of iterations, and whether they converged.

    Source:
        Nakatsukasa, Bai and Gygi (2010), Optimizing Halley's iteration for computing the matrix
            polar decomposition.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> u, h, iterations, converged = lax.linalg.qdwh(np.float32([[0, 2], [1, 0]]))
        >>> bool(converged), np.allclose(h, np.diag([1, 2]), atol=1e-4)
        (True, True)
    """
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    if len(shape) != 2 or shape[0] < shape[1]:
        raise ValueError(
            f"The input matrix of shape M x N must have M >= N. Got shape {shape}; decompose the transpose, or map "
            f"over stacks of matrices with vmap."
        )
    limit = 10 if max_iterations is None else max_iterations
    eps = float(np.finfo(dtype).eps) if eps is None else float(eps)
    if dynamic_shape is not None:
        inside = bitwise_and(
            *(
                lt(
                    broadcasted_iota(np.int32, shape, i),
                    np.asarray(n, np.int32)[()] if isinstance(n, int) else n,
                )
                for i, n in enumerate(dynamic_shape)
            )
        )
        x = select(inside, x, full_like(x, 0))

    def norm(v, axis):
        return reduce_max(reduce_sum(abs(v), (axis,)), (0,))

    one = real_of(dtype).type(1)
    scale = mul(rsqrt(norm(x, 0)), rsqrt(norm(x, 1)))
    u = mul(x, convert(select(eq(norm(x, 0), one * 0), full_like(scale, 1), scale), dtype))
    weights = _weights(eps, limit)
    moving: object = np.True_
    tolerance = real_of(dtype).type((5 * eps) ** (1 / 3))

    def after(old, new):
        new = symmetrize(new) if is_hermitian else new
        return new, gt(_frobenius(sub(new, old)), tolerance)

    for a, b, c in weights:
        if c > _QR_ABOVE:
            u = after(u, _by_qr(u, a, b, c))[0]
        else:
            u, moving = after(u, _by_cholesky(u, a, b, c))

    def step(carry):
        count, u, _ = carry
        return (add(count, np.int32(1)), *after(u, _by_cholesky(u, 3.0, 1.0, 3.0)))

    if len(weights) < limit:
        count, u, moving = while_loop(
            lambda carry: bitwise_and(carry[2], lt(carry[0], np.int32(limit))),
            step,
            (np.int32(len(weights)), u, moving),
        )
    else:
        count = full_like(scale, len(weights), np.int32)
    # One step of Newton and Schulz makes u orthonormal to working precision.
    u = sub(mul(dtype.type(1.5), u), product(mul(dtype.type(0.5), u), product(adjoint(u), u)))
    return (
        u,
        symmetrize(product(adjoint(u), x)),
        convert(count, np.int32, weak_type=True),
        bitwise_not(moving),
    )


def _weights(eps: float, limit: int):
    """Weights (a, b, c) of the iterations that bring the smallest singular value from `eps` to 1."""
    low, found = eps, []
    while low + 5 * eps < 1 and len(found) < limit:
        squared = low * low
        d = math.cbrt(4 * (1 / squared - 1) / squared)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(2 - d + 2 * (2 - squared) / (squared * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low = low * (a + b * squared) / (1 + c * squared)
        found.append((a, b, c))
    return found


def _by_qr(u, a, b, c):
    dtype, (m, n) = aval_of(u).dtype, aval_of(u).shape
    q, _ = qr(
        concatenate([mul(dtype.type(math.sqrt(c)), u), eye(n, dtype)], 0), full_matrices=False
    )
    turned = product(slice_in_dim(q, 0, m), adjoint(slice_in_dim(q, m, m + n)))
    return add(mul(dtype.type(b / c), u), mul(dtype.type((a - b / c) / math.sqrt(c)), turned))


def _by_cholesky(u, a, b, c):
    dtype, n = aval_of(u).dtype, aval_of(u).shape[1]
    l = cholesky(add(mul(dtype.type(c), product(adjoint(u), u)), eye(n, dtype)))
    y = triangular_solve(l, adjoint(u), left_side=True, lower=True)
    y = triangular_solve(l, y, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
    return add(mul(dtype.type(b / c), u), mul(dtype.type(a - b / c), adjoint(y)))


def _frobenius(x):
    return sqrt(reduce_sum(square(abs(x)) if _e.complexes(aval_of(x).dtype) else square(x), (0, 1)))
