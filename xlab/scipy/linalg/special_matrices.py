"""Matrices made from vectors and from numbers."""

from __future__ import annotations

import math
import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.creation import asarray
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.joining import concatenate
from xlab.numpy.operands import check, promoted, promoted_inexact, strip_weak_type
from xlab.numpy.searching import where
from xlab.numpy.shape import broadcast_to
from xlab.numpy.tensor_contractions import matmul

__all__ = ["block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard",
           "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz"]  # fmt: skip


# -- from vectors, the last dimension of an array ---------------------------------------------------------


def _vector(x, name: str, least: int = 0):
    """An array of at least one dimension, whose last one holds vectors."""
    x = as_array(x)
    x = lax.expand_dims(x, (0,)) if x.ndim == 0 else x
    if x.shape[-1] < least:
        raise ValueError(
            f"{name}: the length of the argument along its last axis must be at least {least}; got shape {x.shape}."
        )
    return x


@jit_when_eager
def block_diag(*arrs: ArrayLike) -> Array:
    """The arrays along the diagonal of a matrix that is zero elsewhere; vectors are rows, numbers 1x1 matrices.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.block_diag(np.float32([[1, 2]]), np.float32(3)))
        [[1. 2. 0.]
         [0. 0. 3.]]
    """
    if not arrs:
        return asarray(np.zeros((1, 0)))
    arrs = [as_array(x) for x in promoted("block_diag", *arrs)]
    for i, x in enumerate(arrs):
        if x.ndim > 2:
            raise ValueError(
                f"Arguments to block_diag must have at most 2 dimensions, got shape {x.shape} at argument {i}."
            )
    blocks = [lax.reshape(x, (1, x.size)) if x.ndim < 2 else x for x in arrs]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(lax.pad(x, x.dtype.type(0), ((0, 0, 0), (before, after, 0))))
        before += x.shape[1]
    return lax.concatenate(rows, 0)


def _grid(rows: int, columns: int):
    return np.arange(rows, dtype=np.int32)[:, None], np.arange(columns, dtype=np.int32)[None, :]


@jit_when_eager
def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are `c` turned round and round: `c[(i - j) % n]` at (i, j).

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.circulant(np.int32([1, 2, 3])))
        [[1 3 2]
         [2 1 3]
         [3 2 1]]
    """
    c = _vector(*check("circulant", c), "circulant")
    n = c.shape[-1]
    i, j = _grid(n, n)
    return c[..., (i - j) % max(n, 1)]


@jit_when_eager
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along diagonals, with first column `c` and first row `r` (whose first element is not read).

    Args:
        c: first column.
        r: first row, the conjugate of `c` by default.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.toeplitz(np.int32([1, 2, 3]), np.int32([0, 5])))
        [[1 5]
         [2 1]
         [3 2]]
    """
    if r is None:
        (c,) = check("toeplitz", c)
        c = _vector(c, "toeplitz")
        r = lax.conj(c) if c.dtype.kind == "c" else c
    else:
        c, r = (_vector(x, "toeplitz") for x in promoted("toeplitz", c, r))
    m, n = c.shape[-1], r.shape[-1]
    i, j = _grid(m, n)
    return _joined(
        c,
        r,
        i - j + n - 1,
        lambda c, r: concatenate([lax.rev(r, (r.ndim - 1,))[..., :-1], c], axis=-1),
    )


def _joined(c, r, index, join):
    """A matrix of elements of a column and a row, put one after the other."""
    if not index.size:
        return lax.full(
            (*lax.broadcast_shapes(c.shape[:-1], r.shape[:-1]), *index.shape), 0, c.dtype
        )
    batch = lax.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = (broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r))
    return strip_weak_type(join(c, r)[..., index])


