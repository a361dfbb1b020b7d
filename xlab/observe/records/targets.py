"""A program compiled for another machine, compared with this machine's, as a record and as text."""

from __future__ import annotations

from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.diff import Figure
from xlab.observe.records.memory import Memory
from xlab.observe.records.program import Level
from xlab.observe.records.text import add_form
from xlab.observe.records.transfers import Transfer
from xlab.observe.records.units import plural, size_text, table


@record_type
class AsyncOperation(Record):
    """An asynchronous operation of a schedule: begun by instruction `start`, waited for by `done`, with `between` of work in between.

    `kind` is what goes on meanwhile: `all_gather`, `copy`, `slice`, …; `size` are the bytes it brings.
    """

    kind: str
    start: str
    done: str
    between: int = 0
    size: int = 0
    equation: int = -1


@record_type
class Scheduled(Record):
    """One program compiled for a target that need not be attached.

    `figures` have this machine's numbers at their left and the target's at their right. `async_operations` are what the schedule starts and
    waits for later. `level` is the scheduled module, joined to the program's equations. `doubts` say what its compiler reports that
    cannot be taken as a fact, and is not in `figures`.
    """

    target: str
    function: str
    kind: str = ""
    devices: int = 1
    figures: tuple[Figure, ...] = ()
    async_operations: tuple[AsyncOperation, ...] = ()
    level: Level | None = None
    transfers: tuple[Transfer, ...] = ()
    memory: Memory | None = None
    doubts: tuple[str, ...] = ()
    program: int = 0


def headline(s: Scheduled) -> str:
    """`f on tpu:v5e:4x4 (TPU v5 lite, 16 devices), compiled ahead of time; nothing ran`."""
    return f"{s.function} on {s.target} ({s.kind}, {plural(s.devices, 'device')}), compiled ahead of time; nothing ran"


def scheduled_text(s: Scheduled, o: Any) -> str:
    """The text form: figures side by side, asynchronous operations, doubts."""
    rows = [("", "", "this machine", s.target, "")]
    rows += [
        ("~" if f.differs else "", f"{f.group}: {f.what}", f.left, f.right, f.ratio)
        for f in s.figures
    ]
    lines = [headline(s), table(rows, "llrrr")]
    shown = s.async_operations if o.limit is None else s.async_operations[: o.limit]
    if shown:
        lines.append("started, and waited for later:")
        lines.append(
            table(
                [
                    ("kind", "size", "start", "done", "work between"),
                    *((f.kind, size_text(f.size), f.start, f.done, str(f.between)) for f in shown),
                ],
                "lrllr",
            )
        )
    if len(shown) < len(s.async_operations):
        lines.append(
            f"  … {plural(len(s.async_operations) - len(shown), 'more operation')}: text(record, limit=None) shows all"
        )
    return "\n".join([*lines, *(f"not shown as fact: {doubt}" for doubt in s.doubts)])


add_form(Scheduled, scheduled_text)
add_form(
    AsyncOperation,
    lambda f, o: f"{f.kind} {size_text(f.size)}: {f.start} … {f.done}, {f.between} between",
)
