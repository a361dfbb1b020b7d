"""Measures what this machine can do, in less than a minute.

Each number is measured alone, and what a call takes is not in it. What several
virtual devices do at once is measured too, since they share the cores of one host.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
"""Elements of arrays that do not fit into a core's cache together. Values of a fourth of it fit, and results of 16 times as many are memory that
the host system gives anew for each call."""

LEAST_ROUNDS, MOST_ROUNDS = 3, 24
"""How often each program is timed."""
SECONDS = 20
"""After these the rounds end."""


def calibrate(file: str | os.PathLike[str] | None = None, *, again: bool = False) -> Machine:
    """Measures this machine; what is predicted for `cpu` from then on is predicted for it.

    Args:
        file: where the result is kept: read if it is there, else written. Without it, it is kept for this process.
        again: measure although the file is there.

    Returns:
        The machine as a record: rates of products by dtype, of other arithmetic and of exponentials, of reductions, transforms and sorts, bandwidth
        of the memory for small, large and very large values, what an operation and a call take, and what a message between the devices takes.

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
    timed: dict[str, Timed] = {}
    timed["call"] = Timed(jit(_plus_one), jnp.ones(4))
    products = [
        (name, dtype)
        for name, dtype in (("f32", np.float32), ("bf16", jnp.bfloat16), ("f64", np.float64))
        if canonicalize_dtype(dtype) == np.dtype(dtype)
    ]
    for name, dtype in products:
        timed[name] = Timed(jit(_square), jnp.ones((SIZE, SIZE), dtype))
    half = jnp.full(ELEMENTS, 0.5)
    sizes = [ELEMENTS // 4, 3 * ELEMENTS, 16 * ELEMENTS]
    for n in sizes:
        timed[f"one {n}"] = Timed(jit(_plus_one), jnp.ones(n))
        timed[f"read {n}"] = Timed(jit(lambda x: x @ x[0]), jnp.ones((-(-n // 512), min(n, 512))))
    rows = jnp.reshape(half, (32, -1))
    timed["reduced"] = Timed(jit(lambda x: x.sum(-1)), rows)
    timed["transformed"] = Timed(jit(jnp.fft.fft), lax.complex(rows, rows))
    timed["sorted"] = Timed(jit(jnp.sort), jnp.sin(jnp.arange(ELEMENTS / 16)))
    timed["added"] = Timed(jit(_additions), half)
    timed["tanh"] = Timed(jit(jnp.tanh), half)
    few, more = 4, 68
    timed["few"], timed["more"] = (
        Timed(_in_a_row(n), jnp.ones((32, 32)), often=4) for n in (few, more)
    )
    image, filters = jnp.ones((8, 16, 32, 32)), jnp.ones((16, 16, 3, 3))
    timed["convolved"] = Timed(jit(lambda x: lax.conv(x, filters, (1, 1), "SAME")), image)
    positive = jnp.asarray(np.eye(SIZE, dtype=np.float32) + 1 / SIZE)
    timed["factor"] = Timed(jit(jnp.linalg.cholesky), positive)
    devices = client.devices("cpu")
    if len(devices) > 1:
        timed |= _together(devices)
    spent = least(timed)
    call = spent["call"]
    one = lambda name: max(1e-7, spent[name] - call)
    shuffled = ELEMENTS // 16
    memory_rates = [(4 * n, *_rates(4 * n, one(f"one {n}"), one(f"read {n}"))) for n in sizes]
    matrix = tuple((name, 2.0 * SIZE**3 / one(name)) for name, _ in products)
    default = default_cpu()
    share, alpha, beta, each = 0.0, default.alpha, default.beta, 0.0
    if len(devices) > 1:
        share, alpha, beta, each = _shared(len(devices), spent, 2.0 * SIZE**3 / matrix[0][1])
    return Machine(
        "cpu",
        f"measured on this machine: {os.cpu_count()} cores, {len(devices)} devices",
        matrix,
        vector=64 * ELEMENTS / one("added"),
        transcendental=ELEMENTS / one("tanh"),
        bandwidth=2 * 4 * sizes[1] / one(f"one {sizes[1]}"),
        operation_us=max(
            0.05,
            1e6 * ((spent["more"] - spent["few"]) / (more - few) - 2 * 32**3 / matrix[0][1]),
        ),
        dispatch_us=1e6 * call,
        dispatch_device_us=each,
        alpha=alpha,
        beta=beta,
        memory=default.memory,
        share=share,
        measured=True,
        convolution=2.0 * 8 * 16 * 32 * 32 * 16 * 9 / one("convolved"),
        decomposition=SIZE**3 / 3 / one("factor"),
        shared_memory=True,
        reduction=ELEMENTS / one("reduced"),
        transform=5 * ELEMENTS * math.log2(ELEMENTS // 32) / one("transformed"),
        serial=shuffled * math.log2(shuffled) / one("sorted"),
        memory_rates=tuple(memory_rates),
    )


def _rates(size: int, one: float, read: float) -> tuple[float, float]:
    """Bytes read and written a second, from the seconds in which an array of this size is made of another, and in which one is only read.

    >>> _rates(8, 3.0, 1.0)
    (8.0, 4.0)
    """
    # Writing takes as long as reading at least, since what is written over is read first.
    read = min(read, one / 2)
    return size / read, size / (one - read)


def _square(x: Any) -> Any:
    return x @ x


def _plus_one(x: Any) -> Any:
    return x + 1


def _additions(x: Any) -> Any:
    """Sixty-four operations on each element, no two of which a processor does as one."""
    for n in range(32):
        x = jnp.maximum(x, n) + 0.5
    return x


def _in_a_row(n: int) -> Callable:
    """A program of small products, one after the other."""

    def program(x):
        for _ in range(n):
            x = x @ x * (1 / 32)
        return x

    return jit(program)


class Timed(NamedTuple):
    """A program to time, its argument, and how often it is called in a round."""

    program: Callable
    x: Any
    often: int = 1


def least(timed: Mapping[str, Timed]) -> dict[str, float]:
    """Seconds of a call of each program, the least of many: what else goes on can only add to it.

    All have their turn in each round, so that what goes on meanwhile does not make one of them slow beside the others.
    """
    for program, x, _ in timed.values():
        wait(program(x))
    found = dict.fromkeys(timed, math.inf)
    begin = events.clock()
    for n in range(MOST_ROUNDS):
        if n >= LEAST_ROUNDS and events.clock() - begin > 1e9 * SECONDS:
            break
        for name, (program, x, often) in timed.items():
            wait(program(x))  # it is in the caches as in a loop of steps
            for _ in range(often):
                start = events.clock()
                wait(program(x))
                found[name] = min(found[name], (events.clock() - start) / 1e9)
    return found


SMALL, LARGE = 64, 1 << 18
"""Elements on each device of the messages that are timed."""
TURNS = {"products": 4, "small": 20, "large": 6}
"""How often a loop does what is timed."""


def _together(devices: Any) -> dict[str, Timed]:
    """What all devices do at once, and what they send one another."""
    n = len(devices)
    mesh = make_mesh((n,), ("d",), devices=devices)
    split = NamedSharding(mesh, PartitionSpec("d"))

    def on_each(body: Callable, x: Any, times: int) -> Timed:
        loop = lambda x: lax.fori_loop(0, times, lambda i, x: body(x), x)
        lies = PartitionSpec("d")
        mapped = shard_map(loop, mesh=mesh, in_specs=lies, out_specs=lies, check_vma=False)
        return Timed(jit(mapped), device_put(x, split))

    total = lambda x: lax.psum(x, "d") * (1 / n)
    product = lambda x: x @ x * (1 / SIZE)
    return {
        "each": on_each(_plus_one, jnp.ones(4 * n), 1),
        "products": on_each(product, jnp.ones((n * SIZE, SIZE)), TURNS["products"]),
        "small": on_each(total, jnp.ones(n * SMALL), TURNS["small"]),
        "large": on_each(total, jnp.ones(n * LARGE), TURNS["large"]),
    }


def _shared(n: int, spent: Mapping[str, float], one: float) -> tuple[float, float, float, float]:
    """How many devices' work is done at once, what a message takes, and what a call takes for each device more."""
    each = spent["each"]
    turn = {name: max(1e-9, spent[name] - each) / times for name, times in TURNS.items()}
    share = min(float(n), max(1.0, n * one / turn["products"]))
    steps = 2 * (n - 1)
    alpha = 1e6 * turn["small"] / steps
    beta = (4 * LARGE / n) / max(1e-3, 1e6 * turn["large"] / steps - alpha)
    return share, alpha, beta, max(0.0, 1e6 * (each - spent["call"]) / (n - 1))
