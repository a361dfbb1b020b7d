"""Runs of kernels made by hand, with plain arithmetic: what the machine would say of them, for the views to draw."""

from __future__ import annotations

import itertools
import math

import numpy as np

import xlab
from xlab import observe
from xlab.kernels import BlockSpec, kernel_call
from xlab.observe.records import Source
from xlab.observe.records.kernel import (
    BlockVisit,
    BufferChange,
    CorePair,
    KernelBuffer,
    KernelCost,
    KernelEquation,
    KernelFault,
    KernelLint,
    KernelOperand,
    KernelRace,
    KernelRun,
    KernelTurn,
    Movement,
    RefAccess,
    Roofline,
)

ROOFS = (
    Roofline("tpu:v5e", 197e12, 819e9, "data sheet"),
    Roofline("tpu:v5p", 459e12, 2765e9, "data sheet"),
)
SIMULATED = "simulated by the value interpreter"


def line(number: int, text: str = "o_ref[...] += a_ref[...] @ b_ref[...]") -> Source:
    """A line of the kernel's file."""
    return Source("matmul.py", number, 4, 30, "matmul_kernel", text)


def _visits(operands, grid, maps, most=None):
    """One visit per step and operand: `maps` give the index, blocks are the operands' block shapes."""
    seen: dict = {}
    out = []
    for step, place in enumerate(itertools.islice(itertools.product(*map(range, grid)), most)):
        for o, (io, index_map) in zip(operands, maps, strict=True):
            index = index_map(*place)
            shape = tuple(int(b.rsplit(" ")[-1]) for b in o.block)
            start = tuple(i * b for i, b in zip(index, shape, strict=True))
            padded = tuple(-(-n // b) * b for n, b in zip(o.shape, shape, strict=True))
            held = tuple(min(s, n - b) for s, n, b in zip(start, padded, shape, strict=True))
            pad = tuple(max(0, s + b - n) for s, b, n in zip(held, shape, o.shape, strict=True))
            seen[o.name, held] = seen.get((o.name, held), 0) + 1
            out.append(
                BlockVisit(
                    step, place, o.name, io, index, held, shape, (), pad, held != start,
                    seen[o.name, held], t=2 * step,
                )
            )  # fmt: skip
    return tuple(out)


def _moved(operands, events):
    out = []
    for o in operands:
        mine = [e for e in events if e.operand == o.name]
        size = 4 * math.prod(mine[0].shape)
        moves = [e for a, e in zip([None, *mine], mine) if a is None or a.start != e.start]
        distinct = len({e.start for e in mine})
        out.append(
            Movement(
                o.name, mine[0].io, len(mine), len(moves), distinct, size * len(moves),
                size * distinct, size * len(mine),
            )
        )  # fmt: skip
    return tuple(out)


def matmul(m: int = 4, n: int = 3, k: int = 2, block: int = 16) -> KernelRun:
    """A tiled matmul: A is constant along n, B along m, C is visited k times in a row."""
    grid = (m, n, k)
    operands = (
        KernelOperand("args[0]", (m * block, k * block), "f32", "any", block=(str(block),) * 2, index_map="i, j, k → (i, k)", source=line(3)),
        KernelOperand("args[1]", (k * block, n * block), "f32", "any", block=(str(block),) * 2, index_map="i, j, k → (k, j)", source=line(4)),
        KernelOperand("outputs[0]", (m * block, n * block), "f32", "any", "output", block=(str(block),) * 2, index_map="i, j, k → (i, j)", source=line(5)),
    )  # fmt: skip
    events = _visits(
        operands,
        grid,
        (
            ("read", lambda i, j, p: (i, p)),
            ("read", lambda i, j, p: (p, j)),
            ("both", lambda i, j, p: (i, j)),
        ),
    )
    cells = tuple(float(i % 7) for i in range(64))
    return KernelRun(
        "matmul_kernel",
        operands=operands,
        grid=grid,
        grid_names=("m", "n", "k"),
        pairs=(CorePair("", "", "matmul_kernel"),),
        events=events,
        cost=KernelCost(
            2 * m * n * k * block**3,
            0,
            "estimated from the kernel",
            _moved(operands, events),
            ROOFS,
        ),
        buffers=(
            KernelBuffer(
                "outputs[0]", "call", operands[2].shape, "f32", (8, 8), False, (None,) * 64
            ),
        ),
        changes=tuple(
            BufferChange(
                2 * s, 0, tuple(c * s if i <= s * 2 else None for i, c in enumerate(cells))
            )
            for s in range(math.prod(grid))
        ),
        steps=math.prod(grid),
        time=2 * math.prod(grid),
        made=SIMULATED,
    )


def softmax() -> KernelRun:
    """Two passes over the columns of each row block: the output's blocks are left and visited again."""
    grid = (2, 2, 3)
    operands = (
        KernelOperand("args[0]", (16, 24), "f32", "any", block=("8", "8"), index_map="i, p, j → (i, j)"),
        KernelOperand("outputs[0]", (16, 24), "f32", "any", "output", block=("8", "8"), index_map="i, p, j → (i, j)"),
    )  # fmt: skip
    events = _visits(
        operands,
        grid,
        (("read", lambda i, p, j: (i, j)), ("write", lambda i, p, j: (i, j))),
    )
    scratch = KernelBuffer("scratch[0]", "core 0", (8, 2), "f32", cells=(None,) * 16)
    return KernelRun(
        "softmax_kernel",
        operands=(
            *operands,
            KernelOperand("scratch[0]", (8, 2), "f32", "local", "scratch"),
        ),
        grid=grid,
        grid_names=("rows", "pass", "columns"),
        events=events,
        buffers=(scratch,),
        changes=tuple(
            BufferChange(2 * s, 0, tuple(float(s) if i % 2 else s / 3 for i in range(16)))
            for s in range(12)
        ),
        lints=(
            KernelLint(
                "6 blocks of outputs[0] are left and visited again, first (0, 0), in steps 1 and 4: on hardware what such a block holds "
                "then is undefined",
                "outputs[0]",
                "put the axes of the grid that its index map does not use last",
            ),
        ),
        steps=12,
        time=24,
        made=SIMULATED,
    )


def padded() -> KernelRun:
    """Ten elements in blocks of four: two elements of padding; a fourth step is clamped."""
    operands = (
        KernelOperand("args[0]", (10,), "f32", "any", block=("4",), index_map="i → (i)"),
        KernelOperand("outputs[0]", (10,), "f32", "any", "output", block=("4",), index_map="i → (i)"),
    )  # fmt: skip
    events = _visits(operands, (4,), (("read", lambda i: (i,)), ("write", lambda i: (i,))))
    return KernelRun(
        "add_one",
        operands=operands,
        grid=(4,),
        pairs=(CorePair("", "", "add_one"),),
        events=events,
        buffers=(KernelBuffer("args[0]", "core 0", (4,), "f32", cells=(0.0, 1.0, 2.0, 3.0)),),
        changes=(
            BufferChange(2, 0, (4.0, 5.0, 6.0, 7.0)),
            BufferChange(4, 0, (8.0, 9.0, float("nan"), None)),
        ),
        faults=(
            KernelFault("nan", "args[0] holds NaN", 4, 2, 0, "args[0]"),
            KernelFault("bounds", "block 3 of args[0] begins at 12 of 10", 6, 3, 0, "args[0]"),
            KernelFault("uninitialized", "args[0][2:4] is read uninitialized", 4, 2, 0, "args[0]"),
        ),
        steps=4,
        time=8,
        made=SIMULATED,
    )


PAIRS = (
    CorePair("P(1)", "scalar", "producer", (0,), ("p",), (1,)),
    CorePair("Q(2)", "vector", "consumer", (1, 2), ("q",), (2,)),
)
SHARED = (
    KernelOperand("scratch[0]", (2,), "i32", "shared", "scratch"),
    KernelOperand("scratch[1]", (2,), "i16", "semaphore", "scratch"),
    KernelOperand("outputs[0]", (2,), "i32", "any", "output"),
)


def _access(t, core, ref, kind, at, **more):
    pair = int(core > 0)
    return RefAccess(
        t, core, ref, kind, ((at, at + 1),), pair, (max(0, core - 1),), f"body/{t}", **more
    )


def signal_edges(run: KernelRun) -> tuple[tuple[int, int, int, int, str], ...]:
    """From each signal to the waits that it let go on: time and core of the signal, time and core of the wait, the semaphore.

    Signals are spent in the order they came; a wait for several goes on with the last of them.
    """
    tokens: dict[str, list[list[int]]] = {}
    out = []
    waits = [e for e in run.accesses if e.kind == "wait" and e.until >= 0]
    signals = sorted((e for e in run.accesses if e.kind == "signal"), key=lambda e: e.t)
    for e in signals:
        tokens.setdefault(_semaphore(e), []).append([e.t, e.core, e.count or 1])
    for w in sorted(waits, key=lambda e: e.until):
        needed, last = max(1, w.count), None
        queue = tokens.get(_semaphore(w), [])
        while needed > 0 and queue and queue[0][0] <= w.until:
            taken = min(needed, queue[0][2])
            last = (queue[0][0], queue[0][1])
            queue[0][2] -= taken
            needed -= taken
            if not queue[0][2]:
                queue.pop(0)
        if last is not None:
            out.append((*last, w.until, w.core, w.ref))
    return tuple(out)


def _semaphore(e: RefAccess) -> str:
    return f"{e.ref}{e.slice}"


def producer_consumer(seed: int | None = None) -> KernelRun:
    """The producer writes b[0], signals, writes b[1], signals; each consumer waits for its semaphore, reads, writes its output."""
    b, s, out = "scratch[0]", "scratch[1]", "outputs[0]"
    late = 4 if seed else 0
    events = (
        _access(0, 0, b, "write", 0),
        _access(1, 1, s, "wait", 0, count=1, until=4 + late),
        _access(2, 2, s, "wait", 1, count=1, until=8 + late),
        _access(3 + late, 0, s, "signal", 0, count=1, of="1"),
        _access(5 + late, 0, b, "write", 1),
        _access(6 + late, 1, b, "read", 0),
        _access(7 + late, 0, s, "signal", 1, count=1, of="2"),
        _access(9 + late, 1, out, "write", 0),
        _access(10 + late, 2, b, "read", 1),
        _access(11 + late, 2, out, "write", 1),
        _access(12 + late, 0, b, "copy", 0, until=15 + late, of="args[0]"),
    )
    run = KernelRun(
        "ring",
        "mpmd_map",
        operands=SHARED,
        pairs=PAIRS,
        events=events,
        equations=tuple(
            KernelEquation(e.eqn, f"{e.kind} {e.ref}", line(10 + e.t, "b[0] = 10")) for e in events
        ),
        schedule=tuple(KernelTurn(e.t, e.core, 1) for e in events),
        buffers=(
            KernelBuffer(b, "call", (2,), "i32", cells=(None, None)),
            KernelBuffer(out, "call", (2,), "i32", cells=(None, None)),
        ),
        changes=(
            BufferChange(0, 0, (10.0, None)),
            BufferChange(5 + late, 0, (10.0, 20.0)),
            BufferChange(9 + late, 1, (11.0, None)),
            BufferChange(11 + late, 1, (11.0, 21.0)),
        ),
        time=16 + late,
        scheduled_by="round robin" if seed is None else f"random, seed {seed}",
        made=SIMULATED,
    )
    run = run.replace(edges=signal_edges(run))
    return run if seed is not None else run.replace(others=(producer_consumer(7),))


def race() -> KernelRun:
    """The same without semaphores: both consumers read what nothing orders after its write."""
    b, out = "scratch[0]", "outputs[0]"
    events = (
        _access(0, 0, b, "write", 0),
        _access(1, 1, b, "read", 0),
        _access(2, 2, b, "read", 1),
        _access(3, 0, b, "write", 1),
        _access(4, 1, out, "write", 0),
        _access(5, 2, out, "write", 1),
    )
    races = (
        KernelRace(b, ("write", "read"), (0, 1), (((0, 1),), ((0, 1),)), ("body/0", "body/1"), (0, 1), (line(10), line(20)), (0, 1)),
        KernelRace(b, ("read", "write"), (2, 0), (((1, 2),), ((1, 2),)), ("body/2", "body/3"), (2, 3), (line(20), line(12)), (0, 2, 0)),
    )  # fmt: skip
    return producer_consumer(7).replace(
        name="no_semaphores",
        events=events,
        schedule=tuple(KernelTurn(e.t, e.core) for e in events),
        edges=(),
        races=races,
        changes=(BufferChange(0, 0, (10.0, None)), BufferChange(3, 0, (10.0, 20.0))),
        faults=(
            KernelFault("uninitialized", "scratch[0][1] is read uninitialized", 2, -1, 2, b, line(20)),
        ),
        time=6,
    )  # fmt: skip


def deadlock() -> KernelRun:
    """Two cores that wait for each other."""
    s = "scratch[1]"
    events = (
        _access(0, 0, s, "wait", 0, count=1),
        _access(1, 1, s, "wait", 1, count=1),
        _access(2, 2, "scratch[0]", "write", 0),
    )
    return producer_consumer(7).replace(
        name="circular",
        events=events,
        schedule=tuple(KernelTurn(e.t, e.core) for e in events),
        edges=(),
        changes=(),
        faults=(
            KernelFault(
                "deadlock",
                "core 0 waits for scratch[1][0] (1, has 0), core 1 for scratch[1][1] (1, has 0)",
                3,
                -1,
                0,
                s,
            ),
        ),
        time=8,
    )


def long_run(steps=10_000):
    """A grid of many steps, from its index maps."""
    spec = BlockSpec((4,), lambda i: (i,))

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = np.zeros(4 * steps, np.float32)
    call = kernel_call(
        copy,
        xlab.ShapeDtypeStruct(x.shape, "float32"),
        grid=steps,
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
    )
    return observe.kernels(call, x)[0]


ALL = (matmul, softmax, padded, producer_consumer, race, deadlock)
