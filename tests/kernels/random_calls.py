"""Random kernel calls as data, and what they give: a model in NumPy, and builders for both sides.

A call is drawn from a number. Everything is int32, so that results are exact whatever order sums are taken in; or float64, for
derivatives: results are piecewise linear in the arguments.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

INT32 = np.dtype(np.int32)
PLAIN = ("blocked", "squeezed", "element")
ALL_KINDS = (*PLAIN, "bounded", "indirect")


@dataclass(frozen=True)
class Dim:
    """A dimension of a block: its kind and size, and the index as `offset + sum(coefficient * position) % modulus`."""

    kind: str
    size: int
    array: int
    coefficients: tuple[int, ...]
    offset: int
    padding: tuple[int, int] = (0, 0)

    def index(self, position):
        """On integers and on traced values alike; not negative."""
        total = self.offset
        for c, p in zip(self.coefficients, position):
            total = total + c * p
        return total

    @property
    def pads(self) -> tuple[int, int]:
        if self.kind == "blocked":
            return 0, -self.array % self.size
        if self.kind == "element":
            lo, hi = self.padding
            return lo, hi + -(lo + self.array + hi) % self.size
        return (0, self.size) if self.kind == "bounded" else (0, 0)


@dataclass(frozen=True)
class Operand:
    dims: tuple[Dim, ...]

    @property
    def shape(self):
        return tuple(d.array for d in self.dims)

    @property
    def block(self):
        return tuple(d.size for d in self.dims if d.kind != "squeezed")


@dataclass(frozen=True)
class Statement:
    """`when`: run only where the position along an axis is a number. `to`, `of` number the kernel's references."""

    op: str
    to: int
    of: int
    number: int
    when: tuple[int, int] | None = None


