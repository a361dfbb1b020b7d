"""The sharding view: arrays as blocks, for any rank, beside the mesh they lie on.

A page with a script lists every array and draws the one that is chosen from its spec; without one, the first arguments and
outputs are drawn and the others are named.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import HUES, Drawn, Node, clean, h, key, panel, unshown, warning
from xlab.notebook.views.grids import tables
from xlab.notebook.views.mesh import (
    CELL,
    Cells,
    axis_legend,
    cell,
    label_of,
    mesh_svg,
    svg,
    used_axes,
)
from xlab.notebook.views.tabs import add_tab, report_mesh
from xlab.observe.records import ArrayLayout, MeshInfo
from xlab.observe.records.layout import layout_line, place_text, places
from xlab.observe.records.units import size_text
from xlab.observe.sharding.intermediates import blocks_of

MOST_CELLS = 1024
MOST_FACETS = 16
MOST_DRAWN = 3
"""Pictures in a page without a script."""

MOST_DEVICES = 128
"""Devices of the largest mesh that is drawn without a script."""

MOST_OPEN = 2
MOST_LINES = 30
ARROW = " → "
MORE = re.compile(r"… (\d+) more steps …")


def blocks_svg(layout: ArrayLayout) -> Node:
    """The array as blocks: the last two dimensions as a grid, leading ones as facets."""
    cuts, cells = places(layout)
    if not cells:
        return h("p", {"class": "xl-dim"}, "no block known")
    if len(cells) > MOST_CELLS:
        return h(
            "p",
            {"class": "xl-dim"},
            f"{len(cells):,} different blocks: too many to draw (limit {MOST_CELLS})",
        )
    rank = len(cuts)
    used = used_axes(layout)
    spec = layout.type.spec
    if spec is None or len(spec) != rank:
        spec = ((),) * rank
    rows = cuts[-2] if rank > 1 else [(0, 1)]
    cols = cuts[-1] if rank else [(0, 1)]
    facets = sorted({k[:-2] for k in cells}) if rank > 2 else [()]
    shown = facets[:MOST_FACETS]
    longest = max(len(label_of(d, 400)) for d in cells.values())
    w = max(CELL[0], min(longest, 24) * 7 + 12) if len(cols) <= 12 else 44
    hgt = CELL[1] if len(rows) <= 12 else 24
    names = [f"@{'+'.join(axes)}" if axes else "" for axes in spec]
    left, top = max([64, *(8 * len(n) + 26 for n in names[-2:-1])]), 34
    across = len(shown) if len(shown) < 4 else 4
    fw, fh = left + w * len(cols) + 18, top + hgt * len(rows) + 14
    hue = dict(zip(layout.mesh.axis_names, HUES * 2, strict=False)) if layout.mesh else {}

    def label(x: float, y: float, words: str, dim: int, end: str = "") -> Node:
        first = next(iter(spec[dim]), "")
        style = f"--hue:{hue[first]}" if first in hue and "@" in words else None
        return h("text", {"x": x, "y": y, "class": f"xl-axis{end}", "style": style}, words)

    parts: list[Any] = []
    drawn = Cells()
    for n, facet in enumerate(shown):
        ox, oy = (n % across) * fw, (n // across) * fh
        if facet:
            spans = ", ".join("{}:{}".format(*cuts[d][i]) for d, i in enumerate(facet))
            parts.append(
                h("text", {"x": ox + left, "y": oy + 10, "class": "xl-facet"}, f"[{spans}, …]")
            )
        if rank:
            parts.append(label(ox + left, oy + top - 8, f"dim {rank - 1} {names[-1]} →", -1))
        if rank > 1:
            parts.append(label(ox + left - 8, oy + top + 12, f"dim {rank - 2}", -2, " xl-end"))
        if rank > 1 and names[-2]:
            parts.append(label(ox + left - 8, oy + top + 26, f"{names[-2]} ↓", -2, " xl-end"))
        for i, row in enumerate(rows):
            for j, col in enumerate(cols):
                devices = cells.get((*facet, i, j) if rank > 1 else (j,) if rank else ())
                if devices is None:
                    continue
                spans = (
                    [cuts[d][f] for d, f in enumerate(facet)]
                    + ([row] if rank > 1 else [])
                    + ([col] if rank else [])
                )
                where = f"{layout.name or 'x'}[{', '.join(f'{a}:{b}' for a, b in spans)}]"
                held = ",".join(map(str, devices[:16])) + ("…" if len(devices) > 16 else "")
                word = "device" if len(devices) == 1 else f"{len(devices)} devices:"
                tip = f"{word} {held}   {where}   {size_text(layout.bytes_per_device)}"
                cell(
                    ox + left + j * w,
                    oy + top + i * hgt,
                    w,
                    hgt,
                    devices,
                    used,
                    layout.mesh,
                    tip,
                    label_of(devices, w),
                    drawn,
                )
    width, height = across * fw, -(-len(shown) // across) * fh
    more = len(facets) - len(shown)
    return h(
        "div",
        None,
        svg(width, height, f"{layout.name} as blocks", [*parts, *drawn.nodes()]),
        unshown(more, "more facet", " not drawn"),
    )


def _pair(layout: ArrayLayout, mesh: MeshInfo, again: bool) -> Node:
    """The blocks beside the mesh; tables in a saved page whose script draws them `again`."""
    pictures = blocks_svg(layout), mesh_svg(mesh, layout)
    if again and (shorter := tables(layout)):
        pictures = tuple(map(Drawn, pictures, shorter))  # type: ignore[assignment]
    array, place = pictures
    return h(
        "div",
        {"class": "xl-pair"},
        h("figure", None, h("figcaption", None, "array"), array),
        h("figure", None, h("figcaption", None, "mesh"), place),
    )


def layout_node(layout: ArrayLayout, opened: bool = True, again: bool = False) -> Node:
    """One array: its sentence, its blocks beside the mesh, why it lies so, what is wrong with it. A script may draw it `again`."""
    body: list[Any] = []
    mesh = layout.mesh
    if mesh and mesh.size > MOST_DEVICES:
        body.append(
            h("p", {"class": "xl-dim"}, f"{mesh.size:,} devices: the page's script draws them")
        )
    elif mesh and mesh.size > 1 and layout.blocks:
        body.append(_pair(layout, mesh, again))
    if layout.why:
        chains = [h("div", None, chain) for chain in layout.why]
        body.append(h("div", {"class": "xl-why"}, h("b", None, "why "), h("div", None, *chains)))
    body += [warning(w) for w in layout.warnings]
    facts = [layout.role, "committed" if layout.committed else "uncommitted", layout.memory_kind]
    body.append(h("p", {"class": "xl-dim"}, " · ".join(f for f in facts if f)))
    return h(
        "details",
        {
            "open": "" if opened else None,
            "class": "xl-layout",
            "data-eq": key(layout.program, layout.equation),
        },
        h(
            "summary",
            None,
            h("code", None, layout_line(layout)),
            h("b", {"class": "xl-sign"}, " ⚠") if layout.warnings else None,
        ),
        *body,
    )


_ORDER = {"argument": 0, "output": 1, "": 2, "intermediate": 3}
_TITLES = {
    "argument": "Arguments",
    "output": "Outputs",
    "": "Arrays",
    "intermediate": "Intermediates",
}


def layouts_panel(layouts: tuple[ArrayLayout, ...], mesh: MeshInfo | None) -> Node:
    """The Shardings tab without a script: some arguments and outputs drawn, those with warnings first, the others in a list."""
    if not layouts:
        return panel(
            "shardings",
            "Shardings",
            mesh_svg(mesh) if mesh else None,
            h("p", {"class": "xl-dim"}, "Every array is on one device."),
        )
    outside = [i for i, x in enumerate(layouts) if x.role != "intermediate"]
    first = sorted(
        outside, key=lambda i: (not layouts[i].warnings, _ORDER.get(layouts[i].role, 2), i)
    )
    drawn = set(first[:MOST_DRAWN])
    children: list[Any] = []
    placed = sorted(range(len(layouts)), key=lambda i: _ORDER.get(layouts[i].role, 2))
    for role, group in itertools.groupby(placed, key=lambda i: layouts[i].role):
        found = list(group)
        children.append(
            h("h3", None, _TITLES.get(role, role), h("small", None, f" {len(found):,}"))
        )
        pictures = [
            layout_node(layouts[i], bool(layouts[i].warnings) or n < MOST_OPEN, again=True)
            for n, i in enumerate(found)
            if i in drawn
        ]
        children.append(h("div", {"class": "xl-layouts"}, pictures) if pictures else None)
        children.append(_listed([layouts[i] for i in found if i not in drawn]))
    return panel(
        "shardings",
        "Shardings",
        axis_legend(mesh) if mesh else None,
        h("div", {"class": "xl-layouts-static"}, children),
    )


def _listed(layouts: list[ArrayLayout]) -> Node | None:
    """Layouts as lines, those with warnings first; a cut says how many more there are."""
    if not layouts:
        return None
    flagged = [x for x in layouts if x.warnings]
    shown = [*flagged, *(x for x in layouts if not x.warnings)][:MOST_LINES]
    lines: list[str] = []
    for _, alike in itertools.groupby(
        shown, key=lambda x: (x.warnings, x.name and x.type.text + place_text(x))
    ):
        first, *others = alike
        names = ", ".join(x.name for x in (first, *others)) if first.name else ""
        lines += [layout_line(first.replace(name=names)), *(f"  ⚠ {w}" for w in first.warnings)]
        if not first.name:
            lines += [layout_line(x) for x in others]
    more = len(layouts) - len(shown)
    return h(
        "details",
        None,
        h(
            "summary",
            None,
            f"{len(shown)} more" if not more else f"the first {len(shown)}",
        ),
        h("pre", None, "\n".join(lines)),
        unshown(
            more,
            "more array",
            " not listed here: the page's script and observe.text(report, limit=None) list all",
        ),
    )


def layouts_data(layouts: tuple[ArrayLayout, ...]) -> dict[str, Any]:
    """What the page needs to list and draw every array: texts once each, blocks only where the spec does not give them."""
    words: dict[str, int] = {}
    forms: dict[Any, int] = {}
    chains: dict[tuple[int, ...], int] = {}
    whys: dict[tuple[int, ...], int] = {(): 0}
    meshes: dict[MeshInfo, int] = {}
    told: dict[Any, bool] = {}

    def word(text: str) -> int:
        return words.setdefault(clean(text), len(words))

    rows, listed, warned = [], [], {}
    for i, x in enumerate(sorted(layouts, key=lambda x: _ORDER.get(x.role, 2))):
        at = meshes.setdefault(x.mesh, len(meshes)) if x.mesh is not None else -1
        form = (
            x.type,
            at,
            x.shard_shape,
            x.copies,
            x.bytes_per_device,
            x.bytes_total,
            x.memory_kind,
            x.committed,
            place_text(x),
        )
        steps = (
            tuple(
                -2 - int(cut[1]) if (cut := MORE.fullmatch(s)) else word(s)
                for s in chain.split(ARROW)
            )
            for chain in x.why
        )
        why = tuple(chains.setdefault(c, len(chains)) for c in steps)
        rows.append(
            [
                forms.setdefault(form, len(forms)),
                _ORDER.get(x.role, 2),
                x.program,
                x.equation,
                whys.setdefault(why, len(whys)),
                word(x.name),
            ]
        )
        if x.warnings:
            warned[i] = [clean(w) for w in x.warnings]
        if x.blocks and x.mesh is not None:
            known = x.type.spec, x.type.shape, x.mesh, x.blocks
            if known not in told:
                told[known] = follows(x)
            if not told[known]:
                listed.append(
                    [
                        i,
                        *(
                            n
                            for b in x.blocks
                            for n in (b.device, *(e for s in b.slices for e in s))
                        ),
                    ]
                )
    return {
        "meshes": [mesh_data(m) for m in meshes],
        "words": list(words),
        "forms": [
            {
                "type": clean(t.text),
                "dtype": clean(t.dtype),
                "shape": [n if isinstance(n, int) else -1 for n in t.shape],
                "spec": [list(map(clean, axes)) for axes in t.spec] if t.spec is not None else None,
                "mesh": at,
                "shard": list(shard),
                "copies": copies,
                "each": each,
                "total": total,
                "kind": clean(kind),
                "committed": committed,
                "place": clean(place),
            }
            for t, at, shard, copies, each, total, kind, committed, place in forms
        ],
        "chains": _columns(chains),
        "whys": _columns(whys),
        "rows": _columns(rows),
        "blocks": listed,
        "warned": {str(i): w for i, w in warned.items()},
    }


def _columns(rows: Iterable[Sequence[int]]) -> list[list[int]]:
    """Rows as columns, short rows filled up with -1: numbers below one another differ little, and pack to nothing.

    >>> _columns([(5, 6), (7,)])
    [[5, 7], [6, -1]]
    """
    return [list(column) for column in itertools.zip_longest(*rows, fillvalue=-1)]


def mesh_data(mesh: MeshInfo) -> dict[str, Any]:
    """A mesh as the page draws it; ids and hosts only where they say something."""
    return {
        "names": [clean(n) for n in mesh.axis_names],
        "sizes": list(mesh.axis_sizes),
        "ids": list(mesh.device_ids) if mesh.device_ids != tuple(range(mesh.size)) else [],
        "hosts": list(mesh.hosts) if len(set(mesh.hosts)) > 1 else [],
    }


def follows(x: ArrayLayout) -> bool:
    """Whether the blocks follow from the spec, so that the page can compute them."""
    known = set(x.mesh.axis_names) if x.mesh else set()
    spec = x.type.spec
    if (
        spec is None
        or len(spec) != len(x.type.shape)
        or not all(a.split(":")[0] in known for axes in spec for a in axes)
    ):
        return False
    shape = tuple(n for n in x.type.shape if isinstance(n, int))
    return (
        x.mesh is not None
        and len(shape) == len(spec)
        and blocks_of(x.mesh, spec, shape) == x.blocks
    )


class LayoutView(View):
    """One array on its devices.

    >>> from xlab.observe.records import Type
    >>> LayoutView().title(ArrayLayout("x", Type("f32", (8,))))
    'x'
    """

    name = "layout"
    record_type = ArrayLayout
    height = 360

    def tree(self, record: ArrayLayout) -> Node:
        """Blocks beside the mesh."""
        body = [axis_legend(record.mesh)] if record.mesh else []
        return h(
            "article",
            {"class": "xl xl-report"},
            panel(
                "shardings",
                "Sharding",
                *body,
                h("div", {"class": "xl-layouts-static"}, layout_node(record)),
            ),
        )

    def data(self, record: ArrayLayout) -> dict[str, Any]:
        """The layout as the page draws it; small ones stand in the page already."""
        return {
            "layouts": layouts_data((record,))
            if record.mesh and record.mesh.size > MOST_DEVICES
            else None
        }


add_tab(
    "shardings",
    "Shardings",
    20,
    lambda report: layouts_panel(report.layouts, report_mesh(report)) if report.layouts else None,
    lambda report: {"layouts": layouts_data(report.layouts)},
)
