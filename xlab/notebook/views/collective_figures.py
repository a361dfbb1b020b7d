"""What a collective does, in one picture: sums that are gathered in a node and given back, and blocks that change rows with columns.

The replay shows how it is done, step by step; these show what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlab.interpreters import communication
from xlab.notebook.views.dataflow import Box, arrow, arrows_node, boxes_of
from xlab.notebook.views.draw import HUES, Node, clean, decimal, h
from xlab.notebook.views.mesh import mesh_places
from xlab.observe.records import MeshInfo
from xlab.observe.records.replay import Replay
from xlab.observe.records.units import plural

MOST_DEVICES = 64
MOST_RANKS = 12
"""Ranks whose blocks a matrix shows, and whose arrows to every other are drawn."""

SIGNS = {"add": "Σ", "max": "max", "min": "min"}

BLOCK = (34, 22)
"""Width and height of a block of the matrix."""

Place = tuple[float, float]


def figure(r: Replay) -> Node | None:
    """The picture for the kind of a collective; None where there is none, or where it would be too large to read."""
    made = communication.collectives.get(r.kind)
    groups = [g for g in r.groups if len(g) > 1]
    if made is None or not groups or r.mesh.size > MOST_DEVICES:
        return None
    if made.stages == ("exchange",):
        return matrix(r, groups)
    if made.reduces:
        return sums(r, groups, back="gather" in made.stages)
    return None


def places(mesh: MeshInfo) -> tuple[dict[int, Place], list[Any], float, float]:
    """Centers of devices, labels, width and height: a ring for one axis, or one that has all devices, else the grid of the mesh."""
    long = [
        n for n, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True) if size == mesh.size
    ]
    if not long or not 2 < mesh.size <= 16:
        return mesh_places(mesh, 44, 34, (104, 52))
    radius = max(84.0, mesh.size * 13.0)
    middle = radius + 34
    ids = mesh.device_ids or tuple(range(mesh.size))
    turn = 2 * math.pi / mesh.size
    centers = {
        d: (middle + radius * math.sin(k * turn), middle - radius * math.cos(k * turn))
        for k, d in enumerate(ids)
    }
    name = h(
        "text",
        {"x": middle, "y": 4, "class": "xl-axis xl-mid", "style": f"--hue:{HUES[0]}"},
        f"{clean(long[0])} ↻",
    )
    return centers, [name], 2 * middle, 2 * middle - 8


def hull(points: Sequence[Place], around: tuple[float, float] = (29, 24)) -> str:
    """The outline around devices of these centers, as a path.

    >>> hull([(0, 0)], (1, 1))
    'M-1 -1L1 -1L1 1L-1 1Z'
    """
    a, b = around
    corners = sorted({(x + i * a, y + j * b) for x, y in points for i in (-1, 1) for j in (-1, 1)})

    def half(found):
        out: list[Place] = []
        for p in found:
            while len(out) > 1 and _turn(out[-2], out[-1], p) <= 0:
                out.pop()
            out.append(p)
        return out[:-1]

    path = half(corners) + half(corners[::-1])
    return "M" + "L".join(f"{decimal(x)} {decimal(y)}" for x, y in path) + "Z"


def _turn(a: Place, b: Place, c: Place) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def node_place(points: Sequence[Place], taken: Sequence[Box]) -> Place:
    """Where the node of a group stands: among its devices; beside them where they stand in a line, or another is there.

    >>> node_place([(0, 0), (148, 0)], [(-22, -17, 22, 17), (126, -17, 170, 17)])
    (74.0, 0.0)
    >>> node_place([(0, 0), (0, 86), (0, 172)], [])
    (74.0, 86.0)
    """
    x, y = (sum(p[k] for p in points) / len(points) for k in (0, 1))
    tries = [(0, 0), (74, 0), (0, 43), (74, 43), (-74, 0), (0, -43), (-74, -43)]
    if len(points) > 2 and len({p[0] for p in points}) == 1:
        tries = tries[1:2] + tries
    if len(points) > 2 and len({p[1] for p in points}) == 1:
        tries = tries[2:3] + tries
    for dx, dy in tries:
        box = (x + dx - 15, y + dy - 15, x + dx + 15, y + dy + 15)
        if not any(
            box[0] < right and left < box[2] and box[1] < low and top < box[3]
            for left, top, right, low in taken
        ):
            break
    return x + dx, y + dy


def sums(r: Replay, groups: Sequence[Sequence[int]], back: bool) -> Node | None:
    """Each group with the node that its values go into: one that gives the result to all, or one at each device for its own block."""
    centers, labels, width, height = places(r.mesh)
    known = [[d for d in g if d in centers] for g in groups]
    if not back and max(map(len, known)) > MOST_RANKS:
        return None
    hue = (
        HUES[r.mesh.axis_names.index(r.axes[0]) % 6]
        if r.axes and r.axes[0] in r.mesh.axis_names
        else HUES[0]
    )
    largest = max(1, r.bytes_in, r.bytes_out)
    sign = SIGNS.get(r.reduction, r.reduction)
    taken = boxes_of(centers)
    hulls, arrows, nodes = [], [], []
    for number, group in enumerate(g for g in known if g):
        here = [centers[d] for d in group]
        hulls.append(h("path", {"d": hull(here), "class": "xl-hull", "data-group": number}))
        if back:
            x, y = node_place(here, taken)
            taken.append((x - 15, y - 15, x + 15, y + 15))
            where = f"{sign} of devices {', '.join(map(str, group))}"
            nodes.append(_sum_node(x, y, sign, where))
            for d in group:
                arrows.append(arrow(centers[d], (x, y), r.bytes_in, largest, taken))
                arrows.append(arrow((x, y), centers[d], r.bytes_out, largest, taken))
            continue
        for k, d in enumerate(group):
            x, y = centers[d][0] + 22, centers[d][1] - 17
            nodes.append(_sum_node(x, y, f"{sign}{k}", f"{sign} of block {k}, on device {d}"))
            for other in group:
                if other != d:
                    arrows.append(arrow(centers[other], centers[d], r.bytes_out, largest, taken))  # fmt: skip
    devices = [
        n
        for d, (x, y) in centers.items()
        for n in (
            h("rect", {"x": x - 22, "y": y - 17, "width": 44, "height": 34, "rx": 3, "class": "xl-cell"}),
            h("text", {"x": x, "y": y + 4, "class": "xl-cell-label"}, d),
        )
    ]  # fmt: skip
    words = (
        f"{plural(len(known), 'group')}: the values of each go into {sign}, and its devices get what comes of it"
        if back
        else f"{plural(len(known), 'group')}: each device gets its own block of the {sign} of its group"
    )
    return _figure(
        h(
            "svg",
            {
                "viewBox": f"-8 -16 {width + 16:g} {height + 24:g}",
                "width": f"{width + 16:g}",
                "height": f"{height + 24:g}",
                "role": "img",
                "class": "xl-meaning",
                "aria-label": words,
                "style": f"--hue:{hue}",
            },
            *hulls,
            arrows_node(arrows),
            *labels,
            *devices,
            *nodes,
        ),
        words,
    )


def _sum_node(x: float, y: float, sign: str, words: str) -> Node:
    wide = 13 if len(sign) < 3 else 17
    return h(
        "g",
        {"class": "xl-sum-node", "data-tip": words},
        h("ellipse", {"cx": decimal(x), "cy": decimal(y), "rx": wide, "ry": 13}),
        h("text", {"x": decimal(x), "y": decimal(y + 4)}, clean(sign)),
    )


def matrix(r: Replay, groups: Sequence[Sequence[int]]) -> Node | None:
    """Blocks before and after an exchange: what stands in a row stands in a column then. The page moves them."""
    group = groups[0]
    n = len(group)
    if n > MOST_RANKS:
        return None
    wide, tall = BLOCK
    left, top, between = 58.0, 34.0, 120.0
    second = left + n * wide + between
    width, height = second + n * wide + 8, top + n * tall + 8
    axis = r.mesh.axis_names.index(r.axes[0]) if r.axes and r.axes[0] in r.mesh.axis_names else 0
    slots: list[Any] = []
    for x, words in ((left, "sent to"), (second, "came from")):
        slots.append(h("text", {"x": x - 6, "y": 12, "class": "xl-cell-label", "style": "text-anchor:end"}, "device"))  # fmt: skip
        slots.append(h("text", {"x": x + n * wide / 2, "y": 12, "class": "xl-cell-label"}, words))
        for k, d in enumerate(group):
            slots += [
                h("text", {"x": x + (k + 0.5) * wide, "y": top - 8, "class": "xl-cell-label"}, d),
                h("text", {"x": x - 14, "y": top + (k + 0.7) * tall, "class": "xl-cell-label"}, d),
            ]
            slots += [
                h("rect", {"x": x + i * wide + 1, "y": top + k * tall + 1, "width": wide - 2, "height": tall - 2, "class": "xl-slot"})
                for i in range(n)
            ]  # fmt: skip
    middle = left + n * wide + between / 2 - 18
    slots.append(h("text", {"x": middle, "y": top + n * tall / 2 + 6, "class": "xl-turn"}, "→"))
    blocks = []
    for s in range(n):
        shade = 62 - round(46 * s / (n - 1))
        for d in range(n):
            x, y = left + d * wide, top + s * tall
            to_x, to_y = second + s * wide, top + d * tall
            for kind, (at_x, at_y) in (("xl-before", (x, y)), ("xl-after", (to_x, to_y))):
                blocks.append(
                    h(
                        "g",
                        {
                            "class": f"xl-block {kind}",
                            "style": f"--dx:{to_x - x:g}px;--dy:{to_y - y:g}px",
                            "data-tip": f"block {d} of device {group[s]} goes to device {group[d]}",
                        },
                        h(
                            "rect",
                            {
                                "x": at_x + 1, "y": at_y + 1, "width": wide - 2, "height": tall - 2, "class": "xl-band",
                                "style": f"--h:{HUES[axis % 6]};--p:{shade}%",
                            },
                        ),
                        h("text", {"x": at_x + wide / 2, "y": at_y + tall * 0.7, "class": "xl-entry"}, f"{group[s]}→{group[d]}"),
                    )
                )  # fmt: skip
    words = f"blocks of devices {', '.join(map(str, group))}: row by row before, and each row a column afterwards"
    if len(groups) > 1:
        words += f"; {plural(len(groups) - 1, 'other group')} alike"
    return _figure(
        h(
            "svg",
            {
                "viewBox": f"0 0 {width:g} {height:g}",
                "width": f"{width:g}",
                "height": f"{height:g}",
                "role": "img",
                "class": "xl-meaning xl-exchange",
                "aria-label": words,
            },
            *slots,
            *blocks,
        ),
        words,
    )


def _figure(svg: Node, words: str) -> Node:
    return h("div", {"class": "xl-meaning-figure"}, svg, h("p", {"class": "xl-dim"}, words))
