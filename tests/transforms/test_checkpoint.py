"""`checkpoint` of functions with mutable references: what touches them runs in both passes, whatever the policy saves."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp

POLICIES = {
    "none": None,
    "everything": xlab.checkpoint_policies.everything_saveable,
    "nothing": xlab.checkpoint_policies.nothing_saveable,
    "reads": lambda prim, *_, **__: prim.name == "get",
    "writes": lambda prim, *_, **__: prim.name in ("swap", "new_ref"),
    "values": lambda prim, *_, **__: prim.name == "sin",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_references_inside(policy):
    def f(x):
        ref = xlab.new_ref(jnp.zeros(3))
        ref[...] = jnp.sin(x)
        y = ref[...]
        ref[...] = y * y
        ref[1] = y[0] + ref[1]
        return (jnp.cos(ref[...]) * y).sum()

    x = np.arange(3, dtype=np.float32)
    got = xlab.grad(xlab.checkpoint(f, policy=POLICIES[policy]))(x)
    np.testing.assert_allclose(got, xlab.grad(f)(x), rtol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_references_with_known_values_in_an_unknown_function(policy):
    def f(x, y):
        ref = xlab.new_ref(jnp.sin(y))
        ref[0] = ref[1] * 2
        return (jnp.sin(x) * ref[...]).sum()

    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    got = xlab.grad(xlab.checkpoint(f, policy=POLICIES[policy]))(x, y)
    np.testing.assert_allclose(got, xlab.grad(f)(x, y), rtol=1e-5)


class TestStaticArguments:
    @staticmethod
    def counted(**options):
        traced = []

        @functools.partial(xlab.checkpoint, **options)
        def f(x, n, *, mode="a"):
            traced.append((n, mode))
            return x * n

        return f, traced

    def test_each_value_is_traced_once(self):
        f, traced = self.counted(static_argnums=1, static_argnames="mode")
        for _ in range(2):
            for n in (2, 3, 2.0, True):
                assert float(f(1.5, n)) == 1.5 * n
            assert float(f(1.5, 2, mode="b")) == 3.0
            assert float(xlab.grad(f)(1.5, 3)) == 3.0
        assert [(type(n), n, mode) for n, mode in traced] == [
            (int, 2, "a"), (int, 3, "a"), (float, 2.0, "a"), (bool, True, "a"), (int, 2, "b")
        ]  # fmt: skip

    def test_from_the_end_and_by_name(self):
        f, traced = self.counted(static_argnums=-1)
        assert [float(f(1.5, n)) for n in (2, 2, 3)] == [3.0, 3.0, 4.5] and len(traced) == 2
        f, traced = self.counted(static_argnames="n")
        assert [float(f(1.5, 2)), float(f(1.5, n=2)), float(f(1.5, n=2))] == [3.0] * 3
        assert len(traced) == 2

    def test_values_without_a_hash_are_traced_every_time(self):
        f = xlab.checkpoint(lambda x, shape: x.reshape(shape), static_argnums=1)
        for shape in ([2, 3], [3, 2], [2, 3]):
            assert f(np.arange(6.0, dtype=np.float32), shape).shape == tuple(shape)
