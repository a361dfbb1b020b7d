"""The comparison of two layouts of one array: before, who sends what to whom, after."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.animated import MovingView
from xlab.notebook.views.collective_figures import places
from xlab.notebook.views.dataflow import arrow, arrows_node, boxes_of
from xlab.notebook.views.draw import HUES, Node, clean, h, panel, table, unshown, warning
from xlab.notebook.views.layout import MOST_DEVICES as DRAWN
from xlab.notebook.views.layout import blocks_svg, layouts_data
from xlab.notebook.views.mesh import axis_legend, svg
from xlab.observe.records import ArrayLayout
from xlab.observe.records.resharding import (
    HEAD,
    Resharding,
    device_rows,
    headline,
    in_program,
    memory_line,
)
from xlab.observe.records.units import plural, size_text

MOST_ARROWS = 16
MOST_DEVICES = 64
MOST_ROWS = 32
MOST_CELLS = 20_000


def matrix_svg(x: Resharding) -> Node:
    """Bytes from each device (down) to each (across): the darker the more; what stays is on the diagonal."""
    devices = [b.device for b in x.after.blocks]
    place = {d: i for i, d in enumerate(devices)}
    cell = (
        26
        if len(devices) <= 16
        else 11
        if len(devices) <= MOST_DEVICES
        else max(0.5, round(540 / len(devices), 2))
    )
    left = top = 30
    most = max([n for _, _, n in x.messages] + [n for _, n in x.kept], default=1) or 1
    entries = [(s, t, n) for s, t, n in x.messages] + [(d, d, n) for d, n in x.kept if n]
    parts: list[Any] = []
    labeled = len(devices) <= 16
    for d, i in place.items():
        if labeled or i % max(8, len(devices) // 8) == 0:
            parts.append(
                h(
                    "text",
                    {"x": left + i * cell + cell / 2, "y": top - 6, "class": "xl-axis xl-mid"},
                    d,
                )
            )
            parts.append(
                h(
                    "text",
                    {"x": left - 6, "y": top + i * cell + cell / 2 + 4, "class": "xl-axis xl-end"},
                    d,
                )
            )
    parts.append(
        h(
            "rect",
            {
                "x": left,
                "y": top,
                "width": cell * len(devices),
                "height": cell * len(devices),
                "class": "xl-cell",
            },
        )
    )
    if not labeled:
        return svg(
            *(2 * [left + cell * len(devices) + 6]),
            "bytes from each device to each",
            [*parts, *_shades(entries, place, cell, left, most)],
        )
    for s, t, n in entries:
        if s not in place or t not in place:
            continue
        word = "stays on" if s == t else f"from {s} to"
        parts.append(
            h(
                "g",
                None,
                h("title", None, f"{size_text(n)} {word} device {t}"),
                h(
                    "rect",
                    {
                        "x": left + place[t] * cell + 1,
                        "y": top + place[s] * cell + 1,
                        "width": cell - 2,
                        "height": cell - 2,
                        "class": "xl-stays" if s == t else "xl-moves",
                        "style": f"fill-opacity:{0.15 + 0.85 * n / most:.2f}",
                    },
                ),
            )
        )
    side = left + cell * len(devices) + 6
    return svg(side, side, "bytes from each device to each", parts)


def _shades(
    entries: list[tuple[int, int, int]], place: dict[int, int], cell: float, left: int, most: int
) -> list[Node]:
    """Many cells as a few paths, one per shade: of those that move four, of those that stay one."""
    found: dict[tuple[bool, int], list[str]] = {}
    for s, t, n in entries[:MOST_CELLS]:
        if s in place and t in place:
            box = f"M{left + place[t] * cell:g} {left + place[s] * cell:g}h{cell:g}v{cell:g}h-{cell:g}z"
            found.setdefault((s == t, 0 if s == t else -(-4 * n // most)), []).append(box)
    return [
        h(
            "path",
            {
                "d": "".join(boxes[at : at + 50]),
                "class": "xl-stays" if stays else "xl-moves",
                "style": None if stays else f"fill-opacity:{shade / 4}",
            },
        )  # short enough for one attribute
        for (stays, shade), boxes in found.items()
        for at in range(0, len(boxes), 50)
    ]


def moves_svg(x: Resharding, mesh: Any) -> Node:
    """The mesh with an arrow per message; with a script, of one device at a time."""
    centers, labels, width, height = places(mesh)
    most = max((n for _, _, n in x.messages), default=1) or 1
    shown = (
        x.messages
        if len(x.messages) <= MOST_ARROWS
        else [m for m in x.messages if m[1] == x.messages[0][1]]
    )
    taken = boxes_of(centers)
    arrows = [
        arrow(centers[s], centers[t], n, most, taken)
        for s, t, n in shown
        if s in centers and t in centers
    ]
    nodes = [
        h(
            "g",
            {
                "class": "xl-dev",
                "data-dev": d,
                "data-x": f"{cx:g}",
                "data-y": f"{cy:g}",
                "data-tip": f"device {d}",
            },
            h(
                "rect",
                {
                    "x": cx - 22,
                    "y": cy - 17,
                    "width": 44,
                    "height": 34,
                    "rx": 3,
                    "class": "xl-cell",
                },
            ),
            h("text", {"x": cx, "y": cy + 1, "class": "xl-cell-label"}, d),
        )
        for d, (cx, cy) in centers.items()
    ]
    return h(
        "svg",
        {
            "viewBox": f"-8 -16 {width + 16:g} {height + 24:g}",
            "width": f"{width + 16:g}",
            "height": f"{height + 24:g}",
            "role": "img",
            "class": "xl-moves-svg",
            "aria-label": "who sends to whom",
            "style": f"--hue:{HUES[0]}",
        },
        arrows_node(arrows),
        *labels,
        *nodes,
    )


def _side(layout: ArrayLayout, word: str) -> Node:
    small = layout.mesh is None or layout.mesh.size <= DRAWN
    drawn = (
        blocks_svg(layout)
        if small
        else h(
            "p",
            {"class": "xl-dim xl-side-static"},
            f"{len(layout.blocks):,} devices: the page's script draws them",
        )
    )
    return h(
        "figure",
        {"data-side": word},
        h("figcaption", None, h("b", None, word), f" {layout.type.text}"),
        drawn,
    )


def resharding_panel(x: Resharding) -> Node:
    """Everything about the change, in reading order."""
    mesh = x.after.mesh or x.before.mesh
    types, moved = headline(x)
    said = (
        plural(len(x.messages), "arrow")
        if len(x.messages) <= MOST_ARROWS
        else f"what device {x.messages[0][1]} receives"
    )
    middle: list[Any] = []
    if x.messages:
        middle.append(h("figure", None, h("figcaption", None, "from ↓ to →"), matrix_svg(x)))
    rows = [
        h(
            "tr",
            {"data-dev": row[0]},
            *(h("td", {"class": c}, v) for v, c in zip(row, _CLASSES, strict=True)),
        )
        for row in device_rows(x)[:MOST_ROWS]
    ]
    more = len(x.after.blocks) - len(rows)
    return panel(
        "resharding",
        "Resharding",
        h("p", {"class": "xl-sentence"}, h("code", None, types)),
        h("p", None, h("b", None, moved)),
        h("p", {"class": "xl-dim"}, memory_line(x)),
        *(warning(w) for w in x.warnings),
        axis_legend(mesh) if mesh else None,
        h(
            "div",
            {"class": "xl-pair"},
            _side(x.before, "before"),
            _side(x.after, "after"),
            *middle,
            h("figure", None, h("figcaption", {"class": "xl-moves-of"}, said), moves_svg(x, mesh))
            if mesh and x.messages and mesh.size <= MOST_DEVICES
            else None,
        ),
        h("h3", None, "In a program") if x.transfers else None,
        h(
            "ul",
            {"class": "xl-carried"},
            *(
                h(
                    "li",
                    None,
                    h("code", None, in_program(t)),
                    h("span", {"class": "xl-dim"}, f"  t = {t.formula}") if t.formula else None,
                )
                for t in x.transfers
            ),
        )
        if x.transfers
        else None,
        h("h3", None, "Per device"),
        h(
            "div",
            {"class": "xl-scroll"},
            table(list(zip(HEAD, _CLASSES, strict=True)), rows, "xl-devices"),
        ),
        unshown(more, "more device", ": observe.text(record, limit=None) shows all"),
    )


_CLASSES = ("n", "", "", "n", "n", "", "n")


class ReshardingView(MovingView):
    """Two layouts of one array, and what moves between them.

    >>> from xlab.observe.records import Type
    >>> one = ArrayLayout("x", Type("f32", (8,)))
    >>> ReshardingView().title(Resharding(one, one))
    'x: f32[8] → f32[8]'
    """

    name = "resharding"
    record_type = Resharding
    height = 620

    def title(self, record: Resharding) -> str:
        """The two types."""
        return headline(record)[0]

    def tree(self, record: Resharding) -> Node:
        """Before, messages, after; then device by device."""
        return h("article", {"class": "xl xl-report"}, resharding_panel(record))

    def data(self, record: Resharding) -> dict[str, Any]:
        """The messages."""
        return {
            "title": clean(self.title(record)),
            "messages": [list(m) for m in record.messages],
            "devices": [b.device for b in record.after.blocks],
            "layouts": layouts_data((record.before, record.after))
            if len(record.after.blocks) > DRAWN
            else None,
        }
