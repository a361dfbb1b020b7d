"""`timeline`: what every device did during one measured step, operation by operation.

The profiler says when each instruction began and ended on each device, and which part of a collective was spent waiting. Which executions of a collective
belong together is read from the order on each device: the k-th execution on one meets the k-th on the others of its group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from xlab.observe.buffers.memory import memory
from xlab.observe.programs.names import source_of
from xlab.observe.programs.recorder import paused
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.buffers import live_bytes
from xlab.observe.records.timeline import DeviceTime, Operation, Span, Timeline, merged
from xlab.observe.timing.profile import Times, runs_of

MOST_OPERATIONS = 6000
"""Operations that a record has."""
ENCLOSING = frozenset(("while", "conditional", "call"))


def timeline(what: Any, *args: Any, repeat: int = 5, **kwargs: Any) -> Timeline:
    """Runs a program a few times under the profiler; the step of median length, with what each device did in it.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr; of the latter two without arguments it runs on those that it was
            traced with where they are kept, else on ones.
        repeat: steps to measure.

    Raises:
        TypeError: nothing of `what` can run.
        ValueError: `repeat` is less than 1.

    Example:
        >>> import numpy as np, xlab
        >>> t = timeline(lambda x: xlab.lax.sin(x), np.ones(1000, np.float32), repeat=3)
        >>> t.devices, t.steps, [o.equation for o in t.operations]
        ((0,), 3, [0])
    """
    if repeat < 1:
        raise ValueError(f"timeline measures at least one step, given repeat={repeat}")
    with paused():
        return timeline_of(*runs_of(what, args, kwargs, repeat, "timeline"))


def timeline_of(taken: Any, stages: ProgramStages, program: int = 0) -> Timeline:
    """The step of median length that a profile has of a program; a timeline without operations where it has none."""
    module = stages.hlo
    known = {i.name: i for i in module.instructions()}
    runs: dict[int, list[Any]] = defaultdict(list)
    for event in taken.instructions:
        if event.hlo_op in known and event.hlo_module in (module.name, ""):
            runs[event.run].append(event)
    if not runs:
        return Timeline(stages.name, 0.0, program=program, made_by=stages.made_by)
    by_length = sorted(runs.values(), key=_length)
    events = by_length[(len(by_length) - 1) // 2]
    origin = min(e.start_ns for e in events)
    duration = _length(events) / 1e3
    numbers = [int(d.id) for d in stages.lowered.devices]
    collectives = {c.instruction.name: c for c in module.collectives()}
    sends = {name for name in known if known[name].kind in _SENDING} | set(collectives)
    equations = {
        name: next(iter(stages.innermost(module.equations_of(i))), -1) for name, i in known.items()
    }
    lines = {
        n: f"{source.file}:{source.line}"
        for n in {*equations.values()} - {-1}
        if (source := source_of(stages.equations[n])) is not None
    }
    meetings = _meetings(events, collectives, numbers)
    made = []
    for n, e in enumerate(events):
        meeting, late = meetings.get(n, (-1, -1))
        enclosing = known[e.hlo_op].opcode in ENCLOSING
        made.append(
            Operation(
                e.hlo_op,
                e.device,
                round((e.start_ns - origin) / 1e3, 3),
                round(e.duration_ns / 1e3, 3),
                "loop" if enclosing else "collective" if e.hlo_op in sends else "compute",
                ()
                if enclosing
                else tuple(
                    (round((a - origin) / 1e3, 3), round((b - origin) / 1e3, 3)) for a, b in e.waits
                ),
                0,
                equations[e.hlo_op],
                lines.get(equations[e.hlo_op], ""),
                meeting,
                late,
            )
        )
    made.sort(key=lambda o: (o.start_us, -o.duration_us, o.device))
    devices = tuple(sorted({o.device for o in made}))
    placed = _in_lanes(made)
    return Timeline(
        stages.name,
        duration,
        devices,
        tuple(placed[:MOST_OPERATIONS]),
        tuple(_shares(d, [o for o in made if o.device == d], duration) for d in devices),
        _planned(placed, stages, devices),
        len(runs),
        max(0, len(placed) - MOST_OPERATIONS),
        program,
        stages.made_by,
    )


def timelines(taken: Any, subjects: Sequence[ProgramStages]) -> tuple[Timeline, ...]:
    """The measured step of each program that a profile has something of."""
    one = isinstance(taken, Times)
    return tuple(
        made
        for index, stages in enumerate(subjects)
        if (not one or taken.module == stages.hlo.text)
        and (made := timeline_of(taken.taken if one else taken, stages, index)).operations
    )


_SENDING = frozenset(
    (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "ragged_all_to_all",
        "collective_permute",
        "collective_broadcast",
    )
)


def _length(events: Sequence[Any]) -> float:
    return max(e.end_ns for e in events) - min(e.start_ns for e in events)


def _meetings(
    events: Sequence[Any], collectives: Any, numbers: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """For the executions of collectives, by their place in `events`: the number of the meeting, and the device that came last."""
    found: dict[tuple[str, int, int], list[int]] = {}
    often: dict[tuple[str, int], int] = defaultdict(int)
    group: dict[tuple[str, int], int] = {}
    for name, c in collectives.items():
        for n, members in enumerate(c.groups or ((*range(len(numbers)),),)):
            for member in members:
                if member < len(numbers):
                    group[name, numbers[member]] = n
    for n, e in sorted(enumerate(events), key=lambda pair: pair[1].start_ns):
        if e.hlo_op in collectives:
            turn = often[e.hlo_op, e.device]
            often[e.hlo_op, e.device] += 1
            place = group.get((e.hlo_op, e.device), 0)
            found.setdefault((e.hlo_op, turn, place), []).append(n)
    out = {}
    for number, members in enumerate(found.values()):
        late = events[max(members, key=lambda n: events[n].start_ns)].device
        for n in members if len(members) > 1 else ():
            out[n] = number, late
    return out


def _in_lanes(operations: Sequence[Operation]) -> list[Operation]:
    """The operations, those of one device that overlap in lanes of their own; what runs in a loop is within the loop."""
    open_: dict[int, list[list[tuple[float, bool]]]] = defaultdict(list)
    out = []
    for o in operations:
        lanes = open_[o.device]
        for lane in lanes:
            while lane and lane[-1][0] <= o.start_us:
                lane.pop()
        number = next(
            (
                n
                for n, lane in enumerate(lanes)
                if not lane or (lane[-1][1] and o.end_us <= lane[-1][0])
            ),
            len(lanes),
        )
        if number == len(lanes):
            lanes.append([])
        lanes[number].append((o.end_us, o.kind == "loop"))
        out.append(o.replace(lane=number) if number else o)
    return out


def _without(spans: list[Span], others: list[Span]) -> list[Span]:
    """What of some spans lies outside of others; both without overlaps and in order."""
    out = []
    for start, end in spans:
        at = start
        for a, b in others:
            if b <= at or a >= end:
                continue
            if a > at:
                out.append((at, a))
            at = max(at, b)
        if at < end:
            out.append((at, end))
    return out


def _total(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)


def _shares(device: int, operations: Sequence[Operation], duration: float) -> DeviceTime:
    computing = merged((o.start_us, o.end_us) for o in operations if o.kind == "compute")
    sending = [o for o in operations if o.kind == "collective"]
    collective = merged((o.start_us, o.end_us) for o in sending)
    waiting = merged(span for o in sending for span in o.waits)
    exposed = _without(collective, computing)
    waited = _total(_without(waiting, computing))
    shown = _total(exposed)
    busy = _total(merged([*computing, *collective]))
    return DeviceTime(
        device,
        _total(computing),
        max(0.0, shown - waited),
        waited,
        _total(collective) - shown,
        max(0.0, duration - busy),
    )


def _planned(
    operations: Sequence[Operation], stages: ProgramStages, devices: Sequence[int]
) -> tuple[tuple[int, tuple[tuple[float, int], ...]], ...]:
    """Bytes of the compiler's plan per device, from the moment on at which it began an operation of the outermost program."""
    place = {i.name: n for n, i in enumerate(stages.hlo.entry.instructions)}
    alive = live_bytes(memory(stages).buffers, len(place))
    out = []
    for device in devices:
        points: list[tuple[float, int]] = []
        for o in operations:
            if o.device == device and o.instruction in place:
                size = alive[place[o.instruction]]
                if not points or points[-1][1] != size:
                    points.append((o.start_us, size))
        out.append((device, tuple(points)))
    return tuple(out)
