"""Random kernels and random programs of several cores, each with a model in NumPy or a decision from its graph.

`random_kernel(seed)` is a `kernel_call` over a random grid with random blocks, index maps, scratch and control flow; `.call(**options)` makes
the call, `.args` are its arguments, `.model()` what it gives. `plant="bounds"` or `"uninitialized"` puts one fault in.

`random_tasks(seed)` is an `mpmd_map` whose cores run tasks that read and write slots of shared memory and wait for one another; `.races`
are the pairs of tasks that nothing orders, `.deadlocks` whether it hangs, both from the graph alone.

How many of each tests run says `XLAB_KERNEL_PROGRAMS` (a few by default, 500 for all).
"""

from __future__ import annotations

import itertools
import math
import os
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xlab
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    BoundedSlice,
    CoreMesh,
    Element,
    Indirect,
    MemorySpace,
    PrefetchGridSpec,
    SemaphoreType,
    kernel_call,
    loop,
    mpmd_map,
    program_id,
    run_scoped,
    semaphore_signal,
    semaphore_wait,
    when,
)

PROGRAMS = int(os.environ.get("XLAB_KERNEL_PROGRAMS", "12"))
SDS = xlab.ShapeDtypeStruct
DTYPES = ("int32", "int32", "int8", "uint16", "int16")
LOWEST = {"int32": -(2**31), "int8": -128, "uint16": 0, "int16": 0}


# -- kernels: operands --------------------------------------------------------------------------------------


@dataclass
class Dim:
    """One dimension of an operand: `kind`, the block's size, and its index as `(a, b, modulus)` of a grid axis."""

    kind: str
    size: int
    block: int
    axis: int | None
    scale: int
    shift: int
    modulus: int
    padding: tuple[int, int] = (0, 0)
    step: int = 1  # between the positions of an Indirect dimension

    def index(self, point):
        """What the index map gives: a number, or a list for Indirect, or (start, size)."""
        i = 0 if self.axis is None else point[self.axis]
        i = (i * self.scale + self.shift) % self.modulus
        if self.kind == "indirect":
            return [(f * self.step + i) % self.size for f in range(self.block)]
        if self.kind == "bounded":
            return i, min(self.block, self.size - i)
        return i

    def traced(self, point):
        i = 0 if self.axis is None else point[self.axis]
        i = (i * self.scale + self.shift) % self.modulus
        if self.kind == "indirect":
            return (xlab.lax.iota("int32", self.block) * self.step + i) % self.size
        if self.kind == "bounded":
            return xlab.ds(i, jnp.minimum(self.block, self.size - i))
        return i

    @property
    def entry(self) -> Any:
        return {
            "blocked": self.block,
            "squeezed": None,
            "element": Element(self.block, self.padding),
            "bounded": BoundedSlice(self.block),
            "indirect": Indirect(self.block),
        }[self.kind]


@dataclass
class Array:
    name: str
    dtype: str
    dims: list[Dim]

    @property
    def shape(self):
        return tuple(d.size for d in self.dims)

    @property
    def ref_shape(self):
        return tuple(d.block for d in self.dims if d.kind != "squeezed")

    def spec(self, prefetch):
        def index_map(*args):
            return tuple(d.traced(args) for d in self.dims)

        return BlockSpec(tuple(d.entry for d in self.dims), index_map)

    def padded(self, values):
        """The array with room for every block."""
        out = values
        for axis, d in enumerate(self.dims):
            lo, hi = d.padding if d.kind == "element" else (0, 0)
            if d.kind == "blocked":
                hi = -d.size % d.block
            if d.kind == "bounded":
                hi = d.block
            widths = [(0, 0)] * len(self.dims)
            widths[axis] = (lo, hi)
            out = np.pad(out, widths, constant_values=LOWEST[self.dtype])
        return out

    def places(self, point):
        """Per dimension the positions of the block in the padded array, and how many of them count."""
        out = []
        for d in self.dims:
            i = d.index(point)
            if d.kind == "blocked":
                out.append((np.arange(i * d.block, (i + 1) * d.block), d.block))
            elif d.kind == "indirect":
                out.append((np.array(i), d.block))
            elif d.kind == "bounded":
                out.append((np.arange(i[0], i[0] + d.block), i[1]))
            else:
                out.append((np.arange(i, i + d.block), d.block))
        return out

    def crop(self, values):
        return values[
            tuple(
                slice(d.padding[0], d.padding[0] + d.size)
                if d.kind == "element"
                else slice(0, d.size)
                for d in self.dims
            )
        ]


