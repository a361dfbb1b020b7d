"""`qr`: orthogonal and triangular factors; `householder_product` and `ormqr` work with the reflections that make the first."""

from __future__ import annotations

import numpy as np

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import min_dim
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import add, mul, sub
from xlab.lax.complexes import imag
from xlab.lax.convert import convert
from xlab.lax.creation import full
from xlab.lax.linalg.common import (
    INT32,
    adjoint,
    call,
    define,
    eye,
    identity,
    matrix_transpose,
    product,
    stacked,
    tril,
    zeros,
)
from xlab.lax.linalg.lu import lu_p, lu_solve, take_rows
from xlab.lax.linalg.triangular import triangular_solve
from xlab.lax.shape import concatenate
from xlab.lax.slicing import slice_in_dim

__all__ = ["householder_product", "householder_product_p", "ormqr", "ormqr_p", "qr", "qr_p"]


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Array, ...]:
    """`x == q @ r` with orthonormal columns in `q` and upper triangular `r`.

    Args:
        x: matrices of shape (m, n).
        pivoting: exchange columns so that the diagonal of `r` falls; then a third result says in which order they are.
        full_matrices: whether `q` is (m, m), else (m, min(m, n)).
        use_magma: where to compute on GPUs; no matter here.

    Source:
        Its derivative: Walter and Lehmann (2018), Algorithmic differentiation of linear algebra
            functions, and Roberts and Roberts (2020) for other shapes.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> q, r = lax.linalg.qr(np.float32([[3, 1], [4, 1]]))
        >>> np.allclose(abs(r), [[5, 1.4], [0, 0.2]], atol=1e-6)
        True
    """
    return tuple(
        qr_p.bind(
            x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma
        )
    )


def _qr_shapes(x, *, dtype, pivoting, full_matrices, use_magma):
    m, n = x
    k = m if full_matrices else min_dim(m, n)
    shapes = [((m, k), dtype), ((k, n), dtype)]
    return [*shapes, ((n,), INT32)] if pivoting else shapes


def _columns(x, start: int, stop: int):
    ndim = aval_of(x).ndim
    return slice_in_dim(x, start, stop, axis=ndim - 1)


def _rows(x, start: int, stop: int):
    ndim = aval_of(x).ndim
    return slice_in_dim(x, start, stop, axis=ndim - 2)


def _thin_jvp(q, r, dx):
    """Tangents of q (m, n) and r (n, n) for a matrix of full column rank."""
    dxr = triangular_solve(r, dx)
    inner = product(adjoint(q), dxr)
    # q stays orthonormal: qᴴ dq is skew, and r keeps its form and its real diagonal.
    below = tril(inner, -1)
    skew = sub(below, adjoint(below))
    dtype, (*batch, n, _) = aval_of(r).dtype, aval_of(r).shape
    if _e.complexes(dtype):
        turn = mul(convert(imag(inner), dtype), dtype.type(1j))
        skew = add(skew, mul(stacked(eye(n, dtype), batch), turn))
    return add(product(q, sub(skew, inner)), dxr), product(sub(inner, skew), r)


def _rest_of_q(q, dq, n: int):
    """Tangent of the last columns of a full q, whose first n columns are known with their tangent.

    The reflections make q = I - v s vᴴ with v unit lower triangular, so its last columns are those of the identity plus
    w mᴴ, where w = q₁ - I and m = w₂ w₁⁻¹ for the parts of w above and below row n.
    """
    q1 = _columns(q, 0, n)
    *batch, rows, _ = aval_of(q1).shape
    top = sub(_rows(q1, 0, n), stacked(eye(n, aval_of(q).dtype), batch))
    w = concatenate([top, _rows(q1, n, rows)], aval_of(q).ndim - 2)
    factors, _, permutation = lu_p.bind(top)

    def times_inverse(x):
        """x w₁⁻¹"""
        return matrix_transpose(lu_solve(factors, permutation, matrix_transpose(x), trans=1))

    m = times_inverse(_rows(q1, n, rows))
    dm = times_inverse(sub(_rows(dq, n, rows), product(m, _rows(dq, 0, n))))
    return add(product(dq, adjoint(m)), product(w, adjoint(dm)))


