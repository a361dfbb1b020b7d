"""The list of a program's collectives: what costs most first, those alike in one row, under the calls that they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xlab.notebook.views.draw import Node, h, key
from xlab.notebook.views.headings import call_key, pass_node
from xlab.observe.records import Program, Transfer
from xlab.observe.records.overlap import overlap_mark
from xlab.observe.records.repeats import LayerPlace, places
from xlab.observe.records.structure import CallGroup, Place, Structure, grouped
from xlab.observe.records.transfers import (
    advice_word,
    alike,
    how_many_run,
    reason_key,
    sentences,
    times_text,
    transfer_cost,
    transfer_name,
    transfer_origin,
    transfer_over,
    why_of,
)
from xlab.observe.records.units import plural, size_text, time_text

MOST_ROWS = 300
"""Collectives listed; of more, the heaviest."""


STILL_ROWS = 40
"""Those of them, the heaviest, that stand in a page before its script runs: the script adds the others."""


FEW = 4
"""Rows of fewer have no headings."""


HEAD = (
    ("op", ""),
    ("over", ""),
    ("in → out per device", "n"),
    ("× times", "n"),
    ("predicted", "n"),
    ("measured", "n"),
    ("wait", "n"),
    ("origin", ""),
    ("line", "n"),
)


Layers = Mapping[tuple[int, int], LayerPlace]
"""Where in repeated layers an equation stands, by program and number."""


def layers_of(programs: Sequence[Program]) -> dict[tuple[int, int], LayerPlace]:
    """The places of the equations of some programs that stand in repeated layers."""
    return {(n, at): place for n, p in enumerate(programs) for at, place in places(p).items()}


def kin(
    transfers: Sequence[Transfer], structures: Mapping[int, Structure] | None = None
) -> list[list[int]]:
    """Those told in one row: alike, and of one call and one pass where the program has calls; what costs most first."""
    if not structures:
        return alike(transfers)
    found: dict[tuple, list[int]] = {}
    for n, group in enumerate(alike(transfers)):
        for i in group:
            s = structures.get(transfers[i].program)
            place = s.at(transfers[i].equation) if s else None
            found.setdefault((n, place), []).append(i)
    return sorted(found.values(), key=lambda g: -sum(transfer_cost(transfers[i]) for i in g))


class ListedLine(NamedTuple):
    """A line of the list, with how deep it stands: a collective, by its position and with those told in its row, or the heading of a call."""

    depth: int
    transfer: int = -1
    row: tuple[int, ...] = ()
    heading: CallGroup | None = None
    number: int = -1
    program: int = 0


def lines_of(
    transfers: Sequence[Transfer], structures: Mapping[int, Structure] | None = None
) -> list[ListedLine]:
    """The whole list: what stands in a call before what is called there, each by what it costs. Items of headings are positions of collectives.

    >>> lines_of([Transfer("all_gather", bytes_in=n) for n in (1, 2)])[0]
    ListedLine(depth=0, transfer=1, row=(1,), heading=None, number=-1, program=0)
    """
    by_program: dict[int, list[list[int]]] = {}
    for g in kin(transfers, structures):
        by_program.setdefault(transfers[g[0]].program, []).append(g)
    out: list[ListedLine] = []
    number = 0
    for program, found in by_program.items():
        s = (structures or {}).get(program)
        at = [s.at(transfers[g[0]].equation) for g in found] if s else []
        if s is None or len(found) < FEW or len(set(at)) < 2:
            out += [ListedLine(0, n, tuple(g), program=program) for g in found for n in g]
            continue
        cost = [sum(transfer_cost(transfers[n]) for n in g) for g in found]
        tree = grouped(s, [(place, s.words(place)) for place in at], cost.__getitem__)
        for group, depth in tree.walk(-1):
            if group.calls:
                held = tuple(n for k in group.all_items for n in found[k])
                heading = group._replace(items=held)
                out.append(ListedLine(depth, heading=heading, number=number, program=program))
                number += 1
            out += [ListedLine(depth + 1, n, tuple(found[k]), program=program) for k in group.items for n in found[k]]  # fmt: skip
    return out


def listed(
    transfers: Sequence[Transfer], lines: Sequence[ListedLine]
) -> tuple[list[ListedLine], list[ListedLine]]:
    """The lines that a page has from the start, and those that its script adds: what costs most first, those alike together.

    >>> many = [Transfer("all_reduce", bytes_in=n) for n in range(1000)]
    >>> [len(part) for part in listed(many, lines_of(many))]
    [40, 260]
    """
    rows = dict.fromkeys(x.row for x in lines if x.heading is None)
    cost = lambda row: -sum(transfer_cost(transfers[n]) for n in row)
    order = [n for row in sorted(rows, key=cost) for n in row]
    still, most = set(order[:STILL_ROWS]), set(order[:MOST_ROWS])
    held = [
        x.heading.items if x.heading is not None else (x.transfer,) for x in lines
    ]  # fmt: skip
    return (
        [x for x, of in zip(lines, held) if not still.isdisjoint(of)],
        [x for x, of in zip(lines, held) if still.isdisjoint(of) and not most.isdisjoint(of)],
    )


def rows(
    transfers: Sequence[Transfer],
    part: Sequence[ListedLine],
    lines: Sequence[ListedLine],
    layers: Layers | None = None,
    structures: Mapping[int, Structure] | None = None,
) -> list[Node]:
    """The table rows of a part of a report's list; a reason that several have is told once."""
    measured = was_measured(transfers)
    first: dict[tuple, int] = {}
    for x in lines:
        if x.heading is None:
            first.setdefault(reason_key(transfers[x.transfer]), x.transfer)
    made = []
    for x in part:
        if x.heading is not None:
            s = (structures or {})[x.program]
            made.append(heading_row([transfers[n] for n in x.heading.items], x, s, measured))
            continue
        t = transfers[x.transfer]
        named = "" if x.depth else _layers([transfers[n] for n in x.row], layers or {})
        tell = first[reason_key(t)] == x.transfer
        made += row(t, x.transfer, measured, x.row, tell, named, x.depth)
    return made


