"""The comparison view: numbers of two programs, and their equations side by side."""

from __future__ import annotations

from itertools import groupby

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table, unshown
from xlab.observe.records.diff import MARKS, Diff, Figure, Pair
from xlab.observe.records.units import plural

MOST_PAIRS = 400
"""Lines that differ, or stand between those, that are shown."""

MOST_FOLDED = 60
AROUND = 3
ALL = ": observe.text(record, limit=None) has them all"


def figures_node(c: Diff) -> Node:
    """One table: a row per number, those that differ marked."""
    head = (("", ""), ("", ""), (c.left, "n"), (c.right, "n"), ("ratio", "n"))
    rows = [
        _figure(f, n == 0)
        for _, group in groupby(c.figures, lambda f: f.group)
        for n, f in enumerate(group)
    ]
    return h("div", {"class": "xl-figures"}, table(head, rows))


def _figure(f: Figure, first: bool) -> Node:
    return h(
        "tr",
        {"class": "xl-differs" if f.differs else None},
        h("td", {"class": "xl-group"}, f.group if first else ""),
        h("td", None, f.what),
        *(h("td", {"class": "n"}, value) for value in (f.left, f.right, f.ratio)),
    )


def pairs_node(pairs: tuple[Pair, ...], noun: str) -> Node:
    """Line by line; long runs of equal ones are folded, and the longest of these cut, so that what differs is always there."""
    rows: list[Node] = []
    left = MOST_PAIRS
    for same, run in groupby(pairs, lambda p: p.state == "same"):
        found = list(run)
        if same and len(found) > 3 * AROUND:
            hidden = found[AROUND:-AROUND]
            rows += [
                *map(_pair, found[:AROUND]),
                h(
                    "details",
                    {"class": "xl-folded"},
                    h("summary", None, f"{plural(len(hidden), noun)} the same"),
                    *map(_pair, hidden[:MOST_FOLDED]),
                    unshown(len(hidden) - MOST_FOLDED, f"more {noun}", ALL),
                ),
                *map(_pair, found[-AROUND:]),
            ]
        else:
            rows += map(_pair, found[: max(0, left)])
            left -= len(found)
    cut = -left if left < 0 else 0
    return h(
        "div",
        {"class": "xl-sides"},
        *rows,
        unshown(
            cut,
            f"more {noun} that differs" if cut == 1 else f"more differing {noun}",
            ALL,
        ),
    )


def _pair(p: Pair) -> Node:
    return h(
        "div",
        {"class": f"xl-side xl-side-{p.state}", "title": p.state},
        h("code", {"class": "xl-mark"}, MARKS[p.state]),
        h("code", None, p.left),
        h("code", None, p.right),
    )


class DiffView(View):
    """Two programs beside each other.

    >>> DiffView().title(Diff("f(x)", "g(x)"))
    'f(x) beside g(x)'
    """

    name = "diff"
    record_type = Diff
    height = 480

    def title(self, record: Diff) -> str:
        """Both names."""
        return f"{record.left} beside {record.right}"

    def tree(self, record: Diff) -> Node:
        """Numbers, collectives, then arguments and equations."""
        different = sum(p.state not in ("same", "placed") for p in record.pairs)
        placed = sum(p.state == "placed" for p in record.pairs)
        said = [
            f"{plural(different, 'line')} of {len(record.pairs):,} differ{'s' if different == 1 else ''}"
            if different
            else "the same program",
            f"{plural(placed, 'value')} {'lies' if placed == 1 else 'lie'} on the devices otherwise"
            if placed
            else "",
        ]
        signs = "   ".join(
            f"{MARKS[s]} {words}"
            for s, words in _WORDS.items()
            if any(p.state == s for p in (*record.pairs, *record.collectives))
        )
        return h(
            "article",
            {"class": "xl xl-report"},
            h(
                "header",
                {"class": "xl-head"},
                h(
                    "p",
                    {"class": "xl-sentence"},
                    h("strong", None, record.left),
                    " beside ",
                    h("strong", None, record.right),
                    "   " + ", ".join(filter(None, said)),
                ),
            ),
            panel(
                "comparison",
                "Diff",
                figures_node(record),
                *(
                    [_heading(record, "collectives"), pairs_node(record.collectives, "collective")]
                    if record.collectives
                    else []
                ),
                _heading(record, "program"),
                pairs_node(record.pairs, "line"),
                h("p", {"class": "xl-dim"}, signs) if signs else None,
            ),
        )


_WORDS = {
    "placed": "the same, placed otherwise",
    "changed": "changed",
    "left": "only at the left",
    "right": "only at the right",
}


def _heading(c: Diff, what: str) -> Node:
    return h(
        "div",
        {"class": "xl-side xl-side-head", "data-what": what},
        h("span"),
        h("span", None, h("small", None, what + "  "), h("b", None, c.left)),
        h("b", None, c.right),
    )
