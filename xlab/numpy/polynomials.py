"""Polynomials as vectors of coefficients, highest power first; convolution; window functions."""

from __future__ import annotations

import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import compared
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.lax.precision import PrecisionLike
from xlab.numpy.arithmetic import as_array, select_promoted
from xlab.numpy.creation import asarray
from xlab.numpy.insert_delete import trim_zeros
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    host,
    ndim_of,
    promoted,
    promoted_inexact,
    shape_of,
    spread_to,
)
from xlab.numpy.shape import atleast_1d

__all__ = ["bartlett", "blackman", "convolve", "correlate", "hamming", "hanning", "kaiser", "poly", "polyadd", "polyder",
           "polydiv", "polyint", "polymul", "polysub", "polyval", "roots"]  # fmt: skip


@jit_when_eager(static="unroll")
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Value of a polynomial, by Horner's rule.

    Args:
        p: coefficients, highest power first.
        x: where to evaluate, an array.
        unroll: how many steps of Horner's scheme one turn of the loop makes.

    Source:
        Horner's scheme.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyval(jnp.array([1, 0, 2]), 3)
        Array(11, dtype=int32)
    """
    from xlab.numpy.ufuncs import add, multiply

    p, x = promoted("polyval", p, x)
    p = as_array(p)
    if not p.shape[0]:
        return lax.full(shape_of(x), 0, aval_of(x).dtype)
    coefficients = [lax.index_in_dim(p, i, 0, keepdims=False) for i in range(p.shape[0])]
    y = as_array(lax.full(lax.broadcast_shapes(shape_of(x), p.shape[1:]), 0, p.dtype))
    for c in coefficients:
        y = add(multiply(y, x), c)
    return y


def _together(name, op, a1, a2):
    """Coefficients combined from the last one on; those that the shorter polynomial lacks are 0."""
    a1, a2 = (atleast_1d(v) for v in promoted(name, a1, a2))
    long, short = (a1, a2) if a1.shape[0] >= a2.shape[0] else (a2, a1)
    n, zero = long.shape[0] - short.shape[0], cast_operand(0, long.dtype)
    short = lax.pad(
        spread_to(short, (short.shape[0], *long.shape[1:])),
        zero,
        [(n, 0, 0), *[(0, 0, 0)] * (long.ndim - 1)],
    )
    return op(long, short) if long is a1 else op(short, long)


@jit_when_eager
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([5]))
        Array([1, 7], dtype=int32)
    """
    return _together("polyadd", lax.add, a1, a2)


@jit_when_eager
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polysub(jnp.array([1, 2]), jnp.array([5]))
        Array([ 1, -3], dtype=int32)
    """
    return _together("polysub", lax.sub, a1, a2)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials.

    Args:
        a1, a2: coefficients, highest power first.
        trim_leading_zeros: whether leading zeros of the operands go first (values must be known).

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polymul(jnp.array([1.0, 1.0]), jnp.array([1.0, -1.0]))
        Array([ 1.,  0., -1.], dtype=float32)
    """
    a1, a2 = (atleast_1d(v) for v in promoted_inexact("polymul", a1, a2))
    if trim_leading_zeros and (a1.shape[0] > 1 or a2.shape[0] > 1):
        a1, a2 = trim_zeros(a1, "f"), trim_zeros(a2, "f")
    return convolve(
        a1 if a1.shape[0] else lax.full((1,), 0, a1.dtype),
        a2 if a2.shape[0] else lax.full((1,), 0, a2.dtype),
    )


