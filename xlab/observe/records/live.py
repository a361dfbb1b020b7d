"""Arrays that are alive now, as records and as a table of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.source import Source
from xlab.observe.records.text import add_form
from xlab.observe.records.units import listed, plural, size_text, table


@record_type
class LiveArray(Record):
    """One array. `name` is where the notebook holds it, empty for none; `devices` are ids; `sharding` in words; `source` where it was made."""

    type: str
    bytes: int
    name: str = ""
    devices: tuple[int, ...] = ()
    sharding: str = ""
    committed: bool = False
    memory_kind: str = ""
    source: Source | None = None


@record_type
class Live(Record):
    """The arrays alive, largest first. `total` counts all of them, `more` those that are not listed; `devices` are `(id, bytes)`.

    `lines` are `(place, arrays, bytes)` per line that made some of them, largest first; `tracked` says whether lines are recorded.
    """

    arrays: tuple[LiveArray, ...] = ()
    total: int = 0
    more: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    lines: tuple[tuple[str, int, int], ...] = ()
    tracked: bool = False


def place(source: Source | None) -> str:
    """The place where an array was made, as text."""
    if source is None:
        return "unknown"
    file = source.file.rsplit("/", 1)[-1]
    return f"{file}, line {source.line}" if source.line else file


class LiveRow(NamedTuple):
    """One row of the list: a named array, or all similar unnamed ones; `array` is the first, `place` its origin."""

    array: LiveArray
    number: int
    bytes: int
    place: str


def rows(arrays: Sequence[LiveArray]) -> list[LiveRow]:
    """Arrays as they are listed, the most bytes first: those that no name holds together, by type, devices and sharding.

    >>> one = LiveArray("f32[2]", 8)
    >>> [(r.number, r.bytes, r.array.name) for r in rows([LiveArray("f32[2]", 8, "x"), one, one])]
    [(2, 16, ''), (1, 8, 'x')]
    """
    groups: dict[object, list[LiveArray]] = {}
    for n, a in enumerate(arrays):
        groups.setdefault(
            n if a.name else (a.type, a.bytes, a.devices, a.sharding, a.committed, a.memory_kind),
            [],
        ).append(a)
    out = []
    for group in groups.values():
        made = sorted({place(a.source) for a in group})
        out.append(
            LiveRow(
                group[0],
                len(group),
                sum(a.bytes for a in group),
                made[0] if len(made) == 1 else f"{len(made)} places",
            )
        )
    return sorted(out, key=lambda r: -r.bytes)


def devices_text(ids: tuple[int, ...]) -> str:
    """A short text for the devices.

    >>> devices_text((0,)), devices_text((0, 1, 2, 3)), devices_text((0, 2))
    ('device 0', 'devices 0–3', 'devices 0, 2')
    """
    if not ids:
        return "no device"
    if len(ids) == 1:
        return f"device {ids[0]}"
    ordered = sorted(ids)
    if ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"devices {ordered[0]}–{ordered[-1]}"
    return f"devices {listed([str(i) for i in ordered], 8)}"


def live_text(record: Live, options: Any = None) -> str:
    """A table of the arrays, then bytes per device where there are several."""
    count = len(record.arrays) + record.more
    if not count:
        return "no array of xlab is alive"
    limit = getattr(options, "limit", None)
    shown = rows(record.arrays)[:limit]
    lines_of = [
        ("name", "array", "bytes", "on", "made in"),
        *(
            (
                r.array.name or (f"{r.number} without a name" if r.number > 1 else "–"),
                r.array.type,
                size_text(r.bytes),
                devices_text(r.array.devices),
                r.place,
            )
            for r in shown
        ),
    ]
    more = count - sum(r.number for r in shown)
    lines = [table(lines_of, "llrll")] + ([f"  … {plural(more, 'smaller array')}"] if more else [])
    lines.append(
        f"{size_text(record.total)} in {plural(count, 'array')}"
        + (
            f", copies counted once; {size_text(sum(n for _, n in record.devices))} on {plural(len(record.devices), 'device')} with all copies"
            if len(record.devices) > 1
            else ""
        )
    )
    if len(record.devices) > 1:
        lines.append(
            f"per device: {listed([f'{i} {size_text(n)}' for i, n in record.devices], 16)}"
        )
    return "\n".join(lines)


add_form(Live, live_text)
add_form(
    LiveArray,
    lambda a, o: (
        f"{a.name or 'an array'}: {a.type}, {size_text(a.bytes)} on {devices_text(a.devices)}, made in {place(a.source)}"
    ),
)
