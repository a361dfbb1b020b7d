"""`drawing`: a record drawn by matplotlib, as SVG text for files and pages; `animated`: one that moves, as a GIF."""

from __future__ import annotations

import base64
import io
import tempfile
from pathlib import Path
from typing import Any

from xlab.observe.figures.figure import animation
from xlab.observe.figures.plots import plot
from xlab.observe.records.drawing import Drawing

PIECE = 1500


def drawing(record: Any, of: str = "timings") -> Drawing:
    """The figure of a report's `timings` or of its `memory` (the program with the highest peak), or of any record that can be drawn, as SVG.

    Raises:
        ValueError: the report has nothing of that kind.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    memory = getattr(record, "memory", None)
    if memory is not None and of == "memory":
        if not memory:
            raise ValueError("this report has no memory to draw: nothing was compiled")
        record = max(memory, key=lambda m: m.peak)
    elif memory is not None and not record.phases:
        raise ValueError("this report has no phases to draw: nothing was recorded")
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    FigureCanvasSVG(figure)  # no window, no pyplot: nothing of the notebook's own figures changes
    plot(record, figure.add_subplot())
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    drawn = of if memory is not None else type(record).__name__
    return Drawing(drawn, parts=tuple(text[at : at + PIECE] for at in range(0, len(text), PIECE)))


def animated(record: Any, size: str = "column") -> Drawing:
    """What `animation` writes of a collective, a resharding or a run, as base64 of the GIF.

    Raises:
        TypeError, ValueError: as `animation` does.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "moving.gif"
        animation(record, file, size=size)
        text = base64.b64encode(file.read_bytes()).decode()
    parts = tuple(text[at : at + PIECE] for at in range(0, len(text), PIECE))
    return Drawing(type(record).__name__, "image/gif", parts)
