"""The collectives view: a table with origin, cost and reason, then who sends how much to whom, round by round."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xlab.interpreters import communication
from xlab.interpreters.communication_costs import (
    AXIS_ALGORITHMS,
    LINKS,
    formula_of,
    permute_price,
    price,
)
from xlab.notebook.views.base import View
from xlab.notebook.views.draw import HUES, Node, clean, finite, h, key, panel, table
from xlab.notebook.views.layout import MOST_DEVICES, mesh_data
from xlab.notebook.views.mesh import mesh_places
from xlab.notebook.views.tabs import add_tab, arguments_of, report_mesh
from xlab.observe.records import ArrayLayout, MeshInfo, Report, Transfer
from xlab.observe.records.overlap import overlap_mark
from xlab.observe.records.transfers import (
    advice_word,
    sentences,
    transfer_name,
    transfer_origin,
    transfer_over,
)
from xlab.observe.records.units import plural, size_text, time_text

MOST_ROWS = 300
"""Collectives listed; of more, the heaviest."""

STILL_ROWS = 40
"""Those of them, the heaviest, that stand in a page before its script runs: the script adds the others."""

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

MEASURED = ("measured", "wait")
"""Columns that are there where a profile was taken."""

GIVE = re.compile(r"^give `([^`]+)` the sharding (P\(((?:[^`])*)\)) where")


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
    """A sort key by cost: the predicted time if known, else bytes, times how often the collective runs."""
    times = t.times if t.times is not None else 1
    return (
        t.predicted_us if t.predicted_us is not None else max(t.bytes_in, t.bytes_out) / 1e6
    ) * times


def listed(transfers: Sequence[Transfer]) -> tuple[list[int], list[int]]:
    """The collectives that a page lists from the start, and those that its script adds; both in the order of the program.

    >>> [len(part) for part in listed([Transfer("all_reduce", bytes_in=n) for n in range(1000)])]
    [40, 260]
    """
    heaviest = sorted(range(len(transfers)), key=lambda i: -weight(transfers[i]))
    return sorted(heaviest[:STILL_ROWS]), sorted(heaviest[STILL_ROWS:MOST_ROWS])


def rows(transfers: Sequence[Transfer], listed: Sequence[int]) -> list[Node]:
    """The table rows of some of a report's collectives."""
    measured = was_measured(transfers)
    return [r for i in listed for r in row(transfers[i], i, measured)]


def was_measured(transfers: Sequence[Transfer]) -> bool:
    """Whether a profile was taken, so that the columns of what was measured are there."""
    return any(t.measured_us is not None for t in transfers)


def row(t: Transfer, index: int, measured: bool = True) -> list[Node]:
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
            h("small", {"class": "xl-overlap-mark"}, overlap_mark(t.overlap))
            if t.overlap
            else None,
        ),
        h("td", None, transfer_over(t)),
        h(
            "td",
            {"class": "n", "title": f"{t.bytes_in:,} B → {t.bytes_out:,} B"},
            f"{size_text(t.bytes_in)} → {size_text(t.bytes_out)}",
        ),
        h(
            "td",
            {"class": "n"},
            (f"? ({t.runs} measured)" if t.runs else "?") if t.times is None else t.times,
        ),
        h("td", {"class": "n", "title": t.formula or None}, time_text(t.predicted_us)),
        *(
            h("td", {"class": "n"}, time_text(us) if us is not None else "–")
            for us in ((t.measured_us, t.wait_us) if measured else ())
        ),
        h(
            "td",
            {"class": "xl-added" if t.reshards else None},
            transfer_origin(t, "⚠"),
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
                    h(
                        "div",
                        None,
                        sentences(t.reason, "") + " " * bool(t.fix),
                        h("span", None, h("b", None, advice_word(t.tried)), sentences(t.fix, ""))
                        if t.fix
                        else None,
                    ),
                ),
            )
        )
    return rows


def totals(transfers: tuple[Transfer, ...], measured: bool = False) -> Node:
    """What one run sends over each axis, and in all: trips of loops multiplied."""
    found: dict[str, list[Any]] = {}
    for t in transfers:
        times = t.times if t.times is not None else 1
        for name in (transfer_over(t), ""):
            entry = found.setdefault(name, [0, 0, 0, 0.0, 0.0, 0.0])
            entry[0] += 1
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


