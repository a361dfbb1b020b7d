"""Programs over several processes, each written once, for xlab and for the reference: what every process sees of them.

    python -m tests.parallel.process_cases xlab|jax ADDRESS INDEX COUNT DEVICES

prints one JSON object: by case what it gave, or the kind of its error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np

CASES = """
device_count = jax.device_count(), jax.local_device_count(), jax.process_count(), jax.process_index()
local_devices = [d.process_index for d in jax.local_devices()], [d.process_index for d in jax.devices()]
local_mesh = dict(mesh.local_mesh.shape), mesh.size, mesh.is_multi_process
attributes = x.shape, str(x.dtype), x.ndim, x.size, x.is_fully_addressable, x.is_fully_replicated, len(x.addressable_shards)
copies_attributes = r.is_fully_addressable, r.is_fully_replicated, np.asarray(r)
indices = sorted((s.index[0].start, s.index[0].stop) for s in x.addressable_shards)
as_numpy = np.asarray(x)
device_get = jax.device_get(x)
tolist = x.tolist()
repr = repr(x)
closing_over = jax.jit(lambda v: v + x)(x)
callback = jax.make_array_from_callback((8, 2), rows, lambda at: np.arange(16.0, dtype="f").reshape(8, 2)[at])
process_local = jax.make_array_from_process_local_data(rows, np.full((8 // count, 2), me, "f"))
process_local_tree = jax.make_array_from_process_local_data(rows, {"a": np.full((8 // count,), me, "f")})
process_local_too_long = jax.make_array_from_process_local_data(rows, np.ones(9, "f"), (8,))
single_device_arrays = jax.make_array_from_single_device_arrays(x.shape, rows, [s.data for s in x.addressable_shards])
put_equal = jax.device_put(np.arange(8.0, dtype="f"), rows)
put_copies = jax.device_put(np.float32(3), copies)
put_unequal = jax.device_put(np.arange(8.0, dtype="f") + me, rows)
put_to_copies = jax.device_put(x, copies)
put_reversed = jax.device_put(x, NamedSharding(jax.sharding.Mesh(mesh.devices[::-1], ("x",)), P("x")))
put_grid = jax.device_put(w, NamedSharding(grid, P("d", "p")))
put_one_device = jax.device_put(x, jax.local_devices()[0])
eager_add = x + 1
eager_two = x * x - 2 * x
eager_reduce = x.sum(), x.max(), x.mean()
eager_compare = (x > 3).sum()
matmul = w @ w.T
jit_sum = jax.jit(jnp.sum)(x)
jit_out_copies = jax.jit(lambda v: v * 2, out_shardings=copies)(x)
jit_out_rows = jax.jit(lambda v: v.T @ v, out_shardings=NamedSharding(grid, P("p", "d")))(w)
jit_host_in_shardings = jax.jit(lambda v: v + 1, in_shardings=rows)(np.arange(8.0, dtype="f"))
jit_host_replicated = jax.jit(lambda v: v + 1, in_shardings=copies)(np.arange(8.0, dtype="f"))
constraint = jax.jit(lambda v: lax.with_sharding_constraint(v * 3, copies))(x)
scan = jax.jit(lambda v: lax.scan(lambda c, t: (c + t.sum(), c), 0.0, v))(w)
while_loop = jax.jit(lambda v: lax.while_loop(lambda c: c.sum() < 1000, lambda c: c * 2, v))(x + 1)
cond = jax.jit(lambda v: lax.cond(v.sum() > 3, lambda a: a * 2, lambda a: a, v))(x)
grad = jax.grad(lambda v: (v ** 2).sum())(x)
jit_grad = jax.jit(jax.value_and_grad(lambda v: jnp.sin(v).sum()))(x)
vmap = jax.vmap(lambda v: v * v.sum())(w)
sort = jnp.sort(-x)
cumsum = jnp.cumsum(x)
gather = x[jnp.array([1, 5])]
index_one = x[3]
slice = x[2:6]
concatenate = jnp.concatenate([x, x])
reshape = x.reshape(4, 2)
where = jnp.where(x > 3, x, -x)
random_key = jax.jit(lambda k: jax.random.uniform(k, (8,)), out_shardings=rows)(jax.random.key(0))
random_split = jax.random.key_data(jax.random.split(jax.random.key(1), 4))
donation = jax.jit(lambda v: v + 1, donate_argnums=0)(x + 0)
compiled = jax.jit(lambda v: v * 2).lower(x).compile()(x)
explicit = jnp.sin(e) + 1
explicit_type = str(jax.typeof(e))
psum = over(lambda v: lax.psum(v, "x"), P("x"), P())(x)
psum_scalar = over(lambda v: lax.psum(v.sum(), "x"), P("x"), P())(x)
psum_one = over(lambda v: lax.psum(1, "x") + v, P("x"), P("x"))(x)
pmax = over(lambda v: lax.pmax(v, "x"), P("x"), P())(x)
pmin = over(lambda v: lax.pmin(v, "x"), P("x"), P())(x)
pmean = over(lambda v: lax.pmean(v, "x"), P("x"), P())(x)
all_gather = over(lambda v: lax.all_gather(v, "x"), P("x"), P("x"))(x)
all_gather_tiled = over(lambda v: lax.all_gather(v, "x", tiled=True) + v[0], P("x"), P("x"))(x)
ppermute = over(lambda v: lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)]), P("x"), P("x"))(x)
ppermute_partial = over(lambda v: lax.ppermute(v, "x", [(0, n - 1)]), P("x"), P("x"))(x)
all_to_all = over(lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), P(None, "x"), P(None, "x"))(jnp.arange(n * n * 1.0).reshape(n, n))
psum_scatter = over(lambda v: lax.psum_scatter(v, "x", tiled=True), P(None, "x"), P("x"))(jnp.arange(n * n * 1.0).reshape(n, n))
axis_index = over(lambda v: v + lax.axis_index("x"), P("x"), P("x"))(x)
psum_grad = jax.grad(lambda v: over(lambda u: lax.psum((u * u).sum(), "x"), P("x"), P())(v))(x)
psum_scan = over(lambda v: lax.scan(lambda c, _: (c + lax.psum(v.sum(), "x"), None), 0.0, None, length=3)[0], P("x"), P())(x)
psum_two_axes = jax.shard_map(lambda v: lax.psum(v, ("p", "d")), mesh=grid, in_specs=P("p", "d"), out_specs=P())(w)
psum_inner_axis = jax.shard_map(lambda v: lax.psum(v, "d"), mesh=grid, in_specs=P("p", "d"), out_specs=P("p"))(w)
psum_outer_axis = jax.shard_map(lambda v: lax.psum(v, "p"), mesh=grid, in_specs=P("p", "d"), out_specs=P(None, "d"))(w)
psum_bf16 = over(lambda v: lax.psum(v.astype("bfloat16"), "x").astype("float32"), P("x"), P())(x)
psum_i8 = over(lambda v: lax.psum(v.astype("int8"), "x"), P("x"), P())(x)
psum_u32 = over(lambda v: lax.psum(v.astype("uint32"), "x"), P("x"), P())(x)
psum_complex = over(lambda v: lax.psum(v * 1j, "x").imag, P("x"), P())(x)
psum_tree = over(lambda v: lax.psum({"a": v, "b": v.sum()}, "x"), P("x"), P())(x)
jit_of_shard_map = jax.jit(over(lambda v: v + lax.psum(v, "x"), P("x"), P("x")))(x)
bad_axis = over(lambda v: lax.psum(v, "nope"), P("x"), P())(x)
pmap_local = np.asarray(jax.pmap(lambda v: v * 2)(np.arange(here, dtype="f") + here * me))
pmap_psum = np.asarray(jax.pmap(lambda v: v + lax.psum(v, "i"), axis_name="i")(np.arange(here, dtype="f") + here * me))
pmap_index = np.asarray(jax.pmap(lambda v: lax.axis_index("i"), axis_name="i")(np.arange(here, dtype="f")))
pmap_wrong_size = jax.pmap(lambda v: v)(np.arange(n, dtype="f"))
process_allgather_host = multihost_utils.process_allgather(np.float32(me))
process_allgather_tiled = multihost_utils.process_allgather(x, tiled=True)
process_allgather_untiled = multihost_utils.process_allgather(x)
broadcast_one = multihost_utils.broadcast_one_to_all(np.float32(me + 5))
sync = multihost_utils.sync_global_devices("here")
sync_apart = multihost_utils.sync_global_devices(f"process {me}")
assert_equal = multihost_utils.assert_equal(np.float32(3))
assert_unequal = multihost_utils.assert_equal(np.float32(me))
host_local_to_global = multihost_utils.host_local_array_to_global_array(np.full(8 // count, me, "f"), mesh, P("x"))
global_to_host_local = np.asarray(multihost_utils.global_array_to_host_local_array(x, mesh, P("x")))
live_arrays = sum(a.nbytes for a in jax.live_arrays()) > 0
bad_shape = jax.make_array_from_callback((7,), rows, lambda at: np.zeros(7, "f")[at])
bad_mesh = jax.make_mesh((n + 1,), ("x",))
"""


def names(jax: Any) -> dict[str, Any]:
    """What the cases speak of."""
    sub = lambda name: importlib.import_module(f"{jax.__name__}.{name}")
    sharding, jnp, lax = sub("sharding"), sub("numpy"), sub("lax")
    Named, P = sharding.NamedSharding, sharding.PartitionSpec
    devices = np.array(jax.devices(), dtype=object)
    count, auto = jax.process_count(), sharding.AxisType.Auto
    mesh = sharding.Mesh(devices, ("x",), axis_types=(auto,))
    grid = sharding.Mesh(devices.reshape(count, -1), ("p", "d"), axis_types=(auto,) * 2)
    explicit = sharding.Mesh(devices, ("x",), axis_types=(sharding.AxisType.Explicit,))
    spread = lambda value, s: jax.make_array_from_callback(value.shape, s, lambda at: value[at])
    row, square = np.arange(8, dtype="f"), np.arange(64, dtype="f").reshape(8, 8) / 8
    rows, copies = Named(mesh, P("x")), Named(mesh, P())
    over = lambda f, into, out: jax.shard_map(f, mesh=mesh, in_specs=into, out_specs=out)
    return {
        "jax": jax, "jnp": jnp, "lax": lax, "np": np, "NamedSharding": Named, "P": P, "mesh": mesh, "grid": grid,
        "rows": rows, "copies": copies, "over": over, "me": jax.process_index(), "count": count, "n": devices.size,
        "here": jax.local_device_count(), "x": spread(row, rows), "r": spread(row, copies),
        "w": spread(square, Named(grid, P("p", "d"))), "e": spread(row, Named(explicit, P("x"))),
        "multihost_utils": sub("experimental.multihost_utils"),
    }  # fmt: skip


def tell(value: Any) -> Any:
    """A result as JSON: of an array its layout and the parts that are here."""
    if hasattr(value, "addressable_shards"):
        parts = sorted(value.addressable_shards, key=lambda s: s.device.id)
        spec = getattr(value.sharding, "spec", None)
        return [str(value.dtype), list(value.shape), str(spec).removeprefix("Partition"), *(tell(np.asarray(s.data)) for s in parts)]  # fmt: skip
    if isinstance(value, (np.ndarray, np.generic)):
        return np.round(value.astype(float), 4).tolist()
    if isinstance(value, dict):
        return {k: tell(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [tell(v) for v in value]
    return value


def main(library: str, address: str, index: str, count: str, devices: str) -> None:
    os.environ["XLAB_NUM_CPU_DEVICES"] = devices
    jax = importlib.import_module(library)
    if library == "jax":
        jax.config.update("jax_num_cpu_devices", int(devices))
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, int(count), int(index), initialization_timeout=60)
    space, told = names(jax), {}
    for line in CASES.strip().splitlines():
        name, _, source = line.partition(" = ")
        try:
            told[name] = tell(eval(source, dict(space)))
        except Exception as error:
            told[name] = ["raises", type(error).__name__]
    print("told", json.dumps(told), flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
