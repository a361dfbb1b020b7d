"""A program as the operations that remain of it when neighbours are fused, with what each costs on one device.

Programs that are called once are part of their caller, as they are for the compiler; the bodies of loops and branches stand by themselves.
What is fused is guessed: elementwise operations with what they read and what reads them, reductions with what they read. A value between
two that are fused is neither written nor read, and what several of them read is read once. The transpose of a matrix is part of the product that
makes or reads it, where compilers can exchange operands for it; else it is a loop that reads across rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xlab.core import dtypes
from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var, open_jaxpr
from xlab.core.source_info import is_internal, is_library
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.interpreters.costs import FREE, Cost, bytes_of, cost_of, cost_rules
from xlab.observe.programs import names as _names
from xlab.observe.programs.modules import modules_of, scope_of
from xlab.observe.programs.program import argument_specs, propagated_specs, spec_of
from xlab.observe.programs.stages import ProgramStages

Frame = tuple[Any, int]
"""A function and the instruction it is at: code object and offset."""

_READS_FUSED = frozenset(("elementwise", "reduction"))


@dataclass
class FlatValue:
    """A value of the program on one device: its bytes, and who reads it.

    Attributes:
        boundary: whether it is an argument or a result of a program that stands by itself, as the body of a loop.
        result: whether it is a result of the whole program.
        inner: the same value as a program inside of this one has it.
    """

    nbytes: float
    axes: tuple[str, ...] = ()
    made_by: FlatEquation | None = None
    read_by: list[FlatEquation] = field(default_factory=list)
    boundary: bool = False
    result: bool = False
    inner: FlatValue | None = None

    @property
    def in_memory(self) -> bool:
        """Whether it is written and read, and not a part of one loop."""
        maker = self.made_by
        if self.boundary or maker is None or maker.cost.unit != "elementwise":
            return True
        if maker.cost.transcendentals and len(self.read_by) > 1:
            return True  # it is too expensive to be worked out twice
        return any(op.cost.unit not in _READS_FUSED for op in self.read_by)


@dataclass
class FlatEquation:
    """One equation as it runs: its cost on one device, how often, and which functions led to it.

    Attributes:
        alone: bytes read and written if nothing is fused.
        nbytes, given: bytes read and written after fusion, and those of them that are written into results of the whole program.
        stands_alone: whether it is an operation of its own in the compiled program.
        across: elements that are read across rows.
        form: of a product, whether it is one of many that are done as one (`batched`) or sums over the rows of its left operand (`over rows`).
        group: the position of the first operation that it is fused with, its own for one that is not.
    """

    number: int
    eqn: JaxprEqn
    cost: Cost
    ways: int
    times: int | None
    path: tuple[Frame, ...]
    backward: bool
    source: Any
    scope: str
    probability: float = 1.0
    reads: list[FlatValue] = field(default_factory=list)
    writes: list[FlatValue] = field(default_factory=list)
    alone: float = 0.0
    nbytes: float = 0.0
    given: float = 0.0
    stands_alone: bool = False
    across: float = 0.0
    form: str = ""
    group: int = -1

    @property
    def communicates(self) -> bool:
        """Whether it is a collective."""
        return self.eqn.primitive in collective_rules

    @property
    def dtype(self) -> str:
        """The short name of the dtype it computes in."""
        of = self.eqn.invars or self.eqn.outvars
        dtype = getattr(of[0].aval, "dtype", None) if of else None
        return dtypes.short_name(dtype) if dtype is not None else ""

    @property
    def product(self) -> bool:
        """Whether it is a product of matrices."""
        return self.eqn.primitive.name == "dot_general"

    @property
    def reduced(self) -> float:
        """How many elements a reduction makes one of."""
        given, made = _shape(self.eqn.invars[0]), _shape(self.eqn.outvars[0])
        return math.prod(given) / max(1, math.prod(made))

    def settle(self, known: set[int]) -> None:
        """Says what is read and written, once all readers of all values are known; `known` are the values that its group has read before."""
        cost = self.cost
        self.alone = (
            cost.nbytes / self.ways
            if cost.nbytes is not None
            else sum([v.nbytes for v in (*self.reads, *self.writes)])
        )
        read = {id(v): v.nbytes for v in self.reads if v.in_memory and id(v) not in known}
        known.update(read)
        written = [v.nbytes for v in self.writes if v.in_memory]
        self.nbytes = min(self.alone, sum(read.values()) + sum(written))
        self.given = min(self.nbytes, sum(v.nbytes for v in self.writes if v.result))
        self.stands_alone = cost.unit != "free" and (cost.unit != "elementwise" or bool(written))


class _Place(NamedTuple):
    """Where a program stands: how often it runs, what led there."""

    times: int | None
    path: tuple[Frame, ...]
    backward: bool
    source: Any
    scope: str
    modules: tuple[str, ...]  # those that the scope names by their calls
    segments: tuple
    probability: float
    theirs: bool  # the function of this program is the user's, and none of the package's
    local: bool  # types are those of one device already, inside of `shard_map`


def flattened(stages: ProgramStages) -> list[FlatEquation]:
    """All operations of a program in the order of its equations; those of a loop once, with how often they run."""
    return _Flattener(stages).whole()


def all_flattened(stages: ProgramStages) -> tuple[list[FlatEquation], list[FlatEquation]]:
    """The same, and the equations that are no operation: those that cost nothing, and those around other programs, as a loop is."""
    made = _Flattener(stages)
    return made.whole(), made.others


class _Flattener:
    def __init__(self, stages: ProgramStages):
        self.stages = stages
        mesh = stages.mesh
        self.sizes: Mapping[str, int] = (
            {str(n): int(s) for n, s in zip(mesh.axis_names, mesh.axis_sizes)} if mesh else {}
        )
        self.specs = propagated_specs(stages) if self.sizes and stages.is_lowered else {}
        self.operations: list[FlatEquation] = []
        self.others: list[FlatEquation] = []

    def whole(self) -> list[FlatEquation]:
        jaxpr = self.stages.closed.jaxpr
        given = argument_specs(self.stages) if self.sizes else {}
        values = {
            v: self.value(v.aval, given.get(i), boundary=True) for i, v in enumerate(jaxpr.invars)
        }
        values |= {v: self.value(v.aval, None, boundary=True) for v in jaxpr.constvars}
        outs = self.program(jaxpr, values, _Place(1, (), False, None, "", (), (), 1.0, True, False))
        for v in outs:
            v.boundary = True
            inside: FlatValue | None = v
            while inside is not None:
                inside.result, inside = True, inside.inner
        _join_transposes(self.operations)
        _group(self.operations)
        known: dict[int, set[int]] = {}
        for op in self.operations:
            op.settle(known.setdefault(op.group, set()))
        return self.operations

    def value(self, aval: Any, spec: Any, local: bool = False, boundary: bool = False) -> FlatValue:
        """A value on one device: the part that its sharding gives each."""
        axes: tuple[str, ...] = ()
        if self.sizes and not local:
            if spec is None and hasattr(aval, "sharding"):
                spec = spec_of(aval.sharding, aval.ndim)
            axes = tuple(
                a for dim in spec or () for a in dim if isinstance(a, str) and a in self.sizes
            )
        return FlatValue(bytes_of([aval]) / self.ways(axes), axes, boundary=boundary)

    def ways(self, axes: Sequence[str]) -> int:
        return math.prod(self.sizes[a] for a in dict.fromkeys(axes)) if axes else 1

    def program(self, jaxpr: Jaxpr, values: dict[Var, FlatValue], at: _Place) -> list[FlatValue]:
        """Adds the operations of a program; gives its results."""
        read = lambda a: values[a] if type(a) is not Literal and a in values else FlatValue(0.0)
        for eqn in jaxpr.eqns:
            ins = [read(a) for a in eqn.invars]
            outs = self.equation(eqn, ins, at)
            values.update(zip(eqn.outvars, outs))
        return [read(a) for a in jaxpr.outvars]

    def results(self, eqn: JaxprEqn, number: int, local: bool) -> list[FlatValue]:
        specs = self.specs.get(number, ())
        if not specs:
            return [self.value(v.aval, None, local) for v in eqn.outvars]
        out = []
        for v in eqn.outvars:
            spec = next((s for s, shape in specs if shape == getattr(v.aval, "shape", None)), None)
            out.append(self.value(v.aval, spec, local))
        return out

    def equation(self, eqn: JaxprEqn, ins: list[FlatValue], at: _Place) -> list[FlatValue]:
        number = self.stages.numbers[id(eqn)]
        here = self.here(eqn, at)
        if eqn.primitive not in cost_rules and eqn.primitive not in collective_rules:
            flow = flow_of(eqn)
            if flow is not None:
                self.others.append(_flat(eqn, number, here, Cost(unit="free"), 1))
                return self.inside(eqn, flow, number, ins, here)
        outs = self.results(eqn, number, at.local)
        cost = cost_of(eqn) or Cost(unit="other")
        if cost.unit == "free" and ins and len(outs) == 1:
            self.others.append(_flat(eqn, number, here, cost, 1))
            return [ins[0] if ins[0].nbytes >= outs[0].nbytes else outs[0]]
        ways = 1 if at.local else self.ways([a for v in (*ins, *outs) for a in v.axes])
        op = _flat(eqn, number, here, cost, ways)
        op.reads, op.writes = ins, outs
        for v in ins:
            v.read_by.append(op)
        for v in outs:
            v.made_by = op
        self.operations.append(op)
        return outs

    def here(self, eqn: JaxprEqn, at: _Place) -> _Place:
        info = eqn.source_info
        segments = info.segments
        path = at.path
        own = True
        if not at.segments:
            # What called the program is no part of it; JAX's equations have no trace around theirs.
            frames = segments if self.stages.made_by else segments[1:]
            path = tuple(f for s in frames for f in s)
        elif _begins_with(segments, at.segments):
            path = (*at.path, *(f for s in segments[len(at.segments) :] for f in s))
        elif (
            at.theirs and segments and segments[-1]
        ):  # traced for another call: what led there does not lead here
            # A transformation that traces a body anew does it from a function that led here already.
            known = {code for code, _ in at.path}
            path = at.path if segments[-1][0][0] in known else (*at.path, *segments[-1])
        else:
            own = False
        source = _names.source_of(eqn) if own else at.source
        own_scope = scope_of(eqn, at.modules)
        scope = own_scope or at.scope
        if at.scope and own_scope and not own_scope.startswith(at.scope):
            inside = at.scope.endswith(f"/{own_scope}")
            scope = at.scope if inside else f"{at.scope}/{own_scope}"
        return _Place(
            at.times, path, at.backward or _names.is_transposed(eqn), source or at.source, str(scope), modules_of(eqn),
            segments, at.probability, at.theirs, at.local,
        )  # fmt: skip

    def inside(
        self, eqn: JaxprEqn, flow: Any, number: int, ins: list[FlatValue], at: _Place
    ) -> list[FlatValue]:
        """The operations of the programs inside an equation; gives its results."""
        if isinstance(flow, CallFlow):
            inner = open_jaxpr(flow.jaxpr)
            local = at.local or (eqn.primitive.name == "shard_map")
            file = inner.debug_info.position.rpartition(":")[0]
            at = at._replace(local=local, theirs=bool(file) and not is_internal(file))
            if local and eqn.primitive.name == "shard_map":
                ins = [self.value(v.aval, None, True, True) for v in inner.invars]
            values = dict(zip(inner.invars, ins))
            values |= {v: self.value(v.aval, None, local, True) for v in inner.constvars}
            outs = self.program(inner, values, at)
            if local and eqn.primitive.name == "shard_map":
                made = self.results(eqn, number, False)
                for v, inside in zip(made, outs):
                    inside.boundary, v.inner = True, inside
                return made
            return outs
        outs = self.results(eqn, number, at.local)
        for v in outs:
            v.boundary = True
        for v in ins:
            v.boundary = True
        if isinstance(flow, BranchFlow):
            each = at.probability / len(flow.branches)
            for branch in flow.branches:
                self.body(branch, ins[1:], at._replace(probability=each))
        elif isinstance(flow, LoopFlow):
            rounds = self.stages.rounds(eqn)
            if at.times is None or rounds is None:
                often = asked = at._replace(times=None)
            else:  # the condition is asked once more than it holds
                often, asked = (at._replace(times=at.times * n) for n in (rounds, rounds + 1))
            cond, consts, carry, xs = flow.split(ins)
            rows = len(open_jaxpr(flow.body).invars) - len(consts) - len(carry)
            self.body(flow.body, [*consts, *carry, *xs[:rows]], often)
            if flow.cond is not None:
                self.body(flow.cond, [*cond, *carry], asked)
        else:
            for _, inner in flow.jaxprs:
                self.body(inner, [], at)
        return outs

    def body(self, inner: Any, ins: list[FlatValue], at: _Place) -> None:
        """Operations of a loop's body or of a branch, whose inputs and results lie in memory."""
        jaxpr = open_jaxpr(inner)
        values = {}
        for i, v in enumerate(jaxpr.invars):
            nbytes = float(bytes_of([v.aval]))
            axes = ins[i].axes if i < len(ins) else ()
            if not at.local:
                nbytes /= self.ways(axes)
            values[v] = FlatValue(nbytes, axes, boundary=True)
        values |= {v: self.value(v.aval, None, at.local, True) for v in jaxpr.constvars}
        for result in self.program(jaxpr, values, at):
            result.boundary = True


