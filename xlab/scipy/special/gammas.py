"""The gamma function and its relatives."""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.trace import is_tracer
from xlab.core.typing import Array, ArrayLike
from xlab.errors import ConcretizationTypeError
from xlab.numpy.arithmetic import as_array
from xlab.numpy.operands import check, dtype_of, promoted_inexact, strip_weak_type
from xlab.scipy.special.complex_gamma import complex_loggamma, stirling_rest
from xlab.scipy.special.functions import number, special, with_slopes
from xlab.transforms.jvp import jvp

__all__ = ["bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
           "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta"]  # fmt: skip


@special
def gammaln(x: ArrayLike) -> Array:
    """Logarithm of the absolute value of the gamma function.

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.gammaln(5.0)), 4)
        3.1781
    """
    return lax.lgamma(x)


@special(weak=False)
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function; NaN at its poles below zero."""
    floor = jnp.floor(x)
    sign = jnp.where((x < 0) & (jnp.mod(floor, 2) != 0), number(-1, x), number(1, x))
    sign = jnp.where((x == 0) & jnp.signbit(x), number(-1, x), sign)
    return jnp.where(((x < 0) & (x == floor)) | jnp.isnan(x), number(np.nan, x), sign)


@special(complexes=True, weak=False)
def gamma(x: ArrayLike) -> Array:
    """The gamma function, of real or complex numbers.

    Example:
        >>> from xlab.scipy import special
        >>> round(float(special.gamma(5.0)), 3)
        24.0
    """
    if jnp.iscomplexobj(x):
        return jnp.exp(complex_loggamma(x))
    return gammasgn(x) * jnp.exp(lax.lgamma(x))


@special(complexes=True)
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of the gamma function; of a real number NaN where it is not real.

    Example:
        >>> from xlab.scipy import special
        >>> float(special.loggamma(-0.5)), f"{complex(special.loggamma(-0.5 + 0j)):.4f}"
        (nan, '1.2655-3.1416j')
    """
    if jnp.iscomplexobj(x):
        return strip_weak_type(complex_loggamma(x))
    return jnp.where(x > 0, lax.lgamma(x), number(np.nan, x))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Factorials as floating point numbers; 0 for negative `n`."""
    if exact:
        raise NotImplementedError(
            "factorial with exact=True needs integers without bound: use math.factorial on the host"
        )
    return _factorial(n)


@special
def _factorial(n):
    inside = jnp.where(n < 0, number(0, n), n)
    return jnp.where(n < 0, number(0, n), jnp.exp(lax.lgamma(inside + 1)))


@special
def digamma(x: ArrayLike) -> Array:
    """The logarithmic derivative of the gamma function."""
    return lax.digamma(x)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of order `n`, an integer, of `digamma`."""
    n, x = check("polygamma", n, x)
    if not dtypes.issubdtype(dtype_of(n), np.integer):
        raise ValueError(
            f"polygamma takes an order of integer type, got dtype {dtypes.name(dtype_of(n))}"
        )
    return _polygamma(n, x)


@special
def _polygamma(n, x):
    return lax.polygamma(*jnp.broadcast_arrays(n, x))


@special
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    Source:
        The power series below the mean, the continued fraction by Lentz's method above (DLMF
            8.11.4, 8.9.2).
    """
    return lax.igamma(a, x)


@special
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function.

    Source:
        The power series below the mean, the continued fraction by Lentz's method above (DLMF
            8.11.4, 8.9.2).
    """
    return lax.igammac(a, x)