def heading_row(found: Sequence[Transfer], x: ListedLine, s: Structure, measured: bool) -> Node:
    """The row of a call: what all collectives in it send and should take."""
    group = x.heading
    assert group is not None
    often = sum(1 if t.times is None else t.times for t in found)
    us = sum((t.predicted_us or 0.0) * (1 if t.times is None else t.times) for t in found)
    taken = ("measured_us", "wait_us") if measured else ()
    sums = [sum((getattr(t, name) or 0.0) * (t.runs or 1) for t in found) for name in taken]
    source = s.calls[group.calls[-1]].source
    place = Place(group.calls[-1], group.word == "backward")
    return h(
        "tr",
        {
            "class": "xl-call-row",
            "data-head": x.number,
            "data-call": call_key(x.program, place),
            "style": f"--d:{x.depth}" if x.depth else None,
        },
        h("td", {"colspan": 2}, h("a", {"data-go": "program"}, group.title), pass_node(group.word)),
        h("td", {"class": "n"}, f"{size_text(sum(t.sent_in_run for t in found))} sent"),
        h("td", {"class": "n"}, f"{often:,}"),
        h("td", {"class": "n"}, time_text(us)),
        *(h("td", {"class": "n"}, time_text(us)) for us in sums),
        h("td", None, plural(how_many_run(found), "collective")),
        h("td", {"class": "n"}, source.line if source else ""),
    )


def _layers(group: Sequence[Transfer], layers: Layers) -> str:
    """The layers that collectives of one row stand in, where they all stand in the same."""
    found = {layers.get((t.program, t.equation)) for t in group}
    names = {p.layers.label if p else "" for p in found}
    return names.pop() if len(names) == 1 else ""


def was_measured(transfers: Sequence[Transfer]) -> bool:
    """Whether a profile was taken, so that the columns of what was measured are there."""
    return any(t.measured_us is not None for t in transfers)


def row(
    t: Transfer,
    index: int,
    measured: bool = True,
    group: Sequence[int] = (),
    tell: bool = True,
    layers: str = "",
    depth: int = 0,
) -> list[Node]:
    """The table rows of one collective: its line and, where it is to be told, why it is there.

    Of several that are alike, the `group`, the first one's row says how many, and the page's script folds the others under it.
    """
    found = key(t.program, t.equation)
    line = str(t.source.line) if t.source else ""
    leads = len(group) > 1 and group[0] == index
    folded = len(group) > 1 and not leads
    cells = [
        h(
            "td",
            None,
            h(
                "span",
                {
                    "class": "xl-pick",
                    "data-transfer": index,
                    "aria-label": f"show {transfer_name(t)} {index + 1} on the mesh",
                },
                transfer_name(t),
            ),
            h("small", None, " " + t.operand) if t.operand else None,
            h("small", {"class": "xl-overlap-mark"}, overlap_mark(t.overlap))
            if t.overlap
            else None,
        ),
        h("td", None, transfer_over(t)),
        h(
            "td",
            {"class": "n", "title": f"{t.bytes_in:,} B → {t.bytes_out:,} B"},
            f"{size_text(t.bytes_in)} → {size_text(t.bytes_out)}",
        ),
        h(
            "td",
            {"class": "n"},
            f"? ({t.runs} measured)" if t.times is None and t.runs else times_text(t),
        ),
        h(
            "td",
            {"class": "n", "title": None if folded else t.formula or None},
            time_text(t.predicted_us),
        ),
        *(
            h("td", {"class": "n"}, time_text(us) if us is not None else "–")
            for us in ((t.measured_us, t.wait_us) if measured else ())
        ),
        h(
            "td",
            {
                "class": "xl-added" if t.reshards else None,
                "title": None if folded else t.reason or None,
            },
            transfer_origin(t, "⚠"),
        ),
        h(
            "td",
            {"class": "n", "title": t.source.text.strip() if t.source and not folded else None},
            h("span", {"class": "xl-pick xl-fold"}, f"{len(group)} × line {line}".strip())
            if leads
            else line,
            h("small", {"class": "xl-of-layers"}, layers) if leads and layers else None,
        ),
    ]
    about = {
        "data-in": group[0] if folded else None,
        "data-origin": t.origin,
        "style": f"--d:{depth}" if depth else None,
    }
    rows = [h("tr", {"data-eq": found, "data-row": index, **about}, *cells)]
    if tell and (t.reason or t.fix):
        rows.append(
            h(
                "tr",
                {"class": "xl-reason", "data-of": index, **about},
                h(
                    "td",
                    {"colspan": len(HEAD)},
                    h(
                        "div",
                        None,
                        why_of(t.replace(fix="")) + " " * bool(t.fix),
                        h("span", None, h("b", None, advice_word(t.tried)), sentences(t.fix, ""))
                        if t.fix and not t.pattern
                        else None,
                    ),
                ),
            )
        )
    return rows
