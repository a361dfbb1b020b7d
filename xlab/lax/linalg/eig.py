"""`eig`: eigenvalues and eigenvectors of general matrices."""

from __future__ import annotations

import enum

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters.ad import Zero
from xlab.lax.arithmetic import abs, add, div, mul, neg
from xlab.lax.comparison import eq, select
from xlab.lax.complexes import complex, conj, imag, real
from xlab.lax.convert import convert
from xlab.lax.creation import broadcasted_iota, full_like
from xlab.lax.linalg.common import (
    INT32,
    adjoint,
    broadcast_over_columns,
    call,
    char,
    complex_of,
    define,
    diagonal,
    lapack_ok,
    matrix_transpose,
    nan_unless,
    product,
    real_of,
    square,
    zeros,
)
from xlab.lax.linalg.eigh import inverse_differences
from xlab.lax.linalg.lu import solve
from xlab.lax.reductions import argmax, reduce_sum

__all__ = ["EigImplementation", "eig", "eig_p"]


class EigImplementation(enum.Enum):
    """Libraries that compute `eig`; CPUs have LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues of square matrices, then left and right eigenvectors as columns, all complex.

    Args:
        x: square matrices.
        compute_left_eigenvectors, compute_right_eigenvectors: which eigenvectors to return.
        enable_eigvec_derivs: allow derivatives of eigenvectors. They hold where eigenvalues are distinct and the largest
            component of each eigenvector stays the largest, which is not checked.
        implementation: the library.
        use_magma: the same choice in older words.

    Source:
        Its derivative: Boeddeker et al. (2017), On the computation of complex-valued gradients.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> w, left, right = lax.linalg.eig(np.float32([[0, 1], [-1, 0]]))
        >>> print(w)
        [0.+1.j 0.-1.j]
    """
    if use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.CUSOLVER
    return eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
        implementation=implementation,
    )


def _shapes(x, *, dtype, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    n = square("eig", x)
    dtype = complex_of(dtype)
    return [((n,), dtype), *[(x, dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)]


def _jvp(
    primals,
    tangents,
    *,
    compute_left_eigenvectors,
    compute_right_eigenvectors,
    enable_eigvec_derivs,
    implementation,
):
    (x,), (dx,) = primals, tangents

    def bind(left, right):
        return eig_p.bind(
            x,
            compute_left_eigenvectors=left,
            compute_right_eigenvectors=right,
            enable_eigvec_derivs=enable_eigvec_derivs,
            implementation=implementation,
        )

    if type(dx) is Zero:
        outs = bind(compute_left_eigenvectors, compute_right_eigenvectors)
        return outs, [Zero.of(o) for o in outs]
    vectors = compute_left_eigenvectors or compute_right_eigenvectors
    if vectors and not enable_eigvec_derivs:
        raise NotImplementedError(
            "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the input that cannot be checked: "
            "distinct eigenvalues, and a largest component of each eigenvector that stays the largest. Pass "
            "enable_eigvec_derivs=True to xlab.lax.linalg.eig to say that they hold."
        )
    w, *found = bind(compute_left_eigenvectors, True)
    right = found[-1]
    dx = convert(dx, aval_of(w).dtype)
    # With x v = v diag(w), the diagonal of v⁻¹ dx v holds the tangents of w.
    scaled = solve(right, dx)
    inner = product(scaled, right) if vectors else None
    dw = (
        diagonal(inner)
        if vectors
        else reduce_sum(mul(scaled, matrix_transpose(right)), (aval_of(scaled).ndim - 1,))
    )
    outs, out_tangents = [w], [dw]
    if compute_left_eigenvectors:
        left = found[0]
        outs.append(left)
        out_tangents.append(_vectors(left, conj(w), product(solve(left, adjoint(dx)), left)))
    if compute_right_eigenvectors:
        outs.append(right)
        out_tangents.append(_vectors(right, w, inner))
    return outs, out_tangents


def _vectors(v, w, inner):
    """Tangent of eigenvectors of length one whose largest component is real."""
    aval = aval_of(v)
    rows = (aval.ndim - 2,)
    dv = product(v, mul(inverse_differences(w, aval.dtype), inner))
    largest = eq(
        broadcasted_iota(np.int32, aval.shape, rows[0]),
        broadcast_over_columns(argmax(abs(v), rows[0], np.int32), aval.shape),
    )

    def at_largest(x):
        return reduce_sum(select(largest, x, full_like(x, 0)), rows)

    along = neg(real(reduce_sum(mul(conj(v), dv), rows)))
    around = neg(div(imag(at_largest(dv)), real(at_largest(v))))
    return add(dv, mul(v, broadcast_over_columns(complex(along, around), aval.shape)))


def _lowering(
    ctx,
    x,
    *,
    compute_left_eigenvectors,
    compute_right_eigenvectors,
    enable_eigvec_derivs,
    implementation,
):
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError("Only the lapack implementation is supported on CPU.")
    aval, w_aval = ctx.avals_in[0], ctx.avals_out[0]
    if not aval.size:
        return [zeros(ctx, a) for a in ctx.avals_out]
    batch = aval.shape[:-2]
    vectors_aval = aval.update(dtype=w_aval.dtype)
    parts = [w_aval] if aval.dtype.kind == "c" else [w_aval.update(dtype=real_of(w_aval.dtype))] * 2
    left, right = (
        char("V" if wanted else "N")
        for wanted in (compute_left_eigenvectors, compute_right_eigenvectors)
    )
    *w, vl, vr, info = call(
        ctx,
        "geev",
        [x],
        [aval],
        [*parts, vectors_aval, vectors_aval, w_aval.update(shape=batch, dtype=INT32)],
        len(batch),
        f"compute_left = {left}, compute_right = {right}",
    )
    values = (
        w[0]
        if len(w) == 1
        else ctx.op(f"stablehlo.complex {w[0]}, {w[1]} : {mlir.tensor_type(w_aval)}")
    )
    ok = lapack_ok(ctx, info, batch)
    outs = [
        values,
        *([vl] if compute_left_eigenvectors else []),
        *([vr] if compute_right_eigenvectors else []),
    ]
    return [nan_unless(ctx, ok, batch, o, a) for o, a in zip(outs, ctx.avals_out)]


eig_p = define("eig", _shapes, (2,), multiple_results=True)
ad.primitive_jvps[eig_p] = _jvp
mlir.register_text_lowering(eig_p, _lowering)

# G. Golub, C. Van Loan, "Matrix Computations" (2013), section 7.5: 10 n³ for values, 25 n³ with vectors.
costs.register(
    costs.on_matrices(
        lambda m, n, params: (
            (
                25
                if params["compute_left_eigenvectors"] or params["compute_right_eigenvectors"]
                else 10
            )
            * n**3
        )
    ),
    eig_p,
)
