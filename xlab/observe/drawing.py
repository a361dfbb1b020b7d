"""A figure as text, for files and pages: what matplotlib drew of a record."""

from __future__ import annotations

import io
from typing import Any

from xlab.observe.records import Record, _record
from xlab.observe.text import add_form

PIECE = 1500


@_record
class Drawing(Record):
    """One figure; `kind` is its media type, `parts` are the file cut into pieces that a page takes whole."""

    of: str
    kind: str = "image/svg+xml"
    parts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole file."""
        return "".join(self.parts)


def drawing(record: Any, of: str = "timings") -> Drawing:
    """The figure of a report's `timings` or of its `memory` (the program with the highest peak), or of any record that can be drawn, as SVG.

    Raises:
        ValueError: the report has nothing of that kind.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from xlab.observe.figures import plot

    memory = getattr(record, "memory", None)
    if memory is not None and of == "memory":
        if not memory:
            raise ValueError("this report has no memory to draw: nothing was compiled")
        record = max(memory, key=lambda m: m.peak)
    elif memory is not None and not record.phases:
        raise ValueError("this report has no phases to draw: nothing was recorded")
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    FigureCanvasSVG(figure)         # no window, no pyplot: nothing of the notebook's own figures changes
    plot(record, figure.add_subplot())
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    return Drawing(of, parts=tuple(text[at:at + PIECE] for at in range(0, len(text), PIECE)))


add_form(Drawing, lambda d, o: f"figure of the {d.of}, {d.kind}, {len(d.text):,} characters")
