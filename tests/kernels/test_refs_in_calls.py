"""Kernel calls on references inside other programs: loops, branches, maps, derivatives, in both modes (K2a, K14, K55)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.kernels import BlockSpec, kernel_call

OUT = xlab.ShapeDtypeStruct((8,), "float32")
BLOCK = BlockSpec((4,), lambda i: (i,))
X = jnp.arange(8.0) / 4
MODES = pytest.mark.parametrize("mode", [True, "value"])


def step(r, o):
    """Adds one to the reference, and gives twice what it is then."""
    r[...] = r[...] + 1
    o[...] = r[...] * 2


def on_argument(mode):
    return kernel_call(step, OUT, grid=2, in_specs=[BLOCK], out_specs=BLOCK, interpret=mode)


def accumulate(ref, mode):
    def body(x, o):
        ref[...] += x[...]
        o[...] = ref[...]

    return kernel_call(body, OUT, interpret=mode)


@MODES
@pytest.mark.parametrize("size", [1, 3])
def test_k55_a_batched_reference_as_argument(mode, size):
    ref = xlab.new_ref(jnp.zeros((size, 8)))
    np.testing.assert_array_equal(xlab.vmap(on_argument(mode))(ref), np.full((size, 8), 2))
    np.testing.assert_array_equal(ref[...], np.ones((size, 8)))
    columns = xlab.new_ref(jnp.zeros((8, size)))
    np.testing.assert_array_equal(xlab.vmap(on_argument(mode), 1)(columns), np.full((size, 8), 2))
    np.testing.assert_array_equal(columns[...], np.ones((8, size)))


def test_k55_derivatives_with_a_reference_as_argument():
    def f(x):
        ref = xlab.new_ref(x)
        y = on_argument(True)(ref)
        return y, ref[...]

    (y, last), (dy, dlast) = xlab.jvp(f, (X,), (X + 2,))
    np.testing.assert_allclose(y, 2 * (X + 1), rtol=1e-6)
    np.testing.assert_allclose(last, X + 1, rtol=1e-6)
    np.testing.assert_allclose(dy, 2 * (X + 2), rtol=1e-6)
    np.testing.assert_allclose(dlast, X + 2, rtol=1e-6)
    np.testing.assert_allclose(xlab.linearize(f, X)[1](X + 2)[0], 2 * (X + 2), rtol=1e-6)


def in_scan(x, mode=True):
    ref = xlab.new_ref(x)
    kernel = accumulate(ref, mode)
    last, sums = lax.scan(lambda c, _: (kernel(c), c.sum()), x, None, length=3)
    return last, sums, ref[...]


def doubled(x):
    """The same without references."""
    last, sums = lax.scan(lambda c, _: (c * 2, c.sum()), x, None, length=3)
    return last, sums, last


@MODES
def test_k14_a_captured_reference_in_a_scan(mode):
    for g, w in zip(xlab.jit(lambda x: in_scan(x, mode))(X), doubled(X)):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_k14_its_transformations():
    batch = jnp.stack([X, X + 1])
    for transform in (lambda f: xlab.vmap(f)(batch), lambda f: xlab.jvp(f, (X,), (X + 1,))):
        got, want = xlab.tree.leaves(transform(in_scan)), xlab.tree.leaves(transform(doubled))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)
    kept = lambda x: (in_scan(lax.stop_gradient(x))[0] * x).sum()
    np.testing.assert_allclose(xlab.grad(kept)(X), doubled(X)[0], rtol=1e-6)


@MODES
@pytest.mark.parametrize("taken", [True, False])
def test_k14_a_captured_reference_in_a_branch(mode, taken):
    def f(pred, x):
        ref = xlab.new_ref(x)
        y = lax.cond(pred, accumulate(ref, mode), lambda x: x, x)
        return y, ref[...]

    for part in xlab.jit(f)(taken, X):
        np.testing.assert_allclose(part, X * 2 if taken else X, rtol=1e-6)


@MODES
def test_k55_part_of_a_captured_reference(mode):
    ref = xlab.new_ref(jnp.zeros((4, 4)))

    def body(o):
        ref[1] = jnp.ones(4)
        o[0] = ref[1, 2] + ref[2, 0]

    got = kernel_call(body, xlab.ShapeDtypeStruct((1,), "float32"), interpret=mode)()
    np.testing.assert_array_equal(got, [1])
    np.testing.assert_array_equal(ref[...], np.eye(4)[1][:, None] * np.ones(4))


def test_k11_a_view_is_no_argument():
    ref = xlab.new_ref(jnp.zeros((4, 8)))
    with pytest.raises(TypeError, match=r"view of a reference.*read it first, as view\[...\]"):
        on_argument(True)(ref.at[1])
