"""Polynomials as vectors of coefficients, highest power first; convolution; window functions."""

from __future__ import annotations

import operator

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.numpy.arithmetic import as_array
from xlab.numpy.creation import asarray
from xlab.numpy.elementary import elementary
from xlab.numpy.operands import bring, check, host, ndim_of, promoted, promoted_inexact, shape_of
from xlab.numpy.shape import atleast_1d

__all__ = ["bartlett", "blackman", "convolve", "correlate", "hamming", "hanning", "kaiser", "poly", "polyadd", "polyder",
           "polydiv", "polyint", "polymul", "polysub", "polyval", "roots", "trim_zeros"]


@elementary(static="unroll")
def polyval(p, x, *, unroll: int = 16):
    """Value of a polynomial, by Horner's rule.

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
    y = as_array(lax.full((*shape_of(x), *p.shape[1:])[:max(ndim_of(x), p.ndim - 1)], 0, p.dtype))
    for c in coefficients:
        y = add(multiply(y, x), c)
    return y


def _padded(p, n):
    return lax.pad(p, bring(0, aval_of(p).dtype), [(n - shape_of(p)[0], 0, 0)])


def _together(name, op, a1, a2):
    a1, a2 = (atleast_1d(v) for v in promoted(name, a1, a2))
    n = max(a1.shape[0], a2.shape[0])
    return op(_padded(a1, n), _padded(a2, n))


@elementary
def polyadd(a1, a2):
    """Sum of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([5]))
        Array([1, 7], dtype=int32)
    """
    return _together("polyadd", lax.add, a1, a2)


@elementary
def polysub(a1, a2):
    """Difference of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polysub(jnp.array([1, 2]), jnp.array([5]))
        Array([ 1, -3], dtype=int32)
    """
    return _together("polysub", lax.sub, a1, a2)


def polymul(a1, a2, *, trim_leading_zeros: bool = False):
    """Product of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polymul(jnp.array([1.0, 1.0]), jnp.array([1.0, -1.0]))
        Array([ 1.,  0., -1.], dtype=float32)
    """
    if isinstance(a1, (list, tuple)) or isinstance(a2, (list, tuple)):
        a1, a2 = asarray(a1), asarray(a2)
    a1, a2 = (atleast_1d(v) for v in promoted_inexact("polymul", a1, a2))
    if trim_leading_zeros and (a1.shape[0] > 1 or a2.shape[0] > 1):
        a1, a2 = trim_zeros(a1, "f"), trim_zeros(a2, "f")
    return convolve(a1 if a1.shape[0] else lax.full((1,), 0, a1.dtype), a2 if a2.shape[0] else lax.full((1,), 0, a2.dtype))


@elementary(static="trim_leading_zeros")
def _polydiv(u, v, trim_leading_zeros):
    u, v = (atleast_1d(x) for x in promoted_inexact("polydiv", u, v))
    m, n = u.shape[0] - 1, v.shape[0] - 1
    scale = lax.div(bring(1, v.dtype), lax.index_in_dim(v, 0, 0, keepdims=False))
    quotient = []
    for k in range(max(m - n + 1, 0)):
        d = lax.mul(scale, lax.index_in_dim(u, k, 0, keepdims=False))
        quotient.append(d)
        u = u.at[k:k + n + 1].add(lax.neg(lax.mul(d, v)))
    q = lax.concatenate([lax.reshape(d, (1,)) for d in quotient], 0) if quotient else lax.full((1,), 0, u.dtype)
    return q, u


def polydiv(u, v, *, trim_leading_zeros: bool = False):
    """Quotient and remainder of two polynomials.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polydiv(jnp.array([1.0, 0.0, -1.0]), jnp.array([1.0, 1.0]))[0]
        Array([ 1., -1.], dtype=float32)
    """
    q, r = _polydiv(u, v, trim_leading_zeros=trim_leading_zeros)
    return q, trim_zeros(r, "f") if trim_leading_zeros else r


def polyder(p, m: int = 1):
    """Derivative of a polynomial, `m` times.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
        Array([2., 2.], dtype=float32)
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    (p,) = promoted_inexact("polyder", *check("polyder", p))
    p = as_array(p)
    if not m:
        return p
    n = p.shape[0]
    m = min(m, n)
    powers = np.arange(n)[::-1][:max(n - m, 0)]
    factors = np.prod([powers - i for i in range(m)], axis=0).astype(p.dtype)
    return lax.mul(lax.slice_in_dim(p, 0, max(n - m, 0)), asarray(factors))


