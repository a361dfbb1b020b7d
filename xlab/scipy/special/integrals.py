"""Exponential, trigonometric and Fresnel integrals, and the dilogarithm."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.special_forms import number as scalar
from xlab.lax.special_forms import until_settled
from xlab.scipy.special.functions import (
    at_least_single,
    chebyshev,
    float_only,
    number,
    polynomial,
    special,
    with_slopes,
)
from xlab.scipy.special.normal import _faddeeva

__all__ = ["exp1", "expi", "expn", "fresnel", "sici", "spence"]

_MOST_TERMS = 2000
_EULER = 0.57721566490153286061


def _eps(x):
    return float(dtypes.finfo(x.dtype).eps)


def _power_sum(x, ratio, first, weight):
    """The sum of weight(k) times terms that grow by ratio(k) each, from k = 1."""

    def step(k, term, total):
        term = term * ratio(k)
        part = term * weight(k)
        return jnp.abs(part) > _eps(x) * 0.1 * jnp.abs(total), term, total + part

    return until_settled(step, first, _MOST_TERMS)[1]


def _tail_fraction(n, x):
    """`exp(x) E_n(x)` for x > 1, by the continued fraction 1/(x+n- 1n/(x+n+2- 2(n+1)/(x+n+4- ...)))."""

    def step(i, b, c, d, h):
        top = -i * (n - 1 + i)
        b = b + 2
        d = 1 / (top * d + b)
        c = b + top / c
        return jnp.abs(c * d - 1) > _eps(x), b, c, d, h * c * d

    b = x + n
    huge = jnp.full_like(
        x,
        1
        / float(dtypes.finfo(aval_of(x).dtype if x.dtype.kind != "c" else x.real.dtype).tiny)
        ** 0.5,
    )
    return until_settled(step, (b, huge, 1 / b, 1 / b), _MOST_TERMS)[3]


def _small_exp1(x):
    """E_1 for 0 < x <= 1."""
    start = (jnp.full_like(x, -1.0), jnp.zeros_like(x))
    total = _power_sum(x, lambda k: -x / k, start, lambda k: 1 / k)
    return total - jnp.log(x) - _EULER


@special
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1, of `exp(-t) / t` from `x` to infinity.

    Source:
        A power series up to 1 (DLMF 6.6.2), the continued fraction above (DLMF 6.9.1).
    """
    return _exp1(x)


@with_slopes(lambda ans, x: -jnp.exp(-x) / x)
def _exp1(x):
    small, large = (x > 0) & (x <= 1), (x > 1) & (x < np.inf)
    near = _small_exp1(jnp.where(small, x, number(1, x)))
    at = jnp.where(large, x, number(100, x))
    far = jnp.exp(-at) * _tail_fraction(jnp.ones_like(x), at)
    value = jnp.where(large, far, near)
    value = jnp.where(x == 0, number(np.inf, x), jnp.where(x == np.inf, number(0, x), value))
    return jnp.where((x < 0) | jnp.isnan(x), number(np.nan, x), value)


@special
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, of `exp(t) / t` up to `x`, as a principal value.

    Source:
        A power series (DLMF 6.6.1) and the asymptotic series (DLMF 6.12.2).
    """
    return _expi(x)


@with_slopes(lambda ans, x: jnp.where(x == np.inf, x, jnp.exp(x) / x))
def _expi(x):
    below = -_exp1(jnp.where(x < 0, -x, number(1, x)))
    turn = 25 if x.dtype == np.float32 else 45
    small, large = (x > 0) & (x <= turn), x > turn
    at = jnp.where(small, x, number(1, x))
    near = (
        _power_sum(x, lambda k: at / k, (jnp.ones_like(x), jnp.zeros_like(x)), lambda k: 1 / k)
        + jnp.log(at)
        + _EULER
    )
    # Beyond, the asymptotic series: its terms shrink until k = x.
    far = jnp.where(large, x, number(100, x))
    total, term = jnp.ones_like(x), jnp.ones_like(x)
    for k in range(1, turn):
        term = term * (k / far)
        total = total + jnp.where(k < far, term, number(0, x))
    value = jnp.where(large, jnp.exp(far) / far * total, jnp.where(x < 0, below, near))
    value = jnp.where(x == 0, number(-np.inf, x), jnp.where(x == np.inf, x, value))
    return jnp.where(jnp.isnan(x), x, value)


@special(mismatch=ValueError, lists=True)
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The generalized exponential integral, of `exp(-x t) / t**n` from 1 to infinity, for integers `n`.

    Source:
        The continued fraction (DLMF 8.19.17) above 1, the power series (DLMF 8.19.8) below.
    """
    return _expn(*jnp.broadcast_arrays(n, x))


def _expn_slope(ans, n, x):
    first = jnp.exp(-x) * (1 + x) / (x * x)
    slope = jnp.where(n == 0, first, _expn(n - 1, x))
    return -jnp.where(x == np.inf, number(0, x), slope)


