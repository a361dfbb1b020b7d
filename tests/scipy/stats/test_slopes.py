"""Slopes of every function of every distribution by every argument: inside of the support, at its ends, and outside.

Every run takes one set of shapes of each distribution; XLAB_EVERY_SLOPE=1 takes all, and asks the reference too where it is installed.
"""

import os
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.scipy import stats

EVERY = bool(os.environ.get("XLAB_EVERY_SLOPE"))
POINTS = np.array([-np.inf, -1.3, -1, 0, 0.2, 0.5, 0.9, 1, 2, 3, 7.5, np.inf])
CHANCES = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
PLACED = (0.0, 1.0)
# Name: sets of shapes (with place and scale where there are), the ends of the standard support.
CONTINUOUS = {
    "beta": ([(1.6, 2.3), (1, 1), (0.5, 2), (2, 0.5), (3, 3)], (0, 1)),
    "cauchy": ([()], (-np.inf, np.inf)),
    "chi2": ([(2.6,), (1,), (2,), (4,)], (0, np.inf)),
    "expon": ([()], (0, np.inf)),
    "gamma": ([(1.7,), (0.5,), (1,), (2,), (3,)], (0, np.inf)),
    "gennorm": ([(1.5,), (2,)], (-np.inf, np.inf)),
    "gumbel_l": ([()], (-np.inf, np.inf)),
    "gumbel_r": ([()], (-np.inf, np.inf)),
    "laplace": ([()], (-np.inf, np.inf)),
    "logistic": ([()], (-np.inf, np.inf)),
    "norm": ([()], (-np.inf, np.inf)),
    "pareto": ([(2.5,), (0.5,)], (1, np.inf)),
    "t": ([(3.5,)], (-np.inf, np.inf)),
    "truncnorm": ([(-1, 2), (0, 1), (-np.inf, 1), (0.5, np.inf)], None),
    "uniform": ([()], (0, 1)),
    "vonmises": ([(1.5,)], (-np.inf, np.inf)),
    "wrapcauchy": ([(0.4,)], (0, 2 * np.pi)),
}
DISCRETE = {
    "bernoulli": [(0.3,), (0.8,)],
    "betabinom": [(6, 1.5, 2.5)],
    "binom": [(6, 0.3)],
    "geom": [(0.3,)],
    "nbinom": [(4, 0.3)],
    "poisson": [(2.5,)],
}
UNPLACED = ("gennorm", "vonmises", "wrapcauchy")
LAST = {"bernoulli": 1, "betabinom": 6, "binom": 6}
CASES = [
    pytest.param(name, f, args, id=f"{name}-{f}-{','.join(f'{v:g}' for v in args)}")
    for name, sets in [*((k, v[0]) for k, v in CONTINUOUS.items()), *DISCRETE.items()]
    for shapes in (sets if EVERY else sets[:1])
    for args in [(*shapes, *(() if name in UNPLACED else PLACED if name in CONTINUOUS else (0.0,)))]
    for f in import_module(f"xlab.scipy.stats.{name}").__all__
    if f != "entropy"
]


def derivatives(side, f, x, args):
    """The values, and the slopes by every argument that there are."""
    xs = [side.numpy.asarray(v, x.dtype) for v in args]

    def one(x, *args):
        return f(x, *args)

    slopes, values = [], None
    for i in range(1 + len(args)):
        both = side.vmap(side.value_and_grad(one, i), (0, *(None for _ in args)))
        try:
            values, slope = both(side.numpy.asarray(x), *xs)
        except (ValueError, TypeError):
            # The incomplete beta function has no slopes by its parameters; the reference's Gumbel distributions take no numbers.
            assert side is not xlab or (f.__module__.endswith("beta") and i in (1, 2))
            slope = None
        slopes.append(slope if slope is None else np.asarray(slope))
    return np.asarray(values), slopes


def signature(name, f, args):
    """Without the place that a distribution of integers takes for its probabilities alone."""
    return args[:-1] if name == "bernoulli" and f in ("cdf", "ppf") else args


def support(name, args):
    if name == "truncnorm":
        return args[:2]
    return CONTINUOUS[name][1] if name in CONTINUOUS else (0, np.inf)


@pytest.mark.parametrize(("name", "f", "args"), CASES)
def test_slopes(name, f, args):
    args = signature(name, f, args)
    inverse = f in ("ppf", "isf")
    fun = getattr(getattr(stats, name), f)
    with xlab.enable_x64(True):
        x = CHANCES if inverse else POINTS
        values, slopes = derivatives(xlab, fun, x, args)
        low, high = (0, 1) if inverse else support(name, args)
        high = LAST.get(name, high)
        off = (x < low) | (x > high)
        if name in DISCRETE and f != "cdf":
            off |= values == (0 if f == "pmf" else -np.inf)
        inside = (x > low) & (x < high) & np.isfinite(values)
        for i, slope in enumerate(slopes):
            if slope is None or not np.isfinite(args[i - 1] if i else 0.0):
                continue  # an end at infinity is not moved
            # outside it is constant, by every argument
            outside = off & ~np.isnan(values)
            assert not slope[outside].any(), (i, x[outside], slope[outside])
            # at the ends, where the value is not without bound
            finite = np.isfinite(values) & np.isfinite(x)
            assert not np.isnan(slope[finite]).any(), (i, x[finite], slope[finite])
            if (name in DISCRETE and i in (0, len(args))) or (f == "cdf" and name in DISCRETE):
                continue  # integers
            where = inside & (np.isfinite(slope))
            step = 1e-5
            quotient = 0.0
            for sign in (1, -1):
                moved = [x[where], *args]
                moved[i] = moved[i] + sign * step
                quotient = quotient + sign * np.asarray(fun(*moved)) / (2 * step)
            smooth = np.isfinite(quotient)
            if name == "laplace":
                smooth &= x[where] != 0  # a kink
            np.testing.assert_allclose(
                slope[where][smooth], quotient[smooth], rtol=1e-5, atol=1e-7, err_msg=f"by {i}"
            )


