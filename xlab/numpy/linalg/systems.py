"""Solutions of systems of equations, inverses, and what decides whether there are any."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.linalg.lu import solve as _solve_columns
from xlab.numpy import reductions as _r
from xlab.numpy.arithmetic import as_array
from xlab.numpy.grids import eye
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.linalg.decompositions import hermitian_transpose, svd
from xlab.numpy.linalg.norms import norm
from xlab.numpy.logic import isnan, logical_not
from xlab.numpy.operands import cast_operand, check, index_dtype, promoted_inexact
from xlab.numpy.searching import where
from xlab.numpy.shape import broadcast_to, moveaxis, reshape
from xlab.numpy.tensor_contractions import matmul
from xlab.transforms.custom_jvp import custom_jvp

__all__ = ["cond", "inv", "lstsq", "matrix_rank", "pinv", "solve", "tensorinv", "tensorsolve"]


@jit_when_eager
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solves `a @ x == b`.

    Args:
        a: square matrices.
        b: one vector, or matrices whose columns are right-hand sides; batch dimensions broadcast.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
        Array([1. , 0.5], dtype=float32)
    """
    a, b = map(as_array, promoted_inexact("solve", a, b))
    if a.ndim < 2:
        raise ValueError(f"left hand array must be at least two dimensional; got a.shape={a.shape}")
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"solve takes square matrices, got a.shape={a.shape}; lstsq solves systems of other shapes"
        )
    if b.ndim == 0:
        raise ValueError(
            f"solve: b has shape (), which is no vector or matrix; a has shape {a.shape}"
        )
    if b.ndim > 1 and b.ndim == a.ndim - 1:
        raise ValueError(
            f"Invalid shapes for solve: {a.shape}, {b.shape}. Right-hand sides are one vector or matrices: for a "
            f"batch of vectors use solve(a, b[..., None]).squeeze(-1)."
        )
    n = a.shape[-1]
    if b.shape[-1 if b.ndim == 1 else -2] != n:
        raise ValueError(
            f"solve: b of shape {b.shape} does not have the {n} rows of a, whose shape is {a.shape}"
        )
    if b.ndim == 1:
        x = _solve_columns(a, broadcast_to(lax.expand_dims(b, (1,)), (*a.shape[:-2], n, 1)))
        return lax.squeeze(x, (x.ndim - 1,))
    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.ndim == 2 and batch:
        # One matrix for all: its right-hand sides stand side by side.
        k = b.shape[-1]
        wide = reshape(moveaxis(b, -2, 0), (n, math.prod(batch) * k))
        return moveaxis(reshape(_solve_columns(a, wide), (n, *batch, k)), 0, -2)
    return _solve_columns(
        broadcast_to(a, (*batch, n, n)), broadcast_to(b, (*batch, n, b.shape[-1]))
    )


@jit_when_eager
def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices; `solve` is cheaper and more exact where a product with it is wanted.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    (a,) = promoted_inexact("inv", a)
    a = as_array(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to inv must have shape [..., n, n], got {a.shape}.")
    return solve(a, broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape))


def _largest(x):
    return _r.max(x, axis=-1, keepdims=True)


