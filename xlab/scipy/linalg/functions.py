"""Functions of matrices: exponential, square root, and user-defined ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.common import diagonal, repeat
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array, log2
from xlab.numpy.conversion import from_lists
from xlab.numpy.grids import eye
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.linalg.decompositions import hermitian_transpose
from xlab.numpy.linalg.systems import solve
from xlab.numpy.logic import isfinite
from xlab.numpy.operands import check, promoted_inexact
from xlab.numpy.searching import where
from xlab.numpy.tensor_contractions import matmul
from xlab.numpy.triangles import triu
from xlab.transforms.jvp import jvp
from xlab.transforms.vmap import vmap

__all__ = ["expm", "expm_frechet", "funm", "sqrtm"]

# Norms up to which an approximant of each degree is exact (Higham, 2005), by precision.
_DEGREES = {
    np.dtype(np.float32): (
        (3, 4.258730016922831e-1),
        (5, 1.880152677804762),
        (7, 3.925724783138660),
    ),
    np.dtype(np.float64): (
        (3, 1.495585217958292e-2),
        (5, 2.539398330063230e-1),
        (7, 9.504178996162932e-1),
        (9, 2.097847961257068),
        (13, 5.371920351148152),
    ),
}


def _times(a, b):
    return matmul(a, b, precision="highest")


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices.

    Args:
        A: square matrices.
        upper_triangular: whether they are upper triangular, which makes it cheaper.
        max_squarings: how often to square at most; matrices that are too large for it give NaN.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.expm(np.float32([[0, 1], [0, 0]])))
        [[1. 1.]
         [0. 1.]]
    """
    A = as_array(*promoted_inexact("expm", A))
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={A.shape}.")
    return _expm(A, bool(upper_triangular), int(max_squarings))


@jit_when_eager(static=("upper_triangular", "max_squarings"))
def _expm(A, upper_triangular, max_squarings):
    fun = lambda a: _expm_of_one(a, upper_triangular, max_squarings)
    for _ in range(A.ndim - 2):
        fun = vmap(fun)
    return fun(A)


def _expm_of_one(A, upper_triangular, max_squarings):
    if not A.size:
        return A
    size = _r.max(_r.sum(lax.abs(A), axis=0))
    degrees = _DEGREES.get(np.dtype(size.dtype), _DEGREES[np.dtype(np.float32)])
    limit = degrees[-1][1]
    size = lax.stop_gradient(size)
    squarings = lax.max(size.dtype.type(0), lax.ceil(log2(size / limit)))
    scaled = A / lax.convert_element_type(2**squarings, A.dtype)
    places = _r.sum(
        size >= np.asarray([bound for _, bound in degrees[:-1]], size.dtype), dtype=np.int32
    )
    p, q = lax.switch(
        places, [lambda a, degree=degree: _pade(a, degree) for degree, _ in degrees], scaled
    )
    if upper_triangular:
        out = lax.linalg.triangular_solve(q, p, left_side=True)
    else:
        out = solve(q, p)

    def again(k, x):
        return lax.cond(k < squarings, lambda x: _times(x, x), lambda x: x, x)

    out = repeat(max_squarings, again, out)
    return where(squarings > max_squarings, np.nan, out)


def _pade(A, degree):
    """Numerator and denominator of the diagonal Padé approximant."""
    c = [
        math.factorial(2 * degree - k)
        * math.factorial(degree)
        // (math.factorial(k) * math.factorial(degree - k))
        for k in range(degree + 1)
    ]
    c = [x / c[-1] for x in c]
    identity = eye(A.shape[0], dtype=A.dtype)
    square = _times(A, A)
    if degree < 13:
        powers = [identity, square]
        while len(powers) <= degree // 2:
            powers.append(_times(powers[-1], square))
        even = _sum_of(c[0::2], powers)
        odd = _times(A, _sum_of(c[1::2], powers))
    else:
        four = _times(square, square)
        six = _times(four, square)
        powers = [identity, square, four, six]
        odd = _times(A, _times(six, _sum_of([0, *c[9::2]], powers)) + _sum_of(c[1:9:2], powers))
        even = _times(six, _sum_of([0, *c[8::2]], powers)) + _sum_of(c[0:8:2], powers)
    return even + odd, even - odd


def _sum_of(factors, terms):
    """The terms times their factors, summed."""
    total = None
    for factor, term in zip(factors, terms):
        if factor:
            total = term * factor if total is None else total + term * factor
    return total


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """The exponential of `A`, and its derivative in the direction of `E`.

    Args:
        A: square matrices.
        E: directions, of the same shape.
        method: accepted for SciPy's sake; the derivative is that of `expm`.
        compute_expm: whether to return both, else the derivative alone.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.expm_frechet(np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32), compute_expm=False))
        [[1.]]
    """
    A, E = map(as_array, promoted_inexact("expm_frechet", from_lists(A), from_lists(E)))
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"expected A to be a square matrix, got A.shape={A.shape}")
    if A.shape != E.shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={A.shape} E.shape={E.shape}"
        )
    both = _expm_frechet(A, E)
    return both if compute_expm else both[1]


