"""Memory of a compiled program, per device, and the buffers behind it."""

from __future__ import annotations

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.buffers import Buffer, alive_at, peak
from xlab.observe.records.text import Options, add_form
from xlab.observe.records.units import size_text, table

MOST_STEPS = 1 << 22
"""Steps of a schedule that a record from elsewhere may speak of: pictures draw each."""


@record_type
class Memory(Record):
    """Bytes per device of one compiled program. `donated` and `refused` are argument names; `refused` carry their reason.

    `made_by` says who traced and compiled it, where that was not this package.
    """

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
    made_by: str = ""

    @property
    def constants(self) -> int:
        """Bytes of values that came with the program: arrays that it captured, and what the compiler computed.

        >>> Memory(buffers=(Buffer("w", 64, "constant"), Buffer("x", 32, "argument"))).constants
        64
        """
        return peak([b for b in self.buffers if b.kind == "constant"])[1]

    @property
    def total(self) -> int:
        """Bytes that a device gives to a call: arguments, outputs and temporaries, what two of them share once, constants and the code.

        >>> Memory(arguments=10, outputs=8, temporaries=4, aliased=8).total
        14
        """
        parts = self.arguments + self.outputs + self.temporaries - self.aliased
        return parts + self.constants + self.code

    def contradiction(self) -> str:
        """A buffer alive for longer than any program."""
        wrong = next(
            (
                i
                for i, b in enumerate(self.buffers)
                if not all(-1 <= step < MOST_STEPS for step in (b.start, b.end))
            ),
            None,
        )
        return (
            ""
            if wrong is None
            else f"buffers[{wrong}] must start and end at steps up to {MOST_STEPS:,}"
        )


def memory_text(m: Memory, o: Options) -> str:
    rows = [
        ("arguments", m.arguments),
        ("outputs", m.outputs),
        ("temporaries", m.temporaries),
        ("aliased", m.aliased),
        *([("constants", m.constants)] if m.constants else []),
        ("code", m.code),
        ("in all", m.total),
        *([("peak", m.peak)] if m.peak else []),
    ]
    lines = [
        f"{m.function}: peak {size_text(m.peak) + ' per device' if m.peak else 'not known'}",
        table([(n, size_text(v)) for n, v in rows], "lr"),
    ]
    alive = [(b, own) for b, own in alive_at(m.buffers, m.peak_step) if own]
    if alive:
        shown = ", ".join(f"{b.name} {size_text(own)}" for b, own in alive[:6]) + (
            f" and {len(alive) - 6} more, {size_text(sum(own for _, own in alive[6:]))}"
            if len(alive) > 6
            else ""
        )
        lines.append(f"  alive at the peak: {shown}")
    if m.donated:
        lines.append("  donated and used: " + ", ".join(m.donated))
    lines += [f"  donated, not used: {name}: {why}" for name, why in m.refused]
    return "\n".join(lines)


add_form(Memory, memory_text)
