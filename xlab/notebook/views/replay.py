"""The replay view: a collective step by step on the mesh, with what every device holds, and the rows of a ragged exchange as ribbons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.notebook.views.animated import MovingView
from xlab.notebook.views.collective_figures import figure
from xlab.notebook.views.draw import HUES, Node, clean, decimal, h, panel, table, unshown
from xlab.notebook.views.layout import mesh_data
from xlab.notebook.views.mesh import mesh_places
from xlab.observe.records import MeshInfo, Type
from xlab.observe.records.replay import FlowEvent, Replay
from xlab.observe.records.units import plural, size_text

MOST_EVENTS = 60
"""Events that the page lists before its script runs."""

MOST_SENT = 6000
"""Events that are sent to the page."""

MOST_RIBBONS = 200

COLUMNS = 8
"""Entries of a tile in one row, where the last dimension does not say it."""

CELL = (26, 15)
"""Width and height of an entry."""


def grid(shape: Sequence[int], count: int) -> tuple[int, int]:
    """Rows and columns in which the entries of a buffer stand.

    >>> grid((3, 4), 12), grid((20,), 20), grid((), 1), grid((2, 30), 60)
    ((3, 4), (3, 8), (1, 1), (8, 8))
    """
    last = shape[-1] if shape else 1
    columns = last if len(shape) > 1 and 1 <= last <= COLUMNS else min(COLUMNS, max(1, count))
    return max(1, -(-count // columns)), columns


def tile_size(r: Replay) -> tuple[float, float]:
    """Width and height of a device's tile: room for the largest buffer it ever shows, under the device's number."""
    shown = [(len(entries), f) for f, frame in enumerate(r.tiles) for entries in frame[:1]]
    sizes = [grid(shape_at(r, f), n) for n, f in shown] or [(0, 2)]
    rows, columns = max(a for a, _ in sizes), max(b for _, b in sizes)
    return max(56.0, columns * CELL[0] + 8), 20 + max(1, rows) * CELL[1] + 4


def shape_at(r: Replay, frame: int) -> tuple[int, ...]:
    """The shape of the buffer that a tile shows: sums grow in the shape of the operand until the last step."""
    sums = r.kind == "reduce_scatter" and frame + 1 < len(r.tiles)
    return tuple(known(n) for n in (r.before if sums else r.after).shape)


def known(size: Any) -> int:
    """The size of a dimension; of one that is only a name, 1."""
    return size if isinstance(size, int) and 0 <= size < 1 << 20 else 1


def steps_of(r: Replay) -> list[int]:
    """The numbers of the steps, in order."""
    return sorted({e.step for e in r.events})


def written_at(r: Replay) -> list[list[list[int]]]:
    """For each frame and device the entries that the step before it wrote."""
    out: list[list[list[int]]] = [[[] for _ in r.devices] for _ in r.tiles]
    place = {d: k for k, d in enumerate(r.devices)}
    frames = {step: n + 1 for n, step in enumerate(steps_of(r))}
    for e in r.events:
        frame = frames[e.step]
        if frame >= len(out) or e.writes not in ("output", "work"):
            continue
        shape = shape_at(r, frame)
        inside = all(0 <= a <= b <= n for (a, b), n in zip(e.dst_slice, shape))
        if len(shape) != len(e.dst_slice) or not inside or math.prod(shape) > MOST_SENT:
            continue
        if e.writes == "work" and r.kind != "reduce_scatter":
            continue
        index = np.indices([b - a for a, b in e.dst_slice]).reshape(len(shape), -1)
        first = np.array([a for a, _ in e.dst_slice], int).reshape(-1, 1)
        flat = np.ravel_multi_index(tuple(index + first), shape) if shape else np.array([0])
        out[frame][place[e.dst]] += np.ravel(flat).tolist()
    return out


def state_of(type: Type, axis: str) -> str:
    """How a value is over a mesh axis: `V`, `I`, `U` or `R`."""
    found = (("V", type.varying), ("U", type.unreduced), ("R", type.reduced))
    return next((letter for letter, axes in found if axis in axes), "I")


SIGNS = {"V": "", "I": "=", "U": "+", "R": "↓"}
STATES = {
    "V": "differs from device to device",
    "I": "is the same on all devices",
    "U": "is a sum whose parts the devices hold",
    "R": "is the same on all devices; its cotangent is a sum in parts",
}


def chips(type: Type, mesh: MeshInfo) -> Node:
    """A type's state over each mesh axis as a row of chips: a color for each value, and a sign between devices."""
    rows: list[Node] = []
    if not (type.varying or type.unreduced or type.reduced):
        return h("span", None)  # nobody has checked how it varies
    for k, (name, size) in enumerate(zip(mesh.axis_names, mesh.axis_sizes, strict=True)):
        state = state_of(type, name)
        many = state == "V"
        shown = min(size, 8)
        cells: list[Any] = []
        for i in range(shown):
            part = 100 - round(60 * i / max(1, shown - 1)) if many else 100
            cells.append(
                h("span", {"class": "xl-mat xl-swatch", "style": f"--h:{HUES[k % 6]};--p:{part}%"})
            )
            if SIGNS[state] and i + 1 < shown:
                cells.append(h("span", {"class": "xl-mat-sign"}, SIGNS[state]))
        rows.append(
            h(
                "span",
                {"class": "xl-mats", "title": f"over {clean(name)} it {STATES[state]}"},
                h("small", None, f"{name} {state} "),
                *cells,
            )
        )
    return h("span", {"class": "xl-mat-axes"}, *rows)


