"""Known ways to divide work have names, in the programs that are built of them."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import P, observe
from xlab.observe.records.text import text
from xlab.sharding import AxisType, make_mesh

X = np.ones((8, 16), np.float32)


def test_the_sum_of_gradients_over_devices_is_no_finding(put):
    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    w, x = put(np.ones((16, 4), np.float32)), put(X, "data")
    found = observe.findings(xlab.jit(xlab.grad(loss)), w, x)
    assert found == ()
    assert [(p.name, p.axes, p.count) for p in found.patterns] == [
        ("data-parallel gradient sum", ("data",), 1)
    ]
    assert "data-parallel gradient sum over data: 1 collective" in text(found.patterns[0])


def test_a_loss_that_is_summed_along_with_gradients_does_not_name_them(put):
    """The compiler puts the sum of the loss and those of all gradients into one instruction."""

    def loss(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    params, x = [put(np.ones((16, 16), np.float32))] * 3, put(np.ones((8, 16), np.float32), "data")
    found = observe.findings(xlab.jit(xlab.value_and_grad(loss)), params, x)
    assert {p.name for p in found.patterns} == {"data-parallel gradient sum"}


def test_the_sum_of_a_row_parallel_product_is_no_finding(put):
    x, w = put(X, None, "model"), put(np.ones((16, 4), np.float32), "model", None)
    found = observe.findings(xlab.jit(lambda x, w: x @ w), x, w)
    assert found == () and [p.name for p in found.patterns] == ["row-parallel product"]


def test_fsdp_gathers_and_what_the_user_wrote_have_names(put):
    lies = put(X, "data").sharding
    held = lambda x: xlab.lax.with_sharding_constraint(x, lies)

    def layers(ws, x):
        return xlab.lax.scan(lambda h, w: (held(jnp.tanh(h @ w)), None), x, ws)[0]

    ws, x = put(np.ones((3, 16, 16), np.float32), None, "data"), put(np.ones((64, 16)), "data")
    found = observe.findings(xlab.jit(layers), ws, x, tries=0)
    assert [p.name for p in found.patterns] == ["FSDP gather"]
    assert (found.collectives, found.surprises) == (1, 0)


def test_weights_that_are_gathered_in_the_place_of_an_operand_are_not_told_as_its_rebuilding():
    """Of a small batch the partitioner says that the operand has to move, and then the compiler brings the weights together."""
    mesh = make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows = lambda n, m: xlab.device_put(
        jnp.ones((n, m)), xlab.sharding.NamedSharding(mesh, P("data", None))
    )

    def loss(params, x, y):
        h = x
        for w in params:
            h = jnp.tanh(h @ w)
        return jnp.mean((h - y) ** 2)

    f = xlab.jit(xlab.grad(loss))
    args = [rows(64, 64), rows(64, 64)], rows(8, 64), rows(8, 64)
    gathered = [
        t
        for t in observe.transfers(f, *args, tries=0)
        if t.kind == "all_gather" and t.bytes_out == 64 * 64 * 4
    ]
    assert [t.value for t in gathered] == ["params[0]", "params[1]"]
    assert all("the compiler brings `params" in t.reason for t in gathered)
    assert not any(t.full_rematerialization or "rebuilds" in t.reason for t in gathered)
    assert all(
        t.pattern == "FSDP gather" and "partitioner: FSDP gather" in text(t) for t in gathered
    )
    found = observe.findings(f, *args, tries=0)
    assert ("FSDP gather", 2) in [(p.name, p.count) for p in found.patterns]
    assert not [f for f in found if f.kind == "full rematerialization"]


def named(f, *args, n=3):
    mesh = make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    mapped = xlab.shard_map(f, mesh=mesh, in_specs=(P("d"),) * n, out_specs=P("d"), check_vma=False)
    found = observe.findings(xlab.jit(mapped), *args, tries=0)
    assert found.surprises == 0
    return sorted({p.name for p in found.patterns})


RING = [(i, (i + 1) % 4) for i in range(4)]


def test_patterns_that_are_written_in_shard_map_have_names():
    lax = xlab.lax
    send = lambda x: lax.ppermute(x, "d", RING)

    def ring_attention(q, k, v):
        def turn(_, c):
            k, v, o = c
            return send(k), send(v), o + jnp.exp(q @ k.T) @ v

        return lax.fori_loop(0, 4, turn, (k, v, jnp.zeros_like(q)))[2]

    def pipeline(w, x, _):
        return lax.fori_loop(0, 4, lambda i, h: send(jnp.tanh(h @ w.T)), x)

    def halo(x, *_):
        return x + send(x[-1:])

    def experts(x, w, _):
        there = lax.all_to_all(x, "d", 0, 0, tiled=True)
        return lax.all_to_all(jnp.tanh(there @ w.T), "d", 0, 0, tiled=True)

    def sequence(x, w, _):
        whole = lax.all_gather(x * 2, "d", axis=0, tiled=True)
        return lax.psum_scatter(jnp.tanh(whole @ w.T), "d", tiled=True)

    a = np.ones((16, 4), np.float32)
    assert named(ring_attention, a, a, a) == ["ring attention"]
    assert named(pipeline, a, a, a) == ["pipeline sends"]
    assert named(halo, a, a, a) == ["halo exchange"]
    assert named(experts, a, a, a) == ["expert all-to-all"]
    assert "sequence parallelism" in named(sequence, a, a, a)


def _over_experts(put):
    def layer(x, w):
        sent = xlab.lax.with_sharding_constraint(jnp.moveaxis(x, 1, 0), lies)
        return jnp.tanh(jnp.einsum("egd,edh->egh", sent, w)).sum((0, 1))

    x, w = (put(np.ones(s, np.float32), "data") for s in ((32, 32, 64), (32, 64, 16)))
    lies = w.sharding
    return layer, (x, w)


def _in_sequence(put):
    def layer(w, x):
        h = xlab.lax.with_sharding_constraint(jnp.tanh(x), lies)
        return jnp.tanh(h @ w[0]) @ w[1]

    w = np.ones((32, 256), np.float32)
    x = put(np.ones((4, 4, 32), np.float32), "data", "model")
    lies = x.sharding
    return layer, ((put(w, None, "model"), put(w.T, "model")), x)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (_over_experts, ["expert all-to-all", "expert combine"]),
        (_in_sequence, ["row-parallel product", "sequence parallelism"]),
    ],
    ids=["experts", "sequence"],
)
def test_patterns_that_the_partitioner_made_have_names(put, made, names):
    f, args = made(put)
    found = observe.findings(xlab.jit(f), *args, tries=0)
    assert sorted(p.name for p in found.patterns) == names
    assert (found.collectives, found.surprises) == (2, 0)


def test_edges_to_neighbors_have_a_name(put):
    image = put(np.ones((2, 3, 16, 16), np.float32), None, None, "data")
    conv = lambda x, f: xlab.lax.conv(x, f, (1, 1), "SAME")
    found = observe.findings(xlab.jit(conv), image, np.ones((3, 3, 3, 3), np.float32), tries=0)
    assert [p.name for p in found.patterns] == ["halo exchange"] and found.surprises == 0


def _normed(h, axes):
    mean = h.mean(axes, keepdims=True)
    return (h - mean) / jnp.sqrt(((h - mean) ** 2).mean(axes, keepdims=True) + 1e-5)


def _channels_first(x, f):
    return _normed(xlab.lax.conv(x, f, (1, 1), "SAME"), (0, 2, 3))


def _channels_last(x, f):
    return _normed(jnp.moveaxis(xlab.lax.conv(x, f, (1, 1), "SAME"), 1, -1), (0, 1, 2))


IMAGES = ((np.ones((8, 3, 8, 8), np.float32), "data"), (np.ones((5, 3, 3, 3), np.float32),))
ROWS = (X, "data"), (np.ones((16, 4), np.float32),)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [(lambda x, w: _normed(jnp.tanh(x @ w), 0), ROWS), (_channels_first, IMAGES), (_channels_last, IMAGES)],
    ids=["rows", "channels first", "channels last"],
)  # fmt: skip
def test_mean_and_variance_over_the_examples_of_a_batch_have_a_name(put, f, arguments):
    found = observe.findings(xlab.jit(f), *(put(*a) for a in arguments), tries=0)
    assert [(p.name, p.axes, p.count) for p in found.patterns] == [
        ("batch statistics", ("data",), 2)
    ]
    assert found == () and found.surprises == 0


def test_a_mean_over_features_is_no_batch_statistics(put):
    x, w = put(X, "data"), put(np.ones((16, 4), np.float32), None, "model")
    f = xlab.jit(lambda x, w: _normed(jnp.tanh(x @ w), -1))
    assert "batch statistics" not in {p.name for p in observe.findings(f, x, w, tries=0).patterns}
