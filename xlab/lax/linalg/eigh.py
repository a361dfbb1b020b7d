"""`eigh`: eigenvalues and eigenvectors of symmetric and Hermitian matrices."""

from __future__ import annotations

import enum

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import add, integer_pow, mul, sub
from xlab.lax.complexes import real
from xlab.lax.convert import convert
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
    lapack_ok,
    nan_unless,
    product,
    real_of,
    square,
    stacked,
    symmetrize,
    zeros,
)

__all__ = ["EighImplementation", "eigh", "eigh_p"]


class EighImplementation(enum.Enum):
    """Algorithms of `eigh`; CPUs have the first."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors, as columns, and rising eigenvalues of Hermitian matrices.

    Args:
        x: square matrices.
        lower: which triangle is read.
        symmetrize_input: whether to take the mean of `x` and its conjugate transpose first.
        sort_eigenvalues: whether the order of eigenvalues matters; they rise here in any case.
        subset_by_index: range of eigenvalues to compute; here only all of them.
        implementation: the algorithm.

    Source:
        Its derivative: Giles (2008), An extended collection of matrix derivative results.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> v, w = lax.linalg.eigh(np.float32([[2, 0], [0, 1]]))
        >>> print(w)
        [1. 2.]
    """
    if symmetrize_input:
        x = symmetrize(x)
    return tuple(
        eigh_p.bind(
            x,
            lower=bool(lower),
            sort_eigenvalues=bool(sort_eigenvalues),
            subset_by_index=subset_by_index,
            algorithm=implementation,
        )
    )


def _shapes(x, *, dtype, lower, sort_eigenvalues, subset_by_index, algorithm):
    n = square("eigh", x)
    k = n if subset_by_index is None else subset_by_index[1] - subset_by_index[0]
    return [((n, k), dtype), ((k,), real_of(dtype))]


def _jvp(primals, tangents, **params):
    (x,), (dx,) = primals, tangents
    v, w = eigh_p.bind(symmetrize(x), **params)
    if type(dx) is Zero:
        return [v, w], [Zero.of(v), Zero.of(w)]
    aval = aval_of(v)
    if aval.shape[-1] != aval.shape[-2]:
        raise NotImplementedError(
            "eigh's derivative needs all eigenvalues: leave subset_by_index out"
        )
    inner = product(product(adjoint(v), dx), v)
    dv = product(v, mul(inverse_differences(w, aval.dtype), inner))
    dw = diagonal(inner)
    return [v, w], [dv, real(dw) if _e.complexes(aval.dtype) else dw]


def inverse_differences(w, dtype):
    """1 / (w[j] - w[i]) at (i, j), and 0 on the diagonal."""
    w = convert(w, dtype)
    *batch, n = aval_of(w).shape
    one, shape = stacked(eye(n, dtype), batch), (*batch, n, n)
    return sub(
        integer_pow(
            sub(add(one, broadcast_over_columns(w, shape)), broadcast_over_rows(w, shape)), -1
        ),
        one,
    )


def _lowering(ctx, x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    aval, (v_aval, w_aval) = ctx.avals_in[0], ctx.avals_out
    if subset_by_index not in (None, (0, aval.shape[-1])):
        raise NotImplementedError(
            "subset_by_index not supported on CPU and GPU: eigh computes all eigenvalues; take those you "
            "need from its results"
        )
    if algorithm not in (None, EighImplementation.QR):
        raise NotImplementedError(
            f"{algorithm} is not supported on CPU: use EighImplementation.QR or None"
        )
    if not aval.size:
        return [x, zeros(ctx, w_aval)]
    batch = aval.shape[:-2]
    name = "heevd" if aval.dtype.kind == "c" else "syevd"
    v, w, info = call(
        ctx,
        name,
        [x],
        [aval],
        [v_aval, w_aval, aval.update(shape=batch, dtype=INT32)],
        len(batch),
        f"mode = {char('V')}, uplo = {char('L' if lower else 'U')}",
        aliases=[(0, 0)],
    )
    ok = lapack_ok(ctx, info, batch)
    return [nan_unless(ctx, ok, batch, v, v_aval), nan_unless(ctx, ok, batch, w, w_aval)]


eigh_p = define("eigh", _shapes, (2,), multiple_results=True)
ad.primitive_jvps[eigh_p] = _jvp
mlir.register_text_lowering(eigh_p, _lowering)

# G. Golub, C. Van Loan, "Matrix Computations" (2013), section 8.3: 4/3 n³ to a tridiagonal matrix, 9 n³ with vectors.
costs.register(costs.on_matrices(lambda m, n, params: 9 * n**3), eigh_p)