@jit_when_eager
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along antidiagonals, with first column `c` and last row `r` (whose first element is not read).

    Args:
        c: first column.
        r: last row, zeros by default.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.hankel(np.int32([1, 2, 3])))
        [[1 2 3]
         [2 3 0]
         [3 0 0]]
    """
    given = check("hankel", c) if r is None else promoted("hankel", c, r)
    c, r = (*map(as_array, given), None)[:2]
    for name, x in (("c", c), ("r", r)):
        if x is not None and x.ndim == 0:
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    r = lax.full_like(c, 0) if r is None else r
    i, j = _grid(c.shape[-1], r.shape[-1])
    return _joined(c, r, i + j, lambda c, r: concatenate([c, r[..., 1:]], axis=-1))


@jit_when_eager
def companion(a: ArrayLike) -> Array:
    """The matrix whose characteristic polynomial has the coefficients `a`, from the highest.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.companion(np.float32([1, -3, 2])))
        [[ 3. -2.]
         [ 1.  0.]]
    """
    (a,) = promoted_inexact("companion", a)
    a = _vector(a, "companion", 2)
    n = a.shape[-1] - 1
    i, j = _grid(n, n)
    first = -a[..., 1:] / a[..., :1]
    return where(i == 0, first[..., None, :], asarray((i == j + 1).astype(a.dtype)))


@jit_when_eager
def fiedler(a: ArrayLike) -> Array:
    """The matrix of absolute differences of a vector's elements.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.fiedler(np.int32([1, 4])))
        [[0 3]
         [3 0]]
    """
    a = _vector(*check("fiedler", a), "fiedler")
    return lax.abs(a[..., :, None] - a[..., None, :])


@jit_when_eager
def fiedler_companion(a: ArrayLike) -> Array:
    """A companion matrix of five diagonals: the product of two matrices of 2x2 blocks.

    Args:
        a: coefficients of a polynomial, from the highest.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.fiedler_companion(np.float32([1, -3, 2])))
        [[ 3. -2.]
         [ 1.  0.]]
    """
    (a,) = promoted_inexact("fiedler_companion", a)
    a = _vector(a, "fiedler_companion")
    n = max(a.shape[-1] - 1, 0)
    if n == 0:
        return lax.full((*a.shape[:-1], 0, 0), 0, a.dtype)
    own = -a[..., 1:] / a[..., :1]
    i, j = _grid(n, n)

    def blocks(first):
        """Blocks [[-a, 1], [1, 0]] from row `first` on, with a one before them."""
        begins = (np.arange(n) - first) % 2 == 0
        lead = np.arange(n) < first
        on_diagonal = where(begins & ~lead, own, where(lead, a.dtype.type(1), a.dtype.type(0)))
        low = np.minimum(i, j)
        beside = (abs(i - j) == 1) & ((low - first) % 2 == 0) & (low >= first)
        return where(i == j, on_diagonal[..., None, :], asarray(beside.astype(a.dtype)))

    return matmul(blocks(0), blocks(1), precision="highest")


@jit_when_eager
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The matrix of a population in age groups: births `f` in the first row, survival `s` below the diagonal.

    Args:
        f: births of each group.
        s: the part of each group but the last that reaches the next.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.leslie(np.float32([0, 2]), np.float32([0.5])))
        [[0.  2. ]
         [0.5 0. ]]
    """
    f, s = (_vector(x, "leslie") for x in promoted("leslie", f, s))
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise ValueError(
            f"Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of "
            f"f; got f shape {f.shape} and s shape {s.shape}."
        )
    i, j = _grid(n, n)
    survival = lax.pad(s, lax.full_like(s, 0, shape=()), (*[(0, 0, 0)] * (s.ndim - 1), (0, 1, 0)))
    below = where(i == j + 1, survival[..., None, :], 0)
    return where(i == 0, f[..., None, :], below)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector of `n` elements is its convolution with `a`.

    Args:
        a: the vector to convolve with.
        n: length of the other.
        mode: "full", "same" or "valid", as in `numpy.convolve`.

    Example:
        >>> import numpy as np
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.convolution_matrix(np.int32([1, 2]), 3))
        [[1 0 0]
         [2 1 0]
         [0 2 1]
         [0 0 2]]
    """
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    return _convolution_matrix(a, int(n), mode)


@jit_when_eager(static=("n", "mode"))
def _convolution_matrix(a, n, mode):
    a = _vector(*check("convolution_matrix", a), "convolution_matrix", 1)
    m = a.shape[-1]
    rows = {"full": m + n - 1, "same": max(m, n), "valid": abs(m - n) + 1}[mode]
    # The rows of the whole convolution that the mode keeps are those in its middle.
    start = (m + n - 1 - rows) // 2
    i, j = _grid(rows, n)
    place = i + start - j
    inside = (place >= 0) & (place < m)
    return where(inside, a[..., np.clip(place, 0, m - 1)], a.dtype.type(0))


# -- from numbers ---------------------------------------------------------------------------------------------


def _float(values):
    return asarray(np.asarray(values).astype(dtypes.canonicalize_dtype(np.float64)))


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform.

    Args:
        n: number of elements.
        scale: None, "sqrtn" (which makes it unitary) or "n".
        dtype: a complex dtype.

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.dft(2).real)
        [[ 1.  1.]
         [ 1. -1.]]
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    dtype = dtypes.canonicalize_dtype(np.complex128 if dtype is None else dtype)
    if not dtypes.issubdtype(dtype, np.complexfloating):
        raise ValueError(f"dtype must be a complex floating-point type; got {dtypes.name(dtype)}.")
    n = max(int(n), 0)
    k = np.arange(n)
    out = np.exp(-2j * np.pi * (k[:, None] * k % max(n, 1)) / max(n, 1))
    out = out / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return asarray(out.astype(dtype))


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """A matrix of ones and minus ones with orthogonal rows; `n` is a power of 2.

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.hadamard(2))
        [[ 1  1]
         [ 1 -1]]
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    out = np.ones((1, 1))
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return asarray(out.astype(dtypes.canonicalize_dtype(dtype)))


