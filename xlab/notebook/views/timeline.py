"""The device timeline: one row per device, its operations and waits during a measured step, and what became of its time."""

from __future__ import annotations

import math
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import (
    Node,
    clean_json,
    decimal,
    finite,
    h,
    key,
    panel,
    table,
    unshown,
)
from xlab.notebook.views.tabs import add_tab
from xlab.notebook.views.timings import ticks
from xlab.observe.records.timeline import Operation, Span, Timeline, merged, timeline_sentence
from xlab.observe.records.units import plural, time_text

WIDTH, LEFT, LANE, GAP = 1000, 84, 14, 6
MOST_DEVICES = 32
MOST_ROWS = 12
CLASSES = (("compute", "computes"), ("collective", "in a collective"), ("wait", "waits in it"))


def rows_of(t: Timeline) -> dict[int, tuple[float, int]]:
    """Where each device's row begins, and how many lanes it has.

    >>> rows_of(Timeline("f", 9.0, (0, 1), (Operation("a", 0, 0.0, 2.0), Operation("b", 0, 1.0, 2.0, lane=1))))
    {0: (20, 2), 1: (54, 1)}
    """
    lanes = dict.fromkeys(t.devices[:MOST_DEVICES], 1)
    for o in t.operations:
        if o.device in lanes:
            lanes[o.device] = max(lanes[o.device], o.lane + 1)
    out, at = {}, 20
    for device, count in lanes.items():
        out[device] = at, count
        at += count * LANE + GAP
    return out


def _finite(span: Span) -> bool:
    return all(map(math.isfinite, span))


def chart(t: Timeline) -> Node:
    """All devices over one time axis. Waits are hollow, operations filled; a line joins what met in a collective, from the device that came last."""
    rows = rows_of(t)
    scale = (WIDTH - LEFT) / max(t.duration_us, 1e-6)
    x = lambda us: decimal(LEFT + us * scale)
    spans: dict[tuple[str, float], list[Span]] = {}
    for o in t.operations:
        if o.device not in rows or o.kind == "loop":
            continue
        y = rows[o.device][0] + o.lane * LANE
        spans.setdefault((o.kind, y), []).append((o.start_us, o.start_us + o.duration_us))
        spans.setdefault(("wait", y), []).extend(o.waits)
    paths: dict[str, list[str]] = {name: [] for name, _ in CLASSES}
    for (kind, y), found in spans.items():
        inset = 4 if kind == "wait" else 1
        for start, end in merged(filter(_finite, found), t.duration_us / 2000):
            paths[kind].append(box(x(start), y + inset, (end - start) * scale, LANE - 2 * inset))
    last, lanes = list(rows.values())[-1] if rows else (20, 1)
    tall = last + lanes * LANE + 4
    return h(
        "svg",
        {
            "class": "xl-timeline-chart",
            "viewBox": f"0 0 {WIDTH} {tall}",
            "role": "img",
            "aria-label": f"{plural(len(t.devices), 'device')} over {time_text(t.duration_us)}",
        },
        *(
            h(
                "g",
                None,
                h(
                    "line",
                    {"x1": x(us), "x2": x(us), "y1": 14, "y2": tall, "class": "xl-time-rule"},
                ),
                h("text", {"x": x(us), "y": 11, "class": "xl-axis"}, tick(us)),
            )
            for us in ticks(t.duration_us)
            if us < 0.95 * t.duration_us or not us
        ),
        *(
            h(
                "text",
                {"x": LEFT - 6, "y": y + 11, "class": "xl-axis xl-end"},
                f"device {device}",
            )
            for device, (y, _) in rows.items()
        ),
        *(h("path", {"class": f"xl-tl-{name}", "d": "".join(d)}) for name, d in paths.items() if d),
    )


def tick(us: float) -> str:
    """The label of a time on an axis."""
    return "0" if not us else time_text(us).replace(".00 ", " ").replace(".0 ", " ")


def box(x: str, y: float, width: float, height: float) -> str:
    """A rectangle as a part of a path."""
    return f"M{x} {y:g}h{decimal(max(width, 0.6))}v{height:g}h-{decimal(max(width, 0.6))}z"


def legend() -> Node:
    """What the shapes are."""
    return h(
        "p",
        {"class": "xl-dim xl-tl-legend"},
        *(h("span", None, h("i", {"class": f"xl-key xl-tl-{n}"}), w) for n, w in CLASSES),
    )


def shares_node(t: Timeline) -> Node:
    """What became of each device's time."""
    head = (
        ("device", "n"),
        ("computes", "n"),
        ("communicates, exposed", "n"),
        ("waits, exposed", "n"),
        ("in collectives, hidden", "n"),
        ("nothing", "n"),
    )
    rows = [
        h(
            "tr",
            None,
            h("td", {"class": "n"}, s.device),
            *(
                h("td", {"class": "n"}, time_text(us) if us else "–")
                for us in (
                    s.compute_us,
                    s.communication_us,
                    s.waiting_us,
                    s.hidden_us,
                    s.idle_us,
                )
            ),
        )
        for s in t.shares[:MOST_DEVICES]
    ]
    return table(head, rows)


