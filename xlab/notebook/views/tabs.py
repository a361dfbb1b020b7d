"""The tabs of a report: the file of a view says which tab it draws, and the report draws those that it has something for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlab.notebook.views.base import Request
from xlab.notebook.views.draw import Node
from xlab.observe.records import ArrayLayout, MeshInfo, Report


class Tab(NamedTuple):
    """One tab of a report.

    Args:
        name: the word that its script and its links know it by.
        title: what stands on it.
        order: tabs stand from left to right by this number.
        draw: its panel; None for a report that has nothing for it.
        data: what its script needs beyond the picture, by names that no other tab uses.
        requests: what its page may ask the kernel.
    """

    name: str
    title: str
    order: int
    draw: Callable[[Report], Node | None]
    data: Callable[[Report], dict[str, Any]] = lambda report: {}
    requests: tuple[Request, ...] = ()


_tabs: dict[str, Tab] = {}


def add_tab(*given: Any, **named: Any) -> None:
    """Adds a tab to every report, with the arguments of `Tab`; one of the same name is replaced."""
    made = Tab(*given, **named)
    _tabs[made.name] = made


def tabs() -> list[Tab]:
    """All tabs in their order."""
    return sorted(_tabs.values(), key=lambda tab: tab.order)


def remove_tab(name: str) -> None:
    """Takes a tab away."""
    del _tabs[name]


def report_mesh(report: Report) -> MeshInfo | None:
    """The report's mesh, or the first one found in it."""
    if report.mesh:
        return report.mesh
    return next(
        (x.mesh for x in (*report.programs, *report.layouts, *report.transfers) if x.mesh), None
    )


def arguments_of(report: Report) -> dict[int, list[ArrayLayout]]:
    """The arguments of each program that lies on several devices, in order."""
    found: dict[int, list[ArrayLayout]] = {}
    for x in report.layouts:
        if x.role == "argument":
            found.setdefault(x.program, []).append(x)
    return found


def placed_programs(report: Report) -> dict[int, tuple[str, list[ArrayLayout]]]:
    """Programs with arguments on a mesh, by name: what other placements can be tried on."""
    names = dict(enumerate(p.name for p in report.programs))
    return {
        index: (names.get(index, report.title), found)
        for index, found in arguments_of(report).items()
        if all(x.mesh is not None and x.type.spec is not None for x in found)
    }


def ended_before_a_program(report: Report) -> bool:
    """Whether a cell ended before there was a program: it has its error to show, and nothing else."""
    return report.error is not None and not report.programs