def _epsilon(dtype):
    return float(dtypes.finfo(dtype).eps)


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The pseudo-inverse (Moore and Penrose).

    Args:
        a: matrices of shape (m, n).
        rtol: singular values below this fraction of the largest count as zero; `10 * max(m, n) * eps` by default.
        hermitian: whether `a` is Hermitian, which is cheaper.
        rcond: an older name of `rtol`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.pinv(jnp.array([[2.0], [0.0]]))
        Array([[0.5, 0. ]], dtype=float32)
    """
    (a,) = promoted_inexact("pinv", a)
    a = as_array(a)
    if rtol is None:
        rtol = rcond
    if a.ndim < 2:
        raise ValueError(f"pinv takes matrices, got shape {a.shape}")
    if rtol is None:
        rtol = 10.0 * max(a.shape[-2:]) * _epsilon(a.dtype)
    return _pinv(a, rtol, hermitian)


@jit_when_eager(static=("hermitian",))
def _pinv(a, rtol, hermitian):
    return (_pinv_hermitian if hermitian else _pinv_general)(
        a, as_array(cast_operand(rtol, aval_of(lax.abs(a)).dtype))
    )


@custom_jvp
def _pinv_general(a, rtol):
    return _by_svd(a, rtol, False)


@custom_jvp
def _pinv_hermitian(a, rtol):
    return _by_svd(a, rtol, True)


def _by_svd(a, rtol, hermitian):
    if not a.size:
        return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    cutoff = lax.expand_dims(rtol, (rtol.ndim,)) * _largest(s)
    s = where(s > cutoff, s, np.inf)
    return matmul(
        hermitian_transpose(vh),
        hermitian_transpose(u) / s[..., None].astype(u.dtype),
        precision="highest",
    )


def _pinv_jvp(fun, hermitian):
    def rule(primals, tangents):
        """Golub and Pereyra (1973), for matrices whose rank does not change."""
        (a, rtol), (da, _) = primals, tangents
        p = fun(a, rtol)
        m, n = a.shape[-2:]

        def times(*xs):
            out = xs[0]
            for x in xs[1:]:
                out = matmul(out, x, precision="highest")
            return out

        ph, dah = hermitian_transpose(p), hermitian_transpose(da)
        out = -times(p, da, p)
        if n >= m or hermitian:
            w = times(dah, ph, p)
            out = out + w - times(p, times(a, w))
        if m >= n or hermitian:
            w = times(p, ph, dah)
            out = out + w - times(times(w, a), p)
        return p, out

    return rule


_pinv_general.defjvp(_pinv_jvp(_pinv_general, False))
_pinv_hermitian.defjvp(_pinv_jvp(_pinv_hermitian, True))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The smallest `x` that makes `norm(a @ x - b)` least.

    Args:
        a: one matrix of shape (m, n).
        b: a vector of m elements, or a matrix whose columns are such.
        rcond: singular values below this fraction of the largest count as zero; `max(m, n) * eps` by default.
        numpy_resid: whether residuals are empty where NumPy's are (`a` without full column rank, or m <= n); this looks at
            values, so it does not work under `jit`.

    Returns:
        The solution, the sums of squared residuals, the rank of `a`, its singular values.

    Example:
        >>> import xlab.numpy as jnp
        >>> x, *_ = jnp.linalg.lstsq(jnp.array([[1.0], [1.0]]), jnp.array([1.0, 3.0]))
        >>> x.round(3)
        Array([2.], dtype=float32)
    """
    a, b = map(as_array, promoted_inexact("lstsq", a, b))
    if a.shape[:1] != b.shape[:1]:
        raise ValueError(
            f"Leading dimensions of input arrays must match: got a of shape {a.shape} and b of shape {b.shape}"
        )
    if a.ndim != 2:
        raise TypeError(
            f"lstsq takes one matrix, got {a.ndim}-dimensional a of shape {a.shape}; use vmap for stacks"
        )
    if b.ndim not in (1, 2):
        raise TypeError(f"lstsq takes one vector or matrix as b, got shape {b.shape}")
    m, n = a.shape
    eps = _epsilon(a.dtype)
    cutoff = eps * max(m, n) if rcond is None else where(as_array(rcond) < 0, eps, rcond)
    x, residuals, rank, s = _lstsq(a, b, cutoff)
    if numpy_resid and (int(rank) < n or m <= n):
        residuals = lax.full((0,), 0, residuals.dtype)
    return x, residuals, rank, s