def frame(t: Transfer, mesh: MeshInfo, number: int = 0) -> Node:
    """The mesh with one round of a collective on it: one arrow per message, as thick as its bytes."""
    centers, labels, width, height = mesh_places(mesh, 44, 34, (104, 40))
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
        for d, (x, y) in centers.items()
    ]
    taken = boxes_of(centers)
    arrows = [
        arrow(centers[a], centers[b], size, largest, taken)
        for a, b, size in (rounds[number] if rounds else [])
        if a in centers and b in centers and a != b
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
        h("text", {"x": f"{at[0]:.1f}", "y": f"{at[1]:.1f}", "class": "xl-bytes"}, word)
        if at is not None
        else None,
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
    still, later = listed(transfers)
    measured = was_measured(transfers)
    lighter = len(transfers) - len(still) - len(later)
    children: list[Any] = [
        h(
            "div",
            {"class": "xl-scroll"},
            table(
                [c for c in HEAD if measured or c[0] not in MEASURED],
                rows(transfers, still),
                "xl-transfers",
            ),
        ),
        h(
            "p",
            {"class": "xl-dim xl-later"},
            f"{plural(len(later), 'lighter collective')} listed by the page's script",
        )
        if later
        else None,
        h("p", {"class": "xl-dim"}, f"{plural(lighter, 'lighter collective')} not listed")
        if lighter
        else None,
        totals(transfers, measured),
    ]
    found = mesh_of(transfers, mesh)
    if found and found.size > MOST_DEVICES:
        largest = max(transfers, key=weight)
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
        largest = max(transfers, key=weight)
        children.append(
            h(
                "div",
                {"class": "xl-stage", "data-transfer": transfers.index(largest)},
                frame(largest, found),
            )
        )
    return panel("collectives", "Collectives", *children)


def mesh_of(transfers: tuple[Transfer, ...], mesh: MeshInfo | None) -> MeshInfo | None:
    """The mesh that collectives are drawn on."""
    return mesh or next((t.mesh for t in transfers if t.mesh), None)


def transfers_data(
    transfers: tuple[Transfer, ...],
    mesh: MeshInfo | None,
    arguments: Mapping[int, Sequence[ArrayLayout]] | None = None,
) -> list[dict[str, Any]]:
    """The page's data to predict and animate each collective; `arguments` of each program, for suggestions."""
    names = mesh.axis_names if mesh else ()
    out = []
    for t in transfers:
        groups = groups_of(t)
        given = (not groups and not t.pairs) or t.kind not in communication.collectives
        rounds, what = rounds_of(t) if given else ([], "")
        here = dict(zip(t.mesh.axis_names, t.mesh.axis_sizes, strict=True)) if t.mesh else {}
        n, sizes = max(map(len, groups), default=1), [here[a] for a in t.axes if a in here]
        out.append(
            {
                "name": clean(transfer_name(t)),
                "over": clean(transfer_over(t)),
                "kind": clean(t.kind),
                "what": what,
                "rounds": rounds,
                "groups": [list(g) for g in groups] if not t.pairs else [],
                "pairs": [list(p) for p in t.pairs[:MOST_MESSAGES]],
                "n": n,
                "sizes": sizes,
                "prices": prices(t, n, sizes, groups),
                "bytes": t.bytes_in,
                "times": t.times,
                "us": finite(t.predicted_us),
                "measured": finite(t.measured_us),
                "wait": finite(t.wait_us),
                "formula": clean(t.formula),
                "origin": clean(t.origin),
                "line": t.source.line if t.source else 0,
                "axes": [clean(a) for a in t.axes],
                "key": key(t.program, t.equation),
                "hue": names.index(t.axes[0]) if t.axes and t.axes[0] in names else 0,
                "attempt": attempt(t, (arguments or {}).get(t.program, ())),
            }
        )
    return out


def groups_of(t: Transfer) -> tuple[tuple[int, ...], ...]:
    """The groups of a collective; of one over whole axes those of its mesh."""
    if t.groups or t.mesh is None or not t.axes or not set(t.axes) <= set(t.mesh.axis_names):
        return t.groups
    ids = t.mesh.device_ids or tuple(range(t.mesh.size))
    rows = communication.in_order(
        communication.CollectiveOp(t.kind, t.axes),
        communication.groups_along(t.mesh.axis_names, t.mesh.axis_sizes, t.axes),
    )
    return tuple(tuple(ids[i] for i in g) for g in rows)


def prices(
    t: Transfer, n: int, sizes: Sequence[int], groups: Sequence[Sequence[int]]
) -> list[list[float]] | None:
    """By algorithm, what the collective takes on any interconnect: steps, bytes of each, bytes over several links, and how many links."""
    if t.kind not in communication.collectives:
        return None
    if communication.by_pairs(t.kind):
        found = [
            permute_price(groups, t.pairs, t.bytes_in, way) for way in communication.ALGORITHMS
        ]
    else:
        found = [
            price(t.kind, max(n, 2), t.bytes_in, way, sizes) for way in communication.ALGORITHMS
        ]
    return (
        None
        if None in found
        else [
            [p.steps, p.size, p.load, p.links] if p.load else [p.steps, p.size]
            for p in found
            if p is not None
        ]
    )


def kinds(transfers: Sequence[Transfer]) -> dict[str, Any]:
    """The page's data for each kind of collective: its phases in order, and its formulas by algorithm."""
    found = {}
    for kind in dict.fromkeys(t.kind for t in transfers if t.kind in communication.collectives):
        made = communication.collectives[kind]
        found[kind] = {
            "stages": list(made.stages),
            "reduces": made.reduces,
            "formulas": [formula_of(made, way) for way in communication.ALGORITHMS],
        }
    return found


def attempt(t: Transfer, arguments: Sequence[ArrayLayout]) -> dict[str, Any] | None:
    """The placement that a suggestion asks for, where it is about an argument: which one, and its spec as lists of axes."""
    found = GIVE.search(t.fix)
    at = next((i for i, x in enumerate(arguments) if found and x.name == found[1]), None)
    if found is None or at is None:
        return None
    entries = re.findall(r"None|'[^']*'|\([^)]*\)", found[3])
    spec = [re.findall(r"'([^']*)'", e) for e in entries]
    spec += [[]] * (len(arguments[at].type.shape) - len(spec))
    return {
        "program": t.program,
        "argument": at,
        "spec": [[clean(a) for a in axes] for axes in spec],
        "text": clean(f"{found[1]} as {found[2]}"),
    }


def flow_data(transfers: tuple[Transfer, ...], mesh: MeshInfo | None) -> dict[str, Any]:
    """The rows that the script adds, the mesh, the interconnects to choose from, and what the predictions in the records assume."""
    found = mesh_of(transfers, mesh)
    alpha, beta, way = assumed(transfers)
    return {
        "later": rows(transfers, listed(transfers)[1]),
        "mesh": mesh_data(found) if found else None,
        "links": [[link.name, link.alpha, link.beta] for link in LINKS.values()],
        "alpha": alpha,
        "beta": beta,
        "way": way,
        "kinds": kinds(transfers),
        "reducing": [k for k, c in communication.collectives.items() if c.reduces],
    }


def assumed(transfers: tuple[Transfer, ...]) -> tuple[float, float, str]:
    """Latency, bandwidth and algorithm of the predictions, as their formulas say.

    >>> assumed((Transfer("all_gather", formula="direct: α + S with n=4, S=8 B, α=1 µs, β=45 GB/s = 3 µs"),))
    (1.0, 45000.0, 'direct')
    """
    alpha, beta, way = LINKS["cpu"].alpha, LINKS["cpu"].beta, "ring"
    for t in transfers:
        found = re.search(r"α=([\d.e+-]+) µs, β=([\d.e+-]+) GB/s", t.formula) or re.search(
            r"·([\d.e+-]+) µs \+ .*/\(([\d.e+-]+) GB/s\)", t.formula
        )
        if found:
            alpha, beta = float(found[1]), float(found[2]) * 1e3
            said = t.formula.split(":")[0]
            if not communication.by_pairs(t.kind):
                said = next((k for k, words in AXIS_ALGORITHMS.items() if words == said), said)
                return alpha, beta, said if said in communication.ALGORITHMS else "ring"
    return alpha, beta, way


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
        return {
            "transfers": transfers_data((record,), record.mesh),
            "flow": flow_data((record,), record.mesh),
        }


def _report_data(report: Report) -> dict[str, Any]:
    mesh = report_mesh(report)
    return {
        "transfers": transfers_data(report.transfers, mesh, arguments_of(report)),
        "flow": flow_data(report.transfers, mesh),
    }


add_tab(
    "collectives",
    "Collectives",
    30,
    lambda report: (
        transfers_panel(report.transfers, report_mesh(report)) if report.transfers else None
    ),
    _report_data,
)
