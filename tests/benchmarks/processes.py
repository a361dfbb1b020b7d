"""Collectives over two processes of two devices each: the transport is the same on both sides, what is measured is what comes before it.

python -m tests.benchmarks --only "two processes"
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from tests.benchmarks.cases import LONG, benchmark
from tests.parallel.workers import ROOT
from xlab.parallel.group import free_address

COUNT, DEVICES = 2, 2
SMALL, LARGE = 64, 1 << 18
"""Elements: a message of some bytes, and of a megabyte."""

COLLECTIVES = {
    "psum": lambda lax: lambda v: lax.psum(v, "x"),
    "all_gather": lambda lax: lambda v: lax.all_gather(v, "x"),
    "psum_scatter": lambda lax: lambda v: lax.psum_scatter(v, "x", tiled=True),
    "ppermute": lambda lax: lambda v: lax.ppermute(v, "x", [(k, (k + 1) % 4) for k in range(4)]),
    "all_to_all": lambda lax: lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True),
}
ROWS = {f"{name}, {size * 4 >> 10 or 256} {'kB' if size > SMALL else 'B'}": (name, size)
        for name in COLLECTIVES for size in (SMALL, LARGE)}  # fmt: skip


@functools.cache
def measured(library: str) -> dict[str, float]:
    """Seconds of a call by row, each the median of batches in lockstep; process 0 tells."""
    address = free_address()
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.processes", library, address, str(k)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(COUNT)
    ]
    try:
        said = [w.communicate(timeout=300)[0] for w in workers]
    finally:
        for w in workers:
            w.kill()
    return json.loads(said[0].splitlines()[-1])


def row(name: str) -> None:
    @benchmark(f"two processes: {name}", 1.0, "call")
    def run(n, quick):
        return measured(n.name)[name]


for _name in ROWS:
    row(_name)
LONG.update(f"two processes: {_name}" for _name in ROWS)


def main(library: str, address: str, index: str) -> None:
    """One of the two processes."""
    os.environ["XLAB_NUM_CPU_DEVICES"] = str(DEVICES)
    jax = importlib.import_module(library)
    sharding = importlib.import_module(f"{library}.sharding")
    lax = importlib.import_module(f"{library}.lax")
    if library == "jax":
        jax.config.update("jax_num_cpu_devices", DEVICES)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, COUNT, int(index))
    mesh = jax.make_mesh((COUNT * DEVICES,), ("x",), axis_types=(sharding.AxisType.Auto,))
    rows = sharding.NamedSharding(mesh, sharding.PartitionSpec("x"))
    found = {}
    for name, (collective, size) in ROWS.items():
        whole = np.ones(size * 4, np.float32)
        x = jax.make_array_from_callback(whole.shape, rows, lambda at, whole=whole: whole[at])
        body = COLLECTIVES[collective](lax)
        f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=rows.spec, out_specs=rows.spec, check_vma=False))  # fmt: skip
        calls, batches = (100, 7) if size == SMALL else (20, 7)
        for _ in range(10):
            jax.block_until_ready(f(x))
        seconds = []
        for _ in range(batches):
            start = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(f(x))
            seconds.append((time.perf_counter() - start) / calls)
        found[name] = statistics.median(seconds)
    print(json.dumps(found), flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
