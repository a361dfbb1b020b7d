"""One run of a kernel, simulated: its operands and grid, which block each step reads and writes, every access, the schedule, races, cost.

`to_json` of a `KernelRun` is what other programs read: `operands`, `grid`, `pairs`, `events`, `schedule`, `races`, `cost`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source
from xlab.observe.records.units import plural

MOST_CELLS = 64
"""Elements of a buffer up to which its contents are kept one by one; of a larger one, the means of a small grid."""
READS, WRITES = ("read", "both"), ("write", "both")
MILD = ("uninitialized", "nan")
"""Faults after which a run goes on; padding gives rise to them, too."""

PRIMITIVES = ("kernel_call", "mpmd_map")
"""What runs a kernel, in a program."""


@record_type
class KernelOperand(Record):
    """An array that a kernel's programs see. `role` is captured, prefetch, input, output or scratch.

    `block` are its block's dimensions as text, empty where every program sees it whole; `index_map` says which block a step has;
    `alias` names the input whose buffer an output starts as.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    space: str
    role: str = "input"
    itemsize: int = 4
    block: tuple[str, ...] = ()
    index_map: str = ""
    pipeline: str = ""
    alias: str = ""
    source: Source | None = None


@record_type
class CorePair(Record):
    """A mesh of cores and the function they run. `cores` are their numbers in the run, in the order of the mesh."""

    mesh: str
    core_type: str
    fn: str
    cores: tuple[int, ...] = (0,)
    axis_names: tuple[str, ...] = ()
    axis_sizes: tuple[int, ...] = ()


@record_type
class BlockVisit(Record):
    """A block that one grid step reads (`io` is read), writes back (write), or both.

    `index` is what the index map returned, `start` and `shape` are in elements of the array, `pad` how many elements of each
    dimension lie outside of it. `clamped` says that the start was moved to keep the block inside. `visit` counts the steps that have
    had this block, this one too. `squeezed` are the dimensions that the kernel does not see.
    """

    step: int
    grid: tuple[int, ...]
    operand: str
    io: str
    index: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    squeezed: tuple[int, ...] = ()
    pad: tuple[int, ...] = ()
    clamped: bool = False
    visit: int = 1
    core: int = 0
    pair: int = 0
    t: int = -1


@record_type
class RefAccess(Record):
    """An access that an equation of the kernel made. `slice` is half open, per dimension, in elements of the array.

    `kind` is read, write, accum, signal, wait or copy; `masked` counts the lanes that a mask left out; `count` is what a signal adds or
    a wait asks for; `until` is when a wait that blocked went on, or a copy was complete; `of` names the other side: the copy's source,
    or the core that is signaled. `eqn` is the path of a `KernelEquation`.
    """

    t: int
    core: int
    ref: str
    kind: str
    slice: tuple[tuple[int, int], ...] = ()
    pair: int = 0
    grid: tuple[int, ...] = ()
    eqn: str = ""
    masked: int = 0
    digest: str = ""
    count: int = 0
    until: int = -1
    of: str = ""
    step: int = -1


@record_type
class KernelEquation(Record):
    """An equation of a kernel, by its path (`body/7`), and the user's line that wrote it."""

    path: str
    text: str = ""
    source: Source | None = None
    pair: int = 0


@record_type
class KernelTurn(Record):
    """From time `t` on, `core` runs so many equations."""

    t: int
    core: int
    equations: int = 1


@record_type
class KernelRace(Record):
    """Two accesses that nothing orders, at least one of them a write: the reference, and of each side its slice, core, equation and time.

    `shortest` are the cores in the shortest schedule that makes both accesses, one after the other.
    """

    ref: str
    kinds: tuple[str, str]
    cores: tuple[int, int]
    slices: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    equations: tuple[str, str] = ("", "")
    times: tuple[int, int] = (-1, -1)
    sources: tuple[Source | None, Source | None] = (None, None)
    shortest: tuple[int, ...] = ()


