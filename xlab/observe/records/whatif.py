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

LONGEST = 72
"""Characters of a placement in a table of text."""

Spec = tuple[tuple[str, ...], ...]
"""Per dimension the mesh axes that split it."""


@record_type
class Placement(Record):
    """The cost of one placement: `arguments` are `(name, type)` with the specs in the types; transfers are without their rounds.

    `sent` is what a device sends in one run, loop trips multiplied; `predicted_us` the time of all collectives; `peak` bytes per device.
    `step_us` is the predicted time of a step with what devices compute, `compute_us` that part of it, `measured_us` what a run took, 0 where none
    was run. Of a placement that was `estimated` and not
    compiled `count` says how many collectives it would have. `name` is what it is known by (`now`, `FSDP`), `specs` its specs by pattern of
    the arguments' paths, `front` whether no other takes less time and less memory.
    """

    title: str
    mesh: MeshInfo | None = None
    arguments: tuple[tuple[str, str], ...] = ()
    transfers: tuple[Transfer, ...] = ()
    sent: int = 0
    predicted_us: float = 0.0
    peak: int = 0
    step_us: float = 0.0
    compute_us: float = 0.0
    estimated: bool = False
    count: int = 0
    name: str = ""
    specs: tuple[tuple[str, Spec], ...] = ()
    front: bool = False
    measured_us: float = 0.0

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
    """Placements of one program, the best first.

    Args:
        found: the best, and in any case the present one and those that have a name; `tried` were estimated in all.
        left: combinations that were not tried; `refused` could not be compiled.
        machine: for which times are predicted; `memory` is what one device of it has.
        best: number of the best in `found` if it is better than what is, else -1.
        proven: the present placement beside the best one, both compiled.
        done: whether the search came to its end; `phase` says what it does if not.
        varied: the patterns of the arguments that were moved.
        code: Python that puts the arguments as the best has them.
    """

    function: str
    found: tuple[Placement, ...] = ()
    left: int = 0
    refused: int = 0
    tried: int = 0
    machine: str = ""
    memory: int | None = None
    best: int = -1
    proven: WhatIf | None = None
    done: bool = True
    phase: str = ""
    varied: tuple[str, ...] = ()
    code: str = ""

    @property
    def now(self) -> Placement | None:
        """The present placement."""
        return next((p for p in self.found if p.name == "now"), None)

    @property
    def better(self) -> Placement | None:
        """The best placement, None where nothing better than the present one was found."""
        return self.found[self.best] if 0 <= self.best < len(self.found) else None

    @property
    def verdict(self) -> str:
        """What was found, as a sentence."""
        best, now = self.better, self.now
        if best is None or now is None:
            return "nothing better found" + ("" if self.done else " yet")
        parts = []
        if best.step_us < now.step_us:
            parts.append(f"{time_text(best.step_us)} a step instead of {time_text(now.step_us)}")
        if best.peak < now.peak:
            parts.append(f"{size_text(best.peak)} per device instead of {size_text(now.peak)}")
        how = "estimated" if best.estimated else "compiled"
        return f"{best.name or 'another placement'} is better: {', '.join(parts)} ({how})"


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
    for given in (before, after):
        if not isinstance(given, Report):
            raise TypeError(
                f"side_by_side takes two reports, as observe.what_if makes them; given {given!r} of type {type(given).__name__}"
            )
    return WhatIf(before.title, placement_of(before, "now"), placement_of(after, "what if"))


def cost_rows(x: WhatIf) -> list[tuple[str, str, str, float, float]]:
    """The numbers that are compared: what, before and after as text, then as numbers."""
    a, b = x.before, x.after
    step = (
        [("step", time_text(a.step_us), time_text(b.step_us), a.step_us, b.step_us)]
        if a.step_us and b.step_us
        else []
    )
    measured = (
        [("measured", time_text(a.measured_us), time_text(b.measured_us), a.measured_us, b.measured_us)]
        if a.measured_us and b.measured_us
        else []
    )  # fmt: skip
    return [
        *step,
        *measured,
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
        left = plural(x.left, "combination") if x.left < 1e9 else "most combinations"
        parts.append(f"{left} not tried: vary fewer arguments, or raise limit= or seconds=")
    if x.refused:
        parts.append(f"{plural(x.refused, 'combination')} could not be compiled")
    return "; ".join(parts)


def count_of(p: Placement) -> int:
    """How many collectives a placement has, or would have."""
    return p.count if p.estimated else len(p.collectives)


def _ranking(x: Ranking, o: Any) -> str:
    most = len(x.found) if o.limit is None else max(1, o.limit // 10)
    # What is, and what has a name, is shown wherever it stands.
    shown = [(n, p) for n, p in enumerate(x.found, 1) if n <= most or p.name]
    rows = [
        ("", "", "placement", "mesh", "step", "peak", "collectives", "sent per device", ""),
        *(
            (
                str(n),
                p.name,
                p.title if len(p.title) <= LONGEST else p.title[: LONGEST - 1] + "…",
                p.mesh.text if p.mesh else "",
                time_text(p.step_us),
                size_text(p.peak),
                str(count_of(p)),
                size_text(p.sent),
                ("*" if p.front else "") + ("" if p.estimated else " compiled"),
            )
            for n, p in shown
        ),
    ]
    more = len(x.found) - len(shown)
    where = f" on {x.machine}" if x.machine else ""
    return "\n".join(
        [
            f"{x.function}{where}: {x.verdict}; {plural(x.tried, 'placement')} tried",
            table(rows, "rlllrrrrl"),
            *(
                [f"  … {plural(more, 'more placement')}: text(record, limit=None) shows all"]
                if more
                else []
            ),
            "  * no other takes less time and less memory",
            *([f"  {left_line(x)}"] if left_line(x) else []),
        ]
    )


add_form(Placement, _placement)
add_form(WhatIf, _what_if)
add_form(Ranking, _ranking)
