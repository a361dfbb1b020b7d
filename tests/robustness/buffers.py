"""Every state of an array's buffers x every way to use it: run as a program, so that what could end the process ends this one.

Prints a line per use: the state, the use, and what came of it, a value or the class and text of an error.
"""

from __future__ import annotations

import os
import pickle
import sys

os.environ.setdefault("XLAB_NUM_CPU_DEVICES", "8")

import numpy as np

import xlab
import xlab.numpy as jnp
from xlab.sharding import NamedSharding, SingleDeviceSharding
from xlab.sharding import PartitionSpec as P

N = 8
WANT = np.arange(N, dtype=np.float32)
MESH = xlab.make_mesh((8,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
CUT = NamedSharding(MESH, P("i"))
HOST = "pinned_host"


def live(many):
    return xlab.device_put(WANT, CUT) if many else xlab.device_put(WANT)


def take(x, turns=1):
    """Gives an array to a program; with more turns, to one whose calls are answered natively."""
    f = xlab.jit(lambda v: v * 3, donate_argnums=0)
    for _ in range(turns - 1):
        f(xlab.device_put(np.asarray(x), x.sharding))
    f(x)
    return x


def deleted(many):
    x = live(many)
    x.delete()
    return x


def through_a_ref(many):
    ref = xlab.new_ref(live(many))
    ref[0] = ref[0]
    return ref[...]


def view_of_donated(many):
    x = live(many)
    view = x.addressable_shards[0].data
    take(x, 3)
    return view


def whole_of_donated_part(many):
    x = live(many)
    take(x.addressable_shards[0].data, 3)
    return x


def other_type_of_donated(many):
    x = live(many)
    mesh = xlab.make_mesh((4, 2), ("a", "b"), axis_types=(xlab.sharding.AxisType.Auto,) * 2)
    other = (
        xlab.device_put(x, NamedSharding(mesh, P(("a", "b"))))
        if many
        else xlab.device_put(x, xlab.devices()[0])
    )
    take(x, 3)
    return other


def assembled_of_donated(many):
    parts = [xlab.device_put(WANT[i : i + 1], d) for i, d in enumerate(xlab.devices())]
    x = xlab.make_array_from_single_device_arrays((N,), CUT, parts)
    take(parts[3], 3)
    return x


def after_compiled(many):
    x = live(many)
    xlab.jit(lambda v: v * 3, donate_argnums=0).lower(x).compile()(x)
    return x


def after_pmap(many):
    x = live(True)
    f = xlab.pmap(lambda v: v * 3, donate_argnums=0)
    for _ in range(3):
        f(live(True))
    f(x)
    return x


def on_the_host(many):
    return xlab.device_put(
        live(many),
        (CUT if many else SingleDeviceSharding(xlab.devices()[0])).with_memory_kind(HOST),
    )


STATES = {
    "live": live,
    "deleted": deleted,
    "donated, first call": lambda many: take(live(many)),
    "donated, warm call": lambda many: take(live(many), 3),
    "donated, compiled": after_compiled,
    "donated, pmap": after_pmap,
    "view of a donated": view_of_donated,
    "whole of a donated part": whole_of_donated_part,
    "of the buffers of a donated": other_type_of_donated,
    "assembled of a donated": assembled_of_donated,
    "value of a reference": through_a_ref,
    "host memory": on_the_host,
    "host memory, donated": lambda many: take(on_the_host(many), 3),
    "other device": lambda many: xlab.device_put(WANT, xlab.devices()[5]),
    "other device, donated": lambda many: take(xlab.device_put(WANT, xlab.devices()[5]), 3),
}


def warm(f, *more):
    """A use by a jitted function that has answered such arrays before."""

    def use(x):
        like = xlab.device_put(np.ones(x.shape, x.dtype), x.sharding)
        for _ in range(3):
            f(like, *more)
        return f(x, *more)

    return use


def twice(x):
    return xlab.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))(x, x)


def twice_warm(x):
    f = xlab.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
    for _ in range(3):
        f(*(xlab.device_put(np.ones(x.shape, x.dtype), x.sharding) for _ in range(2)))
    return f(x, x)


def given_and_passed(x):
    f = xlab.jit(lambda a, b: a + b, donate_argnums=0)
    for _ in range(3):
        f(*(xlab.device_put(np.ones(x.shape, x.dtype), x.sharding) for _ in range(2)))
    return f(x, x)


