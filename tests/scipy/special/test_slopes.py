"""Every special function by every argument at a table of places: inside of its domain, at edges, zeros of both signs, poles, far out, NaN.

A finite value has a slope that is no NaN, unless its sides disagree, and inside and from inner sides slopes are those of quotients of
differences. Every run takes a few functions; XLAB_EVERY_SLOPE=1 takes all, in both types, and asks the reference for values and slopes
where it is installed.
"""

import functools
import os
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import xlab
from xlab.scipy import special

EVERY = bool(os.environ.get("XLAB_EVERY_SLOPE"))
TINY = float(np.finfo(np.float32).tiny)
LINE = (-np.inf, -1e30, -200, -30.5, -30, -3, -2.5, -2, -1, -0.75, -0.5, -1e-3, -TINY, -0.0, 0.0,
        TINY, 1e-3, 0.3, 0.5, 1, 1.46, 2, 3, 7.5, 30, 200, 1e30, np.inf, np.nan)  # fmt: skip
PLANE = ((-np.inf, -3, -2.5, -1, -0.5, -0.0, 0.0, 1e-3, 0.5, 1, 2, 3.5, 30, np.inf, np.nan),) * 2
SHAPES = (-2.5, -2, -1, 0, 0.5, 1, 2, 20)
UNARY = ["gammaln", "gamma", "loggamma", "gammasgn", "factorial", "digamma", "entr", "expit", "logit", "erf", "erfc", "erfinv", "erfcx",
         "dawsn", "ndtr", "ndtri", "log_ndtr", "exp1", "expi", "spence", "i0", "i0e", "i1", "i1e"]  # fmt: skip
BINARY = ["beta", "betaln", "gammainc", "gammaincc", "poch", "zeta", "xlogy", "xlog1py", "kl_div", "rel_entr", "boxcox", "boxcox1p",
          "comb", "owens_t"]  # fmt: skip


def named(name, *args, of=None, places=(LINE,), **options):
    """A function of a side's module, and the places of its arguments: `args` come before those that are numbers."""

    def call(module, *xs):
        out = getattr(module, name)(*args, *xs, **options)
        return out if of is None else out[of]

    return call, places


# Name: a function of a module and of numbers, and the places of each.
FUNCTIONS = {
    **{name: named(name) for name in UNARY},
    **{name: named(name, places=PLANE) for name in BINARY},
    "comb_again": named("comb", places=PLANE, repetition=True),
    **{f"sici_{i}": named("sici", of=i) for i in (0, 1)},
    **{f"fresnel_{i}": named("fresnel", of=i) for i in (0, 1)},
    **{f"polygamma_{n}": named("polygamma", n) for n in (0, 1, 2)},
    **{f"expn_{n}": named("expn", n) for n in (0, 1, 2, 5)},
    "multigammaln": (lambda module, x: module.multigammaln(x, 3), (LINE,)),
    "bessel_jn": (lambda module, x: module.bessel_jn(x, v=2)[2], (LINE[2:-3],)),
    "betainc": named("betainc", places=((0, 0.5, 1, 2, 20, np.inf), (0, 0.5, 1, 2, 20, np.inf), (-0.5, -0.0, 0, 1e-3, 0.3, 0.95, 1, 2, np.nan))),
    "hyp1f1": named("hyp1f1", places=(SHAPES, (-2.5, -2, 0.5, 1, 2, 20), (-200, -20, -2, 0, 0.3, 1, 2, 100))),
    "hyp2f1": named("hyp2f1", places=(SHAPES[:-1], SHAPES[:-1], (-2.5, -2, 0.5, 1, 2, 6.5), (-2, -1, -0.5, 0, 0.3, 0.5, 0.95, 1))),
}  # fmt: skip
QUICK = ("gammaln", "digamma", "dawsn", "log_ndtr", "sici_0", "i1", "gammainc", "betainc", "poch")


def poles(x):
    return (x <= 0) & (x == np.floor(x))


