"""What is alive at the peak, under the calls of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xlab.notebook.views.buffers import Alike, alike, alike_node, keys_of, lines_of
from xlab.notebook.views.draw import Node, h, table, unshown
from xlab.notebook.views.headings import call_key, pass_node
from xlab.observe.records import Memory
from xlab.observe.records.peak import RESIDUALS, Alive, at_peak, sizes_by_word
from xlab.observe.records.repeats import LayerPlace
from xlab.observe.records.structure import CallGroup, Place, Structure, grouped
from xlab.observe.records.units import plural, size_text

MOST_ROWS = 14
"""Buffers that are named, the largest; headings count all."""

LEAST = 0.01
"""Part of the peak from which on a call has a heading with nothing named below it."""


class HeldAlike(NamedTuple):
    """Buffers that are alike: their bytes, the call that made them, and a word for what they are."""

    group: Alike
    size: int
    place: Place
    word: str


def held_by_calls(
    alive: list[Alive], s: Structure, places: Mapping[int, LayerPlace] | None = None
) -> tuple[list[HeldAlike], list[CallGroup]]:
    """What is alive, those alike as one, and the groups of these, the largest first; what no call makes is a group without calls."""
    together: dict[tuple[Place, str], list[Alive]] = {}
    for a in alive:
        if a.size:
            together.setdefault((a.place, a.word), []).append(a)
    items: list[HeldAlike] = []
    for (place, word), of in together.items():
        size = {id(a.buffer): a.size for a in of}
        for group in alike([a.buffer for a in of], places):
            group = group._replace(layers="")  # the heading says it
            items.append(HeldAlike(group, sum(size[id(b)] for b in group.members), place, word))
    tree = grouped(s, [(x.place, x.word) for x in items], lambda n: items[n].size)
    alone: dict[str, list[int]] = {}
    for n in tree.items:
        alone.setdefault(items[n].word, []).append(n)
    groups = [
        *tree.parts,
        *(CallGroup(word, (), "", tuple(of), (), sum(items[n].size for n in of)) for word, of in alone.items()),
    ]  # fmt: skip
    return items, sorted(groups, key=lambda g: -g.total)


def peak_by_calls(
    m: Memory, s: Structure, places: Mapping[int, LayerPlace] | None = None
) -> Node | None:
    """What is alive at the peak as a table: calls with their bytes, and the largest buffers in them."""
    alive = at_peak(m, s)
    if m.peak_step < 0 or not alive:
        return None
    items, groups = held_by_calls(alive, s, places)
    whole = max(1, sum(g.total for g in groups))
    order = sorted(range(len(items)), key=lambda n: -items[n].size)
    named = set(order[:MOST_ROWS])
    rows = []
    for top in groups:
        for group, depth in top.walk():
            if group.total < LEAST * whole and named.isdisjoint(group.all_items):
                continue
            rows.append(_heading(m, s, group, depth, whole))
            rows += [_row(m, items[n], depth + 1, whole) for n in group.items if n in named]
    inside = sum(not a.size for a in alive)
    left = order[MOST_ROWS:]
    kept = sizes_by_word(alive).get(RESIDUALS)
    return h(
        "div",
        {"class": "xl-by-call"},
        table((("alive at the peak", ""), ("size", "n"), ("share", "n"), ("line", "n")), rows),
        unshown(sum(len(items[n].group.members) for n in left), "smaller buffer", f" not named, {size_text(sum(items[n].size for n in left))}"),
        h("p", {"class": "xl-dim"}, f"residuals, {size_text(kept)}: made by the forward pass, and kept until the backward pass reads them") if kept else None,
        h("p", {"class": "xl-dim"}, f"{plural(inside, 'buffer')} lie{'s' * (inside == 1)} inside these and count{'s' * (inside == 1)} with them") if inside else None,
    )  # fmt: skip


def _share(size: float, whole: float) -> str:
    return f"{100 * size / whole:.0f} %"


def _heading(m: Memory, s: Structure, group: CallGroup, depth: int, whole: float) -> Node:
    """The row of a call, or of what no call makes."""
    source = s.calls[group.calls[-1]].source if group.calls else None
    place = Place(group.calls[-1], group.word.startswith("backward")) if group.calls else None
    name = h("a", {"data-go": "program"}, group.title) if place else h("b", None, group.title)
    return h(
        "tr",
        {
            "class": "xl-call-row",
            "data-call": call_key(m.program, place) if place else None,
            "style": f"--d:{depth}" if depth else None,
        },
        h("td", None, name, pass_node(group.word)),
        h("td", {"class": "n", "title": f"{group.total:,.0f} B"}, size_text(group.total)),
        h("td", {"class": "n"}, _share(group.total, whole)),
        h("td", {"class": "n"}, source.line if source else ""),
    )


def _row(m: Memory, item: HeldAlike, depth: int, whole: float) -> Node:
    """The row of buffers that are alike."""
    group, size = item.group, item.size
    return h(
        "tr",
        {"data-eq": keys_of(group, m.program), "style": f"--d:{depth}"},
        h("td", None, alike_node(group, m.program)),
        h("td", {"class": "n", "title": f"{size:,} B"}, size_text(size)),
        h("td", {"class": "n"}, _share(size, whole)),
        h("td", {"class": "n"}, lines_of(group)),
    )
