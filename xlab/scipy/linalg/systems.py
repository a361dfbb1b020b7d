"""Solutions of systems of equations, inverses and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.source_info import warn
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.common import conjugate, diagonal, repeat
from xlab.lax.linalg.lu import lu_solve as _lu_solve
from xlab.numpy import linalg as _linalg
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.linalg.decompositions import hermitian_transpose
from xlab.numpy.operands import check, promoted_inexact
from xlab.numpy.searching import where
from xlab.numpy.shape import broadcast_to
from xlab.numpy.tensor_contractions import matmul

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "lu_factor",
    "lu_solve",
    "solve",
    "solve_sylvester",
    "solve_triangular",
]


def spread(name: str, a, b):
    """Matrices and right-hand sides brought to equal batch dimensions, vectors as columns; and whether `b` held vectors."""
    n = a.shape[-1]
    vectors = b.ndim == 1 or b.ndim == a.ndim - 1
    if not b.ndim:
        raise ValueError(
            f"{name}: b has shape (), which is no vector or matrix; a has shape {a.shape}"
        )
    if vectors:
        b = lax.expand_dims(b, (b.ndim,))
    if b.shape[-2] != n:
        raise ValueError(
            f"{name}: the right-hand side has {b.shape[-2]} rows and the matrix, of shape {a.shape}, has {n}"
        )
    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return broadcast_to(a, (*batch, n, n)), broadcast_to(b, (*batch, n, b.shape[-1])), vectors


def square(name: str, a):
    """The matrices, which must be square."""
    a = as_array(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: expected (a stack of) square matrices, got shape {a.shape}")
    return a


def column(x, vectors: bool):
    """Solutions, without the column dimension if the right-hand sides were vectors."""
    return lax.squeeze(x, (aval_of(x).ndim - 1,)) if vectors else x


@jit_when_eager(static=("lower",))
def _cholesky(a, lower):
    (a,) = promoted_inexact("cholesky", a)
    if lower:
        return lax.linalg.cholesky(a, symmetrize_input=False)
    return hermitian_transpose(lax.linalg.cholesky(hermitian_transpose(a), symmetrize_input=False))


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The triangular factor of positive definite matrices, `a == u.conj().mT @ u`; NaN where they are not.

    Args:
        a: Hermitian matrices, of which one triangle is read.
        lower: whether to read the lower triangle and return the lower factor `l`, with `a == l @ l.conj().mT`.
        overwrite_a, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.cholesky(np.float32([[4, 2], [2, 2]])))
        [[2. 1.]
         [0. 1.]]
    """
    return _cholesky(from_lists(a), bool(lower))


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The factor that `cho_solve` takes, with the triangle it is in.

    Args:
        a: the matrix, `(..., n, n)`.
        lower: which triangle is read, or returned.
        overwrite_a: has no effect: arrays are not written to.
        check_finite: has no effect: values are not known while tracing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.cho_solve(sl.cho_factor(np.float32([[4, 2], [2, 2]])), np.float32([2, 2])))
        [0. 1.]
    """
    return cholesky(a, lower), lower


@jit_when_eager(static=("lower",))
def _cho_solve(c, b, lower):
    c, b = map(as_array, promoted_inexact("cho_solve", c, b))
    c, b, vectors = spread("cho_solve", square("cho_solve", c), b)
    b = lax.linalg.triangular_solve(
        c, b, left_side=True, lower=lower, transpose_a=not lower, conjugate_a=not lower
    )
    b = lax.linalg.triangular_solve(
        c, b, left_side=True, lower=lower, transpose_a=lower, conjugate_a=lower
    )
    return column(b, vectors)


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solves `a @ x == b` from what `cho_factor(a)` gave.

    Args:
        c_and_lower: what `cho_factor` returned.
        b: right-hand sides, `(..., n)` or `(..., n, k)`.
        overwrite_b: has no effect: arrays are not written to.
        check_finite: has no effect: values are not known while tracing.
    """
    c, lower = c_and_lower
    return _cho_solve(from_lists(c), from_lists(b), bool(lower))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant; see `numpy.linalg.det`.

    Args:
        a: the matrix, `(..., n, n)`.
        overwrite_a: has no effect: arrays are not written to.
        check_finite: has no effect: values are not known while tracing.
    """
    return _linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse; see `numpy.linalg.inv`.

    Args:
        a: the matrix, `(..., n, n)`.
        overwrite_a: has no effect: arrays are not written to.
        check_finite: has no effect: values are not known while tracing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.inv(np.float32([[2, 0], [0, 4]])))
        [[0.5  0.  ]
         [0.   0.25]]
    """
    return _linalg.inv(a)


