"""Decompositions, in the forms that SciPy gives them."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.common import conjugate
from xlab.numpy.arithmetic import as_array
from xlab.numpy.conversion import from_lists
from xlab.numpy.grids import eye
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.linalg.decompositions import hermitian_transpose
from xlab.numpy.operands import check, promoted_inexact
from xlab.numpy.tensor_contractions import matmul
from xlab.numpy.triangles import tril, triu

__all__ = ["eigh", "eigh_tridiagonal", "lu", "polar", "qr", "qr_multiply", "svd"]


@jit_when_eager(static=("lower",))
def _eigh(a, lower):
    (a,) = promoted_inexact("eigh", a)
    v, w = lax.linalg.eigh(a, lower=lower)
    return w, v


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Rising eigenvalues and eigenvectors, as columns, of Hermitian matrices.

    Args:
        a: Hermitian matrices; the mean with the conjugate transpose is taken first.
        b, eigvals, type: of SciPy's generalized problems, which are not solved: None, None and 1.
        lower: which triangle is read.
        eigvals_only: whether to return the eigenvalues alone.
        overwrite_a, overwrite_b, turbo, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.eigh(np.float32([[2, 0], [0, 1]]), eigvals_only=True))
        [1. 2.]
    """
    if b is not None:
        raise NotImplementedError(
            "Only the b=None case of eigh is implemented; with l = cholesky(b), solve for inv(l) @ a @ "
            "inv(l).T"
        )
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError(
            "Only the eigvals=None case of eigh is implemented: take those you need from the results."
        )
    w, v = _eigh(from_lists(a), bool(lower))
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """Rising eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    Args:
        d: the diagonal.
        e: the elements above it, one less; those below are their conjugates.
        eigvals_only: whether to return the eigenvalues alone.
        select: "a" for all, "i" for those whose places are in `select_range`, both ends included.
        select_range: see `select`.
        tol: accepted for SciPy's sake; results are as exact as the dtype.
        key: accepted for callers that start iterations from random vectors; none are needed here.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.eigh_tridiagonal(np.float32([2, 2]), np.float32([1]), eigvals_only=True))
        [1. 3.]
    """
    d, e = map(as_array, check("eigh_tridiagonal", from_lists(d), from_lists(e)))
    if d.dtype != e.dtype:
        raise TypeError(
            f"diagonal and off-diagonal values must have same dtype, got {d.dtype} and {e.dtype}"
        )
    if d.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(
            f"Only float32 and float64 inputs, and complex ones of them, are supported as inputs to eigh_tridiagonal, "
            f"got {d.dtype} and {e.dtype}"
        )
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise TypeError(
            f"eigh_tridiagonal takes a diagonal of n and an off-diagonal of n - 1 elements, got shapes {d.shape} and "
            f"{e.shape}; use vmap for stacks"
        )
    if select not in ("a", "i", "v"):
        raise ValueError(f"select must have a value in 'a', 'i' and 'v', got {select!r}")
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal(..., select='v') is not implemented: the number of results would depend on "
            "values; take all and select"
        )
    if select == "i" and select_range is None:
        raise ValueError("for select='i', select_range must be specified.")
    first, last = (
        (0, d.shape[0] - 1) if select == "a" else (int(select_range[0]), int(select_range[1]))
    )
    w, v = _tridiagonal(d, e)
    w, v = w[first : last + 1], v[:, first : last + 1]
    return w if eigvals_only else (w, v)


@jit_when_eager
def _tridiagonal(d, e):
    n = d.shape[0]
    i, j = (lax.broadcasted_iota(np.int32, (n, n), k) for k in (0, 1))
    full = lax.select(
        lax.eq(i, j), lax.broadcast_in_dim(d, (n, n), (0,)), lax.full((n, n), 0, d.dtype)
    )
    if n > 1:
        # Row i + 1 holds the conjugate of e[i] left of the diagonal; only that triangle is read.
        shifted = lax.pad(conjugate(e), d.dtype.type(0), ((1, 0, 0),))
        full = lax.select(
            lax.eq(i, lax.add(j, np.int32(1))), lax.broadcast_in_dim(shifted, (n, n), (0,)), full
        )
    v, w = lax.linalg.eigh(full, symmetrize_input=False)
    return w, v


@jit_when_eager(static=("permute_l",))
def _lu(a, permute_l):
    (a,) = promoted_inexact("lu", a)
    a = as_array(a)
    if a.ndim == 1 or not a.ndim:
        raise TypeError(f"lu takes matrices, got shape {a.shape}")
    if a.ndim != 2:
        raise ValueError(f"lu takes one matrix, got shape {a.shape}; use vmap for stacks")
    factors, _, permutation = lax.linalg.lu(a)
    m, n = a.shape
    k = min(m, n)
    real = aval_of(lax.abs(factors)).dtype
    i = lax.broadcasted_iota(np.int32, (m, m), 0)
    p = lax.eq(i, lax.broadcast_in_dim(permutation, (m, m), (1,)))
    l = tril(factors, -1)[:, :k] + eye(m, k, dtype=a.dtype)
    u = triu(factors)[:k, :]
    if permute_l:
        return matmul(lax.convert_element_type(p, a.dtype), l, precision="highest"), u
    return lax.convert_element_type(p, real), l, u


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """Elimination with row exchanges: `a == p @ l @ u`.

    Args:
        a: one matrix.
        permute_l: whether to return `p @ l` and `u`.
        overwrite_a, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.lu(np.float32([[1, 2], [4, 4]]))[2])
        [[4. 4.]
         [0. 1.]]
    """
    return _lu(from_lists(a), bool(permute_l))


