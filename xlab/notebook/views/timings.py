"""The timings view: a waterfall of what the cell compiled and ran, then the recompile ledger."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from xlab.notebook.views.draw import Node, clean_json, decimal, h, panel, table, unshown
from xlab.notebook.views.ledger import ledger_node
from xlab.notebook.views.tabs import add_tab, ended_before_a_program
from xlab.observe.records import Ledger, Phase, Report, Timing
from xlab.observe.records.log import LogLine
from xlab.observe.records.passes import Pass
from xlab.observe.records.phases import warm_text
from xlab.observe.records.units import plural, time_text
from xlab.observe.timing.phases import self_times

WORDS = {
    "trace": "trace",
    "lower": "lower",
    "compile": "compile",
    "cache_hit": "cache hit",
    "cache_miss": "cache miss",
    "execute": "first run",
    "gate": "gate",
    "transfer": "transfer",
}
MOST_ROWS = 300
MOST_LINES = 300
"""Lines of the log that are drawn."""
MOST_SAVED = 5000
"""Phases that the page itself can save as a file."""


def ticks(total: float) -> list[float]:
    """Round times along the axis, about eight of them.

    >>> ticks(1000.0)
    [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
    """
    if not 0 < total < math.inf:
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


def waterfall(
    phases: tuple[Phase, ...],
    timings: tuple[Timing, ...],
    passes: tuple[Pass, ...] = (),
    log: tuple[LogLine, ...] = (),
) -> Node:
    """Rows of bars over one time axis, with what each row took in all and without what it called.

    Steady runs are a number at the end of the row, never part of the cold bars. Bars that lines of the log are about have the number of their phase.
    """
    rows = lanes(phases)
    shown = rows[:MOST_ROWS]
    begin = min((p.start_us for lane in shown for p in lane), default=0.0)
    end = max((p.start_us + p.duration_us for lane in shown for p in lane), default=1.0)
    total = max(end - begin, 1e-6)
    warm = {t.function: t for t in timings}
    cold = any(p.kind == "compile" for p in phases)
    own = {id(p): us for p, us in zip(phases, self_times(phases), strict=True)}
    logged = {id(phases[line.phase]): line.phase for line in log if line.phase >= 0}
    out = []
    for lane in shown:
        first = lane[0]
        spent, itself = sum(p.duration_us for p in lane), sum(own[id(p)] for p in lane)
        timing = warm.pop(first.function, None) if first.kind != "transfer" else None
        steady = "" if timing is None else warm_text(timing)
        out.append(
            h(
                "div",
                {"class": "xl-lane"},
                h(
                    "span",
                    {
                        "class": "xl-lane-name",
                        "style": f"padding-left:{first.depth * 12}px",
                        "title": first.function,
                    },
                    ("└ " if first.depth else "") + first.function,
                ),
                h(
                    "span",
                    {"class": "xl-track"},
                    *(_bar(p, own[id(p)], begin, total, logged.get(id(p))) for p in lane),
                ),
                h(
                    "span",
                    {"class": "xl-lane-end", "title": "first to last of this row"},
                    time_text(spent),
                ),
                h(
                    "span",
                    {"class": "xl-lane-end", "title": "without what it called"},
                    time_text(itself),
                ),
                h(
                    "span",
                    {"class": "xl-lane-end xl-lane-warm", "title": "steady runs: median ± spread"},
                    steady,
                ),
            )
        )
    scale = [
        h(
            "span",
            {"style": f"left:{decimal(100 * t / total, 2)}%"},
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
            *(
                h("span", {"class": "xl-lane-end" + name}, word)
                for word, name in (
                    ("cold" if cold else "in all", ""),
                    ("self", ""),
                    ("warm", " xl-lane-warm"),
                )
            ),
        ),
        *out,
        _passes(passes),
        unshown(more, "more row", " not drawn"),
    )


def _bar(p: Phase, itself: float, begin: float, total: float, number: int | None = None) -> Node:
    left, width = 100 * (p.start_us - begin) / total, 100 * p.duration_us / total
    where = f" ({p.where})" if p.where else ""
    own_kind = p.kind in ("cache_hit", "cache_miss")
    word = WORDS.get(p.kind, p.kind) + (
        where if own_kind else f": cache {p.cache}{where}" if p.cache else ""
    )
    inside = f" ({time_text(itself)} itself)" if itself < 0.995 * p.duration_us else ""
    tip = (
        f"{p.function}   {word}   {time_text(p.duration_us)}{inside}   from {time_text(p.start_us - begin)}"
        + (f"   {p.reason}" if p.reason else "")
        + (f"   failed: {p.error}" if p.error else "")
    )
    # An event that takes no time is a tick; a hit is hollow.
    kind = ("xl-hit" if p.cache == "hit" else f"xl-{p.kind}") + (
        " xl-tick" if own_kind and not p.duration_us else ""
    )
    return h(
        "span",
        {
            "class": f"xl-bar {kind}" + (" xl-failed" if p.error else ""),
            "style": f"left:{decimal(left, 2)}%"
            + (f";width:{decimal(width, 2)}%" if width else ""),
            "title": tip,
            "data-fn": p.function,
            "data-phase": number,
        },
        f"{WORDS.get(p.kind, p.kind)}{where if p.cache == 'hit' else ''} {time_text(p.duration_us)}"
        if width > 7
        else "",
    )


def log_node(log: tuple[LogLine, ...]) -> Node:
    """The lines of the log, each beside the time when it was written; choosing one marks the bar that it is about, and the other way round."""
    rows = [
        h(
            "button",
            {
                "type": "button",
                "class": "xl-log-line",
                "data-phase": line.phase if line.phase >= 0 else None,
                "title": f"{line.level.lower()}, {time_text(line.at_us)} after the start",
            },
            line.text,
        )
        for line in log[:MOST_LINES]
    ]
    more = len(log) - len(rows)
    return h(
        "details",
        {"class": "xl-log"},
        h("summary", None, f"log: {plural(len(log), 'line')}"),
        *rows,
        unshown(more, "more line", " not drawn"),
    )


def _passes(passes: tuple[Pass, ...]) -> Node | None:
    """The compiler's passes end to end on a scale of their own: they were seen in a second compile."""
    timed = [p for p in passes if p.duration_us]
    total = sum(p.duration_us or 0.0 for p in timed)
    if not timed or not total:
        return None
    bars, at = [], 0.0
    for p in timed:
        width = 100 * (p.duration_us or 0.0) / total
        tip = f"{p.name}   {p.stage}   {time_text(p.duration_us)}   {plural(p.changed, 'line')} changed"
        if width >= 0.1:  # less is no pixel
            bars.append(
                h(
                    "span",
                    {
                        "class": "xl-bar xl-pass-bar" + ("" if p.changed else " xl-idle"),
                        "title": tip,
                        "style": f"left:{decimal(at, 2)}%;width:{decimal(width, 2)}%",
                    },
                    p.name if width > 12 else "",
                )
            )
        at += width
    return h(
        "div",
        {"class": "xl-lane xl-lane-passes"},
        h(
            "span",
            {"class": "xl-lane-name", "title": "seen in a second compile, on a scale of their own"},
            "passes *",
        ),
        h("span", {"class": "xl-track"}, *bars),
        h("span", {"class": "xl-lane-end"}, time_text(total)),
        h("span", {"class": "xl-lane-end"}, ""),
        h(
            "span",
            {"class": "xl-lane-end xl-lane-warm xl-dim"},
            f"* {len(timed)} timed, on their own scale",
        ),
    )


def phase_totals(phases: tuple[Phase, ...]) -> Node | None:
    """The same as numbers: per kind how often, how long with what is inside (that of the same kind counted once), and without."""
    rows = []
    own = self_times(phases)
    kinds = dict.fromkeys(p.kind for p in phases if not p.steady and p.duration_us)
    for kind in kinds:
        found = [i for i, p in enumerate(phases) if p.kind == kind and not p.steady]
        outer = [i for i in found if not _inside(phases, i, kind)]
        rows.append(
            h(
                "tr",
                None,
                h("td", None, h("i", {"class": f"xl-key xl-{kind}"}), WORDS.get(kind, kind)),
                h("td", {"class": "n"}, len(found)),
                h("td", {"class": "n"}, time_text(sum(phases[i].duration_us for i in outer))),
                h("td", {"class": "n"}, time_text(sum(own[i] for i in found))),
            )
        )
    return (
        table(
            (
                ("phase, cold" if "compile" in kinds else "phase", ""),
                ("count", "n"),
                ("inclusive", "n"),
                ("exclusive", "n"),
            ),
            rows,
        )
        if rows
        else None
    )


def _inside(phases: tuple[Phase, ...], i: int, kind: str) -> bool:
    """Whether a phase is inside another of its kind."""
    at = phases[i].parent
    while at >= 0:
        if phases[at].kind == kind:
            return True
        at = phases[at].parent
    return False


def cache_counts(phases: tuple[Phase, ...]) -> str:
    """Hits and misses, in memory and on disk.

    >>> cache_counts((Phase("cache_miss", "f", cache="miss", where="memory"), Phase("cache_hit", "f", cache="hit", where="disk")))
    'caches: memory 1 miss; disk 1 hit'
    """
    found: dict[str, Counter[str]] = {}
    for p in phases:
        if p.kind in ("cache_hit", "cache_miss"):
            found.setdefault(p.where or "memory", Counter())[p.cache] += 1
    words = (
        f"{where} "
        + ", ".join(
            f"{n} {kind if n == 1 else 'hits' if kind == 'hit' else 'misses'}"
            for kind, n in sorted(counts.items())
        )
        for where, counts in sorted(found.items(), reverse=True)
    )
    return f"caches: {'; '.join(words)}" if found else ""


def timings_table(timings: tuple[Timing, ...]) -> Node | None:
    """Cold and warm per function."""
    rows = [
        h(
            "tr",
            None,
            h(
                "td",
                None,
                t.function,
                h("small", {"class": "xl-dim"}, f" {t.note}") if t.note else None,
            ),
            *(
                h("td", {"class": "n"}, "–" if us is None else time_text(us))
                for us in (t.cold_us, t.warm_us, t.spread_us)
            ),
            h("td", {"class": "n"}, t.runs),
        )
        for t in timings
    ]
    head = (
        ("function", ""),
        ("cold (first call)", "n"),
        ("warm (median)", "n"),
        ("spread", "n"),
        ("runs", "n"),
    )
    return table(head, rows) if rows else None


def timings_panel(
    phases: tuple[Phase, ...],
    timings: tuple[Timing, ...],
    ledger: Ledger | None,
    passes: tuple[Pass, ...] = (),
    log: tuple[LogLine, ...] = (),
) -> Node:
    """The Timings tab."""
    children: list[Any] = []
    if phases:
        children.append(waterfall(phases, timings, passes, log))
    if log:
        children.append(log_node(log))
    children.append(h("div", {"class": "xl-pair"}, phase_totals(phases), timings_table(timings)))
    caches = cache_counts(phases)
    if caches:
        children.append(h("p", {"class": "xl-dim"}, caches))
    if ledger and ledger.entries:
        children.append(ledger_node(ledger))
    if not phases and not timings:
        children = [h("p", {"class": "xl-dim"}, "No time was recorded."), *children[1:]]
    return panel("timings", "Timings", *children)


def timings_data(phases: tuple[Phase, ...], timings: tuple[Timing, ...]) -> dict[str, Any] | None:
    """Records that the page can save as files."""
    if not phases and not timings:
        return None
    return clean_json(
        {
            "phases": [p.to_json() for p in phases[:MOST_SAVED]],
            "timings": [t.to_json() for t in timings],
            "more": max(0, len(phases) - MOST_SAVED),
        }
    )


def _report_panel(report: Report) -> Node | None:
    timed = report.phases or report.timings or (report.ledger and report.ledger.entries)
    if not timed or ended_before_a_program(report):
        return None
    return timings_panel(report.phases, report.timings, report.ledger, report.passes, report.log)


add_tab(
    "timings",
    "Timings",
    40,
    _report_panel,
    lambda report: {"timings": timings_data(report.phases, report.timings)},
)