@special
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function.

    Args:
        a, b: the two parameters, positive.
        x: the upper end of the integral, in [0, 1].

    Source:
        The continued fraction of DLMF 8.17.22, by the modified Lentz method.
    """
    return lax.betainc(*jnp.broadcast_arrays(a, b, x))


@special
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Logarithm of the absolute value of the beta function, also where its gamma functions nearly cancel.

    Source:
        Stirling's series (DLMF 5.11.1), its large parts cancelled by hand, where both arguments are
            large.
    """
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    plain = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    big = (b >= 8) & (a + b >= 8) & (b < np.inf) & (a > -np.inf)
    large = jnp.where(big, b, number(10, b))
    small = jnp.where(big, a, number(1, a))
    # Stirling's formula with its large parts cancelled by hand.
    ratio = lax.log1p(small / large)
    mixed = (
        lax.lgamma(small)
        + stirling_rest(large)
        - stirling_rest(large + small)
        + small
        - small * jnp.log(large)
        - (small + large - 0.5) * ratio
    )
    both = big & (a >= 8)
    s = jnp.where(both, a, number(8, a))
    two = (
        0.5 * (math.log(2 * math.pi) - jnp.log(large))
        - (s - 0.5) * lax.log1p(large / s)
        - large * lax.log1p(s / large)
        + stirling_rest(s)
        + stirling_rest(large)
        - stirling_rest(s + large)
    )
    return jnp.where(both, two, jnp.where(big, mixed, plain))


@special
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, `gamma(a) gamma(b) / gamma(a + b)`."""
    return _beta(*jnp.broadcast_arrays(a, b))


def is_pole(x):
    return (x <= 0) & (x == jnp.floor(x)) & (x > -np.inf)


def slope_at_pole(x):
    """The slope of 1 / gamma(x) at a pole -n, where that is 0: (-1)^n n!."""
    sign = jnp.where(jnp.mod(x, 2) == 0, number(1, x), number(-1, x))
    return sign * jnp.exp(lax.lgamma(1 - x))


def _psi(x):
    """`digamma`, at zero as the sign of zero says."""
    return jnp.where(x == 0, -1 / x, lax.digamma(x))


def _beta_slope(ans, a, b):
    """By `a`; where the gamma function of the sum has a pole alone, and beta is 0, by the slope of its reciprocal."""
    logs = jvp(lambda v: betaln(v, b), (a,), (lax.full_like(a, 1),))[1]
    zero = is_pole(a + b) & ~is_pole(a) & ~is_pole(b)
    crossing = gamma(a) * gamma(b) * slope_at_pole(jnp.where(zero, a + b, number(0, a)))
    return jnp.where(zero, crossing, ans * logs)


@with_slopes(_beta_slope, lambda ans, a, b: _beta_slope(ans, b, a))
def _beta(a, b):
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * jnp.exp(betaln(a, b))


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Logarithm of the multivariate gamma function of dimension `d`, a Python number.

    Raises:
        ValueError: a dimension that is no whole number.

    Source:
        A sum of logarithms of gamma functions (DLMF 35.3.4).
    """
    if is_tracer(d):
        raise ConcretizationTypeError(
            "multigammaln needs its dimension d as a Python number: the number of terms depends on it. "
            "Make the argument static."
        )
    d = float(np.asarray(d))
    if d != d // 1:
        raise ValueError(f"multigammaln takes a whole number as its dimension d, got {d:g}")
    if d > 2**16:
        raise OverflowError(
            f"multigammaln adds a term per dimension, which is too many for d={d:g}; it goes up to {2**16}"
        )
    (a,) = (as_array(v) for v in promoted_inexact("multigammaln", a))
    total = jnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi))
    for j in range(math.ceil(d)):
        total = total + lax.lgamma(a - number(j / 2, a))
    return strip_weak_type(total)


@special
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The Pochhammer symbol, `gamma(z + m) / gamma(z)`."""
    return _poch(*jnp.broadcast_arrays(z, m))


def _poch_slope(ans, z, m):
    """By `z`; where the gamma function below has a pole alone, and the symbol is 0, by the slope of its reciprocal."""
    zero = is_pole(z) & ~is_pole(z + m)
    crossing = gamma(z + m) * slope_at_pole(jnp.where(zero, z, number(0, z)))
    slope = jnp.where(zero, crossing, ans * (_psi(z + m) - _psi(z)))
    return jnp.where((m == 0) & ~jnp.isnan(z), number(0, z), slope)


@with_slopes(_poch_slope, lambda ans, z, m: ans * _psi(z + m))
def _poch(z, m):
    ratio = gammasgn(z + m) * gammasgn(z) * jnp.exp(lax.lgamma(z + m) - lax.lgamma(z))
    return jnp.where(m == 0, number(1, z), ratio)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose `k` of `N` things, as a floating point number.

    Args:
        N: how many there are.
        k: how many are chosen.
        repetition: whether one may be chosen again.
    """
    if repetition:
        return _comb_again(N, k)
    return _comb(N, k)


