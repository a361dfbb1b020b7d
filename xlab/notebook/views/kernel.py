"""The kernel view: what each step of a grid reads and writes, and what several cores do at once.

A recorded `KernelRun` is scrubbed in the page alone. With a machine behind it, the page asks for other schedules and for contents that
were not recorded.
"""

from __future__ import annotations

import itertools
from typing import Any

from xlab.notebook.views.base import Field, Request, View
from xlab.notebook.views.draw import Node, clean, clean_json, h, key, panel, table, unshown, warning
from xlab.notebook.views.kernel_figures import lanes_figure, operand_figures, roofline_figure
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records import Report
from xlab.observe.records.kernel import MILD, KernelMoment, KernelRun
from xlab.observe.records.kernel_text import (
    MOVEMENT_HEAD,
    fault_text,
    grid_text,
    intensity_line,
    movement_rows,
    operand_type,
    race_text,
    roofline_line,
    step_lines,
    waiting_line,
)
from xlab.observe.records.units import plural, significant, size_text

SHOWN = 60
"""Steps that the page lists without a script."""
MOST_OPERANDS = 40
MOST_NOTES = 12
HINT = (
    "Values, accesses, schedules and races are those of a simulated run: %xstep f(x) walks through the kernels of a program, "
    "xlab.notebook.show(Machine(call, x)) shows one."
)
HOW = ("round_robin", "random", "sequential", "shortest")

SCHEDULE = Request(
    "schedule",
    {"how": Field(str, HOW), "seed": Field(int, low=0, high=1 << 31)},
    KernelRun,
    "the same call under another schedule: round robin, drawn from a seed, core after core, or the shortest that shows the first race",
)

CONTENTS = Request(
    "contents",
    {"t": Field(int, low=-1, high=1 << 40)},
    KernelMoment,
    "what every buffer holds after time `t`",
)


def _error(words: str) -> Node:
    return h("p", {"class": "xl-error"}, h("b", None, "✕ error "), words)


def _faults(run: KernelRun) -> list[Node | None]:
    """What went wrong, and what is likely a mistake."""
    return [
        *(
            warning(fault_text(f)) if f.kind in MILD else _error(fault_text(f))
            for f in run.faults[:MOST_NOTES]
        ),
        unshown(len(run.faults) - MOST_NOTES, "more fault"),
        *(
            warning(x.text, h("span", None, h("b", None, " Fix: "), x.fix) if x.fix else None)
            for x in run.lints[:MOST_NOTES]
        ),
        unshown(len(run.lints) - MOST_NOTES, "more hint"),
    ]


def _operands(run: KernelRun) -> Node:
    return table(
        (("operand", ""), ("type", ""), ("", ""), ("memory", ""), ("block", ""), ("index map", "")),
        [
            h(
                "tr",
                None,
                h("td", None, h("code", None, o.name)),
                h("td", None, h("code", None, operand_type(o))),
                h("td", None, o.role + (f", starts as {o.alias}" if o.alias else "")),
                h("td", None, o.space),
                h(
                    "td",
                    None,
                    h("code", None, f"({', '.join(o.block)})" if o.block else "whole"),
                    h("small", None, f" {o.pipeline}") if o.pipeline else None,
                ),
                h("td", None, h("code", None, o.index_map)),
            )
            for o in run.operands[:MOST_OPERANDS]
        ],
    )


def _movement(run: KernelRun) -> Node | None:
    cost = run.cost
    if cost is None or not cost.movement:
        return None
    head = [(word, "" if i < 2 else "n") for i, word in enumerate(MOVEMENT_HEAD)]
    rows = [
        h("tr", None, *(h("td", {"class": head[i][1] or None}, x) for i, x in enumerate(row)))
        for row in movement_rows(cost)
    ]
    lines = [roofline_line(cost, r) for r in cost.rooflines] if cost.intensity is not None else []
    notes = list(dict.fromkeys(r.note for r in cost.rooflines if r.note)) if lines else []
    return h(
        "details",
        {"open": "", "class": "xl-kernel-cost"},
        h("summary", None, f"what moves: {intensity_line(cost)}"),
        h(
            "div",
            {"class": "xl-pair"},
            h(
                "div",
                None,
                h("div", {"class": "xl-scroll"}, table(head, rows)),
                h(
                    "p",
                    {"class": "xl-dim"},
                    "A block that the next step wants again stays; any other is moved. A model of a pipeline with a buffer per operand, "
                    "not a measurement.",
                ),
                *(h("p", {"class": "xl-dim"}, line) for line in lines),
                *(h("p", {"class": "xl-dim"}, f"Targets: {note}.") for note in notes[:3]),
            ),
            roofline_figure(cost),
        ),
    )


def _numbers(run: KernelRun) -> list[str]:
    cost, out = run.cost, []
    if cost is not None and cost.movement:
        out.append(f"{size_text(cost.moved)} moved")
        if cost.intensity is not None:
            out.append(f"{significant(cost.intensity)} flops per byte")
    if run.races:
        out.append(f"{plural(len(run.races), 'race')} ⚠")
    mild = sum(f.kind in MILD for f in run.faults)
    if len(run.faults) > mild:
        out.append(f"{plural(len(run.faults) - mild, 'error')} ⚠")
    if run.lints or mild:
        out.append(f"{plural(len(run.lints) + mild, 'warning')} ⚠")
    return out


