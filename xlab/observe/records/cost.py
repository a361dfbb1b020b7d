"""What a step costs on a machine: per equation, per line, per call, and in all."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.call_tree import Call, call_lines
from xlab.observe.records.machine import Machine
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural, significant, size_text, table, time_text

BOUNDS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "communication": "communication",
    "overhead": "starting operations",
    "dispatch": "starting the call",
}
"""What can bound a time, in words."""


@record_type
class EquationCost(Record):
    """What one equation costs on one device, in one run of the program.

    `flops`, `transcendentals`, `nbytes` (read and written after fusion), `alone` (the same if nothing were fused), `sent` and the times have
    the trips of loops multiplied; `times` is None where they are not known, which count once. `us` is the roofline's: the longest of
    computing and memory, and what it takes to start it; `bound` says which was longest.
    """

    equation: int
    primitive: str
    flops: float = 0.0
    transcendentals: float = 0.0
    nbytes: float = 0.0
    alone: float = 0.0
    sent: float = 0.0
    us: float = 0.0
    bound: str = ""
    times: int | None = 1
    backward: bool = False
    source: Source | None = None
    scope: str = ""


@record_type
class CostSum(Record):
    """What the equations of one line, or of one scope, cost together."""

    name: str
    us: float = 0.0
    backward_us: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0
    sent: float = 0.0
    bound: str = ""
    source: Source | None = None
    equations: tuple[int, ...] = ()


@record_type
class StepCost(Record):
    """The cost of one run of a program on one machine, predicted.

    Args:
        title: the function.
        machine: for which it is predicted.
        devices: how many devices run it.
        equations: every equation that costs anything.
        lines, scopes: sums, the most expensive first.
        tree: the program by its own structure.
        compute_us, communication_us, dispatch_us: parts of `us`; communication that is hidden behind computing is not in it.
        us: of one run.
        bound: what bounds it.
        backward_us: the part of the backward pass.
        flops, nbytes, sent: operations of one device, and bytes that it reads and writes, and that it sends.
        peak, memory: bytes of one device that it needs, and that the device has; None where not known.
        notes: sentences on what is not known.
        program: index of the program.
        made_by: who traced and compiled it, where that was not this package.
    """

    title: str
    machine: Machine
    devices: int = 1
    equations: tuple[EquationCost, ...] = ()
    lines: tuple[CostSum, ...] = ()
    scopes: tuple[CostSum, ...] = ()
    tree: Call | None = None
    compute_us: float = 0.0
    communication_us: float = 0.0
    dispatch_us: float = 0.0
    us: float = 0.0
    bound: str = ""
    backward_us: float = 0.0
    peak: int | None = None
    memory: int | None = None
    notes: tuple[str, ...] = ()
    program: int = 0
    flops: float = 0.0
    nbytes: float = 0.0
    sent: float = 0.0
    made_by: str = ""


def count_text(n: float) -> str:
    """A number of operations.

    >>> count_text(2.1e9), count_text(640)
    ('2.10 GFLOP', '640 FLOP')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if n >= size:
            return f"{significant(n / size)} {unit}FLOP"
    return f"{n:.0f} FLOP"


def bound_text(c: StepCost) -> str:
    """What bounds a step, in words."""
    return f"bound by {BOUNDS.get(c.bound, c.bound)}" if c.bound else ""


def _step_cost(c: StepCost, o: Options) -> str:
    head = f"{c.title} on {plural(c.devices, 'device')} of {c.machine.name}"
    shown = o.times  # predictions differ from machine to machine
    if shown:
        head += f": {time_text(c.us)} predicted, {bound_text(c)}"
    parts = [
        count_text(c.flops),
        f"{size_text(c.nbytes)} moved",
        f"{size_text(c.sent)} sent",
    ]
    lines = [head, "  per device: " + ", ".join(parts)]
    if c.peak is not None:
        has = f" of {size_text(c.memory)}" if c.memory and shown else ""
        lines.append(f"  memory: {size_text(c.peak)}{has}")
    sums, more = limited(c.lines, Options(o.times, min(o.limit or 8, 8)), "line")
    if sums:
        lines.append(
            table(
                [
                    (
                        *((time_text(s.us),) if shown else ()),
                        count_text(s.flops),
                        size_text(s.nbytes),
                        line_text(s.source) or s.name,
                        s.source.text.strip()[:60] if s.source else "",
                    )
                    for s in sums
                ],
                "rrrll" if shown else "rrll",
            )
        )
        lines += [line.replace("text(record, limit=None)", "its .lines") for line in more]
    if c.tree is not None:
        lines += [
            "  " + x for x in call_lines(c.tree, c.us if shown else 0.0, Options(shown), 0.005)
        ]
    lines += [f"  {c.machine.note}", *(f"  {note}" for note in c.notes)]
    return "\n".join(lines)


add_form(StepCost, _step_cost)
