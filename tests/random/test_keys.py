"""Arrays of keys: where they lie, and what may be done with them."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import numpy as jnp
from xlab import random


def words(keys):
    return np.asarray(random.key_data(keys))


def test_keys_say_where_they_lie():
    """Shardings and shards are those of the keys, not of the words they are made of."""
    if xlab.device_count() < 8:
        pytest.skip("needs eight devices")
    mesh = xlab.make_mesh((8,), ("i",))
    whole = random.split(random.key(0), (2, 8))
    where = xlab.sharding.NamedSharding(mesh, xlab.P(None, "i"))
    keys = xlab.device_put(whole, where)
    assert keys.sharding == where and keys.sharding.is_equivalent_to(where, keys.ndim)
    assert xlab.device_put(whole, keys.sharding).sharding == where
    assert xlab.jit(lambda k: k)(keys).sharding == where
    shards = keys.addressable_shards
    assert [s.device for s in shards] == list(mesh.devices.flat) and [
        s.replica_id for s in shards
    ] == [0] * 8
    for i, shard in enumerate(shards):
        assert shard.index == (slice(None), slice(i, i + 1)) and shard.data.shape == (2, 1)
        np.testing.assert_array_equal(words(shard.data), words(whole)[shard.index])
    np.testing.assert_array_equal(words(keys.addressable_data(3)), words(shards[3].data))
    assert [s.data.shape for s in keys.global_shards] == [(2, 1)] * 8
    assert (keys.is_fully_replicated, whole.is_fully_replicated, keys.is_fully_addressable) == (
        False,
        True,
        True,
    )
    assert keys.devices() == set(mesh.devices.flat) and keys.device == where
    assert whole.devices().pop() == whole.device  # a set of one's own, from which one may take
    assert whole.on_device_size_in_bytes() == whole.nbytes == 2 * 8 * 8
    assert (
        whole.copy_to_host_async() is None
        and whole.unsafe_buffer_pointer() == random.key_data(whole).unsafe_buffer_pointer()
    )


def test_keys_stay_keys_on_the_way_to_the_host():
    state = {"key": random.key(3), "x": xlab.numpy.ones(2)}
    got = xlab.device_get(state)
    assert isinstance(got["x"], np.ndarray) and got["key"] is state["key"]


def test_keys_cannot_be_padded():
    keys = random.split(random.key(0), 3)
    with pytest.raises(TypeError, match=r"pad does not take random keys such as key<fry>\[3\]"):
        xlab.lax.pad(keys, keys[0], [(1, 1, 0)])


def test_keys_have_what_only_moves_elements():
    """These the reference has for traced keys alone."""
    keys = random.split(random.key(0), (2, 3))
    data = words(keys)
    np.testing.assert_array_equal(words(keys.mT), data.swapaxes(0, 1))
    np.testing.assert_array_equal(words(keys.repeat(2, axis=0)), data.repeat(2, axis=0))
    np.testing.assert_array_equal(words(keys.diagonal()), data[[0, 1], [0, 1]])
    np.testing.assert_array_equal(words(keys.compress(np.array([True, False]), axis=0)), data[:1])


@pytest.mark.parametrize("devices", [1, 8])
def test_the_compiler_hashes_a_key_once(devices):
    """However many draws take a part of what a key was split into: the rounds are not fused into each of them."""
    if xlab.device_count() < devices:
        pytest.skip("needs eight devices")

    def draws(key, x):
        first, *others = random.split(random.fold_in(key, 1), 6)
        return sum(random.normal(k, x.shape) for k in others) + x, random.uniform(first)

    mesh = xlab.make_mesh((devices,), ("i",), devices=xlab.devices()[:devices])
    x = xlab.device_put(np.ones(8, np.float32), xlab.sharding.NamedSharding(mesh, xlab.P("i")))
    compiled = xlab.jit(draws).lower(random.key(0), x).compile()
    computations = [
        body
        for body in compiled.as_text().split("\n\n")
        if "random_split" in body or "random_fold_in" in body
    ]
    hashing = [
        body
        for body in computations
        if body.count("shift-left(") >= 20 and "random_bits" not in body
    ]
    assert len(hashing) == 2  # one for the split, one for the number folded in
    for body in computations:
        if "random_bits" in body:
            assert not any(
                "shift-left(" in line and "random_bits" not in line for line in body.splitlines()
            )
    np.testing.assert_allclose(compiled(random.key(0), x)[0], draws(random.key(0), x)[0], atol=1e-6)


def test_the_compiler_draws_bits_once():
    """However many operations read a mask, and in whichever shape: each of them would run all rounds again for every element of its own."""

    def loss(w, key, x):
        kept = random.bernoulli(key, 0.9, (1, 32))
        h = jnp.where(kept, jnp.tanh(x @ w) / 0.9, 0) @ w.T
        return (h * h).sum()

    x, w = np.ones((64, 8), np.float32), np.ones((8, 32), np.float32)
    text = xlab.jit(xlab.grad(loss)).lower(w, random.key(0), x).compile().as_text()
    assert sum(body.count("shift-left(") >= 20 for body in text.split("\n\n")) == 1


def test_what_one_call_does_with_a_key_is_compiled_in_place():
    program = xlab.jit(lambda data: random.key_data(random.split(random.wrap_key_data(data), 3)))
    assert "call" not in program.lower(words(random.key(0))).as_text()
