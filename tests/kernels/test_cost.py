"""`CostEstimate`, `estimate_cost`, `register_cost_rule` (K54)."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.extend.core import Primitive
from xlab.kernels import (
    BlockSpec,
    CoreMesh,
    CostEstimate,
    estimate_cost,
    kernel_call,
    mpmd_map,
    register_cost_rule,
)


def cost(f, *args):
    c = estimate_cost(f, *args)
    return c.flops, c.transcendentals, c.bytes_accessed


def test_k54_fields_are_ints():
    c = CostEstimate(flops=1, transcendentals=2, bytes_accessed=3)
    assert json.loads(c.to_json()) == {
        "flops": 1, "transcendentals": 2, "bytes_accessed": 3, "remote_bytes_transferred": 0,
    }  # fmt: skip
    assert type(c.to_json()) is bytes and hash(c) == hash(CostEstimate(1, 2, 3, 0))
    for name in ("flops", "transcendentals", "bytes_accessed", "remote_bytes_transferred"):
        with pytest.raises(ValueError, match=f"ints, but {name} is 1.5 of type float"):
            CostEstimate(**{"flops": 1, "transcendentals": 2, "bytes_accessed": 3, name: 1.5})
    with pytest.raises(ValueError, match="flops is True"):
        CostEstimate(True, 0, 0)
    with pytest.raises((ValueError, TypeError), match="CostEstimate"):
        kernel_call(lambda o: None, jnp.ones(2), cost_estimate={"flops": 1})


A, B, V = jnp.ones((4, 8)), jnp.ones((8, 16)), jnp.ones(8)
CASES = {
    "sin of a product": (lambda a, b: jnp.sin(a @ b), (A, B), (1024, 64, 896)),
    "add": (lambda a: a + 1, (V,), (8, 0, 64)),
    "exp": (lambda a: jnp.exp(a), (V,), (0, 8, 64)),
    "inner jit": (lambda a: xlab.jit(lambda x: x * 2)(a), (V,), (8, 0, 64)),
    "moves": (lambda a: a.T.reshape(32), (A,), (0, 0, 256)),
    "batched product": (lambda a: jnp.matmul(a, a), (jnp.ones((3, 4, 4)),), (2 * 3 * 64, 0, 384)),
    "bfloat16": (lambda a: a + a, (V.astype("bfloat16"),), (8, 0, 32)),
    **{f"power {n}": (lambda a, n=n: lax.integer_pow(a, n), (V,), (8 * m, 0, 64)) for n, m in {2: 2, 3: 3, 4: 3, 7: 5, 8: 4, 9: 5}.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_k54_sums_of_rules(name):
    f, args, want = CASES[name]
    assert cost(f, *args) == want


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_k54_as_the_reference_counts(name):
    jax = pytest.importorskip("jax")
    pl = pytest.importorskip("jax.experimental.pallas")
    theirs = {
        "sin of a product": lambda a, b: jax.numpy.sin(a @ b), "add": lambda a: a + 1, "exp": jax.numpy.exp,
        "inner jit": lambda a: jax.jit(lambda x: x * 2)(a), "moves": lambda a: a.T.reshape(32),
        "batched product": lambda a: jax.numpy.matmul(a, a), "bfloat16": lambda a: a + a,
        **{f"power {n}": (lambda a, n=n: jax.lax.integer_pow(a, n)) for n in range(2, 10)},
    }[name]  # fmt: skip
    args = [jax.numpy.ones(x.shape, str(x.dtype)) for x in CASES[name][1]]
    c = pl.estimate_cost(theirs, *args)
    assert (c.flops, c.transcendentals, c.bytes_accessed) == CASES[name][2]


def test_k54_loops_and_branches():
    assert cost(lambda a: lax.scan(lambda c, _: (c * 2, None), a, None, length=5)[0], V)[0] == 40
    assert cost(lambda a: lax.cond(a[0] > 0, lambda x: x * x + x, lambda x: x, a), V)[:2] == (
        1 + 16,
        0,
    )
    assert cost(lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: c * 2, a), V)[0] == 8


def test_k54_reads_and_writes_of_references():
    def f(x):
        ref = xlab.new_ref(x)
        ref[0:4] = jnp.sin(ref[0:4])
        xlab.ref.addupdate(ref, slice(0, 2), jnp.ones(2))
        return None

    c = estimate_cost(f, V)
    assert (c.flops, c.transcendentals, c.bytes_accessed) == (2, 4, 32 + 16 + 16 + 2 * 8)


def test_k54_types_and_trees_are_arguments():
    struct = xlab.ShapeDtypeStruct((8,), "float32")
    assert estimate_cost(lambda t, *, k: t["a"] + k, {"a": struct}, k=struct).flops == 8


def test_k54_rules_of_ones_own():
    sorted_p = Primitive("sorted_for_cost")
    sorted_p.def_abstract_eval(lambda x, *, rounds: x)
    register_cost_rule(
        sorted_p, lambda ins, outs, *, rounds: CostEstimate(rounds * ins[0].size, 0, 0, 7)
    )
    got = estimate_cost(lambda x: sorted_p.bind(x, rounds=3), np.ones(4, np.float32))
    assert got == CostEstimate(12, 0, 32, 7)
    assert CostEstimate(1, 2, 3).times(2) + CostEstimate(1, 1, 1, 1) == CostEstimate(3, 5, 7, 1)


def test_k54_kernels_cost_what_is_stated_or_what_their_steps_do():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...]) * 2

    block = BlockSpec((4,), lambda i: (i,))
    out = xlab.ShapeDtypeStruct((8,), "float32")
    stated = CostEstimate(7, 5, 3, 2)

    def call(cost=None, grid=2):
        specs = {"grid": grid, "in_specs": [block], "out_specs": block}
        return kernel_call(kernel, out, cost_estimate=cost, interpret=True, **specs)

    # Two steps of four elements; each is read and written, as are argument and result.
    assert cost(call(), V) == (8, 8, 64 + 64)
    assert estimate_cost(call(stated), V) == CostEstimate(7, 5, 64 + 3, 2)
    assert cost(xlab.vmap(call()), jnp.ones((3, 8))) == (24, 24, 3 * 128)
    assert cost(lambda n, x: call(grid=(n,))(x), np.int32(2), V)[:2] == (4, 4)

    mesh = CoreMesh(("core",), (2,))
    assert cost(mpmd_map([(mesh, kernel)], out, interpret=True), V) == (16, 16, 64 + 128)
    told = mpmd_map([(mesh, kernel)], out, interpret=True, cost_estimate=stated)
    assert estimate_cost(told, V) == CostEstimate(7, 5, 64 + 3, 2)