def _random_dim(r, grid, size=None, output=False) -> Dim:
    kind = r.choice(["blocked", "blocked", "blocked", "squeezed", "element", "bounded", "indirect"])
    size = size or r.randint(1, 9)
    block = r.randint(1, min(size, 4))
    axis = r.choice([None, *range(len(grid))]) if grid else None
    padding: tuple[int, int] = (0, 0)
    step = 1
    if kind == "squeezed":
        block, modulus = 1, size
    elif kind == "element":
        padding = (r.randint(0, 2), r.randint(0, 2))
        modulus = size + sum(padding) - block + 1
    elif kind == "bounded":
        modulus = size
    elif kind == "indirect":
        modulus = size
        step = r.choice([k for k in range(1, size + 1) if math.gcd(k, size) == 1])
    else:
        modulus = -(-size // block)
    scale = r.choice([1, 1, 1, 2, modulus - 1]) or 1
    return Dim(kind, size, block, axis, scale, r.randint(0, 2) % modulus, modulus, padding, step)


# -- kernels: statements, as a tree that is run on references and on NumPy arrays -----------------------------


class Ref:
    """A NumPy array with the accesses that statements use."""

    def __init__(self, values):
        self.values = values

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)


class OnRefs:
    """Statements as part of a kernel."""

    def __init__(self, refs):
        self.refs = refs

    def pid(self, axis):
        return program_id(axis)

    def read(self, name, start, size):
        ref = self.refs[name]
        part = ref[...] if start is None else ref[xlab.ds(start, size)]
        return jnp.sum(part.astype("int32"), dtype="int32")

    def write(self, name, start, size, value, add):
        ref = self.refs[name]
        shape = ref.shape if start is None else (size, *ref.shape[1:])
        count = math.prod(shape)
        new = (jnp.arange(count, dtype="int32").reshape(shape) + value).astype(ref.dtype)
        index = ... if start is None else xlab.ds(start, size)
        if add:
            xlab.ref.addupdate(ref, index, new)
        else:
            ref[index] = new

    def when(self, condition, body):
        when(condition)(body)

    def loop(self, n, body):
        loop(0, n)(body)

    def scoped(self, name, shape, body):
        def run(ref):
            self.refs[name] = ref
            body()

        run_scoped(run, MemorySpace.LOCAL(shape, "int32"))

    def integer(self, x):
        return jnp.int32(x)


class OnArrays(OnRefs):
    """Statements on NumPy arrays."""

    def __init__(self, refs, point):
        self.refs, self.point = refs, point

    def pid(self, axis):
        return np.int32(self.point[axis])

    def read(self, name, start, size):
        values = self.refs[name].values
        part = values if start is None else values[int(start) : int(start) + size]
        return np.sum(part.astype(np.int32), dtype=np.int32)

    def write(self, name, start, size, value, add):
        values = self.refs[name].values
        part = values if start is None else values[int(start) : int(start) + size]
        new = (np.arange(part.size, dtype=np.int32).reshape(part.shape) + value).astype(
            values.dtype
        )
        part[...] = part + new if add else new

    def when(self, condition, body):
        if condition:
            body()

    def loop(self, n, body):
        for i in range(n):
            body(np.int32(i))

    def scoped(self, name, shape, body):
        self.refs[name] = Ref(np.full(shape, LOWEST["int32"], np.int32))
        body()

    def integer(self, x):
        return np.int32(x)