@dataclass(frozen=True)
class Call:
    grid: tuple[int, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scratch: tuple[tuple[int, ...], ...]
    statements: tuple[Statement, ...]
    aliases: dict = field(default_factory=dict)
    alias_mode: str = "copy"
    dynamic: bool = False
    dtype: np.dtype = INT32

    def arguments(self):
        numbers = np.random.RandomState(len(self.statements))
        if self.dtype.kind == "f":
            return [numbers.uniform(-3, 3, o.shape) for o in self.inputs]
        return [numbers.randint(-9, 10, o.shape).astype(self.dtype) for o in self.inputs]

    @property
    def unwritten(self):
        return np.nan if self.dtype.kind == "f" else np.iinfo(self.dtype).min

    @property
    def reference_has_it(self) -> bool:
        dims = [d for o in (*self.inputs, *self.outputs) for d in o.dims]
        padded = any(any(d.padding) for d in dims)
        plain = {d.kind for d in dims} <= {*PLAIN}
        return plain and not (self.aliases and (padded or self.alias_mode == "shared"))


def draw(seed: int, kinds=ALL_KINDS) -> Call:
    """The call of a number."""
    r = random.Random(seed)
    grid = tuple(r.randint(1, 3) for _ in range(r.choice((0, 1, 1, 2, 2, 3))))
    inputs = [_operand(r, grid, kinds) for _ in range(r.randint(1, 2))]
    outputs = [_operand(r, grid, kinds) for _ in range(r.randint(1, 2))]
    aliases = {}
    if r.random() < 0.4:
        i, o = r.randrange(len(inputs)), r.randrange(len(outputs))
        dims = [
            _dim(r, grid, [k for k in kinds if k != "element"], d.array) for d in inputs[i].dims
        ]
        outputs[o] = Operand(tuple(dims))
        if not any(any(d.padding) for d in inputs[i].dims):
            aliases = {i: o}
    scratch = tuple((r.randint(1, 3),) for _ in range(r.randint(0, 1)))
    count = len(inputs) + len(outputs) + len(scratch)
    statements = []
    for _ in range(r.randint(1, 5)):
        when = (r.randrange(len(grid)), r.randint(0, 2)) if grid and r.random() < 0.4 else None
        op = r.choice(("fill", "add", "loop", "while", "copy", "first", "position"))
        to = r.choice((*range(len(inputs), count), *range(count)))
        statements.append(Statement(op, to, r.randrange(count), r.randint(-3, 3), when))
    mode = r.choice(("copy", "shared"))
    return Call(
        grid,
        tuple(inputs),
        tuple(outputs),
        scratch,
        tuple(statements),
        aliases,
        mode,
        r.random() < 0.3,
    )


def _operand(r, grid, kinds) -> Operand:
    return Operand(tuple(_dim(r, grid, kinds, r.randint(1, 7)) for _ in range(r.randint(1, 2))))


def _dim(r, grid, kinds, n) -> Dim:
    kind = r.choice(kinds)
    coefficients = tuple(r.choice((0, 0, 1, 1, 2)) for _ in grid)
    size = 1 if kind == "squeezed" else r.randint(1, n if kind == "indirect" else n + 1)
    padding = (
        (r.randint(0, 2), r.randint(0, 2)) if kind == "element" and r.random() < 0.5 else (0, 0)
    )
    if sum(padding) + n < size:
        size = n
    return Dim(kind, size, n, coefficients, r.choice((0, 0, 0, 1)), padding)


# -- the model --------------------------------------------------------------------------------------------


def model(call: Call, args: list[np.ndarray]) -> list[np.ndarray]:
    """What the call gives, step by step."""

    def padded(x, o):
        return np.pad(x, [d.pads for d in o.dims], constant_values=call.unwritten)

    shared = call.aliases if call.alias_mode == "shared" else {}
    arrays = [padded(x, o) for x, o in zip(args, call.inputs)]
    sources = {o: i for i, o in call.aliases.items()}
    for k, o in enumerate(call.outputs):
        start = args[sources[k]] if k in sources else np.full(o.shape, call.unwritten, call.dtype)
        arrays.append(padded(start, o))
    for i, k in shared.items():  # one buffer, as large as either needs
        ends = np.maximum(arrays[i].shape, arrays[len(args) + k].shape)
        one = np.pad(
            args[i],
            [(0, e - n) for e, n in zip(ends, args[i].shape)],
            constant_values=call.unwritten,
        )
        arrays[i] = arrays[len(args) + k] = one
    operands = [*call.inputs, *call.outputs]
    scratch = [np.full(s, call.unwritten, call.dtype) for s in call.scratch]
    written = {s.to for s in call.statements}
    with np.errstate(over="ignore"):
        for position in itertools.product(*map(range, call.grid)):
            places = [_place(o, x.shape, position) for o, x in zip(operands, arrays)]
            refs = [_fetch(o, x, p, call.unwritten) for o, x, p in zip(operands, arrays, places)]
            refs += scratch
            for s in call.statements:
                _run(s, refs, position)
            scratch = refs[len(operands) :]
            for k, (o, x, p) in enumerate(zip(operands, arrays, places)):
                if k in written:
                    _put_back(o, x, p, refs[k])
    crop = [
        x[tuple(slice(d.pads[0], d.pads[0] + d.array) for d in o.dims)]
        for o, x in zip(operands, arrays)
    ]
    return crop[len(args) :]


def _place(o, shape, position):
    """Per dimension the positions that the block takes, and how many of them count."""
    places = []
    for d, n in zip(o.dims, shape):
        i = d.index(position)
        if d.kind == "indirect":
            places.append(((i + np.arange(d.size)) % d.array, d.size))
            continue
        start = min(i * d.size if d.kind == "blocked" else i, n - d.size)
        count = min(d.size, 1 + i % d.size) if d.kind == "bounded" else d.size
        places.append((start + np.arange(d.size), count))
    return places


def _fetch(o, x, places, unwritten):
    block = x[np.ix_(*(p for p, _ in places))].copy()
    for axis, (_, count) in enumerate(places):
        np.moveaxis(block, axis, 0)[count:] = unwritten
    return block.reshape(o.block)


def _put_back(o, x, places, block):
    block = block.reshape([len(p) for p, _ in places])
    inside = tuple(slice(0, count) for _, count in places)
    x[np.ix_(*(p[:count] for p, count in places))] = block[inside]


def _run(s: Statement, refs, position):
    if s.when is not None and position[s.when[0]] != s.when[1]:
        return
    to, of, k = refs[s.to], refs[s.of], refs[s.to].dtype.type(s.number)
    if s.op == "fill":
        to[...] = k
    elif s.op == "position":
        to[...] = k + k.dtype.type(sum((i + 1) * p for i, p in enumerate(position)))
    elif s.op == "add":
        to[...] += of.sum(dtype=k.dtype) * k
    elif s.op == "loop":
        for t in range(3):
            to[...] = to * k.dtype.type(t) + of.max()
    elif s.op == "while":
        for t in range(position[0] if position else 2):
            to[...] = to - of.sum(dtype=k.dtype) + k.dtype.type(t)
    elif s.op == "copy":
        to[...] = of * k if to.shape == of.shape else of.sum(dtype=k.dtype)
    elif s.op == "first":
        to[(0,) * to.ndim] = of.min() + k


# -- both sides -------------------------------------------------------------------------------------------


class Ours:
    """What builds a call from the package."""

    def __init__(self, interpret: Any = True):
        import xlab
        import xlab.numpy as jnp
        from xlab import kernels, lax

        self.k, self.jnp, self.lax, self.interpret = kernels, jnp, lax, interpret
        self.shaped, self.program_id, self.when = (
            xlab.ShapeDtypeStruct,
            kernels.program_id,
            kernels.when,
        )
        self.BlockSpec, self.ds, self.space = kernels.BlockSpec, xlab.ds, kernels.MemorySpace.LOCAL

    def positions(self, rank: int):
        """The program's position, asked for where it is needed, also inside branches and loops."""
        return _Late(self.program_id)

    def dim(self, d: Dim):
        kinds = {"blocked": lambda: d.size, "squeezed": lambda: None, "element": lambda: self.k.Element(d.size, d.padding),
                 "bounded": lambda: self.k.BoundedSlice(d.size), "indirect": lambda: self.k.Indirect(d.size)}  # fmt: skip
        return kinds[d.kind]()

    def call(self, kernel, out, **options):
        return self.k.kernel_call(kernel, out, interpret=self.interpret, **options)


class _Late:
    def __init__(self, at):
        self.at = at

    def __getitem__(self, i):
        return self.at(i)


class Theirs(Ours):
    """What builds it from the reference."""

    def __init__(self):
        import jax
        import jax.numpy as jnp
        from jax import lax
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        self.k, self.jnp, self.lax = pl, jnp, lax
        self.shaped, self.program_id, self.when = jax.ShapeDtypeStruct, pl.program_id, pl.when
        self.BlockSpec, self.ds, self.space = pl.BlockSpec, pl.ds, pltpu.VMEM

    def positions(self, rank: int):
        """Asked for at once: inside a loop it cannot lower them."""
        return [self.program_id(i) for i in range(rank)]

    def call(self, kernel, out, *, alias_mode="copy", **options):
        return self.k.pallas_call(kernel, out, interpret=True, **options)


def build(call: Call, side: Ours):
    """The call as a function of its arguments."""
    jnp, lax = side.jnp, side.lax

    def spec(o: Operand):
        def index_map(*position):
            out = []
            for d in o.dims:
                i = d.index(position)
                if d.kind == "indirect":
                    out.append((i + jnp.arange(d.size, dtype=jnp.int32)) % d.array)
                elif d.kind == "bounded":
                    out.append(side.ds(i, 1 + i % d.size))
                else:
                    out.append(i)
            return tuple(out)

        return side.BlockSpec(tuple(side.dim(d) for d in o.dims), index_map)

    def kernel(*refs):
        ids = side.positions(len(call.grid))
        for s in call.statements:
            if s.when is None:
                run(s, refs, ids)
            else:
                side.when(ids[s.when[0]] == s.when[1])(lambda s=s: run(s, refs, ids))

    def run(s: Statement, refs, ids):
        to, of, k = refs[s.to], refs[s.of], s.number

        def write(x):
            to[...] = jnp.broadcast_to(x, to.shape).astype(call.dtype)

        def step(t, _):
            write(to[...] * t + of[...].max() if s.op == "loop" else to[...] - of[...].sum() + t)
            return 0

        if s.op == "fill":
            write(jnp.int32(k))
        elif s.op == "position":
            write(sum(((i + 1) * ids[i] for i in range(len(call.grid))), start=jnp.int32(k)))
        elif s.op == "add":
            write(to[...] + of[...].sum() * k)
        elif s.op == "loop":
            lax.fori_loop(0, 3, step, 0)
        elif s.op == "while":
            lax.fori_loop(0, ids[0] if call.grid else 2, step, 0)
        elif s.op == "copy":
            write(of[...] * k if to.shape == of.shape else of[...].sum())
        elif s.op == "first":
            to[(0,) * len(to.shape)] = of[...].min() + k

    options = {
        "in_specs": [spec(o) for o in call.inputs],
        "out_specs": tuple(spec(o) for o in call.outputs),
        "scratch_shapes": [side.space(s, call.dtype) for s in call.scratch],
        "input_output_aliases": call.aliases,
        "alias_mode": call.alias_mode,
    }
    out = tuple(side.shaped(o.shape, call.dtype) for o in call.outputs)
    if not call.dynamic:
        return side.call(kernel, out, grid=call.grid, **options)

    def with_sizes(*args):
        sizes = tuple(jnp.asarray(n, jnp.int32) for n in call.grid)
        return side.call(kernel, out, grid=sizes, **options)(*args)

    return with_sizes
