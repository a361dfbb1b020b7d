"""Custom calls in derivatives: batching rules, linear calls, transposes, offloading policies, mapped mesh axes."""

from __future__ import annotations

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab.custom_batching import custom_vmap

X = jnp.arange(3.0)


def with_rule(factor):
    @custom_vmap
    def f(x):
        return jnp.sin(x)

    @f.def_vmap
    def rule(size, in_batched, x):
        return jnp.cos(x) * factor, in_batched[0]
    return f


def test_a_gradient_under_vmap_uses_the_batching_rule():
    f = with_rule(10.0)
    want = -10.0 * np.sin(np.arange(3.0))
    assert float(xlab.grad(f)(0.0)) == 1.0
    np.testing.assert_allclose(xlab.vmap(xlab.grad(f))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.jit(xlab.vmap(xlab.grad(f)))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.vmap(xlab.jit(xlab.grad(f)))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.vmap(lambda x: xlab.linearize(f, x)[1](1.0))(X), want, rtol=1e-5)
    np.testing.assert_allclose(xlab.vmap(xlab.grad(xlab.grad(f)))(X), -10.0 * np.cos(np.arange(3.0)), rtol=1e-5)


def test_a_rule_that_agrees_with_its_function_changes_no_derivative():
    def body(x, w):
        return jnp.tanh(w @ x), jnp.sum(x ** 2)
    f = custom_vmap(body)

    @f.def_vmap
    def rule(size, in_batched, x, w):
        axes = tuple(0 if b else None for b in in_batched)
        return xlab.vmap(body, axes)(x, w), (True, in_batched[0])
    x, w = jnp.arange(6.0).reshape(2, 3) / 7, jnp.arange(12.0).reshape(4, 3) / 11

    def loss(fun):
        return lambda x, w: sum(o.sum() for o in fun(x, w))
    for axes in ((0, None), (None, None)):
        xs = x if axes[0] == 0 else x[0]
        for fun in (lambda g: xlab.vmap(xlab.grad(loss(g), (0, 1)), axes, axis_size=2),
                    lambda g: xlab.vmap(xlab.jit(xlab.grad(loss(g), (0, 1))), axes, axis_size=2),
                    lambda g: xlab.vmap(xlab.jacrev(xlab.grad(loss(g))), axes, axis_size=2)):
            got, want = fun(f)(xs, w), fun(body)(xs, w)
            xlab.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want)


def test_integer_results_of_a_custom_rule_can_be_batched():
    @xlab.custom_jvp
    def f(x):
        return x * 2, jnp.sum(x > 0), 3

    @f.defjvp
    def _(primals, tangents):
        zero = np.zeros((), xlab.dtypes.float0)
        return f(*primals), (tangents[0], zero, zero)
    (y, count, three), (dy, *zeros) = xlab.vmap(lambda x: xlab.jvp(f, (x,), (x,)))(jnp.ones((3, 2)))
    assert count.tolist() == [2, 2, 2] and three.tolist() == [3, 3, 3]
    assert [z.shape for z in zeros] == [(3,), (3,)] and all(z.dtype == xlab.dtypes.float0 for z in zeros)
    np.testing.assert_array_equal(dy, np.ones((3, 2)))
