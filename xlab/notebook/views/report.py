"""The report of one cell: a sentence and three numbers, then one tab per question, joined by one selection."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import Field, Request, View
from xlab.notebook.views.dataflow import flow_data, transfers_data, transfers_panel
from xlab.notebook.views.draw import Node, clean, h, key, panel
from xlab.notebook.views.layout import layouts_data, layouts_panel
from xlab.notebook.views.memory import memory_panel
from xlab.notebook.views.passes import passes_data, passes_panel
from xlab.notebook.views.program import columns, programs_panel
from xlab.notebook.views.stepper import steps_data, steps_panel
from xlab.notebook.views.targets import targets_panel
from xlab.notebook.views.timings import timings_data, timings_panel
from xlab.notebook.views.whatif import SEARCH, WHAT_IF, what_if_data, what_if_panel
from xlab.observe.records import Failure, Layout, MeshInfo, Notice, Report
from xlab.observe.records.drawing import Drawing
from xlab.observe.records.text import report_header

FIGURE = Request("figure", {"of": Field(str, ("timings", "memory"))}, Drawing, "a part of the report as matplotlib draws it")


def mesh_of(report: Report) -> MeshInfo | None:
    """The report's mesh, or the first one found in it."""
    if report.mesh:
        return report.mesh
    return next(
        (x.mesh for x in (*report.programs, *report.layouts, *report.transfers) if x.mesh), None
    )


def arguments_of(report: Report) -> dict[int, list[Layout]]:
    """The arguments of each program that lies on several devices, in order."""
    found: dict[int, list[Layout]] = {}
    for x in report.layouts:
        if x.role == "argument":
            found.setdefault(x.program, []).append(x)
    return found


def placed_programs(report: Report) -> dict[int, tuple[str, list[Layout]]]:
    """Programs with arguments on a mesh, by name: what other placements can be tried on."""
    names = dict(enumerate(p.name for p in report.programs))
    return {index: (names.get(index, report.title), found) for index, found in arguments_of(report).items()
            if all(x.mesh is not None and x.type.spec is not None for x in found)}


def guarded(name: str, title: str, draw: Any, *arguments: Any) -> Node:
    """Draw one panel; if that fails, the panel holds the error and the others stand."""
    try:
        return draw(*arguments)
    except Exception as error:
        return panel(
            name,
            title,
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
        h(
            "details",
            None,
            h("summary", None, "traceback"),
            h("pre", {"class": "xl-code"}, f.traceback),
        )
        if f.traceback
        else None,
    )


def notice_node(n: Notice) -> Node:
    """A note, warning or error, as a link to its place."""
    where = f" (line {n.source.line})" if n.source else ""
    sign, style = {"error": ("✕ error ", "xl-error"), "info": ("note ", "xl-dim")}.get(n.severity, ("⚠ warning ", "xl-warn"))
    return h(
        "p",
        {"class": style},
        h("b", None, sign),
        h(
            "a",
            {"href": "#", "data-go": n.tab, "data-key": key(n.program, n.equation)},
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
    requests = (FIGURE, WHAT_IF, SEARCH)

    def handlers(self, record: Report) -> dict[str, Any]:
        """Figures are drawn when they are asked for."""
        from xlab.observe.figures.drawing import drawing

        return {"figure": lambda of: drawing(record, of)}

    def tree(self, record: Report) -> Node:
        """Header, panels in reading order, versions."""
        programs = [columns(p) for p in record.programs]
        return self._tree(record, programs)

    def data(self, record: Report) -> dict[str, Any]:
        """Programs as columns, collectives as rounds, steps."""
        return self._data(record, [columns(p) for p in record.programs])

    def payload(self, record: Report) -> dict[str, Any]:
        """Tree and data, with the columns made once."""
        programs = [columns(p) for p in record.programs]
        return {
            "view": self.name,
            "tree": self._tree(record, programs),
            "data": self._data(record, programs),
        }

    def _tree(self, r: Report, programs: list[dict[str, Any]]) -> Node:
        mesh = mesh_of(r)
        # A cell that ended before there was a program has its error to show, and nothing else.
        alone = r.error is not None and not r.programs
        placed = placed_programs(r)
        timed = r.phases or r.timings or (r.ledger and r.ledger.entries)
        panels = [
            guarded(name, title, draw, *given)
            for name, title, there, draw, *given in (
                ("program", "Program", r.programs, programs_panel, r.programs, programs),
                ("shardings", "Shardings", r.layouts, layouts_panel, r.layouts, mesh),
                ("collectives", "Collectives", r.transfers, transfers_panel, r.transfers, mesh),
                ("timings", "Timings", timed and not alone, timings_panel, r.phases, r.timings, r.ledger, r.passes),
                ("memory", "Memory", r.memory, memory_panel, r.memory),
                ("passes", "Passes", r.passes, passes_panel, r.passes),
                ("targets", "Targets", r.targets, targets_panel, r.targets),
                ("steps", "Steps", r.trace, steps_panel, r.trace),
                ("whatif", "What if", placed, what_if_panel, placed),
            )
            if there
        ]
        if not panels and r.error is None:
            panels = [h("p", {"class": "xl-dim"}, "No collectives: no device sends anything to another." if r.counted else "Nothing was traced.")]
        versions = "   ".join(f"{name} {version}" for name, version in r.versions)
        return h(
            "article",
            {"class": "xl xl-report"},
            header(r),
            *panels,
            h("footer", {"class": "xl-foot"}, versions) if versions and not alone else None,
        )

    def _data(self, r: Report, programs: list[dict[str, Any]]) -> dict[str, Any]:
        mesh = mesh_of(r)
        return {
            "title": clean(r.title),
            "opens": r.opens,
            "programs": programs,
            "layouts": layouts_data(r.layouts),
            "transfers": transfers_data(r.transfers, mesh, arguments_of(r)),
            "flow": flow_data(r.transfers, mesh),
            "steps": steps_data(r.trace) if r.trace else None,
            "whatif": what_if_data(placed_programs(r)),
            "passes": passes_data(r.passes, len(r.programs)),
            "timings": timings_data(r.phases, r.timings),
        }