@special
def _comb(n, k):
    possible = (k <= n) & (n >= 0) & (k >= 0)
    n, k = jnp.where(possible, n, number(0, n)), jnp.where(possible, k, number(0, k))
    ways = jnp.exp(lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n + 1 - k))
    return jnp.where(possible, ways, number(0, ways))


@special
def _comb_again(n, k):
    none = (k == 0) & (n >= 0)
    ways = _comb(jnp.where(none, number(1, n), n) + k - 1, k)
    return jnp.where(none, number(1, n), ways)


MOST_BERNOULLI = 1_000  # exact fractions: minutes beyond


@functools.cache
def _bernoulli_numbers(n: int) -> tuple[float, ...]:
    known: list[Fraction] = []
    for m in range(n + 1):
        if m > 1 and m % 2:
            known.append(Fraction(0))
            continue
        rest = sum((math.comb(m + 1, j) * known[j] for j in range(m)), Fraction(0))
        known.append(Fraction(1) if m == 0 else -rest / (m + 1))
    return tuple(float(b) if abs(b) < 1e308 else math.inf if b > 0 else -math.inf for b in known)


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 to Bn, for a Python number n."""
    if is_tracer(n):
        raise ConcretizationTypeError(
            "bernoulli needs its n as a Python number: the length of the result depends on it. Make the argument "
            "static."
        )
    n = operator.index(n)
    if not 0 <= n <= MOST_BERNOULLI:
        raise ValueError(
            f"bernoulli takes an integer from 0 to {MOST_BERNOULLI}, got {n}; B(260) is more than a double holds"
        )
    with np.errstate(over="ignore"):
        return jnp.asarray(
            np.asarray(_bernoulli_numbers(n)).astype(dtypes.canonicalize_dtype(float))
        )


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function: the sum of `(q + k)^-x` over k = 0, 1, ...

    Source:
        Its derivative in `x`: the Euler-Maclaurin formula (DLMF 25.11.5). The value is the compiler's.
    """
    if q is None:
        raise NotImplementedError(
            "the Riemann zeta function as such is not there: zeta(x, 1) is its value for x > 1"
        )
    return _zeta(x, q)


@special
def _zeta(x, q):
    return _hurwitz(*jnp.broadcast_arrays(x, q))


def _slope_in_exponent(ans, x, q):
    return jvp(lambda s: _euler_maclaurin(s, q), (x,), (lax.full_like(x, 1),))[1]


def _slope_in_start(ans, x, q):
    pole = (ans == np.inf) & (q <= 0) & (q > -np.inf) & (x > 1)  # seen from its right side
    return jnp.where(pole, number(-np.inf, x), -x * _hurwitz(x + 1, q))


@with_slopes(_slope_in_exponent, _slope_in_start)
def _hurwitz(x, q):
    return lax.zeta(x, q)


def _euler_maclaurin(x, q, terms: int = 12, order: int = 8):
    """The zeta function by its first terms, and an asymptotic series for the rest."""
    total = sum(jnp.power(q + k, -x) for k in range(terms))
    at = q + terms
    total = total + jnp.power(at, 1 - x) / (x - 1) + jnp.power(at, -x) / 2
    part = x * jnp.power(at, -x - 1)
    for k, b in enumerate(_bernoulli_numbers(2 * order)[2::2], 1):
        total = total + number(b / math.factorial(2 * k), x) * part
        part = part * (x + (2 * k - 1)) * (x + 2 * k) / (at * at)
    return total
