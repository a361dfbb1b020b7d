"""The memory view (what a program keeps, and when) and the list of compiler passes."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, key, panel, table, warning
from xlab.observe.records import Memory, Pass
from xlab.observe.units import plural, size_text, time_text

PARTS = (
    ("arguments", "arguments"),
    ("outputs", "outputs"),
    ("temporaries", "temporaries"),
    ("code", "generated code"),
)
MOST_BUFFERS = 40
MOST_DIFF = 200


def memory_node(m: Memory) -> Node:
    """One program: a bar of its parts, donations, and the largest buffers over the schedule."""
    total = max(1, sum(getattr(m, name) for name, _ in PARTS))
    bars = [
        h(
            "span",
            {
                "class": f"xl-part xl-part-{name}",
                "style": f"width:{100 * getattr(m, name) / total:.2f}%",
                "data-tip": f"{word} {size_text(getattr(m, name))}",
                "title": f"{word} {getattr(m, name):,} B",
            },
            f"{word} {size_text(getattr(m, name))}" if getattr(m, name) / total > 0.16 else "",
        )
        for name, word in PARTS
    ]
    numbers = [
        h(
            "tr",
            None,
            h("td", None, h("i", {"class": f"xl-key xl-part-{n}"}), w),
            h("td", {"class": "n", "title": f"{getattr(m, n):,} B"}, size_text(getattr(m, n))),
        )
        for n, w in (*PARTS, ("aliased", "aliased (donated)"), ("peak", "peak"))
    ]
    parts: list[Any] = [
        h(
            "h3",
            None,
            m.function or "program",
            h("small", None, f" peak {size_text(m.peak)} per device"),
        ),
        h("div", {"class": "xl-stack"}, *bars),
        h(
            "div",
            {"class": "xl-pair"},
            table((("per device", ""), ("size", "n")), numbers),
            buffers_node(m),
        ),
    ]
    if m.donated:
        parts.append(h("p", None, "donated and reused: ", h("code", None, ", ".join(m.donated))))
    parts += [warning(f"{name} was donated and not used: {why}") for name, why in m.refused]
    return h("div", {"class": "xl-memory"}, *parts)


def buffers_node(m: Memory) -> Node | None:
    """The largest buffers: a bar from birth to last use; those alive at the peak are solid."""
    if not m.buffers:
        return None
    largest = sorted(m.buffers, key=lambda b: -b.size)
    shown = largest[:MOST_BUFFERS]
    end = max(b.end for b in m.buffers) + 1
    rows = []
    for b in shown:
        alive = m.peak_step < 0 or b.start <= m.peak_step <= b.end
        tip = f"{b.name}   {size_text(b.size)}   {b.kind}   alive {b.start}–{b.end}" + (
            "   at the peak" if alive and m.peak_step >= 0 else ""
        ) + (f"   byte {b.offset} of allocation {b.allocation}" if b.allocation >= 0 else "")
        rows.append(
            h(
                "tr",
                {"data-eq": key(m.program, b.equation)},
                h("td", None, h("code", None, b.name), h("small", None, f" {b.kind}")),
                h("td", {"class": "n"}, size_text(b.size)),
                h(
                    "td",
                    {"class": "xl-life"},
                    h(
                        "span",
                        {"class": "xl-track"},
                        h(
                            "span",
                            {
                                "class": f"xl-bar xl-part-{'arguments' if b.kind == 'argument' else 'outputs' if b.kind == 'output' else 'temporaries'}"
                                + ("" if alive else " xl-off"),
                                "style": f"left:{100 * b.start / end:.2f}%;width:{100 * (b.end - b.start + 1) / end:.2f}%",
                                "title": tip,
                                "data-tip": tip,
                            },
                        ),
                    ),
                ),
                h("td", {"class": "n"}, b.source.line if b.source else ""),
            )
        )
    more = len(largest) - len(shown)
    return h(
        "div",
        {"class": "xl-buffers"},
        table(
            (("buffer", ""), ("size", "n"), ("alive over the schedule", ""), ("line", "n")), rows
        ),
        h(
            "p",
            {"class": "xl-dim"},
            f"{plural(more, 'smaller buffer')} not listed, {size_text(sum(b.size for b in largest[MOST_BUFFERS:]))}",
        )
        if more > 0
        else None,
    )


def memory_panel(memory: tuple[Memory, ...]) -> Node:
    """The Memory tab."""
    return panel(
        "memory",
        "Memory",
        *(
            map(memory_node, memory)
            if memory
            else [
                h("p", {"class": "xl-dim"}, "Nothing was compiled, so nothing is known of memory.")
            ]
        ),
    )


def passes_panel(passes: tuple[Pass, ...]) -> Node:
    """The Passes tab: those that changed something, with their difference; the idle ones are counted."""
    changed = [p for p in passes if p.changed]
    idle = len(passes) - len(changed)
    most = max((p.changed for p in changed), default=1)
    rows = []
    for p in changed:
        bar = h(
            "span",
            {"class": "xl-track"},
            h(
                "span",
                {
                    "class": "xl-bar xl-compile-bar",
                    "style": f"left:0;width:{100 * p.changed / most:.1f}%",
                },
            ),
        )
        summary = h(
            "summary",
            None,
            h("code", None, p.name),
            h("small", None, f" {p.stage}"),
            h(
                "span",
                {"class": "xl-pass-n"},
                f"{plural(p.changed, 'line')} changed"
                + (f" · {time_text(p.duration_us)}" if p.duration_us is not None else ""),
            ),
            bar,
        )
        rows.append(
            h(
                "details",
                {"class": "xl-pass"},
                summary,
                h(
                    "pre",
                    {"class": "xl-code xl-diff"},
                    *(_diff_line(x) for x in p.diff.splitlines()[:MOST_DIFF]),
                ),
                _cut_note(len(p.diff.splitlines()) - MOST_DIFF),
            )
        )
    if not passes:
        rows = [
            h(
                "p",
                {"class": "xl-dim"},
                "The compiler's passes were not captured; ask for them with --passes.",
            )
        ]
    elif idle:
        rows.append(
            h(
                "p",
                {"class": "xl-dim"},
                f"{plural(idle, 'pass')[:-1] + 'ses' if idle > 1 else '1 pass'} changed nothing",
            )
        )
    return panel("passes", "Passes", *rows)


def _cut_note(count: int) -> Node | None:
    return (
        h("p", {"class": "xl-dim"}, f"{plural(count, 'more line')} changed") if count > 0 else None
    )


def _diff_line(line: str) -> Node | str:
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return h(tag, None, line + "\n") if tag else line + "\n"


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
