"""Transposes of functions from integers to integers."""

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax

X = np.int32([4, 1, 3])
FUNCTIONS = {
    "times": lambda x: x * 2,
    "jit": xlab.jit(lambda x: x * 3 - x),
    "jit_in_jit": xlab.jit(lambda x: xlab.jit(jnp.cumsum)(x) * 2),
    "sum": lambda x: jnp.sum(x),
    "gather": lambda x: x[np.array([0, 0, 2])],
    "where": lambda x: jnp.where(np.array([True, False, True]), x, 0),
    "matrix": lambda x: jnp.arange(6).reshape(2, 3) @ x,
    "scan": lambda x: lax.scan(lambda c, a: (c + a, c + 2 * a), x[0], x)[1],
    "narrower": lambda x: x.astype(np.int8) * np.int8(2),
    "cond": lambda x: lax.cond(True, lambda x: x * 5, lambda x: x, x),
    "cond_with_floats": lambda x: lax.cond(
        jnp.array(1) > 0, lambda x: (x * 2.0).astype(int), lambda x: x * 3, x
    ),
    "cond_of_floats": lambda x: lax.cond(
        jnp.array(1) > 0,
        lambda x: (x * 2.0).astype(int),
        lambda x: x.astype(int) * 3,
        x.astype(float),
    ),
    "cond_of_floats_multiplied": lambda x: lax.cond(
        jnp.array(0) > 0,
        lambda x: (x * 2.0).astype(int),
        lambda x: x.astype(int) * 3,
        x.astype(float),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transpose_of_integers_is_that_of_the_matrix(name):
    fun = FUNCTIONS[name]
    out = np.asarray(fun(X))
    columns = [np.asarray(fun(e)).reshape(-1) for e in np.eye(3, dtype=np.int32)]
    cotangent = np.arange(1, out.size + 1, dtype=out.dtype).reshape(out.shape)
    (ct,) = xlab.linear_transpose(fun, X)(cotangent)
    assert ct.dtype == X.dtype
    np.testing.assert_array_equal(ct, np.stack(columns) @ cotangent.reshape(-1))


X_FLOAT = np.float32([1, 2, 3])
MIXED = {
    "inner_jit_of_integers": (lambda x, i: (x * 2, xlab.jit(lambda i: i * 2)(i)), (X_FLOAT, X)),
    "inner_cond_of_integers": (
        lambda x, i: (x * 2, lax.cond(True, lambda i: i * 2, lambda i: i, i)),
        (X_FLOAT, X),
    ),
    "to_float": (lambda i: (i * 2).astype(jnp.float32), (X,)),
    "to_integer": (xlab.jit(lambda x: x.astype(jnp.int32)), (X_FLOAT,)),
    "bool": (lambda b: b, (np.array([True]),)),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_function_of_integers_and_floats_has_no_transpose(name):
    """Its cotangents would be floats for integers, or of float0 where a jitted part was taken for one of integers."""
    fun, args = MIXED[name]
    with pytest.raises(TypeError, match="floats or complex numbers to such, or from integers to"):
        xlab.linear_transpose(fun, *args)


def test_an_unused_integer_gets_zeros_and_a_float_is_no_cotangent():
    transpose = xlab.linear_transpose(lambda x, y: x, X, X)
    np.testing.assert_array_equal(transpose(X)[1], [0, 0, 0])
    with pytest.raises(TypeError, match=r"cotangent of type int32\[3\], got float32"):
        transpose(np.float32([1, 2, 3]))
