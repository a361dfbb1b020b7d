"""A program by its own structure: which function called which, how often, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import plural, size_text, time_text

DEEPEST = 12
"""Calls within one another that a text shows."""


@record_type
class Call(Record):
    """A function as it is called at one place; calls of equal structure at places of one function are one record.

    Args:
        name: of the function.
        times: how often it runs in all; None in a loop of unknown length.
        calls: how often each time that its caller runs.
        source: the line of the call.
        equations: numbers of the equations that stand in the function itself.
        flops, nbytes, sent: of it and all it calls, on one device, in one run of the program.
        us, backward_us: predicted time of all of it, and the part of the backward pass.
        children: what it calls.
        first: the number of its first equation.
        places: from how many lines it is called.
        backward: those of `equations` that belong to the backward pass.
    """

    name: str
    times: int | None = 1
    calls: int | None = 1
    source: Source | None = None
    equations: tuple[int, ...] = ()
    flops: float = 0.0
    nbytes: float = 0.0
    sent: float = 0.0
    us: float = 0.0
    backward_us: float = 0.0
    children: tuple[Call, ...] = ()
    first: int = -1
    places: int = 1
    backward: tuple[int, ...] = ()

    @property
    def forward_us(self) -> float:
        """Predicted time of its forward pass."""
        return self.us - self.backward_us

    @property
    def label(self) -> str:
        """`block ×6`.

        >>> Call("block", calls=6).label, Call("step").label, Call("body", calls=None).label
        ('block ×6', 'step', 'body ×?')
        """
        return self.name + (
            " ×?" if self.calls is None else f" ×{self.calls:,}" if self.calls > 1 else ""
        )

    def walk(self, depth: int = 0) -> Iterator[tuple[Call, int]]:
        """This call and those within it, with their depth."""
        yield self, depth
        for child in self.children:
            yield from child.walk(depth + 1)


def call_lines(root: Call, whole: float, o: Options, least: float = 0.0) -> list[str]:
    """The tree, a call a line, with its share of the time."""
    lines = []
    for call, depth in root.walk():
        if depth > DEEPEST or (whole and call.us < least * whole):
            continue
        share = f"  {100 * call.us / whole:.0f} %" if whole and o.times else ""
        line = f"  line {call.source.line}" if call.source else ""
        back = " forward and backward" if call.backward_us and call.forward_us else ""
        lines.append(f"{'  ' * depth}{call.label}{share}{line}{back}")
    return lines


def _call(call: Call, o: Options) -> str:
    head = f"{call.label}: {plural(len(call.equations), 'equation')} of its own"
    cost = f"{size_text(call.nbytes)} moved, {time_text(call.us)} predicted" if o.times else ""
    return "\n".join([", ".join(filter(None, [head, cost])), *call_lines(call, call.us, o)[1:]])


add_form(Call, _call)
