"""The report of one cell: a sentence and three numbers, then one tab per question, joined by one selection."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.animated import ANIMATE, animated, part_of_report
from xlab.notebook.views.base import Field, Request, View
from xlab.notebook.views.draw import HUES, Node, clean, h, key, panel
from xlab.notebook.views.tabs import Tab, ended_before_a_program, tabs
from xlab.observe.records import Failure, Notice, Report
from xlab.observe.records.drawing import Drawing
from xlab.observe.records.report import MOST_STRIP, report_header, strips

FIGURE = Request(
    "figure",
    {"of": Field(str, ("timings", "memory"))},
    Drawing,
    "a part of the report as matplotlib draws it",
)


def drawn(tab: Tab, report: Report) -> Node | None:
    """Draws one panel; if that fails, the panel holds the error and the others stand."""
    try:
        return tab.draw(report)
    except Exception as error:
        return panel(
            tab.name,
            tab.title,
            h(
                "p",
                {"class": "xl-error"},
                h("b", None, "✕ this view failed: "),
                f"{type(error).__name__}: {error}",
            ),
        )


def header(report: Report) -> Node:
    """Title, numbers, and notices that lead to their place."""
    sentence, numbers = report_header(report, caution="⚠")
    if report.error and not report.programs:
        numbers = ()
    rest = sentence[len(report.title) :]
    return h(
        "header",
        {"class": "xl-head"},
        h(
            "div",
            {"class": "xl-top"},
            h("p", {"class": "xl-sentence"}, h("strong", None, report.title), rest),
            h(
                "p",
                {"class": "xl-numbers"},
                *(
                    h(
                        "span",
                        {"class": "xl-caution" if "⚠" in n else None},
                        n,
                    )
                    for n in numbers
                ),
            ),
        ),
        failure_node(report.error) if report.error else None,
        *(notice_node(n) for n in report.notices),
    )


def failure_node(f: Failure) -> Node:
    """The exception that ended the cell, with the user's line."""
    return h(
        "div",
        {"class": "xl-error"},
        h("p", None, h("b", None, f"✕ {f.kind} "), f.message),
        h("pre", {"class": "xl-code"}, f"{f.source.line}  {f.source.text}") if f.source else None,
        strips_node(f),
        h(
            "details",
            None,
            h("summary", None, "traceback"),
            h("pre", {"class": "xl-code"}, f.traceback),
        )
        if f.traceback
        else None,
    )


def strips_node(f: Failure) -> Node | None:
    """Which devices each side has: a column per device, a row per side, and in it the device's place in that side's order."""
    devices, rows = strips(f)
    if not devices or len(devices) > MOST_STRIP:
        return None
    return h(
        "div",
        {"class": "xl-scroll"},
        h(
            "table",
            {"class": "xl-strips"},
            h("tr", None, h("th", None, "device"), *(h("th", {"class": "n"}, d) for d in devices)),
            *(
                h(
                    "tr",
                    {"style": f"--hue:{HUES[i % len(HUES)]}"},
                    h("td", None, who),
                    *(
                        h("td", {"class": "xl-dim n", "title": "not one of its devices"}, "·")
                        if at is None
                        else h(
                            "td",
                            {"class": "xl-strip n", "title": f"number {at} in its order"},
                            at,
                        )
                        for at in places
                    ),
                )
                for i, (who, places) in enumerate(rows)
            ),
        ),
    )


def notice_node(n: Notice) -> Node:
    """A note, warning or error, as a link to its place."""
    where = f" (line {n.source.line})" if n.source else ""
    sign, style = {"error": ("✕ error ", "xl-error"), "info": ("note ", "xl-dim")}.get(
        n.severity, ("⚠ warning ", "xl-warn")
    )
    return h(
        "p",
        {"class": style},
        h("b", None, sign),
        h(
            "a",
            {"data-go": n.tab, "data-key": key(n.program, n.equation)},
            n.text + where,
        ),
        h("span", None, h("b", None, " Fix: "), n.fix) if n.fix else None,
    )


class ReportView(View):
    """Everything one cell did.

    >>> "train" in ReportView().static_html(Report("train"))
    True
    """

    name = "report"
    record_type = Report

    @property
    def requests(self) -> tuple[Request, ...]:
        """A figure, and what the tabs ask."""
        return (FIGURE, ANIMATE, *(request for tab in tabs() for request in tab.requests))

    def handlers(self, record: Report) -> dict[str, Any]:
        """Figures are drawn when they are asked for."""
        from xlab.observe.figures.drawing import drawing

        return {
            "figure": lambda of: drawing(record, of),
            "animate": lambda of, size: animated(part_of_report(record, of), size),
        }

    def tree(self, record: Report) -> Node:
        """Header, panels in reading order, versions."""
        panels = [node for node in (drawn(tab, record) for tab in tabs()) if node is not None]
        if not panels and record.error is None:
            panels = [
                h(
                    "p",
                    {"class": "xl-dim"},
                    "No collectives: no device sends anything to another."
                    if record.counted
                    else "Nothing was traced.",
                )
            ]
        versions = "   ".join(f"{name} {version}" for name, version in record.versions)
        return h(
            "article",
            {"class": "xl xl-report"},
            header(record),
            *panels,
            h("footer", {"class": "xl-foot"}, versions)
            if versions and not ended_before_a_program(record)
            else None,
        )

    def data(self, record: Report) -> dict[str, Any]:
        """What the tabs need: programs as columns, collectives as rounds, steps."""
        made: dict[str, Any] = {"title": clean(record.title), "opens": record.opens}
        for tab in tabs():
            made.update(tab.data(record))
        return made