@dataclass
class Kernel:
    """A random kernel."""

    seed: int
    grid: tuple[int, ...]
    inputs: list[Array]
    outputs: list[Array]
    scratch: dict[str, tuple[int, ...]]
    body: list
    args: list[np.ndarray]
    planted: str | None = None
    fault_at: tuple = ()

    def call(self, **options):
        """The call, to be given `args`."""
        names = [a.name for a in (*self.inputs, *self.outputs)]

        def kernel(*refs, **scratch):
            run = OnRefs({**dict(zip(names, refs)), **scratch})
            self._run(run)

        return kernel_call(
            kernel,
            tuple(SDS(a.shape, a.dtype) for a in self.outputs),
            grid=self.grid,
            in_specs=[a.spec(0) for a in self.inputs],
            out_specs=tuple(a.spec(0) for a in self.outputs),
            scratch_shapes={k: MemorySpace.LOCAL(s, "int32") for k, s in self.scratch.items()},
            **options,
        )

    def _run(self, on) -> None:
        for statement in self.body:
            _run_statement(on, statement, None)

    def model(self) -> list[np.ndarray]:
        """What the call gives, by NumPy."""
        arrays = [*self.inputs, *self.outputs]
        buffers = [a.padded(x) for a, x in zip(self.inputs, self.args)]
        buffers += [a.padded(np.full(a.shape, LOWEST[a.dtype], a.dtype)) for a in self.outputs]
        scratch = {k: Ref(np.full(s, LOWEST["int32"], np.int32)) for k, s in self.scratch.items()}
        for point in itertools.product(*map(range, self.grid)):
            blocks, places = {}, []
            for a, buffer in zip(arrays, buffers):
                at = a.places(point)
                places.append(at)
                block = buffer[np.ix_(*(p for p, _ in at))].copy()
                block[_ignored(block.shape, at)] = LOWEST[a.dtype]
                squeezed = tuple(d for d, dim in enumerate(a.dims) if dim.kind == "squeezed")
                blocks[a.name] = Ref(block.squeeze(squeezed))
            with np.errstate(over="ignore"):
                self._run(OnArrays({**blocks, **scratch}, point))
            for a, buffer, at in zip(arrays, buffers, places):
                squeezed = tuple(d for d, dim in enumerate(a.dims) if dim.kind == "squeezed")
                block = np.expand_dims(blocks[a.name].values, squeezed)
                where = np.ix_(*(p for p, _ in at))
                old = buffer[where]
                buffer[where] = np.where(_ignored(block.shape, at), old, block)
        return [a.crop(b) for a, b in zip(self.outputs, buffers[len(self.inputs) :])]


def _ignored(shape, at):
    """Elements of a block past the end of a slice that is smaller."""
    out = np.zeros(shape, bool)
    for d, (_, count) in enumerate(at):
        column = np.arange(shape[d]) >= count
        out |= column.reshape([-1 if k == d else 1 for k in range(len(shape))])
    return out


def _value(on, e, i):
    kind = e[0]
    if kind == "const":
        return on.integer(e[1])
    if kind == "pid":
        return on.pid(e[1])
    if kind == "loop":
        return i if i is not None else on.integer(2)
    if kind == "read":
        return on.read(e[1], None if e[2] is None else _start(on, e[2], i), e[3])
    a, b = _value(on, e[1], i), _value(on, e[2], i)
    return a + b if kind == "+" else a - b if kind == "-" else a * b


def _start(on, e, i):
    """A start in range: an expression modulo the number of starts, plus what a planted fault adds."""
    start = _value(on, e[0], i) % on.integer(e[1])
    return start if len(e) == 2 else start + on.integer(e[2])


def _run_statement(on, s, i):
    kind = s[0]
    if kind in ("set", "add"):
        _, name, start, size, value = s
        at = None if start is None else _start(on, start, i)
        on.write(name, at, size, _value(on, value, i), kind == "add")
    elif kind == "when":
        on.when(
            _value(on, s[1], i) % 2 == s[2],
            lambda: [_run_statement(on, x, i) for x in s[3]] and None,
        )
    elif kind == "at":
        condition = True
        for axis, p in enumerate(s[1]):
            condition = condition & (on.pid(axis) == p)
        if s[1]:
            on.when(condition, lambda: [_run_statement(on, x, i) for x in s[2]] and None)
        else:
            [_run_statement(on, x, i) for x in s[2]]
    elif kind == "loop":
        on.loop(s[1], lambda j: [_run_statement(on, x, j) for x in s[2]] and None)
    else:
        on.scoped(s[1], s[2], lambda: [_run_statement(on, x, i) for x in s[3]] and None)


