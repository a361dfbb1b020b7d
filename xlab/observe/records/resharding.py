"""The resharding of one array, as a record and as text: bytes that stay, and bytes sent between devices."""

from __future__ import annotations

from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.layout import ArrayLayout
from xlab.observe.records.text import add_form
from xlab.observe.records.transfers import Transfer
from xlab.observe.records.units import listed, plural, size_text, table, time_text

SHOWN = 16


@record_type
class Resharding(Record):
    """An array that goes from one layout to another.

    `messages` are `(source, target, bytes)`, `kept` are `(device, bytes)` that a device needs and has. `transfers` are the
    collectives a compiled program makes of it, where that was asked for.
    """

    before: ArrayLayout
    after: ArrayLayout
    messages: tuple[tuple[int, int, int], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    transfers: tuple[Transfer, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the array is called."""
        return self.before.name or self.after.name

    @property
    def rounds(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """The messages as one round, as a `Transfer` has them."""
        return (self.messages,) if self.messages else ()

    @property
    def bytes_moved(self) -> int:
        """Bytes of all messages."""
        return sum(n for _, _, n in self.messages)

    @property
    def bytes_in(self) -> int:
        """Bytes that the device which sends most sends."""
        return max(self.sent.values(), default=0)

    @property
    def bytes_out(self) -> int:
        """Bytes that the device which receives most receives."""
        return max(self.received.values(), default=0)

    @property
    def sent(self) -> dict[int, int]:
        """Bytes by the device that sends them."""
        return _sums((s, n) for s, _, n in self.messages)

    @property
    def received(self) -> dict[int, int]:
        """Bytes by the device that receives them."""
        return _sums((t, n) for _, t, n in self.messages)


def _sums(parts: Any) -> dict[int, int]:
    out: dict[int, int] = {}
    for device, size in parts:
        out[device] = out.get(device, 0) + size
    return out


def slices_text(slices: tuple[tuple[int, int], ...]) -> str:
    """What a device holds, as it is written in Python.

    >>> slices_text(((0, 2), (4, 8)))
    '[0:2, 4:8]'
    """
    return f"[{', '.join(f'{a}:{b}' for a, b in slices)}]"


def headline(x: Resharding) -> tuple[str, str]:
    """The two types, and what moves in numbers."""
    head = f"{x.name}: " if x.name else ""
    types = f"{head}{x.before.type.text} → {x.after.type.text}"
    if not x.messages:
        return types, "nothing moves: every device has what it needs"
    most = f"at most {size_text(x.bytes_in)} from one device and {size_text(x.bytes_out)} to one"
    return types, f"{plural(len(x.messages), 'message')}, {size_text(x.bytes_moved)} in all, {most}"


def memory_line(x: Resharding) -> str:
    """What a device holds before and after, and how many have the same."""
    a, b = x.before, x.after
    return (
        f"each device holds {size_text(a.bytes_per_device)} ({plural(a.copies, 'copy')}) before, "
        f"{size_text(b.bytes_per_device)} ({plural(b.copies, 'copy')}) after"
    )


def device_rows(x: Resharding) -> list[tuple[str, ...]]:
    """Per device: what it has before and after, what stays, what it receives from whom, what it sends."""
    had = {b.device: b.slices for b in x.before.blocks}
    kept, sent, received = dict(x.kept), x.sent, x.received
    sources: dict[int, list[tuple[int, int]]] = {}
    for s, t, n in x.messages:
        sources.setdefault(t, []).append((s, n))
    rows: list[tuple[str, ...]] = []
    for block in x.after.blocks:
        d = block.device
        found = sources.get(d, [])
        parts = listed([f"{s}: {size_text(n)}" for s, n in found], 6)
        rows.append(
            (
                str(d),
                slices_text(had[d]) if d in had else "nothing",
                slices_text(block.slices),
                size_text(kept.get(d, 0)),
                size_text(received.get(d, 0)),
                parts or "–",
                size_text(sent.get(d, 0)),
            )
        )
    return rows


HEAD = ("device", "has", "gets", "stays", "receives", "from", "sends")


def in_program(t: Transfer) -> str:
    """One collective that does the work, with its cost."""
    over = f" over {', '.join(t.axes)}" if t.axes else ""
    cost = f", predicted {time_text(t.predicted_us)}" if t.predicted_us is not None else ""
    return f"{t.kind}{over}, {size_text(t.bytes_in)} → {size_text(t.bytes_out)} per device{cost}"


def resharding_text(x: Resharding, o: Any) -> str:
    """The text form: types, totals, a row per device, and what a program makes of it."""
    types, moved = headline(x)
    limit = len(x.after.blocks) if o.limit is None else min(o.limit, SHOWN)
    rows = device_rows(x)
    lines = [types, f"  {moved}", f"  {memory_line(x)}"]
    if x.messages:
        lines.append(table([HEAD, *rows[:limit]], "rllrrlr"))
        if len(rows) > limit:
            lines.append(
                f"  … {plural(len(rows) - limit, 'more device')}: text(record, limit=None) shows all"
            )
    lines += [f"  in a program: {in_program(t)}" for t in x.transfers]
    return "\n".join([*lines, *(f"  warning: {w}" for w in x.warnings)])


add_form(Resharding, resharding_text)
