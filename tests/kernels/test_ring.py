"""A ring all-reduce over cores with semaphores (K24, K89, K93), and over devices."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels import ring
from xlab import numpy as jnp
from xlab.kernels import InterpretParams
from xlab.kernels.machine import Machine
from xlab.sharding import AxisType
from xlab.sharding import PartitionSpec as P


def contributions(cores, n=None, dtype="int32"):
    n = 2 * cores if n is None else n
    values = np.random.default_rng(cores).integers(-9, 9, (cores, n))
    return jnp.asarray(values, dtype), values.sum(axis=0)


@pytest.mark.parametrize("schedule", ["sequential", "round_robin", "random"])
@pytest.mark.parametrize("cores", [2, 3, 4])
def test_k89_every_core_ends_with_the_sum_under_every_schedule(cores, schedule):
    x, total = contributions(cores)
    params = InterpretParams(detect_races=True, schedule=schedule, random_seed=cores)
    machine = Machine(lambda x: ring.all_reduce(x, interpret="value"), x, params=params)
    (out,) = machine.run()
    np.testing.assert_array_equal(out, np.tile(total, (cores, 1)))
    assert machine.races == []
    assert machine.lint == []


def test_k89_a_ring_of_floats_called_as_users_do():
    x, total = contributions(3, 12, "float32")
    out = ring.all_reduce(x, interpret="value")
    np.testing.assert_allclose(out, np.tile(total, (3, 1)), rtol=1e-6)


@pytest.mark.parametrize("schedule", ["sequential", "round_robin"])
def test_k93_without_acknowledgment_mailboxes_race(schedule):
    x, _ = contributions(3)
    params = InterpretParams(detect_races=True, schedule=schedule)
    machine = Machine(
        lambda x: ring.all_reduce(x, interpret="value", acknowledge=False), x, params=params
    )
    machine.run()
    race = machine.races[0]
    assert race.ref == "scratch[0]"
    assert set(race.kinds) == {"read", "write"}
    assert all("ring.py" in line for line in race.lines)


@pytest.mark.parametrize("devices", [2, 4])
def test_kernels_in_a_ring_of_devices(devices):
    x, total = contributions(devices, 4 * devices)
    mesh = xlab.make_mesh((devices,), ("d",), (AxisType.Auto,), devices=xlab.devices()[:devices])
    run = xlab.shard_map(
        lambda row: ring.all_reduce_over_devices(row[0], "d")[None],
        mesh=mesh,
        in_specs=P("d"),
        out_specs=P("d"),
        check_vma=False,
    )
    np.testing.assert_array_equal(xlab.jit(run)(x), np.tile(total, (devices, 1)))
