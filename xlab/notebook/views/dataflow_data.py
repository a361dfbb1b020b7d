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
from xlab.notebook.views.collective_rows import Layers, lines_of, listed, rows
from xlab.notebook.views.draw import clean, finite, key
from xlab.notebook.views.layout import mesh_data
from xlab.observe.records import ArrayLayout, MeshInfo, Transfer
from xlab.observe.records.structure import Structure
from xlab.observe.records.transfers import transfer_name, transfer_over
from xlab.observe.records.units import plural

MOST_MESSAGES = 4000
"""Messages per collective that are sent to the page; a longer schedule is cut and says so."""


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
    transfers: tuple[Transfer, ...],
    mesh: MeshInfo | None,
    layers: Layers | None = None,
    structures: Mapping[int, Structure] | None = None,
) -> dict[str, Any]:
    """The rows that the script adds, and where, the mesh, the interconnects to choose from, and what the predictions in the records assume."""
    found = mesh_of(transfers, mesh)
    alpha, beta, way = assumed(transfers)
    lines = lines_of(transfers, structures)
    return {
        "later": rows(transfers, listed(transfers, lines)[1], lines, layers, structures),
        "order": [x.transfer if x.heading is None else -1 - x.number for x in lines]
        if any(x.heading for x in lines)
        else [],
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
