"""Arrays and meshes as tables, for saved pages: shorter than drawings, their words can be marked, and a host that drops drawings shows them.

A cell is a block or a device; its bands are backgrounds, whose shades `mesh.css` mixes from where its row and column lie along the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlab.notebook.views.draw import Node, h
from xlab.notebook.views.mesh import CELL, coordinates, label_of, used_axes
from xlab.observe.records import ArrayLayout, MeshInfo
from xlab.observe.records.layout import places

MOST_SIDE = 12
"""Rows, and columns, of a table; larger pictures are drawings."""

_SHADES = ("--a", "--b")


def tables(layout: ArrayLayout) -> tuple[Node, Node] | None:
    """An array and its mesh as tables; None for what is drawn: meshes of many axes or of several hosts, blocks that vary in more than two dimensions."""
    mesh = layout.mesh
    if mesh is None or len(mesh.axis_names) > 2 or max(mesh.axis_sizes) > MOST_SIDE:
        return None
    if len(set(mesh.hosts)) > 1:
        return None
    cuts, cells = places(layout)
    if not cells or any(len(of) > 1 for of in cuts[:-2]):
        return None
    if any(len(of) > MOST_SIDE for of in cuts[-2:]):
        return None
    return _blocks(layout, mesh, cuts, cells), _mesh(layout, mesh)


def _table(layout: ArrayLayout, mesh: MeshInfo, name: str, *rows: Node) -> Node:
    """A table whose classes say which axes it is split over: the first of them tints its cells, along the others it is the same."""
    used = used_axes(layout)
    split = [k for k, axis in enumerate(mesh.axis_names) if axis in used]
    looks = [f"xl-by-{split[0]}"] if split else []
    looks += [f"xl-same-{k}" for k in range(len(mesh.axis_names)) if k not in split]
    looks += [f"xl-only-{1 - k}" for k, n in enumerate(mesh.axis_sizes) if n == 1][:1]
    looks += ["xl-cells-line"] * (len(mesh.axis_names) == 1)
    return h("table", {"class": " ".join(("xl-cells", name, *looks)).replace("  ", " ")}, *rows)


def _place(mesh: MeshInfo, device: int) -> list[tuple[str, int]]:
    """How light the shade of each axis is where a device lies: 100 where it is the axis' own."""
    place = coordinates(mesh)[device]
    return [
        (shade, 100 - round(52 * i / (n - 1)) if n > 1 else 100)
        for shade, i, n in zip(_SHADES, place, mesh.axis_sizes)
    ]


def _row(mesh: MeshInfo, head: Node, cells: Sequence[tuple[int, str]]) -> Node:
    """A row of cells, each with the device that it is shaded by; what they share is said of the row."""
    shades = [_place(mesh, device) for device, _ in cells]
    shared = [s for s in shades[0] if s[1] < 100 and all(s in other for other in shades)]
    made = []
    for (_, words), own in zip(cells, shades):
        said = ";".join(f"{n}:{p}%" for n, p in own if p < 100 and (n, p) not in shared)
        made.append(h("td", {"style": said or None}, words))
    look = ";".join(f"{n}:{p}%" for n, p in shared)
    return h("tr", {"style": look or None}, head, *made)


def _hue(mesh: MeshInfo, axes: Sequence[str]) -> str | None:
    """The class of words that are in the hue of the first of these axes."""
    return (
        f"xl-of-{mesh.axis_names.index(axes[0])}" if axes and axes[0] in mesh.axis_names else None
    )


def _blocks(layout: ArrayLayout, mesh: MeshInfo, cuts: list, cells: dict) -> Node:
    rank = len(cuts)
    spec = layout.type.spec
    if spec is None or len(spec) != rank:
        spec = ((),) * rank
    rows, cols = (cuts[-2] if rank > 1 else [None]), (cuts[-1] if rank else [None])
    longest = max(len(label_of(d, 400)) for d in cells.values())
    wide = max(CELL[0], min(longest, 24) * 7 + 12)
    names = [f" @{'+'.join(axes)}" if axes else "" for axes in spec]
    lead = "".join("{}:{}, ".format(*of[0]) for of in cuts[:-2])
    heads = []
    if rank:
        across = h(
            "th",
            {"colspan": len(cols) if len(cols) > 1 else None, "class": _hue(mesh, spec[-1])},
            f"dim {rank - 1}{names[-1]} →",
        )
        heads.append(h("tr", None, h("th", None, f"[{lead}…]" if lead else ""), across))
        down = h(
            "th",
            {"class": _hue(mesh, spec[-2]) if rank > 1 else None},
            f"dim {rank - 2}{names[-2]} ↓" if rank > 1 else "",
        )
        heads.append(h("tr", None, down, *(h("th", None, "{}:{}".format(*col)) for col in cols)))
    body = []
    for i, row in enumerate(rows):
        at = [
            ((0,) * (rank - 2) + (i, j) if rank > 1 else (j,) if rank else ())
            for j in range(len(cols))
        ]
        found = [(cells[where][0], label_of(cells[where], wide)) for where in at]
        head = h("th", None, "{}:{}".format(*row) if row is not None else "")
        body.append(_row(mesh, head, found))
    return _table(layout, mesh, "", *heads, *body)


def _mesh(layout: ArrayLayout, mesh: MeshInfo) -> Node:
    ids = mesh.device_ids or tuple(range(mesh.size))
    wide = mesh.axis_sizes[-1]
    head = h(
        "tr",
        {"class": f"xl-of-{len(mesh.axis_names) - 1}"},
        h("th", None, f"{mesh.axis_names[-1]} →"),
        *(h("th", None, j) for j in range(wide)),
    )
    body = []
    for i in range(mesh.size // wide):
        number = i or f"{mesh.axis_names[0]} 0"
        words = number if len(mesh.axis_names) == 2 else ""
        name = h("th", {"class": "xl-of-0" if words else None}, words)
        body.append(_row(mesh, name, [(d, str(d)) for d in ids[i * wide : (i + 1) * wide]]))
    return _table(layout, mesh, "xl-cells-mesh", head, *body)