def _polydiv(u, v):
    # Not one program: fused, the products would not be rounded, and a remainder of zero would not be zero.
    u, v = (atleast_1d(x) for x in promoted_inexact("polydiv", u, v))
    if u.ndim != 1 or v.ndim != 1:
        raise ValueError(
            f"polydiv divides vectors of coefficients, got shapes {u.shape} and {v.shape}"
        )
    m, n = u.shape[0] - 1, v.shape[0] - 1
    scale = lax.div(cast_operand(1, v.dtype), lax.index_in_dim(v, 0, 0, keepdims=False))
    quotient = []
    for k in range(max(m - n + 1, 0)):
        d = lax.mul(scale, lax.index_in_dim(u, k, 0, keepdims=False))
        quotient.append(d)
        u = u.at[k : k + n + 1].add(lax.neg(lax.mul(d, v)))
    q = (
        lax.concatenate([lax.reshape(d, (1,)) for d in quotient], 0)
        if quotient
        else lax.full((1,), 0, u.dtype)
    )
    return q, u


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials.

    Args:
        u, v: coefficients of dividend and divisor, highest power first.
        trim_leading_zeros: whether leading zeros of the remainder go (values must be known).

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polydiv(jnp.array([1.0, 0.0, -1.0]), jnp.array([1.0, 1.0]))[0]
        Array([ 1., -1.], dtype=float32)
    """
    q, r = _polydiv(u, v)
    return q, trim_zeros(r, "f") if trim_leading_zeros else r


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Derivative of a polynomial, `m` times.

    Args:
        p: vector of coefficients. Of an array, rows are dropped and the factors meet its last dimension, as in JAX.
        m: how often.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
        Array([2., 2.], dtype=float32)
    """
    from xlab.numpy.ufuncs import multiply

    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    p = _coefficients("polyder", p, m)
    if not m:
        return p
    n = p.shape[0]
    m = min(m, n)
    powers = np.arange(n)[::-1][: max(n - m, 0)]
    rest = lax.slice_in_dim(p, 0, max(n - m, 0))
    lax.broadcast_shapes(rest.shape, powers.shape)
    factors = np.prod([powers - i for i in range(m)], axis=0).astype(p.dtype)
    return multiply(rest, asarray(factors))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integral of a polynomial, `m` times, with constants `k`.

    Args:
        p: coefficients, highest power first.
        m: how often to integrate.
        k: constants of integration, 0 by default.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyint(jnp.array([2.0, 2.0]))
        Array([1., 2., 0.], dtype=float32)
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    p = _coefficients("polyint", p, m)
    if not m:
        return p
    p, k = map(as_array, promoted_inexact("polyint", p, *check("polyint", 0 if k is None else k)))
    if k.size not in (1, m) or k.shape[:-1] not in ((), (1,)):
        raise ValueError(
            f"polyint: k must be a scalar or a vector of 1 or m={m} constants, got shape {k.shape}"
        )
    k = (
        lax.broadcast_in_dim(lax.reshape(k, (k.size,)), (m,), (0,))
        if k.size == m
        else lax.full((m,), lax.reshape(k, ()))
    )
    for i in range(m):
        places = np.arange(p.shape[0], 0, -1).astype(p.dtype)
        p = lax.concatenate([lax.div(p, asarray(places)), lax.slice_in_dim(k, i, i + 1)], 0)
    return p


