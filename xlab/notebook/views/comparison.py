"""The comparison view: numbers of two programs, and their equations side by side."""

from __future__ import annotations

from itertools import groupby

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table
from xlab.observe.comparison import MARKS, Comparison, Figure, Pair
from xlab.observe.units import plural

MOST_PAIRS = 400
AROUND = 3


def figures_node(c: Comparison) -> Node:
    """One table: a row per number, those that differ marked."""
    head = (("", ""), ("", ""), (c.left, "n"), (c.right, "n"), ("ratio", "n"))
    rows = [_figure(f, n == 0) for _, group in groupby(c.figures, lambda f: f.group) for n, f in enumerate(group)]
    return h("div", {"class": "xl-figures"}, table(head, rows))


def _figure(f: Figure, first: bool) -> Node:
    return h("tr", {"class": "xl-differs" if f.differs else None},
             h("td", {"class": "xl-group"}, f.group if first else ""), h("td", None, f.what),
             *(h("td", {"class": "n"}, value) for value in (f.left, f.right, f.ratio)))


def pairs_node(pairs: tuple[Pair, ...]) -> Node:
    """Equations line by line; long runs of equal ones are folded."""
    rows: list[Node] = []
    for same, run in groupby(pairs[:MOST_PAIRS], lambda p: p.state == "same"):
        found = list(run)
        if same and len(found) > 3 * AROUND:
            hidden = found[AROUND:-AROUND]
            rows += [*map(_pair, found[:AROUND]),
                     h("details", {"class": "xl-folded"}, h("summary", None, f"{plural(len(hidden), 'equation')} the same"),
                       *map(_pair, hidden)),
                     *map(_pair, found[-AROUND:])]
        else:
            rows += map(_pair, found)
    if len(pairs) > MOST_PAIRS:
        rows.append(h("p", {"class": "xl-dim"}, f"{plural(len(pairs) - MOST_PAIRS, 'more equation')}"))
    return h("div", {"class": "xl-sides"}, *rows)


def _pair(p: Pair) -> Node:
    return h("div", {"class": f"xl-side xl-side-{p.state}", "title": p.state},
             h("code", {"class": "xl-mark"}, MARKS[p.state]), h("code", None, p.left), h("code", None, p.right))


class ComparisonView(View):
    """Two programs beside each other.

    >>> ComparisonView().title(Comparison("f(x)", "g(x)"))
    'f(x) beside g(x)'
    """

    name = "comparison"
    record_type = Comparison
    height = 480
    scripted = False

    def title(self, record: Comparison) -> str:
        """Both names."""
        return f"{record.left} beside {record.right}"

    def tree(self, record: Comparison) -> Node:
        """Numbers, then equations."""
        different = sum(p.state != "same" for p in record.pairs)
        said = f"{plural(different, 'line')} of {len(record.pairs)} differ" if different else "the same equations"
        return h("article", {"class": "xl xl-report"},
                 panel("comparison", "Comparison", figures_node(record),
                       h("div", {"class": "xl-side xl-side-head"}, h("span"), h("b", None, record.left), h("b", None, record.right)),
                       pairs_node(record.pairs), h("p", {"class": "xl-dim"}, said)))
