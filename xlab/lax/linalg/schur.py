"""`schur`, `hessenberg` and `tridiagonal`: matrices brought to simpler form by orthogonal changes of basis."""

from __future__ import annotations

from collections.abc import Callable

from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import costs, mlir
from xlab.lax.linalg.common import (
    INT32,
    call,
    char,
    define,
    lapack_ok,
    nan_unless,
    real_of,
    square,
    zeros,
)

__all__ = ["hessenberg", "hessenberg_p", "schur", "schur_p", "tridiagonal", "tridiagonal_p"]


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable | None = None,
) -> tuple[Array, ...]:
    """`x == z @ t @ z.conj().T` with unitary `z` and upper triangular `t` (for real x: with 2x2 blocks on its diagonal).

    Returns:
        `t` and, with `compute_schur_vectors`, `z`.

    Args:
        x: a square matrix, `(..., n, n)`.
        compute_schur_vectors: whether the vectors are returned.
        sort_eig_vals: has to be False.
        select_callable: has no effect.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> t, z = lax.linalg.schur(np.float32([[1, 2], [0, 3]]))
        >>> print(t)
        [[1. 2.]
         [0. 3.]]
    """
    return schur_p.bind(
        x,
        compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=bool(sort_eig_vals),
        select_callable=select_callable,
    )


def _schur_shapes(x, *, dtype, compute_schur_vectors, **_):
    square("schur", x)
    return [(x, dtype)] * (1 + compute_schur_vectors)


def _schur_lowering(ctx, x, *, compute_schur_vectors, sort_eig_vals, select_callable):
    if sort_eig_vals:
        raise NotImplementedError(
            "The sort feature of LAPACK's gees routine is not implemented: leave sort_eig_vals out"
        )
    aval = ctx.avals_in[0]
    if not aval.size:
        return [x] * len(ctx.avals_out)
    batch = aval.shape[:-2]
    parts = [aval.update(shape=aval.shape[:-1])] * (1 if aval.dtype.kind == "c" else 2)
    count = aval.update(shape=batch, dtype=INT32)
    form, z, *_, info = call(
        ctx,
        "gees",
        [x],
        [aval],
        [aval, aval, *parts, count, count],
        len(batch),
        f"mode = {char('V' if compute_schur_vectors else 'N')}, sort = {char('N')}",
        aliases=[(0, 0)],
    )
    ok = lapack_ok(ctx, info, batch)
    return [
        nan_unless(ctx, ok, batch, o, aval)
        for o in ([form, z] if compute_schur_vectors else [form])
    ]


schur_p = define(
    "schur",
    _schur_shapes,
    (2,),
    multiple_results=True,
    no_derivative="the Schur form has no derivative rule; differentiate eigh or eig instead",
)
mlir.register_text_lowering(schur_p, _schur_lowering)


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Reduces square matrices to upper Hessenberg form (zeros below the first subdiagonal).

    Returns:
        The form, with the reflections that lead to it stored below the subdiagonal, and their factors: see
        `householder_product`.
    """
    return hessenberg_p.bind(a)


def _hessenberg_shapes(a, *, dtype):
    n = square("hessenberg", a)
    return [(a, dtype), ((max(n - 1, 0),), dtype)]


def _hessenberg_lowering(ctx, a):
    aval, taus_aval = ctx.avals_in[0], ctx.avals_out[1]
    if not aval.size:
        return [a, zeros(ctx, taus_aval)]
    batch, n = aval.shape[:-2], aval.shape[-1]
    out, taus, info = call(
        ctx,
        "gehrd",
        [a],
        [aval],
        [aval, taus_aval, aval.update(shape=batch, dtype=INT32)],
        len(batch),
        f"high = {n} : i32, low = 1 : i32",
        aliases=[(0, 0)],
    )
    ok = lapack_ok(ctx, info, batch)
    return [nan_unless(ctx, ok, batch, out, aval), nan_unless(ctx, ok, batch, taus, taus_aval)]


hessenberg_p = define(
    "hessenberg",
    _hessenberg_shapes,
    (2,),
    multiple_results=True,
    no_derivative="the reduction to Hessenberg form has no derivative rule",
)
mlir.register_text_lowering(hessenberg_p, _hessenberg_lowering)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Reduces Hermitian matrices to tridiagonal form.

    Args:
        a: square matrices, of which one triangle is read.
        lower: which.

    Returns:
        The matrix with the reflections that lead to the form, its diagonal, its off-diagonal, and the factors of the
        reflections.
    """
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


def _tridiagonal_shapes(a, *, dtype, lower):
    if a[0] != a[1] or a[0] == 0:
        raise ValueError(f"The input to tridiagonal must be a square matrix. Got shape {a}.")
    n = a[0]
    return [(a, dtype), ((n,), real_of(dtype)), ((n - 1,), real_of(dtype)), ((n - 1,), dtype)]


def _tridiagonal_lowering(ctx, a, *, lower):
    aval = ctx.avals_in[0]
    if not aval.size:
        return [a, *(zeros(ctx, x) for x in ctx.avals_out[1:])]
    batch = aval.shape[:-2]
    name = "hetrd" if aval.dtype.kind == "c" else "sytrd"
    *outs, info = call(
        ctx,
        name,
        [a],
        [aval],
        [*ctx.avals_out, aval.update(shape=batch, dtype=INT32)],
        len(batch),
        f"uplo = {char('L' if lower else 'U')}",
        aliases=[(0, 0)],
    )
    ok = lapack_ok(ctx, info, batch)
    return [nan_unless(ctx, ok, batch, o, x) for o, x in zip(outs, ctx.avals_out)]


tridiagonal_p = define(
    "tridiagonal",
    _tridiagonal_shapes,
    (2,),
    multiple_results=True,
    no_derivative="the reduction to tridiagonal form has no derivative rule; differentiate eigh instead",
)
mlir.register_text_lowering(tridiagonal_p, _tridiagonal_lowering)

# G. Golub, C. Van Loan, "Matrix Computations" (2013), sections 7.4, 7.5 and 8.3.
costs.register(costs.on_matrices(lambda m, n, params: 25 * n**3), schur_p)
costs.register(costs.on_matrices(lambda m, n, params: 10 / 3 * n**3), hessenberg_p)
costs.register(costs.on_matrices(lambda m, n, params: 4 / 3 * n**3), tridiagonal_p)