@with_slopes(None, _expn_slope)
def _expn(n, x):
    """By the continued fraction for x > 1, and a power series, whose term number n - 1 is a logarithm, below."""
    small, large = (x > 0) & (x <= 1) & (n >= 1), (x > 1) & (x < np.inf) & (n >= 1)
    order = jnp.where(n >= 1, n, number(1, n))
    at = jnp.where(small, x, number(1, x))

    def step(k, power, harmonic, total):
        # power is (-x)^k / k!, harmonic the sum of 1/j for j < k
        kth = k - 1
        special_term = kth == order - 1
        gap = jnp.where(special_term, number(1, x), kth - order + 1)
        part = jnp.where(special_term, power * (harmonic - _EULER - jnp.log(at)), -power / gap)
        going = (jnp.abs(part) > _eps(x) * 0.1 * jnp.abs(total)) | (kth < order)
        grown = jnp.where(kth < order - 1, harmonic + 1 / k, harmonic)
        return going, power * -at / k, grown, total + part

    zeros = jnp.zeros_like(x)
    near = until_settled(step, (jnp.ones_like(x), zeros, zeros), _MOST_TERMS)[2]
    far_at = jnp.where(large, x, number(100, x))
    far = jnp.exp(-far_at) * _tail_fraction(order, far_at)
    value = jnp.where(large, far, near)
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    at_zero = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, number(1, n)), number(np.inf, x))
    value = jnp.where(x == 0, at_zero, jnp.where(x == np.inf, number(0, x), value))
    return jnp.where((x < 0) | (n < 0) | jnp.isnan(x) | jnp.isnan(n), number(np.nan, x), value)


@special
def _sine_integral(x):
    return at_least_single(_si, x)


@special
def _cosine_integral(x):
    return at_least_single(_ci, x)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine and cosine integrals, as a pair.

    Source:
        Power series (DLMF 6.6.5, 6.6.6) up to 2, the continued fraction of E1 at imaginary
            arguments above.

    Example:
        >>> from xlab.scipy import special
        >>> [round(float(v), 4) for v in special.sici(1.0)]
        [0.9461, 0.3374]
    """
    return _sine_integral(x), _cosine_integral(x)


def _far_exp1(size):
    """E_1(i x) for x > 2, whose parts are the two integrals."""
    at = lax.complex(jnp.zeros_like(size), size)
    fraction = _tail_fraction(jnp.ones_like(at), at)
    return fraction * lax.complex(jnp.cos(size), -jnp.sin(size))


def _turn(x):
    size = jnp.abs(x)
    far = (size > 4) & (size < np.inf)
    return size, far, jnp.where(far, size, number(10, x)), jnp.where(size <= 4, size, number(1, x))


def _over(wave, x):
    """A wave of `x` divided by it, which vanishes at infinity."""
    return jnp.where(jnp.isinf(x), number(0, x), wave(x) / x)


def _si_slope(ans, x):
    return jnp.where(x == 0, number(1, x), _over(jnp.sin, jnp.where(x == 0, number(1, x), x)))


@with_slopes(_si_slope)
def _si(x):
    size, far, large, small = _turn(x)
    terms = [(-1) ** k / (math.factorial(2 * k + 1) * (2 * k + 1)) for k in range(18)]
    near = small * polynomial(small * small, terms[::-1])
    value = jnp.where(far, jnp.imag(_far_exp1(large)) + math.pi / 2, near)
    value = jnp.where(size == np.inf, number(math.pi / 2, x), value)
    return jnp.where(jnp.isnan(x), x, jnp.sign(x) * value)


@with_slopes(lambda ans, x: jnp.where(x == -np.inf, number(np.nan, x), _over(jnp.cos, x)))
def _ci(x):
    _size, far, large, small = _turn(x)
    terms = [(-1) ** k / (math.factorial(2 * k) * 2 * k) for k in range(1, 18)]
    square = small * small
    tiny = jnp.where(small == 0, number(1, x), small)
    near = _EULER + jnp.log(tiny) + square * polynomial(square, terms[::-1])
    value = jnp.where(far, -jnp.real(_far_exp1(large)), near)
    value = jnp.where(x == 0, number(-np.inf, x), jnp.where(x == np.inf, number(0, x), value))
    return jnp.where(jnp.isnan(x) | (x == -np.inf), number(np.nan, x), value)


@special(weak=False)
def _fresnel_s(x):
    return at_least_single(_fresnel_sine, x)


@special(weak=False)
def _fresnel_c(x):
    return at_least_single(_fresnel_cosine, x)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals S and C, of sine and cosine of `pi t**2 / 2` from 0 to `x`, as a pair.

    Raises:
        NotImplementedError: for complex arguments.

    Source:
        Power series (DLMF 7.6) near zero, the Faddeeva function (DLMF 7.5.8) above.
    """
    if jnp.iscomplexobj(x):
        raise NotImplementedError(
            f"fresnel is there for real numbers, got dtype {dtypes.name(aval_of(x).dtype)}; take the real part, or use wofz (DLMF 7.5.8)"
        )
    return _fresnel_s(x), _fresnel_c(x)


