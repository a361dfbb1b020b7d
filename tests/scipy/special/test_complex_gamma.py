"""The gamma function of complex numbers: its equations, its branch, its derivative."""

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab.scipy.special import gamma, gammaln, loggamma

Z = np.array(
    [0.3 + 0.4j, -1.5 + 2j, 2 - 1j, 1j, -2.5 + 0.5j, 12 - 4j, -20.3 + 1j, 0.5 + 30j, -0.5 - 30j]
)


def test_equations():
    with xlab.enable_x64(True):
        z = jnp.asarray(Z)
        np.testing.assert_allclose(gamma(z + 1), z * gamma(z), rtol=1e-12)
        np.testing.assert_allclose(gamma(z) * gamma(1 - z), np.pi / jnp.sin(np.pi * z), rtol=1e-12)
        np.testing.assert_allclose(loggamma(z.conj()), loggamma(z).conj(), rtol=1e-14)
        reals = np.array([0.1, 1, 2, 7.5, 100])
        np.testing.assert_allclose(loggamma(reals + 0j), gammaln(reals), atol=1e-14, rtol=1e-13)


def test_the_branch_is_continuous_but_across_the_negative_axis():
    with xlab.enable_x64(True):
        path = 12 * np.exp(1j * np.linspace(-3.1, 3.1, 400))
        steps = np.abs(np.diff(np.asarray(loggamma(path))))
        assert steps.max() < 1.0  # a turn too many is 2 pi
        above, below = loggamma(np.array([-2.5 + 0j, complex(-2.5, -0.0)]))
        assert np.isclose(above, np.conj(below)) and np.isclose(above.imag, -3 * np.pi)


def test_the_derivative_is_that_of_differences():
    with xlab.enable_x64(True):
        for f in (gamma, loggamma):
            slope = xlab.vmap(xlab.grad(f, holomorphic=True))(Z)
            for step in (1e-5, 1e-5j):
                between = (f(Z + step) - f(Z - step)) / (2 * step)
                np.testing.assert_allclose(slope, between, rtol=1e-6)
