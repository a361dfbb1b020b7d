"""What is measured of arrays themselves: reading, assembling and moving them; keys; small calls around them."""

from __future__ import annotations

import gc
import importlib
import statistics
import time

import numpy as np

from tests.benchmarks.cases import arguments, benchmark, repeated, sharding, timed
from tests.reference.sample import Namespaces


def timed_once_each(make, use, *, count: int = 100, repeats: int = 7) -> float:
    """Median seconds of `use(array)`, each on an array of its own: what was read is kept."""
    batches = []
    for _ in range(repeats):
        arrays = [make() for _ in range(count)]
        gc.collect()
        start = time.perf_counter()
        for x in arrays:
            use(x)
        batches.append((time.perf_counter() - start) / count)
    return statistics.median(batches)


def reading(name: str, use) -> None:
    @benchmark(f"8 devices: {name}", 1.0, "call")
    def run(n, quick):
        x = n.jax.device_put(np.arange(1024, dtype=np.float32), sharding(n))
        make = lambda: n.jax.block_until_ready(x * 1)
        return timed_once_each(make, lambda made: use(n, made))


reading("np.asarray", lambda n, x: np.asarray(x))
reading("device_get", lambda n, x: n.jax.device_get(x))
reading("addressable_shards", lambda n, x: x.addressable_shards)
reading("index of each shard", lambda n, x: [s.index for s in x.addressable_shards])
reading("data of each shard", lambda n, x: [s.data for s in x.addressable_shards])


@benchmark("make_array_from_callback, 8 devices", 1.0, "call")
def from_callback(n, quick):
    where, whole = sharding(n), np.arange(1024, dtype=np.float32)
    return timed(lambda: n.jax.make_array_from_callback((1024,), where, lambda i: whole[i]))


@benchmark("host_local_array_to_global_array, 8 devices", 1.0, "call")
def from_host_local(n, quick):
    utils = importlib.import_module(n.jax.__name__ + ".experimental.multihost_utils")
    where, whole = sharding(n), np.arange(1024, dtype=np.float32)
    return timed(lambda: utils.host_local_array_to_global_array(whole, where.mesh, where.spec))


def moving(name: str, source, target) -> None:
    @benchmark(f"8 devices, 16 MB: {name}", 1.0, "call")
    def run(n, quick):
        devices = n.jax.devices()
        places = []
        for backwards, *spec in (source, target):
            mesh = n.jax.sharding.Mesh(np.array(devices[::-1] if backwards else devices), ("d",))
            spec = n.jax.sharding.PartitionSpec(*spec)
            places.append(n.jax.sharding.NamedSharding(mesh, spec))
        x = n.jax.device_put(np.ones((2048, 2048), np.float32), places[0])
        make = lambda: n.jax.block_until_ready(x * 1)
        move = lambda made: n.jax.block_until_ready(n.jax.device_put(made, places[1]))
        return timed_once_each(make, move, count=5)


moving("rows to columns", (False, "d"), (False, None, "d"))
moving("rows to whole", (False, "d"), (False,))
moving("devices in another order", (False, "d"), (True, "d"))


@benchmark("device_put, 100 arrays from device to device", 1.0, "call")
def put_across(n, quick):
    first, second = n.jax.devices()[:2]
    arrays = [n.jax.device_put(np.arange(16, dtype=np.float32) + i, first) for i in range(100)]
    return timed(lambda: n.jax.block_until_ready(n.jax.device_put(arrays, second)))


@benchmark("warm jit with a key", 1.0, "call")
def key_call(n, quick):
    key, (x,) = n.jax.random.key(0), arguments(n, 1)
    call = n.jax.jit(lambda key, x: (key, x + 1))
    return timed(repeated(n, lambda: call(key, x), 50), 50)


def draws(n: Namespaces, count: int):
    def program(key):
        keys = n.jax.random.split(key, count)
        return sum(n.jax.random.normal(k, (3, i + 1)).sum() for i, k in enumerate(keys))

    return program


@benchmark("compile of 20 random draws", 1.0, "program")
def compile_draws(n, quick):
    seconds = []
    for _ in range(2 if quick else 5):
        n.jax.clear_caches()
        lowered = n.jax.jit(draws(n, 20)).lower(n.jax.random.key(0))
        start = time.perf_counter()
        lowered.compile()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


@benchmark("checkpoint with a static argument", 1.0, "call")
def static_checkpoint(n, quick):
    call = n.jax.checkpoint(lambda x, power: x**power, static_argnums=1)
    (x,) = arguments(n, 1)
    return timed(lambda: call(x, 3))


@benchmark("typeof, NumPy array", 1.0, "call")
def typeof_numpy(n, quick):
    x = np.ones(3, np.float32)
    return timed(lambda: n.jax.typeof(x))


@benchmark("eager nextafter", 0.9, "call")
def nextafter(n, quick):
    (x,) = arguments(n, 1)
    return timed(repeated(n, lambda: n.jnp.nextafter(x, x), 50), 50)