def helmert(n: int, full: bool = False) -> Array:
    """An orthogonal matrix whose rows compare each element with the mean of those before it.

    Args:
        n: order.
        full: whether to include the first row, which is constant.

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.helmert(2).round(3))
        [[ 0.707 -0.707]]
    """
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    n = int(n)
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    rows = np.where(j < i, 1.0, np.where(j == i, -i, 0.0)) / np.sqrt(np.maximum(i * (i + 1), 1))
    rows[0] = 1 / math.sqrt(n)
    return _float(rows if full else rows[1:])


def _order(n) -> int:
    n = operator.index(n)
    if n < 0:
        raise TypeError(f"the order of a matrix cannot be negative, got {n}")
    return n


def hilbert(n: int) -> Array:
    """The matrix with `1 / (i + j + 1)` at (i, j).

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.hilbert(2)[0])
        [1.  0.5]
    """
    k = np.arange(_order(n), dtype=np.float64)
    return _float(1 / (k[:, None] + k + 1))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, whose elements are integers.

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.invhilbert(2))
        [[ 4. -6.]
         [-6. 12.]]
    """
    n = _order(n)

    def element(i, j):
        return (
            (-1) ** (i + j)
            * (i + j + 1)
            * math.comb(n + i, n - j - 1)
            * math.comb(n + j, n - i - 1)
            * math.comb(i + j, i) ** 2
        )

    return _float(
        np.array([[float(element(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n)
    )


_KINDS = ("symmetric", "lower", "upper")


def _pascal(n, kind, alternating: bool):
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(f"Expected kind to be one of: {list(_KINDS)}; got {kind}")
    n = _order(n)
    lower = np.array([[math.comb(i, j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    if alternating:
        lower = lower * np.array(
            [[(-1) ** (i + j) for j in range(n)] for i in range(n)], object
        ).reshape(n, n)
    if kind == "symmetric":
        lower = lower.T @ lower if alternating else lower @ lower.T
    return _float((lower.T if kind == "upper" else lower).astype(np.float64))


def pascal(n: int, kind: str | None = None) -> Array:
    """Binomial coefficients as a matrix.

    Args:
        n: order.
        kind: "symmetric" (or None), "lower" or "upper".

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.pascal(3, "lower"))
        [[1. 0. 0.]
         [1. 1. 0.]
         [1. 2. 1.]]
    """
    return _pascal(n, kind, False)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`.

    Example:
        >>> import xlab.scipy.linalg as sl
        >>> print(sl.invpascal(2, "lower"))
        [[ 1.  0.]
         [-1.  1.]]
    """
    return _pascal(n, kind, True)
