"""The collectives view: a table with origin, cost and reason, then who sends how much to whom, round by round."""

from __future__ import annotations

import math
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import HUES, Node, clean, h, key, panel, table
from xlab.notebook.views.mesh import mesh_places
from xlab.observe.records import MeshInfo, Transfer
from xlab.observe.text import sentences, transfer_name, transfer_origin, transfer_over
from xlab.observe.units import plural, size_text, time_text

MOST_ROWS = 300
"""Collectives listed; of more, the heaviest."""

MOST_MESSAGES = 4000
"""Messages per collective that are sent to the page; a longer schedule is cut and says so."""

HEAD = (
    ("op", ""),
    ("over", ""),
    ("in → out per device", "n"),
    ("× times", "n"),
    ("predicted", "n"),
    ("measured", "n"),
    ("wait", "n"),
    ("origin", ""),
    ("line", "n"),
)


def rounds_of(t: Transfer) -> tuple[list[list[list[int]]], str]:
    """Return the rounds to draw, as lists of `[source, target, bytes]`, and what they are.

    Without recorded rounds a permute is one round of its pairs, and a group is drawn as its ring.

    >>> rounds_of(Transfer("collective_permute", pairs=((0, 1),), bytes_in=8))
    ([[[0, 1, 8]]], 'one round of 1 message')
    """
    if t.rounds:
        shown: list[list[list[int]]] = []
        count = 0
        for messages in t.rounds:
            count += len(messages)
            if shown and count > MOST_MESSAGES:
                return shown, f"first {len(shown)} of {len(t.rounds)} rounds"
            shown.append([list(m) for m in messages[:MOST_MESSAGES]])
        return shown, plural(len(shown), "round")
    if t.pairs:
        return [
            [[a, b, t.bytes_in] for a, b in t.pairs[:MOST_MESSAGES]]
        ], f"one round of {plural(len(t.pairs), 'message')}"
    ring = [
        [g[i], g[(i + 1) % len(g)], t.bytes_in]
        for g in t.groups
        if len(g) > 1
        for i in range(len(g))
    ]
    return (
        ([ring[:MOST_MESSAGES]], "groups drawn as rings; no schedule known") if ring else ([], "")
    )


def weight(t: Transfer) -> float:
    """What a collective costs in order of size: predicted time if known, else bytes, both times how often it runs."""
    times = t.times if t.times is not None else 1
    return (
        t.predicted_us if t.predicted_us is not None else max(t.bytes_in, t.bytes_out) / 1e6
    ) * times


def row(t: Transfer, index: int) -> list[Node]:
    """The table rows of one collective: its line and, when the partitioner added it, the reason."""
    found = key(t.program, t.equation)
    cells = [
        h(
            "td",
            None,
            h(
                "button",
                {
                    "class": "xl-pick",
                    "data-transfer": index,
                    "aria-label": f"show {transfer_name(t)} {index + 1} on the mesh",
                },
                transfer_name(t),
            ),
            h("small", None, " " + t.operand) if t.operand else None,
        ),
        h("td", None, transfer_over(t)),
        h(
            "td",
            {"class": "n", "title": f"{t.bytes_in:,} B → {t.bytes_out:,} B"},
            f"{size_text(t.bytes_in)} → {size_text(t.bytes_out)}",
        ),
        h("td", {"class": "n"}, "?" if t.times is None else t.times),
        h("td", {"class": "n", "title": t.formula or None}, time_text(t.predicted_us)),
        h("td", {"class": "n"}, time_text(t.measured_us) if t.measured_us is not None else "–"),
        h("td", {"class": "n"}, time_text(t.wait_us) if t.wait_us is not None else "–"),
        h(
            "td",
            {"class": "xl-added" if t.reshards else None},
            transfer_origin(t).replace("(!)", "⚠"),
        ),
        h(
            "td",
            {"class": "n", "title": t.source.text.strip() if t.source else None},
            t.source.line if t.source else "",
        ),
    ]
    rows = [h("tr", {"data-eq": found, "data-row": index, "data-origin": t.origin}, *cells)]
    if t.reason or t.fix:
        rows.append(
            h(
                "tr",
                {"class": "xl-reason", "data-of": index, "data-origin": t.origin},
                h(
                    "td",
                    {"colspan": len(HEAD)},
                    sentences(t.reason, "") + " " * bool(t.fix),
                    h("span", None, h("b", None, "Remove it: "), sentences(t.fix, "")) if t.fix else None,
                ),
            )
        )
    return rows


def totals(transfers: tuple[Transfer, ...]) -> Node:
    """Bytes per device over each axis, trips included."""
    found: dict[str, list[int]] = {}
    unknown = False
    for t in transfers:
        unknown |= t.times is None
        entry = found.setdefault(transfer_over(t), [0, 0])
        entry[0] += t.bytes_in * (t.times if t.times is not None else 1)
        entry[1] += 1
    parts = [
        f"over {name}: {size_text(moved)} in {plural(n, 'collective')}"
        for name, (moved, n) in sorted(found.items())
    ]
    return h(
        "p",
        {"class": "xl-dim"},
        "   ".join(parts) + ("   (loops of unknown length counted once)" if unknown else ""),
    )


