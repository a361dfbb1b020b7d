"""Objects with `__jax_array__` go wherever arrays go."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax


class Wrapped:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


X = np.arange(3, dtype=np.float32) + 1


@pytest.mark.parametrize(
    "use",
    [
        lax.sin,
        xlab.nn.relu,
        xlab.nn.softmax,
        lambda x: lax.add(x, jnp.ones(3)),
        lambda x: xlab.jit(lambda y: y * 2)(x),
    ],
    ids=["sin", "relu", "softmax", "add", "jit"],
)
def test_eager_calls(use):
    np.testing.assert_allclose(use(Wrapped(jnp.asarray(X))), use(X), rtol=1e-6)


@pytest.mark.parametrize(
    "use",
    [
        jnp.asarray,
        jnp.array,
        jnp.sin,
        jnp.sum,
        jnp.zeros_like,
        jnp.linalg.norm,
        jnp.fft.fft,
        lambda x: x + jnp.ones(3),
        lambda x: jnp.ones(3) + x,
        lambda x: jnp.ones((3, 3)) @ x,
        lambda x: jnp.ones(3) < x,
        lambda x: jnp.add(x, 1),
        lambda x: jnp.where(jnp.ones(3) > 0, x, 0),
        lambda x: jnp.stack([x, x]),
        lambda x: jnp.concatenate([x, x]),
        lambda x: jnp.einsum("i,i", x, x),
        lambda x: jnp.reshape(x, (3, 1)),
        lambda x: jnp.zeros(3).at[:].set(x),
    ],
    ids=range(18),
)
def test_functions_of_arrays(use):
    """Called with a wrapped array as with the array, eagerly and while something is traced."""

    class Operand(Wrapped):
        __add__ = lambda self, other: self.__jax_array__() + other

    want = np.asarray(use(jnp.asarray(X)))
    np.testing.assert_allclose(np.asarray(use(Operand(jnp.asarray(X)))), want, rtol=1e-6)
    np.testing.assert_allclose(xlab.jit(lambda v: jnp.asarray(use(Operand(v))))(X), want, rtol=1e-5)


def test_derivatives_go_through():
    slope = xlab.grad(lambda v: jnp.sum(jnp.sin(Wrapped(v)) * Wrapped(v)))(X)
    np.testing.assert_allclose(slope, np.cos(X) * X + np.sin(X), rtol=1e-5)


def test_a_warm_call_compiles_once():
    calls = []
    f = xlab.jit(lambda v: (calls.append(1), v * 2)[1])
    for _ in range(3):
        np.testing.assert_allclose(f(Wrapped(jnp.asarray(X))), 2 * X)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "use",
    [xlab.vmap(lambda v: v), xlab.grad(lambda v: v), xlab.device_put],
    ids=["vmap", "grad", "device_put"],
)
def test_trees_do_not_open_them(use):
    """A transformation's arguments are trees of arrays: a class of the user's is registered, or converted by hand."""
    with pytest.raises(TypeError, match="not a valid array"):
        use(Wrapped(jnp.float32(1)))
