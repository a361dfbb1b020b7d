"""A compiler pass as a record: its edits of the module, from which every module can be rebuilt.

>>> before = ["a", "b", "c"]
>>> made = line_edits(before, ["a", "x", "c", "d"])
>>> made, apply(before, made)
(((1, ('b',), ('x',)), (3, (), ('d',))), ['a', 'x', 'c', 'd'])
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import add_form
from xlab.observe.records.units import plural, table, time_text

Edits = tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]

STAGES = {"shardy": "Shardy", "xla": "XLA", "codegen": "code generation"}


@record_type
class Pass(Record):
    """One compiler pass of a `stage` (`shardy`, `xla`, `codegen`) and `pipeline`: how many lines it `added` and `removed`.

    `edits` are `(line from 0 in the module before, lines that went, lines that came)`. `before` is that module where it is not what
    the pass before it left: at the start of a stage, and after a pass whose edits were too long to keep. `cut` says in words what is
    missing. `runs` counts runs that changed nothing one after the other. A line that comes from an equation ends in `# e` and its id.
    """

    name: str
    stage: str = ""
    added: int = 0
    removed: int = 0
    duration_us: float | None = None
    pipeline: str = ""
    edits: Edits = ()
    before: str = ""
    cut: str = ""
    runs: int = 1

    @property
    def changed(self) -> int:
        """Lines added and removed."""
        return self.added + self.removed

    @property
    def diff(self) -> str:
        """The edits as a unified diff without context."""
        out, shift = [], 0
        for at, gone, new in self.edits:
            out.append(f"@@ -{at + 1},{len(gone)} +{at + 1 + shift},{len(new)} @@")
            out += [f"-{line}" for line in gone] + [f"+{line}" for line in new]
            shift += len(new) - len(gone)
        return "\n".join(out)


def line_edits(before: Sequence[str], after: Sequence[str]) -> Edits:
    """The edits from one module to another, anchored at lines that occur once in both (patience diff)."""
    out: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = []

    def between(a0: int, a1: int, b0: int, b1: int) -> None:
        while a0 < a1 and b0 < b1 and before[a0] == after[b0]:
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and before[a1 - 1] == after[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
        if a0 == a1 or b0 == b1 or (a1 - a0) * (b1 - b0) <= _SMALL:
            if a0 < a1 or b0 < b1:
                for tag, i, j, k, m in SequenceMatcher(
                    None, before[a0:a1], after[b0:b1], autojunk=False
                ).get_opcodes():
                    if tag != "equal":
                        out.append(
                            (a0 + i, tuple(before[a0 + i : a0 + j]), tuple(after[b0 + k : b0 + m]))
                        )
            return
        held = _held(before, after, a0, a1, b0, b1)
        if not held:
            out.append((a0, tuple(before[a0:a1]), tuple(after[b0:b1])))
            return
        for a, b in held:
            between(a0, a, b0, b)
            a0, b0 = a + 1, b + 1
        between(a0, a1, b0, b1)

    between(0, len(before), 0, len(after))
    return tuple(out)


_SMALL = 40_000
"""Pairs of lines that are compared one with another; larger stretches are first cut at lines that occur once."""


def _held(
    before: Sequence[str], after: Sequence[str], a0: int, a1: int, b0: int, b1: int
) -> list[tuple[int, int]]:
    """The anchors: the longest common sequence of lines that occur once in each range."""
    count_a, count_b = Counter(before[a0:a1]), Counter(after[b0:b1])
    place = {line: n for n, line in enumerate(after[b0:b1], b0) if count_b[line] == 1}
    pairs = [
        (n, place[before[n]])
        for n in range(a0, a1)
        if count_a[before[n]] == 1 and before[n] in place
    ]
    ends: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for n, (_, b) in enumerate(pairs):
        at = bisect.bisect_left(ends, b)
        back.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [b], [n]
    row, n = [], last[-1] if last else -1
    while n >= 0:
        row.append(pairs[n])
        n = back[n]
    return row[::-1]


def apply(before: Sequence[str], changes: Edits) -> list[str]:
    """The module after a pass."""
    out: list[str] = []
    done = 0
    for at, gone, new in changes:
        out += [*before[done:at], *new]
        done = at + len(gone)
    return [*out, *before[done:]]


def modules(passes: Sequence[Pass]) -> Iterator[tuple[Pass, list[str] | None, list[str] | None]]:
    """Each pass with the module before and after it, as lines; None where what came before was cut."""
    now: list[str] | None = None
    stage = ""
    for made in passes:
        if made.before:
            now = made.before.splitlines()
        elif made.stage != stage:
            now = None
        stage = made.stage
        after = None if now is None or (made.cut and made.changed) else apply(now, made.edits)
        yield made, now, after
        now = after


def passes_text(passes: Sequence[Pass], times: bool = False) -> str:
    """A table of the passes that changed something, and how many did not."""
    rows = [("pass", "stage", "pipeline", "added", "removed", *(("time",) if times else ()))]
    rows += [
        (
            p.name,
            STAGES.get(p.stage, p.stage),
            p.pipeline,
            f"+{p.added}",
            f"−{p.removed}",
            *((time_text(p.duration_us) if p.duration_us is not None else "",) if times else ()),
        )
        for p in passes
        if p.changed
    ]
    idle = sum(p.runs for p in passes if not p.changed)
    return table(rows, "lllrrr") + (
        f"\n  {plural(idle, 'run')} of {plural(len({p.name for p in passes if not p.changed}), 'pass')[:-1]}es "
        "that changed nothing, or only write code"
        if idle
        else ""
    )


def pass_text(p: Pass, o: Any) -> str:
    """One pass: how much it changed, then the lines."""
    head = f"{p.name}: +{p.added} −{p.removed} {'line' if p.changed == 1 else 'lines'}" + (
        f", {time_text(p.duration_us)}" if o.times and p.duration_us is not None else ""
    )
    lines = p.diff.splitlines()
    shown = lines if o.limit is None else lines[: o.limit]
    more = len(lines) - len(shown)
    return "\n".join(
        [
            head,
            *(f"  {line}" for line in shown),
            *(
                [f"  … {plural(more, 'more line')}: text(record, limit=None) shows all"]
                if more
                else []
            ),
            *([f"  ({p.cut})"] if p.cut else []),
        ]
    )


add_form(Pass, pass_text)