def frame(t: Transfer, mesh: MeshInfo, number: int = 0) -> Node:
    """The mesh with one round of a collective on it: one arrow per message, as thick as its bytes."""
    centres, labels, width, height = mesh_places(mesh, 44, 34, (104, 40))
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
            {
                "class": "xl-dev",
                "data-dev": d,
                "data-x": f"{x:g}",
                "data-y": f"{y:g}",
                "data-tip": f"device {d}",
            },
            h(
                "rect",
                {"x": x - 22, "y": y - 17, "width": 44, "height": 34, "rx": 3, "class": "xl-cell"},
            ),
            h("text", {"x": x, "y": y + 1, "class": "xl-cell-label"}, d),
        )
        for d, (x, y) in centres.items()
    ]
    arrows = [
        arrow(centres[a], centres[b], size, largest)
        for a, b, size in (rounds[number] if rounds else [])
        if a in centres and b in centres and a != b
    ]
    return h(
        "div",
        {"class": "xl-frame"},
        h(
            "svg",
            {
                "viewBox": f"0 -16 {width} {height + 24}",
                "width": width,
                "height": height + 24,
                "role": "img",
                "aria-label": f"{transfer_name(t)} on the mesh, round 1",
                "style": f"--hue:{hue}",
            },
            *labels,
            h("g", {"class": "xl-arrows"}, *arrows),
            *nodes,
        ),
        h(
            "div",
            {"class": "xl-about"},
            h("h3", None, f"{transfer_name(t)} over {transfer_over(t)}"),
            h("p", {"class": "xl-dim"}, what + (f"\nt = {t.formula}" if t.formula else "")),
        ),
    )


def arrow(a: tuple[float, float], b: tuple[float, float], size: int, largest: int) -> Node:
    """One message: a curve from device to device; the page draws the same curve for the other rounds."""
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
    tips = [(ex - head * math.cos(back + s), ey - head * math.sin(back + s)) for s in (0.45, -0.45)]
    return h(
        "g",
        {"class": "xl-arrow", "data-tip": f"{size_text(size)}"},
        h(
            "path",
            {
                "d": f"M{sx:.1f} {sy:.1f}Q{cx:.1f} {cy:.1f} {ex:.1f} {ey:.1f}",
                "style": f"stroke-width:{thick:.1f}",
            },
        ),
        h(
            "path",
            {
                "class": "xl-tip",
                "d": f"M{ex:.1f} {ey:.1f}L{tips[0][0]:.1f} {tips[0][1]:.1f}L{tips[1][0]:.1f} {tips[1][1]:.1f}Z",
            },
        ),
        h(
            "text",
            {
                "x": f"{(sx + 2 * cx + ex) / 4 + nx * 26:.1f}",
                "y": f"{(sy + 2 * cy + ey) / 4 + ny * 9 + 3:.1f}",
                "class": "xl-bytes",
            },
            size_text(size),
        ),
    )


def _edge(x: float, y: float, cx: float, cy: float) -> tuple[float, float]:
    dx, dy = cx - x, cy - y
    k = min(23 / abs(dx) if dx else math.inf, 18 / abs(dy) if dy else math.inf)
    return (x + dx * k, y + dy * k) if k < math.inf else (x, y)


def transfers_panel(transfers: tuple[Transfer, ...], mesh: MeshInfo | None) -> Node:
    """The Collectives tab: the table, totals, and one frame of the largest."""
    if not transfers:
        return panel(
            "collectives",
            "Collectives",
            h("p", {"class": "xl-dim"}, "No device sends anything to another."),
        )
    listed = range(len(transfers))
    if len(transfers) > MOST_ROWS:
        listed = sorted(sorted(listed, key=lambda i: -weight(transfers[i]))[:MOST_ROWS])
    rows = [r for i in listed for r in row(transfers[i], i)]
    lighter = len(transfers) - len(listed)
    children: list[Any] = [
        h("div", {"class": "xl-scroll"}, table(HEAD, rows, "xl-transfers")),
        h("p", {"class": "xl-dim"}, f"{plural(lighter, 'lighter collective')} not listed")
        if lighter
        else None,
        totals(transfers),
    ]
    found = mesh or next((t.mesh for t in transfers if t.mesh), None)
    if found:
        largest = max(transfers, key=weight)
        children.append(
            h(
                "div",
                {"class": "xl-stage", "data-transfer": transfers.index(largest)},
                frame(largest, largest.mesh or found),
            )
        )
    return panel("collectives", "Collectives", *children)


def transfers_data(transfers: tuple[Transfer, ...], mesh: MeshInfo | None) -> list[dict[str, Any]]:
    """What the page needs to play each collective."""
    names = mesh.axis_names if mesh else ()
    out = []
    for t in transfers:
        rounds, what = rounds_of(t)
        out.append(
            {
                "name": clean(transfer_name(t)),
                "over": clean(transfer_over(t)),
                "what": what,
                "rounds": rounds,
                "formula": clean(t.formula),
                "key": key(t.program, t.equation),
                "hue": names.index(t.axes[0]) if t.axes and t.axes[0] in names else 0,
            }
        )
    return out


class DataflowView(View):
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
        return {"transfers": transfers_data((record,), record.mesh)}
