"""What the page of a program's collectives is drawn from."""

from __future__ import annotations

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
from xlab.notebook.views.draw import Node, clean, finite, h, key
from xlab.notebook.views.layout import mesh_data
from xlab.observe.records import ArrayLayout, MeshInfo, Program, Transfer
from xlab.observe.records.overlap import overlap_mark
from xlab.observe.records.repeats import LayerPlace, places
from xlab.observe.records.transfers import (
    advice_word,
    alike,
    reason_key,
    sentences,
    transfer_name,
    transfer_origin,
    transfer_over,
    why_of,
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


def listed(transfers: Sequence[Transfer]) -> tuple[list[int], list[int]]:
    """The collectives that a page lists from the start, and those that its script adds: what costs most first, those alike together.

    >>> [len(part) for part in listed([Transfer("all_reduce", bytes_in=n) for n in range(1000)])]
    [40, 260]
    """
    order = [n for g in alike(transfers) for n in g]
    return order[:STILL_ROWS], order[STILL_ROWS:MOST_ROWS]


Layers = Mapping[tuple[int, int], LayerPlace]
"""Where in repeated layers an equation stands, by program and number."""


def layers_of(programs: Sequence[Program]) -> dict[tuple[int, int], LayerPlace]:
    """The places of the equations of some programs that stand in repeated layers."""
    return {(n, at): place for n, p in enumerate(programs) for at, place in places(p).items()}


def rows(
    transfers: Sequence[Transfer], listed: Sequence[int], layers: Layers | None = None
) -> list[Node]:
    """The table rows of some of a report's collectives; a reason that several have is told once."""
    measured = was_measured(transfers)
    first: dict[tuple, int] = {}
    within: dict[int, list[int]] = {}
    for g in alike(transfers):
        within.update(dict.fromkeys(g, g))
        for n in g:
            first.setdefault(reason_key(transfers[n]), n)
    return [
        r
        for i in listed
        for r in row(
            transfers[i],
            i,
            measured,
            within[i],
            first[reason_key(transfers[i])] == i,
            _layers([transfers[n] for n in within[i]], layers or {}),
        )
    ]


def _layers(group: Sequence[Transfer], layers: Layers) -> str:
    """The layers that collectives of one row stand in, where they all stand in the same."""
    found = {layers.get((t.program, t.equation)) for t in group}
    names = {p.layers.label if p else "" for p in found}
    return names.pop() if len(names) == 1 else ""


def was_measured(transfers: Sequence[Transfer]) -> bool:
    """Whether a profile was taken, so that the columns of what was measured are there."""
    return any(t.measured_us is not None for t in transfers)


def row(
    t: Transfer,
    index: int,
    measured: bool = True,
    group: Sequence[int] = (),
    tell: bool = True,
    layers: str = "",
) -> list[Node]:
    """The table rows of one collective: its line and, where it is to be told, why it is there.

    Of several that are alike, the `group`, the first one's row says how many, and the page's script folds the others under it.
    """
    found = key(t.program, t.equation)
    line = str(t.source.line) if t.source else ""
    leads = len(group) > 1 and group[0] == index
    folded = len(group) > 1 and not leads
    cells = [
        h(
            "td",
            None,
            h(
                "span",
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
        h(
            "td",
            {"class": "n", "title": None if folded else t.formula or None},
            time_text(t.predicted_us),
        ),
        *(
            h("td", {"class": "n"}, time_text(us) if us is not None else "–")
            for us in ((t.measured_us, t.wait_us) if measured else ())
        ),
        h(
            "td",
            {
                "class": "xl-added" if t.reshards else None,
                "title": None if folded else t.reason or None,
            },
            transfer_origin(t, "⚠"),
        ),
        h(
            "td",
            {"class": "n", "title": t.source.text.strip() if t.source and not folded else None},
            h("span", {"class": "xl-pick xl-fold"}, f"{len(group)} × line {line}".strip())
            if leads
            else line,
            h("small", {"class": "xl-of-layers"}, layers) if leads and layers else None,
        ),
    ]
    about = {"data-in": group[0] if folded else None, "data-origin": t.origin}
    rows = [h("tr", {"data-eq": found, "data-row": index, **about}, *cells)]
    if tell and (t.reason or t.fix):
        rows.append(
            h(
                "tr",
                {"class": "xl-reason", "data-of": index, **about},
                h(
                    "td",
                    {"colspan": len(HEAD)},
                    h(
                        "div",
                        None,
                        why_of(t.replace(fix="")) + " " * bool(t.fix),
                        h("span", None, h("b", None, advice_word(t.tried)), sentences(t.fix, ""))
                        if t.fix and not t.pattern
                        else None,
                    ),
                ),
            )
        )
    return rows


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


def flow_data(
    transfers: tuple[Transfer, ...], mesh: MeshInfo | None, layers: Layers | None = None
) -> dict[str, Any]:
    """The rows that the script adds, the mesh, the interconnects to choose from, and what the predictions in the records assume."""
    found = mesh_of(transfers, mesh)
    alpha, beta, way = assumed(transfers)
    return {
        "later": rows(transfers, listed(transfers)[1], layers),
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
