"""The normal distribution and the error functions."""

from __future__ import annotations

import functools
import math

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike
from xlab.scipy.special.functions import (
    chebyshev,
    float_only,
    number,
    polynomial,
    special,
    with_slopes,
)
from xlab.transforms.custom_jvp import custom_jvp

__all__ = [
    "dawsn",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "owens_t",
    "wofz",
]


@special
def erf(x: ArrayLike) -> Array:
    """The error function.

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.erf(1.0)), 4)
        0.8427
    """
    return lax.erf(x)


@special
def erfc(x: ArrayLike) -> Array:
    """`1 - erf(x)`, accurate for large `x`."""
    return lax.erfc(x)


@special
def erfinv(x: ArrayLike) -> Array:
    """The inverse of the error function."""
    return lax.erf_inv(x)


# (1 + 2x) erfcx(x), as Chebyshev polynomials in (x - 15/4) / (x + 15/4).
_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05, 4.13902798607301e-06,
    7.74038306619849e-07, -2.1886401049234397e-07, 1.076499946567091e-08, 4.521959811218287e-09,
    -7.754400208831351e-10, -6.318088340886684e-11, 2.86879501093067e-11, 1.9455868545777347e-13,
    -9.65469674843344e-13, 3.25254814814874e-14, 3.3478119482868056e-14, -1.864562880419313e-15,
    -1.2507950530688648e-15, 7.418235256624044e-17, 5.068148904796111e-17, -2.2370566594359995e-18,
    -2.187342944303018e-18,
)  # fmt: skip


@special(complexes=True, weak=False)
def erfcx(x: ArrayLike) -> Array:
    """`exp(x**2) erfc(x)`, which neither overflows nor vanishes for large `x`; of complex numbers `wofz(i x)`.

    Source:
        Chebyshev polynomials of `(1 + 2x) erfcx(x)` in `(x - 15/4) / (x + 15/4)`.
    """
    return wofz(1j * x) if jnp.iscomplexobj(x) else _erfcx(x)


# (2k + 1)!! / 200^k
_FAR_SLOPE = [math.prod(range(1, 2 * k + 2, 2)) / 200**k for k in range(12)][::-1]


def _far_slope(x, sign):
    """-s (1 + 3 sign s + 15 s^2 + ...) for s = 1 / (2 x^2): what is left of `1 - 2 x f(x)` where that cancels, from |x| = 10 on."""
    far = 10 / jnp.where(jnp.abs(x) > 10, x, number(10, x))
    square = far * far
    return -square / 200 * polynomial(sign * square, _FAR_SLOPE)


def _erfcx_slope(ans, x):
    scale = number(2 / math.sqrt(math.pi), x)
    return jnp.where(x > 10, scale * _far_slope(x, -1), 2 * x * ans - scale)


@with_slopes(_erfcx_slope)
def _erfcx(x):
    size = jnp.abs(x)
    bounded = jnp.minimum(size, number(1e30 if x.dtype.itemsize > 2 else 1e4, x))
    value = chebyshev((bounded - 3.75) / (bounded + 3.75), _ERFCX) / 2 / (0.5 + size)
    below = jnp.where(x < 0, x, number(0, x))
    return jnp.where(x < 0, 2 * jnp.exp(below * below) - value, value)


@special(weak=False)
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, `exp(-x**2)` times the integral of `exp(t**2)` from 0 to `x`.

    Source:
        Rybicki (1989), Dawson's integral and the sampling theorem.
    """
    return _dawson(x)


@with_slopes(lambda ans, x: jnp.where(jnp.abs(x) > 10, _far_slope(x, 1), 1 - 2 * x * ans))
def _dawson(x):
    """Rybicki's sum (1989): of Gaussians at odd multiples of a step; a power series near zero."""
    step, reach = 0.25, 27
    square = x * x
    terms, term = [number(1, x)], 1.0
    for k in range(1, 10):
        term *= -2 / (2 * k + 1)
        terms.append(number(term, x))
    near = x * polynomial(square, terms[::-1])
    finite = jnp.where(jnp.abs(x) < 1e3, x, number(1, x))
    center = 2 * jnp.round(finite / (2 * step))
    offset = finite - center * step
    total = jnp.zeros_like(x)
    for n in range(-reach, reach + 1, 2):
        total = total + jnp.exp(-jnp.square(offset - n * step)) / (center + n)
    far = 1 / (2 * jnp.where(x == 0, number(1, x), x))
    total = jnp.where(
        jnp.abs(x) < 1e3, total * number(1 / math.sqrt(math.pi), x), far * (1 + 2 * far * far)
    )
    return jnp.where(jnp.abs(x) < 0.25, near, total)


