"""Programs with one collective each: the operations that they are lowered to with all attributes, by platform, and their primitives.

`python lowering_cases.py jax` prints what the reference makes of them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module

import numpy as np

EVEN, ODD_ORDER = [[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 2, 4, 6], [7, 5, 3, 1]]
UNEVEN = [[0], [1, 2], [3, 4, 5, 6, 7]]
RING = [(k, (k + 1) % 8) for k in range(8)]
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
OPERATIONS = "all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute|collective_broadcast|custom_call"

# By name: what a device computes from `lax` and its 64 values, the mesh, and whether types are checked.
ONE, GRID = ((8,), ("i",)), ((4, 2), ("i", "j"))
PROGRAMS = {
    "psum": (lambda lax, x: lax.psum(x, "i"), ONE, True),
    "psum unchecked": (lambda lax, x: lax.psum(x, "i"), ONE, False),
    "psum i": (lambda lax, x: lax.psum(x, "i"), GRID, True),
    "psum j": (lambda lax, x: lax.psum(x, "j"), GRID, True),
    "psum ji": (lambda lax, x: lax.psum(x, ("j", "i")), GRID, True),
    "psum groups": (lambda lax, x: lax.psum(x, "i", axis_index_groups=EVEN), ONE, False),
    "psum uneven": (lambda lax, x: lax.psum(x, "i", axis_index_groups=UNEVEN), ONE, False),
    "psum and 0": (lambda lax, x: lax.psum(x, ("i", 0)), ONE, False),
    "pmean": (lambda lax, x: lax.pmean(x, "i"), ONE, True),
    "pmax": (lambda lax, x: lax.pmax(x, "i"), ONE, True),
    "pmin ji": (lambda lax, x: lax.pmin(x, ("j", "i")), GRID, False),
    "all_gather": (lambda lax, x: lax.all_gather(x, "i"), ONE, True),
    "all_gather axis": (lambda lax, x: lax.all_gather(x, "j", axis=1), GRID, True),
    "all_gather tiled": (lambda lax, x: lax.all_gather(x, ("j", "i"), tiled=True), GRID, True),
    "all_gather groups": (lambda lax, x: lax.all_gather(x, "i", axis_index_groups=ODD_ORDER), ONE, False),
    "all_gather invarying": (lambda lax, x: lax.all_gather(x, "i", to="invarying"), ONE, True),
    "psum_scatter": (lambda lax, x: lax.psum_scatter(x.reshape(8, 8), "i"), ONE, True),
    "psum_scatter tiled": (lambda lax, x: lax.psum_scatter(x, ("j", "i"), tiled=True), GRID, True),
    "psum_scatter groups": (lambda lax, x: lax.psum_scatter(x, "i", tiled=True, axis_index_groups=ODD_ORDER), ONE, False),
    "psum_scatter dim": (lambda lax, x: lax.psum_scatter(x.reshape(8, 8), "j", scatter_dimension=1, tiled=True), GRID, True),
    "all_to_all": (lambda lax, x: lax.all_to_all(x.reshape(8, 8), "i", 0, 1), ONE, True),
    "all_to_all back": (lambda lax, x: lax.all_to_all(x.reshape(8, 8), "i", 1, 0), ONE, True),
    "all_to_all tiled": (lambda lax, x: lax.all_to_all(x.reshape(8, 8), ("j", "i"), 0, 1, tiled=True), GRID, True),
    "all_to_all groups": (lambda lax, x: lax.all_to_all(x, "i", 0, 0, tiled=True, axis_index_groups=EVEN), ONE, False),
    "pswapaxes": (lambda lax, x: lax.pswapaxes(x.reshape(8, 8), "i", 1), ONE, True),
    "ppermute": (lambda lax, x: lax.ppermute(x, "i", RING), ONE, True),
    "ppermute some": (lambda lax, x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), GRID, True),
    "ppermute ji": (lambda lax, x: lax.ppermute(x, ("j", "i"), RING), GRID, False),
    "pshuffle": (lambda lax, x: lax.pshuffle(x, "i", [1, 0]), ONE, True),
    "pbroadcast": (lambda lax, x: lax.pbroadcast(x, "i", 3), ONE, True),
    "pbroadcast ji": (lambda lax, x: lax.pbroadcast(x, ("j", "i"), 5), GRID, True),
    "pargmax": (lambda lax, x: lax.pargmax(x, "i"), ONE, True),
    "axis_index": (lambda lax, x: x + lax.axis_index("i"), GRID, True),
}  # fmt: skip


def matrix(text: str) -> list:
    """A matrix of integers as it is printed: a list of rows, or one number for all of a shape."""
    value, shape = re.fullmatch(r"dense<(.*?)> : tensor<([\dx]+)xi64>", text).groups()
    sizes = [int(n) for n in shape.split("x")]
    found = json.loads(value) if value else []
    return np.broadcast_to(found, sizes).tolist()


def operations(text: str) -> list:
    """The collectives of a lowered module, each with its attributes."""
    out = []
    for name, attributes in re.findall(
        rf'"stablehlo\.({OPERATIONS})"\([^)]*\) <\{{(.*?)\}}>', text
    ):
        found = {"op": name, "global": "use_global_device_ids" in attributes}
        for key in ("replica_groups", "source_target_pairs"):
            given = re.search(rf"{key} = (dense<.*?> : tensor<[\dx]+xi64>)", attributes)
            if given:
                found[key] = matrix(given[1])
        found |= dict(re.findall(r"(\w*(?:dim|dimension|count)) = (\d+)", attributes))
        found["channel"] = re.findall(r"channel_handle<(.*?)>", attributes)
        out.append(found)
    return out


def records(who: str) -> dict:
    """For each program its primitives, and by platform its operations, or the class of the error."""
    package = import_module(who)
    # The reference keeps some of them to itself.
    lax = import_module(f"{who}.lax.parallel" if who == "xlab" else f"{who}._src.lax.parallel")
    x, out = np.arange(512, dtype=np.float32), {}
    for name, (f, (shape, axes), check) in PROGRAMS.items():
        auto = package.sharding.AxisType.Auto
        mesh = package.make_mesh(shape, axes, axis_types=(auto,) * len(axes))
        spec = package.sharding.PartitionSpec(axes)

        def shown(v, f=f):
            return f(lax, v).ravel()[:1].astype("float32") * 0 + v[:1]

        g = package.shard_map(shown, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check)
        traced = package.jit(g).trace(x)
        inner = next(
            e.params["jaxpr"] for e in traced.jaxpr.eqns if e.primitive.name == "shard_map"
        )
        known = (
            "psum", "pmax", "pmin", "gather", "scatter", "all_to", "ppermute", "pbroadcast", "axis_index",
        )  # fmt: skip
        found = {"primitives": [e.primitive.name for e in inner.eqns if any(k in e.primitive.name for k in known)]}  # fmt: skip
        for platform in PLATFORMS:
            try:
                lowered = traced.lower(lowering_platforms=(platform,))
                found[platform] = operations(lowered.as_text())
            except Exception as e:
                found[platform] = type(e).__name__
        out[name] = found
    return out


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print("RECORDS " + json.dumps(records(sys.argv[1])))