def _square_in_turns(x):
    """`x**2` modulo 4. From 2 / eps on every floating point number is even, and the square of a few numbers more has overflowed."""
    even = (jnp.abs(x) >= 2 / _eps(x)) & (jnp.abs(x) < np.inf)
    return jnp.mod(jnp.square(jnp.where(even, number(0, x), x)), 4)


def _fresnel_pair(x):
    size = jnp.abs(x)
    small = jnp.where(size <= 1.6, size, number(1, x))
    fourth = small**4
    half = math.pi / 2
    sines = [
        (-1) ** n * half ** (2 * n + 1) / (math.factorial(2 * n + 1) * (4 * n + 3))
        for n in range(16)
    ]
    cosines = [
        (-1) ** n * half ** (2 * n) / (math.factorial(2 * n) * (4 * n + 1)) for n in range(16)
    ]
    beyond = size >= 1 / _eps(x)
    # Above, through the Faddeeva function; the angle in half turns, so that large arguments keep their phase.
    large = jnp.where((size > 1.6) & ~beyond, size, number(2, x))
    turns = _square_in_turns(large)
    phase = lax.complex(jnp.cos(half * turns), jnp.sin(half * turns))
    argument = lax.complex(large, large) * (math.sqrt(math.pi) / 2)
    pair = (1 + 1j) / 2 * (1 - phase * _faddeeva(argument))
    near = size <= 1.6
    s = jnp.where(near, small**3 * polynomial(fourth, sines[::-1]), jnp.imag(pair))
    c = jnp.where(near, small * polynomial(fourth, cosines[::-1]), jnp.real(pair))
    return [
        jnp.where(jnp.isnan(x), x, jnp.sign(x) * jnp.where(beyond, number(0.5, x), v))
        for v in (s, c)
    ]


@with_slopes(lambda ans, x: jnp.sin(_square_in_turns(x) * (math.pi / 2)))
def _fresnel_sine(x):
    return _fresnel_pair(x)[0]


@with_slopes(lambda ans, x: jnp.cos(_square_in_turns(x) * (math.pi / 2)))
def _fresnel_cosine(x):
    return _fresnel_pair(x)[1]


# Li2(y) / y, as Chebyshev polynomials in 2y.
_SPENCE = (
    1.0149416064096537, 0.13148012838765802, 0.015313452518102082, 0.002272188943655959, 0.00038516199300815945,
    7.103404374209115e-05, 1.3885622487404779e-05, 2.8323954583854513e-06, 5.968314737835964e-07,
    1.2902312437546724e-07, 2.8475309127972237e-08, 6.392641519505728e-09, 1.4558235675968631e-09,
    3.356030027905024e-10, 7.818019409066589e-11, 1.8379324194103908e-11, 4.355524622917214e-12,
    1.0395111785603755e-12, 2.496666278162975e-13, 6.030470288343577e-14, 1.4640624936086265e-14,
    3.570903196070032e-15, 8.746346791364233e-16, 2.1505456792131715e-16, 5.3064798693556575e-17,
    1.3136479985932125e-17, 3.2618102770187097e-18,
)  # fmt: skip


def spence(x: ArrayLike) -> Array:
    """Spence's function: the integral of `log(t) / (1 - t)` from 1 to `x`; the dilogarithm of `1 - x`.

    Source:
        Chebyshev polynomials of the dilogarithm, with its reflection formulas (DLMF 25.12).
    """
    return _dilogarithm(float_only("spence", jnp.asarray(x)))


@special(weak=False)
def _dilogarithm(x):
    return _spence(x)


def _spence_slope(ans, x):
    near = jnp.abs(x - 1) < scalar(1e-6, x)
    return jnp.where(near, number(-1, x), jnp.log(x) / (1 - jnp.where(near, number(2, x), x)))


@with_slopes(_spence_slope)
def _spence(x):
    """Above 3/2 by the value at 1/x, below 1/2 by the value at 1 - x."""
    positive = (x > 0) & (x < np.inf)
    inverted = x > 1.5
    y = jnp.where(positive, x, number(1, x))
    z = jnp.where(inverted, 1 / y, y)
    reflected = z < 0.5
    gap = jnp.where(reflected, z, 1 - z)  # 1 minus the point of evaluation
    value = gap * chebyshev(2 * gap, _SPENCE)
    value = jnp.where(
        reflected,
        math.pi**2 / 6 - jnp.log(z) * lax.log1p(-jnp.where(reflected, z, number(0.5, x))) - value,
        value,
    )
    logs = jnp.log(y)
    value = jnp.where(inverted, -0.5 * logs * logs - value, value)
    value = jnp.where(x == 0, number(math.pi**2 / 6, x), value)
    return jnp.where(positive | (x == 0), value, number(np.nan, x))