@jit_when_eager(static=("mode", "pivoting"))
def _qr(a, mode, pivoting):
    (a,) = promoted_inexact("qr", a)
    q, *rest = lax.linalg.qr(a, full_matrices=mode != "economic", pivoting=pivoting)
    return tuple(rest) if mode == "r" else (q, *rest)


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Orthonormal columns and an upper triangular factor: `a == q @ r`.

    Args:
        a: matrices.
        mode: "full", "economic", or "r" for that factor alone (in a tuple).
        pivoting: exchange columns so that the diagonal of `r` falls, and return their order last.
        overwrite_a, lwork, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> q, r = sl.qr(np.float32([[3], [4]]), mode="economic")
        >>> print(abs(r))
        [[5.]]
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(
            f"Unsupported QR decomposition mode '{mode}': expected 'full', 'economic' or 'r'"
        )
    return _qr(from_lists(a), mode, bool(pivoting))


@jit_when_eager(static=("mode", "pivoting", "conjugate"))
def _qr_multiply(a, c, mode, pivoting, conjugate):
    a, c = map(as_array, promoted_inexact("qr_multiply", a, c))
    m, n = a.shape[-2:]
    k = min(m, n)
    vector = c.ndim == 1
    if vector:
        c = lax.expand_dims(c, (1 if mode == "left" else 0,))
    if mode == "left" and c.shape[-2] != k:
        raise ValueError(
            f"Array shapes are not compatible for Q @ c operation: a has shape {a.shape} so Q has {k} columns, but c "
            f"has {c.shape[-2]} rows (expected {k})."
        )
    if mode == "right" and c.shape[-1] != m:
        raise ValueError(
            f"Array shapes are not compatible for c @ Q operation: a has shape {a.shape} so Q has {m} rows, but c "
            f"has {c.shape[-1]} columns (expected {m})."
        )
    q, r, *order = lax.linalg.qr(a, full_matrices=False, pivoting=pivoting)
    if conjugate and q.dtype.kind == "c":
        q = lax.conj(q)
    out = matmul(q, c, precision="highest") if mode == "left" else matmul(c, q, precision="highest")
    if vector:
        out = lax.squeeze(out, (1 if mode == "left" else 0,))
    return out, r, *order


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """`c @ q`, or `q @ c`, for the orthonormal factor of `a`, with its other factor.

    Args:
        a: matrices of shape (m, n).
        c: matrices to multiply, or a vector.
        mode: "right" for `c @ q`, "left" for `q @ c`.
        pivoting: as in `qr`; the order of columns is returned last.
        conjugate: whether `q` is conjugated.
        overwrite_a, overwrite_c: change nothing.
    """
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    return _qr_multiply(from_lists(a), from_lists(c), mode, bool(pivoting), bool(conjugate))


@jit_when_eager(static=("full_matrices", "compute_uv", "driver"))
def _svd(a, full_matrices, compute_uv, driver):
    (a,) = promoted_inexact("svd", a)
    algorithm = lax.linalg.SvdAlgorithm.QR if driver == "gesvd" else None
    return lax.linalg.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm
    )


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """Singular values and vectors: `a == u * s @ vh`.

    Args:
        a: matrices.
        full_matrices: whether `u` and `vh` are square.
        compute_uv: whether to return `(u, s, vh)`, else `s` alone.
        lapack_driver: "gesvd" takes that slower algorithm; any other value the usual one.
        overwrite_a, check_finite: change nothing.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.svd(np.float32([[0, 2], [1, 0]]), compute_uv=False))
        [2. 1.]
    """
    return _svd(from_lists(a), bool(full_matrices), bool(compute_uv), lapack_driver)


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """`a == u @ p`, or `p @ u`, with orthonormal `u` and positive semidefinite `p`.

    Args:
        a: a matrix of shape (m, n).
        side: on which side `p` stands.
        method: "qdwh" (iterations; for "right" m must be at least n, for "left" less than n) or "svd".
        eps, max_iterations: of the iterations, see `lax.linalg.qdwh`.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> u, p = sl.polar(np.float32([[0, 2], [1, 0]]))
        >>> np.allclose(p, np.diag([1, 2]), atol=1e-4)
        True
    """
    (a,) = promoted_inexact("polar", from_lists(a))
    a = as_array(a)
    if a.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}: expected 'qdwh' or 'svd'.")
    m, n = a.shape[-2:]
    if method == "qdwh" and (m < n) != (side == "left"):
        raise NotImplementedError(
            f"method='qdwh' takes matrices of shape (m, n) with m >= n for side='right' and m < n for "
            f"side='left', got {a.shape} with side={side!r}; method='svd' takes all"
        )
    return _polar(a, side, method, eps, max_iterations)


@jit_when_eager(static=("side", "method", "eps", "max_iterations"))
def _polar(a, side, method, eps, max_iterations):
    if method == "svd":
        u, s, vh = lax.linalg.svd(a, full_matrices=False)
        s = lax.convert_element_type(s, a.dtype)
        p = (
            matmul(hermitian_transpose(vh) * s[..., None, :], vh, precision="highest")
            if side == "right"
            else matmul(u * s[..., None, :], hermitian_transpose(u), precision="highest")
        )
        return matmul(u, vh, precision="highest"), p
    u, p, _, _ = lax.linalg.qdwh(
        a if side == "right" else hermitian_transpose(a), eps=eps, max_iterations=max_iterations
    )
    return (u, p) if side == "right" else (hermitian_transpose(u), p)
