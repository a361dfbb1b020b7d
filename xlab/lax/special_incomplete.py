"""The incomplete gamma and beta functions, by power series and continued fractions.

With P = x^a e^-x S / Gamma(a + 1) and 1 - P = x^a e^-x h / Gamma(a), the power series S converges fast below the mean `a`
and the continued fraction h above it; in each, terms have one sign, so nothing cancels. Derivatives in `a` are those of
the two recurrences, term by term; where only values are wanted they are left out, which compiles and runs in half the time.
"""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.interpreters import ad, costs, mlir
from xlab.lax import elementwise as _e
from xlab.lax.arithmetic import abs, add, div, mul, neg, sub
from xlab.lax.bits import bitwise_and, bitwise_not, bitwise_or
from xlab.lax.comparison import eq, ge, gt, le, lt, ne, select
from xlab.lax.convert import convert
from xlab.lax.creation import full_like
from xlab.lax.elementwise import check_dtypes, elementwise
from xlab.lax.special import digamma, lgamma
from xlab.lax.special_forms import brought, number, together, until_settled, widened
from xlab.lax.transcendental import exp, log, log1p

__all__ = ["betainc", "igamma", "igamma_grad_a", "igammac", "random_gamma_grad"]

_MOST_TERMS = 20000


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized lower incomplete gamma function P(a, x).

    Source:
        The power series below the mean, the continued fraction by Lentz's method above (DLMF
            8.11.4, 8.9.2).
    """
    return igamma_p.bind(a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small.

    Source:
        The power series below the mean, the continued fraction by Lentz's method above (DLMF
            8.11.4, 8.9.2).
    """
    return igammac_p.bind(a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of `igamma(a, x)` in `a`."""
    return igamma_grad_a_p.bind(a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularized incomplete beta function.

    Args:
        a, b: the two parameters, positive.
        x: the upper end of the integral, in [0, 1].

    Source:
        The continued fraction of DLMF 8.17.22, by the modified Lentz method.
    """
    return regularized_incomplete_beta_p.bind(a, b, x)


# -- the two recurrences of the gamma family ---------------------------------------------------------------------


def _eps(x):
    return number(dtypes.finfo(aval_of(x).dtype).eps, x)


def _tiny(x):
    return number(dtypes.finfo(aval_of(x).dtype).tiny * 1e5, x)


def _series(a, x):
    """S = 1 + x/(a+1) + x^2/((a+1)(a+2)) + ..."""
    small = mul(_eps(x), number(1e-2, x))

    def step(i, term, total):
        term = mul(term, div(x, add(a, i)))
        total = add(total, term)
        return gt(term, mul(total, small)), term, total

    ones = full_like(x, 1)
    return until_settled(step, (ones, ones), _MOST_TERMS)[1]


def _series_with_slope(a, x):
    """S and its derivative in `a`."""
    small = mul(_eps(x), number(1e-2, x))

    def step(i, term, total, slope, slopes):
        at = add(a, i)
        ratio = div(x, at)
        slope = mul(sub(slope, div(term, at)), ratio)
        term = mul(term, ratio)
        total, slopes = add(total, term), add(slopes, slope)
        going = bitwise_or(gt(term, mul(total, small)), gt(abs(slope), mul(abs(slopes), small)))
        return going, term, total, slope, slopes

    ones, zeros = full_like(x, 1), full_like(x, 0)
    _, total, _, slopes = until_settled(step, (ones, ones, zeros, zeros), _MOST_TERMS)
    return total, slopes


def _away_from_zero(v):
    tiny = _tiny(v)
    return select(lt(abs(v), tiny), full_like(v, tiny), v)


def _fraction(a, x):
    """h = 1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- ...))), by Lentz's method."""
    one, eps = number(1, x), _eps(x)

    def step(i, b, c, d, h):
        top = mul(i, sub(a, i))
        b = add(b, number(2, x))
        c = _away_from_zero(add(b, div(top, c)))
        d = div(one, _away_from_zero(add(mul(top, d), b)))
        ratio = mul(d, c)
        return gt(abs(sub(ratio, one)), eps), b, c, d, mul(h, ratio)

    b = sub(add(x, one), a)
    d = div(one, _away_from_zero(b))
    return until_settled(step, (b, full_like(x, div(one, _tiny(x))), d, d), _MOST_TERMS)[3]


def _fraction_with_slope(a, x):
    """h and its derivative in `a`."""
    one, eps = number(1, x), _eps(x)

    def step(i, b, c, dc, d, dd, h, dh):
        top = mul(i, sub(a, i))  # its derivative is i
        b = add(b, number(2, x))  # its derivative is -1
        below = _away_from_zero(add(mul(top, d), b))
        d_below = sub(add(mul(i, d), mul(top, dd)), one)
        dc = sub(div(sub(i, mul(div(top, c), dc)), c), one)
        c = _away_from_zero(add(b, div(top, c)))
        d = div(one, below)
        dd = neg(mul(mul(d, d), d_below))
        ratio, d_ratio = mul(d, c), add(mul(dd, c), mul(d, dc))
        new = add(mul(dh, ratio), mul(h, d_ratio))
        h = mul(h, ratio)
        going = bitwise_or(gt(abs(sub(ratio, one)), eps), gt(abs(sub(new, dh)), mul(eps, abs(new))))
        return going, b, c, dc, d, dd, h, new

    b = sub(add(x, one), a)
    d = div(one, _away_from_zero(b))
    dd = mul(d, d)
    start = (b, full_like(x, div(one, _tiny(x))), full_like(x, 0), d, dd, d, dd)
    *_, h, dh = until_settled(step, start, _MOST_TERMS)
    return h, dh


def _recurrences(a, x, above, series, fraction):
    """`(prefix, series, fraction)` where prefix is x^a e^-x / Gamma(a), and `above` says where the fraction applies, not the series."""
    logs = sub(sub(mul(a, log(x)), x), lgamma(a))
    lowest = number(-np.log(float(dtypes.finfo(aval_of(x).dtype).max)), x)
    prefix = select(lt(logs, lowest), full_like(x, 0), exp(logs))
    # Elements for which a form does not apply, or does not matter, take part with an argument that settles at once.
    matters = bitwise_and(gt(prefix, number(0, x)), lt(prefix, number(np.inf, x)))
    low, high = bitwise_and(matters, bitwise_not(above)), bitwise_and(matters, above)
    ones = full_like(x, 1)
    below = series(select(low, a, ones), select(low, x, full_like(x, 0)))
    return prefix, below, fraction(select(high, a, ones), select(high, x, full_like(x, 100)))


def _above(a, x):
    return bitwise_and(gt(x, number(1, x)), gt(x, a))


def _outside(a, x):
    return bitwise_or(
        bitwise_or(ne(a, a), ne(x, x)), bitwise_or(lt(x, number(0, x)), lt(a, number(0, a)))
    )


def _igamma(a, x):
    above = _above(a, x)
    prefix, s, h = _recurrences(a, x, above, _series, _fraction)
    zero, one = number(0, x), number(1, x)
    p = select(above, sub(one, mul(prefix, h)), div(mul(prefix, s), a))
    p = select(eq(x, zero), full_like(x, 0), p)
    # Where the prefix, near a, is no number any more.
    p = select(bitwise_and(le(a, _tiny(a)), gt(x, zero)), full_like(x, 1), p)
    p = select(eq(x, number(np.inf, x)), full_like(x, 1), p)
    undefined = bitwise_or(_outside(a, x), bitwise_and(eq(a, zero), lt(x, one)))
    return select(undefined, full_like(x, np.nan), p)


def _igammac(a, x):
    zero, one = number(0, x), number(1, x)
    above = bitwise_and(ge(x, one), ge(x, a))
    prefix, s, h = _recurrences(a, x, above, _series, _fraction)
    q = select(above, mul(prefix, h), sub(one, div(mul(prefix, s), a)))
    q = select(eq(x, zero), full_like(x, 1), q)
    q = select(
        bitwise_or(bitwise_and(le(a, _tiny(a)), gt(x, zero)), eq(x, number(np.inf, x))),
        full_like(x, 0),
        q,
    )
    undefined = bitwise_or(_outside(a, x), bitwise_and(eq(a, zero), eq(x, zero)))
    return select(undefined, full_like(x, np.nan), q)


def _igamma_grad_a(a, x):
    above = _above(a, x)
    both = _recurrences(a, x, above, _series_with_slope, _fraction_with_slope)
    prefix, (s, s_a), (h, h_a) = both
    zero = number(0, x)
    from_below = div(mul(prefix, add(mul(s, sub(log(x), digamma(add(a, number(1, a))))), s_a)), a)
    from_above = neg(mul(prefix, add(mul(h, sub(log(x), digamma(a))), h_a)))
    slope = select(eq(prefix, zero), full_like(x, -0.0), select(above, from_above, from_below))
    slope = select(eq(x, zero), full_like(x, 0), slope)
    return select(bitwise_or(_outside(a, x), eq(a, zero)), full_like(x, np.nan), slope)


def _slope_in_shape(a, x):
    """The derivative of `igamma(a, x)` in `a`, with its limits: -E1(x) at a = 0, and 0 at infinity, by either argument."""
    a, x = together(a, x)
    zero, inf = number(0, x), number(np.inf, x)
    first = bitwise_and(eq(a, zero), gt(x, zero))
    inner = igamma_grad_a(select(first, full_like(a, mul(_eps(a), _eps(a))), a), x)
    endless = bitwise_or(bitwise_and(eq(x, inf), ge(a, zero)), bitwise_and(eq(a, inf), ge(x, zero)))
    return select(endless, full_like(x, 0), inner)


def _log_power(exponent, log_base):
    """The logarithm of a power, which is 1 for an exponent of 0 also at 0 and infinity."""
    none = eq(exponent, number(0, exponent))
    return select(none, full_like(log_base, 0), mul(exponent, log_base))


def _density(a, x):
    """The derivative of `igamma(a, x)` in `x`, at an end its limit from inside."""
    a, x = together(a, x)
    power = _log_power(sub(a, number(1, a)), log(x))
    inner = exp(sub(add(neg(x), power), lgamma(a)))
    endless = bitwise_and(eq(x, number(np.inf, x)), ge(a, number(0, a)))
    return select(endless, full_like(x, 0), inner)


def _times(t, slope):
    """The tangent times a slope that is not weak; the conversion makes the gradient in a weak operand weak."""
    return mul(convert(t, aval_of(slope).dtype), slope)


igamma_p = elementwise("igamma", _e.floating, operands=2)
ad.defjvp(
    igamma_p,
    lambda t, a, x: _times(t, _slope_in_shape(a, x)),
    lambda t, a, x: _times(t, _density(a, x)),
)
mlir.register_text_lowering(igamma_p, widened(_igamma))

igammac_p = elementwise("igammac", _e.floating, operands=2)
ad.defjvp(
    igammac_p,
    lambda t, a, x: neg(_times(t, _slope_in_shape(a, x))),
    lambda t, a, x: neg(_times(t, _density(a, x))),
)
mlir.register_text_lowering(igammac_p, widened(_igammac))

igamma_grad_a_p = elementwise("igamma_grad_a", _e.floating, operands=2)
ad.primitive_jvps.excuse(
    igamma_grad_a_p, "JAX has no second derivative in the shape parameter either"
)
mlir.register_text_lowering(igamma_grad_a_p, widened(_igamma_grad_a))


def random_gamma_grad(a: ArrayLike, x: ArrayLike, *, dtype: DTypeLike | None = None) -> Array:
    """Derivative of the gamma numbers `x` in their shape parameter `a`, keeping the probability P(a, x).

    It is -P_a / P_x, which is -x/a (S (log x - psi(a + 1)) + S_a) below the mean and x (h (log x - psi(a)) + h_a) above it.

    Args:
        a: the shape parameter.
        x: the draws, as numbers or, with `dtype`, as logarithms.
        dtype: the dtype to compute in.
    """
    check_dtypes("random_gamma_grad", (aval_of(a), aval_of(x)), _e.floating)
    weak = dtype is None and aval_of(a).weak_type and aval_of(x).weak_type
    dtype = aval_of(x).dtype if dtype is None else dtypes.canonicalize_dtype(dtype)
    return convert(_random_gamma_grad(*brought([a, x])), dtype, weak)


def _random_gamma_grad(a, x):
    above = _above(a, x)
    zero, one = number(0, x), number(1, x)
    low = bitwise_and(gt(x, zero), bitwise_not(above))
    at_low = select(low, x, full_like(x, 1))
    at_high = select(above, x, full_like(x, 100))
    inside = bitwise_and(gt(a, zero), lt(a, number(np.inf, a)))
    shape = select(inside, a, full_like(a, 1))
    s, s_a = _series_with_slope(select(low, shape, full_like(a, 1)), at_low)
    h, h_a = _fraction_with_slope(select(above, shape, full_like(a, 1)), at_high)
    from_below = neg(
        mul(div(at_low, shape), add(mul(s, sub(log(at_low), digamma(add(shape, one)))), s_a))
    )
    from_above = mul(at_high, add(mul(h, sub(log(at_high), digamma(shape))), h_a))
    slope = select(eq(x, zero), full_like(x, 0), select(above, from_above, from_below))
    defined = bitwise_and(inside, bitwise_and(ge(x, zero), lt(x, number(np.inf, x))))
    return select(defined, slope, full_like(x, np.nan))


# -- the incomplete beta function --------------------------------------------------------------------------------


def _beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function, two terms a step, by Lentz's method."""
    one, two, eps = number(1, x), number(2, x), _eps(x)

    def advance(top, c, d, h):
        d = div(one, _away_from_zero(add(mul(top, d), one)))
        c = _away_from_zero(add(div(top, c), one))
        return c, d, mul(h, mul(c, d))

    def step(m, c, d, h):
        at = add(a, mul(two, m))
        even = div(mul(mul(m, sub(b, m)), x), mul(sub(at, one), at))
        c, d, h = advance(even, c, d, h)
        odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), mul(at, add(at, one))))
        c, d, new = advance(odd, c, d, h)
        return gt(abs(sub(mul(c, d), one)), eps), c, d, new

    d = div(one, _away_from_zero(sub(one, div(mul(add(a, b), x), add(a, one)))))
    return until_settled(step, (full_like(x, 1), d, d), _MOST_TERMS)[2]