def event_rows(events: Sequence[FlowEvent]) -> list[Node]:
    """Events as rows of a table."""
    return [
        h(
            "tr",
            None,
            h("td", {"class": "n"}, e.step),
            h("td", {"class": "n"}, size_text(e.bytes)),
            h("td", None, h("code", None, e.text)),
        )
        for e in events
    ]


def ribbons(r: Replay) -> Node | None:
    """Rows of the senders on the left, rows of the receivers on the right, and a ribbon for each piece."""
    first: dict[int, list[FlowEvent]] = {}
    final: dict[int, list[FlowEvent]] = {}
    for e in r.events:
        if e.reads == "input":
            first.setdefault(e.chunk, []).append(e)
        if e.writes == "output" and e.reads != "result":
            final.setdefault(e.chunk, []).append(e)
    pieces = [p for c, some in first.items() for p in zip(some, final.get(c, ()), strict=False)]
    pieces = [(a, b) for a, b in pieces if a.src_slice and b.dst_slice and a.src >= 0]
    if not pieces or len(pieces) > MOST_RIBBONS:
        return None
    rows_in, rows_out = (known((x.shape or (1,))[0]) for x in (r.before, r.after))
    tall = max(3.0, min(14.0, 420 / (len(r.devices) * max(rows_in, rows_out) + 1)))
    gap, width = 10.0, 460.0
    place = {d: k for k, d in enumerate(r.devices)}
    top_in = [18 + k * (rows_in * tall + gap) for k in range(len(r.devices))]
    top_out = [18 + k * (rows_out * tall + gap) for k in range(len(r.devices))]
    nodes: list[Any] = [
        h("text", {"x": x, "y": 9, "class": "xl-cell-label"}, word)
        for x, word in ((41, "rows sent"), (width - 41, "rows received"))
    ]
    for x, top, rows, anchor in (
        (34, top_in, rows_in, "end"),
        (width - 48, top_out, rows_out, "start"),
    ):
        for d, y in zip(r.devices, top, strict=True):
            nodes.append(
                h("rect", {"x": x, "y": y, "width": 14, "height": rows * tall, "class": "xl-slot"})
            )
            at = x - 6 if anchor == "end" else x + 20
            nodes.append(
                h(
                    "text",
                    {"x": at, "y": y + rows * tall / 2 + 4, "class": "xl-cell-label", "style": f"text-anchor:{anchor}"},
                    d,
                )
            )  # fmt: skip
    for a, b in pieces:
        (s0, s1), (t0, t1) = a.src_slice[0], b.dst_slice[0]
        y0, y1 = (top_in[place[a.src]] + s * tall for s in (s0, s1))
        z0, z1 = (top_out[place[b.dst]] + t * tall for t in (t0, t1))
        left, right = 48.0, width - 48.0
        mid = (left + right) / 2
        shade = 100 - round(45 * place[a.src] / max(1, len(r.devices) - 1))
        nodes.append(
            h(
                "path",
                {
                    "d": f"M{left} {decimal(y0)}C{mid} {decimal(y0)} {mid} {decimal(z0)} {right} {decimal(z0)}V{decimal(z1)}C{mid} {decimal(z1)} {mid} {decimal(y1)} {left} {decimal(y1)}Z",
                    "class": "xl-ribbon xl-band",
                    "style": f"--h:{HUES[0]};--p:{shade}%",
                    "data-tip": f"rows {s0}:{s1} of device {a.src} become rows {t0}:{t1} of device {b.dst}",
                },
            )
        )
    bottom = max(top_in[-1] + rows_in * tall, top_out[-1] + rows_out * tall) + 8
    return h(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {bottom:.0f}",
            "width": f"{width:g}",
            "height": f"{bottom:.0f}",
            "role": "img",
            "class": "xl-ribbons",
            "aria-label": f"{plural(len(pieces), 'piece')} of rows, from their senders on the left to their receivers on the right",
        },
        *nodes,
    )


