"""Draws a program's buffers: offset and lifetime of each, live bytes per step, and the peak's contents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xlab.notebook.views.draw import Node, decimal, h, key, table, unshown, warning
from xlab.observe.placing.patterns import pattern_of
from xlab.observe.records import Buffer, Memory
from xlab.observe.records.buffers import alive_at, live_bytes
from xlab.observe.records.repeats import LayerPlace
from xlab.observe.records.units import plural, size_text

WIDTH, MAP_HEIGHT, CURVE_HEIGHT, GUTTER = 820, 250, 64, 62
MOST_DRAWN = 100
MOST_COLUMNS = 150
"""Steps of the curve: one attribute holds no more."""

MOST_AT_PEAK = 12
MOST_ALIKE = 3
"""Buffers that stand at one place of layers and are named when their row opens."""

_COUNTER = re.compile(r"\.\d+$")
"""What the compiler puts behind the name of an instruction to tell it from others."""

_KINDS = {
    "argument": "arguments",
    "output": "outputs",
    "temporary": "temporaries",
    "constant": "constants",
}


def places(buffers: tuple[Buffer, ...]) -> tuple[list[tuple[Buffer, int]], int]:
    """Each buffer with the byte it begins at when all allocations lie one after the other, and how many bytes these are.

    Arguments come first, temporaries last. Without the compiler's word every buffer has a place of its own.

    >>> a, b = Buffer("a", 8, "argument", allocation=1), Buffer("t", 4, allocation=0, offset=4)
    >>> [(x.name, at) for x, at in places((b, a))[0]], places((b, a))[1]
    ([('a', 0), ('t', 8)], 12)
    """
    order = {kind: n for n, kind in enumerate(_KINDS)}
    groups: dict[Any, list[Buffer]] = {}
    for n, b in enumerate(buffers):
        groups.setdefault(b.allocation if b.allocation >= 0 else ("own", n), []).append(b)
    at = 0
    out = []
    for group in sorted(
        groups.values(),
        key=lambda g: (min(order.get(b.kind, 9) for b in g), min(b.start for b in g), g[0].name),
    ):
        low = min(b.offset for b in group)
        out += [(b, at + b.offset - low) for b in group]
        at += max(b.offset + b.size for b in group) - low
    return out, at


def map_node(m: Memory) -> Node | None:
    """Bytes over the schedule: a curve of what is alive, and under it every buffer at its place from birth to last use."""
    if not m.buffers:
        return None
    placed, total = places(m.buffers)
    steps = max(b.end for b in m.buffers) + 1
    wide = (WIDTH - GUTTER) / steps
    tall = MAP_HEIGHT / max(total, 1)
    drawn = sorted(placed, key=lambda p: -p[0].size * (p[0].end - p[0].start + 1))[:MOST_DRAWN]
    rects = [
        _rect(b, at, wide, tall, m)
        for b, at in sorted(drawn, key=lambda p: (p[0].start, -p[0].size))
    ]
    top = CURVE_HEIGHT + 22
    peak = GUTTER + (m.peak_step + 0.5) * wide
    # The words stand where there is more room.
    beside = (
        {"x": decimal(peak - 4), "text-anchor": "end"}
        if peak > WIDTH / 2
        else {"x": decimal(peak + 4)}
    )
    marks = (
        [
            h(
                "line",
                {
                    "x1": decimal(peak),
                    "x2": decimal(peak),
                    "y1": 4,
                    "y2": top + MAP_HEIGHT,
                    "class": "xl-peak",
                },
            ),
            h(
                "text",
                beside | {"y": 13, "class": "xl-peak-word"},
                f"peak {size_text(m.peak)}, step {m.peak_step}",
            ),
        ]
        if m.peak_step >= 0
        else []
    )
    left = len(placed) - len(drawn)
    picture = h(
        "svg",
        {
            "width": WIDTH,
            "height": top + MAP_HEIGHT + 22,
            "viewBox": f"0 0 {WIDTH} {top + MAP_HEIGHT + 22}",
            "class": "xl-map",
            "role": "img",
            "aria-label": f"bytes alive over {steps} steps of the schedule, and the place of every buffer",
        },
        *_curve(m, steps, wide),
        h("text", {"x": 0, "y": 13, "class": "xl-map-word"}, "alive"),
        h("text", {"x": 0, "y": top + 10, "class": "xl-map-word"}, "address"),
        h("text", {"x": 0, "y": top + MAP_HEIGHT, "class": "xl-map-word"}, size_text(total)),
        h("g", {"transform": f"translate(0 {top})"}, *rects),
        *marks,
        h("text", {"x": GUTTER, "y": top + MAP_HEIGHT + 15, "class": "xl-map-word"}, "step 0"),
        h(
            "text",
            {"x": WIDTH, "y": top + MAP_HEIGHT + 15, "class": "xl-map-word", "text-anchor": "end"},
            f"{steps - 1}",
        ),
    )
    return h(
        "div",
        None,
        h("div", {"class": "xl-scroll"}, picture),
        unshown(left, "small or short buffer", " not drawn"),
    )


def _rect(b: Buffer, at: int, wide: float, tall: float, m: Memory) -> Node:
    x, y = GUTTER + b.start * wide, at * tall
    width, height = max((b.end - b.start + 1) * wide, 1.0), max(b.size * tall, 1.0)
    peak = m.peak_step < 0 or b.start <= m.peak_step <= b.end
    tip = (
        f"{b.name}   {size_text(b.size)}   {b.kind}   alive {b.start}–{b.end}"
        + ("   at the peak" if peak and m.peak_step >= 0 else "")
        + (f"   line {b.source.line}" if b.source else "")
        + (f"   byte {b.offset} of allocation {b.allocation}" if b.allocation >= 0 else "")
    )
    label = b.name if width > 7 * len(b.name) + 8 and height > 12 else ""
    return h(
        "g",
        {"data-eq": key(m.program, b.equation), "class": "xl-map-buffer"},
        h("title", None, tip),
        h(
            "rect",
            {
                "x": decimal(x),
                "y": decimal(y),
                "width": decimal(width),
                "height": decimal(height),
                "class": f"xl-part-{_KINDS.get(b.kind, 'temporaries')}"
                + ("" if peak else " xl-off"),
            },
        ),
        h("text", {"x": decimal(x + 4), "y": decimal(y + min(height / 2 + 4, 14))}, label)
        if label
        else None,
    )


def _curve(m: Memory, steps: int, wide: float) -> list[Node]:
    """The bytes alive at each step, as an area; of very many steps the highest of each few."""
    alive = live_bytes(m.buffers, steps)
    most = max(alive, default=1) or 1
    each = -(-steps // MOST_COLUMNS)
    points, at = [], -1.0
    for step in range(0, steps, each):
        y = round(18 + CURVE_HEIGHT * (1 - max(alive[step : step + each]) / most), 1)
        if y != at:
            points.append(f"H{decimal(GUTTER + step * wide)}V{y:g}")
            at = y
    base = 18 + CURVE_HEIGHT
    return [
        h("path", {"d": f"M{GUTTER} {base}{''.join(points)}H{WIDTH}V{base}Z", "class": "xl-alive"})
    ]


class Alike(NamedTuple):
    """Buffers of one size and kind that stand at the same place of repeated layers, or one that has no such place."""

    name: str
    members: tuple[Buffer, ...]
    layers: str = ""

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(b.size for b in self.members)


def alike(buffers: Sequence[Buffer], places: Mapping[int, LayerPlace] | None = None) -> list[Alike]:
    """The buffers of a program, those of repeated layers together, in order of the first of each.

    >>> two = [Buffer(f"params[{n}]['w']", 8, "argument") for n in range(2)]
    >>> [(x.name, len(x.members), x.size) for x in alike([*two, Buffer("t", 4)])]
    [("params[*]['w']", 2, 16), ('t', 1, 4)]
    """
    groups: dict[tuple, list[Buffer]] = {}
    layers: dict[tuple, str] = {}
    for n, b in enumerate(buffers):
        place = (places or {}).get(b.equation)
        stem = _COUNTER.sub("", b.name) if place else pattern_of(b.name)
        found: tuple = (b.kind, b.size, stem, n if not place and "*" not in stem else -1)
        if place is not None:
            found += (place.layers.start, place.number)
            layers[found] = place.layers.label
        groups.setdefault(found, []).append(b)
    return [
        Alike(
            at[2] if len(held) > 1 else held[0].name,
            tuple(sorted(held, key=lambda b: (b.start, b.equation))),
            layers.get(at, ""),
        )
        for at, held in groups.items()
    ]


def alike_node(group: Alike, program: int) -> Node:
    """The names of what is alike: one, or one for all that opens."""
    (first, *more), layers = group.members, group.layers
    if not more:
        return h("span", None, h("code", None, first.name), h("small", None, f" {first.kind}"))
    where = f" {first.kind}" + (f", {layers}" if layers else "")
    return h(
        "details",
        {"class": "xl-alike"},
        h(
            "summary",
            None,
            h("code", None, group.name),
            h("b", None, f" ×{len(group.members)}"),
            h("small", None, where),
        ),
        *(
            h(
                "div",
                {"data-eq": key(program, b.equation)},
                h("code", None, b.name),
                h("small", None, f" {size_text(b.size)}, alive {b.start}–{b.end}"),
            )
            for b in group.members[:MOST_ALIKE]
        ),
        h("small", None, f"and {len(group.members) - MOST_ALIKE:,} more")
        if len(group.members) > MOST_ALIKE
        else None,
    )


def keys_of(group: Alike, program: int) -> str | None:
    """The selection keys of what is alike."""
    found = dict.fromkeys(key(program, b.equation) for b in group.members[:MOST_ALIKE])
    return " ".join(k for k in found if k) or None


def lines_of(group: Alike) -> str:
    """The line that made what is alike."""
    found = {b.source.line for b in group.members if b.source}
    return str(found.pop()) if len(found) == 1 else ""


def peak_node(m: Memory, places: Mapping[int, LayerPlace] | None = None) -> Node | None:
    """What is alive at the peak, largest first; what repeated layers hold in one row."""
    found = alive_at(m.buffers, m.peak_step)
    if m.peak_step < 0 or not found:
        return None
    held = {id(b): own for b, own in found if own}
    inside = sum(not own for _, own in found)
    total = max(1, sum(held.values()))
    alive = [
        (group, sum(held[id(b)] for b in group.members))
        for group in alike([b for b, own in found if own], places)
    ]
    alive.sort(key=lambda x: -x[1])
    rows = [
        h(
            "tr",
            {"data-eq": keys_of(group, m.program)},
            h("td", None, alike_node(group, m.program)),
            h(
                "td",
                {
                    "class": "n",
                    "title": f"{own:,} B"
                    + (
                        f" of {group.size:,}, the others in larger buffers"
                        if own < group.size
                        else ""
                    ),
                },
                size_text(own),
            ),
            h("td", {"class": "n"}, f"{100 * own / total:.0f} %"),
            h("td", {"class": "n"}, lines_of(group)),
        )
        for group, own in alive[:MOST_AT_PEAK]
    ]
    left = alive[MOST_AT_PEAK:]
    return h(
        "div",
        None,
        table((("alive at the peak", ""), ("size", "n"), ("share", "n"), ("line", "n")), rows),
        unshown(
            sum(len(g.members) for g, _ in left),
            "more buffer",
            f", {size_text(sum(own for _, own in left))}",
        ),
        h(
            "p",
            {"class": "xl-dim"},
            f"{plural(inside, 'buffer')} lie{'s' * (inside == 1)} inside these and count{'s' * (inside == 1)} with them",
        )
        if inside
        else None,
    )


def donations_node(m: Memory) -> Node | None:
    """Donated arguments: which were used, which were not and why."""
    if not m.donated and not m.refused:
        return None
    size = {b.name: b.size for b in m.buffers if b.kind == "argument"}
    rows = [
        h(
            "tr",
            None,
            h("td", None, h("code", None, name)),
            h("td", {"class": "n"}, size_text(size[name]) if name in size else ""),
            h("td", None, h("b", None, "✓ used: "), "a result lies in its memory"),
        )
        for name in m.donated
    ]
    rows += [
        h(
            "tr",
            {"class": "xl-refused"},
            h("td", None, h("code", None, name)),
            h("td", {"class": "n"}, size_text(size[name]) if name in size else ""),
            h("td", None, h("b", {"class": "xl-caution"}, "⚠ not used: "), why),
        )
        for name, why in m.refused
    ]
    lost = [name for name, _ in m.refused]
    return h(
        "div",
        None,
        table((("donated", ""), ("size", "n"), ("what became of it", "")), rows),
        warning(
            f"{plural(len(lost), 'donated argument')} gone after the call and of no use: {', '.join(lost[:6])}"
        )
        if lost
        else None,
    )