def random_kernel(seed: int, plant: str | None = None) -> Kernel:
    """A random kernel; the same for the same arguments."""
    r = random.Random(seed)
    grid = tuple(r.randint(1, 3) for _ in range(r.choice([0, 1, 1, 2, 2, 3])))
    inputs = [_random_array(r, f"x{i}", grid) for i in range(r.randint(1, 3))]
    outputs = [_random_array(r, f"o{i}", grid) for i in range(r.randint(1, 2))]
    scratch = {f"s{i}": (r.randint(1, 4),) for i in range(r.randint(0, 2))}
    shapes = {a.name: a.ref_shape for a in (*inputs, *outputs)} | scratch
    readable = [a.name for a in inputs]
    writable = [a.name for a in outputs] + list(scratch)
    body = [
        _random_statement(r, grid, shapes, readable + writable, writable, 2)
        for _ in range(r.randint(1, 4))
    ]
    point = tuple(r.randrange(n) for n in grid)
    if plant == "bounds":
        name = r.choice([n for n in shapes if shapes[n]] or ["s9"])
        if name == "s9":
            scratch["s9"] = shapes["s9"] = (3,)
        n = shapes[name][0]
        size = r.randint(1, n)
        start = (("pid", 0) if grid else ("const", 1), n - size + 1, n - size + 1 + r.randint(0, 3))
        fault = (
            ("set", name, start, size, ("const", 1))
            if r.random() < 0.5
            else ("set", writable[0], None, None, ("read", name, start, size))
        )
        body.insert(r.randint(0, len(body)), ("at", point, [fault]))
    elif plant == "uninitialized":
        scratch["s8"] = (4,)
        fault = ("set", writable[0], None, None, ("read", "s8", (("const", 0), 1), 2))
        body.insert(
            0,
            ("at", point, [("set", "s8", (("const", 1), 4), 3, ("const", 7)), fault]),
        )
    rng = np.random.default_rng(seed)
    args = [rng.integers(0, 9, a.shape).astype(a.dtype) for a in inputs]
    return Kernel(seed, grid, inputs, outputs, scratch, body, args, plant, point)


def _random_array(r, name, grid) -> Array:
    dims = [_random_dim(r, grid) for _ in range(r.choice([1, 1, 2]))]
    return Array(name, r.choice(DTYPES), dims)


def _random_expression(r, grid, shapes, names, depth):
    choices = ["const", "loop", "read", "read"] + (["pid"] if grid else [])
    if depth:
        choices += ["+", "-", "*"]
    kind = r.choice(choices)
    if kind == "const":
        return kind, r.randint(-5, 5)
    if kind == "pid":
        return kind, r.randrange(len(grid))
    if kind == "loop":
        return (kind,)
    if kind == "read":
        return kind, *_random_place(r, grid, shapes, names, depth)
    return (
        kind,
        _random_expression(r, grid, shapes, names, depth - 1),
        _random_expression(r, grid, shapes, names, depth - 1),
    )


def _random_place(r, grid, shapes, names, depth):
    name = r.choice(names)
    shape = shapes[name]
    if not shape or r.random() < 0.5:
        return name, None, None
    size = r.randint(1, shape[0])
    start = ("pid", r.randrange(len(grid))) if grid and r.random() < 0.7 else ("loop",)
    return name, (start, shape[0] - size + 1), size


def _random_statement(r, grid, shapes, readable, writable, depth):
    kinds = ["set", "set", "add"] + (["when", "loop", "scoped"] if depth else [])
    kind = r.choice(kinds)
    if kind in ("set", "add"):
        name, start, size = _random_place(r, grid, shapes, writable, depth)
        return kind, name, start, size, _random_expression(r, grid, shapes, readable, 2)

    def inside(n, more=()):
        return [
            _random_statement(r, grid, shapes, [*readable, *more], [*writable, *more], depth - 1)
            for _ in range(n)
        ]

    if kind == "when":
        test = ("pid", r.randrange(len(grid))) if grid else ("const", 1)
        return kind, test, r.randint(0, 1), inside(r.randint(1, 2))
    if kind == "loop":
        return kind, r.randint(1, 3), inside(r.randint(1, 2))
    name = f"t{depth}{len(shapes)}"
    shape = (r.randint(1, 3),)
    shapes[name] = shape
    statements = inside(r.randint(1, 2), (name,))
    del shapes[name]
    return kind, name, shape, statements


# -- several cores ------------------------------------------------------------------------------------------


@dataclass
class Task:
    """Waits, reads slots, writes one, signals."""

    number: int
    core: int
    reads: list[int]
    write: int
    waits: list[int] = field(default_factory=list)  # semaphores
    signals: list[int] = field(default_factory=list)


