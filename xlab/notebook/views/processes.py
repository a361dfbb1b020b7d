"""Several processes on one clock: who is late, what each did when, who waited for whom, memory and compiles of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xlab.notebook.views.draw import Node, decimal, h, key, panel, table
from xlab.notebook.views.tabs import add_tab
from xlab.notebook.views.timeline import box, tick
from xlab.notebook.views.timings import ticks
from xlab.observe.records.processes import (
    Processes,
    ProcessInfo,
    clock_text,
    compiles_sentence,
    late,
    late_sentence,
    launched,
    presence_rows,
    processes_sentence,
    waits,
)
from xlab.observe.records.units import plural, size_text, time_text

WIDTH, LEFT, TOP, LANE, GAP = 1000, 96, 20, 14, 8
MOST_PROCESSES = 16
MOST_LANES = 8
"""Devices of a process that have a lane."""
MOST_BOXES = 3000
MOST_ROWS = 40
_RECORDED = (
    ("trace", "traces"),
    ("lower", "lowers"),
    ("compile", "compiles"),
    ("transfer", "copies"),
    ("gate", "waits until all are at the program"),
    ("execute", "runs"),
)
_MEASURED = (("moving", "moves"), ("waiting", "waits for a later device"), ("late", "comes last"))


def _members(p: Processes) -> tuple[ProcessInfo, ...]:
    return p.members[:MOST_PROCESSES]


def _whole(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [s for s in spans if all(map(math.isfinite, s)) and abs(s[1] - s[0]) < 1e15]


def hatching(x: float, y: float, width: float, height: float) -> str:
    """A path of slanted strokes that fill a box.

    >>> hatching(10.0, 0.0, 8.0, 4.0)
    'M10 4l4 -4M15 4l3 -3'
    """
    out, at = [], 0.0
    while at < width and len(out) < 400:
        run = min(height, width - at)
        shown = f"{run:g}" if run == height else decimal(run)
        out.append(f"M{decimal(x + at)} {y + height:g}l{shown} -{run:g}")
        at += 5
    return "".join(out)


def _paths(name: str, parts: Sequence[str]) -> list[Node]:
    """The path of a class, where it draws anything."""
    drawn = "".join(parts)
    return [h("path", {"class": name, "d": drawn})] if drawn else []


def _frame(
    p: Processes, rows: dict[int, tuple[float, float]], total: float
) -> tuple[list[Node], float]:
    """The axis, a name per process, and an outline around the processes of one host."""
    tall = max((y + height for y, height in rows.values()), default=TOP) + 6
    scale = (WIDTH - LEFT - 4) / max(total, 1e-6)
    x = lambda us: decimal(LEFT + us * scale)
    hosts = list(dict.fromkeys(m.host for m in _members(p)))
    made = [
        h(
            "g",
            None,
            h("line", {"x1": x(us), "x2": x(us), "y1": 14, "y2": tall, "class": "xl-ps-rule"}),
            h("text", {"x": x(us), "y": 11, "class": "xl-axis"}, tick(us)),
        )
        for us in ticks(total)
        if us < 0.95 * total or not us
    ]
    for m in _members(p):
        y, height = rows[m.index]
        made.append(
            h(
                "g",
                None,
                h("title", None, f"process {m.index}, pid {m.pid}, on {m.host}"),
                h("text", {"x": LEFT - 8, "y": y + 11, "class": "xl-axis xl-end"}, f"process {m.index}"),
                h("rect", {"x": 3, "y": y - 3, "width": WIDTH - 6, "height": height + 5, "rx": 4,
                           "class": f"xl-ps-host xl-ps-host{hosts.index(m.host) % 3}"}) if len(hosts) > 1 else None,
            )
        )  # fmt: skip
    return made, tall


def recording_chart(p: Processes) -> Node | None:
    """The phases of every process over the whole recording, and lines between launches that belong together."""
    spans = {
        m.index: [x for x in m.phases if _whole([(x.start_us, x.start_us + x.duration_us)])]
        for m in _members(p)
    }
    ends = [x.start_us + x.duration_us for found in spans.values() for x in found]
    total = max(ends, default=0.0)
    if total <= 0:
        return None
    rows = {m.index: (TOP + n * (LANE + GAP + 6), LANE) for n, m in enumerate(_members(p))}
    scale = (WIDTH - LEFT - 4) / total
    at = lambda us: LEFT + us * scale
    made, tall = _frame(p, rows, total)
    kinds: dict[str, list[str]] = {}
    for index, found in spans.items():
        # What runs inside another stands in front of it, and is less high.
        for x in sorted(found, key=lambda x: x.depth):
            inset = 2 if x.kind != "gate" else 4
            kinds.setdefault(x.kind, []).append(
                box(
                    decimal(at(x.start_us)),
                    rows[index][0] + inset - 1,
                    x.duration_us * scale,
                    LANE - 2 * inset + 2,
                )
            )
    made += [node for kind, d in kinds.items() for node in _paths(f"xl-ps-{kind}", d)]
    joins = []
    for together in launched(p):
        points = [
            (at(x.begun_us), rows[x.process][0] + LANE / 2)
            for x in together
            if x.process in rows and _whole([(x.begun_us, 0.0)])
        ]
        joins.append(
            "M" + "L".join(f"{decimal(a)} {b:g}" for a, b in points) if len(points) > 1 else ""
        )
    made += _paths("xl-ps-join", joins)
    return _svg(
        made,
        tall,
        f"{plural(len(_members(p)), 'lane')} over {time_text(total)}, a lane per process",
    )


def collectives_chart(p: Processes) -> Node | None:
    """The measured collectives: waiting hatched, moving filled, and a mark where the last device came."""
    met = [(a, one) for a in p.attendance for one in a.meetings()]
    met = [x for x in met if _whole((m[2], m[3]) for m in x[1]) and all(_whole([(m[2], m[3])]) for m in x[1])]  # fmt: skip
    if not met:
        return None
    origin = min(m[2] for _, one in met for m in one)
    total = max(m[3] for _, one in met for m in one) - origin
    rows, lanes, y = {}, {}, float(TOP)
    for m in _members(p):
        shown = m.devices[:MOST_LANES]
        lanes.update({(m.index, d): y + n * LANE for n, d in enumerate(shown)})
        rows[m.index] = y, max(1, len(shown)) * LANE
        y += rows[m.index][1] + GAP
    scale = (WIDTH - LEFT - 4) / max(total, 1e-6)
    at = lambda us: LEFT + (us - origin) * scale
    made, tall = _frame(p, rows, total)
    moving, waiting, marks = [], [], []
    for _, one in met[: MOST_BOXES // max(1, len(lanes))]:
        last = max(one, key=lambda m: m[2])
        for (process, device, came, _), (_, _, waited, moved) in zip(one, waits(one), strict=True):
            if (process, device) not in lanes:
                continue
            top = lanes[process, device] + 2
            if waited * scale > 0.6:
                waiting.append(box(decimal(at(came)), top, waited * scale, LANE - 4))
                waiting.append(hatching(at(came), top, waited * scale, LANE - 4))
            moving.append(box(decimal(at(came + waited)), top, moved * scale, LANE - 4))
            if device == last[1]:
                marks.append(f"M{decimal(at(came))} {top - 2:g}v{LANE}")
    for name, paths in (("waiting", waiting), ("moving", moving), ("late", marks)):
        made += _paths(f"xl-ps-{name}", paths)
    return _svg(
        made, tall, f"{plural(len(met), 'meeting')} over {time_text(total)}, a lane per device"
    )


def _svg(made: Sequence[Node | None], tall: float, label: str) -> Node:
    return h(
        "div",
        {"class": "xl-scroll"},
        h(
            "svg",
            {
                "class": "xl-ps-chart",
                "viewBox": f"0 0 {WIDTH} {tall:g}",
                "role": "img",
                "aria-label": label,
            },
            *made,
        ),
    )


def members_node(p: Processes) -> Node:
    """A row per process: where it ran, what it holds as a bar, what it compiled."""
    most = max((m.resident or 0 for m in p.members), default=0) or 1
    rows = [
        h(
            "tr",
            None,
            h("td", {"class": "n"}, m.index),
            h("td", None, m.host),
            h("td", {"class": "n"}, m.pid),
            h("td", None, ", ".join(map(str, m.devices[:MOST_LANES])) or "–"),
            h(
                "td",
                None,
                h(
                    "span",
                    {
                        "class": "xl-ps-bar",
                        "style": f"--part:{min(max((m.resident or 0) / most, 0.0), 1.0):.3f}",
                    },
                    size_text(m.resident),
                ),
            ),
            h("td", {"class": "n"}, size_text(m.live_bytes)),
            h(
                "td",
                {"class": "n"},
                time_text(sum(c[1] for c in m.compiles)) if m.compiles else "–",
            ),
            h("td", {"class": "n"}, sum(x.process == m.index for x in p.launches)),
            h("td", None, clock_text(m)),
            h("td", {"class": "xl-error" if m.error else None}, m.error or "–"),
        )
        for m in p.members[:MOST_ROWS]
    ]
    head = (
        ("process", "n"),
        ("host", ""),
        ("pid", "n"),
        ("devices", ""),
        ("resident memory", ""),
        ("its arrays", "n"),
        ("compiling", "n"),
        ("programs started", "n"),
        ("clock", ""),
        ("error", ""),
    )
    return h("div", {"class": "xl-scroll"}, table(head, rows, "xl-ps-members"))


def waiting_node(p: Processes) -> Node | None:
    """The measured collectives: who waits longest, and how long moving takes."""
    rows = [
        h(
            "tr",
            {"data-eq": key(a.program, a.equation)},
            h("td", None, h("code", None, a.call)),
            h("td", None, a.where or "–"),
            h("td", {"class": "n"}, n),
            h("td", {"class": "n"}, f"process {who}"),
            h("td", {"class": "n"}, time_text(waited)),
            h("td", {"class": "n"}, time_text(moved)),
        )
        for a, who, waited, moved, n in presence_rows(p)[:MOST_ROWS]
    ]
    head = (
        ("collective", ""),
        ("line", ""),
        ("times", "n"),
        ("waits longest", "n"),
        ("waiting", "n"),
        ("moving", "n"),
    )
    return h("div", {"class": "xl-scroll"}, table(head, rows, "xl-longest")) if rows else None


def legend(keys: Iterable[tuple[str, str]]) -> Node:
    """What the shapes of these classes are."""
    return h(
        "p",
        {"class": "xl-dim xl-ps-legend"},
        *(h("span", None, h("i", {"class": f"xl-key xl-ps-{n}"}), w) for n, w in keys),
    )


def processes_panel(p: Processes | None) -> Node | None:
    """The Processes tab."""
    if p is None or not p.members:
        return None
    said = late(p)
    recorded, met = recording_chart(p), collectives_chart(p)
    kinds = {x.kind for m in _members(p) for x in m.phases}
    hidden = len(p.members) - MOST_PROCESSES
    return panel(
        "processes",
        "Processes",
        *(h("p", {"class": "xl-ps-said"}, h("strong", None, late_sentence(x, p.count))) for x in said[:3]),
        h("p", None, processes_sentence(p)),
        recorded,
        legend(x for x in _RECORDED if x[0] in kinds) if recorded else None,
        h("p", {"class": "xl-dim"}, "in the measured collectives:") if met else None,
        met,
        legend(_MEASURED) if met else None,
        h("p", {"class": "xl-dim"}, f"{hidden} more processes not drawn") if hidden > 0 else None,
        waiting_node(p),
        members_node(p),
        h("p", {"class": "xl-dim"}, compiles_sentence(p)) if any(m.compiles for m in p.members) else None,
    )  # fmt: skip


add_tab("processes", "Processes", 43, lambda report: processes_panel(report.processes))
