"""References to values of hi types: read and written as a whole, in and outside of programs."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental.hi_values import vectors
from xlab import lax

V = vectors("xlab")
U, W = V.Vec(jnp.float32([1.0, 2.0])), V.Vec(jnp.float32([3.0, 4.0]))


def square(ref):
    u = ref[...]
    ref[...] = V.mul(u, u)
    return V.of(u)


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_it_is_read_and_written(wrap):
    ref = xlab.new_ref(U)
    np.testing.assert_array_equal(wrap(square)(ref), [1, 2])
    np.testing.assert_array_equal(V.of(ref[...]), [1, 4])
    old = wrap(lambda ref: V.of(ref.swap(W)))(ref)
    np.testing.assert_array_equal(old, [1, 4])
    np.testing.assert_array_equal(xlab.ref.freeze(ref).arr, [3, 4])


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_one_made_inside(wrap):
    def f(x):
        ref = xlab.new_ref(V.to(x))
        lax.fori_loop(0, 2, lambda i, c: (square(ref), c)[1], 0)
        ref.set(V.mul(ref.get(), V.to(x)))
        return V.of(xlab.ref.freeze(ref))

    np.testing.assert_array_equal(wrap(f)(jnp.float32([1.0, 2.0])), [1, 32])
    _, dot = xlab.jvp(wrap(f), (jnp.float32([1.0, 2.0]),), (jnp.ones(2),))
    np.testing.assert_array_equal(dot, [5, 80])


def test_programs_say_so():
    text = str(xlab.make_jaxpr(square)(xlab.new_ref(U)))
    assert "Ref{vectors.<locals>.VecType(shape=(2,))}{f32[2]}" in text and "swap_hi_ref" in text


def test_what_cannot_be_done():
    ref = xlab.new_ref(U)
    with pytest.raises(TypeError, match="read and written as a whole"):
        ref[0]
    with pytest.raises(
        TypeError, match="holds a value of type .*VecType.*was given one of type float32"
    ):
        xlab.jit(lambda ref: ref.set(jnp.ones(2)))(ref)
    with pytest.raises(ValueError, match="a value with a derivative was stored"):
        xlab.grad(lambda x: (ref.set(V.to(x)), x.sum())[1])(jnp.ones(2))
