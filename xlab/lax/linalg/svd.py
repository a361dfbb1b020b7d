"""`svd`: singular values and vectors."""

from __future__ import annotations

import enum

from xlab.core.avals import aval_of
from xlab.core.dims import min_dim
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import add, div, mul, sub
from xlab.lax.comparison import eq
from xlab.lax.complexes import real
from xlab.lax.convert import convert
from xlab.lax.creation import full_like
from xlab.lax.linalg.common import (
    INT32,
    adjoint,
    broadcast_over_columns,
    broadcast_over_rows,
    call,
    char,
    define,
    diagonal,
    eye,
    identity,
    lapack_ok,
    nan_unless,
    product,
    real_of,
    stacked,
    zeros,
)

__all__ = ["SvdAlgorithm", "svd", "svd_p"]


class SvdAlgorithm(enum.Enum):
    """Algorithms of `svd`; CPUs have divide and conquer, the default, and QR."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> tuple[Array, ...]:
    """`x == u * s @ vh` with orthonormal columns in `u`, rows in `vh`, and falling `s`.

    Args:
        x: matrices of shape (m, n).
        full_matrices: whether `u` and `vh` are square.
        compute_uv: whether to return `(u, s, vh)`, else `s` alone.
        subset_by_index: range of singular values to compute; here only all of them.
        algorithm: how.

    Source:
        Its derivative: Townsend (2016), Differentiating the singular value decomposition.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.linalg.svd(np.float32([[0, 2], [1, 0]]), compute_uv=False))
        [2. 1.]
    """
    s, *uv = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    return (uv[0], s, uv[1]) if compute_uv else s


def _shapes(x, *, dtype, full_matrices, compute_uv, subset_by_index, algorithm):
    m, n = x
    k = min_dim(m, n)
    if subset_by_index is not None:
        if full_matrices and subset_by_index != (0, k):
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        k = min_dim(k, subset_by_index[1] - subset_by_index[0])
    s = ((k,), real_of(dtype))
    return (
        [s, ((m, m if full_matrices else k), dtype), ((n if full_matrices else k, n), dtype)]
        if compute_uv
        else [s]
    )


def _jvp(primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm):
    (x,), (dx,) = primals, tangents
    m, n = aval_of(x).shape[-2:]
    if type(dx) is Zero:
        outs = svd_p.bind(
            x,
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
            algorithm=algorithm,
        )
        return outs, [Zero.of(o) for o in outs]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(
            "Singular value decomposition JVP not implemented for full matrices: the vectors beyond the "
            "first min(m, n) are not determined. Pass full_matrices=False."
        )
    s, u, vh = svd_p.bind(
        x,
        full_matrices=False,
        compute_uv=True,
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    dtype, complexes = aval_of(x).dtype, _e.complexes(aval_of(x).dtype)
    uh, v = adjoint(u), adjoint(vh)
    inner = product(product(uh, dx), v)
    ds = real(diagonal(inner)) if complexes else diagonal(inner)
    if not compute_uv:
        return [s], [ds]
    *batch, k = aval_of(s).shape
    shape = (*batch, k, k)
    one = stacked(eye(k, dtype), batch)
    rows, columns = (
        broadcast_over_rows(convert(s, dtype), shape),
        broadcast_over_columns(convert(s, dtype), shape),
    )
    # 1 / (s[j]² - s[i]²) at (i, j), and 0 on the diagonal.
    gaps = sub(div(full_like(one, 1), add(mul(add(columns, rows), sub(columns, rows)), one)), one)
    right, left = mul(columns, inner), mul(rows, inner)
    du = product(
        u,
        add(
            mul(gaps, add(right, adjoint(right))),
            _phase(inner, s, one) if complexes else full_like(one, 0),
        ),
    )
    dv = product(v, mul(gaps, add(left, adjoint(left))))
    if m > k:
        du = add(du, _outside(u, product(dx, v), s))
    if n > k:
        dv = add(dv, _outside(v, product(adjoint(dx), u), s))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _phase(inner, s, one):
    """Vectors of complex matrices turn as well; that turn is left with u."""
    dtype = aval_of(inner).dtype
    nothing = convert(eq(s, full_like(s, 0)), aval_of(s).dtype)
    inverse = sub(div(full_like(s, 1), add(s, nothing)), nothing)
    skew = mul(full_like(inner, 0.5), sub(inner, adjoint(inner)))
    return mul(
        mul(skew, one), broadcast_over_columns(convert(inverse, dtype), aval_of(inner).shape)
    )


def _outside(u, x, s):
    """The part of x beyond the span of u, over the singular values."""
    rest = sub(x, product(u, product(adjoint(u), x)))
    return div(rest, broadcast_over_columns(convert(s, aval_of(x).dtype), aval_of(x).shape))


def _lowering(ctx, x, *, full_matrices, compute_uv, subset_by_index, algorithm):
    aval = ctx.avals_in[0]
    *batch, m, n = aval.shape
    k = min_dim(m, n)
    if subset_by_index not in (None, (0, k)):
        raise NotImplementedError(
            "subset_by_index not implemented for CPU: svd computes all singular values; take those you "
            "need from its results"
        )
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "The SVD Jacobi and Polar algorithms are not implemented on CPU: use SvdAlgorithm.QR or "
            "SvdAlgorithm.DIVIDE_AND_CONQUER"
        )
    if not aval.size:
        return [zeros(ctx, ctx.avals_out[0]), *(identity(ctx, a) for a in ctx.avals_out[1:])]
    s_aval, info_aval = (
        aval.update(shape=(*batch, k), dtype=real_of(aval.dtype)),
        aval.update(shape=tuple(batch), dtype=INT32),
    )
    u_aval = aval.update(shape=(*batch, m, m if full_matrices else k))
    vh_aval = aval.update(shape=(*batch, n if full_matrices else k, n))
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    mode = char("N" if not compute_uv else "A" if full_matrices else "S")
    _, s, u, vh, info = call(
        ctx,
        name,
        [x],
        [aval],
        [aval, s_aval, u_aval, vh_aval, info_aval],
        len(batch),
        f"mode = {mode}",
        aliases=[(0, 0)],
    )
    ok = lapack_ok(ctx, info, batch)
    return [nan_unless(ctx, ok, batch, o, a) for o, a in zip([s, u, vh], ctx.avals_out)]


svd_p = define("svd", _shapes, (2,), multiple_results=True)
ad.primitive_jvps[svd_p] = _jvp
mlir.register_text_lowering(svd_p, _lowering)


def _count(m, n, params):
    """G. Golub, C. Van Loan, "Matrix Computations" (2013), section 8.6: values alone, or with the first k vectors of both sides."""
    k, long = min(m, n), max(m, n)
    return (
        14 * long * k * k + 8 * k**3
        if params.get("compute_uv", True)
        else 4 * long * k * k - 4 / 3 * k**3
    )


costs.register(costs.on_matrices(_count), svd_p)
