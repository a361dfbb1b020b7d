"""Draws a mesh in its own coordinates, for any number of axes.

Each mesh axis has one hue and each index along it one lightness; a band per axis names the device's place, and an axis
along which the array is replicated is hatched. Device ids are always written, so color is never the only carrier.
"""

from __future__ import annotations

import itertools
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import HUES, Node, decimal, h, panel
from xlab.observe.records import ArrayLayout, MeshInfo
from xlab.observe.records.units import size_text

CELL = (62, 34)


def coordinates(mesh: MeshInfo) -> dict[int, tuple[int, ...]]:
    """Return each device's place in the mesh.

    >>> coordinates(MeshInfo(("a", "b"), (2, 2), (0, 1, 2, 3)))[2]
    (1, 0)
    """
    ids = mesh.device_ids or tuple(range(mesh.size))
    return dict(zip(ids, itertools.product(*map(range, mesh.axis_sizes)), strict=True))


def shade(axis: int, index: int, size: int) -> str:
    """The style of one index along one axis: the axis' hue, lighter with the index."""
    part = 100 - round(52 * index / max(1, size - 1)) if size > 1 else 100
    return f"--h:{HUES[axis % 6]}" + f";--p:{part}%" * (part < 100)


def used_axes(layout: ArrayLayout) -> set[str]:
    return {a for axes in layout.type.spec or () for a in axes}


def cell(
    x: float,
    y: float,
    w: float,
    hgt: float,
    devices: list[int],
    layout_axes: set[str] | None,
    mesh: MeshInfo | None,
    tip: str,
    label: str,
    cells: Cells,
) -> None:
    """A rectangle with its devices written in it and one band per mesh axis along its foot, added to `cells`."""
    tint = ""
    if mesh and devices:
        place = coordinates(mesh).get(devices[0])
        wide = (w - 4) / len(mesh.axis_names)
        for k, (name, size) in enumerate(zip(mesh.axis_names, mesh.axis_sizes, strict=True)):
            if place is None or size == 1:
                continue
            split = layout_axes is None or name in layout_axes
            cells.bands.setdefault(shade(k, place[k], size) if split else "", []).append(
                box(x + 2 + wide * k, y + hgt - 7, wide - 1, 5)
            )
        first = next(
            (
                k
                for k, n in enumerate(mesh.axis_names)
                if layout_axes is not None and n in layout_axes
            ),
            None,
        )
        if place is not None and (layout_axes is None or first is not None):
            k = first or 0
            tint = shade(k, place[k], mesh.axis_sizes[k])
    block = h(
        "g",
        {"class": "xl-block", "data-dev": " ".join(map(str, devices)) or None},
        h("title", None, tip),
        h("path", {"d": box(x, y, w, hgt)}),
        h("text", {"x": x + w / 2, "y": y + hgt / 2 + 1}, label),
    )
    cells.tints.setdefault(tint, []).append(block)


def box(x: float, y: float, w: float, hgt: float) -> str:
    """A rectangle as a path: shorter, and those of one shade are one path.

    >>> box(2, 3, 40, 5)
    'M2,3h40v5h-40z'
    """
    return f"M{decimal(x)},{decimal(y)}h{decimal(w)}v{decimal(hgt)}h-{decimal(w)}z"


class Cells:
    """The cells of a picture and their bands, each shade written once: there are few shades, and many cells."""

    def __init__(self) -> None:
        self.tints: dict[str, list[Node]] = {}
        self.bands: dict[str, list[str]] = {}
        """Rectangles by their shade; those of no shade are hatched."""

    def nodes(self) -> list[Node]:
        """All that is drawn."""
        drawn: list[Node] = []
        bands = {look: "".join(at) for look, at in self.bands.items()}
        for look, blocks in self.tints.items():
            if not look:
                drawn += blocks
                continue
            own = h("path", {"d": bands.pop(look), "class": "xl-band"}) if look in bands else None
            drawn.append(h("g", {"class": "xl-tint", "style": look}, blocks, own))
        for look, at in bands.items():
            name = "xl-band" if look else "xl-band xl-hatch"
            drawn.append(h("path", {"d": at, "style": look or None, "class": name}))
        return drawn


def label_of(devices: list[int], width: float) -> str:
    whole = ",".join(map(str, devices))
    fits = max(1, int(width / 7))
    return whole if len(whole) <= fits else f"{devices[0]} +{len(devices) - 1}"


def svg(width: float, height: float, label: str, parts: list[Any]) -> Node:
    return h(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {height:g}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-label": label,
        },
        *parts,
    )


