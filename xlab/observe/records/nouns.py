"""Everything the runtime says of itself, as frozen dataclasses that hold no live object.

A record is built of str, int, float, bool, None, tuples and other records, so it can be saved, compared in a
test or sent to a browser. Makers live in the other files of this room; views only draw what is written here.

Three conventions join the records of one program to each other:

* an **equation id** is an int, unique in one `Program` including its nested programs; `-1` means "none";
* a **program index** is a position in `Report.programs`;
* **times** are microseconds as float, **sizes** are bytes as int, and `None` means "not known", never zero.

>>> t = Type("f32", (8, 4), spec=(("data",), ("model",)))
>>> t.text
'f32[8@data,4@model]'
>>> Record.from_json(t.to_json()) == t
True
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xlab.interpreters import communication
from xlab.observe.records.base import Record, _record, picture

if TYPE_CHECKING:
    from xlab.observe.records.passes import Pass
    from xlab.observe.records.targets import Scheduled

MOST_DEVICES, MOST_STEPS = 1 << 17, 1 << 22
"""Devices of a mesh and steps of a program that a record from elsewhere may speak of: pictures draw each."""

# ---------------------------------------------------------------------------------------------- where and what


@_record
class Source(Record):
    """A place in the user's code: `line` counts from 1, columns from 0, `text` is the whole line."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    text: str = ""


@_record
class Listing(Record):
    """Consecutive source lines of one file; `lines[0]` is line number `first`. `name` is shown instead of `file`."""

    file: str
    first: int
    lines: tuple[str, ...]
    name: str = ""


@_record
class Type(Record):
    """A value's type as known before running.

    `spec` has one tuple of mesh axis names per dimension (`()` = not split), or is None when no sharding is
    known. `varying` are manual axes along which the value differs, `unreduced` axes along which it is still a sum
    of partial values. `label` replaces the computed text for types that are not arrays (tokens, references).
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    spec: tuple[tuple[str, ...], ...] | None = None
    varying: tuple[str, ...] = ()
    unreduced: tuple[str, ...] = ()
    weak: bool = False
    label: str = ""

    @property
    def text(self) -> str:
        """`f32[8@data,4@model]`, with `{V:axis}` varying and `{U:axis}` unreduced axes."""
        if self.label:
            return self.label
        spec = self.spec or ()
        dims = []
        for i, size in enumerate(self.shape):
            axes = spec[i] if i < len(spec) else ()
            dims.append(f"{size}@{'+'.join(axes)}" if axes else str(size))
        marks = [f"{k}:{','.join(v)}" for k, v in (("V", self.varying), ("U", self.unreduced)) if v]
        return f"{self.dtype}[{','.join(dims)}]" + (f"{{{' '.join(marks)}}}" if marks else "")


@_record
class MeshInfo(Record):
    """A mesh. `device_ids` and `hosts` (process index per device) are flat, the last axis fastest."""

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    device_ids: tuple[int, ...] = ()
    platform: str = "cpu"
    hosts: tuple[int, ...] = ()
    axis_types: tuple[str, ...] = ()

    def contradiction(self) -> str:
        """Names, sizes and devices that do not make one mesh."""
        if len(self.axis_names) != len(self.axis_sizes) or (self.axis_types and len(self.axis_types) != len(self.axis_names)):
            return (f"axis_names, axis_sizes and axis_types are of {len(self.axis_names)}, {len(self.axis_sizes)} and {len(self.axis_types)} axes")
        if any(n < 1 for n in self.axis_sizes) or self.size > MOST_DEVICES:
            return f"axis_sizes must be from 1, and of up to {MOST_DEVICES:,} devices"
        wrong = next((name for name in ("device_ids", "hosts") if getattr(self, name) and len(getattr(self, name)) != self.size), "")
        return f"{wrong} has {len(getattr(self, wrong))} entries for {self.size} devices" if wrong else ""

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.axis_sizes)

    @property
    def text(self) -> str:
        """`data=4 model=2`."""
        return " ".join(f"{n}={s}" for n, s in zip(self.axis_names, self.axis_sizes, strict=True))


# ------------------------------------------------------------------------------------------------------ programs


@_record
class Variable(Record):
    """A name in a program. `name` is unique in its program (`a`, `b`, …); `note` is the user's own name, if any."""

    name: str
    type: Type
    note: str = ""


