"""The caches of programs: what each found and made, and the programs that were written to files."""

from __future__ import annotations

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, decimal, h, panel, table
from xlab.observe.records.caches import Caches, caches_rows
from xlab.observe.records.units import plural, time_text


def _track(hits: int, misses: int) -> Node:
    """The part of look-ups that found something, as a bar."""
    share = 100 * hits / max(1, hits + misses)
    return h(
        "td",
        {"class": "xl-live-share"},
        h(
            "span",
            {"class": "xl-track", "title": f"{hits} of {hits + misses} found"},
            h(
                "span",
                {"class": "xl-bar xl-part-arguments", "style": f"left:0;width:{decimal(share)}%"},
            ),
        )
        if hits + misses
        else None,
    )


def caches_panel(c: Caches) -> Node:
    """A row per cache, then the files."""
    bars = {
        "eager": _track(c.eager_hits, c.eager_misses),
        "disk": _track(c.disk_hits, c.disk_misses),
    }
    rows = [
        h(
            "tr",
            None,
            h("td", None, h("b", None, name)),
            h("td", None, numbers),
            bars.get(name, h("td", None)),
            h("td", {"class": "xl-dim"}, remark),
        )
        for name, numbers, remark in caches_rows(c)
    ]
    said = f" {time_text(c.saved_us)} saved by the one on disk" if c.disk_hits else ""
    return panel(
        "caches",
        "Caches",
        h("h3", None, "Caches of programs", h("small", None, said)),
        table((("cache", ""), ("look-ups", ""), ("found", ""), ("", "")), rows),
        h(
            "details",
            {"open": "" if len(c.dumps) <= 12 else None},
            h(
                "summary",
                None,
                f"{plural(len(c.dumps), 'program')} written to {c.dump_folder or 'files'}",
            ),
            h("ol", {"class": "xl-files"}, *(h("li", None, h("code", None, d)) for d in c.dumps)),
        )
        if c.dumps
        else None,
    )


class CachesView(View):
    """What the caches did.

    >>> CachesView().title(Caches())
    'caches of programs'
    """

    name = "caches"
    record_type = Caches
    height = 220
    scripted = False

    def title(self, record: Caches) -> str:
        """The same for all."""
        return "caches of programs"

    def tree(self, record: Caches) -> Node:
        """A table and a list."""
        return h("article", {"class": "xl xl-report"}, caches_panel(record))
