"""Guards against transfers: which level refuses what, in this thread and for the process."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P

HOST = np.ones(3, np.float32)
double = xlab.jit(lambda x: 2 * x)


def everywhere():
    return NamedSharding(xlab.make_mesh((8,), ("i",)), P())


ACTIONS = {
    "put": lambda x: xlab.device_put(HOST),
    "asarray": lambda x: jnp.asarray(HOST),
    "jit": lambda x: double(HOST),
    "scalar": lambda x: double(3.0),
    "read": lambda x: np.asarray(x),
    "get": lambda x: xlab.device_get(x),
    "move": lambda x: xlab.device_put(x, xlab.devices()[1]),
    "reshard": lambda x: xlab.jit(lambda a: a, in_shardings=everywhere())(x),
    "plain": lambda x: double(x),
}
INTO, AMONG = {"asarray", "jit", "scalar"}, {"reshard"}
REFUSED = {
    ("transfer_guard", "allow"): set(),
    ("transfer_guard", "disallow"): INTO | AMONG,
    ("transfer_guard", "disallow_explicit"): INTO | AMONG | {"put", "move"},
    ("transfer_guard_host_to_device", "disallow"): INTO,
    ("transfer_guard_host_to_device", "disallow_explicit"): INTO | {"put"},
    ("transfer_guard_device_to_device", "disallow"): AMONG,
    ("transfer_guard_device_to_device", "disallow_explicit"): AMONG | {"move"},
    ("transfer_guard_device_to_host", "disallow_explicit"): set(),
}


def was_refused(action) -> bool:
    try:
        action()
    except xlab.errors.JaxRuntimeError as e:
        return "Disallowed" in str(e)
    return False


@pytest.mark.parametrize(("guard", "level"), REFUSED)
def test_levels(guard, level):
    x = jnp.arange(3.0)
    double(x)
    refused = set()
    with getattr(xlab, guard)(level):
        for name, action in ACTIONS.items():
            if was_refused(lambda action=action: xlab.block_until_ready(action(x))):
                refused.add(name)
    assert refused == REFUSED[guard, level]
    for action in ACTIONS.values():
        action(x)


def test_guards_nest_and_decorate():
    @xlab.transfer_guard("allow")
    def inner():
        return double(HOST)

    with xlab.transfer_guard("disallow"):
        with pytest.raises(xlab.errors.JaxRuntimeError):
            double(HOST)
        with xlab.transfer_guard_host_to_device("allow"):
            double(HOST)
        inner()
        assert xlab.config.transfer_guard_host_to_device == "disallow"
    assert xlab.config.transfer_guard_host_to_device == "allow"
    with pytest.raises(ValueError, match="disallow_explicit"):
        xlab.transfer_guard("never")


def test_a_guard_is_for_its_thread_and_the_option_for_all():
    errors: list = []

    def work():
        try:
            double(HOST)
        except xlab.errors.JaxRuntimeError as e:
            errors.append(e)

    def run():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with xlab.transfer_guard("disallow"):
        run()
    assert not errors
    xlab.config.update("jax_transfer_guard", "disallow")
    try:
        assert xlab.config.transfer_guard_device_to_device == "disallow"
        run()
    finally:
        xlab.config.update("jax_transfer_guard", "allow")
    assert len(errors) == 1
    run()
    assert len(errors) == 1


def test_what_the_runtime_needs_is_not_refused():
    x = jnp.arange(3.0)
    table = jnp.arange(1000.0)
    with xlab.transfer_guard("disallow"):
        f = xlab.jit(lambda x: xlab.pure_callback(lambda v: np.asarray(v) * 2, x, x) + table[:3])
        np.testing.assert_array_equal(f(x), 3 * np.arange(3))
        xlab.jit(lambda x: xlab.debug.print("{}", x, ordered=True))(x)
        xlab.effects_barrier()
