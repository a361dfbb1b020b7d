"""The stepper: a program run equation by equation, scrubbed forwards and backwards.

A recorded `StepTrace` is scrubbed in the page alone. With a kernel, the page asks `move` for steps that were not recorded.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xlab.notebook.views.animated import ANIMATE, MovingView
from xlab.notebook.views.base import Field, Request
from xlab.notebook.views.draw import Node, clean_json, h, panel, table, unshown, warning
from xlab.notebook.views.kernel import kernel_data, kernels_panel
from xlab.notebook.views.program import columns, program_node
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records import Step, StepTrace, Value
from xlab.observe.records.nan_path import NanPath, Series
from xlab.observe.records.stepper import writes_nan
from xlab.observe.records.units import significant

SHOWN = 100

MOVES = ("goto", "next", "over", "back", "into", "out", "first", "last", "nan", "cursor")

MOVE = Request(
    "move",
    {
        "how": Field(str, MOVES),
        "index": Field(int, low=0, high=1 << 40),
        "equation": Field(int, low=-1, high=1 << 40),
    },
    Step,
    "go to another step: from step `index`, by one, into, over or out of a nested program, to the first NaN/Inf after it, "
    "or to the next time `equation` runs",
)

_INDEX = Field(int, low=0, high=1 << 40)

RUN = Request(
    "run",
    {"index": _INDEX, "breakpoints": Field(str)},
    Step,
    "run on from step `index` to the first step that meets one of the breakpoints (`nan; line 12; abs > 100`), or to the end",
)

REPLACE = Request(
    "replace",
    {"index": _INDEX, "name": Field(str), "value": Field(str)},
    Step,
    "give variable `name` another value behind step `index`, a number or nested lists of numbers, and go on from there",
)

RESTORE = Request(
    "restore",
    {"index": _INDEX},
    Step,
    "take every replaced value back and stand behind step `index`",
)

WHOLE = Request(
    "whole",
    {"index": _INDEX, "name": Field(str)},
    Value,
    "every entry (up to 4,096) of variable `name` behind step `index`",
)


BLAME = Request(
    "blame",
    {},
    NanPath,
    "who made the first NaN: the equations from its cause to the result",
)

SERIES = Request(
    "series",
    {"name": Field(str)},
    Series,
    "variable `name` over all iterations and devices",
)


def value_range(v: Value) -> str:
    """`-0.98…0.99  mean 0.01  2 NaN`."""
    parts = []
    if v.min is not None and v.max is not None:
        parts.append(
            (
                f"{significant(v.min)}…{significant(v.max)}"
                if v.min != v.max
                else significant(v.min)
            ).replace("-", "−")
        )
    parts += [f"{n} {word}" for n, word in ((v.nans, "NaN"), (v.infs, "Inf")) if n]
    return "  ".join(parts)


def steps_data(trace: StepTrace) -> dict[str, Any]:
    """The steps as the page scrubs them."""
    # What no step makes and no argument is: the carry and the slices of an iteration, the operands of a branch.
    known = {v.name for v in trace.inputs} | {v.name for s in trace.steps for v in s.outputs}
    entered = {v.name for s in trace.steps for v in s.inputs if ":" not in v.name} - known
    return {
        "program": columns(trace.program),
        "joint": [
            e.id for e, _ in trace.program.walk() if e.axes
        ],  # steps that all devices take together
        "total": max(trace.total, len(trace.steps)),
        "devices": list(trace.program.mesh.device_ids) if trace.program.mesh else [],
        "inputs": clean_json([v.to_json() for v in trace.inputs]),
        "steps": [step_data(s, entered) for s in trace.steps],
    }


def step_data(step: Step, entered: Collection[str] = ()) -> dict[str, Any]:
    """One step, without the text the program already has; of its inputs those that entered a nested program."""
    return clean_json(
        {
            "index": step.index,
            "equation": step.equation,
            "path": step.path,
            "dead": step.dead,
            **({"kernel": step.kernel, "point": step.point} if step.kernel >= 0 else {}),
            "outputs": [v.to_json() for v in step.outputs],
            **({"writes_nan": True} if writes_nan(step) else {}),
            **(
                {"inputs": found}
                if (found := [v.to_json() for v in step.inputs if v.name in entered])
                else {}
            ),
        }
    )


def step_row(s: Step) -> Node:
    """One line of the static table; NaN and Inf carry a sign and the word."""
    bad = any(v.nans for v in s.outputs) and not writes_nan(s)
    return h(
        "tr",
        {"data-step": s.index, "class": "xl-bad" if bad else None},
        h("td", {"class": "n"}, s.index),
        h("td", None, " ▸ ".join(s.path)),
        h("td", None, h("code", None, s.text or f"equation {s.equation}")),
        h(
            "td",
            None,
            "  ".join(f"{v.name} {value_range(v)}" for v in s.outputs) + (" ⚠" if bad else ""),
        ),
    )


def steps_panel(trace: StepTrace) -> Node:
    """The Steps tab: the recorded run as a table; the page turns it into the scrubber."""
    head = (("step", "n"), ("in", ""), ("equation", ""), ("result", ""))
    more = len(trace.steps) - SHOWN
    cut = trace.total - len(trace.steps)
    return panel(
        "steps",
        "Steps",
        warning(f"the run ended with {trace.failure}") if trace.failure else None,
        h(
            "div",
            {"class": "xl-steps-static"},
            table(head, [step_row(s) for s in trace.steps[:SHOWN]]),
            unshown(more, "more recorded step", ": with scripts on, all can be scrubbed"),
            unshown(cut, "step", " ran without being recorded"),
        ),
    )


class StepperView(MovingView):
    """A recorded run, for scrubbing; with a kernel also beyond what was recorded.

    >>> from xlab.observe.records import Program
    >>> StepperView().title(StepTrace(Program("f")))
    'f, step by step'
    """

    name = "stepper"
    record_type = StepTrace
    requests = (MOVE, RUN, REPLACE, RESTORE, WHOLE, BLAME, SERIES, ANIMATE)

    def title(self, record: StepTrace) -> str:
        """The program's name."""
        return f"{record.program.name}, step by step"

    def tree(self, record: StepTrace) -> Node:
        """The steps as a table, the program under it."""
        data = columns(record.program)
        return h(
            "article",
            {"class": "xl xl-report"},
            steps_panel(record),
            panel("program", "Program", program_node(record.program, 0, data)),
            kernels_panel(record.kernels) if record.kernels else None,
        )

    def data(self, record: StepTrace) -> dict[str, Any]:
        """The steps."""
        return {
            "title": clean_json(self.title(record)),
            "programs": [],
            "steps": {**steps_data(record), "live": True},
            "kernels": [kernel_data(run) for run in record.kernels],
        }


add_tab(
    "steps",
    "Steps",
    80,
    lambda report: steps_panel(report.trace) if report.trace else None,
    lambda report: {"steps": steps_data(report.trace) if report.trace else None},
)