@jit_when_eager
def _lu_factor(a):
    (a,) = promoted_inexact("lu_factor", a)
    return lax.linalg.lu(a)[:2]


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Triangular factors in one array, and row exchanges, for `lu_solve`.

    Args:
        a: the matrix, `(..., n, n)`.
        overwrite_a: has no effect: arrays are not written to.
        check_finite: has no effect: values are not known while tracing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.lu_solve(sl.lu_factor(np.float32([[2, 0], [0, 4]])), np.float32([2, 2])))
        [1.  0.5]
    """
    return _lu_factor(from_lists(a))


@jit_when_eager(static=("trans",))
def _solve_factored(factors, pivots, b, trans):
    factors, b = map(as_array, promoted_inexact("lu_solve", factors, b))
    factors, b, vectors = spread("lu_solve", square("lu_solve", factors), b)
    permutation = lax.linalg.lu_pivots_to_permutation(as_array(pivots), factors.shape[-1])
    return column(
        _lu_solve(factors, broadcast_to(permutation, factors.shape[:-1]), b, trans), vectors
    )


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solves `op(a) @ x == b` from what `lu_factor(a)` gave.

    Args:
        lu_and_piv: what `lu_factor` gave.
        b: right-hand sides.
        trans: `op` is nothing (0), the transpose (1) or its conjugate (2).
        overwrite_b, check_finite: change nothing.
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    factors, pivots = lu_and_piv
    return _solve_factored(from_lists(factors), from_lists(pivots), from_lists(b), trans)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solves `a @ x == b`.

    Args:
        a: square matrices.
        b: right-hand sides.
        lower: which triangle is read, with `assume_a="pos"`.
        assume_a: what is known of `a`: "pos" (positive definite) takes half the work; "gen", "sym" and "her" are one.
        overwrite_a, overwrite_b, debug, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.solve(np.float32([[4, 2], [2, 2]]), np.float32([2, 2]), assume_a="pos"))
        [0. 1.]
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of 'gen', 'sym', 'her' and 'pos'; got {assume_a!r}"
        )
    if assume_a != "pos":
        return _linalg.solve(a, b)
    return _solve_positive(from_lists(a), from_lists(b), bool(lower))


@jit_when_eager(static=("lower",))
def _solve_positive(a, b, lower):
    a, b = map(as_array, promoted_inexact("solve", a, b))
    a, b, vectors = spread("solve", square("solve", a), b)
    factor = _cholesky(lax.stop_gradient(a), lower)
    # The transpose of a Hermitian matrix is its conjugate.
    x = lax.custom_linear_solve(
        lambda x: matmul(a, x, precision="highest"),
        b,
        solve=lambda _, b: _cho_solve(factor, b, lower),
        transpose_solve=lambda _, b: conjugate(_cho_solve(factor, conjugate(b), lower)),
    )
    return column(x, vectors)


_TRANS = {
    0: (False, False),
    "N": (False, False),
    1: (True, False),
    "T": (True, False),
    2: (True, True),
    "C": (True, True),
}


@jit_when_eager(static=("lower", "transpose", "conjugate", "unit"))
def _solve_triangular(a, b, lower, transpose, conjugate, unit):
    a, b = map(as_array, promoted_inexact("solve_triangular", a, b))
    a, b, vectors = spread("solve_triangular", square("solve_triangular", a), b)
    return column(
        lax.linalg.triangular_solve(
            a,
            b,
            left_side=True,
            lower=lower,
            transpose_a=transpose,
            conjugate_a=conjugate,
            unit_diagonal=unit,
        ),
        vectors,
    )


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solves `op(a) @ x == b` for triangular `a`.

    Args:
        a: square matrices, of which one triangle is read.
        b: right-hand sides.
        trans: `op` is nothing (0 or "N"), the transpose (1 or "T"), or its conjugate (2 or "C").
        lower: which triangle is read.
        unit_diagonal: take the diagonal as ones.
        overwrite_b, debug, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.solve_triangular(np.float32([[2, 1], [0, 4]]), np.float32([4, 4])))
        [1.5 1. ]
    """
    if trans not in _TRANS:
        raise ValueError(f"Invalid 'trans' value {trans}: expected 0 or 'N', 1 or 'T', 2 or 'C'")
    a, b = check("solve_triangular", from_lists(a), from_lists(b))
    if np.ndim(b) > 1 and np.ndim(a) == np.ndim(b) + 1:
        warn(
            "solve_triangular: batched 1D solves with b.ndim > 1 are deprecated. Use solve_triangular(a, b[..., "
            "None]).squeeze(-1).",
            FutureWarning,
        )
    return _solve_triangular(a, b, bool(lower), *_TRANS[trans], bool(unit_diagonal))


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Solves `A @ X + X @ B == C`.

    Args:
        A, B: square matrices.
        C: a matrix with the rows of `A` and the columns of `B`.
        method: "schur" (backward stable) or "eigen" (fewer steps, for matrices with independent eigenvectors).
        tol: where an eigenvalue of `A` and one of `-B` are nearer to each other than this, the result is NaN.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.solve_sylvester(np.float32([[1]]), np.float32([[2]]), np.float32([[6]])))
        [[2.]]
    """
    if method not in ("schur", "eigen"):
        raise ValueError(
            f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".'
        )
    return _sylvester(*map(from_lists, (A, B, C)), method, float(tol))


@jit_when_eager(static=("method", "tol"))
def _sylvester(A, B, C, method, tol):
    A, B, C = map(as_array, promoted_inexact("solve_sylvester", A, B, C))
    if (
        A.shape[:-1] != A.shape[1:]
        or B.shape[:-1] != B.shape[1:]
        or C.shape != (*A.shape[:1], *B.shape[:1])
        or A.ndim != 2
    ):
        raise ValueError(
            f"Incompatible shapes for Sylvester equation: A: {A.shape} B: {B.shape} C: {C.shape}"
        )
    real = A.dtype.kind != "c"
    dtype = np.result_type(A.dtype, np.complex64)
    F = C.astype(dtype)

    def times(*xs):
        out = xs[0]
        for x in xs[1:]:
            out = matmul(out, x, precision="highest")
        return out

    if method == "eigen":
        (left, u), (right, v) = _linalg.eig(A), _linalg.eig(B)
        Y = _linalg.solve(u, times(F, v)) / (left[:, None] + right[None, :])
        X = times(u, Y, _linalg.inv(v))
    else:
        (r, u), (s, v) = (lax.linalg.schur(x.astype(dtype)) for x in (A, B))
        left, right = diagonal(r), diagonal(s)
        F = times(hermitian_transpose(u), F, v)
        identity = lax.convert_element_type(
            lax.eq(
                lax.broadcasted_iota(np.int32, r.shape, 0),
                lax.broadcasted_iota(np.int32, r.shape, 1),
            ),
            dtype,
        )
        places = lax.iota(np.int32, s.shape[0])

        def one_column(k, Y):
            # Columns from k on are still zero, so the product holds those before it alone.
            here = lax.dynamic_slice_in_dim(s, k, 1, 1)
            known = lax.dynamic_slice_in_dim(F, k, 1, 1) - times(Y, here)
            shifted = r + identity * lax.dynamic_index_in_dim(here, k, 0, keepdims=True)
            y = lax.linalg.triangular_solve(shifted, known, left_side=True)
            return where((places == k)[None, :], y, Y)

        Y = repeat(s.shape[0], one_column, lax.full_like(F, 0))
        X = times(u, Y, hermitian_transpose(v))
    gaps, sizes = (
        lax.abs(left[:, None] + right[None, :]),
        lax.abs(left[:, None]) + lax.abs(right[None, :]),
    )
    near = _r.any(gaps <= max(tol, float(np.finfo(dtype).eps)) * sizes)
    X = where(near, np.nan, lax.real(X) if real else X)
    return X.astype(A.dtype)
