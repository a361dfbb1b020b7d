"""Iterative solvers: the matrix is a function, the unknown any pytree of arrays, and derivatives are solves as well.

Example:
    >>> import xlab.numpy as jnp
    >>> x, _ = cg(lambda v: 4 * v, jnp.ones(3))
    >>> x.tolist()
    [0.25, 0.25, 0.25]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab import tree as _tree
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import promoted_inexact

__all__ = ["bicgstab", "cg", "gmres"]


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solves `A x = b` by conjugate gradients; `A` is symmetric and positive definite.

    Args:
        A: a matrix, or a function from `x` to `A x`.
        b: the right side.
        x0: where to start, zeros by default.
        tol, atol: stops where the residual's norm is at most `max(tol * norm(b), atol)`.
        maxiter: largest number of steps, ten times the number of unknowns by default.
        M: an approximate inverse of `A`, as a matrix or a function.

    Returns:
        The solution, and None.
    """
    return _solve(_cg, A, b, x0, tol, atol, maxiter, M, symmetric=True)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solves `A x = b` by stabilised biconjugate gradients; arguments and results as for `cg`, any regular `A`.

    Args:
        A: a function that multiplies by the matrix, or the matrix.
        b: the right-hand side, any tree of arrays.
        x0: where to start, zeros by default.
        tol, atol: relative and absolute tolerance of the residual's norm.
        maxiter: the most steps, ten times the number of unknowns by default.
        M: a function that multiplies by an approximate inverse.

    Source:
        van der Vorst (1992), Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG.
    """
    return _solve(_bicgstab, A, b, x0, tol, atol, maxiter, M)


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """Solves `A x = b` by minimal residuals over growing Krylov spaces; arguments as for `cg`, any regular `A`.

    Args:
        restart: the largest dimension of a Krylov space; then it starts again from what was found.
        solve_method: "batched" or "incremental": when the small problem is solved. Both give the same result here.

    Returns:
        What solves the equation, and 0, or -1 if it holds a NaN.
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"solve_method must be 'batched' or 'incremental', got {solve_method!r}")
    size = sum(np.size(x) for x in _tree.leaves(b))
    x, _ = _solve(
        partial(_gmres, restart=min(restart, max(size, 1))), A, b, x0, tol, atol, maxiter, M
    )
    return x, jnp.where(jnp.isnan(_dot(x, x)), -1, 0)


def _solve(method, A, b, x0, tol, atol, maxiter, M, symmetric=False):
    b = _tree.map(_inexact, b)
    x0 = _tree.map(jnp.zeros_like, b) if x0 is None else _tree.map(_inexact, x0)
    if _tree.structure(x0) != _tree.structure(b) or any(
        x.shape != y.shape for x, y in zip(_tree.leaves(x0), _tree.leaves(b))
    ):
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {_shapes(x0)} vs {_shapes(b)}"
        )
    maxiter = 10 * sum(x.size for x in _tree.leaves(b)) if maxiter is None else maxiter
    matvec, inverse = _function(A, "A"), (lambda x: x) if M is None else _function(M, "M")

    def first(matvec, right):
        return method(
            matvec,
            right,
            x0,
            jnp.maximum(tol * jnp.sqrt(_dot(right, right)), atol),
            maxiter,
            inverse,
        )

    def transposed(matvec, right):
        zeros = _tree.map(jnp.zeros_like, right)
        return method(
            matvec,
            right,
            zeros,
            jnp.maximum(tol * jnp.sqrt(_dot(right, right)), atol),
            maxiter,
            inverse,
        )

    return lax.custom_linear_solve(
        matvec, b, solve=first, transpose_solve=transposed, symmetric=symmetric
    ), None


def _inexact(x):
    """An array; integers as floats, which the solution has."""
    return as_array(*promoted_inexact("a linear solver", x))


