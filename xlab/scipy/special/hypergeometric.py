"""Confluent and Gauss hypergeometric functions of real arguments."""

from __future__ import annotations

import functools
import math

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike
from xlab.lax.special_forms import until_settled
from xlab.scipy.special.functions import number, special, with_slopes
from xlab.scipy.special.gammas import gammasgn, is_pole, slope_at_pole
from xlab.transforms.custom_jvp import custom_jvp
from xlab.transforms.jvp import jvp

__all__ = ["hyp1f1", "hyp2f1"]

_MOST_TERMS = 5000


def _ratio(above, k, x, *parameters):
    """A term over the one before: x (a + k) ... / ((b + k) ... (k + 1)). The polynomial ends where a + k is 0, before b + k may be."""
    top, bottom = x, k + 1
    for v in parameters[:above]:
        top = top * (v + k)
    for v in parameters[above:]:
        bottom = bottom * (v + k)
    over = (top == 0) & (bottom == 0)
    return jnp.where(over, number(0, x), top / jnp.where(over, number(1, x), bottom))


def _matters(x, term, total):
    small = float(dtypes.finfo(x.dtype).eps) * 0.1
    return (jnp.abs(term) > small * jnp.abs(total)) | (term * 0 != 0)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _sum(above, x, *parameters):
    """The hypergeometric series in `x` with the first `above` parameters above the line, until terms no longer matter."""

    def step(k, term, total):
        term = term * _ratio(above, k - 1, x, *parameters)
        return _matters(x, term, total), term, total + term

    return until_settled(step, (jnp.ones_like(x), jnp.ones_like(x)), _MOST_TERMS)[1]


@_sum.defjvp
def _sum_jvp(above, primals, tangents):
    """Term by term, until neither terms nor slopes matter: those of a polynomial, which ends, go on."""
    x = primals[0]

    def step(k, term, total, slope, slopes):
        ratio, bent = jvp(lambda *args: _ratio(above, k - 1, *args), primals, tangents)
        term, slope = term * ratio, slope * ratio + term * bent
        total, slopes = total + term, slopes + slope
        going = _matters(x, term, total) | _matters(x, slope, slopes)
        return going, term, total, slope, slopes

    ones, zeros = jnp.ones_like(x), jnp.zeros_like(x)
    _, total, _, slopes = until_settled(step, (ones, ones, zeros, zeros), _MOST_TERMS)
    return total, slopes


def _slope_in(fun, i):
    """The derivative of `fun` in its argument number `i`, forwards through its series."""

    def slope(ans, *args):
        return jvp(
            lambda v: fun(*args[:i], v, *args[i + 1 :]), (args[i],), (lax.full_like(args[i], 1),)
        )[1]

    return slope


@with_slopes(lambda ans, x: slope_at_pole(x))
def _at_pole(x):
    """1 / gamma(x) at a pole."""
    return jnp.zeros_like(x)


def _gamma_ratio(above, below):
    """The product of gamma functions over that of others; 0 where one of the others has a pole."""
    poles = [is_pole(v) for v in below]
    others = [jnp.where(pole, number(1, v), v) for pole, v in zip(poles, below)]
    logs = sum(lax.lgamma(v) for v in above) - sum(lax.lgamma(v) for v in others)
    value = jnp.exp(logs)
    for v in (*above, *others):
        value = value * jnp.where(is_pole(v), number(1, v), gammasgn(v))
    for pole, v in zip(poles, below):
        value = value * jnp.where(pole, _at_pole(jnp.where(pole, v, number(0, v))), number(1, v))
    return value


