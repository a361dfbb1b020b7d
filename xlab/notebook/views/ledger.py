"""The ledger: per compile a sentence, its key beside every earlier one, and the fix as code."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table, unshown
from xlab.observe.records import Compilation, Ledger
from xlab.observe.records.ledger import compiles, sentence
from xlab.observe.records.units import plural, time_text

MOST_COMPILES = 100
MOST_ROWS = 20
"""Earlier keys drawn for the latest compile of a function; `FEWER_ROWS` for those before it."""
FEWER_ROWS = 6


def ledger_node(ledger: Ledger) -> Node:
    """Every compile, oldest first; the last of each function has its keys open."""
    entries = ledger.entries
    again = sum(e.nth > 1 and not e.shared for e in entries)
    last = {(e.function, e.source): i for i, e in enumerate(entries)}
    summary = f" {compiles(ledger)}, {time_text(sum(e.duration_us for e in entries))} in all" + (
        f"; {again} of a function that was compiled before" if again else ""
    )
    shown = list(enumerate(entries))[-MOST_COMPILES:]
    return h(
        "div",
        {"class": "xl-ledger"},
        h("h3", None, "Ledger", h("small", None, summary if entries else " nothing was compiled")),
        h("p", {"class": "xl-dim"}, f"the last {MOST_COMPILES}")
        if len(entries) > MOST_COMPILES
        else None,
        *(_compilation(e, last[e.function, e.source] == i) for i, e in shown),
    )


def ticked(text: str) -> list[Any]:
    """Words between backticks as code.

    >>> ticked("`x` grew")
    [['code', {}, 'x'], ' grew']
    """
    return [
        h("code", None, part) if i % 2 else part for i, part in enumerate(text.split("`")) if part
    ]


def _compilation(c: Compilation, last: bool) -> Node:
    where = (
        f"{c.source.file.rsplit('/', 1)[-1]}, line {c.source.line}"
        if c.source and c.source.file != c.function
        else ""
    )
    cached = {"disk hit": "from disk", "disk miss": "not in memory, not on disk"}.get(c.cache, "")
    small = " · ".join(part for part in (time_text(c.duration_us), cached, where) if part)
    return h(
        "div",
        {
            "class": "xl-compile"
            + (" xl-again" if c.nth > 1 and c.cache != "disk hit" and not c.shared else "")
        },
        h(
            "p",
            None,
            *ticked(sentence(c)),
            h("small", {"title": c.source.file if c.source else None}, f"   {small}"),
        ),
        h("p", {"class": "xl-dim"}, *ticked(c.disk)) if c.disk else None,
        keys_node(c, last) or _differences(c),
        h("p", {"class": "xl-fix"}, h("b", None, "fix "), h("code", None, c.fix))
        if c.fix
        else None,
    )


def keys_node(c: Compilation, last: bool) -> Node | None:
    """The key beside the earlier ones: what is not as now is marked. All of it but for the latest compile of a function is folded."""
    if not c.earlier:
        return None
    most = MOST_ROWS if last else FEWER_ROWS
    now = dict(c.key)
    shown = c.earlier[-most:]

    def cell(part: str, value: str) -> Node:
        if value == now.get(part):
            return h("td", {"class": "xl-as-now"}, h("code", None, value or "–"))
        return h(
            "td",
            {"class": "xl-moved"},
            h("b", {"title": "not as in this compile"}, "≠ "),
            h("code", None, value or "–"),
        )

    rows = [
        h("tr", None, h("td", {"class": "n"}, n), *(cell(part, value) for part, value in parts))
        for n, parts in shown
    ]
    rows.append(
        h(
            "tr",
            {"class": "xl-this"},
            h("td", {"class": "n"}, h("b", None, f"this, {c.nth}")),
            *(h("td", None, h("code", None, value or "–")) for value in now.values()),
        )
    )
    left = c.nth - 1 - len(shown)
    made = h(
        "div",
        {"class": "xl-scroll"},
        table((("compile", "n"), *((part, "") for part in now)), rows, "xl-keys"),
    )
    cut = unshown(left, "older key", " not drawn; xlab.observe.ledger() has them")
    if last:
        return h("div", None, made, cut)
    return h(
        "details",
        None,
        h("summary", None, f"its key beside {plural(len(shown), 'earlier one')}"),
        made,
        cut,
    )


def _differences(c: Compilation) -> Node | None:
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
    return table((("changed", ""), ("in", ""), ("was", ""), ("now", "")), rows) if rows else None


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
