"""A collective that is started in one place and waited for in another: what is computed in between, and what that can hide."""

from __future__ import annotations

from collections.abc import Mapping

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source, line_text
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, time_text


@record_type
class Between(Record):
    """One equation between a start and its wait: its number, its primitive, and how long it takes."""

    equation: int
    primitive: str
    us: float = 0.0


@record_type
class Overlap(Record):
    """A start and its wait, and the equations in between, which do not need the result: they can run while devices send.

    Args:
        type: the type of the pending value.
        start, done: the equations that start and wait; -1 for a start that nobody waits for.
        between: the equations in between that compute, in their order.
        sent_us: one run of the collective.
        sent_clock, computed_clock: where `sent_us` and the times of `between` are from: `predicted` by the model of the interconnect,
            `estimated` from operations and bytes, or `profile`, the clock of a run under the profiler.
        machine: what an estimate assumes.
        overlapped_us: how long both went on at once, where that is known; 0 on CPU, which runs a collective where it is started.
        platform: of the devices.
    """

    type: str
    start: int = -1
    done: int = -1
    start_source: Source | None = None
    done_source: Source | None = None
    between: tuple[Between, ...] = ()
    sent_us: float = 0.0
    sent_clock: str = "predicted"
    computed_clock: str = "estimated"
    machine: str = ""
    overlapped_us: float | None = None
    platform: str = ""

    @property
    def computed_us(self) -> float:
        """What is computed in between, in all."""
        return sum(b.us for b in self.between)

    @property
    def ideal_us(self) -> float:
        """Both at once, perfectly: the longer of the two."""
        return max(self.sent_us, self.computed_us)

    @property
    def serial_us(self) -> float:
        """One after the other."""
        return self.sent_us + self.computed_us

    @property
    def logical(self) -> bool:
        """Whether the span from start to wait is one of the program only: the platform does not overlap."""
        return self.overlapped_us == 0

    def measured(self, sent_us: float | None, equations: Mapping[int, float]) -> Overlap:
        """With the times of a profile, where it has them: of one run of the collective, and of equations by number."""
        made = self
        if sent_us is not None:
            made = made.replace(sent_us=sent_us, sent_clock="profile")
        if any(b.equation in equations for b in self.between):
            # What a profile does not name became part of other instructions, and is counted there.
            times = tuple(b.replace(us=equations.get(b.equation, 0.0)) for b in self.between)
            made = made.replace(between=times, computed_clock="profile", machine="")
        return made


def span_text(o: Overlap) -> str:
    """`pending from line 9 to line 12`."""
    begin, end = line_text(o.start_source), line_text(o.done_source)
    if o.done < 0:
        return f"started{f' at {begin}' if begin else ''} and never awaited: the compiler leaves it out"
    return f"pending from {begin or f'equation {o.start}'} to {end or f'equation {o.done}'}"


def overlap_mark(o: Overlap) -> str:
    """Until where a collective is pending, in a few words.

    >>> overlap_mark(Overlap("Todo{f32[8]}", 1, 2)), overlap_mark(Overlap("Todo{f32[8]}", 1))
    ('pending until equation 2', 'never awaited')
    """
    if o.done < 0:
        return "never awaited"
    return f"pending until {line_text(o.done_source) or f'equation {o.done}'}"


def between_text(o: Overlap) -> str:
    """What is computed in between.

    >>> between_text(Overlap("Todo{f32[]}", between=(Between(1, "sin"), Between(2, "sin"), Between(3, "add"))))
    '3 equations in between (sin 2, add)'
    """
    if not o.between:
        return "nothing is computed in between"
    counts: dict[str, int] = {}
    for b in o.between:
        counts[b.primitive] = counts.get(b.primitive, 0) + 1
    names = [f"{name} {n}" if n > 1 else name for name, n in counts.items()]
    shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
    return f"{plural(len(o.between), 'equation')} in between ({shown})"


def ideal_text(o: Overlap) -> str:
    """What overlapping could be worth, and what it was.

    >>> ideal_text(Overlap("Todo{f32[]}", between=(Between(1, "dot_general", 3.0),), sent_us=28.0, overlapped_us=0.0, platform="cpu"))
    'sent 28.0 µs (predicted), computed 3.00 µs (estimated): at best max = 28.0 µs, one after the other 31.0 µs. On cpu nothing overlaps: it runs where it is started, so the span is that of the program.'
    """
    text = (
        f"sent {time_text(o.sent_us)} ({o.sent_clock}), computed {time_text(o.computed_us)} ({o.computed_clock}): at best max = "
        f"{time_text(o.ideal_us)}, one after the other {time_text(o.serial_us)}"
    )
    if o.overlapped_us is None:
        return f"{text}. How much overlaps was not measured."
    if o.logical:
        return f"{text}. On {o.platform} nothing overlaps: it runs where it is started, so the span is that of the program."
    return f"{text}. Measured: {time_text(o.overlapped_us)} at once."


def _text(o: Overlap, options: Options) -> str:
    if o.done < 0:
        return span_text(o)
    return "\n".join(
        [
            f"{span_text(o)}: {between_text(o)}",
            f"  {ideal_text(o)}",
            *([f"  {o.machine}"] if o.machine else ()),
        ]
    )


add_form(Overlap, _text)