def _begins_with(segments: tuple, around: tuple) -> bool:
    """Whether an equation's frames begin with those around its program, where frames of libraries may be left out of the outermost."""
    known = segments[: len(around)]
    if known == around or not known:
        return known == around
    mine = lambda frames: [f for f in frames if not is_library(f[0].co_filename)]
    return known[1:] == around[1:] and mine(known[0]) == mine(around[0])


def _flat(eqn: JaxprEqn, number: int, here: _Place, cost: Cost, ways: int) -> FlatEquation:
    return FlatEquation(
        number, eqn, cost, ways, here.times, here.path, here.backward, here.source, here.scope, here.probability
    )  # fmt: skip


# -- what is fused -----------------------------------------------------------------------------------------------


def _group(operations: Sequence[FlatEquation]) -> None:
    """Says which operations are one loop: those that a value goes between without lying in memory."""
    first = list(range(len(operations)))
    position = {id(op): n for n, op in enumerate(operations)}

    def root(n: int) -> int:
        while first[n] != n:
            first[n] = first[first[n]]
            n = first[n]
        return n

    for n, op in enumerate(operations):
        for v in op.reads:
            if v.made_by is not None and not v.in_memory:
                a, b = root(n), root(position[id(v.made_by)])
                first[max(a, b)] = min(a, b)
    for n, op in enumerate(operations):
        op.group = root(n)