def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function.

    Example:
        >>> from xlab.scipy import special
        >>> float(special.ndtr(0.0))
        0.5
    """
    return _ndtr(float_only("ndtr", jnp.asarray(x)))


@special(weak=False)
def _ndtr(x):
    half = number(math.sqrt(0.5), x)
    w = x * half
    size = jnp.abs(w)
    tail = lax.erfc(size)
    return 0.5 * jnp.where(size < half, 1 + lax.erf(w), jnp.where(w > 0, 2 - tail, tail))


def ndtri(p: ArrayLike) -> Array:
    """The inverse of the normal distribution function.

    Source:
        Wichura (1988), Algorithm AS 241: the percentage points of the normal distribution.
    """
    return _ndtri(float_only("ndtri", p))


# Wichura, "The percentage points of the normal distribution" (1988): rational functions on three ranges.
_CENTER = ((2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
            1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
           (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077,
            687.1870074920579083, 42.313330701600911252, 1.0))  # fmt: skip
_MIDDLE = ((7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
            3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
           (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
            0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0))  # fmt: skip
_TAIL = ((2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
          0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
         (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
          0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0))  # fmt: skip


def _rational(x, table):
    return polynomial(x, table[0]) / polynomial(x, table[1])


@special(weak=False)
def _ndtri(p):
    return _quantile(p)


@with_slopes(lambda ans, p: jnp.exp(0.5 * ans * ans) * number(math.sqrt(2 * math.pi), p))
def _quantile(p):
    q = p - 0.5
    inner = jnp.abs(q) <= 0.425
    middle = jnp.where(inner, q, number(0, p))
    center = middle * _rational(0.180625 - middle * middle, _CENTER)
    tail = jnp.minimum(p, 1 - p)
    valid = (p > 0) & (p < 1)
    r = jnp.sqrt(-jnp.log(jnp.where(valid & ~inner, tail, number(0.05, p))))
    outer = jnp.where(r <= 5, _rational(r - 1.6, _MIDDLE), _rational(r - 5, _TAIL))
    value = jnp.where(inner, center, jnp.where(q < 0, -outer, outer))
    value = jnp.where(p == 0, number(-np.inf, p), jnp.where(p == 1, number(np.inf, p), value))
    return jnp.where(valid | (p == 0) | (p == 1), value, number(np.nan, p))


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Logarithm of the normal distribution function, also far out where the function itself is 0."""
    if not isinstance(series_order, int):
        raise TypeError(f"log_ndtr takes a Python integer as series_order, got {series_order!r}")
    if series_order < 0:
        raise ValueError(f"log_ndtr: series_order must be non-negative, got {series_order}")
    if series_order > 30:
        raise ValueError(f"log_ndtr: series_order must be <= 30, got {series_order}")
    return _log_ndtr(float_only("log_ndtr", jnp.asarray(x)), series_order)


@special(weak=False, keywords=("series_order",))
def _log_ndtr(x, series_order):
    return _log_normal(x, series_order)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _log_normal(x, order):
    lower = -10 if x.dtype == np.float32 else -20
    # Above zero from the other tail: it is small beside the 1 that it is taken from.
    tail = _ndtr(-jnp.abs(jnp.maximum(x, lower)))
    middle = jnp.where(x > 0, lax.log1p(-tail), jnp.log(tail))
    far = jnp.minimum(x, lower)
    total = _log_normal_series(far, order)
    below = -0.5 * (far * far) - jnp.log(-far) - 0.5 * math.log(2 * math.pi) + jnp.log(total)
    value = jnp.where(x > lower, middle, below)
    value = jnp.where(x == -np.inf, number(-np.inf, x), value)
    return jnp.where(jnp.isnan(x), x, value)


