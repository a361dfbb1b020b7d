"""Arrays whose tangents have another dtype, outside of programs and under transformations: the reference has them in programs only."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core import ShapedArray
from xlab.experimental import EArray, primal_tangent_dtype

Q = primal_tangent_dtype(jnp.int8, jnp.float32)
X = jnp.int8([3, -2, 7]).astype(Q)


@xlab.custom_vjp
def opened(x):
    return jnp.int8(x) * jnp.float32(0.5)


opened.defvjp(lambda x: (opened(x), None), lambda _, g: (g * 0.5,))


def test_gradients_are_of_the_tangent_dtype():
    loss = lambda x: (opened(x) ** 2).sum()
    for f in (xlab.grad(loss), xlab.jit(xlab.grad(loss)), xlab.grad(xlab.jit(loss))):
        g = f(X)
        assert g.dtype == np.float32
        np.testing.assert_array_equal(g, np.float32([3, -2, 7]) * 0.5)
    np.testing.assert_array_equal(xlab.vmap(xlab.grad(loss))(X), g)
    assert xlab.typeof(X).to_tangent_aval() == ShapedArray((3,), jnp.float32)


def test_through_loops_and_branches():
    def loss(x):
        x, ys = lax.scan(lambda x, _: (x, opened(x)), x, None, length=2)
        return (ys.sum() + opened(lax.cond(ys[0, 0] > 0, lambda x: x, lambda x: x[::-1], x))).sum()

    np.testing.assert_array_equal(xlab.grad(loss)(X), xlab.jit(xlab.grad(loss))(X))


def test_operations_that_move_elements():
    int8 = lambda x: x.astype("int8").tolist()
    assert isinstance(X, EArray) and int8(X) == [3, -2, 7]
    assert int8(X[1:]) == [-2, 7] and int8(X.reshape(3, 1)[:, 0]) == [3, -2, 7]
    assert int8(jnp.stack([X, X])[1]) == int8(jnp.concatenate([X, X])[3:]) == [3, -2, 7]
    assert int8(jnp.where(jnp.array([True, False, True]), X, X[::-1])) == [3, -2, 7]
    assert int8(xlab.device_put(X, xlab.devices()[1])) == [3, -2, 7]
    assert int8(jnp.zeros(2, Q)) == [0, 0]
    assert repr(X) == "EArray([ 3, -2,  7], dtype=PrimalTangentDType{i8/f32})"


def test_what_it_is_not():
    assert not isinstance(xlab.random.key(0), EArray) and not isinstance(jnp.ones(3), EArray)
    with pytest.raises(TypeError, match=r"cannot become a NumPy array.*x.astype\('int8'\)"):
        np.asarray(X)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(X[0])
    with pytest.raises(TypeError):
        X + X
    with pytest.raises(ValueError, match="converted to and from that alone"):
        X.astype("float32")


def test_bad_input():
    with pytest.raises(TypeError, match="tangents are real or complex numbers.*got int8"):
        primal_tangent_dtype("int8", "int8")
    with pytest.raises(TypeError, match="two dtypes that arrays can have"):
        primal_tangent_dtype(Q, "float32")
    with pytest.raises(TypeError, match="EArray takes a type with an extended dtype"):
        EArray(ShapedArray((3,), jnp.int8), jnp.zeros(3, "int8"))
    with pytest.raises(TypeError, match="was expected, and this data makes one of"):
        EArray(ShapedArray((2,), Q), jnp.zeros(3, "int8"))


def test_it_is_copied_and_pickled():
    assert pickle.loads(pickle.dumps(Q)) == copy.deepcopy(Q) == Q