# Where a finite value has no slope: which argument, which of the places, why.
WITHOUT = {
    **{f"fresnel_{i}": [(0, np.isinf, "it swings without end")] for i in (0, 1)},
    "xlogy": [(0, lambda x, y: (x == 0) & (y < 0), "for all other x it is NaN")],
    "xlog1py": [(0, lambda x, y: (x == 0) & (y < -1), "for all other x it is NaN")],
    "poch": [(1, lambda z, m: (m == 0) & (poles(z) | np.isinf(z)), "for all other m it is 0")],
    "comb_again": [(None, lambda n, k: np.isinf(n), "for all other k it is infinite")],
    "hyp1f1": [(0, lambda a, b, x: poles(b), "for all other a it is infinite")],
    "hyp2f1": [(i, lambda a, b, c, x: poles(c), "beside it is infinite") for i in (0, 1, 2)],
    "zeta": [(0, lambda x, q: x >= 0, "x = 1 is a pole, q = 0 is one for every x")],
}

# The compiler's zeta function adds up too few terms below, and so does what is made of it.
LOWEST = {"digamma": -9, "polygamma_0": -9, "polygamma_1": -9, "polygamma_2": -9}


def table(name, dtype):
    return [v.ravel() for v in np.meshgrid(*(np.array(p, dtype) for p in FUNCTIONS[name][1]), indexing="ij")]  # fmt: skip


@functools.cache
def compiled(side, name):
    """A function of arrays, and its slopes; None for an argument without one."""
    one = functools.partial(FUNCTIONS[name][0], import_module(f"{side}.scipy.special"))
    namespace = import_module(side)

    def by(i):
        slope = namespace.grad(lambda *xs: one(*xs).astype(xs[0].dtype), i)
        return namespace.jit(namespace.vmap(slope))

    count = len(FUNCTIONS[name][1])
    slopes = [None if name == "betainc" and i < 2 else by(i) for i in range(count)]
    return namespace.jit(namespace.vmap(one)), slopes


def quotients(fun, args, i, step):
    """Of differences around each place; where one side is not defined, from the other by three points."""

    def moved(by):
        shifted = list(args)
        shifted[i] = args[i] + by
        return np.asarray(fun(*shifted))

    with np.errstate(invalid="ignore"):
        here, up, down = moved(0.0), moved(step), moved(-step)
        both = (up - down) / (2 * step)
        bent = np.abs(up + down - 2 * here) > 0.01 * step * (1 + np.abs(both))  # a pole, a kink
        above = (4 * up - 3 * here - moved(2 * step)) / (2 * step)
        below = (3 * here - 4 * down + moved(-2 * step)) / (2 * step)
    one_side = np.where(np.isfinite(above), above, below)
    return np.where(np.isfinite(both), np.where(bent, np.nan, both), one_side)


@pytest.mark.parametrize("name", FUNCTIONS if EVERY else QUICK)
def test_slopes(name):
    with xlab.enable_x64(True), np.errstate(invalid="ignore"):
        args = table(name, np.float64)
        value_of, slopes = compiled("xlab", name)
        value = np.asarray(value_of(*args))
        number = ~np.any([np.isnan(v) for v in args], 0)
        for i, slope_of in enumerate(slopes):
            if slope_of is None:
                continue
            slope = np.asarray(slope_of(*args))
            fine = ~(np.isfinite(value) & number & np.isnan(slope))
            for by, where, _ in WITHOUT.get(name, ()):
                if by in (i, None):
                    fine |= where(*args)
            assert fine.all(), (i, [v[~fine] for v in args], value[~fine])
            # Quotients of two steps agree where there is a slope; large arguments swallow steps.
            near = (np.abs(args[i]) < 50) & (args[i] >= LOWEST.get(name, -50))
            first, second = (quotients(value_of, args, i, step) for step in (1e-4, 2e-4))
            smooth = near & np.isfinite(value) & np.isfinite(first)
            smooth &= np.isclose(first, second, rtol=1e-4, atol=1e-7)
            smooth &= ~np.isnan(slope)
            best = (4 * first - second) / 3
            close = ~smooth | np.isclose(slope, best, rtol=3e-4, atol=1e-5)
            assert close.all(), (i, [v[~close] for v in args], slope[~close], best[~close])


