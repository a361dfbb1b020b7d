"""Values of every kind put to destinations of every kind, plainly and inside transformations: what each runtime makes of it.

Imports neither package: `records(module)` takes `xlab` or the reference, so that both answer the same questions. As a program: `put_cases.py MODULE [EVERY]`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys

import numpy as np

SOURCES = (
    "numpy",
    "scalar",
    "uncommitted",
    "on 1",
    "sharded",
    "host",
    "sharded host",
    "key",
    "sharded key",
)
DESTINATIONS = (
    "None",
    "device 2",
    "single 3",
    "cut",
    "copies on four",
    "reversed",
    "cut host",
    "single unpinned",
    "Host",
    "Device",
    "format",
)
MODES = ("eager", "jit", "grad", "jit(grad)", "vmap")
CASES = [
    c
    for c in itertools.product(MODES, SOURCES, DESTINATIONS)
    if not ("key" in c[1] and "grad" in c[0])
]


def records(module: str, cases=CASES) -> dict[str, object]:
    """What `module` gives for each case: an error's builtin class, or the type of the result, where it is and its values."""
    return {" ".join(case): _record(*_world(module), *case) for case in cases}


_worlds: dict[str, tuple] = {}


def _world(module: str) -> tuple:
    if module in _worlds:
        return _worlds[module]
    rt = importlib.import_module(module)
    layout = importlib.import_module(f"{module}.experimental.layout")
    s, d = rt.sharding, rt.devices()
    mesh, back = (s.Mesh(np.array(v), ("x",)) for v in (d, d[::-1]))
    four, spec = s.Mesh(np.array(d[:4]), ("x",)), s.PartitionSpec("x")
    values = np.arange(8, dtype=np.float32)
    key = rt.random.split(rt.random.key(0), 8)
    put = rt.device_put
    cut = s.NamedSharding(mesh, spec)
    sources = {
        "numpy": values,
        "scalar": 3.0,
        "uncommitted": rt.numpy.asarray(values),
        "on 1": put(values, d[1]),
        "sharded": put(values, cut),
        "host": put(values, s.SingleDeviceSharding(d[0], memory_kind="pinned_host")),
        "sharded host": put(values, s.NamedSharding(mesh, spec, memory_kind="pinned_host")),
        "key": key,
        "sharded key": put(key, cut),
    }
    destinations = {
        "None": None,
        "device 2": d[2],
        "single 3": s.SingleDeviceSharding(d[3]),
        "cut": cut,
        "copies on four": s.NamedSharding(four, s.PartitionSpec()),
        "reversed": s.NamedSharding(back, spec),
        "cut host": s.NamedSharding(mesh, spec, memory_kind="pinned_host"),
        "single unpinned": s.SingleDeviceSharding(d[0], memory_kind="unpinned_host"),
        "Host": rt.memory.Space.Host,
        "Device": rt.memory.Space.Device,
        "format": layout.Format(layout.Layout((0,)), s.SingleDeviceSharding(d[2])),
    }
    _worlds[module] = rt, sources, destinations
    return _worlds[module]


def _record(rt, sources, destinations, mode, source, destination):
    value, where = sources[source], destinations[destination]

    def put(x):
        return rt.device_put(x, where)

    def loss(x):
        y = rt.device_put(put(x) * 2, rt.memory.Space.Device)
        return (y * y).sum()

    run = {
        "eager": put,
        "jit": rt.jit(put),
        "grad": rt.grad(loss),
        "jit(grad)": rt.jit(rt.grad(loss)),
        "vmap": rt.vmap(put),
    }[mode]
    try:
        out = run(value)
        words = rt.random.key_data(out) if "key" in source else out
        where = out.sharding
        return {
            "type": str(rt.typeof(out)),
            "devices": sorted(q.id for q in out.devices()),
            "memory": where.memory_kind,
            "committed": bool(out.committed),
            "values": np.asarray(words).tolist(),
            "shards": {
                s.data.devices().pop().id: np.asarray(
                    rt.random.key_data(s.data) if "key" in source else s.data
                ).tolist()
                for s in out.addressable_shards
            }
            if mode == "eager"
            else None,
        }
    except Exception as e:
        return next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")


if __name__ == "__main__":
    print(
        "RECORDS "
        + json.dumps(
            records(sys.argv[1], CASES[:: int(sys.argv[2])] if len(sys.argv) > 2 else CASES)
        )
    )