def _qr_jvp(primals, tangents, *, pivoting, full_matrices, use_magma):
    (x,), (dx,) = primals, tangents
    outs = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    if type(dx) is Zero:
        return outs, [Zero.of(o) for o in outs]
    q, r, *order = outs
    if pivoting:
        dx = matrix_transpose(take_rows(matrix_transpose(dx), order[0]))
    m, n = aval_of(x).shape[-2:]
    last = aval_of(x).ndim - 1
    if m < n:
        # The first columns decide q; the others are rotated along.
        dq, dr = _thin_jvp(q, _columns(r, 0, m), _columns(dx, 0, m))
        rotated = product(q, _columns(r, m, n))
        dr = concatenate(
            [dr, add(product(adjoint(dq), rotated), product(adjoint(q), _columns(dx, m, n)))], last
        )
    elif full_matrices and m > n:
        dq, dr = _thin_jvp(_columns(q, 0, n), _rows(r, 0, n), dx)
        dq = concatenate([dq, _rest_of_q(q, dq, n)], last)
        aval = aval_of(dr)
        dr = concatenate([dr, full((*aval.shape[:-2], m - n, n), 0, aval.dtype)], last - 1)
    else:
        dq, dr = _thin_jvp(q, r, dx)
    return outs, [dq, dr, *(Zero.of(o) for o in order)]


def _padded_columns(ctx, x, aval, columns: int):
    extra = columns - aval.shape[-1]
    if extra == 0:
        return x, aval
    out = aval.update(shape=(*aval.shape[:-1], columns))
    if extra < 0:
        bounds = ", ".join(f"0:{n}" for n in out.shape)
        return ctx.op(
            f"stablehlo.slice {x} [{bounds}] : ({mlir.tensor_type(aval)}) -> {mlir.tensor_type(out)}"
        ), out
    nothing, high = [0] * aval.ndim, [0] * (aval.ndim - 1) + [extra]
    scalar = aval.update(shape=())
    return ctx.op(
        f"stablehlo.pad {x}, {zeros(ctx, scalar)}, low = {nothing}, high = {high}, interior = {nothing} : "
        f"({mlir.tensor_type(aval)}, {mlir.tensor_type(scalar)}) -> {mlir.tensor_type(out)}"
    ), out


def _reflections(name: str, dtype) -> str:
    """`orgqr` and `ormqr` are called `ungqr` and `unmqr` for complex numbers."""
    return ("un" if dtype.kind == "c" else "or") + name


def _qr_lowering(ctx, x, *, pivoting, full_matrices, use_magma):
    aval = ctx.avals_in[0]
    *batch, m, n = aval.shape
    nb, k = len(batch), min_dim(m, n)
    q_aval, r_aval = ctx.avals_out[:2]
    if not aval.size:
        outs = [identity(ctx, q_aval), zeros(ctx, r_aval)]
        if pivoting:
            outs.append(ctx.op(f"stablehlo.iota dim = {nb} : {ctx.type_out(2)}"))
        return outs
    taus_aval = aval.update(shape=(*batch, k))
    order = []
    if pivoting:
        free = ShapedArray((*batch, n), INT32)
        packed, pivots, taus = call(
            ctx,
            "geqp3",
            [x, zeros(ctx, free)],
            [aval, free],
            [aval, free, taus_aval],
            nb,
            aliases=[(0, 0), (1, 1)],
        )
        order.append(
            ctx.op(f"stablehlo.subtract {pivots}, {ctx.fill(1, free)} : {mlir.tensor_type(free)}")
        )
    else:
        packed, taus = call(ctx, "geqrf", [x], [aval], [aval, taus_aval], nb, aliases=[(0, 0)])
    columns, columns_aval = _padded_columns(ctx, packed, aval, q_aval.shape[-1])
    (q,) = call(
        ctx,
        _reflections("gqr", aval.dtype),
        [columns, taus],
        [columns_aval, taus_aval],
        [q_aval],
        nb,
        aliases=[(0, 0)],
    )
    r = packed
    if r_aval.shape != aval.shape:
        bounds = ", ".join(f"0:{d}" for d in r_aval.shape)
        r = ctx.op(
            f"stablehlo.slice {packed} [{bounds}] : ({mlir.tensor_type(aval)}) -> {mlir.tensor_type(r_aval)}"
        )
    return [q, _upper(ctx, r, r_aval), *order]


def _upper(ctx, x, aval):
    """The upper triangle, by position."""
    positions, truth = (mlir.tensor_type(aval.update(dtype=np.dtype(d))) for d in (np.int32, bool))
    i, j = (ctx.op(f"stablehlo.iota dim = {aval.ndim - back} : {positions}") for back in (2, 1))
    kept = ctx.op(f"stablehlo.compare LE, {i}, {j}, SIGNED : ({positions}, {positions}) -> {truth}")
    return ctx.op(
        f"stablehlo.select {kept}, {x}, {zeros(ctx, aval)} : {truth}, {mlir.tensor_type(aval)}"
    )