@jit_when_eager
def _expm_frechet(A, E):
    return jvp(expm, (A,), (E,))


def _complex_schur(A):
    return lax.linalg.schur(lax.convert_element_type(A, dtypes.result_type(A, np.complex64)))


def _by_columns(t, start, column):
    """An upper triangular matrix, from its diagonal `start`, column by column.

    `column(j, done, above)` gives the matrix and right-hand side whose solution is column j above the diagonal, from the
    columns before; `above` marks the rows of that part.
    """
    n = aval_of(t).shape[0]
    i, k = (lax.broadcasted_iota(np.int32, (n, n), axis) for axis in (0, 1))
    places = lax.iota(np.int32, n)
    zero = lax.full_like(t, 0)
    diagonal_only = where(i == k, start[None, :], zero)

    def step(j, done):
        above = places < j
        matrix, right = column(j, done, above)
        inside = above[:, None] & above[None, :]
        matrix = where(inside, matrix, zero)
        pivots = diagonal(matrix)
        # Rows below the part, and pivots of zero, stand for themselves.
        matrix = where(
            (i == k) & (where(above, pivots, 0) == 0)[:, None], matrix.dtype.type(1), matrix
        )
        solution = lax.linalg.triangular_solve(
            matrix, where(above, right, 0)[:, None], left_side=True
        )[:, 0]
        return where((k == j) & above[:, None], solution[:, None], done)

    return repeat(n, step, diagonal_only)


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix; complex always.

    Args:
        A: one square matrix.
        blocksize: 1; larger ones are not implemented.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.sqrtm(np.float32([[4, 0], [0, 9]])).real)
        [[2. 0.]
         [0. 3.]]
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet: leave blocksize out")
    A = as_array(*check("sqrtm", from_lists(A)))
    if A.ndim != 2:
        raise ValueError(f"sqrtm takes one square matrix, got shape {A.shape}; use vmap for stacks")
    return _sqrtm(A)


@jit_when_eager
def _sqrtm(A):
    t, z = _complex_schur(A)
    root = lax.sqrt(diagonal(t))

    def column(j, done, above):
        # In t = u u, column j says (u + u_jj) x = t_j for the part above the diagonal.
        own = lax.dynamic_index_in_dim(root, j, 0, keepdims=False)
        n = aval_of(t).shape[0]
        return done + own * eye(n, dtype=t.dtype), lax.dynamic_index_in_dim(t, j, 1, keepdims=False)

    u = _by_columns(t, root, column)
    return _times(_times(z, u), hermitian_transpose(z))


def funm(A: ArrayLike, func: Callable, disp: bool = True) -> Array | tuple[Array, Array]:
    """A function of numbers applied to a matrix, by the Schur form and Parlett's recurrence.

    Args:
        A: one square matrix with distinct eigenvalues.
        func: function of an array of complex numbers, elementwise.
        disp: whether to return the result alone; else `(result, estimate of the error)`.

    Example:
        >>> import numpy as np
        >>> import xlab.numpy as jnp
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.funm(np.float32([[1, 1], [0, 2]]), jnp.square).real)
        [[1. 3.]
         [0. 4.]]
    """
    A = as_array(*check("funm", from_lists(A)))
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"expected square array_like input, got shape {A.shape}")
    t, z = _complex_schur(A)
    out, error = _parlett(t, z, lax.convert_element_type(func(diagonal(t)), t.dtype))
    return out if disp else (out, error)


@jit_when_eager
def _parlett(t, z, values):
    n = aval_of(t).shape[0]
    eigenvalues = diagonal(t)

    def column(j, done, above):
        # In f t = t f, column j says (t - t_jj) x = (f - f_jj) t_j for the part above the diagonal.
        at = lambda v, axis=0: lax.dynamic_index_in_dim(v, j, axis, keepdims=False)
        own = where(above, at(t, 1), 0)
        right = (
            _times(where(above[None, :] & above[:, None], done, 0), own[:, None])[:, 0]
            - at(values) * own
        )
        return t - at(eigenvalues) * eye(n, dtype=t.dtype), right

    f = _by_columns(t, values, column)
    out = _times(_times(z, f), hermitian_transpose(z))
    tol = float(np.finfo(t.dtype).eps)
    gaps = lax.abs(eigenvalues[:, None] - eigenvalues[None, :])
    gaps = where(eye(n, dtype=bool), np.inf, gaps)
    smallest = lax.min(_r.min(gaps), lax.abs(t[0, 0])) if n else lax.full((), 1, gaps.dtype)
    smallest = where(smallest == 0, tol, smallest)
    error = where(
        _r.all(isfinite(out)),
        lax.min(
            gaps.dtype.type(1), lax.max(gaps.dtype.type(tol), tol / smallest * _norm1(triu(t, 1)))
        ),
        np.inf,
    )
    return out, error


def _norm1(x):
    return _r.max(_r.sum(lax.abs(x), axis=0))
