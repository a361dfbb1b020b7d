"""`cholesky`, `cholesky_update` and `symmetric_product`: symmetric matrices as products."""

from __future__ import annotations

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import abs, add, div, max, mul, sub
from xlab.lax.comparison import eq, select
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.linalg.common import (
    broadcast_over_rows,
    call,
    char,
    define,
    eye,
    lapack_ok,
    matrix_transpose,
    nan_unless,
    product,
    repeat,
    square,
    symmetrize,
    tril,
)
from xlab.lax.linalg.triangular import triangular_solve_p
from xlab.lax.reductions import reduce_sum
from xlab.lax.shape import broadcast_in_dim
from xlab.lax.transcendental import sqrt

__all__ = [
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "cholesky_update_p",
    "symmetric_product",
    "symmetric_product_p",
]


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular `l` with `l @ l.conj().T == x`, for positive definite `x`; NaN where it is not.

    Args:
        x: square matrices.
        symmetrize_input: whether to take the mean of `x` and its conjugate transpose first; else its lower triangle is read.

    Source:
        Its derivative: Murray (2016), Differentiation of the Cholesky decomposition.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.linalg.cholesky(np.float32([[4, 2], [2, 2]])))
        [[2. 0.]
         [1. 1.]]
    """
    if symmetrize_input:
        x = symmetrize(x)
    return tril(cholesky_p.bind(x))


def _square(x, *, dtype):
    square("cholesky", x)
    return x


def _cholesky_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    l = tril(cholesky_p.bind(x))
    if type(dx) is Zero:
        return l, Zero.of(l)
    # dl = l Φ(l⁻¹ dx l⁻ᴴ), where Φ takes the lower triangle and half of the diagonal.
    complexes = _e.complexes(aval_of(l).dtype)
    right = triangular_solve_p.bind(
        l,
        dx,
        left_side=False,
        lower=True,
        transpose_a=True,
        conjugate_a=complexes,
        unit_diagonal=False,
    )
    inner = tril(
        triangular_solve_p.bind(
            l,
            right,
            left_side=True,
            lower=True,
            transpose_a=False,
            conjugate_a=False,
            unit_diagonal=False,
        )
    )
    shape, dtype = aval_of(l).shape, aval_of(l).dtype
    weights = add(dtype.type(1), eye(shape[-1], dtype))
    if len(shape) > 2:
        weights = broadcast_in_dim(weights, shape, (len(shape) - 2, len(shape) - 1))
    return l, product(l, div(inner, weights))


def _cholesky_lowering(ctx, x):
    (aval,) = ctx.avals_in
    if not aval.size:
        return x
    if ctx.platform != "cpu":
        return ctx.op(f"stablehlo.cholesky {x}, lower = true : {ctx.type_out()}")
    batch = aval.shape[:-2]
    out, info = call(
        ctx,
        "potrf",
        [x],
        [aval],
        [aval, aval.update(shape=batch, dtype=np.dtype(np.int32))],
        len(batch),
        f"uplo = {char('L')}",
        aliases=[(0, 0)],
    )
    return nan_unless(ctx, lapack_ok(ctx, info, batch), batch, out, aval)


cholesky_p = define("cholesky", _square, (2,))
ad.primitive_jvps[cholesky_p] = _cholesky_jvp
mlir.register_text_lowering(cholesky_p, _cholesky_lowering)


# -- a factor after a rank-one change ---------------------------------------------------------------------


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular `s` with `s.T @ s == r.T @ r + outer(w, w)`, for upper triangular `r`.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.linalg.cholesky_update(np.float32([[3, 0], [0, 1]]), np.float32([4, 0])))
        [[5. 0.]
         [0. 1.]]
    """
    return cholesky_update_p.bind(r_matrix, w_vector)


def _update_shapes(r, w, *, dtype):
    if r[0] != r[1] or w != r[1:]:
        raise ValueError(
            f"Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the same size as "
            f"input. Got shapes {r} and {w} instead"
        )
    return r


def _update(r, w):
    """Rotations, one a row, that bring `w` to zero."""
    shape = aval_of(r).shape
    n, batch = shape[-1], len(shape) - 2
    rows = broadcasted_iota(np.int32, shape, batch)
    places = broadcasted_iota(np.int32, (*shape[:-2], n), batch)

    def at(k, v):
        return reduce_sum(select(eq(places, k), v, full_like(v, 0)), (batch,))

    def rotate(k, carry):
        r, w = carry
        here = eq(rows, k)
        row = reduce_sum(select(here, r, full_like(r, 0)), (batch,))
        x, y = at(k, row), at(k, w)
        scale = max(abs(x), abs(y))
        scale = select(eq(scale, full_like(scale, 0)), full_like(scale, 1), scale)
        x, y = div(x, scale), div(y, scale)
        length = sqrt(add(mul(x, x), mul(y, y)))
        still = eq(y, full_like(y, 0))
        c = broadcast_over_rows(select(still, full_like(x, 1), div(x, length)), shape[:-1])
        s = broadcast_over_rows(select(still, full_like(y, 0), div(y, length)), shape[:-1])
        new = add(mul(c, row), mul(s, w))
        spread = broadcast_in_dim(new, shape, (*range(batch), batch + 1))
        return select(here, spread, r), sub(mul(c, w), mul(s, row))

    return repeat(n, rotate, (r, w))[0]


cholesky_update_p = define(
    "cholesky_update",
    _update_shapes,
    (2, 1),
    accepts=_e.floating,
    no_derivative="rotations of single rows have no derivative rule; differentiate "
    "cholesky(r.T @ r + outer(w, w)) instead",
)
mlir.register_text_lowering(cholesky_update_p, mlir.lower_fun(_update))


# -- products with the own transpose ----------------------------------------------------------------------


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """`alpha * a @ a.T + beta * c` for symmetric `c`.

    Args:
        a_matrix: matrices of shape (m, n).
        c_matrix: symmetric matrices of shape (m, m), of which the lower triangle is read.
        alpha, beta: factors.
        symmetrize_output: whether to copy the lower triangle of the result to the upper one, which is undefined otherwise.
    """
    out = symmetric_product_p.bind(a_matrix, c_matrix, alpha=alpha, beta=beta)
    if symmetrize_output:
        above = matrix_transpose(tril(out, -1))
        out = add(tril(out), above)
    return out


def _product_shapes(a, c, *, dtype, **_):
    if c[0] != c[1] or a[0] != c[0]:
        raise ValueError(
            f"symmetric_update expects a rectangular matrix of shape (m, n) and a square matrix of shape (m, m). "
            f"Got shapes {a} and {c}."
        )
    return c


def _symmetric_product(a, c, *, alpha, beta):
    def factor(x):
        return aval_of(c).dtype.type(x)

    return add(mul(factor(alpha), product(a, matrix_transpose(a))), mul(factor(beta), c))


symmetric_product_p = define(
    "symmetric_product",
    _product_shapes,
    (2, 2),
    no_derivative="it stands for a single call of a library; differentiate a @ a.T instead",
)
mlir.register_text_lowering(symmetric_product_p, mlir.lower_fun(_symmetric_product))


def _update_cost(avals_in, avals_out, **_):
    return costs.Cost(4 * avals_in[0].size, unit="other")


def _product_cost(avals_in, avals_out, **_):
    return costs.Cost(avals_in[0].shape[-1] * avals_out[0].size, unit="matrix")


costs.register(costs.on_matrices(lambda m, n, params: n**3 / 3), cholesky_p)
costs.register(_update_cost, cholesky_update_p)
costs.register(_product_cost, symmetric_product_p)
