"""Slopes where a function has limits only: `boxcox` and `boxcox1p` at the edge of their domain, and around an exponent of zero; parameters that are refused."""

import functools
import math

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.scipy.special import (
    bernoulli,
    bessel_jn,
    boxcox,
    boxcox1p,
    entr,
    erfcx,
    expn,
    factorial,
    fresnel,
    hyp1f1,
    hyp2f1,
    log_ndtr,
    loggamma,
    multigammaln,
    ndtr,
    owens_t,
    rel_entr,
    spence,
    xlog1py,
    xlogy,
)

EXPONENTS = np.float32([-1, -0.5, 0, 0.5, 1, 2])


@pytest.mark.parametrize(("f", "edge"), [(boxcox, 0.0), (boxcox1p, -1.0)])
def test_slopes_at_the_edge(f, edge):
    over_all = lambda g: xlab.vmap(g, (None, 0))(np.float32(edge), EXPONENTS).tolist()
    # d/dx z^lmbda / lmbda = z^(lmbda - 1), at z = 0 and without bound
    assert over_all(xlab.grad(f)) == [np.inf, np.inf, np.inf, np.inf, 1, 0]
    # of (0 - 1) / lmbda
    assert over_all(xlab.grad(f, 1))[3:] == [4, 1, 0.25]
    assert xlab.vmap(xlab.grad(f), (None, 0))(np.float32(np.inf), EXPONENTS).tolist() == [
        0,
        0,
        0,
        0,
        1,
        np.inf,
    ]
    assert np.isnan(xlab.grad(f)(edge - 0.5, 2.0)) and np.isnan(f(edge - 0.5, 2.0))


@pytest.mark.parametrize("lmbda", [-2.0, -1e-3, 0.0, 1e-9, 0.1, 1.0, 2.0])
def test_slopes_inside(lmbda):
    x = np.float64([0.3, 1.0, 2.5, 30.0])
    logs = np.log(x)

    def slope(at):
        """By lmbda, from its series: the sum of (k + 1) a^k / (k + 2)! for a = lmbda log x."""
        a, total, term = at * logs, np.zeros(4), np.ones(4) / 2
        for k in range(80):
            total += term * (k + 1)
            term = term * a / (k + 3)
        return logs**2 * total

    with xlab.enable_x64(True):
        for f, base in ((boxcox, x), (boxcox1p, x - 1)):
            over = lambda g: xlab.vmap(g, (0, None))(base, lmbda)
            np.testing.assert_allclose(over(xlab.grad(f)), x ** (lmbda - 1), rtol=1e-12)
            np.testing.assert_allclose(over(xlab.grad(f, 1)), slope(lmbda), rtol=1e-9, atol=1e-15)
            mixed = over(xlab.grad(xlab.grad(f), 1))
            np.testing.assert_allclose(mixed, x ** (lmbda - 1) * logs, rtol=1e-12, atol=1e-15)
            second = (slope(lmbda + 1e-4) - slope(lmbda - 1e-4)) / 2e-4
            np.testing.assert_allclose(
                over(xlab.grad(xlab.grad(f, 1), 1)), second, rtol=1e-5, atol=1e-7
            )


def test_an_argument_that_is_not_derived_by_takes_no_part():
    assert xlab.grad(lambda x: boxcox(x, 0.0).sum())(jnp.array([0.0, 2.0])).tolist() == [
        np.inf,
        0.5,
    ]


def test_a_dimension_is_a_whole_number():
    with pytest.raises(ValueError, match=r"whole number as its dimension d, got 2\.5"):
        multigammaln(3.0, 2.5)
    assert multigammaln(3.0, np.float32(2)) == multigammaln(3.0, 2)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1e-30), (1e-30, 2.0), (0.5, 0.5), (3e30, 1e30)])
def test_slopes_of_a_relative_entropy(p, q):
    p, q = np.float32([p, q])
    slopes = xlab.grad(rel_entr, (0, 1))
    np.testing.assert_allclose(slopes(p, q), [np.log(p) - np.log(q) + 1, -p / q], rtol=1e-5)
    bent = [xlab.grad(xlab.grad(rel_entr, i), j)(p, q) for i, j in ((0, 0), (0, 1), (1, 0))]
    np.testing.assert_allclose(bent, [1 / p, -1 / q, -1 / q], rtol=1e-5)


def test_the_upper_tail_in_full_precision():
    x = np.array([0.5, 2, 5, 8, 20])
    tail = np.array([math.erfc(v / math.sqrt(2)) / 2 for v in x])
    with xlab.enable_x64(True):
        np.testing.assert_allclose(log_ndtr(x), np.log1p(-tail), rtol=1e-13)