def run_node(run: KernelRun) -> Node:
    """One run: sentence, what is wrong, the first step drawn on the operands, the steps in words, what moves."""
    lines = list(itertools.islice(step_lines(run), SHOWN))
    more = max(run.steps, sum(1 for _ in run.accesses) if not run.steps else 0) - len(lines)
    waits = waiting_line(run)
    pictures = (
        h("div", {"class": "xl-kernel-operands xl-picture"}, operand_figures(run)),
        lanes_figure(run),
    )
    return h(
        "div",
        {"class": "xl-kernel-run"},
        h(
            "div",
            {"class": "xl-top"},
            h(
                "p",
                {"class": "xl-sentence"},
                h("strong", {"data-eq": key(run.program, run.equation)}, run.name),
                "   ".join(("", *([run.kind] if run.kind != run.name else ()), grid_text(run))),
                h("small", None, f"   {run.made}" if run.made else ""),
            ),
            h(
                "p",
                {"class": "xl-numbers"},
                *(
                    h("span", {"class": "xl-caution" if "⚠" in n else None}, n)
                    for n in _numbers(run)
                ),
            ),
        ),
        *_faults(run),
        h(
            "div",
            {"class": "xl-kernel-static"},
            *(_error(race_text(r)) for r in run.races[:MOST_NOTES]),
            unshown(len(run.races) - MOST_NOTES, "more race"),
            *(reversed(pictures) if len(run.cores) > 1 else pictures),
            h("p", {"class": "xl-dim"}, waits) if waits else None,
            h("pre", {"class": "xl-kernel-steps"}, "\n".join(clean(line, 240) for line in lines))
            if lines
            else None,
            unshown(more, "more step", ": with scripts on, all that were recorded can be scrubbed"),
        ),
        h(
            "details",
            None,
            h("summary", None, plural(len(run.operands), "operand")),
            h("div", {"class": "xl-scroll"}, _operands(run)),
        ),
        _movement(run),
        h("p", {"class": "xl-dim"}, HINT) if not run.buffers and not any(run.accesses) else None,
        *(h("p", {"class": "xl-dim"}, f"not kept: {words}") for words in run.left_out[:MOST_NOTES]),
    )


def kernels_panel(runs: tuple[KernelRun, ...]) -> Node:
    """The Kernels tab."""
    return panel("kernels", "Kernels", *(run_node(run) for run in runs))


VISITS = ("step", "operand", "io", "core", "pair", "visit", "clamped", "t", "grid", "index", "start", "shape", "squeezed", "pad")  # fmt: skip
ACCESSES = ("t", "core", "pair", "ref", "kind", "eqn", "masked", "count", "until", "of", "step", "grid", "slice")  # fmt: skip


def event_columns(run: KernelRun) -> dict[str, Any]:
    """The events as columns, texts by their number: what a page unpacks at once, and what packs well."""
    words: dict[str, int] = {}

    def column(events: list[Any], name: str) -> list[Any]:
        values = [getattr(e, name) for e in events]
        if name == "slice":
            return [[n for pair in x for n in pair] for x in values]
        kind = type(values[0]) if values else int
        if kind is str:
            return [words.setdefault(x, len(words)) for x in values]
        return [list(x) for x in values] if kind is tuple else [int(x) for x in values]

    visits, accesses = list(run.blocks), list(run.accesses)
    made = {
        "visits": {name: column(visits, name) for name in VISITS},
        "accesses": {name: column(accesses, name) for name in ACCESSES},
    }
    return {**made, "words": [clean(x) for x in words]}


def kernel_data(run: KernelRun, live: bool = False) -> dict[str, Any]:
    """The record's own JSON but for its events, which go as columns, and whether a machine answers."""
    plain = clean_json(run.replace(events=(), others=()).to_json())
    others = [kernel_data(other) for other in run.others]
    return {**plain, "columns": event_columns(run), "others": others, "live": live}


class KernelView(View):
    """A run of a kernel, scrubbed step by step; with a machine behind it also under other schedules.

    >>> KernelView().title(KernelRun("matmul", grid=(2, 2), steps=4))
    'matmul, grid (2, 2), 4 steps'
    """

    name = "kernel"
    record_type = KernelRun
    requests = (SCHEDULE, CONTENTS)

    def title(self, record: KernelRun) -> str:
        """Name and grid."""
        return f"{record.name}, {grid_text(record)}"

    def tree(self, record: KernelRun) -> Node:
        """The run."""
        return h("article", {"class": "xl xl-report"}, kernels_panel((record,)))

    def data(self, record: KernelRun) -> dict[str, Any]:
        """The run's JSON."""
        return {"title": clean(self.title(record)), "kernels": [kernel_data(record, True)]}


def runs_of(report: Report) -> tuple[KernelRun, ...]:
    """The kernels of a report: those that its recorded trace walked through, simulated, or else those of its programs."""
    return (report.trace.kernels if report.trace else ()) or report.kernels


add_tab(
    "kernels",
    "Kernels",
    85,
    lambda report: kernels_panel(found) if (found := runs_of(report)) else None,
    lambda report: {"kernels": [kernel_data(run) for run in runs_of(report)]},
)
