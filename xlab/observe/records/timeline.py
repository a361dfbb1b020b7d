"""What every device did during one measured step: operations, waits, and the memory planned for them."""

from __future__ import annotations

from collections.abc import Iterable

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural, size_text, table, time_text

KINDS = ("compute", "collective", "loop")
Span = tuple[float, float]
"""When something begins and ends, in microseconds."""


def merged(spans: Iterable[Span], gap: float = 0.0) -> list[Span]:
    """Spans in order without their overlaps, as one where no more than `gap` lies between them.

    >>> merged([(4.0, 5.0), (0.0, 2.0), (1.0, 3.0)]), merged([(0.0, 1.0), (1.2, 2.0)], 0.5)
    ([(0.0, 3.0), (4.0, 5.0)], [(0.0, 2.0)])
    """
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start - out[-1][1] <= gap:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out


@record_type
class Operation(Record):
    """One execution of an instruction on a device.

    `kind` is `compute`, `collective`, or `loop`, which encloses what runs in it. `waits` are `(start, end)`: what it spent there was spent until other
    devices had come. Operations of one device that run at the same time have other `lane`s. `where` is the user's line. Executions with the same `meeting` are one collective,
    on several devices; `late` is the device that came to it last.
    """

    instruction: str
    device: int
    start_us: float
    duration_us: float
    kind: str = "compute"
    waits: tuple[tuple[float, float], ...] = ()
    lane: int = 0
    equation: int = -1
    where: str = ""
    meeting: int = -1
    late: int = -1

    @property
    def end_us(self) -> float:
        """When it ended."""
        return self.start_us + self.duration_us

    @property
    def wait_us(self) -> float:
        """How long it waited."""
        return sum(end - start for start, end in self.waits)


@record_type
class DeviceTime(Record):
    """What became of one device's time in a step.

    `communication_us` and `waiting_us` are what no computing on the same device hides; `hidden_us` is what one does. The rest is `idle_us`.
    """

    device: int
    compute_us: float
    communication_us: float
    waiting_us: float
    hidden_us: float
    idle_us: float


@record_type
class Timeline(Record):
    """One step of a program as the profiler saw it: the one of median length among `steps`.

    `operations` are in order of their start; `dropped` more are not kept. `memory` is per device `(time, bytes)`: the bytes that the compiler's plan
    keeps from the moment on at which the device began that operation. `made_by` says who traced and compiled it, where that was not this package.
    """

    function: str
    duration_us: float
    devices: tuple[int, ...] = ()
    operations: tuple[Operation, ...] = ()
    shares: tuple[DeviceTime, ...] = ()
    memory: tuple[tuple[int, tuple[tuple[float, int], ...]], ...] = ()
    steps: int = 1
    dropped: int = 0
    program: int = 0
    made_by: str = ""


def timeline_sentence(t: Timeline) -> str:
    """Where the time of the devices went, in one line.

    >>> timeline_sentence(Timeline("f", 10.0, (0,), shares=(DeviceTime(0, 6.0, 2.0, 1.0, 1.0, 1.0),)))
    'a step of 10.0 µs on 1 device: computing 60 %, communicating 20 %, waiting for other devices 10 %, nothing 10 %; 25 % of the time in collectives is hidden behind computing'
    """
    whole = (
        sum(s.compute_us + s.communication_us + s.waiting_us + s.idle_us for s in t.shares) or 1.0
    )
    parts = (
        ("computing", sum(s.compute_us for s in t.shares)),
        ("communicating", sum(s.communication_us for s in t.shares)),
        ("waiting for other devices", sum(s.waiting_us for s in t.shares)),
        ("nothing", sum(s.idle_us for s in t.shares)),
    )
    said = ", ".join(f"{name} {100 * us / whole:.0f} %" for name, us in parts if us or not t.shares)
    hidden = sum(s.hidden_us for s in t.shares)
    together = hidden + parts[1][1] + parts[2][1]
    return f"a step of {time_text(t.duration_us)} on {plural(len(t.devices), 'device')}: {said}" + (
        f"; {100 * hidden / together:.0f} % of the time in collectives is hidden behind computing"
        if together
        else ""
    )


def _operation(o: Operation, options: Options) -> str:
    waited = f" ({time_text(o.wait_us)} of it waiting)" if o.waits else ""
    return f"device {o.device}: {o.instruction}  at {time_text(o.start_us)}  for {time_text(o.duration_us)}{waited}"


def _device(d: DeviceTime, options: Options) -> str:
    return (
        f"device {d.device}: computes {time_text(d.compute_us)}, communicates {time_text(d.communication_us)}, "
        f"waits {time_text(d.waiting_us)}, hides {time_text(d.hidden_us)}, idle {time_text(d.idle_us)}"
    )


def _timeline(t: Timeline, options: Options) -> str:
    head = [
        f"{t.function}: {timeline_sentence(t)}"
        if options.times
        else f"{t.function}: a step on {plural(len(t.devices), 'device')}"
    ]
    if not options.times:
        return head[0]
    rows = [
        (
            str(s.device),
            *map(
                time_text,
                (s.compute_us, s.communication_us, s.waiting_us, s.hidden_us, s.idle_us),
            ),
        )
        for s in t.shares
    ]
    names = ("device", "computes", "communicates", "waits", "hidden", "idle")
    shown, more = limited(t.operations, options, "operation")
    peak = max((size for _, points in t.memory for _, size in points), default=0)
    return "\n".join(
        [
            *head,
            table([names, *rows], "rrrrrr"),
            *([f"  at most {size_text(peak)} per device, as planned"] if peak else []),
            *("  " + _operation(o, options) for o in shown),
            *more,
        ]
    )


add_form(Operation, _operation)
add_form(DeviceTime, _device)
add_form(Timeline, _timeline)
