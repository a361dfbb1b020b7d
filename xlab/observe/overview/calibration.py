"""Measures what this machine can do, in less than a minute.

Each number is measured alone, and what a call takes is not in it. What several virtual devices do at once is measured too, since they share
the cores of one host: how many devices' work is done at once, for short operations and for long ones, and what a collective among them takes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlab import events, lax
from xlab import numpy as jnp
from xlab.backend import client
from xlab.compile.jit import jit
from xlab.core.dtypes import canonicalize_dtype
from xlab.observe.overview.machines import default_cpu, remember
from xlab.observe.overview.rates import Timed, call_seconds, product_seconds, rated, rates_of
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
IN_A_ROW = 4
"""Calls one after the other of what is bound by memory."""
SECONDS = 30
"""After these the rounds end."""


def calibrate(file: str | os.PathLike[str] | None = None, *, again: bool = False) -> Machine:
    """Measures this machine; what is predicted for `cpu` from then on is predicted for it.

    Args:
        file: where the result is kept: read if it is there, else written. Without it, it is kept for this process.
        again: measure although the file is there.

    Returns:
        The machine as a record: rates of products by dtype, of other arithmetic, of functions as `exp`, of reductions, convolutions, transposes,
        transforms and sorts, most of them at several sizes; bandwidth of the memory for small, large and very large values; what an operation and
        a call take; how many devices' work is done at once, what a collective among them takes before it sends, and what a message takes.

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
    timed["call"] = Timed(jit(_plus_one), (jnp.ones(4),))
    products = [
        (name, dtype)
        for name, dtype in (("f32", np.float32), ("bf16", jnp.bfloat16), ("f64", np.float64))
        if canonicalize_dtype(dtype) == np.dtype(dtype)
    ]
    for name, dtype in products:
        timed[name] = Timed(jit(_square), (jnp.ones((SIZE, SIZE), dtype),))
    half = jnp.full(ELEMENTS, 0.5)
    sizes = {ELEMENTS // 16: 16, ELEMENTS // 4: 16, 3 * ELEMENTS: 4, 16 * ELEMENTS: 2}
    for n, more in sizes.items():
        for times in (1, 1 + more):
            # Where the host system puts a result depends on what was freed before: after a few calls it is as in a loop of steps.
            timed[f"{times} of {n}"] = Timed(_copies(times), (jnp.ones(n),), often=IN_A_ROW)
    rows = jnp.reshape(half, (32, -1))
    timed["reduced"] = Timed(jit(lambda x: x.sum(-1)), (rows,))
    timed["transformed"] = Timed(jit(jnp.fft.fft), (lax.complex(rows, rows),))
    timed["sorted"] = Timed(jit(jnp.sort), (jnp.sin(jnp.arange(ELEMENTS / 16)),))
    timed["added"] = Timed(jit(_additions), (half,))
    timed["tanh"] = Timed(jit(jnp.tanh), (half,))
    few, more = 4, 68
    timed["few"], timed["more"] = (
        Timed(_in_a_row(n), (jnp.ones((32, 32)),), often=4) for n in (few, more)
    )
    image, filters = jnp.ones((8, 16, 32, 32)), jnp.ones((16, 16, 3, 3))
    timed["convolved"] = Timed(jit(lambda x: lax.conv(x, filters, (1, 1), "SAME")), (image,))
    positive = jnp.asarray(np.eye(SIZE, dtype=np.float32) + 1 / SIZE)
    timed["factor"] = Timed(jit(jnp.linalg.cholesky), (positive,))
    alone = rated(ELEMENTS)
    timed |= {name: p.timed for name, p in alone.items()}
    devices = client.devices("cpu")
    if len(devices) > 1:
        timed |= _together(devices)
    spent = least(timed)
    call = spent["call"]
    working = max(call, call_seconds(alone, spent))
    one = lambda name: max(1e-7, spent[name] - working)
    shuffled = ELEMENTS // 16
    memory_rates = [
        (4 * n, *_rates(4 * n, one(f"1 of {n}"), one(f"{1 + more} of {n}"), more))
        for n, more in sizes.items()
    ]
    matrix = tuple((name, 2.0 * SIZE**3 / one(name)) for name, _ in products)
    default = default_cpu()
    rates = rates_of(alone, {name: one(name) for name in alone})
    machine = Machine(
        "cpu",
        f"measured on this machine: {os.cpu_count()} cores, {len(devices)} devices",
        matrix,
        vector=64 * ELEMENTS / one("added"),
        transcendental=ELEMENTS / one("tanh"),
        bandwidth=2 * 4 * 3 * ELEMENTS / one(f"1 of {3 * ELEMENTS}"),
        operation_us=max(
            0.05,
            1e6 * ((spent["more"] - spent["few"]) / (more - few) - 2 * 32**3 / matrix[0][1]),
        ),
        dispatch_us=1e6 * call,
        alpha=default.alpha,
        beta=default.beta,
        memory=default.memory,
        measured=True,
        convolution=2.0 * 8 * 16 * 32 * 32 * 16 * 9 / one("convolved"),
        decomposition=SIZE**3 / 3 / one("factor"),
        shared_memory=True,
        reduction=ELEMENTS / one("reduced"),
        transform=5 * ELEMENTS * math.log2(ELEMENTS // 32) / one("transformed"),
        serial=shuffled * math.log2(shuffled) / one("sorted"),
        memory_rates=tuple(memory_rates),
        rates=rates,
    )
    return _shared(machine, len(devices), spent) if len(devices) > 1 else machine


def _rates(size: int, one: float, many: float, more: int) -> tuple[float, float]:
    """Bytes read a second, and bytes of results written, from the seconds of one copy of so many bytes and of `more` copies more.

    >>> _rates(8, 3.0, 5.0, 2)
    (16.0, 3.2)
    """
    # What is read and written inside of a program stays where it is, while a result is memory that is given anew. A result is no faster.
    read = min(max(many - one, 0.05 * many) / more, one) / 2
    return size / read, size / (one - read)


def _copies(times: int) -> Callable:
    """A value read and written so often, one time after the other."""
    return jit(lambda x: lax.fori_loop(0, times, lambda i, x: x + 1, x))


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


def least(timed: Mapping[str, Timed]) -> dict[str, float]:
    """Seconds of a call of each program, the least of many: what else goes on can only add to it.

    All have their turn in each round, so that what goes on meanwhile does not make one of them slow beside the others.
    """
    for program, args, _ in timed.values():
        wait(program(*args))
    found = dict.fromkeys(timed, math.inf)
    begin = events.clock()
    for n in range(MOST_ROUNDS):
        if n >= LEAST_ROUNDS and events.clock() - begin > 1e9 * SECONDS:
            break
        for name, (program, args, often) in timed.items():
            wait(program(*args))  # it is in the caches as in a loop of steps
            for _ in range(often):
                start = events.clock()
                wait(program(*args))
                found[name] = min(found[name], (events.clock() - start) / 1e9)
    return found


SMALL, LARGE = 64, 1 << 20
"""Elements on each device of the messages that are timed: nearly none, and more than caches have."""
TURNS = {"short": 40, "long": 4, "small": 20, "hop": 20, "large": 4}
"""How often a loop does what is timed."""


def _sides() -> tuple[int, int]:
    """Rows of the matrices that all devices multiply at once: of a short operation and of a long one, both timed alone too."""
    side = math.isqrt(ELEMENTS)
    return max(4, side // 8), max(4, side // 2)


def _together(devices: Any) -> dict[str, Timed]:
    """What all devices do at once, and what they send one another."""
    n = len(devices)
    mesh = make_mesh((n,), ("d",), devices=devices)
    split = NamedSharding(mesh, PartitionSpec("d"))

    def on_each(body: Callable, x: Any, times: int) -> Timed:
        loop = lambda x: lax.fori_loop(0, times, lambda i, x: body(x), x)
        lies = PartitionSpec("d")
        mapped = shard_map(loop, mesh=mesh, in_specs=lies, out_specs=lies, check_vma=False)
        return Timed(jit(mapped), (device_put(x, split),))

    total = lambda x: lax.psum(x, "d") * (1 / n)
    around = [(i, (i + 1) % n) for i in range(n)]
    short, long = _sides()
    product = lambda x: x @ x * (1 / len(x))
    return {
        "each": on_each(_plus_one, jnp.ones(4 * n), 1),
        "short": on_each(product, jnp.ones((n * short, short)), TURNS["short"]),
        "long": on_each(product, jnp.ones((n * long, long)), TURNS["long"]),
        "small": on_each(total, jnp.ones(n * SMALL), TURNS["small"]),
        "hop": on_each(lambda x: lax.ppermute(x, "d", around), jnp.ones(n * SMALL), TURNS["hop"]),
        "large": on_each(total, jnp.ones(n * LARGE), TURNS["large"]),
    }


def _shared(machine: Machine, n: int, spent: Mapping[str, float]) -> Machine:
    """The machine with how many devices' work is done at once, what a collective takes, and what a call takes for each device more."""
    each = spent["each"]
    turn = {name: max(1e-9, spent[name] - each) / times for name, times in TURNS.items()}
    shares = []
    for name, side in zip(("short", "long"), _sides()):
        alone = product_seconds(machine.rates, side)
        shares.append((1e6 * alone, min(float(n), max(1.0, n * alone / turn[name]))))
    # A permutation sends one message after all have come together, a sum by a ring many.
    steps = 2 * (n - 1)
    small, hop = 1e6 * turn["small"], 1e6 * turn["hop"]
    alpha = max(0.01, (small - hop) / (steps - 1) if n > 2 else 0.0)
    start = max(0.0, min(small - steps * alpha, hop - alpha))
    bytes_each = 4 * LARGE / n
    beta = bytes_each / max(1e-3, (1e6 * turn["large"] - start) / steps - alpha)
    return machine.replace(
        dispatch_device_us=max(0.0, 1e6 * (each - spent["call"]) / (n - 1)),
        share=shares[-1][1],
        shares=tuple(shares),
        start_us=start,
        alpha=alpha,
        beta=beta,
    )