def _coefficients(name, p, m):
    (p,) = promoted_inexact(name, *check(name, p))
    if m and not ndim_of(p):
        raise TypeError(f"{name} takes a vector of coefficients, got a number")
    return as_array(p)


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the polynomial with the given zeros, or of the characteristic polynomial of a square matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.poly(jnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promoted_inexact("poly", *check("poly", seq_of_zeros))
    zeros = atleast_1d(zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.size:
        from xlab.numpy.linalg import eigvals

        zeros = eigvals(zeros)
    if zeros.ndim != 1:
        raise ValueError(
            f"poly takes a vector of zeros or a square matrix, got shape {zeros.shape}"
        )
    if not zeros.size:
        return lax.full((), 1, zeros.dtype)
    out = lax.full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        root = lax.slice_in_dim(zeros, i, i + 1)
        zero = cast_operand(0, zeros.dtype)
        out = lax.sub(
            lax.pad(out, zero, [(0, 1, 0)]), lax.mul(root, lax.pad(out, zero, [(1, 0, 0)]))
        )
    return out


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Zeros of a polynomial.

    Args:
        p: vector of coefficients.
        strip_zeros: whether leading zeros lower the degree, for which the coefficients must be concrete. Otherwise the result has
            `len(p) - 1` entries, the last of them NaN for leading zeros, and may be traced.

    Example:
        >>> import xlab.numpy as jnp
        >>> sorted(float(abs(r)) for r in jnp.roots(jnp.array([1.0, -3.0, 2.0])))
        [1.0, 2.0]
    """
    (p,) = promoted_inexact("roots", *check("roots", p))
    if ndim_of(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    if not strip_zeros and shape_of(p)[0] > 1:
        return _all_roots(p)
    p = np.trim_zeros(host(p, "roots"), "f")
    companion = np.eye(max(len(p) - 1, 0), k=-1, dtype=p.dtype)
    companion[:1] = -p[1:] / p[:1]
    return asarray(np.linalg.eigvals(companion).astype(np.result_type(p.dtype, np.complex64)))


@jit_when_eager
def _all_roots(p):
    """Eigenvalues of the companion matrix of the polynomial without its leading zeros, which are put last and give the last ones."""
    from xlab.numpy.grids import eye
    from xlab.numpy.indexing import take
    from xlab.numpy.linalg import eigvals

    p = as_array(p)
    n = p.shape[0]
    there = lax.ne(p, cast_operand(0, p.dtype))
    index = lax.iota(np.int32, n)
    zeros = lax.reduce_min(select_promoted(there, index, np.int32(n)), (0,))
    p = take(p, lax.add(index, zeros), mode="wrap")
    row = lax.div(
        lax.neg(lax.slice_in_dim(p, 1, n)),
        lax.broadcast_in_dim(lax.index_in_dim(p, 0, 0, keepdims=False), (n - 1,), ()),
    )
    shifted = lax.slice_in_dim(eye(n - 1, dtype=p.dtype), 0, n - 2)
    # Transposed, so that the zeros of trailing coefficients come last.
    found = eigvals(
        lax.transpose(lax.concatenate([lax.expand_dims(row, (0,)), shifted], 0), (1, 0))
    )
    return select_promoted(
        lax.ge(lax.add(lax.iota(np.int32, n - 1), zeros), np.int32(n - 1)),
        cast_operand(complex(np.nan, np.nan), found.dtype),
        found,
    )


# -- convolution ------------------------------------------------------------------------------------------


@jit_when_eager(static=("mode", "precision", "preferred", "mirrored"))
def _sliding(a, v, mode, precision, preferred, mirrored):
    """Sums of products of one vector with shifts of the other, which is mirrored for a convolution."""
    a, v = (as_array(x) for x in promoted_inexact("convolve", a, v))
    # Where it is open which is the longer one, they stay: the sums are the same.
    swapped = compared(a.shape[0], "<", v.shape[0]) is True
    if swapped:
        a, v = v, a
    if mirrored:
        v = lax.rev(v, (0,))
    m = v.shape[0]
    padding = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = lax.conv_general_dilated(
        lax.expand_dims(a, (0, 1)),
        lax.expand_dims(v, (0, 1)),
        (1,),
        [padding],
        precision=precision,
        preferred_element_type=preferred,
    )
    if swapped and not mirrored:
        out = lax.rev(out, (2,))
    return lax.squeeze(out, (0, 1))


def _check_vectors(name, a, v, mode):
    a, v = check(name, a, v)
    if ndim_of(a) != 1 or ndim_of(v) != 1:
        raise ValueError(
            f"{name} only supports 1-dimensional inputs, got shapes {shape_of(a)} and {shape_of(v)}"
        )
    if not shape_of(a)[0] or not shape_of(v)[0]:
        raise ValueError(
            f"{name}: inputs cannot be empty, got shapes {shape_of(a)} and {shape_of(v)}"
        )
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be one of ['full', 'same', 'valid'], got {mode!r}")
    return a, v


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolution of two vectors.

    Args:
        a, v: vectors.
        mode: 'full', 'same' or 'valid': which positions of the overlap count.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
        Array([1., 3., 2.], dtype=float32)
    """
    a, v = _check_vectors("convolve", a, v, mode)
    return _sliding(
        a, v, mode=mode, precision=precision, preferred=preferred_element_type, mirrored=True
    )


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Cross-correlation of two vectors.

    Args:
        a, v: vectors.
        mode: 'full', 'same' or 'valid': which positions of the overlap count.
        precision: how exact products are, as in `lax.dot`.
        preferred_element_type: the dtype to add products up in, and of the result.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
        Array([3., 5.], dtype=float32)
    """
    from xlab.numpy.logic import conjugate

    a, v = _check_vectors("correlate", a, v, mode)
    return _sliding(
        a,
        conjugate(v),
        mode=mode,
        precision=precision,
        preferred=preferred_element_type,
        mirrored=False,
    )


# -- windows ----------------------------------------------------------------------------------------------


def _window(M, values):
    M = int(M)
    if M < 0:
        raise TypeError(f"a window has a number of points, got M={M}")
    dtype = dtypes.canonicalize_dtype(np.float64)
    if M <= 1:
        return lax.full((M,), 1, dtype)
    return asarray(values(M).astype(dtype))


def bartlett(M: int) -> Array:
    """Triangular window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.bartlett(3)
        Array([0., 1., 0.], dtype=float32)
    """
    return _window(M, np.bartlett)


def blackman(M: int) -> Array:
    """Blackman window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.blackman(5).shape
        (5,)
    """
    return _window(M, np.blackman)


def hamming(M: int) -> Array:
    """Hamming window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hamming(5).shape
        (5,)
    """
    return _window(M, np.hamming)


def hanning(M: int) -> Array:
    """Hann window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hanning(3)
        Array([0., 1., 0.], dtype=float32)
    """
    return _window(M, np.hanning)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser window: `i0(beta * sqrt(1 - r**2)) / i0(beta)` for `r` from -1 to 1; `beta` may be traced, or one per point.

    Args:
        M: how many points.
        beta: shape of the window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.kaiser(5, 2.0).shape
        (5,)
    """
    n = int(M)
    return _kaiser(beta, n=n) if n > 1 else _window(n, np.ones)


@jit_when_eager(static="n")
def _kaiser(beta, n):
    from xlab.numpy.functions import i0
    from xlab.numpy.ufuncs import divide, multiply

    r = (2 * np.arange(n) - (n - 1)) / (n - 1)
    shape = np.sqrt(np.maximum(1 - r * r, 0)).astype(dtypes.canonicalize_dtype(np.float64))
    return divide(i0(multiply(beta, shape)), i0(beta))