def mesh_places(
    mesh: MeshInfo, w: float = 46, hgt: float = 34, gaps: tuple[float, float] = (0, 0)
) -> tuple[dict[int, tuple[float, float]], list[Any], float, float]:
    """Return device centers, axis labels, width and height: last axis across, the one before down, others as small multiples."""
    sizes = (1, 1, *mesh.axis_sizes)
    names = ("", "", *mesh.axis_names)
    rows, cols = sizes[-2], sizes[-1]
    outer = list(itertools.product(*map(range, sizes[2:-2]))) if len(sizes) > 4 else [()]
    outer_names = names[2:-2] if len(sizes) > 4 else ()
    # Room for the names of axes: "data 0" beside the rows, "model →" before the columns.
    left = max(8.0, *(7.0 * len(n) + 26 for n in names[-2:] if n), 66.0 if names[-2] else 8.0)
    top = 34.0 if outer_names else 22.0
    across = min(len(outer), sizes[-3] if outer_names else 1, 4)
    gap, down = gaps
    fw, fh = left + cols * (w + gap) + 12, top + rows * (hgt + down) + 8
    centers: dict[int, tuple[float, float]] = {}
    labels: list[Any] = []
    hue = {n: HUES[i % 6] for i, n in enumerate(mesh.axis_names)}
    for n, lead in enumerate(outer):
        ox, oy = (n % across) * fw, (n // across) * fh
        if lead:
            labels.append(
                h(
                    "text",
                    {"x": ox + left, "y": oy + 11, "class": "xl-facet"},
                    "  ".join(f"{a} {i}" for a, i in zip(outer_names, lead, strict=True)),
                )
            )
        if names[-1]:
            look = f"--hue:{hue[names[-1]]}"
            y = oy + top - 7
            labels.append(
                h(
                    "text",
                    {"x": ox + left - 6, "y": y, "class": "xl-axis xl-end", "style": look},
                    names[-1] + " →",
                )
            )
            labels.append(
                h(
                    "g",
                    {"class": "xl-axis xl-mid", "style": look},
                    *(
                        h("text", {"x": ox + left + j * (w + gap) + w / 2, "y": y}, j)
                        for j in range(cols)
                    ),
                )
            )
        if names[-2]:
            labels.append(
                h(
                    "g",
                    {"class": "xl-axis xl-end", "style": f"--hue:{hue[names[-2]]}"},
                    *(
                        h(
                            "text",
                            {"x": ox + left - 6, "y": oy + top + i * (hgt + down) + hgt / 2 + 4},
                            f"{names[-2]} {i}" if i == 0 else i,
                        )
                        for i in range(rows)
                    ),
                )
            )
        for i in range(rows):
            for j in range(cols):
                at = (n * rows + i) * cols + j
                device = mesh.device_ids[at] if mesh.device_ids else at
                centers[device] = (
                    ox + left + j * (w + gap) + w / 2,
                    oy + top + i * (hgt + down) + hgt / 2,
                )
    return centers, labels, across * fw, -(-len(outer) // across) * fh


def mesh_svg(mesh: MeshInfo, layout: ArrayLayout | None = None) -> Node:
    """The mesh in mesh coordinates, colored by axis; hosts are outlined when there is more than one."""
    w, hgt = 46.0, 34.0
    centers, labels, width, height = mesh_places(mesh, w, hgt)
    held = {b.device: b for b in layout.blocks} if layout else {}
    used = used_axes(layout) if layout else None
    hosts = dict(zip(mesh.device_ids, mesh.hosts, strict=False)) if len(set(mesh.hosts)) > 1 else {}
    outlines: list[Any] = []
    cells = Cells()
    place = coordinates(mesh)
    for device, (x, y) in centers.items():
        where = " ".join(f"{n}={i}" for n, i in zip(mesh.axis_names, place[device], strict=True))
        tip = f"device {device}   {where}" + (f"   host {hosts[device]}" if hosts else "")
        if device in held and layout:
            tip += f"   {layout.name or 'x'}[{', '.join(f'{a}:{b}' for a, b in held[device].slices)}]   {size_text(layout.bytes_per_device)}"
        cell(x - w / 2, y - hgt / 2, w, hgt, [device], used, mesh, tip, str(device), cells)
        if hosts:
            outlines.append(
                h(
                    "rect",
                    {
                        "x": x - w / 2 + 1.5,
                        "y": y - hgt / 2 + 1.5,
                        "width": w - 3,
                        "height": hgt - 3,
                        "class": f"xl-host xl-host{hosts[device] % 3}",
                    },
                )
            )
    return svg(width, height, f"mesh {mesh.text}", [*labels, *cells.nodes(), *outlines])


def axis_legend(mesh: MeshInfo) -> Node:
    """One swatch per axis and index, and the hatch that means replicated."""
    items = [
        h(
            "span",
            {"class": "xl-legend-item"},
            *(
                h("i", {"class": "xl-swatch", "style": shade(k, i, size)})
                for i in range(min(size, 8))
            ),
            f"{name} = {size}",
        )
        for k, (name, size) in enumerate(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    ]
    return h(
        "p",
        {"class": "xl-legend"},
        *items,
        h(
            "span",
            {"class": "xl-legend-item"},
            h("i", {"class": "xl-hatch-css"}),
            "replicated along the axis",
        ),
        h("span", {"class": "xl-legend-item"}, "outline = host")
        if len(set(mesh.hosts)) > 1
        else None,
    )


class MeshView(View):
    """A mesh and its devices.

    >>> MeshView().title(MeshInfo(("data",), (4,)))
    'mesh data=4'
    """

    name = "mesh"
    record_type = MeshInfo
    height = 280
    scripted = False

    def title(self, record: MeshInfo) -> str:
        """The axes with their sizes."""
        return f"mesh {record.text}"

    def tree(self, record: MeshInfo) -> Node:
        """The legend and the mesh in mesh coordinates."""
        return h(
            "article",
            {"class": "xl xl-report"},
            panel("mesh", self.title(record), axis_legend(record), mesh_svg(record)),
        )
