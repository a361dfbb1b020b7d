"""What changes while a machine runs: buffers, cores with their frames, semaphores. All of it can be copied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlab.kernels.machine.buffers import COUNTS, MemoryBuffer, RefPlace, empty, uninitialized_value
from xlab.kernels.machine.frames import KernelFrame
from xlab.kernels.machine.programs import KernelPair, KernelProgram, Operand, coordinates


class Waiting(NamedTuple):
    """What a core waits for: units of a semaphore."""

    number: int  # of the semaphore's buffer
    element: int
    name: str
    needed: int


class MachineCore:
    """A core: its frames, innermost last, and where it is in its share of the grid."""

    __slots__ = ("at", "coords", "frames", "number", "pair", "refs", "share", "waiting", "windows")

    def __init__(
        self, number: int, pair: KernelPair, share: Sequence[int], refs: tuple[RefPlace, ...]
    ):
        self.number, self.pair, self.share, self.refs = number, pair, share, refs
        self.frames: list[KernelFrame] = []
        self.at = 0  # in the share
        self.coords: tuple[int, ...] = ()
        self.waiting: Waiting | None = None
        self.windows: tuple = ()  # of this grid point, per source

    @property
    def done(self) -> bool:
        return not self.frames and self.at >= len(self.share)

    @property
    def step(self) -> int:
        """The number of the grid point."""
        return self.share[self.at]

    @property
    def path(self) -> str | None:
        """The path of the next equation."""
        return self.frames[-1].path if self.frames else None

    def next_coords(self) -> tuple[int, ...]:
        """The grid point that the core is at, or begins next."""
        return self.coords if self.done else coordinates(self.step, self.pair.grid)

    def copy(self) -> MachineCore:
        new = object.__new__(MachineCore)
        new.number, new.pair, new.share, new.refs = self.number, self.pair, self.share, self.refs
        new.at, new.coords, new.waiting = self.at, self.coords, self.waiting
        new.windows = self.windows
        new.frames = [f.copy() for f in self.frames]
        return new


class State:
    """Everything that changes in a run, apart from what is told of it."""

    def __init__(self):
        self.t = 0
        self.cursor = 0  # in an explicit schedule
        self.last: int | None = None  # the core of the turn before, and its turns in a row
        self.used = 0
        self.buffers: dict[int, MemoryBuffer] = {}
        self.made = 0  # buffers so far
        self.cores: list[MachineCore] = []
        self.units: dict[
            tuple[int, int], tuple
        ] = {}  # signals of a semaphore that nobody waited for
        self.shared: dict[tuple, int] = {}  # buffers of scopes that several programs share
        self.families: dict[
            int, tuple[int, ...]
        ] = {}  # copies of one scratch reference on all cores of a mesh
        self.copies: tuple = ()  # started, to be performed when they are waited for
        self.lint: dict[tuple, dict] = {}

    def copy(self) -> State:
        new = object.__new__(State)
        new.__dict__.update(self.__dict__)
        copies = {id(b): b.copy() for b in self.buffers.values()}  # aliases stay aliases
        new.buffers = {n: copies[id(b)] for n, b in self.buffers.items()}
        new.cores = [c.copy() for c in self.cores]
        new.units, new.lint = dict(self.units), dict(self.lint)
        new.shared = dict(self.shared)
        return new

    def add(
        self, name: str, space: str, owner: int | None, values: np.ndarray, written=None, root=None
    ):
        """A new buffer."""
        number, self.made = self.made, self.made + 1
        made = self.buffers[number] = MemoryBuffer(
            number, name, space, owner, values, written, root
        )
        return made


def padded(values: np.ndarray, operand: Operand, fill: np.ndarray, padding_counts: bool):
    """An operand's array with its padding, and which elements hold something."""
    if not any(lo or hi for lo, hi in operand.padding):
        return np.array(values), None
    shape = [lo + n + hi for n, (lo, hi) in zip(values.shape, operand.padding)]
    out = np.empty(shape, values.dtype)
    out[...] = fill
    inner = inside(operand)
    out[inner] = values
    if padding_counts:
        return out, None
    written = np.zeros(shape, bool)
    written[inner] = True
    return out, written


