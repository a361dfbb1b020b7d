"""Layered graph layout (Sugiyama), linear in the number of edges; used by `program.to_svg()`.

Layers by longest path, order by barycenters, places by their mean kept apart; edges over more than `REACH` layers leave the
drawing and run in lanes at its side, one lane per source, so that they are bundled. `notebook/js/views/sugiyama.js` is the same
in the page, and a test holds the two together.

>>> made = sugiyama_layout([40, 40, 40], [20, 20, 20], [0, 0, 1], [1, 2, 2])
>>> made.x, made.y
([38.5, 20.0, 38.5], [0.0, 46.0, 92.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REACH = 4
_GAP_X, _GAP_Y = 14, 26


@dataclass(frozen=True)
class Lane:
    """One source's long edges: where the lane runs, where it starts, and its targets with their tops."""

    x: float
    source: int
    top: float
    targets: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class GraphLayout:
    """Middles and tops of nodes; links as `(x1, y1, x2, y2, source, target or -1 for a bend)`; lanes; the size."""

    x: list[float]
    y: list[float]
    links: list[tuple[float, float, float, float, int, int]]
    lanes: list[Lane]
    width: float
    height: float


def sugiyama_layout(
    widths: Sequence[float],
    heights: Sequence[float],
    sources: Sequence[int],
    targets: Sequence[int],
) -> GraphLayout:
    """Draws a graph whose edges go from earlier to later nodes.

    Args:
        widths, heights: of the nodes.
        sources, targets: of the edges, `sources[i] < targets[i]`.
    """
    n = len(widths)
    ins, outs = _neighbors(n, targets, sources), _neighbors(n, sources, targets)
    layer = _layers(n, ins, outs)
    chains, far = _bends(n, layer, outs)
    row, half, owner = list(layer), [w / 2 for w in widths], list(range(n))
    up: list[int] = []
    down: list[int] = []
    ends: list[int] = []
    first = n
    for v in range(n):
        for i in range(chains[v]):
            row.append(layer[v] + 1 + i)
            half.append(3)
            owner.append(v)
            up.append(v if i == 0 else first + i - 1)
            down.append(first + i)
            ends.append(-1)
        for t in outs[v]:
            span = layer[t] - layer[v]
            if span <= REACH:
                up.append(v if span == 1 else first + span - 2)
                down.append(t)
                ends.append(t)
        first += chains[v]
    x = _places(row, half, up, down)
    layers = max(row, default=-1) + 1
    tallest = [0.0] * layers
    for v in range(n):
        tallest[layer[v]] = max(tallest[layer[v]], heights[v])
    top = [0.0]
    for tall in tallest:
        top.append(top[-1] + tall + _GAP_Y)
    left = min((x[v] - half[v] for v in range(n)), default=0.0)
    right = max((x[v] + half[v] for v in range(n)), default=0.0)
    x = [at - left for at in x]
    y = [top[r] for r in row]
    foot = [y[v] + heights[v] if v < n else y[v] for v in range(len(row))]
    links = [(x[a], foot[a], x[b], y[b], owner[a], end) for a, b, end in zip(up, down, ends)]
    lanes, used = _lanes(far, layer, outs, y, foot, right - left)
    pace = min(5, 800 / used) if used else 0
    return GraphLayout(
        x[:n],
        y[:n],
        links,
        lanes,
        right - left + (_GAP_X + pace * used if used else 0),
        max(0.0, top[layers] - _GAP_Y),
    )


def _neighbors(n: int, of: Sequence[int], to: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(n)]
    for a, b in zip(of, to):
        found[a].append(b)
    return found


def _layers(n: int, ins: list[list[int]], outs: list[list[int]]) -> list[int]:
    """Longest path from above; what depends on one source alone, or on nothing, is drawn where it is used."""
    layer = [0] * n
    free = [False] * n
    for v in range(n):
        layer[v] = max((layer[u] + 1 for u in ins[v]), default=0)
        free[v] = not ins[v] or (len(ins[v]) == 1 and free[ins[v][0]] and len(outs[ins[v][0]]) == 1)
    for v in range(n - 1, -1, -1):
        if free[v] and outs[v]:
            layer[v] = min(layer[t] for t in outs[v]) - 1
    return layer


def _bends(n: int, layer: list[int], outs: list[list[int]]) -> tuple[list[int], list[int]]:
    """How many bends each source's chain has, and the sources with edges beyond reach."""
    chains, far = [], []
    for v in range(n):
        spans = [layer[t] - layer[v] for t in outs[v]]
        chains.append(max((s - 1 for s in spans if s <= REACH), default=0))
        if any(s > REACH for s in spans):
            far.append(v)
    return chains, far


def _places(row: list[int], half: list[float], up: list[int], down: list[int]) -> list[float]:
    """Middles: four sweeps that order the layers, then six that move nodes to the mean of their neighbors."""
    count = len(row)
    above, below = _neighbors(count, down, up), _neighbors(count, up, down)
    layers: list[list[int]] = [[] for _ in range(max(row, default=-1) + 1)]
    for v in range(count):
        layers[row[v]].append(v)
    x = [0.0] * count
    wish = [0.0] * count

    def pack(listed: list[int]) -> None:
        at = 0.0
        for v in listed:
            x[v] = at + half[v]
            at += 2 * half[v] + _GAP_X
        middle = (at - _GAP_X) / 2
        for v in listed:
            x[v] -= middle

    def spread(listed: list[int]) -> None:
        low, high = float("-inf"), float("inf")
        for v in listed:
            x[v] = max(wish[v], low + half[v])
            low = x[v] + half[v] + _GAP_X
        for v in reversed(listed):
            right = min(wish[v], high - half[v])
            high = right - half[v] - _GAP_X
            x[v] = (x[v] + right) / 2

    for listed in layers:
        pack(listed)
    for turn in range(10):
        beside = below if turn % 2 else above
        for listed in layers[1:] if turn % 2 == 0 else layers[-2::-1]:
            for v in listed:
                total = 0.0
                for u in beside[v]:
                    total += x[u]
                wish[v] = total / len(beside[v]) if beside[v] else x[v]
            if turn < 4:
                listed.sort(key=wish.__getitem__)
                pack(listed)
            else:
                spread(listed)
    return x


def _lanes(
    far: list[int],
    layer: list[int],
    outs: list[list[int]],
    y: list[float],
    foot: list[float],
    right: float,
) -> tuple[list[Lane], int]:
    """Lanes are taken by who starts first, and free again below their last target."""
    busy: list[float] = []
    taken = []
    for v in sorted(far, key=foot.__getitem__):
        targets = tuple((t, y[t]) for t in outs[v] if layer[t] - layer[v] > REACH)
        lane = next((i for i, end in enumerate(busy) if end < foot[v]), len(busy))
        busy[lane : lane + 1] = [max(end for _, end in targets)]
        taken.append((lane, v, targets))
    pace = min(5, 800 / len(busy)) if busy else 0
    return [
        Lane(right + _GAP_X + pace * lane, v, foot[v], targets) for lane, v, targets in taken
    ], len(busy)