@dataclass
class Tasks:
    """A random program of several cores."""

    seed: int
    meshes: list[int]  # cores of each pair
    tasks: list[Task]
    edges: list[tuple[int, int]]  # semaphore k: from a task's end to another's beginning
    slots: int
    order: dict[int, set[int]] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        return sum(self.meshes)

    def of_core(self, core: int) -> list[Task]:
        return [t for t in self.tasks if t.core == core]

    def _successors(self) -> dict[int, set[int]]:
        after: dict[int, set[int]] = {t.number: set() for t in self.tasks}
        for core in range(self.cores):
            mine = self.of_core(core)
            for a, b in itertools.pairwise(mine):
                after[a.number].add(b.number)
        for a, b in self.edges:
            after[a].add(b)
        return after

    def _reachable(self) -> dict[int, set[int]]:
        after, found = self._successors(), {}
        for start in after:
            seen: set[int] = set()
            todo = list(after[start])
            while todo:
                n = todo.pop()
                if n not in seen:
                    seen.add(n)
                    todo += after[n]
            found[start] = seen
        return found

    @property
    def deadlocks(self) -> bool:
        """Whether some task has to wait for itself."""
        return any(t in found for t, found in self._reachable().items())

    @property
    def races(self) -> set[frozenset[int]]:
        """Pairs of tasks that access a slot, one of them writing, and that nothing orders."""
        reach, out = self._reachable(), set()
        for a, b in itertools.combinations(self.tasks, 2):
            clash = a.write == b.write or a.write in b.reads or b.write in a.reads
            if clash and b.number not in reach[a.number] and a.number not in reach[b.number]:
                out.add(frozenset((a.number, b.number)))
        return out

    def model(self) -> np.ndarray:
        """The slots at the end, the tasks in an order that the graph allows."""
        after = self._successors()
        waiting = dict.fromkeys(after, 0)
        for found in after.values():
            for n in found:
                waiting[n] += 1
        slots = np.zeros(self.slots, np.int32)
        ready = sorted(n for n, k in waiting.items() if not k)
        while ready:
            t = self.tasks[ready.pop(0)]
            slots[t.write] = sum(slots[i] for i in t.reads) + t.number + 1
            for n in sorted(after[t.number]):
                waiting[n] -= 1
                if not waiting[n]:
                    ready.append(n)
        return slots

    def call(self, **options):
        """The call, to be given zeros for the slots."""
        first, pairs = 0, []
        for k, n in enumerate(self.meshes):
            mesh = CoreMesh(f"c{k}", n, core_type=f"type{k}", default_memory_space=MemorySpace.ANY)
            pairs.append((mesh, self._function(k, first, n)))
            first += n
        sems = SemaphoreType.REGULAR((max(1, len(self.edges)),))
        return mpmd_map(
            pairs,
            SDS((self.slots,), "int32"),
            scratch_shapes=[sems],
            input_output_aliases={0: 0},
            **options,
        )

    def _function(self, k, first, n):
        def run(core, out, sems):
            for t in self.of_core(core):
                for s in t.waits:
                    semaphore_wait(sems.at[s])
                total = jnp.int32(t.number + 1)
                for i in t.reads:
                    total = total + out[i]
                out[t.write] = total
                for s in t.signals:
                    semaphore_signal(sems.at[s])

        def fn(x, out, sems):
            me = xlab.lax.axis_index(f"c{k}")
            for c in range(n):
                if n == 1:
                    run(first, out, sems)
                else:
                    when(me == c)(lambda c=c: run(first + c, out, sems))

        fn.__name__ = f"pair{k}"
        return fn


def random_tasks(seed: int, plant: str | None = None) -> Tasks:
    """Random tasks. They neither race nor hang, unless `plant` is "race" (orders are left out) or "deadlock" (a cycle is put in)."""
    r = random.Random(seed)
    meshes = [r.randint(1, 2) for _ in range(r.randint(1, 3))]
    if sum(meshes) == 1:
        meshes = [2]
    cores, slots = sum(meshes), r.randint(2, 5)
    n = r.randint(3, 9)
    tasks = [
        Task(
            i,
            i if i < 2 else r.randrange(cores),
            r.sample(range(slots), r.randint(0, min(2, slots))),
            r.randrange(slots),
        )
        for i in range(n)
    ]
    made = Tasks(seed, meshes, tasks, [], slots)
    # Every pair that clashes gets an order, that of the numbers, unless one is there already.
    for a, b in itertools.combinations(tasks, 2):
        if frozenset((a.number, b.number)) in made.races:
            made.edges.append((a.number, b.number))
    if plant == "race" and made.edges:
        made.edges.pop(r.randrange(len(made.edges)))
    if plant == "deadlock":
        a, b = tasks[0], next(t for t in tasks if t.core != tasks[0].core)
        if b.number not in made._reachable()[a.number]:
            made.edges.append((a.number, b.number))
        made.edges.append((b.number, a.number))
    for s, (a, b) in enumerate(made.edges):
        tasks[a].signals.append(s)
        tasks[b].waits.append(s)
    return made


__all__ = ["PROGRAMS", "Kernel", "PrefetchGridSpec", "Tasks", "random_kernel", "random_tasks"]