def test_limits_at_edges():
    inf, nan = np.inf, np.nan

    def slope(f, *args, by=0):
        return float(xlab.grad(f, by)(*map(np.float32, args)))

    assert slope(special.gammaln, 0.0) == -inf and slope(special.gammaln, -0.0) == inf
    assert slope(special.gamma, 0.0) == -inf == slope(special.gamma, -0.0)
    assert slope(special.digamma, inf) == 0
    for x in (-inf, inf):
        assert slope(special.dawsn, x) == 0 == slope(lambda v: special.sici(v)[0], x)
    assert slope(lambda v: special.sici(v)[1], inf) == 0 == slope(special.erfcx, inf)
    assert np.isnan(slope(lambda v: special.fresnel(v)[0], inf))
    # exp(-x) from the right of 0, and none is left at infinity
    ends = [slope(f, 1.0, 0.0, by=1) for f in (special.gammainc, special.gammaincc)]
    np.testing.assert_allclose(ends, [1, -1], rtol=1e-6)
    assert slope(special.gammainc, 2.0, inf, by=1) == 0 == slope(special.gammainc, 2.0, inf)
    np.testing.assert_allclose(slope(special.gammainc, 0.0, 2.0), -special.exp1(2.0), rtol=1e-5)
    np.testing.assert_allclose(slope(special.gammaincc, 0.0, 0.5), special.exp1(0.5), rtol=1e-5)
    for a, b in ((0.0, 2.0), (2.0, 0.0), (inf, 2.0), (2.0, inf)):
        assert all(slope(special.betainc, a, b, x, by=2) == 0 for x in (0.0, 0.3, 1.0))
    ends = [slope(special.betainc, *v, by=2) for v in ((1, 3, 0), (3, 1, 1))]
    np.testing.assert_allclose(ends, 3, rtol=1e-6)
    assert np.isnan(slope(special.betainc, 0.0, 0.0, 0.3, by=2))
    assert (
        slope(special.zeta, 2.0, 0.0, by=1) == -inf and slope(special.zeta, 2.0, -3.0, by=1) == -inf
    )
    assert slope(special.log_ndtr, -inf) == inf and slope(special.expi, inf) == inf
    assert slope(special.owens_t, inf, 0.0) == 0 == slope(special.owens_t, 0.0, inf, by=1)
    assert slope(special.boxcox, 0.0, 0.0, by=1) == inf
    assert slope(special.i1, 1e30) == inf and np.isnan(slope(special.i1, nan))


def test_slopes_through_zeros_of_ratios_of_gamma_functions():
    """1 / gamma has the slope (-1)^n n! at -n."""
    by_first = xlab.grad(special.beta)(-0.5, 0.5)
    np.testing.assert_allclose([by_first, xlab.grad(special.beta, 1)(-0.5, 0.5)], -2 * np.pi, rtol=1e-5)  # fmt: skip
    np.testing.assert_allclose(xlab.grad(special.poch)(-2.0, 2.5), 2 * special.gamma(0.5), rtol=1e-5)  # fmt: skip
    assert xlab.grad(special.poch)(-2.0, 0.0) == 0


def test_slopes_far_out_do_not_cancel():
    x = np.float32(1e4)
    np.testing.assert_allclose(xlab.grad(special.dawsn)(x), -0.5e-8, rtol=1e-5)
    np.testing.assert_allclose(xlab.grad(special.erfcx)(x), -1e-8 / np.sqrt(np.pi), rtol=1e-5)
    np.testing.assert_allclose(xlab.grad(special.log_ndtr)(-x), x, rtol=1e-5)
    for dtype in (np.float16, np.float32):  # one value for both forms
        ends = [xlab.grad(special.dawsn)(dtype(v)) for v in (9.99, 10.01)]
        np.testing.assert_allclose(ends, -0.00508, rtol=0.02 if dtype is np.float32 else 2)


