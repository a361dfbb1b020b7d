"""Minima: laws, and problems where the steps themselves do not matter."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.scipy.optimize import minimize
from xlab.scipy.spatial.transform import Rotation, Slerp

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", LBFGS])
def test_the_valley_is_followed_to_its_end(method):
    """From a start where a search has to turn around, with 32 bits: a batch, each as it is alone."""
    run = xlab.jit(xlab.vmap(lambda x: minimize(rosenbrock, x, method=method)))
    starts = jnp.array([[0.0, 0.0], [-1.2, 1.0], [1.0, 1.0]])
    found = run(starts)
    np.testing.assert_allclose(found.x, np.ones((3, 2)), atol=2e-3)
    assert found.success.all() and (found.status == 0).all() and found.nit.tolist()[2] == 0
    assert (found.nfev > found.nit).all() and (found.njev == found.nfev).all()


def test_why_it_stopped():
    x = jnp.zeros(2)
    for limits, status in (({"maxiter": 3}, 1), ({"maxfun": 3}, 2), ({"maxgrad": 3}, 3)):
        found = minimize(rosenbrock, x, method=LBFGS, options=limits)
        assert int(found.status) == status and not found.success and found.hess_inv is None
    assert int(minimize(rosenbrock, x, method="BFGS", options={"maxiter": 3}).status) == 1
    slow = minimize(
        lambda x: (x**4).sum(), jnp.ones(2), method=LBFGS, options={"ftol": 0.99, "gtol": 0}
    )
    assert int(slow.status) == 4
    assert int(minimize(jnp.sum, x, method=LBFGS, options={"maxls": 5}).status) == 5


def test_the_inverse_hessian_is_found():
    a = jnp.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimize(
        lambda x, b: 0.5 * x @ a @ x - b @ x, jnp.zeros(2), (jnp.ones(2),), method="BFGS", tol=1e-4
    )
    np.testing.assert_allclose(found.x, np.linalg.solve(a, np.ones(2)), atol=1e-4)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(a), atol=0.05)


def test_nothing_is_to_be_found():
    found = minimize(lambda x: jnp.sum(x**2) + 3, jnp.zeros(0), method="BFGS")
    assert found.success and found.x.shape == (0,) and float(found.fun) == 3


def test_what_was_found_is_a_tree():
    found = minimize(lambda v: (v**2).sum(), jnp.ones(2), method="BFGS")
    assert type(found) is xlab.scipy.optimize.OptimizeResults
    assert type(xlab.jit(lambda r: r)(found)) is type(found)
    assert xlab.tree.map(jnp.shape, found).x == (2,)


def test_complex_unknowns():
    fun = lambda z: jnp.sum(jnp.abs(z - (1 + 2j)) ** 2)
    found = minimize(fun, jnp.zeros(2, complex), method="BFGS")
    np.testing.assert_allclose(found.x, np.full(2, 1 + 2j), atol=1e-4)


def test_starts_that_are_no_vectors():
    for start in ([1.0, 2.0], jnp.ones((2, 2)), jnp.float32(1)):
        with pytest.raises(TypeError, match="ravel_pytree"):
            minimize(jnp.sum, start, method="BFGS")


def test_rotations_near_none_have_derivatives():
    zero = jnp.zeros(3)
    there = lambda v: Rotation.from_rotvec(v).as_rotvec()
    np.testing.assert_allclose(xlab.jacobian(there)(zero), np.eye(3), atol=1e-6)
    for v in np.float32([[1e-4, 0, 0], [0.3, -2, 1]]):
        np.testing.assert_allclose(there(v), v, rtol=1e-4, atol=1e-8)


def test_rotations_are_a_group():
    p, q = Rotation.random(xlab.random.key(0)), Rotation.random(xlab.random.key(1), 4)
    np.testing.assert_allclose((p * q).as_matrix(), p.as_matrix() @ q.as_matrix(), atol=1e-5)
    np.testing.assert_allclose((q * q.inv()).as_matrix(), np.tile(np.eye(3), (4, 1, 1)), atol=1e-5)
    assert Rotation.identity(2).quat.shape == (2, 4) and len(Rotation.concatenate([p, q])) == 5
    locked = Rotation.from_euler("xyz", jnp.array([0.3, jnp.pi / 2, 0.5]))
    again = Rotation.from_euler("xyz", locked.as_euler("xyz"))
    np.testing.assert_allclose(again.as_matrix(), locked.as_matrix(), atol=1e-3)


def test_the_way_between_rotations_ends_at_the_last():
    q = Rotation.random(xlab.random.key(2), 3)
    way = Slerp.init(jnp.array([0.0, 1.0, 3.0]), q)
    np.testing.assert_allclose(way(way.times).as_matrix(), q.as_matrix(), atol=1e-5)