def _join_transposes(operations: Sequence[FlatEquation]) -> None:
    """Makes transposes of matrices part of products, and counts what the others read across rows."""
    for op in operations:
        if op.product:
            op.form = _form(op)
            (_, _), batch = op.eqn.params["dimension_numbers"]
            for a, dims in zip(op.eqn.invars, batch):
                if tuple(sorted(dims)) != tuple(range(len(dims))):  # they are brought to the front
                    op.across += math.prod(_shape(a)) / op.ways
    for op in operations:
        if op.eqn.primitive.name != "transpose":
            continue
        (given,), (made,) = op.reads, op.writes
        maker, readers = given.made_by, made.read_by
        matrix = len(_shape(op.eqn.invars[0])) == 2
        if (
            matrix
            and maker is not None
            and maker.product
            and given.read_by == [op]
            and not given.boundary
            and not _sums_over_devices(maker)
        ):  # (a b)^T = b^T a^T
            maker.writes, made.made_by, op.cost = [made], maker, FREE
        elif matrix and readers and not made.boundary and all(r.product for r in readers):
            op.cost = FREE
            for reader in readers:
                if reader.reads[0] is made and reader.form != "batched":
                    reader.form = "" if reader.form else "over rows"
                reader.reads = [given if v is made else v for v in reader.reads]
            given.read_by = [r for r in given.read_by if r is not op] + readers
        elif _leaves_rows(op.eqn):
            op.across = math.prod(_shape(op.eqn.invars[0])) / op.ways


def _shape(a: Any) -> tuple[int, ...]:
    return getattr(a.aval, "shape", ())


def _form(op: FlatEquation) -> str:
    """How a product is done that is not one of two matrices along the rows of the left one."""
    (contracted, _), (batch, _) = op.eqn.params["dimension_numbers"]
    if batch:
        return "batched"
    ndim = len(_shape(op.eqn.invars[0]))
    return "over rows" if len(contracted) < ndim and ndim - 1 not in contracted else ""


def _sums_over_devices(op: FlatEquation) -> bool:
    """Whether each device has a part of a product's sum, so that a collective stands behind it."""
    left = {a for v in op.writes for a in v.axes}
    return any(a not in left for v in op.reads for a in v.axes)


def _leaves_rows(eqn: JaxprEqn) -> bool:
    """Whether a transpose takes its last dimension from another one."""
    shape = _shape(eqn.invars[0])
    order = [d for d in eqn.params["permutation"] if shape[d] > 1]
    return bool(order) and order[-1] != max(order)