def test_fresnel_far_out():
    """C(x) = 1/2 + sin(pi x^2 / 2) / (pi x), S(x) = 1/2 - cos(pi x^2 / 2) / (pi x); the squares of even numbers are whole turns."""
    with xlab.enable_x64(True):
        x = np.array([1e5, 3e7, 1e10, 1e300])
        sine, cosine = fresnel(x)
        np.testing.assert_allclose(sine, 0.5 - 1 / (np.pi * x), rtol=1e-14)
        np.testing.assert_allclose(cosine, 0.5, rtol=1e-14)
    slopes = [xlab.grad(lambda x, i=i: fresnel(x)[i])(np.float32(1e30)) for i in (0, 1)]
    assert slopes == [0, 1]
    with pytest.raises(NotImplementedError, match="real numbers, got dtype complex64"):
        fresnel(1j)


def test_scaled_tails_of_halves():
    x = np.float16([-np.inf, 100, 1e4, 6e4, np.inf])
    # 1 / (x sqrt(pi)) in the limit
    np.testing.assert_allclose(erfcx(x), [np.inf, 5.642e-3, 5.642e-5, 9.403e-6, 0], rtol=3e-3)


def test_lists_and_weak_numbers():
    np.testing.assert_allclose(
        [ndtr([0.0]), log_ndtr([0.0]), spence([1.0])], [[0.5], [np.log(0.5)], [0]], rtol=1e-6
    )
    assert not loggamma(1j).weak_type
    for f in (boxcox, boxcox1p):
        with pytest.raises(TypeError, match="box.*Incompatible shapes"):
            f(np.ones(2), np.ones(3))


def test_functions_that_take_lists():
    """The other special functions refuse them, by their own name."""
    for fun, args in (
        (hyp1f1, (1.0, [1.0, 2.0], (0.5, 1.0))),
        (hyp2f1, ([1, 2], 1, 2.0, [0.1, 0.2])),
        (expn, ([1, 2], [0.5, 1.0])),
        (functools.partial(bessel_jn, v=2), ([0.5, 1.0],)),
    ):
        out = fun(*args)
        expected = fun(*map(np.array, args))
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        np.testing.assert_allclose(xlab.jit(lambda: fun(*args))(), expected, rtol=1e-6)
        assert out.dtype == np.float32 and not out.aval.weak_type
    with pytest.raises(
        TypeError, match="^factorial requires ndarray or scalar arguments, got .*list"
    ):
        factorial([1.0])


def test_poles_of_hypergeometric_functions_that_cancel():
    x = np.float32([-3, 0, 0.3, 20])
    np.testing.assert_allclose(hyp1f1(-2.0, -2.0, x), 1 + x + x * x / 2, rtol=1e-6)
    x = np.float32([-0.9, 0, 0.3, 0.9])
    for b in (-2.0, 0.0, 0.5, 2.5):
        for c in (-2.0, 0.0, -0.5):
            np.testing.assert_allclose(hyp2f1(c, b, c, x), (1 - x) ** -b, rtol=2e-5)
            np.testing.assert_allclose(hyp2f1(b, c, c, x), (1 - x) ** -b, rtol=2e-5)
    assert hyp2f1(0.5, 1.0, 0.0, 0.0) == 1 and hyp2f1(0.5, 1.0, 0.0, 0.1) == np.inf


def test_owens_function_in_the_tail():
    h = np.array([3.5, 10.0, 0.0])
    # the whole plane beyond a line: half of the tail
    half = np.array([math.erfc(v / math.sqrt(2)) / 4 for v in h])
    np.testing.assert_allclose(owens_t(np.float32(h), np.float32(np.inf)), half, rtol=2e-6)
    with xlab.enable_x64(True):
        np.testing.assert_allclose(owens_t(h, np.inf), half, rtol=1e-13)
        np.testing.assert_allclose(
            owens_t(h, 3.0),
            half
            - owens_t(3 * h, 1 / 3)
            + np.array(
                [math.erfc(3 * v / math.sqrt(2)) / 4 * math.erf(v / math.sqrt(2)) for v in h]
            ),
            rtol=1e-12,
        )
    out, pull = xlab.vjp(owens_t, jnp.float16(1), jnp.float16(2))
    assert out.dtype == np.float32 and pull(out)[0].dtype == np.float16


def test_constants_outside_of_a_domain_have_no_slope():
    x = np.float32([-np.inf, -2, -0.5])
    for f in (entr, factorial):
        assert not xlab.vmap(xlab.grad(f))(x).any()


def test_slopes_where_nothing_is_multiplied_with_an_infinite_logarithm():
    assert xlab.grad(xlogy, 1)(0.0, 0.0) == 0 and xlab.grad(xlog1py, 1)(0.0, -1.0) == 0
    assert xlab.grad(xlab.grad(xlogy, 1), 0)(2.0, 4.0) == 0.25
    assert xlab.grad(xlab.grad(xlogy, 1), 1)(2.0, 4.0) == -0.125


def test_a_multivariate_gamma_function_of_a_weak_number_is_strong():
    value, slope = xlab.jvp(lambda a: multigammaln(a, 1), (2.0,), (1.0,))
    assert not multigammaln(2.0, 1).weak_type and not value.weak_type and not slope.weak_type


def test_bernoulli_numbers_need_to_know_how_many():
    with pytest.raises(xlab.errors.ConcretizationTypeError, match="bernoulli needs its n"):
        xlab.jit(bernoulli)(3)