@_record
class Equation(Record):
    """One application of a primitive.

    `inputs` are variable names, or the text of literals (`1.0:f32[]`). `params` is their text without nested
    programs, which are in `nested` with one label each in `nested_labels` (`body`, `branch 0`). `scope` is the
    name stack joined by `/`. `text` is the equation's line in the jaxpr, without indentation. `axes` are the mesh axes of a
    collective, None for anything else. `rule` names the rule that produced it (`jvp(sin)`), if known.
    """

    id: int
    primitive: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[Variable, ...] = ()
    params: str = ""
    source: Source | None = None
    scope: str = ""
    nested: tuple[Program, ...] = ()
    nested_labels: tuple[str, ...] = ()
    text: str = ""
    axes: tuple[str, ...] | None = None
    rule: str | None = None


@_record
class Level(Record):
    """One stage of a program as text, joined to equations.

    `name` is `stablehlo`, `propagated`, `partitioned` or `optimized`. `links` are `(line number from 1, equation
    ids)`, sorted, for the lines that come from an equation. `heat` are `(line number, measured microseconds)`.
    """

    name: str
    text: str
    links: tuple[tuple[int, tuple[int, ...]], ...] = ()
    heat: tuple[tuple[int, float], ...] = ()


@_record
class Program(Record):
    """A traced program. `outputs` are variable names or literal text; `constants` are closed-over arrays.

    `sources` and `levels` are filled on the outermost program only. `heat` are measured `(equation id, microseconds)`;
    those in `shared` were measured together with others, and have an estimated part of that time.
    """

    name: str
    inputs: tuple[Variable, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[Variable, ...] = ()
    equations: tuple[Equation, ...] = ()
    sources: tuple[Listing, ...] = ()
    mesh: MeshInfo | None = None
    levels: tuple[Level, ...] = ()
    heat: tuple[tuple[int, float], ...] = ()
    shared: tuple[int, ...] = ()

    def walk(self) -> Iterator[tuple[Equation, int]]:
        """Yield `(equation, depth)` in reading order, nested programs included.

        >>> inner = Program("body", equations=(Equation(1, "sin"),))
        >>> [(e.primitive, d) for e, d in Program("f", equations=(Equation(0, "jit", nested=(inner,)),)).walk()]
        [('jit', 0), ('sin', 1)]
        """
        stack: list[tuple[Iterator[Equation], int]] = [(iter(self.equations), 0)]
        while stack:
            equations, depth = stack[-1]
            for equation in equations:
                yield equation, depth
                if equation.nested:
                    stack.extend((iter(p.equations), depth + 1) for p in reversed(equation.nested))
                    break
            else:
                stack.pop()

    def to_svg(self, depth: int = 1) -> str:
        """The program as an SVG picture with our own layout; nested programs are open down to `depth`."""
        return str(picture("svg")(self, depth))

    def to_graphviz(self, depth: int = 3) -> Any:
        """The program as a `graphviz.Digraph`; its `.source` needs no Graphviz."""
        return picture("graphviz")(self, depth)

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How often each primitive occurs, most frequent first, nested programs included."""
        found = Counter(e.primitive for e, _ in self.walk())
        return tuple(sorted(found.items(), key=lambda kv: (-kv[1], kv[0])))


# ------------------------------------------------------------------------------------------- layouts and communication


@_record
class Block(Record):
    """What one device holds: `slices` is `(start, stop)` per dimension; equal slices have `copy` 0, 1, 2, …"""

    device: int
    slices: tuple[tuple[int, int], ...]
    copy: int = 0


@_record
class Layout(Record):
    """How an array lies on devices.

    `blocks` has one entry per device in mesh order; `copies` devices hold each piece. `role` is `argument`, `output`,
    `intermediate` or empty. `why` has a chain of steps per mesh axis, earliest first. `equation` made the value.
    """

    name: str
    type: Type
    mesh: MeshInfo | None = None
    shard_shape: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    copies: int = 1
    bytes_per_device: int = 0
    bytes_total: int = 0
    committed: bool = False
    memory_kind: str = ""
    role: str = ""
    why: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    equation: int = -1
    program: int = 0


@_record
class Transfer(Record):
    """One collective: who sends how much to whom, and why.

    Args:
        kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `collective_permute`, …
        reduction: `add`, `max`, …; empty when nothing is reduced.
        axes: mesh axes it runs over; empty when the groups are not whole axes.
        groups: device ids, one tuple per group.
        pairs: `(source, target)` device ids of a permute.
        bytes_in, bytes_out: what each device has before and after, each time it runs.
        times: how often it runs (loop trips multiplied), None = not known.
        predicted_us, measured_us, wait_us: one time it runs; the last two of the slowest device, waiting for others counted in.
        runs: how often it ran where it was measured.
        formula: the text of the prediction, numbers included.
        origin: `user` (written in the program) or `partitioner` (added by the compiler).
        call: what the user wrote, for origin `user` (`psum`).
        reason: why the partitioner needed it, one sentence.
        fix: what would remove it; `tried` says that the program was compiled like that and it is gone, with nothing larger in its place.
        operand: the type it moves, as text.
        instruction: its name in the compiled module.
        rounds: per round, `(source, target, bytes)` per message.
        value, needed: the user's name of the value that the partitioner moves, and what needs it otherwise, in words.
        full_rematerialization: every device rebuilds a whole array to keep a part of it.
    """

    kind: str
    reduction: str = ""
    axes: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    times: int | None = None
    predicted_us: float | None = None
    formula: str = ""
    measured_us: float | None = None
    wait_us: float | None = None
    origin: str = "user"
    call: str = ""
    reason: str = ""
    fix: str = ""
    operand: str = ""
    instruction: str = ""
    equation: int = -1
    program: int = 0
    source: Source | None = None
    rounds: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    mesh: MeshInfo | None = None
    runs: int | None = None
    tried: bool = False
    value: str = ""
    needed: str = ""
    full_rematerialization: bool = False

    @property
    def sent(self) -> float:
        """Bytes a device sends each time it runs, in a bandwidth-optimal algorithm: the mean over all devices of the mesh.

        >>> Transfer("all_gather", groups=((0, 1, 2, 3),), bytes_in=8).sent
        24.0
        """
        if not self.groups and not self.pairs:
            sizes = dict(zip(self.mesh.axis_names, self.mesh.axis_sizes)) if self.mesh is not None else {}
            known = bool(self.axes) and set(self.axes) <= set(sizes) and not communication.by_pairs(self.kind)
            n = math.prod(sizes[a] for a in self.axes) if known else 0
            return communication.sent_in_all(self.kind, (tuple(range(n)),), (), self.bytes_in) / n if known else float(self.bytes_in)
        devices = self.mesh.size if self.mesh is not None else len({d for g in (*self.groups, *self.pairs) for d in g})
        return communication.sent_in_all(self.kind, self.groups, self.pairs, self.bytes_in) / max(1, devices)

    @property
    def sent_in_run(self) -> int:
        """`sent`, loop trips multiplied; a loop of unknown length counts once."""
        return round(self.sent * (1 if self.times is None else self.times))

    @property
    def reshards(self) -> bool:
        """Whether the partitioner moves data only because two shardings disagree; sums of parts are part of the work."""
        return self.origin == "partitioner" and not communication.reduces(self.kind)


@_record
class Phase(Record):
    """A stretch of time. `start_us` counts from the start of the recording; `parent` is an index in the same tuple, or -1.

    `kind` is `trace`, `lower`, `compile`, `cache_hit`, `cache_miss`, `execute` or `transfer`. `cache` is `hit` or `miss`, with
    `where` it was looked up (`memory`, `disk`) and the `reason` for a miss. `steady` marks a run that is not the first.
    """

    kind: str
    function: str
    start_us: float = 0.0
    duration_us: float = 0.0
    depth: int = 0
    parent: int = -1
    cache: str = ""
    where: str = ""
    reason: str = ""
    steady: bool = False
    error: str = ""


@_record
class Timing(Record):
    """Cold and warm time of one function, never mixed: `warm_us` is the median of `runs` steady runs. `note` says why a time is not there."""

    function: str
    cold_us: float | None = None
    warm_us: float | None = None
    spread_us: float | None = None
    runs: int = 0
    note: str = ""


@_record
class Difference(Record):
    """One part of a cache key that changed. `cause`: shape, dtype, weak type, structure, static value, sharding, …"""

    cause: str
    what: str = ""
    was: str = ""
    now: str = ""


@_record
class Compilation(Record):
    """One compile in the ledger: the `nth` of its function, `reason` as a sentence, the `fix` as code, `spent_us` all of them until then.

    `cache`: `disk hit` or `disk miss` where the persistent cache was asked, `disk` why it missed. `key` has `(part, text)` for parts that
    differ from an earlier key of the function; `earlier` are these keys, `(nth, parts)`, oldest first.
    """
    function: str
    nth: int = 1
    duration_us: float = 0.0
    reason: str = ""
    fix: str = ""
    differences: tuple[Difference, ...] = ()
    source: Source | None = None
    cache: str = ""
    disk: str = ""
    key: tuple[tuple[str, str], ...] = ()
    earlier: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    spent_us: float = 0.0


@_record
class Ledger(Record):
    """Every compile of the session, oldest first."""

    entries: tuple[Compilation, ...] = ()


@_record
class Buffer(Record):
    """One logical buffer, alive from step `start` to `end`; `kind`: argument, output, temporary, constant. `allocation` -1: unknown."""

    name: str
    size: int
    kind: str = "temporary"
    start: int = 0
    end: int = 0
    instruction: str = ""
    equation: int = -1
    source: Source | None = None
    allocation: int = -1
    offset: int = 0


@_record
class Memory(Record):
    """Bytes per device of one compiled program. `donated` and `refused` are argument names; `refused` carry their reason."""

    function: str = ""
    arguments: int = 0
    outputs: int = 0
    temporaries: int = 0
    aliased: int = 0
    code: int = 0
    peak: int = 0
    peak_step: int = -1
    buffers: tuple[Buffer, ...] = ()
    donated: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    program: int = 0

    def contradiction(self) -> str:
        """A buffer alive for longer than any program."""
        wrong = next((i for i, b in enumerate(self.buffers) if not all(-1 <= step < MOST_STEPS for step in (b.start, b.end))), None)
        return "" if wrong is None else f"buffers[{wrong}] must start and end at steps up to {MOST_STEPS:,}"


# ------------------------------------------------------------------------------------------------------- stepping


@_record
class ShardSummary(Record):
    """One device's part of a value: statistics and `heat`, a small grid of cell means (rows of floats)."""

    device: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nans: int = 0
    infs: int = 0
    heat: tuple[tuple[float, ...], ...] = ()


@_record
class Value(Record):
    """A value summarized: `type` as text, statistics over finite entries, first entries, a histogram, per-device shards."""

    name: str
    type: str
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nans: int = 0
    infs: int = 0
    preview: tuple[float | int | bool | str, ...] = ()
    histogram: tuple[int, ...] = ()
    heat: tuple[tuple[float, ...], ...] = ()
    shards: tuple[ShardSummary, ...] = ()
    note: str = ""


@_record
class Step(Record):
    """One equation as executed. `index` counts steps from 0; `path` says where: `('jit train_step', 'scan 3/12')`.

    `dead` are names whose last use this step was.
    """

    index: int
    equation: int
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    path: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    source: Source | None = None
    text: str = ""


@_record
class StepTrace(Record):
    """A recorded run of one program: its steps in order, for scrubbing. `total` may exceed `len(steps)` when cut."""

    program: Program
    inputs: tuple[Value, ...] = ()
    steps: tuple[Step, ...] = ()
    total: int = 0


# --------------------------------------------------------------------------------------------------------- report


@_record
class Notice(Record):
    """Something wrong or worth knowing. `severity` is `info`, `warning` or `error`; `tab` is the tab that shows it."""

    severity: str
    text: str
    tab: str = "program"
    fix: str = ""
    equation: int = -1
    program: int = 0
    source: Source | None = None


@_record
class Failure(Record):
    """The exception that ended a cell: class name, message, the user's line, and the short traceback."""

    kind: str
    message: str
    source: Source | None = None
    traceback: str = ""


@_record
class Report(Record):
    """Everything one cell did. `title` is the function or cell name; `versions` are `(package, version)`; `opens` names a tab.

    `counted` says that collectives were looked for: without it, none in `transfers` says nothing.
    """

    title: str
    programs: tuple[Program, ...] = ()
    layouts: tuple[Layout, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    phases: tuple[Phase, ...] = ()
    timings: tuple[Timing, ...] = ()
    memory: tuple[Memory, ...] = ()
    passes: tuple[Pass, ...] = ()
    ledger: Ledger | None = None
    trace: StepTrace | None = None
    mesh: MeshInfo | None = None
    notices: tuple[Notice, ...] = ()
    error: Failure | None = None
    versions: tuple[tuple[str, str], ...] = ()
    opens: str = ""
    targets: tuple[Scheduled, ...] = ()
    counted: bool = False
