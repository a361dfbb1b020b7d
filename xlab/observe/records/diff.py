"""The comparison of two programs, as a record and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.text import add_form
from xlab.observe.records.units import plural, table

MARKS = {"same": " ", "placed": "@", "changed": "~", "left": "<", "right": ">"}


@record_type
class Figure(Record):
    """One number of both programs as text, in a `group`: program, collectives, memory, time. `ratio` is right over left, if it tells."""

    group: str
    what: str
    left: str = ""
    right: str = ""
    ratio: str = ""

    @property
    def differs(self) -> bool:
        """Whether the two figures differ."""
        return self.left != self.right


@record_type
class Pair(Record):
    """Two equations or collectives that stand on one line. `state`: same, placed (the same, on devices otherwise), changed, left (only
    there) or right."""

    state: str
    left: str = ""
    right: str = ""

    def contradiction(self) -> str:
        """A state that is none."""
        return (
            ""
            if self.state in MARKS
            else f"state must be one of {', '.join(MARKS)}; given {self.state[:40]!r}"
        )


@record_type
class Diff(Record):
    """Two programs: their names, their numbers, their arguments and equations line by line, and their collectives.

    `made_by` says who traced and compiled them, where that was not this package for both.
    """

    left: str
    right: str
    figures: tuple[Figure, ...] = ()
    pairs: tuple[Pair, ...] = ()
    collectives: tuple[Pair, ...] = ()
    made_by: str = ""


def diff_text(c: Diff, o: Any) -> str:
    """The text form: the numbers with a mark at those that differ, the collectives, then the lines that differ and their neighbors."""
    rows = [("", "", c.left, c.right, "")]
    rows += [
        ("~" if f.differs else "", f"{f.group}: {f.what}", f.left, f.right, f.ratio)
        for f in c.figures
        if f.group != "time" or o.times
    ]
    lines = [table(rows, "llrrr")]
    if c.collectives:
        lines += ["collectives", *_side_by_side(c.collectives, range(len(c.collectives)))]
    changed = [n for n, p in enumerate(c.pairs) if p.state != "same"]
    if not changed:
        return "\n".join([*lines, f"the same {plural(len(c.pairs), 'line')}"])
    near = sorted({m for n in changed for m in range(n - 1, n + 2) if 0 <= m < len(c.pairs)})
    return "\n".join(
        [*lines, *(["program"] if c.collectives else []), *_side_by_side(c.pairs, near)]
    )


def _side_by_side(pairs: tuple[Pair, ...], shown: Sequence[int]) -> list[str]:
    width = min(60, max(len(pairs[n].left) for n in shown))
    lines = []
    for before, n in zip([-1, *shown], shown):
        if n - before > 1:
            lines.append(f"  … {plural(n - before - 1, 'line')} the same")
        p = pairs[n]
        lines.append(f"{MARKS[p.state]} {p.left:<{width}} │ {p.right}".rstrip())
    if shown[-1] + 1 < len(pairs):
        lines.append(f"  … {plural(len(pairs) - shown[-1] - 1, 'line')} the same")
    return lines


add_form(Diff, diff_text)
add_form(Figure, lambda f, o: f"{f.group}: {f.what}  {f.left}  {f.right}  {f.ratio}".rstrip())
add_form(Pair, lambda p, o: f"{MARKS[p.state]} {p.left} │ {p.right}".rstrip())
