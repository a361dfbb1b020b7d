"""Decompositions of matrices, with results that have names."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.lu import take_rows
from xlab.lax.linalg.qr import geqrf_p
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import promoted_inexact
from xlab.numpy.shape import matrix_transpose

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


def hermitian_transpose(x):
    """Each matrix transposed and conjugated."""
    x = matrix_transpose(x)
    return lax.conj(x) if aval_of(x).dtype.kind == "c" else x


@jit_when_eager(static=("upper", "symmetrize_input"))
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangular factor of positive definite matrices: `a == l @ l.conj().mT`; NaN where they are not.

    Args:
        a: Hermitian matrices.
        upper: whether to return the upper triangular factor `u` with `a == u.conj().mT @ u`.
        symmetrize_input: whether to take the mean of `a` and its conjugate transpose first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
        Array([[2., 0.],
               [1., 1.]], dtype=float32)
    """
    (a,) = promoted_inexact("cholesky", a)
    if upper:
        # The lower factor of the transpose of what is read: its conjugate transpose is the upper one.
        return hermitian_transpose(
            lax.linalg.cholesky(
                a if symmetrize_input else hermitian_transpose(a), symmetrize_input=symmetrize_input
            )
        )
    return lax.linalg.cholesky(a, symmetrize_input=symmetrize_input)


@jit_when_eager
def eig(a: ArrayLike) -> tuple[Array, Array]:
    """Eigenvalues and right eigenvectors of square matrices; complex always.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    (a,) = promoted_inexact("eig", a)
    return EigResult(*lax.linalg.eig(a, compute_left_eigenvectors=False))


@jit_when_eager
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices; complex always.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.eigvals(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    (a,) = promoted_inexact("eigvals", a)
    return lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@jit_when_eager(static=("UPLO", "symmetrize_input"))
def eigh(
    a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True
) -> tuple[Array, Array]:
    """Rising eigenvalues and eigenvectors, as columns, of Hermitian matrices.

    Args:
        a: Hermitian matrices.
        UPLO: which triangle is read, "L" (or None) or "U".
        symmetrize_input: whether to take the mean of `a` and its conjugate transpose first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        Array([1., 2.], dtype=float32)
    """
    (a,) = promoted_inexact("eigh", a)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    v, w = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@jit_when_eager(static=("UPLO", "symmetrize_input"))
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Rising eigenvalues of Hermitian matrices; see `eigh`.

    Args:
        a: Hermitian matrices `(..., n, n)`.
        UPLO: which triangle is read, 'L' or 'U'.
        symmetrize_input: whether the mean of the matrix and its adjoint is taken first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
        Array([1., 2.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@jit_when_eager(static=("mode",))
def qr(a: ArrayLike, mode: str = "reduced") -> tuple[Array, Array] | Array:
    """Orthonormal columns and an upper triangular factor: `a == q @ r`.

    Args:
        a: matrices.
        mode: "reduced", "complete" (square `q`), "r" (that factor alone), or "raw" (reflections and their factors, as LAPACK
            and NumPy write them).

    Example:
        >>> import xlab.numpy as jnp
        >>> q, r = jnp.linalg.qr(jnp.array([[3.0], [4.0]]))
        >>> abs(r)
        Array([[5.]], dtype=float32)
    """
    (a,) = promoted_inexact("qr", a)
    if mode == "raw":
        packed, taus = geqrf_p.bind(a)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(
            f"Unsupported QR decomposition mode '{mode}': expected 'reduced', 'complete', 'r' or 'raw'"
        )
    q, r = lax.linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@jit_when_eager(static=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array] | Array:
    """Singular values and vectors: `a == u * s @ vh`.

    Args:
        a: matrices of shape (m, n).
        full_matrices: whether `u` and `vh` are square.
        compute_uv: whether to return the vectors.
        hermitian: whether `a` is Hermitian, which is cheaper.
        subset_by_index: range of singular values to compute; here only all of them.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.svd(jnp.array([[0.0, 2.0], [1.0, 0.0]])).S
        Array([2., 1.], dtype=float32)
    """
    (a,) = promoted_inexact("svd", a)
    if not hermitian:
        out = lax.linalg.svd(
            a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
        return SVDResult(*out) if compute_uv else out
    w, v = eigh(a)
    last = aval_of(w).ndim - 1
    s = lax.abs(w)
    if not compute_uv:
        return lax.rev(lax.sort(s), (last,))
    # By falling size; eigenvalues below zero turn their right vectors round.
    order = lax.broadcasted_iota("int32", aval_of(w).shape, last)
    _, s, signs, order = lax.sort((lax.neg(s), s, lax.sign(w), order), dimension=last)
    u = matrix_transpose(take_rows(matrix_transpose(v), order))
    signs = lax.convert_element_type(signs, aval_of(u).dtype)
    v = lax.mul(u, lax.broadcast_in_dim(signs, aval_of(u).shape, (*range(last), last + 1)))
    return SVDResult(u, s, hermitian_transpose(v))


@jit_when_eager
def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, from the largest.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
        Array([2., 1.], dtype=float32)
    """
    (x,) = promoted_inexact("svdvals", x)
    return lax.linalg.svd(x, full_matrices=False, compute_uv=False)
