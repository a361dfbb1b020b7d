"""The collectives view: a table with origin, cost and reason, then who sends how much to whom, round by round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xlab.notebook.views.animated import MovingView
from xlab.notebook.views.collective_rows import (
    HEAD,
    Layers,
    layers_of,
    lines_of,
    listed,
    rows,
    was_measured,
)
from xlab.notebook.views.dataflow_data import flow_data, mesh_of, rounds_of, transfers_data
from xlab.notebook.views.draw import HUES, Drawn, Node, decimal, h, merged, panel, table, unshown
from xlab.notebook.views.layout import MOST_DEVICES
from xlab.notebook.views.mesh import mesh_places
from xlab.notebook.views.tabs import add_tab, arguments_of, report_mesh
from xlab.observe.records import MeshInfo, Report, Transfer
from xlab.observe.records.structure import Structure, structures_of
from xlab.observe.records.transfers import (
    transfer_cost,
    transfer_name,
    transfer_over,
)
from xlab.observe.records.units import plural, size_text, time_text

MEASURED = ("measured", "wait")
"""Columns that are there where a profile was taken."""


def totals(transfers: tuple[Transfer, ...], measured: bool = False) -> Node:
    """What one run sends over each axis, and in all: trips of loops multiplied."""
    found: dict[str, list[Any]] = {}
    for t in transfers:
        times = t.times if t.times is not None else 1
        for name in (transfer_over(t), ""):
            entry = found.setdefault(name, [0, 0, 0, 0.0, 0.0, 0.0])
            entry[0] += not t.removed
            entry[1] += times
            entry[2] += t.sent_in_run
            entry[3] += (t.predicted_us or 0.0) * times
            entry[4] += (t.measured_us or 0.0) * (t.runs or 1)
            entry[5] += (t.wait_us or 0.0) * (t.runs or 1)
    rows = [
        h(
            "tr",
            {"data-over": name},
            h("td", None, f"over {name}" if name else "one run of the program"),
            h("td", {"class": "n"}, f"{n:,}"),
            h("td", {"class": "n"}, f"{runs:,}"),
            h("td", {"class": "n"}, size_text(moved)),
            h("td", {"class": "n xl-predicted"}, time_text(us)),
            *(
                (
                    h("td", {"class": "n"}, time_text(taken)),
                    h("td", {"class": "n"}, time_text(waited)),
                )
                if measured
                else ()
            ),
        )
        for name, (n, runs, moved, us, taken, waited) in sorted(
            found.items(), key=lambda item: (item[0] == "", item[0])
        )
    ]
    head = [
        ("in all", ""),
        ("collectives", "n"),
        ("runs", "n"),
        ("sent per device", "n"),
        ("predicted", "n"),
    ]
    return h(
        "div",
        None,
        table(
            [*head, ("measured", "n"), ("of it waiting", "n")] if measured else head,
            rows,
            "xl-totals",
        ),
        h("p", {"class": "xl-dim"}, "Loops of unknown length are counted once.")
        if any(t.times is None for t in transfers)
        else None,
        h("p", {"class": "xl-dim"}, ESTIMATED),
        h("p", {"class": "xl-dim"}, WAITED) if measured else None,
    )


ESTIMATED = "Sent and predicted are estimates: what a bandwidth-optimal algorithm sends, on average over the devices, and how long the links chosen would take."
WAITED = (
    "Measured is each time it ran, on its slowest device, waiting for the others included; collectives may overlap, so that the sum may be "
    "longer than the program took."
)


def beside(mesh: MeshInfo) -> float:
    """Room between columns of devices: less where there are many, that what is written stays large enough to be read."""
    return min(104.0, max(36.0, 640 / mesh.axis_sizes[-1] - 44))


def arrows_node(arrows: Sequence[Node]) -> Node:
    """Messages, their bytes in front of all of them."""
    words = [part for a in arrows for part in a[2:] if part[0] == "text"]
    words = [
        [tag, {k: v for k, v in at.items() if k != "class"}, *text] for tag, at, *text in words
    ]
    lines = [[*a[:2], *(part for part in a[2:] if part[0] != "text")] for a in arrows]
    return h("g", {"class": "xl-arrows"}, *lines, h("g", {"class": "xl-bytes"}, *words))


def frame(t: Transfer, mesh: MeshInfo, number: int = 0) -> Node:
    """The mesh with one round of a collective on it: one arrow per message, as thick as its bytes."""
    centers, labels, width, height = mesh_places(mesh, 44, 34, (beside(mesh), 40))
    rounds, what = rounds_of(t)
    largest = max((m[2] for messages in rounds for m in messages), default=1) or 1
    hue = (
        HUES[mesh.axis_names.index(t.axes[0]) % 6]
        if t.axes and t.axes[0] in mesh.axis_names
        else HUES[0]
    )
    nodes = [
        h(
            "g",
            {"class": "xl-dev", "data-dev": d},
            h("rect", {"x": x - 22, "y": y - 17, "width": 44, "height": 34, "rx": 3}),
            h("text", {"x": x, "y": y + 1}, d),
        )
        for d, (x, y) in centers.items()
    ]
    taken = boxes_of(centers)
    arrows = [
        arrow(centers[a], centers[b], size, largest, taken)
        for a, b, size in (rounds[number] if rounds else [])
        if a in centers and b in centers and a != b
    ]
    picture = h(
        "svg",
        {
            "viewBox": f"0 -16 {width:g} {height + 24:g}",
            "width": width,
            "height": height + 24,
            "role": "img",
            "aria-label": f"{transfer_name(t)} on the mesh, round 1",
            "style": f"--hue:{hue}",
        },
        arrows_node(arrows),
        *labels,
        h("g", {"class": "xl-devs"}, *nodes),
    )
    return h(
        "div",
        {"class": "xl-frame"},
        Drawn(picture, merged(picture)),
        h(
            "div",
            {"class": "xl-about"},
            h("h3", None, f"{transfer_name(t)} over {transfer_over(t)}"),
            h("p", {"class": "xl-dim"}, what + (f"\nt = {t.formula}" if t.formula else "")),
        ),
    )


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def boxes_of(centers: Mapping[int, tuple[float, float]]) -> list[Box]:
    """Where devices are drawn: places that no label may take."""
    return [(x - 22, y - 17, x + 22, y + 17) for x, y in centers.values()]


def label_place(
    s: tuple[float, float],
    c: tuple[float, float],
    e: tuple[float, float],
    n: tuple[float, float],
    text: str,
    taken: list[Box],
) -> tuple[float, float] | None:
    """A free place for a curve's label, beside the curve; None if there is none. Marks the place as taken.

    >>> taken = []
    >>> [label_place((0, 0), (0, 40), (0, 80), (-1, 0), "8 B", taken) for _ in range(2)]
    [(-26.0, 43.0), (26.0, 43.0)]
    """
    wide = 6.4 * len(text) + 2
    for t in (0.5, 0.34, 0.66, 0.2, 0.8):
        px, py = ((1 - t) ** 2 * s[k] + 2 * t * (1 - t) * c[k] + t * t * e[k] for k in (0, 1))
        for side in (1, -1):
            x, y = px + side * n[0] * 26, py + side * n[1] * 9 + 3
            box = (x - wide / 2, y - 9, x + wide / 2, y + 3)
            if not any(
                box[0] < right and left < box[2] and box[1] < bottom and top < box[3]
                for left, top, right, bottom in taken
            ):
                taken.append(box)
                return x, y
    return None


def arrow(
    a: tuple[float, float], b: tuple[float, float], size: int, largest: int, taken: list[Box]
) -> Node:
    """One message: a curve from device to device, with its bytes where there is room among what is `taken`.

    The page draws the same curve for the other rounds.
    """
    (x1, y1), (x2, y2) = a, b
    d = math.hypot(x2 - x1, y2 - y1) or 1
    bend = 14 if d < 160 else min(60.0, d / 4)
    nx, ny = (y1 - y2) / d, (x2 - x1) / d
    cx, cy = (x1 + x2) / 2 + nx * bend, (y1 + y2) / 2 + ny * bend
    sx, sy = _edge(x1, y1, cx, cy)
    ex, ey = _edge(x2, y2, cx, cy)
    thick = 1.2 + 4.8 * size / largest
    back = math.atan2(ey - cy, ex - cx)
    head = 5 + thick
    word = size_text(size)
    at = label_place((sx, sy), (cx, cy), (ex, ey), (nx, ny), word, taken)
    tips = [(ex - head * math.cos(back + s), ey - head * math.sin(back + s)) for s in (0.45, -0.45)]
    return h(
        "g",
        {"class": "xl-arrow", "data-tip": word},
        h(
            "path",
            {
                "d": f"M{decimal(sx)},{decimal(sy)}Q{decimal(cx)},{decimal(cy)},{decimal(ex)},{decimal(ey)}",
                "style": f"stroke-width:{decimal(thick)}",
            },
        ),
        h(
            "path",
            {
                "class": "xl-tip",
                "d": f"M{decimal(ex)},{decimal(ey)}L{decimal(tips[0][0])},{decimal(tips[0][1])},{decimal(tips[1][0])},{decimal(tips[1][1])}z",
            },
        ),
        h("text", {"x": decimal(at[0]), "y": decimal(at[1]), "class": "xl-bytes"}, word)
        if at is not None
        else None,
    )


def _edge(x: float, y: float, cx: float, cy: float) -> tuple[float, float]:
    dx, dy = cx - x, cy - y
    k = min(23 / abs(dx) if dx else math.inf, 18 / abs(dy) if dy else math.inf)
    return (x + dx * k, y + dy * k) if k < math.inf else (x, y)


def transfers_panel(
    transfers: tuple[Transfer, ...],
    mesh: MeshInfo | None,
    layers: Layers | None = None,
    structures: Mapping[int, Structure] | None = None,
) -> Node:
    """The Collectives tab: the table, totals, and one frame of the largest; `layers` say which stand in repeated layers, `structures` in which calls."""
    if not transfers:
        return panel(
            "collectives",
            "Collectives",
            h("p", {"class": "xl-dim"}, "No device sends anything to another."),
        )
    lines = lines_of(transfers, structures)
    still, added = listed(transfers, lines)
    measured = was_measured(transfers)
    shown, later = (sum(x.heading is None for x in part) for part in (still, added))
    lighter = len(transfers) - shown - later
    children: list[Any] = [
        h(
            "div",
            {"class": "xl-scroll"},
            table(
                [c for c in HEAD if measured or c[0] not in MEASURED],
                rows(transfers, still, lines, layers, structures),
                "xl-transfers",
            ),
        ),
        h(
            "p",
            {"class": "xl-dim xl-later"},
            f"{plural(later, 'lighter collective')} listed by the page's script",
        )
        if later
        else None,
        unshown(lighter, "lighter collective", " not listed"),
        totals(transfers, measured),
    ]
    found = mesh_of(transfers, mesh)
    if found and found.size > MOST_DEVICES:
        largest = max(transfers, key=transfer_cost)
        children.append(
            h(
                "div",
                {"class": "xl-stage", "data-transfer": transfers.index(largest)},
                h(
                    "p",
                    {"class": "xl-dim"},
                    f"{found.size:,} devices: the page's script draws them",
                ),
            )
        )
    elif found:
        largest = max(transfers, key=transfer_cost)
        children.append(
            h(
                "div",
                {"class": "xl-stage", "data-transfer": transfers.index(largest)},
                frame(largest, found),
            )
        )
    return panel("collectives", "Collectives", *children)


class DataflowView(MovingView):
    """One collective on its mesh.

    >>> DataflowView().title(Transfer("all_reduce", reduction="add"))
    'all_reduce add'
    """

    name = "dataflow"
    record_type = Transfer
    height = 520

    def title(self, record: Transfer) -> str:
        """Kind and reduction."""
        return transfer_name(record)

    def tree(self, record: Transfer) -> Node:
        """The table of one and its first round."""
        return h("article", {"class": "xl xl-report"}, transfers_panel((record,), record.mesh))

    def data(self, record: Transfer) -> dict[str, Any]:
        """The rounds."""
        return {
            "transfers": transfers_data((record,), record.mesh),
            "flow": flow_data((record,), record.mesh),
        }


def _report_data(report: Report) -> dict[str, Any]:
    mesh = report_mesh(report)
    return {
        "transfers": transfers_data(report.transfers, mesh, arguments_of(report)),
        "flow": flow_data(
            report.transfers, mesh, layers_of(report.programs), structures_of(report.programs)
        ),
    }


add_tab(
    "collectives",
    "Collectives",
    30,
    lambda report: (
        transfers_panel(
            report.transfers,
            report_mesh(report),
            layers_of(report.programs),
            structures_of(report.programs),
        )
        if report.transfers
        else None
    ),
    _report_data,
)
