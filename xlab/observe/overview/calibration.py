"""Measures what this machine can do, in less than a minute.

Each number is measured alone, and what a call takes is not in it. What several
virtual devices do at once is measured too, since they share the cores of one host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import events, lax
from xlab import numpy as jnp
from xlab.backend import client
from xlab.compile.jit import jit
from xlab.core.dtypes import canonicalize_dtype
from xlab.observe.overview.machines import default_cpu, remember
from xlab.observe.programs.recorder import paused
from xlab.observe.records.base import Record
from xlab.observe.records.machine import Machine
from xlab.observe.timing.phases import wait
from xlab.parallel.put import device_put
from xlab.parallel.shard_map import shard_map
from xlab.sharding import NamedSharding, PartitionSpec, make_mesh

SIZE = 384
"""Rows of the matrices that are multiplied."""

ELEMENTS = 1 << 20
"""Elements of arrays that do not fit into a core's cache together."""


def calibrate(file: str | os.PathLike[str] | None = None, *, again: bool = False) -> Machine:
    """Measures this machine; what is predicted for `cpu` from then on is predicted for it.

    Args:
        file: where the result is kept: read if it is there, else written. Without it, it is kept for this process.
        again: measure although the file is there.

    Returns:
        The machine as a record: rates of products by dtype, of other arithmetic and of exponentials, bandwidth of the memory, what an operation and
        a call take, and what a message between the devices takes.

    Raises:
        ValueError: the file has something else.
    """
    if file is not None and not again and os.path.exists(file):
        with open(file, encoding="utf-8") as opened:
            found = Record.from_json(json.load(opened))
        if not isinstance(found, Machine):
            raise ValueError(f"{os.fspath(file)} has a {type(found).__name__}, not a Machine")
        return remember(found)
    with paused():
        made = _measured()
    if file is not None:
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(made.to_json(), opened)
    return remember(made)


def _measured() -> Machine:
    call = _call_us(jit(_plus_one), jnp.ones(4))
    one = lambda body, x: max(1e-7, _seconds(jit(body), x) - call / 1e6)
    matrix = []
    for name, dtype in (("f32", np.float32), ("bf16", jnp.bfloat16), ("f64", np.float64)):
        if canonicalize_dtype(dtype) == np.dtype(dtype):
            spent = one(lambda x: x @ x, jnp.ones((SIZE, SIZE), dtype))
            matrix.append((name, 2.0 * SIZE**3 / spent))
    product = 2.0 * SIZE**3 / matrix[0][1]
    # Larger results would be memory that the host system gives anew for each call.
    many, half = jnp.ones(3 * ELEMENTS), jnp.full(ELEMENTS, 0.5)
    few, more = (_call_us(_in_a_row(n), jnp.ones((32, 32))) for n in (4, 68))
    image, filters = jnp.ones((8, 16, 32, 32)), jnp.ones((16, 16, 3, 3))
    convolved = one(lambda x: lax.conv(x, filters, (1, 1), "SAME"), image)
    positive = jnp.asarray(np.eye(SIZE, dtype=np.float32) + 1 / SIZE)
    default = default_cpu()
    devices = client.devices("cpu")
    together = _together(devices, product, call) if len(devices) > 1 else (0.0,) * 4
    share, alpha, beta, each = together
    return Machine(
        "cpu",
        f"measured on this machine: {os.cpu_count()} cores, {len(devices)} devices",
        tuple(matrix),
        vector=64 * ELEMENTS / one(_additions, half),
        transcendental=ELEMENTS / one(jnp.tanh, half),
        bandwidth=2 * 4 * 3 * ELEMENTS / one(_plus_one, many),
        operation_us=max(0.05, (more - few) / 64 - 1e6 * 2 * 32**3 / matrix[0][1]),
        dispatch_us=call,
        dispatch_device_us=each,
        alpha=alpha or default.alpha,
        beta=beta or default.beta,
        memory=default.memory,
        share=share,
        measured=True,
        convolution=2.0 * 8 * 16 * 32 * 32 * 16 * 9 / convolved,
        decomposition=SIZE**3 / 3 / one(jnp.linalg.cholesky, positive),
        shared_memory=True,
    )


def _plus_one(x: Any) -> Any:
    return x + 1


def _additions(x: Any) -> Any:
    for n in range(32):
        x = x * 0.5 + n
    return x


def _in_a_row(n: int) -> Callable:
    """A program of small products, one after the other."""

    def program(x):
        for _ in range(n):
            x = x @ x * (1 / 32)
        return x

    return jit(program)


def _seconds(program: Callable, x: Any, times: int = 1) -> float:
    """Seconds of one round of a program, as the least of a few calls: what else goes on can only add to it."""
    wait(program(x))
    spent = []
    for _ in range(8):
        start = events.clock()
        wait(program(x))
        spent.append((events.clock() - start) / 1e9)
    return min(spent) / times


def _call_us(program: Callable, *args: Any) -> float:
    """Microseconds of a call that computes next to nothing, with the wait for its result."""
    for _ in range(5):
        wait(program(*args))
    spent = []
    for _ in range(60):
        start = events.clock()
        wait(program(*args))
        spent.append((events.clock() - start) / 1e3)
    return min(spent)


def _together(devices: Any, one: float, call: float) -> tuple[float, float, float, float]:
    """How many devices' work is done at once, what a message takes, and what a call takes for each device more."""
    n = len(devices)
    mesh = make_mesh((n,), ("d",), devices=devices)
    split = NamedSharding(mesh, PartitionSpec("d"))

    def on_each(body: Callable, times: int) -> Callable:
        loop = lambda x: lax.fori_loop(0, times, lambda i, x: body(x), x)
        return jit(
            shard_map(
                loop,
                mesh=mesh,
                in_specs=PartitionSpec("d"),
                out_specs=PartitionSpec("d"),
                check_vma=False,
            )
        )

    def seconds(body: Callable, x: Any, times: int) -> float:
        return _seconds(on_each(body, times), device_put(x, split), times)

    all_at_once = seconds(lambda x: x @ x * (1 / SIZE), jnp.ones((n * SIZE, SIZE)), 4)
    share = min(float(n), max(1.0, n * one / all_at_once))
    total = lambda x: lax.psum(x, "d") * (1 / n)
    small, large = 64, 1 << 18
    steps = 2 * (n - 1)
    alpha = 1e6 * seconds(total, jnp.ones(n * small), 20) / steps
    whole = 1e6 * seconds(total, jnp.ones(n * large), 6)
    beta = (4 * large / n) / max(1e-3, whole / steps - alpha)
    each = _call_us(on_each(lambda x: x + 1, 1), device_put(jnp.ones(4 * n), split))
    return share, alpha, beta, max(0.0, (each - call) / (n - 1))