def frame(r: Replay) -> Node:
    """The mesh with what each device has in the end."""
    wide, tall = tile_size(r)
    centers, labels, width, height = mesh_places(r.mesh, wide, tall, gaps(r))
    last = r.tiles[-1] if r.tiles else ()
    nodes: list[Any] = []
    nobody = {e.dst for e in r.events if e.src < 0}
    for k, d in enumerate(r.devices):
        if d not in centers:
            continue
        x, y = centers[d]
        nodes += tile(d, x, y, (wide, tall), last[k] if last else (), shape_at(r, len(r.tiles) - 1))
        if d in nobody and not last:
            nodes.append(h("text", {"x": x, "y": y + 14, "class": "xl-entry"}, "0"))
    return h(
        "svg",
        {
            "viewBox": f"0 -16 {width:g} {height + 8:g}",
            "width": f"{width:g}",
            "height": f"{height + 8:g}",
            "role": "img",
            "aria-label": f"{r.call} on the mesh: what each device has in the end",
            "style": f"--hue:{hue_of(r)}",
        },
        *labels,
        *nodes,
    )


def gaps(r: Replay) -> tuple[float, float]:
    """Room for arrows between tiles."""
    return (72, 44) if r.mesh.size <= 16 else (28, 18)


def hue_of(r: Replay) -> str:
    """The color of the first axis that the collective runs over."""
    names = r.mesh.axis_names
    return HUES[names.index(r.axes[0]) % 6] if r.axes and r.axes[0] in names else HUES[0]