@special(mismatch=ValueError, lists=True)
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The confluent hypergeometric function M(a, b, x).

    Args:
        a, b: the parameters.
        x: where to evaluate, real.

    Source:
        The power series (DLMF 13.2.2) and the asymptotic expansion (DLMF 13.7), after Pearson,
            Olver and Porter (2017).

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.hyp1f1(1.0, 1.0, 1.0)), 4)
        2.7183
    """
    return _kummer(*jnp.broadcast_arrays(a, b, x))


def _kummer_value(a, b, x, smooth=False):
    """For x < 0 through exp(x) M(b - a, b, -x), and where |x| is large through the asymptotic series.

    Polynomials, for negative integers `a`, are added up as they are, but where a `smooth` function of `a` is wanted and the sum
    would cancel.
    """
    ends = is_pole(a)
    if smooth:
        ends = ends & ((x >= 0) | is_pole(b))
    turned = (x < 0) & ~ends
    first, size = jnp.where(turned, b - a, a), jnp.where(turned, -x, x)
    # Its terms have to fall from the first on, but where the power series would overflow.
    falls = jnp.abs((b - first) * (1 - first)) < size
    far = (size > 80) & ~ends & (falls | (size > 0.95 * math.log(dtypes.finfo(x.dtype).max)))
    near_x = jnp.where(far, number(1, x), size)
    near = _sum(1, near_x, first, b)
    near = jnp.where(turned, jnp.exp(jnp.minimum(x, 0)) * near, near)
    at = jnp.where(far, size, number(100, x))
    total, term = jnp.ones_like(x), jnp.ones_like(x)
    for k in range(24):
        new = term * (b - first + k) * (1 - first + k) / ((k + 1) * at)
        term = jnp.where(jnp.abs(new) <= jnp.abs(term), new, number(0, x))
        total = total + term
    growth = jnp.where(turned, jnp.zeros_like(at), at) + (first - b) * jnp.log(at)
    beyond = jnp.exp(growth) * _gamma_ratio([b], [first]) * total
    return jnp.where(far, beyond, near)


def _kummer_slope(ans, a, b, x):
    return jnp.where(a == 0, number(0, x), a / b * _kummer(a + 1, b + 1, x))


_smooth_in_first = functools.partial(_kummer_value, smooth=True)


@with_slopes(_slope_in(_smooth_in_first, 0), _slope_in(_kummer_value, 1), _kummer_slope)
def _kummer(a, b, x):
    value = _kummer_value(a, b, x)
    return jnp.where(is_pole(b) & ~(is_pole(a) & (a >= b)), number(np.inf, x), value)


@special(mismatch=ValueError, lists=True)
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function F(a, b; c; x), for x up to 1.

    Args:
        a, b, c: the parameters.
        x: where to evaluate, real.

    Source:
        The power series (DLMF 15.2.1) and its linear transformations (DLMF 15.8), after Pearson,
            Olver and Porter (2017).

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
        1.3863
    """
    return _gauss(*jnp.broadcast_arrays(a, b, c, x))


def _gauss_series(a, b, c, x):
    return _sum(2, x, a, b, c)


def _gauss_value(a, b, c, x, ends=None):
    """For x < 0 through x / (x - 1), and near 1 through 1 - x, unless c - a - b is an integer; `ends` where it is a polynomial."""
    ends = is_pole(a) | is_pole(b) if ends is None else ends
    turned = (x < 0) & ~ends
    at = jnp.where(turned, x, number(0, x))
    other = jnp.where(turned, c - b, b)
    z = jnp.where(turned, at / (at - 1), x)
    z = jnp.where((jnp.abs(z) < 1) | ends, z, number(0, x))
    excess = c - a - other
    near_one = (z > 0.9) & ~ends & (jnp.abs(excess - jnp.round(excess)) > 1e-3)
    plain = _gauss_series(a, other, c, jnp.where(near_one, number(0, x), z))
    gap = jnp.where(near_one, 1 - z, number(0.05, x))
    e = jnp.where(near_one, excess, number(0.5, x))
    first = _gamma_ratio([c, e], [c - a, c - other]) * _gauss_series(a, other, 1 - e, gap)
    second = (
        _gamma_ratio([c, -e], [a, other])
        * jnp.exp(e * jnp.log(gap))
        * _gauss_series(c - a, c - other, 1 + e, gap)
    )
    value = jnp.where(near_one, first + second, plain)
    value = jnp.where(turned, jnp.exp(-a * lax.log1p(-at)) * value, value)
    converges = c - a - b > 0
    at_one = jnp.where(converges, _gamma_ratio([c, c - a - b], [c - a, c - b]), number(np.inf, x))
    return jnp.where((x == 1) & ~ends, at_one, value)


def _gauss_slope(ans, a, b, c, x):
    return jnp.where(a * b == 0, number(0, x), a * b / c * _gauss(a + 1, b + 1, c + 1, x))


def _slope_in_first(ans, a, b, c, x):
    """By `a`: of a polynomial where `b` ends the sum, of (1 - x)^-a where `b` is `c`."""
    value = lambda v: _gauss_value(v, b, c, x, ends=is_pole(b))
    slope = jvp(value, (a,), (lax.full_like(a, 1),))[1]
    power = is_pole(c) & (b == c) & (x < 1)
    return jnp.where(power, -ans * lax.log1p(-jnp.where(power, x, number(0, x))), slope)


@with_slopes(
    _slope_in_first,
    lambda ans, a, b, c, x: _slope_in_first(ans, b, a, c, x),
    _slope_in(_gauss_value, 2),
    _gauss_slope,
)
def _gauss(a, b, c, x):
    ends = is_pole(a) | is_pole(b)
    value = _gauss_value(a, b, c, x)
    value = jnp.where((x > 1) & ~ends, number(np.inf, x), value)
    pole = is_pole(c) & ~((is_pole(a) & (a > c)) | (is_pole(b) & (b > c)))
    value = jnp.where(pole, number(np.inf, x), value)
    # F(a, b; a; x) = (1 - x)^-b (DLMF 15.4.6), poles of a and c against each other; at 0 it is 1 whatever c is.
    left = jnp.where(a == c, b, a)
    same = ((a == c) | (b == c)) & ((x < 1) | (left == jnp.floor(left)))
    value = jnp.where(same, jnp.power(1 - jnp.where(same, x, number(0, x)), -left), value)
    return jnp.where((x == 0) & ~jnp.isnan(a + b + c), number(1, x), value)
