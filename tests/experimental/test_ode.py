"""Differential equations: what holds of solutions and of their gradients."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.experimental.ode import odeint

T = jnp.array([0.0, 0.4, 1.0])


def test_time_may_run_backward_and_stand_still():
    decay = lambda y, t: -y
    there = odeint(decay, 1.0, T)
    back = odeint(decay, there[-1], T[::-1])
    np.testing.assert_allclose(back[::-1], there, rtol=1e-5)
    still = odeint(decay, 1.0, jnp.array([0.0, 0.0, 1.0, 1.0]))
    np.testing.assert_allclose(still, np.exp([0, 0, -1, -1.0]), rtol=1e-5)


def test_gradients_of_times_start_and_what_is_closed_over():
    def last(a, y, t):
        return odeint(lambda y, t: -a * y * t, y, t).sum()

    with xlab.enable_x64(True):
        a, y, t = jnp.array(1.3), jnp.array(0.7), jnp.array([0.2, 0.5, 1.1])
        found = xlab.jit(xlab.grad(last, (0, 1, 2)))(a, y, t)
        # y exp(-a (t^2 - t0^2) / 2)
        exact = lambda a, y, t: (y * jnp.exp(-a * (t**2 - t[0] ** 2) / 2)).sum()
        for ours, expected in zip(found, xlab.grad(exact, (0, 1, 2))(a, y, t)):
            np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-8)


def test_what_is_not_reached_is_nan():
    found = odeint(lambda y, t: -y, 1.0, T, mxstep=1)
    assert found[0] == 1 and jnp.isnan(found[1:]).all()
    assert jnp.isnan(odeint(lambda y, t: y * jnp.nan, 1.0, T)[1:]).all()


def test_batches_are_loops():
    solve = lambda a: odeint(lambda y, t: -a * y, 1.0, T)[-1]
    a = jnp.array([0.5, 2.0])
    np.testing.assert_allclose(xlab.vmap(solve)(a), np.exp(-a), rtol=1e-5)


def test_integers_among_the_arguments_have_no_gradient():
    loss = lambda a: odeint(lambda y, t, n, a: -a * n * y, 1.0, T, 2, a)[-1]
    np.testing.assert_allclose(xlab.grad(loss)(0.5), -2 * np.exp(-1.0), rtol=1e-4)


def test_what_is_not_solved():
    with pytest.raises(ValueError, match="shape"):
        odeint(lambda y, t: y, 1.0, jnp.ones((2, 2)))
    with pytest.raises(ValueError, match="returned"):
        odeint(lambda y, t: (y, y), 1.0, T)
    with pytest.raises(TypeError, match="custom_vjp"):
        xlab.jvp(lambda y: odeint(lambda y, t: -y, y, T), (1.0,), (1.0,))
    assert odeint(lambda y, t: y, jnp.ones(3), T[:0]).shape == (0, 3)