def _function(A, name) -> Callable:
    if callable(A):
        return A
    A = as_array(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(
            f"linear operator {name} must be a square matrix, but has shape: {A.shape}"
        )
    return lambda x: A @ x


def _shapes(tree):
    return [x.shape for x in _tree.leaves(tree)]


def _dot(x, y):
    """The real part of the inner product."""
    return sum(
        (jnp.vdot(a, b).real for a, b in zip(_tree.leaves(x), _tree.leaves(y), strict=True)),
        start=np.float32(0),
    )


def _inner(x, y):
    return sum(
        (jnp.vdot(a, b) for a, b in zip(_tree.leaves(x), _tree.leaves(y), strict=True)),
        start=np.float32(0),
    )


def _add(x, scale, y):
    return _tree.map(lambda a, b: a + (scale * b).astype(a.dtype), x, y)


def _cg(matvec, b, x, limit, maxiter, inverse):
    r = _add(b, -1, matvec(x))
    z = inverse(r)
    gamma = _dot(r, z)

    def going(state):
        _, r, _, _, k = state
        return (_dot(r, r) > limit * limit) & (k < maxiter)

    def step(state):
        x, r, p, gamma, k = state
        image = matvec(p)
        alpha = gamma / _dot(p, image)
        x, r = _add(x, alpha, p), _add(r, -alpha, image)
        z = inverse(r)
        new = _dot(r, z)
        return x, r, _add(z, new / gamma, p), new, k + 1

    return lax.while_loop(going, step, (x, r, z, gamma, 0))[0]


def _bicgstab(matvec, b, x, limit, maxiter, inverse):
    r = _add(b, -1, matvec(x))
    shadow = r
    one = _inner(r, r) * 0 + 1
    zeros = _tree.map(jnp.zeros_like, r)

    def going(state):
        _, r, *_, k = state
        return (_dot(r, r) > limit * limit) & (k < maxiter) & (k >= 0)

    def step(state):
        x, r, p, q, rho, alpha, omega, k = state
        new = _inner(shadow, r)
        beta = new / rho * alpha / omega
        p = _add(r, beta, _add(p, -omega, q))
        direction = inverse(p)
        q = matvec(direction)
        alpha = new / _inner(shadow, q)
        s = _add(r, -alpha, q)
        correction = inverse(s)
        t = matvec(correction)
        done = _dot(s, s) < limit * limit
        omega = jnp.where(done, 0, _inner(t, s) / _inner(t, t)).astype(one.dtype)
        x = _add(_add(x, alpha, direction), omega, correction)
        r = _tree.map(lambda a, b: jnp.where(done, a, b), s, _add(s, -omega, t))
        broken = (new == 0) | ((omega == 0) & ~done)
        return x, r, p, q, new, alpha, omega, jnp.where(broken, -11, k + 1)

    return lax.while_loop(going, step, (x, r, zeros, zeros, one, one, one, 0))[0]


def _gmres(matvec, b, x, limit, maxiter, inverse, restart):
    leaves, structure = _tree.flatten(b)
    dtype = jnp.result_type(*leaves)
    solved = jnp.promote_types(dtype, np.float32)

    def flat(tree):
        return jnp.concatenate([leaf.ravel().astype(dtype) for leaf in _tree.leaves(tree)])

    def whole(vector):
        parts = jnp.split(vector, np.cumsum([leaf.size for leaf in leaves])[:-1].tolist())
        return _tree.unflatten(
            structure, [p.reshape(leaf.shape).astype(leaf.dtype) for p, leaf in zip(parts, leaves)]
        )

    def apply(vector):
        return flat(inverse(matvec(whole(vector))))

    def residual(vector):
        return flat(inverse(_add(b, -1, matvec(whole(vector)))))

    right = flat(inverse(b))
    tolerance = (
        limit
        * jnp.linalg.norm(right)
        / jnp.maximum(jnp.linalg.norm(flat(b)), jnp.finfo(dtype).tiny)
    )

    def cycle(state):
        x, r, norm, k = state
        basis = jnp.zeros((restart + 1, r.size), dtype).at[0].set(r / jnp.where(norm == 0, 1, norm))
        table = jnp.zeros((restart + 1, restart), dtype)

        def extend(j, carried):
            basis, table = carried
            w = apply(basis[j])
            before = jnp.linalg.norm(w)
            column = jnp.zeros(restart + 1, dtype)
            for _ in range(2):  # once more, for what rounding left
                part = basis.conj() @ w
                w = w - part @ basis
                column = column + part
            size = jnp.linalg.norm(w)
            lost = size <= jnp.finfo(dtype).eps * before
            basis = basis.at[j + 1].set(jnp.where(lost, 0, w / jnp.where(lost, 1, size)))
            return basis, table.at[:, j].set(
                column.at[j + 1].set(jnp.where(lost, 0, size).astype(dtype))
            )

        basis, table = lax.fori_loop(0, restart, extend, (basis, table))
        target = jnp.zeros(restart + 1, dtype).at[0].set(norm.astype(dtype))
        # LAPACK solves the small problem, which has no narrower numbers.
        weights = jnp.linalg.lstsq(table.astype(solved), target.astype(solved))[0].astype(dtype)
        x = x + weights @ basis[:-1]
        r = residual(x)
        return x, r, jnp.linalg.norm(r), k + 1

    start = flat(x)
    r = residual(start)
    found = lax.while_loop(
        lambda s: (s[2] > tolerance) & (s[3] < maxiter), cycle, (start, r, jnp.linalg.norm(r), 0)
    )
    return whole(found[0])