def longest(t: Timeline) -> list[tuple[Operation, int, float, float]]:
    """Instructions by their time on the slowest device: one execution, how many there are, the time, and the part that was waited."""
    times: dict[str, dict[int, list[float]]] = {}
    one: dict[str, Operation] = {}
    for o in t.operations:
        if o.kind != "loop":
            one.setdefault(o.instruction, o)
            here = times.setdefault(o.instruction, {}).setdefault(o.device, [0.0, 0.0, 0.0])
            here[0] += o.duration_us
            here[1] += o.wait_us
            here[2] += 1
    found = [
        (one[name], int(worst[2]), worst[0], worst[1])
        for name, by_device in times.items()
        for worst in (max(by_device.values()),)
    ]
    return sorted(found, key=lambda row: -row[2])


def longest_node(t: Timeline) -> Node:
    """The instructions that take longest, as links to their equations."""
    found = longest(t)
    rows = [
        h(
            "tr",
            {"data-eq": key(t.program, o.equation)},
            h("td", None, h("code", None, o.instruction)),
            h("td", {"class": "n"}, count),
            h("td", {"class": "n"}, time_text(us)),
            h("td", {"class": "n"}, time_text(waited) if waited else "–"),
            h("td", {"title": o.where}, o.where.rsplit("/", 1)[-1])
            if o.where
            else h("td", {"class": "xl-dim"}, "of the compiler"),
        )
        for o, count, us, waited in found[:MOST_ROWS]
    ]
    more = len(found) - len(rows)
    head = (
        ("longest", ""),
        ("runs", "n"),
        ("slowest device", "n"),
        ("of it waiting", "n"),
        ("line", ""),
    )
    return h(
        "div",
        None,
        table(head, rows, "xl-longest"),
        unshown(more, "instruction", " more, all shorter"),
    )


def timeline_node(t: Timeline) -> Node:
    """One step of one program."""
    hidden = len(t.devices) - MOST_DEVICES
    return h(
        "div",
        {"class": "xl-timeline-one"},
        h(
            "p",
            {"class": "xl-tl-said"},
            h("strong", None, t.function),
            f"  {timeline_sentence(t)} ",
            h(
                "small",
                {"class": "xl-dim"},
                f"measured by the profiler, which slows short operations down: the step of median length of {t.steps}",
            ),
        ),
        h("div", {"class": "xl-scroll xl-tl-host"}, chart(t)),
        legend(),
        unshown(hidden, "more device", " not drawn"),
        unshown(t.dropped, "later operation", " not kept"),
        h("div", {"class": "xl-pair"}, shares_node(t), longest_node(t)),
    )


def timeline_panel(timelines: tuple[Timeline, ...]) -> Node | None:
    """The Timeline tab."""
    if not timelines:
        return None
    return panel("timeline", "Timeline", *map(timeline_node, timelines))


def timeline_data(t: Timeline) -> dict[str, Any]:
    """A timeline as columns: what an instruction is stands once."""
    kinds: dict[tuple, int] = {}
    which = [
        kinds.setdefault((o.instruction, o.kind, o.equation, o.where), len(kinds))
        for o in t.operations
    ]
    return clean_json(
        {
            "function": t.function,
            "program": t.program,
            "duration": finite(t.duration_us) or 0,
            "devices": t.devices[:MOST_DEVICES],
            "kinds": list(kinds),
            "which": which,
            "device": [o.device for o in t.operations],
            "start": [finite(o.start_us) or 0 for o in t.operations],
            "time": [finite(o.duration_us) or 0 for o in t.operations],
            "lane": [o.lane for o in t.operations],
            "meeting": [[o.meeting, o.late] if o.meeting >= 0 else 0 for o in t.operations],
            "waits": [list(filter(_finite, o.waits)) or 0 for o in t.operations],
            "memory": [
                (d, [point for point in points if math.isfinite(point[0])])
                for d, points in t.memory
            ],
        }
    )


class TimelineView(View):
    """What every device did during one measured step.

    >>> TimelineView().title(Timeline("step", 9.0))
    'devices of step'
    """

    name = "timeline"
    record_type = Timeline
    height = 420

    def title(self, record: Timeline) -> str:
        """The program's name."""
        return f"devices of {record.function}"

    def tree(self, record: Timeline) -> Node:
        """The chart with its tables."""
        return h("article", {"class": "xl xl-report"}, timeline_panel((record,)))

    def data(self, record: Timeline) -> dict[str, Any]:
        """The operations as columns."""
        return {
            "title": clean_json(self.title(record)),
            "programs": [],
            "timelines": [timeline_data(record)],
        }


add_tab(
    "timeline",
    "Timeline",
    42,
    lambda report: timeline_panel(report.timelines),
    lambda report: (
        {"timelines": [timeline_data(t) for t in report.timelines]} if report.timelines else {}
    ),
)
