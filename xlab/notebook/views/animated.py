"""What moves as a GIF: a collective round by round, a run step by step. The kernel draws it where the page's menu of figures asks for one."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import Field, Request, View
from xlab.observe.records.drawing import Drawing

RUN = -1
"""The number by which a page asks for the run of a report, and not for one of its collectives."""

ANIMATE = Request(
    "animate",
    {"of": Field(int, low=RUN, high=1 << 40), "size": Field(str, ("column", "slide"))},
    Drawing,
    "collective number `of` round by round, or the run step by step (-1), as a GIF",
)


def animated(record: Any, size: str) -> Drawing:
    """The GIF of a record."""
    from xlab.observe.figures.drawing import animated as drawn

    return drawn(record, size)


def part_of_report(report: Any, of: int) -> Any:
    """The collective of a report with this number, or its run.

    Raises:
        ValueError: it has none.
    """
    if of == RUN and report.trace is not None:
        return report.trace
    if not 0 <= of < len(report.transfers):
        what = "no run" if of == RUN else f"{len(report.transfers)} collectives"
        raise ValueError(
            f"this report has {what}; asked for {'one' if of == RUN else f'number {of}'}"
        )
    return report.transfers[of]


class MovingView(View):
    """Base of views of one record that moves."""

    requests = (ANIMATE,)

    def handlers(self, record: Any) -> dict[str, Any]:
        """The GIF is drawn when it is asked for."""
        return {"animate": lambda of, size: animated(record, size)}
