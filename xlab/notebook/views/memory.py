"""The memory view: what a program keeps, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.buffers import (
    MOST_ALIKE,
    alike,
    alike_node,
    donations_node,
    keys_of,
    lines_of,
    map_node,
    peak_node,
)
from xlab.notebook.views.draw import Node, decimal, h, panel, table, unshown
from xlab.notebook.views.peak_calls import peak_by_calls
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records import Buffer, Memory, Program
from xlab.observe.records.repeats import LayerPlace, places
from xlab.observe.records.structure import Structure, structures_of
from xlab.observe.records.units import plural, size_text

PARTS = (
    ("arguments", "arguments"),
    ("outputs", "outputs"),
    ("temporaries", "temporaries"),
    ("constants", "constants"),
    ("code", "generated code"),
)
MOST_BUFFERS = 40


def memory_node(
    m: Memory,
    places: Mapping[int, LayerPlace] | None = None,
    structure: Structure | None = None,
) -> Node:
    """One program: a bar of its parts, donations, and the largest buffers over the schedule."""
    total = max(1, sum(getattr(m, name) for name, _ in PARTS))
    bars = [
        h(
            "span",
            {
                "class": f"xl-part xl-part-{name}",
                "style": f"flex:{getattr(m, name) / total:.4f} 0 0px",
                "data-tip": f"{word} {size_text(getattr(m, name))}",
                "title": f"{word} {getattr(m, name):,} B",
            },
            f"{word} {size_text(getattr(m, name))}" if getattr(m, name) / total > 0.16 else "",
        )
        for name, word in PARTS
        if getattr(m, name)
    ]
    numbers = [
        h(
            "tr",
            None,
            h("td", None, h("i", {"class": f"xl-key xl-part-{n}"}), w),
            h("td", {"class": "n", "title": f"{getattr(m, n):,} B"}, size_text(getattr(m, n))),
        )
        for n, w in (
            *PARTS,
            ("aliased", "aliased (donations used)"),
            ("total", "in all"),
            ("peak", "peak"),
        )
        if n != "constants" or m.constants
    ]
    parts: list[Any] = [
        h(
            "h3",
            None,
            m.function or "program",
            h("small", None, f" peak {size_text(m.peak)} per device"),
        ),
        h("div", {"class": "xl-stack"}, *bars),
        map_node(m),
        h(
            "div",
            {"class": "xl-pair"},
            table((("per device", ""), ("size", "n")), numbers),
            peak_node(m, places) if structure is None else peak_by_calls(m, structure, places),
            donations_node(m),
        ),
        h(
            "details",
            None,
            h("summary", None, f"{plural(len(m.buffers), 'buffer')}, largest first"),
            buffers_node(m, places),
        )
        if m.buffers
        else None,
    ]
    return h("div", {"class": "xl-memory"}, *parts)


def buffers_node(m: Memory, places: Mapping[int, LayerPlace] | None = None) -> Node | None:
    """The largest buffers: a bar from birth to last use; those alive at the peak are solid. What repeated layers hold is one row."""
    if not m.buffers:
        return None
    groups = sorted(alike(m.buffers, places), key=lambda g: -g.size)
    shown, left = groups[:MOST_BUFFERS], groups[MOST_BUFFERS:]
    end = max(b.end for b in m.buffers) + 1
    rows = [
        h(
            "tr",
            {"data-eq": keys_of(g, m.program)},
            h("td", None, alike_node(g, m.program)),
            h("td", {"class": "n"}, size_text(g.size)),
            h(
                "td",
                {"class": "xl-life"},
                h(
                    "span",
                    {"class": "xl-track"},
                    *(_life(b, m, end) for b in g.members[:MOST_ALIKE]),
                ),
            ),
            h("td", {"class": "n"}, lines_of(g)),
        )
        for g in shown
    ]
    more = sum(len(g.members) for g in left)
    return h(
        "div",
        {"class": "xl-buffers"},
        table(
            (("buffer", ""), ("size", "n"), ("alive over the schedule", ""), ("line", "n")), rows
        ),
        unshown(more, "smaller buffer", f" not listed, {size_text(sum(g.size for g in left))}"),
    )


def _life(b: Buffer, m: Memory, end: int) -> Node:
    """The bar of one buffer over the schedule."""
    alive = m.peak_step < 0 or b.start <= m.peak_step <= b.end
    tip = (
        f"{b.name}   alive {b.start}–{b.end}"
        + ("   at the peak" if alive and m.peak_step >= 0 else "")
        + (f"   byte {b.offset} of allocation {b.allocation}" if b.allocation >= 0 else "")
    )
    part = {"argument": "arguments", "output": "outputs"}.get(b.kind, "temporaries")
    return h(
        "span",
        {
            "class": f"xl-bar xl-part-{part}" + ("" if alive else " xl-off"),
            "style": f"left:{decimal(100 * b.start / end, 2)}%;width:{decimal(100 * (b.end - b.start + 1) / end, 2)}%",
            "title": tip,
        },
    )


def memory_panel(memory: tuple[Memory, ...], programs: Sequence[Program] = ()) -> Node:
    """The Memory tab; `programs` say which buffers are those of repeated layers, and which call made each."""
    structures = structures_of(programs)
    return panel(
        "memory",
        "Memory",
        *(
            (
                memory_node(
                    m,
                    places(programs[m.program]) if 0 <= m.program < len(programs) else None,
                    structures.get(m.program),
                )
                for m in memory
            )
            if memory
            else [
                h("p", {"class": "xl-dim"}, "Nothing was compiled, so nothing is known of memory.")
            ]
        ),
    )


class MemoryView(View):
    """The memory of one compiled program.

    >>> MemoryView().title(Memory("f"))
    'memory of f'
    """

    name = "memory"
    record_type = Memory
    height = 440
    scripted = False

    def title(self, record: Memory) -> str:
        """The program's name."""
        return f"memory of {record.function}"

    def tree(self, record: Memory) -> Node:
        """Bar, table, lifetimes."""
        return h("article", {"class": "xl xl-report"}, memory_panel((record,)))


add_tab(
    "memory",
    "Memory",
    50,
    lambda report: memory_panel(report.memory, report.programs) if report.memory else None,
)