@jit_when_eager
def _lstsq(a, b, cutoff):
    n = a.shape[1]
    columns = b if b.ndim == 2 else lax.expand_dims(b, (1,))
    real = aval_of(lax.abs(a)).dtype
    if not a.size:
        s, rank = lax.full((0,), 0, real), lax.full((), 0, np.int32)
        x = lax.full((n, columns.shape[1]), 0, a.dtype)
    else:
        u, s, vh = svd(a, full_matrices=False)
        kept = (s > 0) & (s >= as_array(cast_operand(cutoff, real)) * s[0])
        rank = _r.sum(kept, dtype=np.int32)
        inverse = where(kept, 1 / where(kept, s, 1), 0)[:, None].astype(a.dtype)
        x = matmul(
            hermitian_transpose(vh),
            inverse * matmul(hermitian_transpose(u), columns, precision="highest"),
            precision="highest",
        )
    residuals = norm(columns - matmul(a, x, precision="highest"), axis=0) ** 2
    return (x if b.ndim == 2 else lax.squeeze(x, (1,))), residuals, rank, s


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """How many singular values are not nearly zero.

    Args:
        M: matrices.
        rtol: singular values up to this size count as zero; `max(m, n) * eps` times the largest by default.
        hermitian: whether they are Hermitian, which is cheaper.
        tol: an older name of `rtol`.

    Example:
        >>> import xlab.numpy as jnp
        >>> int(jnp.linalg.matrix_rank(jnp.ones((3, 3))))
        1
    """
    (M,) = promoted_inexact("matrix_rank", M)
    M = as_array(M)
    if rtol is None:
        rtol = tol
    if M.ndim < 2:
        return lax.convert_element_type(_r.any(M != 0), np.int32)
    return _matrix_rank(M, rtol, hermitian)


@jit_when_eager(static=("hermitian",))
def _matrix_rank(M, rtol, hermitian):
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        cutoff = _largest(s) * (max(M.shape[-2:]) * _epsilon(M.dtype))
    else:
        cutoff = lax.expand_dims(as_array(cast_operand(rtol, s.dtype)), (-1,))
    return _r.sum(s > cutoff, axis=-1, dtype=index_dtype())


@jit_when_eager(static=("p",))
def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number: how much the solution of a system can change with its data.

    Args:
        x: matrices.
        p: None or 2 (largest over smallest singular value), -2 (its inverse), or an order that `norm` takes.

    Example:
        >>> import xlab.numpy as jnp
        >>> float(jnp.linalg.cond(jnp.array([[2.0, 0.0], [0.0, 1.0]])))
        2.0
    """
    (x,) = promoted_inexact("cond", x)
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={x.shape}"
        )
    if not x.shape[-1] or not x.shape[-2]:
        raise ValueError(f"jnp.linalg.cond: input array must not be empty; got arr.shape={x.shape}")
    if p in (None, 2, -2):
        s = svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"jnp.linalg.cond: for p={p}, array must be square; got arr.shape={x.shape}"
        )
    r = norm(x, ord=p, axis=(-2, -1)) * norm(inv(x), ord=p, axis=(-2, -1))
    # A singular matrix has an inverse of NaN; its condition is infinite, unless it held NaN itself.
    return where(isnan(r) & logical_not(_r.any(isnan(x), axis=(-2, -1))), np.inf, r)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """Solves `tensordot(a, x, x.ndim) == b`.

    Args:
        a: an array whose leading dimensions are those of `b`, the others those of `x`.
        b: right-hand side.
        axes: axes of `a` to move to its end first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.tensorsolve(2 * jnp.eye(6).reshape(2, 3, 6), jnp.ones((2, 3))).shape
        (6,)
    """
    a, b = map(as_array, check("tensorsolve", a, b))
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    if a.shape[: b.ndim] != b.shape:
        raise ValueError(
            f"After moving axes to end, leading shape of a must match shape of b. got a.shape={a.shape}, "
            f"b.shape={b.shape}"
        )
    rest = a.shape[b.ndim :]
    if math.prod(rest) != b.size:
        raise ValueError(
            f"Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got a.shape={a.shape}, "
            f"b.ndim={b.ndim}."
        )
    return reshape(solve(reshape(a, (b.size, b.size)), reshape(b, (b.size,))), rest)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse for `tensordot` over the last dimensions: `tensordot(tensorinv(a, ind), a, ind)` is an identity.

    Args:
        a: an array.
        ind: how many leading dimensions have as many elements together as the others.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(2, 3, 6)).shape
        (6, 2, 3)
    """
    a = as_array(*check("tensorinv", a))
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    rows, columns = a.shape[:ind], a.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ValueError(
            f"tensorinv is only possible when the product of the first `ind` dimensions equals that of the "
            f"remaining dimensions. got arr.shape={a.shape} with ind={ind}."
        )
    return reshape(inv(reshape(a, (math.prod(rows), math.prod(columns)))), (*columns, *rows))
