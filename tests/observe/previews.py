"""Programs over which a pass of the partitioner's preview ended the process: `python -m tests.observe.previews` looks at each.

A JSON line per program: its collectives with their reasons, the stages of its text, and what was said to be unknown.
"""

from __future__ import annotations

import json

import numpy as np

import xlab
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.sharding import AxisType, NamedSharding, P, make_mesh

AUTO = make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = make_mesh((4, 2), ("data", "model"))


def put(shape, *spec, mesh=AUTO, dtype=np.float32):
    x = (
        np.random.RandomState(0).randint(0, 5, shape)
        if dtype == np.int32
        else np.random.RandomState(0).rand(*shape)
    )
    return xlab.device_put(x.astype(dtype), NamedSharding(mesh, P(*spec)))


def lookup(table, ids):
    return table[ids]


def loss(logits, labels):
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jnp.log(jnp.sum(jnp.exp(logits), axis=1)) - picked)


def by_hand_over_data(x):
    return jnp.cumsum(x, axis=1)


TABLE, IDS = (32, 8), (5,)
PROGRAMS = {
    "lookup": lambda: (lookup, put(TABLE, "data"), put(IDS, dtype=np.int32)),
    "lookup of split ids": lambda: (lookup, put(TABLE, "data"), put((8, 4), "model", dtype=np.int32)),
    "gradient of lookup": lambda: (xlab.grad(lambda t, i: jnp.sum(t[i] ** 2)), put(TABLE, "data"), put(IDS, dtype=np.int32)),
    "take": lambda: (lambda t, i: jnp.take(t, i, axis=1), put((8, 32), None, "data"), put(IDS, dtype=np.int32)),
    "take_along_axis": lambda: (lambda x, i: jnp.take_along_axis(x, i, 0), put(TABLE, "data"), put((1, 8), dtype=np.int32)),
    "cumsum": lambda: (lambda x: jnp.cumsum(x, 0), put(TABLE, "data", "model")),
    "cummax": lambda: (lambda x: lax.cummax(x, 0), put(TABLE, "data")),
    "permutation": lambda: (lambda x: xlab.random.permutation(xlab.random.key(0), x), put(TABLE, "data")),
    "median": lambda: (lambda x: jnp.median(x, axis=0), put(TABLE, "data")),
    "cross-entropy": lambda: (loss, put((8, 32), None, "model"), put((8,), dtype=np.int32)),
    "gradient of cross-entropy": lambda: (xlab.grad(loss), put((8, 32), "data", "model"), put((8,), "data", dtype=np.int32)),
    "Explicit lookup": lambda: (lambda t, i: t.at[i].get(out_sharding=P("data", None)), put(TABLE, "model", mesh=EXPLICIT),
                                put((8,), "data", mesh=EXPLICIT, dtype=np.int32)),
    "partly manual": lambda: (xlab.shard_map(by_hand_over_data, mesh=AUTO, in_specs=P("data"), out_specs=P("data"), axis_names={"data"}),
                              put(TABLE, "data", "model")),
    "Fourier transform": lambda: (xlab.vmap(lambda v: jnp.fft.fft(v, axis=0)), put((3, 8, 8), None, ("data", "model"))),
    "values nobody reads": lambda: (lambda x: (x + 1, xlab.grad(lambda x: jnp.sum(-x))(x)), put(TABLE, "data")),
    "composite": lambda: (lax.composite(lambda x: jnp.sum(x, 0), name="my.sum"), put(TABLE, "data")),
}  # fmt: skip


def look(name: str) -> dict:
    fun, *args = PROGRAMS[name]()
    f = xlab.jit(fun)
    with observe.record() as session:
        f(*args)
    report = observe.report(session)
    found = observe.transfers(f, *args)
    levels = {level.name: level.text for level in observe.program(f, *args, levels=True).levels}
    return {
        "name": name,
        "kinds": [t.kind for t in found],
        "reasons": [t.reason for t in found],
        "fixes": [t.fix for t in found],
        "listed": len(report.transfers),
        "layouts": len(report.layouts),
        "levels": list(levels),
        "partitioned": levels["partitioned"],
        "notices": [n.text for n in report.notices],
        "placed": sum(bool(x.why) for x in report.layouts),
    }


if __name__ == "__main__":
    for program in PROGRAMS:
        print(json.dumps(look(program)), flush=True)