def _betainc(a, b, x):
    zero, one, inf = (number(v, x) for v in (0, 1, np.inf))
    # The fraction converges fast below the mean; above it the complement is below the mean of its own.
    flip = gt(x, div(add(a, one), add(add(a, b), number(2, x))))
    p, q = select(flip, b, a), select(flip, a, b)
    y = select(flip, sub(one, x), x)
    log_rest = select(flip, log(x), log1p(neg(x)))
    logs = sub(add(mul(p, log(y)), mul(q, log_rest)), _log_beta(p, q))
    prefix = exp(logs)
    matters = bitwise_and(gt(prefix, zero), lt(prefix, inf))
    p_safe, q_safe = (select(matters, v, full_like(v, 1)) for v in (p, q))
    value = div(
        mul(prefix, _beta_fraction(p_safe, q_safe, select(matters, y, full_like(y, 0)))), p_safe
    )
    value = select(flip, sub(one, value), value)
    # A parameter at an end of its range puts all probability at one end.
    at_zero = bitwise_or(eq(a, zero), eq(b, inf))
    at_one = bitwise_or(eq(b, zero), eq(a, inf))
    value = select(bitwise_or(at_zero, eq(x, one)), full_like(x, 1), value)
    value = select(bitwise_or(bitwise_and(at_one, lt(x, one)), eq(x, zero)), full_like(x, 0), value)
    outside = bitwise_or(
        bitwise_not(bitwise_and(ge(x, zero), le(x, one))),
        bitwise_not(bitwise_and(ge(a, zero), ge(b, zero))),
    )
    return select(bitwise_or(outside, bitwise_and(at_zero, at_one)), full_like(x, np.nan), value)


