"""Host offloading in the three ways that programs do it: activations, parameters, the state of an optimizer."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.ad_checkpoint import checkpoint_name
from xlab.sharding import Mesh, NamedSharding
from xlab.sharding import PartitionSpec as P

VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)
POLICY = xlab.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["x"],
    offload_src="device",
    offload_dst="pinned_host",
)


@pytest.fixture(params=[1, 8], ids=["one device", "eight devices"])
def places(request):
    """Where arrays are on the devices, and where they are parked."""
    mesh = Mesh(np.array(xlab.devices()[: request.param]), ("x",))
    there = NamedSharding(mesh, P(None, "x"), memory_kind="device")
    return there, there.with_memory_kind("pinned_host")


def kind(x):
    return x.sharding.memory_kind


def test_programs_take_and_give_arrays_in_either_memory(places):
    device, host = places
    values = np.arange(16, dtype=np.float32).reshape(2, 8)
    on_host, on_device = xlab.device_put(values, host), xlab.device_put(values, device)
    assert (kind(on_host), kind(on_device)) == ("pinned_host", "device")
    for f, x, wanted in (
        (xlab.jit(lambda x: x, out_shardings=device), on_host, device),
        (xlab.jit(lambda x: x, out_shardings=host), on_device, host),
        (xlab.jit(lambda x: x + 0, out_shardings=device), on_host, device),
        (xlab.jit(lambda x: xlab.device_put(x, device) + 0, out_shardings=device), on_host, device),
        (xlab.jit(lambda x: xlab.device_put(x, host)), on_device, host),
    ):
        for _ in range(2):
            y = f(x)
            assert (
                y.sharding.is_equivalent_to(wanted, 2) and kind(x) != kind(y) == wanted.memory_kind
            )
            np.testing.assert_array_equal(y, values)


def layer(x, w):
    first, second = w
    x = checkpoint_name(x, "x")
    return jnp.tanh(x @ first) @ second, None


def loss(body, w, x):
    return lax.scan(xlab.checkpoint(body, policy=POLICY, prevent_cse=False), x, w)[0].sum()


WEIGHTS = (
    np.linspace(-1, 1, 3 * 8 * 16, dtype=np.float32).reshape(3, 8, 16),
    np.linspace(1, -1, 3 * 16 * 8, dtype=np.float32).reshape(3, 16, 8),
)
X = np.linspace(0, 1, 4 * 8, dtype=np.float32).reshape(4, 8)


def plain():
    return xlab.jit(xlab.grad(lambda w, x: lax.scan(layer, x, w)[0].sum()))(WEIGHTS, X)


def test_named_activations_wait_on_the_host_for_the_backward_pass():
    slope = xlab.grad(lambda w, x: loss(layer, w, x))
    text = str(xlab.make_jaxpr(slope)(WEIGHTS, X))
    assert "f32<host>[3,4,8]" in text, "the stack of the named values"
    assert "f32<host>[3,4,16]" not in text, "what has no name is computed again"
    for got, wanted in zip(xlab.jit(slope)(WEIGHTS, X), plain(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    memory = xlab.jit(slope).lower(WEIGHTS, X).compile().memory_analysis()
    assert memory.temp_size_in_bytes > 0 and memory.argument_size_in_bytes > 0


def test_parameters_are_fetched_layer_by_layer_and_their_gradients_go_back(places):
    device, host = places

    def fetched(x, w):
        return layer(x, xlab.tree.map(lambda v: xlab.device_put(v, device), w))

    weights = [xlab.device_put(w, host) for w in WEIGHTS]
    got = xlab.jit(xlab.grad(lambda w, x: loss(fetched, w, x)))(tuple(weights), X)
    assert [kind(g) for g in got] == ["pinned_host"] * 2
    for g, wanted in zip(got, plain(), strict=True):
        np.testing.assert_allclose(g, wanted, rtol=1e-5, atol=1e-5)


def test_the_state_of_an_optimizer_is_on_the_device_within_a_step_only(places):
    device, host = places
    values = np.arange(16, dtype=np.float32).reshape(2, 8)

    def update(params, state):
        slope = xlab.grad(lambda p: (p * p).sum())(params)
        moment = 0.9 * xlab.device_put(state, device) + slope
        return params - 0.1 * moment, moment

    step = xlab.jit(update, donate_argnums=0, out_shardings=(device, host))
    params, state = xlab.device_put(values, device), xlab.device_put(np.zeros_like(values), host)
    wanted, moment = values, np.zeros_like(values)
    for _ in range(3):
        before = params
        params, state = step(params, state)
        moment = 0.9 * moment + 2 * wanted
        wanted = wanted - 0.1 * moment
        assert before.is_deleted() and (kind(params), kind(state)) == ("device", "pinned_host")
        np.testing.assert_allclose(params, wanted, rtol=1e-6)
        np.testing.assert_allclose(state, moment, rtol=1e-6)