def shard_mapped(x):
    cut = x.sharding if isinstance(x.sharding, NamedSharding) else CUT
    spec = cut.spec if x.shape[0] % 8 == 0 else P()  # one device's part has a single element
    return xlab.jit(xlab.shard_map(lambda v: v * 2, mesh=cut.mesh, in_specs=spec, out_specs=spec))(
        x
    )


def nans(x):
    with xlab.debug_nans(True):
        return xlab.jit(lambda v: v / 2)(x)


def own(x):
    f = xlab.jit(lambda v: v * 2, donate_argnums=0)
    return f(f(f(x)))


def computed_closed_over(x):
    return xlab.jit(lambda: x + 1)()


def reshard_out(x):
    return xlab.jit(lambda v: v * 2, out_shardings=x.sharding)(x)


USES = {
    "jit": lambda x: xlab.jit(lambda v: v + 1)(x),
    "jit, warm": warm(xlab.jit(lambda v: v + 2)),
    "jit, warm, summed": warm(xlab.jit(lambda v: v.sum())),
    "donated": own,
    "donated twice": twice,
    "donated twice, warm": twice_warm,
    "donated and passed": given_and_passed,
    "donated, other shape": lambda x: xlab.jit(lambda v: v.reshape(-1, 1) * 2, donate_argnums=0)(x),
    "compiled": lambda x: xlab.jit(lambda v: v + 1).lower(x).compile()(x),
    "closed over": computed_closed_over,
    "out_shardings": reshard_out,
    "eager": lambda x: x + 1,
    "eager, warm": warm(lambda v: v + 1),
    "index": lambda x: x[0],
    "iterate": lambda x: [float(v) for v in x],
    "at": lambda x: x.at[0].set(5.0),
    "grad": lambda x: xlab.grad(lambda v: (v * v).sum())(x),
    "vmap": lambda x: xlab.vmap(lambda v: v + 1)(x),
    "pmap": lambda x: xlab.pmap(lambda v: v + 1)(x),
    "pmap, warm": warm(xlab.pmap(lambda v: v + 3)),
    "shard_map": shard_mapped,
    "device_put": lambda x: xlab.device_put(x, xlab.devices()[1]),
    "device_put, mesh": lambda x: xlab.device_put(x, CUT),
    "device_put, copy": lambda x: xlab.device_put(x, x.sharding, may_alias=False),
    "device_put, donate": lambda x: xlab.device_put(x, NamedSharding(MESH, P()), donate=True),
    "device_get": xlab.device_get,
    "asarray": np.asarray,
    "print": str,
    "repr": repr,
    "from_dlpack": np.from_dlpack,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": lambda x: x.copy(),
    "addressable_shards": lambda x: [s.data + 1 for s in x.addressable_shards],
    "global_shards": lambda x: x.global_shards,
    "addressable_data": lambda x: x.addressable_data(0),
    "block_until_ready": lambda x: x.block_until_ready(),
    "block_until_ready, several": lambda x: xlab.block_until_ready([x, x]),
    "ready": lambda x: x.is_ready(),
    "copy_to_host_async": lambda x: x.copy_to_host_async(),
    "pointer": lambda x: x.unsafe_buffer_pointer(),
    "size on device": lambda x: x.on_device_size_in_bytes(),
    "format": lambda x: x.format,
    "clone": lambda x: x.clone(),
    "sharding": lambda x: (
        x.sharding,
        x.devices(),
        x.committed,
        x.is_fully_addressable,
        x.is_fully_replicated,
    ),
    "delete": lambda x: x.delete(),
    "nan checks": nans,
    "reference": lambda x: xlab.new_ref(x)[...],
    "assemble": lambda x: xlab.make_array_from_single_device_arrays(
        x.shape, x.sharding, [s.data for s in x.addressable_shards]
    ),
    "tree": lambda x: xlab.jit(lambda t: {"a": t["a"] + t["b"]}, donate_argnums=0)(
        {"a": x, "b": jnp.float32(1)}
    ),
    "live arrays": lambda x: xlab.live_arrays(),
}


def main(names):
    for name in names:
        state, many = name.rsplit(" on ", 1)
        for use, run in USES.items():
            print(f"{name}|{use}|", end="", flush=True)
            try:
                xlab.block_until_ready(run(STATES[state](many == "many")))
                result = "ok"
            except Exception as error:
                result = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            print(result, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [f"{state} on {where}" for state in STATES for where in ("one", "many")])