def polyint(p, m: int = 1, k=None):
    """Integral of a polynomial, `m` times, with constants `k`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.polyint(jnp.array([2.0, 2.0]))
        Array([1., 2., 0.], dtype=float32)
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    (p,) = promoted_inexact("polyint", *check("polyint", p))
    p = as_array(p)
    if not m:
        return p
    constants = np.zeros(m) if k is None else np.broadcast_to(np.atleast_1d(host(k, "polyint")), (m,)) if np.size(
        host(k, "polyint")) in (1, m) else None
    if constants is None:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    for c in constants:
        n = p.shape[0]
        p = lax.concatenate([lax.div(p, asarray(np.arange(n, 0, -1).astype(p.dtype))), asarray(np.full(1, c, p.dtype))], 0)
    return p


def poly(seq_of_zeros):
    """Coefficients of the polynomial with the given zeros.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.poly(jnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promoted_inexact("poly", *check("poly", seq_of_zeros))
    zeros = atleast_1d(zeros)
    if zeros.ndim != 1:
        raise ValueError(f"poly takes a vector of zeros, got shape {zeros.shape}: the characteristic polynomial of a matrix needs "
                         f"its eigenvalues first")
    out = lax.full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        root = lax.slice_in_dim(zeros, i, i + 1)
        zero = bring(0, zeros.dtype)
        out = lax.sub(lax.pad(out, zero, [(0, 1, 0)]), lax.mul(root, lax.pad(out, zero, [(1, 0, 0)])))
    return out


def roots(p, *, strip_zeros: bool = True):
    """Zeros of a polynomial, computed on the host from concrete coefficients.

    Example:
        >>> import xlab.numpy as jnp
        >>> sorted(float(abs(r)) for r in jnp.roots(jnp.array([1.0, -3.0, 2.0])))
        [1.0, 2.0]
    """
    (p,) = promoted_inexact("roots", *check("roots", p))
    if ndim_of(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    found = np.roots(host(p, "roots"))
    return asarray(found.astype(np.result_type(found.dtype, np.complex64) if found.dtype.kind == "c" else np.complex64))


def trim_zeros(filt, trim: str = "fb"):
    """The vector without zeros at its front ("f") and back ("b"); needs concrete values.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.trim_zeros(jnp.array([0, 1, 0]))
        Array([1], dtype=int32)
    """
    if not isinstance(trim, str):
        raise TypeError(f"trim_zeros: trim must be 'f', 'b' or 'fb', got {trim!r}")
    filt = asarray(filt)
    kept = np.flatnonzero(host(filt, "trim_zeros"))
    n = filt.shape[0]
    start = (int(kept[0]) if kept.size else n) if "f" in trim.lower() else 0
    stop = (int(kept[-1]) + 1 if kept.size else start) if "b" in trim.lower() else n
    return lax.slice_in_dim(filt, start, max(start, stop))


# -- convolution ------------------------------------------------------------------------------------------


@elementary(static=("mode", "precision", "preferred", "mirrored"))
def _sliding(a, v, mode, precision, preferred, mirrored):
    """Sums of products of one vector with shifts of the other, which is mirrored for a convolution."""
    a, v = (as_array(x) for x in promoted_inexact("convolve", a, v))
    swapped = a.shape[0] < v.shape[0]
    if swapped:
        a, v = v, a
    if mirrored:
        v = lax.rev(v, (0,))
    m = v.shape[0]
    padding = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = lax.conv_general_dilated(lax.expand_dims(a, (0, 1)), lax.expand_dims(v, (0, 1)), (1,), [padding], precision=precision,
                                   preferred_element_type=preferred)
    if swapped and not mirrored:
        out = lax.rev(out, (2,))
    return lax.squeeze(out, (0, 1))


def _check_vectors(name, a, v, mode):
    a, v = check(name, a, v)
    if ndim_of(a) != 1 or ndim_of(v) != 1:
        raise ValueError(f"{name} only supports 1-dimensional inputs, got shapes {shape_of(a)} and {shape_of(v)}")
    if not shape_of(a)[0] or not shape_of(v)[0]:
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {shape_of(a)} and {shape_of(v)}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be one of ['full', 'same', 'valid'], got {mode!r}")
    return a, v


def convolve(a, v, mode: str = "full", *, precision=None, preferred_element_type=None):
    """Convolution of two vectors.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
        Array([1., 3., 2.], dtype=float32)
    """
    a, v = _check_vectors("convolve", a, v, mode)
    return _sliding(a, v, mode=mode, precision=precision, preferred=preferred_element_type, mirrored=True)


def correlate(a, v, mode: str = "valid", *, precision=None, preferred_element_type=None):
    """Cross-correlation of two vectors.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
        Array([3., 5.], dtype=float32)
    """
    from xlab.numpy.logic import conjugate
    a, v = _check_vectors("correlate", a, v, mode)
    return _sliding(a, conjugate(v), mode=mode, precision=precision, preferred=preferred_element_type, mirrored=False)


# -- windows ----------------------------------------------------------------------------------------------


def _window(M, values):
    M = operator.index(M)
    if M < 0:
        raise TypeError(f"a window has a number of points, got M={M}")
    dtype = dtypes.canonicalize_dtype(np.float64)
    if M <= 1:
        return lax.full((M,), 1, dtype)
    return asarray(values(M).astype(dtype))


def bartlett(M: int):
    """Triangular window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.bartlett(3)
        Array([0., 1., 0.], dtype=float32)
    """
    return _window(M, np.bartlett)


def blackman(M: int):
    """Blackman window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.blackman(5).shape
        (5,)
    """
    return _window(M, np.blackman)


def hamming(M: int):
    """Hamming window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hamming(5).shape
        (5,)
    """
    return _window(M, np.hamming)


def hanning(M: int):
    """Hann window.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hanning(3)
        Array([0., 1., 0.], dtype=float32)
    """
    return _window(M, np.hanning)


def kaiser(M: int, beta):
    """Kaiser window: `i0(beta * sqrt(1 - r**2)) / i0(beta)` for `r` from -1 to 1; `beta` may be traced, or one per point.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.kaiser(5, 2.0).shape
        (5,)
    """
    n = operator.index(M)
    return _kaiser(beta, n=n) if n > 1 else _window(n, np.ones)


@elementary(static="n")
def _kaiser(beta, n):
    from xlab.numpy.functions import i0
    from xlab.numpy.ufuncs import divide, multiply
    r = (2 * np.arange(n) - (n - 1)) / (n - 1)
    shape = np.sqrt(np.maximum(1 - r * r, 0)).astype(dtypes.canonicalize_dtype(np.float64))
    return divide(i0(multiply(beta, shape)), i0(beta))