def test_kummers_function_where_its_asymptotic_series_starts_to_fall_late():
    """M(a, a - 19, x) = exp(x) times a polynomial, by Kummer's transformation."""
    with xlab.enable_x64(True):
        x, total, term = 100.0, 1.0, 1.0
        for k in range(19):  # M(-19, 1, -x)
            term *= (-19 + k) * -x / ((1 + k) * (k + 1))
            total += term
        np.testing.assert_allclose(special.hyp1f1(20.0, 1.0, x), np.exp(x) * total, rtol=1e-12)


def test_polynomials_have_slopes_by_the_parameter_that_ends_them():
    """Terms behind the last have slopes: M(a, b, x) at a = 0 has the slope of its series, term by term."""
    with xlab.enable_x64(True):
        x, total, term = 1.5, 0.0, 1.0
        for k in range(60):  # (a)_k / a = (k - 1)! at 0
            term *= x / (2.0 + k)
            total += term / (k + 1)
        np.testing.assert_allclose(xlab.grad(special.hyp1f1)(0.0, 2.0, x), total, rtol=1e-12)
        # F(a, b; b; x) = (1 - x)^-a
        for x in (-4.0, -0.5, 0.3):
            slope = xlab.grad(special.hyp2f1)(-2.0, 2.5, 2.5, x)
            np.testing.assert_allclose(slope, -np.log1p(-x) * (1 - x) ** 2, rtol=1e-9)


# Where the reference can be asked: outside of these its loops take minutes, or do not end.
ASKED = {
    **{name: lambda x: (x > 1e-4) & (x < 20) for name in ("exp1", "expi", "expn_0", "expn_1", "expn_2", "expn_5")},
    **{name: lambda a, x: (np.abs(a) < 40) & (np.abs(x) < 40) for name in ("gammainc", "gammaincc")},
    **{name: lambda *xs: np.all([np.abs(v) < 40 for v in xs], 0) for name in ("hyp1f1", "hyp2f1")},
}  # fmt: skip


def nothing(answer, *args):
    return np.isnan(answer)


def ends(*at):
    return lambda answer, x, *rest: np.isnan(answer) | np.isin(x, at)


# Where the reference differs. Name: what holds there of its answer and the arguments, and why ours is right.
DELIBERATE = {
    "gammaln": (nothing, "NaN at 0"),
    "gamma": (nothing, "NaN at 0"),
    "factorial": (nothing, "NaN below 0, where it is constant"),
    "digamma": (nothing, "NaN at infinity"),
    "entr": (nothing, "NaN below 0"),
    "erfcx": (nothing, "NaN at infinity"),
    "dawsn": (nothing, "NaN at infinities"),
    "ndtri": (ends(0, 1), "0 at the ends, where it rises without bound"),
    "log_ndtr": (lambda s, x: np.isnan(s) | (x < -1e9), "NaN or 1 far below 0, where it is -x"),
    "spence": (lambda s, x: np.isnan(s) | (x < TINY * 2) | (x == 1), "NaN above 1, 0 at 1, bounded at 0"),
    "i0": (ends(0), "1 at 0, where an even function has none; NaN where it is infinite"),
    "i1": (nothing, "NaN where it is infinite"),
    "beta": (nothing, "NaN for negative arguments, and where only one of them matters"),
    "betaln": (nothing, "NaN for negative arguments"),
    "gammainc": (nothing, "NaN by a shape of 0, by x at (1, 0)"),
    "gammaincc": (nothing, "NaN by a shape of 0, by x at (1, 0)"),
    "betainc": (nothing, "NaN at 0 and 1, and for parameters of 0"),
    "poch": (nothing, "NaN for m = 0, and at poles"),
    "zeta": (lambda s, x, q: np.isnan(s) | np.isinf(q) | ((x == 30) & (q < 0)), "NaN for x = 1; numbers at -inf; below 0 terms cancel"),
    "xlogy": (nothing, "NaN at (0, 0)"),
    "xlog1py": (nothing, "NaN at (0, -1)"),
    "boxcox": (lambda s, x, lmbda: np.isnan(s) | (x == 0) | (lmbda == 0), "NaN at 0, falls there; 0 by an exponent of 0"),
    "boxcox1p": (lambda s, x, lmbda: np.isnan(s) | (lmbda == 0), "NaN at -1; 0 by an exponent of 0"),
    "owens_t": (nothing, "NaN for h = 0 and infinite a, values too"),
    "comb_again": (nothing, "NaN for infinitely many things"),
    "sici_0": (nothing, "NaN at infinities"),
    "sici_1": (nothing, "NaN at infinity"),
    "expn_0": (nothing, "NaN for n = 0 up to 1"),
    "multigammaln": (nothing, "NaN at poles that are seen from inside"),
    "bessel_jn": (lambda s, x: np.isnan(s) | (np.abs(x) > 50) | np.isin(np.abs(x), np.float32([1e-3, 7.5])) | (np.abs(x) == 1e-3), "NaN or far off near 0 and at 7.5; both are above n_iter"),
    "hyp1f1": (lambda s, a, b, x: poles(a) | poles(b) | np.isnan(s) | ((x < 0) & ((x <= -20) | (a == 20))), "e^x for polynomials a = b, other signs at poles, NaN or 0 by a, b there; left of 0 its sum cancels"),
    "hyp2f1": (lambda s, a, b, c, x: poles(a) | poles(b) | poles(c) | np.isnan(s) | (np.abs(x) >= 0.95), "the same at poles; its series does not converge from |x| = 1 on"),
}  # fmt: skip


