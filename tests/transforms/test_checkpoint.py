"""`checkpoint` of functions with mutable references: what touches them runs in both passes, whatever the policy saves."""

from __future__ import annotations

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
