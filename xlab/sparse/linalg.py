"""Solvers for sparse matrices: `spsolve` for systems of equations, `lobpcg_standard` for a few of the largest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.avals import aval_of
from xlab.lax.callbacks import pure_callback
from xlab.lax.control.linear_solve import custom_linear_solve
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import JAXSparse
from xlab.sparse.bcsr import coordinates_of
from xlab.sparse.host_lu import solve_sparse

__all__ = ["lobpcg_standard", "spsolve"]


def spsolve(data, indices, indptr, b, tol: float = 1e-6, reorder: int = 1):
    """Solves `A x = b` for a square matrix as compressed rows, directly.

    Differentiable by `data` and `b`. The elimination runs on the host; see `solve_sparse`.

    Args:
        data: the stored elements, `(nse,)`.
        indices: their columns.
        indptr: where each row begins, `(n + 1,)`.
        b: the right side, `(n,)`.
        tol: a pivot smaller than this part of the largest element counts as zero, and the result is nan.
        reorder: accepted for programs that give it: the order of elimination is chosen by the elements.

    Raises:
        ValueError: if the shapes do not go together.

    Example:
        >>> import xlab.numpy as jnp
        >>> spsolve(jnp.array([2., 3.]), jnp.array([0, 1]), jnp.array([0, 1, 2]), jnp.array([4., 9.])).tolist()
        [2.0, 3.0]
    """
    data, indices, indptr, b = map(as_array, (data, indices, indptr, b))
    n = b.shape[0] if b.ndim == 1 else -1
    if indptr.shape != (n + 1,) or data.shape != indices.shape:
        raise ValueError(
            f"spsolve: data, indices, indptr and b have shapes (nse,), (nse,), (n + 1,) and (n,), got {data.shape}, "
            f"{indices.shape}, {indptr.shape} and {b.shape}"
        )
    dtype = jnp.result_type(data, b, np.float32)
    data, b = data.astype(dtype), b.astype(dtype)
    at = coordinates_of(indices, indptr)

    def times(rows, cols):
        def matvec(x):
            terms = data * x.at[cols].get(mode="fill", fill_value=0)
            return jnp.zeros(n, dtype).at[rows].add(terms, mode="drop")

        return matvec

    def solver(rows, cols):
        # The elements as they are, not as they are differentiated: derivatives are systems of their own.
        known = lax.stop_gradient(data)

        def on_host(*args):
            return solve_sparse(*map(np.asarray, args), tol)

        return lambda _, b: pure_callback(
            on_host, ShapeDtypeStruct((n,), dtype), known, rows, cols, b, vmap_method="sequential"
        )

    rows, cols = at[:, 0], at[:, 1]
    return custom_linear_solve(times(rows, cols), b, solver(rows, cols), solver(cols, rows))


def lobpcg_standard(A, X, m: int = 100, tol=None):
    """The largest eigenvalues of a symmetric matrix, with eigenvectors, from products with it alone.

    A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient method" (2001),
    without preconditioner: each round takes the best of the span of the vectors, their residuals, and the steps before. An
    orthonormal basis of that span is computed by QR, as in U. Hetmaniuk, R. Lehoucq, "Basis selection in LOBPCG" (2006).

    Args:
        A: the matrix, `(n, n)`, dense or sparse, or a function of an array `(n, k)` that returns its product.
        X: where to begin, `(n, k)`: one column for each eigenvalue that is wanted. `5 k < n`.
        m: the most rounds.
        tol: rounds end where no residual is larger than this part of its eigenvalue and the norm of `A`; by default the
            precision of the dtype.

    Returns:
        `(theta, U, i)`: eigenvalues, the largest first, `(k,)`; eigenvectors, `(n, k)`; the number of rounds.

    Raises:
        ValueError: for other shapes.
    """
    X = as_array(X)
    if X.ndim != 2 or X.shape[1] == 0 or 5 * X.shape[1] >= X.shape[0]:
        raise ValueError(
            f"lobpcg_standard: X has shape (n, k) with k > 0 and 5 k < n, got {X.shape}: with so many eigenvalues use eigh"
        )
    if isinstance(A, JAXSparse) or not isinstance(A, Callable):
        if A.shape != (X.shape[0], X.shape[0]):
            raise ValueError(
                f"lobpcg_standard: A has shape {A.shape}, X {X.shape}: they do not go together"
            )
        product = lambda V: A @ V
    else:
        product = A
    out = aval_of(product(X))
    if out.shape != X.shape:
        raise ValueError(
            f"lobpcg_standard: A maps an array of shape {X.shape} to one of shape {out.shape}"
        )
    k = X.shape[1]
    limit = jnp.finfo(X.dtype).eps if tol is None else tol

    def best(basis):
        """The largest Ritz pairs of a span."""
        Q = jnp.linalg.qr(basis)[0]
        AQ = product(Q)
        small = Q.T @ AQ
        theta, V = jnp.linalg.eigh((small + small.T) / 2)
        V = V[:, ::-1][:, :k]
        return theta[::-1][:k], Q @ V, AQ @ V

    def unfinished(state):
        i, theta, U, AU, _, scale = state
        error = jnp.linalg.norm(AU - U * theta, axis=0) / (jnp.abs(theta) + scale)
        return (i < m) & (error > limit * 10).any()

    def step(state):
        i, theta, U, AU, P, scale = state
        residual = AU - U * theta
        # Scaled, so that none is lost beside the others.
        unit = lambda M: M / jnp.maximum(jnp.linalg.norm(M, axis=0), jnp.finfo(M.dtype).tiny)
        theta, new, AU = best(jnp.concatenate([U, unit(residual), unit(P)], 1))
        return (
            i + 1,
            theta,
            new,
            AU,
            new - U @ (U.T @ new),
            jnp.maximum(scale, jnp.abs(theta).max()),
        )

    theta, U, AU = best(X)
    state = (jnp.int32(0), theta, U, AU, jnp.zeros_like(U), jnp.abs(theta).max())
    i, theta, U, *_ = lax.while_loop(unfinished, step, state)
    return theta, U, i