@pytest.mark.parametrize("f", ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize(
    "name", ["beta", "gamma", "chi2", "pareto", "expon", "truncnorm", "uniform"]
)
def test_what_is_impossible_leaves_no_slope_that_is_nan_beside_a_value(name, f):
    fun = getattr(getattr(stats, name), f, None)
    if fun is None:
        pytest.skip(f"{name} has no {f}")
    shapes = {"beta": (2, 3), "truncnorm": (-1, 1), "expon": (), "uniform": ()}.get(name, (2,))
    x, scale = (v.ravel() for v in np.meshgrid(np.float32([-1, 0.3, 5]), np.float32([-1, 0])))
    for i in (0, len(shapes) + 1, len(shapes) + 2):
        both = xlab.vmap(xlab.value_and_grad(fun, i), (0, *(None for _ in shapes), None, 0))
        value, slope = both(x, *map(np.float32, shapes), np.float32(0.5), scale)
        assert (np.isnan(value) | ~np.isnan(slope)).all(), (i, value, slope)


def test_an_end_is_seen_from_its_inner_side():
    grad = xlab.grad
    assert grad(stats.pareto.logpdf)(1.0, 2.0) == -3 and grad(stats.pareto.cdf)(1.0, 2.0) == 2
    assert grad(stats.laplace.cdf)(0.0) == 0.5
    assert grad(stats.beta.logpdf)(0.0, 1.0, 3.0) == -2 and grad(stats.gamma.logpdf)(0.0, 1.0) == -1
    np.testing.assert_allclose(grad(stats.beta.pdf)(1.0, 3.0, 1.0), 6, rtol=1e-5)
    # H(6) + log(0.3 / 0.7): the whole slope of the formula, not half of it
    slope = sum(1 / k for k in range(1, 7)) + np.log(0.3 / 0.7)
    np.testing.assert_allclose(grad(stats.binom.logpmf)(0.0, 6.0, 0.3), slope, rtol=1e-5)
    # by the scale of (x / scale)^(a - 1): the same for all x, also where that is 0
    np.testing.assert_allclose(grad(stats.gamma.logpdf, 3)(0.0, 3.0, 0.0, 2.0), -1.5, rtol=1e-6)


def test_a_mass_that_is_too_small_for_its_type():
    for f, x, args in ((stats.gamma.logcdf, 1e-5, (10.0,)), (stats.beta.logcdf, 1e-6, (9.0, 2.0))):
        value, slope = xlab.value_and_grad(f)(np.float32(x), *map(np.float32, args))
        assert value == -np.inf and slope == 0


def test_samples_of_one_scale():
    """One value outside spoils no slope of the others."""
    x = jnp.array([-1.0, 0.5, 2.0])
    slope = xlab.grad(lambda s: stats.gamma.pdf(x, 2.0, 0.0, s).sum())(1.5)
    alone = xlab.grad(lambda s: stats.gamma.pdf(x[1:], 2.0, 0.0, s).sum())(1.5)
    assert slope == alone


def test_outside_of_the_simplex():
    for x in ([-0.5, 1.5], [0.0, 1.0], [0.2, 0.2]):
        slopes = xlab.grad(stats.dirichlet.logpdf, (0, 1))(np.float32(x), np.float32([1.5, 2]))
        assert not np.any(slopes[0]) and not np.any(slopes[1])


# Where the reference differs. Name: functions, and why ours is right.
DELIBERATE = {
    "beta": "the reference's slopes at ends are NaN where the density is finite or 0, and 0 by the cumulative function",
    "gamma": "NaN left of the support in sf and logsf",
    "chi2": "NaN at 0",
    "pareto": "NaN left of the support by the exponent, and at 1",
    "truncnorm": "NaN outside of the interval and at its ends",
    "bernoulli": "values between integers have no mass",
    "geom": "values between integers have no mass",
    "betabinom": "NaN beyond the number of trials; between integers our value is that of the lower one, so its slope is 0",
    "binom": "NaN below 0",
    "nbinom": "NaN below 0",
    "poisson": "NaN below 0",
    "expon": "a slope without bound at 0 in logcdf, where there is no mass",
    "gennorm": "NaN in the middle in cdf, whose slope is the density",
}


@pytest.mark.skipif(
    not EVERY or not find_spec("jax"), reason="XLAB_EVERY_SLOPE=1, beside the reference"
)
@pytest.mark.parametrize(("name", "f", "args"), CASES)
def test_beside_the_reference(name, f, args):
    import jax

    args = signature(name, f, args)
    x = (CHANCES if f in ("ppf", "isf") else POINTS[1:-1]).astype(np.float32)
    theirs = derivatives(jax, getattr(import_module(f"jax.scipy.stats.{name}"), f), x, args)
    ours = derivatives(xlab, getattr(getattr(stats, name), f), x, args)
    for i, (one, other) in enumerate(
        zip([ours[0], *ours[1]], [theirs[0], *theirs[1]], strict=True)
    ):
        if one is None or other is None or other.ndim == 0:
            continue
        close = np.isclose(one, other, rtol=2e-3, atol=2e-4, equal_nan=True)
        if name in DELIBERATE:  # what is wrong there is NaN, or between integers, or at an end
            close |= (
                (name == "betabinom" and i in (1, 1 + len(args)))  # and by the place
                | np.isnan(other)
                | (x != np.round(x) if name in DISCRETE else np.isin(x, (0, 1, 2)))
            )
        assert close.all(), (x[~close], one[~close], other[~close])