@pytest.mark.skipif(
    not EVERY or not find_spec("jax"), reason="XLAB_EVERY_SLOPE=1, beside the reference"
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_beside_the_reference(name, dtype):
    import jax

    args = table(name, dtype)
    if name in ASKED:
        asked = ASKED[name](*args)
        args = [v[asked] for v in args]
    with xlab.enable_x64(True), jax.enable_x64(True), np.errstate(invalid="ignore"):
        (ours, our_slopes), (theirs, their_slopes) = (compiled(s, name) for s in ("xlab", "jax"))
        value = np.asarray(ours(*args))
        pairs = [("value", value, np.asarray(theirs(*args)))]
        for i, (one, other) in enumerate(zip(our_slopes, their_slopes, strict=True)):
            if one is not None:
                pairs.append((i, np.asarray(one(*args)), np.asarray(other(*args))))
    tolerance = (
        {"rtol": 2e-3, "atol": 2e-4} if dtype is np.float32 else {"rtol": 1e-5, "atol": 1e-9}
    )
    for which, one, other in pairs:
        assert one.dtype == other.dtype
        close = np.isclose(one, other, equal_nan=True, **tolerance)
        if which != "value":
            close |= np.isnan(value)
        if name in DELIBERATE:
            close |= DELIBERATE[name][0](other, *args)
        rows = [tuple(float(v[k]) for v in (*args, one, other)) for k in np.flatnonzero(~close)]
        assert not rows, (which, len(rows), rows[:12])


@pytest.mark.parametrize(
    ("name", "at", "value", "by_each"),
    [
        ("hyp1f1", (-2, 1.5, 0.5), 0.4, (0.236599455, 0.373333333, -1.066666667)),
        ("hyp2f1", (0.3, 1.2, 2, -3), 0.750787484, (-0.702734302, -0.140094626, 0.077597541, 0.0434468391)),
        ("hyp2f1", (2, 0.5, 1.5, 0.95), 11.1174301, (22.3750924, 44.5095242, -25.7048016, 204.675037)),
        ("zeta", (2.5, 1.5), 0.590256385, (-0.464812348, -0.767740411)),
        ("zeta", (1.5, 0.3), 8.237761671, (3.29203776, -31.6038588)),
    ],
)  # fmt: skip
def test_slopes_in_thirty_digits(name, at, value, by_each):
    """Quotients of differences in arithmetic of thirty digits; the reference gives others for the first three, or NaN."""
    with xlab.enable_x64(True):
        at = tuple(map(float, at))
        fun = getattr(special, name)
        np.testing.assert_allclose(fun(*at), value, rtol=1e-8)
        slopes = xlab.grad(fun, tuple(range(len(at))))(*at)
        np.testing.assert_allclose(slopes, by_each, rtol=1e-8)
