"""A program's graph drawn with matplotlib, by the layout that `to_svg` uses."""

from __future__ import annotations

from typing import Any

from xlab.observe.figures.graph import Box, Graph, graph, place
from xlab.observe.figures.sizes import MARGIN, Size
from xlab.observe.records import Program

_HEAD = 32
LETTER = 12
"""Size of letters in the layout's units."""


def draw_graph(figure: Any, size: Size, program: Program, depth: int = 1) -> None:
    """Boxes and edges, as large as fit in the figure's size."""
    made = graph(program, depth)
    drawn = place(made)
    wide, tall = drawn.width + 8, drawn.height + 8
    scale = min(
        (size.width - 2 * MARGIN) / wide,
        (size.tallest - 2 * MARGIN) / tall,
        size.text / 72 / LETTER,
    )
    width = max(wide * scale + 2 * MARGIN, 1.0)
    figure.set_size_inches(width, tall * scale + 2 * MARGIN)
    figure.set_layout_engine("none")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    pad = MARGIN / scale
    ax.set_xlim(-pad, width / scale - pad)
    ax.set_ylim(tall + pad, -pad)
    _draw(ax, made, 4, 4, scale * 72 * LETTER)


def _draw(ax: Any, g: Graph, dx: float, dy: float, points: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    d = g.drawing
    assert d is not None
    for x1, y1, x2, y2, source, _ in d.links:
        _edge(ax, g.boxes[source], x1 + dx, y1 + dy, x2 + dx, y2 + dy, points)
    for lane in d.lanes:
        for target, y in lane.targets:
            _lane(ax, d.x[lane.source] + dx, lane.top + dy, lane.x + dx, d.x[target] + dx, y + dy)
    for i, box in enumerate(g.boxes):
        x, y = d.x[i] - box.width / 2 + dx, d.y[i] + dy
        end = box.kind in ("input", "output")
        ax.add_patch(
            FancyBboxPatch(
                (x, y),
                box.width,
                box.height,
                boxstyle=f"round,pad=0,rounding_size={9 if end else 3}",
                facecolor="#f5f7f9" if box.inside else "#ffffff",
                edgecolor="#8a6100" if box.collective else "#8793a0",
                linestyle="--" if end else "-",
                linewidth=points / 14,
                zorder=2,
            )
        )
        label = ax.text(
            x + 8,
            y + 15,
            box.label,
            family="monospace",
            fontsize=points,
            weight="normal" if end else "bold",
            zorder=3,
        )
        label.set_parse_math(False)
        if box.name and box.kind == "equation":
            ax.text(
                x + 8 + 7.3 * (len(box.label) + 1),
                y + 15,
                box.name,
                family="monospace",
                fontsize=points,
                color="#0b63a5",
                zorder=3,
            )
        if box.inside:
            _draw(ax, box.inside, x + 10, y + _HEAD, points)
        elif box.type:
            ax.text(
                x + 8,
                y + 28,
                box.type,
                family="monospace",
                fontsize=points * 0.87,
                color="#5a6572",
                zorder=3,
            )


def _edge(ax: Any, source: Box, x1: float, y1: float, x2: float, y2: float, points: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    turn = max(y1, y2 - 26)
    path = Path(
        [(x1, y1), (x1, turn), (x1, turn + 14), (x2, y2 - 14), (x2, y2)],
        [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    ax.add_patch(
        PathPatch(
            path,
            fill=False,
            edgecolor="#8a6100" if source.pending else "#8793a0",
            linestyle="--" if source.pending else "-",
            linewidth=points / 14,
            zorder=1,
        )
    )


def _lane(ax: Any, start: float, low: float, lane: float, x: float, y: float) -> None:
    ax.plot(
        [start, lane, lane, x],
        [low, low + 18, max(low + 18, y - 18), y],
        color="#8793a0",
        alpha=0.35,
        linewidth=0.6,
        zorder=1,
    )