def _log_beta(a, b):
    return sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))


def _betainc_slope(t, a, b, x):
    a, b, x = together(a, b, x)
    zero, one, inf = (number(v, x) for v in (0, 1, np.inf))
    powers = add(_log_power(sub(b, one), log1p(neg(x))), _log_power(sub(a, one), log(x)))
    slope = exp(sub(powers, _log_beta(a, b)))
    # A parameter at an end of its range puts all probability at one end, and none between.
    one_end = ne(bitwise_or(eq(a, zero), eq(b, inf)), bitwise_or(eq(b, zero), eq(a, inf)))
    between = bitwise_and(ge(x, zero), le(x, one))
    defined = bitwise_and(between, bitwise_and(ge(a, zero), ge(b, zero)))
    slope = select(bitwise_and(defined, one_end), full_like(x, 0), slope)
    return _times(t, slope)


def _no_slope(t, *_):
    raise ValueError(
        "betainc has a derivative in x only: gradients with respect to a and b are not supported. Use "
        "stop_gradient on them, or differentiate in x alone."
    )


regularized_incomplete_beta_p = elementwise("regularized_incomplete_beta", _e.floating, operands=3)
ad.defjvp(regularized_incomplete_beta_p, _no_slope, _no_slope, _betainc_slope)
mlir.register_text_lowering(regularized_incomplete_beta_p, widened(_betainc))

costs.register(
    costs.each(0, 1), igamma_p, igammac_p, igamma_grad_a_p, regularized_incomplete_beta_p
)
