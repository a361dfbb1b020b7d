"""`cost`: what a step costs on a machine, per equation, per line, per call and in all; predicted, nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.overview.call_tree import Figures, call_tree
from xlab.observe.overview.flattened import FlatEquation, all_flattened
from xlab.observe.overview.machines import current_machine, link_of
from xlab.observe.overview.machines import machine as _machine
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Memory, Transfer
from xlab.observe.records.cost import CostSum, EquationCost, StepCost
from xlab.observe.records.machine import Machine
from xlab.observe.sharding.transfers import transfers_of


def cost(
    what: Any,
    *args: Any,
    machine: str | Machine = "cpu",
    compile: bool = True,
    program: int = 0,
    **kwargs: Any,
) -> StepCost:
    """What one run of a program costs on a machine: a roofline of every equation, loop trips multiplied, and their sums.

    Elementwise operations are fused with their neighbours. Such a loop, or an equation that is not fused, takes the longest of its arithmetic at
    the machine's rate and its bytes at the bandwidth of the memory, what its functions as `exp` add to that, and what it takes to start it; a
    collective what the alpha-beta model says. Devices that share the cores of a host do so.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr.
        machine: `cpu` (as `observe.calibrate()` measured it, else round numbers that say so), a target such as `tpu:v5e`, or a `Machine`.
        compile: read collectives and memory from the compiled module; without it only the collectives that the user wrote are known.
        program: index to write into the record.

    Raises:
        ValueError: no such machine, or a program with dimensions that are symbols.

    Example:
        >>> import numpy as np
        >>> c = cost(lambda a, b: a @ b, np.ones((64, 32), np.float32), np.ones((32, 16), np.float32), machine="tpu:v5e")
        >>> [(e.primitive, e.flops, e.nbytes, e.bound) for e in c.equations]
        [('dot_general', 65536.0, 14336.0, 'overhead')]
    """
    stages = program_stages(what, args, kwargs)
    return step_cost(stages, _machine(machine), compile=compile, program=program)


MOST_LINES = 24
"""Lines and scopes of a cost that is part of a report."""


def brief_cost(
    stages: ProgramStages,
    program: int = 0,
    transfers: Sequence[Transfer] | None = None,
    memory: Memory | None = None,
) -> StepCost | None:
    """The cost of a program as reports have it, without its single equations; None for a program with open sizes.

    `transfers`, predicted for the machine's own link, and `memory` are what is known of it already.
    """
    if not all(isinstance(d, int) for a in stages.closed.in_avals for d in getattr(a, "shape", ())):
        return None
    machine = current_machine()
    made = step_cost(stages, machine, program=program, transfers=transfers, memory=memory)
    return made.replace(
        equations=(), lines=made.lines[:MOST_LINES], scopes=made.scopes[:MOST_LINES]
    )


def step_cost(
    stages: ProgramStages,
    machine: Machine,
    *,
    compile: bool = True,
    program: int = 0,
    transfers: Sequence[Transfer] | None = None,
    memory: Memory | None = None,
) -> StepCost:
    """As `cost`, of a program whose collectives and memory may be known already."""
    symbolic = next(
        (a for a in stages.closed.in_avals if not all(isinstance(d, int) for d in getattr(a, "shape", ()))),
        None,
    )  # fmt: skip
    if symbolic is not None:
        raise ValueError(
            f"what {stages.name} costs depends on the sizes that its types leave open ({symbolic.str_short(short_dtypes=True)}): give arrays, or types with numbers"
        )
    if compile:
        stages.executable  # noqa: B018  (where values lie is known from what is compiled)
    devices = stages.device_count
    operations, others = all_flattened(stages)
    if transfers is None:
        transfers = transfers_of(stages, link=link_of(machine), compile=compile, tries=0)
    else:
        transfers = tuple(t for t in transfers if t.program == program)
    communication = _by_equation(transfers)
    priced = _priced(operations, machine, devices)
    costs = [
        (op, _figures(op, us, communication.pop(op.number, ())), us, bound)
        for op, us, bound in priced
    ]
    left = [t for found in communication.values() for t in found]
    equations = _equations(costs, left)
    compute = sum(_often(op) * us for op, us, _ in priced)
    exposed = sum(_us(t) for t in transfers)
    dispatch = machine.dispatch_us + (devices - 1) * machine.dispatch_device_us
    bounds: dict[str, float] = {"communication": exposed, "dispatch": dispatch}
    for op, us, bound in priced:
        bounds[bound] = bounds.get(bound, 0.0) + _often(op) * us
    if memory is None and compile:
        memory = _memory(stages)
    peak = memory.peak or None if memory is not None else None
    return StepCost(
        stages.name,
        machine,
        devices,
        equations,
        _sums(equations, lambda e: _line(e)),
        _sums(equations, lambda e: (e.scope, None) if e.scope else None),
        call_tree([(op, f) for op, f, _, _ in costs], stages.name, others) if costs else None,
        compute,
        exposed,
        dispatch,
        compute + exposed + dispatch,
        max(bounds, key=lambda name: bounds[name]),
        sum(e.us for e in equations if e.backward),
        peak,
        machine.memory,
        tuple(_notes(operations, machine, devices, peak)),
        program,
        sum(e.flops + e.transcendentals for e in equations),
        sum(e.nbytes for e in equations),
        sum(e.sent for e in equations),
        stages.made_by,
    )


def _often(op: FlatEquation) -> float:
    return (1 if op.times is None else op.times) * op.probability


SHORT_REDUCTION = 64
"""Elements that are reduced to one, from which on it is as of many; half way, as ratios go, between those that are measured."""


class Parts(NamedTuple):
    """Microseconds of one run of one operation that has a device for itself: its arithmetic, what its functions add, its bytes, its start."""

    arithmetic: float = 0.0
    functions: float = 0.0
    memory: float = 0.0
    start: float = 0.0


def _priced(
    operations: Sequence[FlatEquation], machine: Machine, devices: int
) -> list[tuple[FlatEquation, float, str]]:
    """The operations with the microseconds of one run of each without what it sends, and what bounds it.

    Of a loop of several, arithmetic and bytes go on at once: its operations have their parts of the one that takes longer.
    """
    fused = {op.group for n, op in enumerate(operations) if op.group != n}
    parts = [operation_parts(op, machine, op.group in fused) for op in operations]
    sums: dict[int, list[Parts]] = {}
    for op, p in zip(operations, parts):
        sums.setdefault(op.group, []).append(p)
    loops = {group: Parts(*map(sum, zip(*of))) for group, of in sums.items()}
    made = []
    for op, p in zip(operations, parts):
        loop = loops[op.group]
        alone = max(loop.arithmetic, loop.memory) + loop.functions + loop.start
        computes = loop.arithmetic >= loop.memory
        bounds = {
            "compute": p.arithmetic * computes + p.functions,
            "memory": p.memory * (not computes),
            "overhead": p.start,
        }
        us = sum(bounds.values()) / machine.part(devices, alone)
        made.append((op, us, max(bounds, key=lambda name: bounds[name])))
    return made


def operation_parts(op: FlatEquation, machine: Machine, fused: bool = True) -> Parts:
    """What takes its time in one run of one operation, which is fused with others or stands alone."""
    if op.communicates or op.cost.unit == "free":
        return Parts()
    arithmetic = functions = 0.0
    if op.cost.flops:
        work = op.cost.flops / op.ways
        arithmetic = 1e6 * work / _rate(op, machine, work)
    if op.cost.transcendentals:
        work = op.cost.transcendentals / op.ways
        adds = machine.rate_of(op.eqn.primitive.name, work)
        if adds is None:
            arithmetic += 1e6 * work / machine.transcendental
        else:
            functions = 1e6 * work / adds
    if op.across:
        across = machine.rate_of("transpose" if fused else "transpose alone", op.across)
        arithmetic += 0.0 if across is None else 1e6 * op.across / across
    memory = machine.moved_us(op.nbytes - op.given, op.given)
    return Parts(arithmetic, functions, memory, machine.operation_us if op.stands_alone else 0.0)


def _rate(op: FlatEquation, machine: Machine, work: float) -> float:
    """Operations a second of a machine in what an operation does, of which it does so many."""
    unit = op.cost.unit
    if op.product:
        return machine.product_rate(op.dtype, work, op.form)
    own = machine.rate_of(op.eqn.primitive.name, work)
    if own is not None:
        return own
    if op.eqn.primitive.name == "conv_general_dilated" and machine.convolution:
        return machine.convolution
    if unit == "decomposition" and machine.decomposition:
        return machine.decomposition
    if unit in ("matrix", "decomposition"):
        return machine.rate(op.dtype)
    reduces = "reduction of few" if op.reduced < SHORT_REDUCTION else "reduction"
    known = {
        "reduction": machine.rate_of(reduces, work) or machine.reduction,
        "transform": machine.transform,
        "serial": machine.serial,
    }
    return known.get(unit) or machine.vector


def _by_equation(transfers: Iterable[Transfer]) -> dict[int, tuple[Transfer, ...]]:
    found: dict[int, tuple[Transfer, ...]] = {}
    for t in transfers:
        found[t.equation] = (*found.get(t.equation, ()), t)
    return found


def _us(t: Transfer) -> float:
    """Predicted time of a collective in one run that nothing hides."""
    hidden = t.overlap.overlapped_us or 0.0 if t.overlap is not None else 0.0
    return max(0.0, (t.predicted_us or 0.0) - hidden) * (1 if t.times is None else t.times)


def _figures(op: FlatEquation, us: float, sent: Iterable[Transfer]) -> Figures:
    often = _often(op)
    work = op.cost.flops + op.cost.transcendentals
    return Figures(
        often * us + sum(map(_us, sent)),
        often * work / op.ways,
        often * op.nbytes,
        float(sum(t.sent_in_run for t in sent)),
    )


def _equations(costs: Iterable[tuple], left: Iterable[Transfer]) -> tuple[EquationCost, ...]:
    """One record per equation; a program that is called twice has its equations once, with the sums of both."""
    made: dict[int, EquationCost] = {}
    for op, figures, us, bound in costs:
        often = _often(op)
        if not figures.us and not figures.flops and not figures.sent and not op.alone:
            continue
        communicates = figures.us - often * us > often * us
        one = EquationCost(
            op.number,
            op.eqn.primitive.name,
            often * op.cost.flops / op.ways,
            often * op.cost.transcendentals / op.ways,
            figures.nbytes,
            often * op.alone,
            figures.sent,
            figures.us,
            "communication" if communicates else bound,
            op.times,
            op.backward,
            op.source,
            op.scope,
        )
        before = made.get(op.number)
        made[op.number] = one if before is None else _added(before, one)
    for t in left:
        number = t.equation if t.equation >= 0 else -1 - len(made)
        one = EquationCost(
            t.equation, t.kind, sent=float(t.sent_in_run), us=_us(t), bound="communication",
            times=t.times, source=t.source,
        )  # fmt: skip
        before = made.get(number)
        made[number] = one if before is None else _added(before, one)
    return tuple(made.values())


def _added(a: EquationCost, b: EquationCost) -> EquationCost:
    return a.replace(
        flops=a.flops + b.flops,
        transcendentals=a.transcendentals + b.transcendentals,
        nbytes=a.nbytes + b.nbytes,
        alone=a.alone + b.alone,
        sent=a.sent + b.sent,
        us=a.us + b.us,
        bound=a.bound if a.us >= b.us else b.bound,
        times=None if a.times is None or b.times is None else a.times + b.times,
    )


def _line(e: EquationCost) -> tuple[str, Any] | None:
    return (f"{e.source.file}:{e.source.line}", e.source) if e.source is not None else None


def _sums(
    equations: Iterable[EquationCost], key: Callable[[EquationCost], tuple[str, Any] | None]
) -> tuple[CostSum, ...]:
    """Sums by a key, the most expensive first."""
    groups: dict[str, tuple[Any, list[EquationCost]]] = {}
    for e in equations:
        found = key(e)
        if found is not None:
            groups.setdefault(found[0], (found[1], []))[1].append(e)
    made = []
    for name, (source, of) in groups.items():
        bounds: dict[str, float] = {}
        for e in of:
            bounds[e.bound] = bounds.get(e.bound, 0.0) + e.us
        made.append(
            CostSum(
                name,
                sum(e.us for e in of),
                sum(e.us for e in of if e.backward),
                sum(e.flops + e.transcendentals for e in of),
                sum(e.nbytes for e in of),
                sum(e.sent for e in of),
                max(bounds, key=lambda b: bounds[b]),
                source,
                tuple(e.equation for e in of),
            )
        )
    return tuple(sorted(made, key=lambda s: -s.us))


def _notes(
    operations: Sequence[FlatEquation], machine: Machine, devices: int, peak: int | None
) -> list[str]:
    notes = []
    if any(op.times is None for op in operations):
        notes.append("loops of unknown length count once")
    if any(op.probability < 1 for op in operations):
        notes.append("each branch counts by its part of all branches")
    hosts = sum(op.cost.unit == "host" for op in operations)
    if hosts:
        notes.append(f"what {hosts} call{'s' * (hosts > 1)} of the host take is not known")
    if (
        peak
        and machine.memory
        and peak * (devices if machine.shared_memory else 1) > machine.memory
    ):
        notes.append("it does not fit into the memory")
    return notes