def tile(
    device: int,
    x: float,
    y: float,
    size: tuple[float, float],
    entries: Sequence[str],
    shape: Sequence[int],
) -> list[Node]:
    """A device's tile: its number, and the entries of its buffer."""
    wide, tall = size
    _, columns = grid(shape, len(entries))
    left = x - columns * CELL[0] / 2
    top = y - tall / 2 + 20
    made = [
        h(
            "rect",
            {"x": x - wide / 2, "y": y - tall / 2, "width": wide, "height": tall, "rx": 3, "class": "xl-cell"},
        ),
        h("text", {"x": x, "y": y - tall / 2 + 13, "class": "xl-cell-label"}, device),
    ]  # fmt: skip
    for i, word in enumerate(entries):
        made.append(
            h(
                "text",
                {
                    "x": left + (i % columns + 0.5) * CELL[0],
                    "y": top + (i // columns + 0.75) * CELL[1],
                    "class": "xl-entry",
                },
                *entry(clean(word)),
            )
        )
    return made


def entry(word: str) -> list[Node]:
    """A word that fits into a cell; of a longer one the beginning, and all of it where one points.

    >>> entry("1.5"), entry("params0")
    (['1.5'], ['par…', ['title', {}, 'params0']])
    """
    most = int(CELL[0] / 6.3)
    return [word[: most - 1] + "…", h("title", None, word)] if len(word) > most else [word]


class ReplayView(MovingView):
    """A collective step by step.

    >>> ReplayView().title(Replay("psum of f", "psum", "all_reduce", "ring", Type("f32"), Type("f32"), MeshInfo(("i",), (2,))))
    'psum of f'
    """

    name = "replay"
    record_type = Replay
    height = 620

    def tree(self, record: Replay) -> Node:
        """What each device has in the end, and the events as a list."""
        moved = [e for e in record.events if e.moves or e.src < 0]
        more = len(moved) - MOST_EVENTS
        shown = ribbons(record) if record.ragged else None
        return h(
            "article",
            {"class": "xl xl-report"},
            h(
                "header",
                {"class": "xl-head"},
                h(
                    "p",
                    {"class": "xl-sentence"},
                    h("strong", None, record.title),
                    "   " + record.sentence(),
                ),
            ),
            panel(
                "replay",
                "Replay",
                h(
                    "p",
                    {"class": "xl-types"},
                    h("code", None, record.before.text),
                    chips(record.before, record.mesh),
                    " → ",
                    h("code", None, record.after.text),
                    chips(record.after, record.mesh),
                ),
                h("p", {"class": "xl-caution"}, record.caution) if record.caution else None,
                figure(record),
                h("div", {"class": "xl-stage xl-replay-stage"}, frame(record)),
                shown,
                h("p", {"class": "xl-formula"}, f"t = {record.formula}")
                if record.formula
                else None,
                h("p", {"class": "xl-dim"}, h("code", None, record.stablehlo))
                if record.stablehlo
                else None,
                h(
                    "div",
                    {"class": "xl-scroll xl-replay-events"},
                    table(
                        [("step", "n"), ("bytes", "n"), ("from → to", "")],
                        event_rows(moved[:MOST_EVENTS]),
                        "xl-events",
                    ),
                ),
                unshown(more, "more event"),
            ),
        )

    def data(self, record: Replay) -> dict[str, Any]:
        """The legend of the drawing and what its script plays."""
        wide, tall = tile_size(record)
        frames = range(len(record.tiles))
        shapes = [grid(shape_at(record, f), len(record.tiles[f][0])) for f in frames]
        return {
            "legend": legend(record),
            "mesh": mesh_data(record.mesh),
            "size": [wide, tall],
            "gaps": list(gaps(record)),
            "cell": list(CELL),
            "hue": hue_of(record),
            "devices": list(record.devices),
            "steps": steps_of(record),
            "events": [
                [e.step, e.src, e.dst, e.bytes, int(e.kind == "reduce")]
                for e in record.events[:MOST_SENT]
            ],
            "columns": [columns for _, columns in shapes],
            "tiles": [[[clean(x) for x in t] for t in f] for f in record.tiles],
            "written": written_at(record) if len(record.events) <= MOST_SENT else [],
            "oneSided": record.one_sided,
        }


def legend(record: Replay) -> dict[str, Any]:
    """What the drawing says, as plain data: operation, axes, groups, types, bytes, formula and the StableHLO line."""
    return {
        "op": clean(record.kind),
        "call": clean(record.call),
        "axes": [clean(a) for a in record.axes],
        "groups": [list(g) for g in record.groups],
        "dtype": clean(record.before.dtype or record.after.dtype),
        "shape": {"before": list(record.before.shape), "after": list(record.after.shape)},
        "types": {"before": clean(record.before.text), "after": clean(record.after.text)},
        "bytes": {
            "in": record.bytes_in,
            "out": record.bytes_out,
            "wire": record.wire_bytes,
            "actual": record.actual_bytes,
        },
        "algorithm": clean(record.algorithm),
        "formula": clean(record.formula),
        "stablehlo": clean(record.stablehlo),
    }
