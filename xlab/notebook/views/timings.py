"""The timings view: a waterfall of what the cell compiled and ran, then the recompile ledger."""

from __future__ import annotations

import math
from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table
from xlab.observe.records import Compilation, Ledger, Phase, Timing
from xlab.observe.text import text
from xlab.observe.units import plural, time_text

WORDS = {
    "trace": "trace",
    "lower": "lower",
    "compile": "compile",
    "cache_hit": "cache hit",
    "cache_miss": "cache miss",
    "execute": "run",
    "transfer": "transfer",
}
MOST_ROWS = 300
MOST_COMPILES = 100


def ticks(total: float) -> list[float]:
    """Round times along the axis, about eight of them.

    >>> ticks(1000.0)
    [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    if total <= 0:
        return [0.0]
    raw = total / 7
    base = 10 ** math.floor(math.log10(raw))
    step = float(next(m * base for m in (1, 2, 5, 10) if m * base >= raw))
    return [i * step for i in range(int(total / step + 1e-9) + 1)]


def lanes(phases: tuple[Phase, ...]) -> list[list[Phase]]:
    """Group phases into rows: one per function and depth under the same parent, so a compile reads along one line."""
    found: dict[tuple[int, int, str], list[Phase]] = {}
    for p in phases:
        if not p.steady:
            found.setdefault((p.parent, p.depth, p.function), []).append(p)
    return sorted(found.values(), key=lambda lane: lane[0].start_us)


def waterfall(phases: tuple[Phase, ...], timings: tuple[Timing, ...]) -> Node:
    """Rows of bars over one time axis. Steady runs are a number at the end of the row, never part of the cold bars."""
    rows = lanes(phases)
    shown = rows[:MOST_ROWS]
    begin = min((p.start_us for lane in shown for p in lane), default=0.0)
    end = max((p.start_us + p.duration_us for lane in shown for p in lane), default=1.0)
    total = max(end - begin, 1e-6)
    warm = {t.function: t for t in timings}
    seen: set[str] = set()
    out = []
    for lane in shown:
        first = lane[0]
        bars = []
        for p in lane:
            left, width = 100 * (p.start_us - begin) / total, 100 * p.duration_us / total
            where = f" ({p.where})" if p.where else ""
            word = WORDS.get(p.kind, p.kind) + (
                f": cache {p.cache}{where}"
                if p.cache == "hit" and p.kind not in ("cache_hit", "cache_miss")
                else ""
            )
            tip = (
                f"{p.function}   {word}   {time_text(p.duration_us)}   from {time_text(p.start_us - begin)}"
                + (f"   {p.reason}" if p.reason else "")
                + (f"   failed: {p.error}" if p.error else "")
            )
            kind = "xl-hit" if p.cache == "hit" or p.kind == "cache_hit" else f"xl-{p.kind}"
            bars.append(
                h(
                    "span",
                    {
                        "class": f"xl-bar {kind}" + (" xl-failed" if p.error else ""),
                        "style": f"left:{left:.3f}%;width:{width:.3f}%",
                        "title": tip,
                        "data-tip": tip,
                        "data-fn": p.function,
                    },
                    f"{word} {time_text(p.duration_us)}" if width > 7 else "",
                )
            )
        steady = ""
        if (
            first.function not in seen
            and first.function in warm
            and warm[first.function].warm_us is not None
        ):
            steady = "warm " + text(warm[first.function], times=True).split("warm ", 1)[1]
            seen.add(first.function)
        out.append(
            h(
                "div",
                {"class": "xl-lane"},
                h(
                    "span",
                    {"class": "xl-lane-name", "style": f"padding-left:{first.depth * 12}px"},
                    ("└ " if first.depth else "") + first.function,
                ),
                h("span", {"class": "xl-track"}, *bars),
                h("span", {"class": "xl-lane-end"}, steady),
            )
        )
    scale = [
        h(
            "span",
            {"style": f"left:{100 * t / total:.2f}%"},
            "0" if t == 0 else time_text(t).replace(".00 ", " ").replace(".0 ", " "),
        )
        for t in ticks(total)
        if t < 0.96 * total or not t
    ]
    more = len(rows) - len(shown)
    return h(
        "div",
        {"class": "xl-waterfall"},
        h(
            "div",
            {"class": "xl-lane xl-scale"},
            h("span", {"class": "xl-lane-name"}, ""),
            h("span", {"class": "xl-track"}, *scale),
            h("span", {"class": "xl-lane-end"}, ""),
        ),
        *out,
        h("p", {"class": "xl-dim"}, f"{plural(more, 'more row')} not drawn") if more else None,
    )


def phase_totals(phases: tuple[Phase, ...]) -> Node | None:
    """The same as numbers: time per kind, outermost phases only."""
    found: dict[str, list[float]] = {}
    for p in phases:
        if not p.steady:
            found.setdefault(p.kind, []).append(p.duration_us)
    rows = [
        h(
            "tr",
            None,
            h(
                "td",
                None,
                h("i", {"class": f"xl-key xl-{kind if kind != 'cache_hit' else 'hit'}"}),
                WORDS.get(kind, kind),
            ),
            h("td", {"class": "n"}, len(times)),
            h("td", {"class": "n"}, time_text(sum(times))),
        )
        for kind, times in found.items()
    ]
    return table((("phase", ""), ("count", "n"), ("total", "n")), rows) if rows else None


def timings_table(timings: tuple[Timing, ...]) -> Node | None:
    """Cold and warm per function."""
    rows = [
        h(
            "tr",
            None,
            h("td", None, t.function),
            h("td", {"class": "n"}, time_text(t.cold_us)),
            h("td", {"class": "n"}, time_text(t.warm_us)),
            h("td", {"class": "n"}, time_text(t.spread_us)),
            h("td", {"class": "n"}, t.runs),
        )
        for t in timings
    ]
    return (
        table(
            (
                ("function", ""),
                ("cold (first call)", "n"),
                ("warm (median)", "n"),
                ("spread", "n"),
                ("runs", "n"),
            ),
            rows,
        )
        if rows
        else None
    )


def ledger_node(ledger: Ledger) -> Node:
    """Every compile: sentence, what changed, the fix as code."""
    total = sum(e.duration_us for e in ledger.entries)
    return h(
        "div",
        {"class": "xl-ledger"},
        h(
            "h3",
            None,
            "Ledger ",
            h(
                "small",
                None,
                f"{plural(len(ledger.entries), 'compile')}, {time_text(total)} in all",
            ),
        ),
        h("p", {"class": "xl-dim"}, f"the last {MOST_COMPILES}")
        if len(ledger.entries) > MOST_COMPILES
        else None,
        *(_compilation(e, s) for e, s in [*zip(ledger.entries, so_far(ledger.entries))][-MOST_COMPILES:]),
    )


def so_far(entries: tuple[Compilation, ...]) -> list[float]:
    """What the compiles of the same function took until each of them, it included.

    >>> so_far((Compilation("f", 1, 2.0), Compilation("g", 1, 5.0), Compilation("f", 2, 3.0)))
    [2.0, 5.0, 5.0]
    """
    spent: dict[object, float] = {}
    out = []
    for c in entries:
        same = c.function, c.source
        spent[same] = spent.get(same, 0.0) + c.duration_us
        out.append(spent[same])
    return out


def _compilation(c: Compilation, total: float) -> Node:
    cell = f" of {c.source.file}" if c.source and c.source.file.startswith("In[") else ""
    where = f"  line {c.source.line}{cell}" if c.source and c.source.file != c.function else ""
    rows = [
        h(
            "tr",
            None,
            h("td", None, d.cause),
            h("td", None, h("code", None, d.what)),
            h("td", None, h("del", None, d.was)),
            h("td", None, h("ins", None, d.now)),
        )
        for d in c.differences
    ]
    return h(
        "div",
        {"class": "xl-compile" + (" xl-again" if c.nth > 1 else "")},
        h(
            "p",
            None,
            h("b", None, f"{c.function} "),
            f"compile {c.nth} · {time_text(c.duration_us)}"
            + (f", {time_text(total)} so far" if total > c.duration_us else "") + where,
            f" — {c.reason}" if c.reason else "",
        ),
        table((("changed", ""), ("in", ""), ("was", ""), ("now", "")), rows) if rows else None,
        h("p", {"class": "xl-fix"}, h("b", None, "fix "), h("code", None, c.fix))
        if c.fix
        else None,
    )


def timings_panel(
    phases: tuple[Phase, ...], timings: tuple[Timing, ...], ledger: Ledger | None
) -> Node:
    """The Timings tab."""
    children: list[Any] = []
    if phases:
        children.append(waterfall(phases, timings))
    children.append(h("div", {"class": "xl-pair"}, phase_totals(phases), timings_table(timings)))
    if ledger and ledger.entries:
        children.append(ledger_node(ledger))
    if not phases and not timings:
        children = [h("p", {"class": "xl-dim"}, "No time was recorded."), *children[1:]]
    return panel("timings", "Timings", *children)


class LedgerView(View):
    """Every compile of a session.

    >>> LedgerView().title(Ledger())
    'recompile ledger'
    """

    name = "ledger"
    record_type = Ledger
    height = 320
    scripted = False

    def title(self, record: Ledger) -> str:
        """The same for every ledger."""
        return "recompile ledger"

    def tree(self, record: Ledger) -> Node:
        """Sentences, tables, fixes."""
        return h(
            "article", {"class": "xl xl-report"}, panel("timings", "Ledger", ledger_node(record))
        )