qr_p = define("qr", _qr_shapes, (2,), multiple_results=True)
ad.primitive_jvps[qr_p] = _qr_jvp
mlir.register_text_lowering(qr_p, _qr_lowering)


def _geqrf_lowering(ctx, x):
    aval, taus_aval = ctx.avals_out
    if not aval.size:
        return [x, zeros(ctx, taus_aval)]
    return call(ctx, "geqrf", [x], [aval], [aval, taus_aval], aval.ndim - 2, aliases=[(0, 0)])


geqrf_p = define(
    "geqrf",
    lambda x, *, dtype: [(x, dtype), ((min_dim(*x),), dtype)],
    (2,),
    multiple_results=True,
    no_derivative="it gives reflections, which have no derivative rule; differentiate qr instead",
)
mlir.register_text_lowering(geqrf_p, _geqrf_lowering)


# -- reflections ------------------------------------------------------------------------------------------------


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The product of the reflections `I - tau v vᴴ` whose vectors `v` stand below the diagonal of `a`.

    Args:
        a: matrices of shape (m, n) with m at least n, as decompositions leave them.
        taus: factors, of shape (k,) with k at most n.

    Returns:
        The first n columns of the product.
    """
    return householder_product_p.bind(a, taus)


def _householder_shapes(a, taus, *, dtype):
    m, n = a
    if m < n:
        raise ValueError(
            f"The first argument to householder_product must have at least as many rows as columns, got shape {a}"
        )
    if taus[0] > min(m, n):
        raise ValueError(
            f"The second argument to householder_product must not have more rows than the minimum of the first "
            f"argument's rows and columns. Got {taus[0]} for a matrix of shape {a}"
        )
    return a


def _householder_lowering(ctx, a, taus):
    aval = ctx.avals_in[0]
    if not aval.size:
        return a
    return call(
        ctx,
        _reflections("gqr", aval.dtype),
        [a, taus],
        ctx.avals_in,
        [aval],
        aval.ndim - 2,
        aliases=[(0, 0)],
    )[0]


_NO_DERIVATIVE = "a product of reflections has no derivative rule; differentiate qr instead"
householder_product_p = define(
    "householder_product", _householder_shapes, (2, 1), no_derivative=_NO_DERIVATIVE
)
mlir.register_text_lowering(householder_product_p, _householder_lowering)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """`q @ c`, or `c @ q`, for the whole product `q` of the reflections that `a` and `taus` hold (see `householder_product`).

    Args:
        a, taus: the reflections.
        c: matrices to multiply.
        left: whether `q` stands left of `c`.
        transpose: whether `q` is transposed and conjugated.
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


def _ormqr_shapes(a, taus, c, *, dtype, left, transpose):
    m, n = a
    if taus[0] > min(m, n):
        raise ValueError(
            f"ormqr got {taus[0]} reflections in a matrix of shape {a}, which holds at most {min(m, n)}"
        )
    if c[0 if left else 1] != m:
        raise ValueError(
            f"ormqr with left={left} expects c to have the same number of {'rows' if left else 'columns'} as the "
            f"Householder matrix a has rows. Got a shape {a} and c shape {c}."
        )
    return c


def _ormqr_lowering(ctx, a, taus, c, *, left, transpose):
    av, _, cv = ctx.avals_in
    if not av.size or not cv.size:
        return c
    config = f"left = {str(left).lower()}, transpose = {str(transpose).lower()}"
    return call(
        ctx,
        _reflections("mqr", av.dtype),
        [a, taus, c],
        ctx.avals_in,
        [cv],
        cv.ndim - 2,
        config,
        aliases=[(0, 2)],
    )[0]


ormqr_p = define("ormqr", _ormqr_shapes, (2, 1, 2), no_derivative=_NO_DERIVATIVE)
mlir.register_text_lowering(ormqr_p, _ormqr_lowering)


def _householder(m, n, params):
    """G. Golub, C. Van Loan, "Matrix Computations" (2013), section 5.2: n reflections of what is left of m rows."""
    k = min(m, n)
    return 2 * k * k * (max(m, n) - k / 3)


def _applied(avals_in, avals_out, **_):
    return costs.Cost(4 * avals_in[1].shape[-1] * avals_out[0].size, unit="decomposition")


costs.register(costs.on_matrices(lambda *given: 2 * _householder(*given)), qr_p)
costs.register(costs.on_matrices(_householder), geqrf_p, householder_product_p)
costs.register(_applied, ormqr_p)
