"""What is measured: each benchmark sets up on one side and gives seconds for one unit of work.

A benchmark is a function `(n, quick) -> seconds`, registered with its goal for xlab ÷ reference; `fresh` ones are
scripts that a process runs from its start.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.benchmarks import programs
from tests.reference.sample import Namespaces


@dataclass(frozen=True)
class Benchmark:
    """One row of the table: `goal` bounds the ratio, `per` is the unit of its seconds."""

    name: str
    goal: float
    per: str
    run: Callable | str


BENCHMARKS: dict[str, Benchmark] = {}
NEEDS: dict[str, tuple[str, ...]] = {}
"""Libraries besides the two sides that a benchmark cannot do without."""
PAUSE = 0.1  # seconds; more than a collection takes on either side
CLOCK: list[float] = []
"""How often a second an empty loop ran between the batches: how fast the machine was while a benchmark ran."""


def benchmark(name: str, goal: float, per: str):
    """Registers a benchmark under a name."""

    def register(run):
        BENCHMARKS[name] = Benchmark(name, goal, per, run)
        return run

    return register


def timed(
    run: Callable[[], object], calls: int = 1, *, repeats: int = 7, least: float = 0.02
) -> float:
    """Median seconds of `run()` divided by `calls`, over batches of at least `least` seconds.

    Each batch follows a pause of one length, in which garbage is collected and the processor kept busy: calls after
    such a pause are up to a third faster, and a collection alone lasts 8 ms on one side and 43 ms on the other.
    """
    run()
    number = 1
    while True:
        start = time.perf_counter()
        for _ in range(number):
            run()
        spent = time.perf_counter() - start
        if spent >= least or number >= 1 << 20:
            break
        number *= max(2, min(10, int(least / max(spent, 1e-9))))
    batches = []
    for _ in range(repeats):
        start = time.perf_counter()
        gc.collect()
        begin, loops = time.perf_counter(), 0
        while (now := time.perf_counter()) - start < PAUSE:
            loops += 1
        CLOCK.append(loops / (now - begin))
        start = time.perf_counter()
        for _ in range(number):
            run()
        batches.append((time.perf_counter() - start) / number / calls)
    return statistics.median(batches)


# -- from process start ------------------------------------------------------------------------------------

BENCHMARKS["import"] = Benchmark("import", 0.4, "process", "import {name}")
BENCHMARKS["first jit"] = Benchmark(
    "first jit",
    0.45,
    "process",
    "import {name}; {name}.block_until_ready({name}.jit(lambda x: x + 1)(1.0))",
)


# -- warm calls ----------------------------------------------------------------------------------------------


def sharding(n: Namespaces):
    mesh = n.jax.make_mesh((8,), ("d",))
    return n.jax.sharding.NamedSharding(mesh, n.jax.sharding.PartitionSpec("d"))


def arguments(n: Namespaces, count: int, where=None):
    arrays = [np.arange(16, dtype=np.float32) + i for i in range(count)]
    return n.jax.block_until_ready(
        [n.jax.device_put(x, where) if where is not None else n.jnp.asarray(x) for x in arrays]
    )


def warm_call(n: Namespaces, count: int, where=None) -> float:
    args = arguments(n, count, where)
    call = n.jax.jit(lambda *xs: [x + 1 for x in xs])
    return timed(repeated(n, lambda: call(*args), 50), 50)


def repeated(n: Namespaces, call, times: int):
    """`call` in a loop that waits only once, at its end."""

    def run():
        out = None
        for _ in range(times):
            out = call()
        n.jax.block_until_ready(out)

    return run


for _count in (1, 10, 100):
    benchmark(f"warm jit, {_count} args", 1.0, "call")(
        lambda n, quick, count=_count: warm_call(n, count)
    )
    benchmark(f"warm jit, {_count} args, 8 devices", 1.0, "call")(
        lambda n, quick, count=_count: warm_call(n, count, sharding(n))
    )


def compiled_call(n: Namespaces, count: int) -> float:
    args = arguments(n, count)
    call = n.jax.jit(lambda *xs: [x + 1 for x in xs]).lower(*args).compile()
    return timed(repeated(n, lambda: call(*args), 50), 50)


for _count in (1, 10):
    benchmark(f"call of a compiled object, {_count} args", 1.0, "call")(
        lambda n, quick, count=_count: compiled_call(n, count)
    )


def donating_call(n: Namespaces, count: int, where=None) -> float:
    """A step that gives its arguments away and gets them back."""
    call = n.jax.jit(lambda *xs: [x + 1 for x in xs], donate_argnums=tuple(range(count)))
    args = call(*arguments(n, count, where))

    def run():
        nonlocal args
        for _ in range(50):
            args = call(*args)
        n.jax.block_until_ready(args)

    return timed(run, 50)


# Each such call notes which line took which array: the reference leaves that out, and a later use ends the process on several devices.
for _count in (1, 10, 50):
    benchmark(f"warm jit that donates, {_count} args", 1.4, "call")(
        lambda n, quick, count=_count: donating_call(n, count)
    )
benchmark("warm jit that donates, 10 args, 8 devices", 1.4, "call")(
    lambda n, quick: donating_call(n, 10, sharding(n))
)


@benchmark("shard_map warm, 8 devices", 1.0, "call")
def shard_map_call(n, quick):
    where = sharding(n)
    args = arguments(n, 1 if quick else 100, where)
    call = n.jax.jit(
        n.jax.shard_map(
            lambda *xs: [x + 1 for x in xs],
            mesh=where.mesh,
            in_specs=where.spec,
            out_specs=where.spec,
        )
    )
    return timed(repeated(n, lambda: call(*args), 10), 10)


@benchmark("shard_map psum warm, 8 devices", 1.0, "call")
def psum_call(n, quick):
    where = sharding(n)
    args = arguments(n, 1, where)
    call = n.jax.jit(
        n.jax.shard_map(
            lambda x: n.lax.psum(x, "d"),
            mesh=where.mesh,
            in_specs=where.spec,
            out_specs=n.jax.sharding.PartitionSpec(),
        )
    )
    return timed(repeated(n, lambda: n.jax.block_until_ready(call(*args)), 10), 10)


@benchmark("pmap warm, 8 devices", 1.0, "call")
def pmap_call(n, quick):
    call = n.jax.pmap(lambda *xs: [x + 1 for x in xs])
    args = [np.zeros((8, 2), np.float32) for _ in range(1 if quick else 100)]
    args = call(*args)
    return timed(repeated(n, lambda: call(*args), 10), 10)


@benchmark("device_put, 100 arrays, 8 devices", 1.0, "call")
def put_call(n, quick):
    where = sharding(n)
    arrays = [np.arange(16, dtype=np.float32) + i for i in range(100)]
    return timed(lambda: n.jax.block_until_ready(n.jax.device_put(arrays, where)))


# -- eager -----------------------------------------------------------------------------------------------------


def eager(name: str, call):
    @benchmark(f"eager {name}", 0.9, "call")
    def run(n, quick):
        x = n.jax.block_until_ready(n.jnp.arange(16.0))
        return timed(repeated(n, lambda: call(n, x), 50), 50)


eager("x + 1", lambda n, x: x + 1)
eager("sin(x)", lambda n, x: n.jnp.sin(x))
eager("lax.sin(x)", lambda n, x: n.lax.sin(x))
eager("x[i]", lambda n, x: x[3])


# -- tracing and lowering ----------------------------------------------------------------------------------

SIZES = (1_000, 10_000, 100_000)
CHAINS = {"lax": programs.lax_chain, "numpy": programs.numpy_chain}
GOALS = {"lax": 0.2, "numpy": 0.15}
START = np.float32(0.5)


def trace_chain(n, make, size):
    run = lambda: n.jax.jit(make(n, size)).trace(START)
    return timed(run, size, repeats=5 if size <= 10_000 else 1, least=0.0)


def lower_chain(n, make, size):
    spent = []
    for _ in range(4 if size <= 10_000 else 2):
        traced = n.jax.jit(make(n, size)).trace(START)
        gc.collect()
        start = time.perf_counter()
        traced.lower()
        spent.append((time.perf_counter() - start) / size)
    return statistics.median(spent[1:])


for _size in SIZES:
    for _kind, _make in CHAINS.items():
        benchmark(f"trace {_kind}, {_size}", GOALS[_kind], "operation")(
            lambda n, quick, make=_make, size=_size: trace_chain(n, make, size)
        )
        benchmark(f"lower {_kind}, {_size}", 0.15, "operation")(
            lambda n, quick, make=_make, size=_size: lower_chain(n, make, size)
        )
LONG = {
    f"{what} {kind}, {SIZES[-1]}" for what in ("trace", "lower") for kind in CHAINS
}  # not with --quick


@benchmark("grad trace, 1000", 0.15, "program")
def grad_trace(n, quick):
    return timed(
        lambda: n.jax.jit(n.jax.grad(programs.lax_chain(n, 1000))).trace(START),
        repeats=5,
        least=0.0,
    )


@benchmark("vmap trace, 1000", 0.2, "program")
def vmap_trace(n, quick):
    batch = np.arange(4, dtype=np.float32)
    return timed(
        lambda: n.jax.jit(n.jax.vmap(programs.lax_chain(n, 1000))).trace(batch),
        repeats=5,
        least=0.0,
    )


@benchmark("transformer step, trace", 0.3, "program")
def transformer_trace(n, quick):
    args = programs.train_arguments()
    return timed(lambda: n.jax.jit(programs.train_step(n)).trace(*args), repeats=3, least=0.0)


@benchmark("transformer step, trace + lower", 0.3, "program")
def transformer_lower(n, quick):
    args = programs.train_arguments()
    return timed(lambda: n.jax.jit(programs.train_step(n)).lower(*args), repeats=3, least=0.0)


# -- kernels -------------------------------------------------------------------------------------------------


def kernel_matmul(n: Namespaces):
    """A tiled matrix product as a kernel of 256 steps, and its operands."""
    if n.name == "xlab":
        from xlab import kernels

        call, spec, position = kernels.kernel_call, kernels.BlockSpec, kernels.program_id
    else:
        from jax.experimental import pallas

        call, spec, position = pallas.pallas_call, pallas.BlockSpec, pallas.program_id

    def kernel(x, y, o):
        first = position(2) == 0
        o[...] = n.jnp.where(first, 0.0, o[...]) + n.jnp.dot(x[...], y[...])

    f = call(
        kernel,
        n.jax.ShapeDtypeStruct((256, 256), n.jnp.float32),
        grid=(8, 8, 4),
        in_specs=[spec((32, 64), lambda i, j, k: (i, k)), spec((64, 32), lambda i, j, k: (k, j))],
        out_specs=spec((32, 32), lambda i, j, k: (i, j)),
        interpret=True,
    )
    random = np.random.RandomState(0)
    return f, [n.jnp.asarray(random.rand(256, 256).astype(np.float32)) for _ in range(2)]


@benchmark("kernel matmul of 256 steps, run", 1.0, "call")
def kernel_matmul_run(n, quick):
    f, args = kernel_matmul(n)
    call = n.jax.jit(f)
    return timed(lambda: n.jax.block_until_ready(call(*args)), repeats=5)


@benchmark("kernel matmul of 256 steps, first call", 1.0, "call")
def kernel_matmul_first(n, quick):
    """Tracing, lowering and compiling; each time a kernel that was not there before."""
    n.jax.block_until_ready(n.jax.jit(lambda x: x + 1)(n.jnp.ones(3)))
    spent = []
    for _ in range(3 if quick else 5):
        f, args = kernel_matmul(n)
        start = time.perf_counter()
        n.jax.block_until_ready(n.jax.jit(f)(*args))
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


# -- compiled programs ---------------------------------------------------------------------------------------


@benchmark("transformer step, run", 1.05, "call")
def transformer_run(n, quick):
    args = n.jax.device_put(programs.train_arguments())
    call = n.jax.jit(programs.train_step(n))
    return timed(lambda: n.jax.block_until_ready(call(*args)), repeats=5)


@benchmark("transformer step, peak memory", 1.0, "bytes")
def transformer_memory(n, quick):
    """Of arguments, results and temporaries at their highest, by the compiler's account."""
    compiled = (
        n.jax.jit(programs.train_step(n), donate_argnums=0)
        .lower(*programs.train_arguments())
        .compile()
    )
    stats = compiled.memory_analysis()
    return (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )


LONG.update(("transformer step, run", "transformer step, peak memory"))