def inside(operand: Operand) -> tuple[slice, ...]:
    """The operand's own elements in its padded array."""
    return tuple(slice(lo, lo + n) for n, (lo, _) in zip(operand.aval.shape, operand.padding))


def start(program: KernelProgram, zero: bool, padding_counts: bool) -> State:
    """The state before the first turn."""
    state = State()
    for operand in program.operands:
        fill = uninitialized_value(operand.aval.dtype, zero)
        source = operand.starts_as
        value = operand.value if source is None else program.operands[source].value
        if value is not None:
            values, written = padded(value, operand, fill, padding_counts)
        else:
            shape = tuple(
                lo + n + hi
                for n, (lo, hi) in zip(
                    operand.aval.shape, operand.padding or ((0, 0),) * len(operand.aval.shape)
                )
            )
            values = np.empty(shape, operand.aval.dtype)
            values[...] = fill
            written = np.zeros(shape, bool)
            if operand.space == "semaphore":
                values, written = np.zeros(shape, COUNTS), None
            elif not math.prod(shape):
                values[...], written = 0, None
        state.add(operand.name, operand.space, None, values, written)
    if program.alias_mode == "shared":
        _share(state, program)
    for pair in program.pairs:
        for share in pair.shares:
            number = len(state.cores)
            refs = tuple(_reference(state, program, pair, s, number, zero) for s in pair.sources)
            state.cores.append(MachineCore(number, pair, share, refs))
    _families(state, program)
    return state


def _families(state: State, program: KernelProgram) -> None:
    """Joins the copies of scratch that belongs to the cores of one pair; cores of other pairs refer to the first."""
    for k, source in enumerate(program.pairs[0].sources):
        if source.operand is not None or program.pairs[0].mesh is None:
            continue
        by_pair: dict[int, list[MachineCore]] = {}
        for core in state.cores:
            by_pair.setdefault(core.pair.number, []).append(core)
        for number, cores in by_pair.items():
            if source.home in (None, number):
                family = tuple(c.refs[k].number for c in cores)
                state.families.update((n, family) for n in family)
        if source.home is not None:
            first = by_pair[source.home][0].refs[k]
            for core in state.cores:
                if core.pair.number != source.home:
                    core.refs = (*core.refs[:k], first, *core.refs[k + 1 :])


def _share(state: State, program: KernelProgram) -> None:
    """Gives an output and the input that it starts as one buffer."""
    for i, operand in enumerate(program.operands):
        source = operand.starts_as
        if source is None:
            continue
        if state.buffers[source].shape != state.buffers[i].shape:
            raise ValueError(
                f"{operand.name} and {program.operands[source].name} cannot share one buffer: their blocks pad the array to "
                f"{state.buffers[i].shape} and {state.buffers[source].shape}"
            )
        state.buffers[i] = state.buffers[source]


def _reference(state, program, pair: KernelPair, source, core: int, zero: bool) -> RefPlace:
    alone = program.num_cores == 1
    if source.operand is not None:
        space = program.operands[source.operand].space
        if source.mapping is None and (alone or pair.mesh is not None or space not in PER_CORE):
            return RefPlace(source.operand)
        block = state.add(
            program.operands[source.operand].name, space, core, NOTHING, None, source.operand
        )
        return RefPlace(block.number)
    if source.home not in (None, pair.number):
        return RefPlace(-1)  # memory of other cores
    aval = source.aval.inner_aval
    space = str(
        getattr(source.aval.memory_space, "memory_space", source.aval.memory_space) or "default"
    )
    semaphore = space == "semaphore"
    values = np.zeros(aval.shape, COUNTS) if semaphore else empty(aval, zero)
    made = state.add(
        source.name, space, core, values, None if semaphore else np.zeros(aval.shape, bool)
    )
    return RefPlace(made.number)


PER_CORE = ("default", "local")
NOTHING = np.zeros(0)