@_log_normal.defjvp
def _log_normal_jvp(order, primals, tangents):
    (x,), (t,) = primals, tangents
    out = _log_normal(x, order)
    # Far out the density over the value is known without the square, which cancels: minus x over the series.
    lower = -10 if x.dtype == np.float32 else -20
    far = jnp.minimum(x, lower)
    near = jnp.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - out)
    return out, t * jnp.where(x < lower, -far / _log_normal_series(far, order), near)


def _log_normal_series(far, order):
    square = far * far
    total, term = jnp.ones_like(far), jnp.ones_like(far)
    for k in range(1, order + 1):
        term = -term * (2 * k - 1) / square
        total = total + term
    return total


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@special
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: the probability that X > h and 0 < Y < a X, for independent normal X and Y.

    Source:
        Gauss-Legendre quadrature of Owen's integral (1956) up to slope 1; his reflection above.
    """
    wide = dtypes.canonicalize_dtype(np.float64)
    return _owen(*(lax.convert_element_type(x, wide) for x in jnp.broadcast_arrays(h, a)))


def _height(h, a):
    """`a h`, 0 where a zero is multiplied with infinity: there one line bounds no area, or the slopes of both sides cancel."""
    return jnp.where((h == 0) | (a == 0), number(0, h), a * h)


def _owen_slope_h(ans, h, a):
    tail = lax.erf(_height(h, a) * math.sqrt(0.5))
    return -jnp.exp(-0.5 * h * h) * tail / (2 * math.sqrt(2 * math.pi))


def _owen_slope_a(ans, h, a):
    height = _height(h, a)
    return jnp.exp(-0.5 * (h * h + height * height)) / (2 * math.pi * (1 + a * a))


@with_slopes(_owen_slope_h, _owen_slope_a)
def _owen(h, a):
    size, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    inner = jnp.where(steep, 1 / jnp.where(steep, slope, number(1, a)), slope)
    height = jnp.where(steep, size * slope, size)
    height = jnp.where(jnp.isnan(height), number(0, h), height)
    total = jnp.zeros_like(h)
    for x, w in zip(_NODES, _WEIGHTS):
        y = inner * (0.5 * (1 + x))
        total = total + w * jnp.exp(-0.5 * height * height * (1 + y * y)) / (1 + y * y)
    value = total * inner / (4 * math.pi)
    # Beyond slope 1: T(h, a) + T(a h, 1/a) is known, by the tails of both, which may be small.
    u, v = (0.5 * lax.erfc(at * math.sqrt(0.5)) for at in (size, height))
    known = 0.5 * (u + v) - u * v
    value = jnp.where(steep, known - value, value)
    value = jnp.where(size == np.inf, number(0, h), value)
    value = jnp.where(a < 0, -value, value)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), number(np.nan, h), value)


@functools.cache
def _faddeeva_coefficients(n: int = 40) -> tuple[float, tuple[float, ...]]:
    """Weideman, "Computation of the complex error function" (1994): Fourier coefficients of a rational series."""
    m = 2 * n
    scale = math.sqrt(n / math.sqrt(2))
    t = scale * np.tan(np.arange(-m + 1, m) * np.pi / (2 * m))
    f = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    spectrum = np.real(np.fft.fft(np.fft.fftshift(f))) / (2 * m)
    return scale, tuple(float(c) for c in spectrum[1 : n + 1][::-1])


@special(complexes=True, weak=False)
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function, `exp(-z**2) erfc(-i z)`; always complex.

    Source:
        Weideman (1994), Computation of the complex error function.
    """
    if dtypes.issubdtype(z.dtype, np.complexfloating):
        return _faddeeva(z)
    # Complex numbers have no shorter parts.
    z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float32)
    return _faddeeva(lax.complex(z, jnp.zeros_like(z)))


@with_slopes(lambda ans, z: 2j / math.sqrt(math.pi) - 2 * z * ans)
def _faddeeva(z):
    scale, coefficients = _faddeeva_coefficients()
    upper = jnp.imag(z) >= 0
    at = jnp.where(upper, z, -z)
    below = scale - 1j * at
    value = 2 * polynomial((scale + 1j * at) / below, coefficients) / (below * below) + 1 / (
        math.sqrt(math.pi) * below
    )
    reflected = jnp.where(upper, jnp.zeros_like(z), z)
    return jnp.where(upper, value, 2 * jnp.exp(-reflected * reflected) - value)
