"""What a program costs under other placements of its arguments, as records and as text."""

from __future__ import annotations

from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import MeshInfo
from xlab.observe.records.report import Report
from xlab.observe.records.text import add_form
from xlab.observe.records.transfers import (
    CAUTION,
    Transfer,
    transfer_name,
    transfer_origin,
    transfer_over,
)
from xlab.observe.records.units import plural, size_text, table, time_text

SHOWN = 12


@record_type
class Placement(Record):
    """The cost of one placement: `arguments` are `(name, type)` with the specs in the types; transfers are without their rounds.

    `sent` is what a device sends in one run, loop trips multiplied; `predicted_us` the time of all collectives; `peak` bytes per device.
    """

    title: str
    mesh: MeshInfo | None = None
    arguments: tuple[tuple[str, str], ...] = ()
    transfers: tuple[Transfer, ...] = ()
    sent: int = 0
    predicted_us: float = 0.0
    peak: int = 0

    @property
    def collectives(self) -> tuple[Transfer, ...]:
        """Those that the compiled program has."""
        return tuple(t for t in self.transfers if t.instruction)

    @property
    def added(self) -> int:
        """How many of them the partitioner added because two shardings disagree."""
        return sum(t.reshards for t in self.collectives)


@record_type
class WhatIf(Record):
    """One program under two placements."""

    function: str
    before: Placement
    after: Placement

    @property
    def changed(self) -> tuple[tuple[str, str, str], ...]:
        """Arguments placed differently: name, type before, type after."""
        after = dict(self.after.arguments)
        return tuple(
            (name, was, after[name])
            for name, was in self.before.arguments
            if name in after and after[name] != was
        )


@record_type
class Ranking(Record):
    """Placements of one program, the cheapest first. `left` combinations were not tried, `refused` could not be compiled."""

    function: str
    found: tuple[Placement, ...] = ()
    left: int = 0
    refused: int = 0


def placement_of(report: Report, title: str = "") -> Placement:
    """What a report of one program says of its cost."""
    times = [(t, 1 if t.times is None else t.times) for t in report.transfers]
    return Placement(
        title or report.title,
        report.mesh,
        tuple((x.name, x.type.text) for x in report.layouts if x.role == "argument"),
        tuple(t.replace(rounds=(), mesh=None, formula="") for t in report.transfers),
        sum(t.sent_in_run for t in report.transfers),
        sum((t.predicted_us or 0.0) * n for t, n in times),
        max((m.peak for m in report.memory), default=0),
    )


def side_by_side(before: Report, after: Report) -> WhatIf:
    """Two reports of one program, as `what_if` makes them, beside each other.

    >>> from xlab.observe.records import Memory
    >>> print(side_by_side(Report("f", memory=(Memory(peak=64),)), Report("f", memory=(Memory(peak=32),))))
    f: nothing lies otherwise
                           now   what if
      collectives            0         0
      from disagreement      0         0
      sent per device      0 B       0 B
      predicted           0 µs      0 µs
      peak per device     64 B      32 B
    """
    return WhatIf(before.title, placement_of(before, "now"), placement_of(after, "what if"))


def cost_rows(x: WhatIf) -> list[tuple[str, str, str, float, float]]:
    """The numbers that are compared: what, before and after as text, then as numbers."""
    a, b = x.before, x.after
    return [
        (
            "collectives",
            f"{len(a.collectives):,}",
            f"{len(b.collectives):,}",
            len(a.collectives),
            len(b.collectives),
        ),
        ("from disagreement", f"{a.added:,}", f"{b.added:,}", a.added, b.added),
        ("sent per device", size_text(a.sent), size_text(b.sent), a.sent, b.sent),
        (
            "predicted",
            time_text(a.predicted_us),
            time_text(b.predicted_us),
            a.predicted_us,
            b.predicted_us,
        ),
        ("peak per device", size_text(a.peak), size_text(b.peak), a.peak, b.peak),
    ]


def collective_line(t: Transfer, caution: str = CAUTION) -> str:
    """One collective in a line: what, over which axes, bytes, how often, who asked for it."""
    often = "" if t.times == 1 else f" × {'?' if t.times is None else t.times}"
    place = f", line {t.source.line}" if t.source else ""
    return f"{transfer_name(t)} over {transfer_over(t)}, {size_text(t.bytes_in)} → {size_text(t.bytes_out)}{often}, {transfer_origin(t, caution)}{place}"


def change_line(x: WhatIf) -> str:
    """The changed placements, as text."""
    parts = [f"`{name}` as {now} instead of {was}" for name, was, now in x.changed[:4]]
    if len(x.changed) > 4:
        parts.append(f"{plural(len(x.changed) - 4, 'more argument')}")
    if x.before.mesh and x.after.mesh and x.before.mesh.text != x.after.mesh.text:
        parts.append(f"mesh {x.after.mesh.text} instead of {x.before.mesh.text}")
    return ", ".join(parts) or "nothing lies otherwise"


def _what_if(x: WhatIf, o: Any) -> str:
    lines = [
        f"{x.function}: {change_line(x)}",
        table([("", x.before.title, x.after.title), *(row[:3] for row in cost_rows(x))], "lrr"),
    ]
    for side in (x.before, x.after):
        shown = side.collectives[:SHOWN]
        lines += [f"  {side.title}: {collective_line(t)}" for t in shown]
        if len(side.collectives) > len(shown):
            lines.append(
                f"  {side.title}: … {plural(len(side.collectives) - len(shown), 'more collective')}"
            )
    return "\n".join(lines)


def _placement(p: Placement, o: Any) -> str:
    return (
        f"{p.title}: {plural(len(p.collectives), 'collective')}, {size_text(p.sent)} per device, {time_text(p.predicted_us)} predicted, "
        f"peak {size_text(p.peak)}"
    )


def left_line(x: Ranking) -> str:
    """The combinations that were not tried, as text."""
    parts = []
    if x.left:
        parts.append(
            f"{plural(x.left, 'combination')} not tried: vary fewer arguments, or raise limit= or seconds="
        )
    if x.refused:
        parts.append(f"{plural(x.refused, 'combination')} could not be compiled")
    return "; ".join(parts)


def _ranking(x: Ranking, o: Any) -> str:
    shown = x.found if o.limit is None else x.found[: max(1, o.limit // 10)]
    rows = [
        ("", "placement", "collectives", "sent per device", "predicted", "peak"),
        *(
            (
                str(n),
                p.title,
                str(len(p.collectives)),
                size_text(p.sent),
                time_text(p.predicted_us),
                size_text(p.peak),
            )
            for n, p in enumerate(shown, 1)
        ),
    ]
    more = len(x.found) - len(shown)
    return "\n".join(
        [
            f"{x.function}: {plural(len(x.found), 'placement')}, the cheapest first",
            table(rows, "rlrrrr"),
            *(
                [f"  … {plural(more, 'more placement')}: text(record, limit=None) shows all"]
                if more
                else []
            ),
            *([f"  {left_line(x)}"] if left_line(x) else []),
        ]
    )


add_form(Placement, _placement)
add_form(WhatIf, _what_if)
add_form(Ranking, _ranking)
