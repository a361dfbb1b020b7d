"""Operators and methods of arrays: concrete, traced, of keys."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp

X = np.float32([[1, -2, 3], [4, 5, -6]])
OPERATORS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "mod": lambda x, y: x % y, "floordiv": lambda x, y: x // y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "divmod": divmod}
METHODS = {
    "sum": lambda x: x.sum(axis=0), "mean": lambda x: x.mean(), "max": lambda x: x.max(1), "std": lambda x: x.std(),
    "reshape": lambda x: x.reshape(3, -1), "reshape_tuple": lambda x: x.reshape((6,)), "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(1, 0), "swapaxes": lambda x: x.swapaxes(0, 1), "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(), "clip": lambda x: x.clip(-1, 1), "round": lambda x: x.round(), "argmax": lambda x: x.argmax(),
    "astype": lambda x: x.astype("int32"), "real": lambda x: x.real, "repeat": lambda x: x.repeat(2), "neg": lambda x: -x,
    "abs": abs, "pos": lambda x: +x, "copy": lambda x: x.copy(), "view": lambda x: x.view("int32"), "take": lambda x: x.take(np.array(1)),
    "view_smaller": lambda x: x.view("uint8"), "diagonal": lambda x: x.diagonal(), "dot": lambda x: x.dot(np.float32([1, 2, 3])),
    "any": lambda x: (x > 4).any(), "all": lambda x: (x > 4).all(axis=1), "invert": lambda x: ~(x > 0)}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", [2.0, np.float32(2), np.float32([2, 4, 3])], ids=["python", "scalar", "array"])
def test_operators_on_both_sides(name, other):
    f, x = OPERATORS[name], jnp.asarray(X)
    for args, expected in (((x, other), f(X, other)), ((other, x), f(other, X))):
        np.testing.assert_allclose(f(*args), expected, rtol=1e-6)
        np.testing.assert_allclose(xlab.jit(lambda a, args=args: f(*(a if v is x else v for v in args)))(x), expected, rtol=1e-6)
        out = f(*args)
        assert isinstance(out[0] if isinstance(out, tuple) else out, xlab.Array)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    f, expected = METHODS[name], METHODS[name](X)
    for out in (f(jnp.asarray(X)), xlab.jit(f)(X)):
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        assert out.shape == expected.shape


def test_other_classes_are_asked():
    class Other:
        def __radd__(self, x):
            return "other"
    x = jnp.arange(3)
    assert x + Other() == "other"
    assert (x == "text") is False and (x != "text") is True
    for bad in ([1], "text", None):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + bad


def test_integer_operators():
    a, b = np.int32([5, -7, 2]), np.int32([2, 3, 1])
    x, y = jnp.asarray(a), jnp.asarray(b)
    for f in (lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: x << y, lambda x, y: ~x,
              lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x ** y):
        np.testing.assert_array_equal(f(x, y), f(a, b))


def test_rounding_and_membership():
    assert round(jnp.float32(2.5)).dtype == np.int32
    assert float(round(jnp.float32(2.567), 1)) == pytest.approx(2.6)
    assert 3 in jnp.arange(5) and 9 not in jnp.arange(5)


def test_arrays_do_not_change():
    x = jnp.arange(3)
    with pytest.raises(TypeError, match="immutable"):
        x[0] = 1
    with pytest.raises(TypeError, match="immutable"):
        del x[0]
    with pytest.raises(TypeError, match="immutable"):
        xlab.jit(lambda x: x.__setitem__(0, 1))(x)


def test_keys_are_indexed_and_shaped():
    keys = xlab.random.split(xlab.random.key(0), 6)
    assert keys.reshape(2, -1).shape == (2, 3) and keys[1:3].shape == (2,) and keys[None].shape == (1, 6)
    assert keys.reshape(2, 3).T[1, 0] == keys[1]
    assert len(list(keys)) == 6 and list(keys)[2] == keys[2]
    np.testing.assert_array_equal(keys == keys[2], np.arange(6) == 2)
    assert keys.at[0].set(keys[3])[0] == keys[3]
    out = xlab.jit(lambda ks, i: xlab.random.key_data(ks[i]))(keys, 4)
    np.testing.assert_array_equal(out, xlab.random.key_data(keys[4]))
