"""Live arrays: where the bytes are, per line that made them, per device, and one by one."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, decimal, h, panel, table, unshown
from xlab.observe.records.live import Live, LiveRow, devices_text, rows
from xlab.observe.records.units import plural, size_text

MOST_ROWS = 200
MOST_LINES = 20
MOST_DEVICES = 32


def _size(size: int) -> Node:
    return h("td", {"class": "n", "title": f"{size:,} B"}, size_text(size))


def _share(size: int, most: int) -> Node:
    return h(
        "td",
        {"class": "xl-live-share"},
        h(
            "span",
            {"class": "xl-track"},
            h(
                "span",
                {
                    "class": "xl-bar xl-part-temporaries",
                    "style": f"left:0;width:{decimal(100 * size / max(1, most))}%",
                    "title": f"{size:,} B",
                },
            ),
        ),
    )


def lines_node(live: Live) -> Node | None:
    """Bytes by the place that made them."""
    if not live.lines:
        return None
    most = live.lines[0][2]
    listed = [
        h(
            "tr",
            None,
            h("td", None, h("code", None, where)),
            h("td", {"class": "n"}, count),
            _size(size),
            _share(size, most),
        )
        for where, count, size in live.lines[:MOST_LINES]
    ]
    left = live.lines[MOST_LINES:]
    return h(
        "div",
        None,
        table((("made in", ""), ("arrays", "n"), ("bytes", "n"), ("", "")), listed),
        unshown(len(left), "more place", f", {size_text(sum(s for *_, s in left))}"),
    )


def devices_node(live: Live) -> Node | None:
    """Bytes on each device."""
    return devices_table(live.devices) if live.devices else None


def devices_table(devices: Sequence[tuple[int, int]]) -> Node:
    """Devices by what they hold."""
    most = max(size for _, size in devices)
    listed = [
        h("tr", None, h("td", {"class": "n"}, i), _size(size), _share(size, most))
        for i, size in devices[:MOST_DEVICES]
    ]
    left = len(devices) - len(listed)
    return h(
        "div",
        None,
        table((("device", "n"), ("holds", "n"), ("", "")), listed),
        unshown(left, "more device"),
    )


def array_row(r: LiveRow, most: int) -> Node:
    """One array, or those without a name that are alike."""
    a = r.array
    alone = r.number == 1 and a.source is not None
    where = h(
        "td",
        {"title": a.source.file if a.source and alone else None},
        h("code", None, r.place),
        h("small", None, f"  {a.source.text.strip()[:80]}")
        if a.source and alone and a.source.text
        else None,
    )
    called = (
        h("code", None, a.name)
        if a.name
        else h(
            "span",
            {"class": "xl-dim"},
            f"{r.number:,} without a name" if r.number > 1 else "no name",
        )
    )
    held = (
        devices_text(a.devices)
        + (f", {a.memory_kind}" if a.memory_kind else "")
        + ("" if a.committed else ", uncommitted")
    )
    more = " · ".join(
        filter(None, (a.sharding, f"each {size_text(a.bytes)}" if r.number > 1 else ""))
    )
    return h(
        "tr",
        None,
        h("td", None, called),
        h("td", None, h("code", None, a.type), h("small", None, f"  {more}") if more else None),
        _size(r.bytes),
        _share(r.bytes, most),
        h("td", None, held),
        where,
    )


def live_panel(live: Live) -> Node:
    """The whole picture."""
    count = len(live.arrays) + live.more
    if not count:
        return panel(
            "memory", "Live arrays", h("p", {"class": "xl-dim"}, "No array of xlab is alive.")
        )
    shown = rows(live.arrays)[:MOST_ROWS]
    left = count - sum(r.number for r in shown)
    small = sum(r.bytes for r in shown)
    unknown = any(a.source is None for a in live.arrays)
    note = (
        "lines are recorded"
        if live.tracked
        else "%xmem --lines records the line of every array from now on"
    ) + ("; unknown: made before the extension was loaded" if unknown else "")
    return panel(
        "memory",
        "Live arrays",
        h(
            "p",
            {"class": "xl-sentence"},
            h("strong", None, size_text(live.total)),
            f" in {plural(count, 'array')}"
            + (
                f" on {plural(len(live.devices), 'device')}: copies count once, with all copies {size_text(sum(n for _, n in live.devices))}; a device holds at most {size_text(max(n for _, n in live.devices))}"
                if len(live.devices) > 1
                else ""
            ),
        ),
        h("p", {"class": "xl-dim"}, note),
        h(
            "div",
            {"class": "xl-pair"},
            lines_node(live),
            devices_node(live) if len(live.devices) > 1 else None,
        ),
        h(
            "div",
            {"class": "xl-scroll"},
            table(
                (
                    ("name", ""),
                    ("array", ""),
                    ("bytes", "n"),
                    ("", ""),
                    ("on", ""),
                    ("made in", ""),
                ),
                [array_row(r, shown[0].bytes) for r in shown],
                "xl-live-arrays",
            ),
        ),
        unshown(left, "smaller array", f" not listed, {size_text(live.total - small)}"),
    )


class LiveView(View):
    """The arrays alive now.

    >>> LiveView().title(Live())
    'live arrays'
    """

    name = "live"
    record_type = Live
    height = 420
    scripted = False

    def title(self, record: Live) -> str:
        """The same for all."""
        return "live arrays"

    def tree(self, record: Live) -> Node:
        """By line, by device, one by one."""
        return h("article", {"class": "xl xl-report"}, live_panel(record))