@record_type
class KernelFault(Record):
    """Where something first goes wrong: `kind` is bounds, uninitialized, nan, race, deadlock or error."""

    kind: str
    text: str
    t: int = -1
    step: int = -1
    core: int = 0
    ref: str = ""
    source: Source | None = None


@record_type
class KernelLint(Record):
    """Something about the blocks of a kernel that is likely a mistake, or undefined on hardware."""

    text: str
    operand: str = ""
    fix: str = ""


@record_type
class KernelBuffer(Record):
    """A buffer's contents over time: `cells` at time -1, then a `BufferChange` for each write.

    A cell is one element of a small buffer, or of a larger one the mean of a part of `grid` rows and columns. None is uninitialized.
    """

    name: str
    owner: str
    shape: tuple[int, ...]
    dtype: str
    grid: tuple[int, int] = (1, 1)
    exact: bool = True
    cells: tuple[float | None, ...] = ()


@record_type
class BufferChange(Record):
    """The cells of buffer number `buffer` after time `t`."""

    t: int
    buffer: int
    cells: tuple[float | None, ...]


@record_type
class KernelMoment(Record):
    """What every buffer holds after time `t`."""

    t: int
    buffers: tuple[KernelBuffer, ...] = ()


@record_type
class Movement(Record):
    """What one operand's blocks cost to move, if a block that the next step wants again stays where it is.

    `visits` steps have a block, in `moves` of them it is another than in the step before, `distinct` blocks are there in all. Bytes are
    of the elements inside the array: `moved` in this order of the grid, `least` with each block once, `most` with every visit.
    """

    operand: str
    io: str
    visits: int
    moves: int
    distinct: int
    moved: int
    least: int
    most: int


@record_type
class Roofline(Record):
    """A machine's peak and bandwidth as its maker states them, in operations and bytes per second."""

    target: str
    flops: float
    bandwidth: float
    note: str = ""


@record_type
class KernelCost(Record):
    """Operations of all steps, and where the number comes from; bytes moved are in `movement`."""

    flops: int = 0
    transcendentals: int = 0
    origin: str = ""
    movement: tuple[Movement, ...] = ()
    rooflines: tuple[Roofline, ...] = ()

    @property
    def moved(self) -> int:
        """Bytes moved in all."""
        return sum(m.moved for m in self.movement)

    @property
    def intensity(self) -> float | None:
        """Operations per byte moved; None where either is not known."""
        return self.flops / self.moved if self.flops and self.moved else None


