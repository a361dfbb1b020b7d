"""`triangular_solve`: systems of equations with triangular matrices."""

from __future__ import annotations

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, add_tangents, is_undefined_primal
from xlab.lax.arithmetic import neg
from xlab.lax.linalg.common import (
    call,
    char,
    conjugate,
    define,
    in_lapack,
    lower_rule,
    matrix_transpose,
    move_batch_to_front,
    product,
    square,
    tril,
    triu,
    zeros,
)
from xlab.lax.shape import expand_dims, reshape, squeeze, transpose

__all__ = ["triangular_solve", "triangular_solve_p"]


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solves `op(a) x = b`, or `x op(a) = b`, for triangular `a`.

    Args:
        a: square matrices, of which one triangle is read.
        b: right-hand sides, matrices or vectors, with the batch dimensions of `a`.
        left_side: whether `a` stands left of `x`.
        lower: whether the lower triangle is read, the upper one otherwise.
        transpose_a, conjugate_a: what `op` does to `a`.
        unit_diagonal: take the diagonal as ones, without reading it.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> a = np.float32([[2, 0], [1, 1]])
        >>> print(lax.linalg.triangular_solve(a, np.float32([[2], [3]]), left_side=True, lower=True))
        [[1.]
         [2.]]
    """
    vector = aval_of(b).ndim == aval_of(a).ndim - 1
    if vector:
        b = expand_dims(b, (-1 if left_side else -2,))
    conjugate_a = conjugate_a and aval_of(a).dtype.kind == "c"
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=conjugate_a,
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(out, (-1 if left_side else -2,)) if vector else out


def _shapes(a, b, *, dtype, left_side, **_):
    square("triangular_solve", a)
    if a[0] != b[0 if left_side else 1]:
        raise ValueError(f"Incompatible shapes for arguments to triangular_solve: {a} and {b}.")
    return b


def _jvp_of_matrix(da, x, a, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    """-op(a)⁻¹ op(da) x, of which the right part is computed where fewer numbers are."""
    diagonal = 1 if unit_diagonal else 0
    da = neg(tril(da, -diagonal) if lower else triu(da, diagonal))
    da = conjugate(da) if conjugate_a else da
    da = matrix_transpose(da) if transpose_a else da

    def solve(b):
        return triangular_solve_p.bind(
            a,
            b,
            left_side=left_side,
            lower=lower,
            transpose_a=transpose_a,
            conjugate_a=conjugate_a,
            unit_diagonal=unit_diagonal,
        )

    n, columns = aval_of(a).shape[-1], aval_of(x).shape[-1 if left_side else -2]
    if left_side:
        return product(solve(da), x) if n < columns else solve(product(da, x))
    return product(x, solve(da)) if n < columns else solve(product(x, da))


def _jvp(primals, tangents, **params):
    a, b = primals
    da, db = tangents
    x = triangular_solve_p.bind(a, b, **params)
    out: object = Zero.of(x)
    if type(da) is not Zero:
        out = add_tangents(out, _jvp_of_matrix(da, x, a, **params))
    if type(db) is not Zero:
        out = add_tangents(out, triangular_solve_p.bind(a, db, **params))
    return x, out


def _transpose(ct, a, b, *, transpose_a, **params):
    if is_undefined_primal(a):
        raise NotImplementedError(
            "triangular_solve is not linear in its matrix: it cannot be transposed to it"
        )
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _batch(xs, dims, *, left_side, **params):
    a, b = xs
    da, db = dims
    if da is not None or aval_of(a).ndim > 2:
        a, b = move_batch_to_front(xs, dims)
        return triangular_solve_p.bind(a, b, left_side=left_side, **params), 0
    # One matrix for all right-hand sides: they stand side by side.
    b = batching.moveaxis(b, db, 0)
    size, m, n = aval_of(b).shape
    if left_side:
        wide = reshape(transpose(b, (1, 2, 0)), (m, n * size))
        out = reshape(triangular_solve_p.bind(a, wide, left_side=True, **params), (m, n, size))
        return transpose(out, (2, 0, 1)), 0
    tall = reshape(transpose(b, (1, 0, 2)), (m * size, n))
    out = reshape(triangular_solve_p.bind(a, tall, left_side=False, **params), (m, size, n))
    return transpose(out, (1, 0, 2)), 0


_conjugated = mlir.lower_fun(conjugate)


def _lowering(ctx, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    av, bv = ctx.avals_in
    if not bv.size:
        return zeros(ctx, bv)
    if conjugate_a and not transpose_a:
        (a,) = lower_rule(ctx, _conjugated, [a], [av])
    if ctx.platform != "cpu" or not in_lapack(
        av.dtype
    ):  # the compiler has a solver of its own, also of short floats
        kind = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
        flags = ", ".join(
            f"{n} = {str(bool(v)).lower()}"
            for n, v in (
                ("left_side", left_side),
                ("lower", lower),
                ("unit_diagonal", unit_diagonal),
            )
        )
        return ctx.op(
            f'"stablehlo.triangular_solve"({a}, {b}) <{{{flags}, transpose_a = #stablehlo<transpose {kind}>}}> : '
            f"({ctx.types_in()}) -> {ctx.type_out()}"
        )
    op = "N" if not transpose_a else "C" if conjugate_a else "T"
    config = (
        f"diag = {char('U' if unit_diagonal else 'N')}, side = {char('L' if left_side else 'R')}, "
        f"trans_x = {char(op)}, uplo = {char('L' if lower else 'U')}"
    )
    return call(ctx, "trsm", [a, b], [av, bv], [bv], bv.ndim - 2, config, aliases=[(0, 1)])[0]


triangular_solve_p = define("triangular_solve", _shapes, (2, 2))
triangular_solve_p.linear_in_unreduced = ((1,),)
ad.primitive_jvps[triangular_solve_p] = _jvp
ad.primitive_transposes[triangular_solve_p] = _transpose
batching.primitive_batchers[triangular_solve_p] = _batch
mlir.register_text_lowering(triangular_solve_p, _lowering)


def _cost(avals_in, avals_out, **_):
    return costs.Cost(avals_in[0].shape[-1] * avals_out[0].size, unit="decomposition")


costs.register(_cost, triangular_solve_p)
