"""The targets: a program as another machine's compiler made it, beside this machine's; its module is a column of the program view."""

from __future__ import annotations

from itertools import groupby

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, key, panel, table, unshown
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records.diff import Figure
from xlab.observe.records.targets import AsyncOperation, Scheduled, headline
from xlab.observe.records.units import plural, size_text

MOST_FLIGHTS = 100
MOST_LINES = 200


def target_node(s: Scheduled) -> Node:
    """The numbers of both machines, asynchronous operations, and doubtful numbers."""
    head = (("", ""), ("", ""), ("this machine", "n"), (s.target, "n"), ("ratio", "n"))
    rows = [
        _figure(f, n == 0)
        for _, group in groupby(s.figures, lambda f: f.group)
        for n, f in enumerate(group)
    ]
    return h(
        "div",
        {"class": "xl-target"},
        h("p", None, h("strong", None, s.target), headline(s).partition(s.target)[2]),
        h(
            "div",
            {"class": "xl-pair"},
            h("div", {"class": "xl-figures"}, table(head, rows)),
            flights_node(s) if s.async_operations else None,
        ),
        *(
            h("p", {"class": "xl-warn"}, h("b", None, "⚠ not shown as fact: "), doubt)
            for doubt in s.doubts
        ),
    )


def _figure(f: Figure, first: bool) -> Node:
    return h(
        "tr",
        {"class": "xl-differs" if f.differs else None},
        h("td", {"class": "xl-group"}, f.group if first else ""),
        h("td", None, f.what),
        *(h("td", {"class": "n"}, value) for value in (f.left, f.right, f.ratio)),
    )


def flights_node(s: Scheduled) -> Node:
    """Asynchronous operations: a bar as long as the work that overlaps each."""
    most = max(f.between for f in s.async_operations) or 1
    rows = [_flight(f, s.program, most) for f in s.async_operations[:MOST_FLIGHTS]]
    more = len(s.async_operations) - len(rows)
    return h(
        "div",
        {"class": "xl-async_operations xl-scroll"},
        table(
            (
                ("started, and waited for later", ""),
                ("brings", "n"),
                ("from", ""),
                ("to", ""),
                ("work meanwhile", ""),
            ),
            rows,
        ),
        unshown(more, "more operation", " not listed"),
    )


def _flight(f: AsyncOperation, program: int, most: int) -> Node:
    words = plural(f.between, "instruction")
    return h(
        "tr",
        {"data-eq": key(program, f.equation)},
        h("td", None, h("b", None, f.kind)),
        h("td", {"class": "n"}, size_text(f.size)),
        h("td", None, h("code", None, f.start)),
        h("td", None, h("code", None, f.done)),
        h(
            "td",
            None,
            h(
                "span",
                {"class": "xl-track"},
                h(
                    "span",
                    {
                        "class": "xl-bar xl-compile-bar" if f.between else "xl-bar xl-hit",
                        "title": words,
                        "style": f"left:0;width:{max(4.0, 100 * f.between / most):.0f}%",
                    },
                ),
            ),
            h("small", None, words if f.between else "none: waited for at once"),
        ),
    )


def targets_panel(targets: tuple[Scheduled, ...]) -> Node:
    """The Targets tab."""
    return panel(
        "targets",
        "Targets",
        *map(target_node, targets),
        h("p", {"class": "xl-dim"}, "The scheduled module stands beside the others in Program."),
    )


class TargetsView(View):
    """One program for a target.

    >>> TargetsView().title(Scheduled("tpu:v5e:4x4", "f"))
    'f on tpu:v5e:4x4'
    """

    name = "targets"
    record_type = Scheduled
    height = 520
    scripted = False

    def title(self, record: Scheduled) -> str:
        """The function and the target."""
        return f"{record.function} on {record.target}"

    def tree(self, record: Scheduled) -> Node:
        """Figures, async_operations, the schedule."""
        lines = record.level.text.splitlines() if record.level is not None else []
        pre = h("pre", {"class": "xl-code"})
        pre.append("\n".join(line[:400] for line in lines[:MOST_LINES]))
        more = len(lines) - MOST_LINES
        return h(
            "article",
            {"class": "xl xl-report"},
            panel(
                "targets",
                self.title(record),
                target_node(record),
                *(
                    [
                        h(
                            "details",
                            None,
                            h("summary", None, f"scheduled module · {plural(len(lines), 'line')}"),
                            pre,
                            unshown(more, "more line", " not shown"),
                        )
                    ]
                    if lines
                    else []
                ),
            ),
        )


add_tab(
    "targets",
    "Targets",
    70,
    lambda report: targets_panel(report.targets) if report.targets else None,
)