@record_type
class KernelRun(Record):
    """One call of a kernel. `made` says how it is known: from the index maps alone, or from a simulated run.

    `steps` counts the grid steps of the call, `events` may hold fewer: `left_out` says what. `time` is how long the schedule is.
    `edges` lead from a signal (time, core) to the wait that it lets go on (time, core), with the semaphore. `others` are the same call
    under other schedules.
    """

    name: str
    kind: str = "kernel_call"
    operands: tuple[KernelOperand, ...] = ()
    grid: tuple[int, ...] = ()
    grid_names: tuple[str, ...] = ()
    pairs: tuple[CorePair, ...] = ()
    events: tuple[BlockVisit | RefAccess, ...] = ()
    equations: tuple[KernelEquation, ...] = ()
    schedule: tuple[KernelTurn, ...] = ()
    edges: tuple[tuple[int, int, int, int, str], ...] = ()
    races: tuple[KernelRace, ...] = ()
    cost: KernelCost | None = None
    buffers: tuple[KernelBuffer, ...] = ()
    changes: tuple[BufferChange, ...] = ()
    faults: tuple[KernelFault, ...] = ()
    lints: tuple[KernelLint, ...] = ()
    steps: int = 0
    time: int = 0
    scheduled_by: str = ""
    made: str = ""
    left_out: tuple[str, ...] = ()
    others: tuple[KernelRun, ...] = ()
    equation: int = -1
    program: int = 0
    source: Source | None = None

    @property
    def blocks(self) -> Iterator[BlockVisit]:
        """The block events."""
        return (e for e in self.events if isinstance(e, BlockVisit))

    @property
    def accesses(self) -> Iterator[RefAccess]:
        """The accesses."""
        return (e for e in self.events if isinstance(e, RefAccess))

    @property
    def cores(self) -> tuple[int, ...]:
        """All cores, mesh by mesh."""
        return tuple(core for pair in self.pairs for core in pair.cores) or (0,)

    def contradiction(self) -> str:
        """Ranks that differ, sizes that no array has, numbers that name nothing."""
        ranks = {o.name: len(o.shape) for o in self.operands}
        for number, o in enumerate(self.operands):
            if wrong := _sizes(o.shape):
                return f"operands[{number}].shape {wrong}"
            if o.block and len(o.block) != len(o.shape):
                return f"operands[{number}].block has {len(o.block)} of {plural(len(o.shape), 'dimension')}"
            if not 0 < o.itemsize <= 64:
                return f"operands[{number}].itemsize must be from 1 to 64"
        if wrong := _sizes(self.grid):
            return f"grid {wrong}"
        if self.grid_names and len(self.grid_names) != len(self.grid):
            return f"grid_names has {len(self.grid_names)} entries for {plural(len(self.grid), 'axis')}"
        if not (0 <= self.steps <= _MOST and -1 <= self.time <= _MOST):
            return "steps and time must be counts"
        for number, pair in enumerate(self.pairs):
            if len(pair.cores) > 4096 or len(pair.axis_names) != len(pair.axis_sizes):
                return f"pairs[{number}].cores are up to 4,096, axis_names as many as axis_sizes"
        for number, e in enumerate(self.events):
            if wrong := _wrong_event(e, ranks, len(self.grid)):
                return f"events[{number}].{wrong}"
        for number, b in enumerate(self.buffers):
            if wrong := _sizes(b.shape):
                return f"buffers[{number}].shape {wrong}"
            if not (0 < b.grid[0] <= MOST_CELLS and 0 < b.grid[1] <= MOST_CELLS):
                return f"buffers[{number}].grid is from 1 to {MOST_CELLS} rows and columns"
        for number, change in enumerate(self.changes):
            if not 0 <= change.buffer < len(self.buffers):
                return f"changes[{number}].buffer is none of {plural(len(self.buffers), 'buffer')}"
        return ""


_MOST = 1 << 40


def _sizes(sizes: Sequence[int]) -> str:
    if len(sizes) > 32 or any(not 0 <= n <= _MOST for n in sizes) or math.prod(sizes) > _MOST:
        return f"must be up to 32 sizes of up to {_MOST:,} elements"
    return ""


def _wrong_event(e: BlockVisit | RefAccess, ranks: dict[str, int], axes: int) -> str:
    if isinstance(e, RefAccess):
        if any(abs(n) > _MOST for pair in e.slice for n in pair):
            return "slice must be of places in an array"
        if not -1 <= e.t <= _MOST or not -1 <= e.until <= _MOST:
            return "t and until must be times"
        return ""
    rank = ranks.get(e.operand)
    if rank is None:
        return "operand is the name of none"
    if not (len(e.start) == len(e.shape) == rank) or (e.pad and len(e.pad) != rank):
        return f"start, shape and pad must have an entry for each of {plural(rank, 'dimension')}"
    if any(abs(n) > _MOST for n in (*e.start, *e.shape, *e.pad, e.step)) or min(
        (0, *e.shape, e.step)
    ):
        return "step, start, shape and pad must be places in an array"
    return "" if not e.grid or len(e.grid) == axes else "grid must have an entry for each axis"


def inside(e: BlockVisit, shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The part of a block that lies in its array, per dimension."""
    return tuple(
        (min(max(0, at), n), max(0, min(at + size, n)))
        for at, size, n in zip(e.start, e.shape, shape)
    )
