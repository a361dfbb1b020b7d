"""The transposed view: each collective of a program beside what its transpose sends."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, h, panel, table
from xlab.observe.records.transfers import run_line
from xlab.observe.records.transposed import Transposed, said
from xlab.observe.records.units import plural, time_text


def side(node: Any, t: Any) -> list[Node]:
    """The cells of one side: what is sent, and how long it should take."""
    return [h("td", None, node), h("td", {"class": "n"}, time_text(t.predicted_us) if t else "")]


def rows(r: Transposed) -> list[Node]:
    """One row for each collective, forwards and backwards side by side."""
    out = []
    for t, found in zip(r.forward, r.beside, strict=True):
        line = t.source.line if t.source else ""
        others: list[Any] = [r.backward[j] for j in found] or [None]
        for n, other in enumerate(others):
            out.append(
                h(
                    "tr",
                    {"title": t.source.text.strip() if t.source and not n else None},
                    h("td", {"class": "n"}, "" if n else line),
                    *(side(h("code", None, said(t)), t) if not n else side("", None)),
                    *(
                        side(h("code", None, said(other)), other)
                        if other is not None
                        else side(h("span", {"class": "xl-dim"}, "sends nothing"), None)
                    ),
                )
            )
    for j in r.alone:
        t = r.backward[j]
        out.append(
            h(
                "tr",
                {"title": t.source.text.strip() if t.source else None},
                h("td", {"class": "n"}, t.source.line if t.source else ""),
                *side("", None),
                *side(h("code", None, said(t)), t),
            )
        )
    return out


class TransposedView(View):
    """Collectives forwards and backwards.

    >>> TransposedView().title(Transposed("loss"))
    'loss'
    """

    name = "transposed"
    record_type = Transposed
    height = 420
    scripted = False

    def tree(self, record: Transposed) -> Node:
        """Two columns, and what one run of each sends."""
        count = plural(len(record.forward), "collective")
        return h(
            "article",
            {"class": "xl xl-report"},
            h(
                "header",
                {"class": "xl-head"},
                h(
                    "p",
                    {"class": "xl-sentence"},
                    h("strong", None, record.title),
                    f"   {count} forwards, {len(record.backward)} backwards",
                ),
            ),
            panel(
                "transposed",
                "Transposed",
                h(
                    "div",
                    {"class": "xl-scroll"},
                    table(
                        [("line", "n"), ("forwards", ""), ("predicted", "n"), ("backwards", ""), ("predicted", "n")],
                        rows(record),
                        "xl-both-ways",
                    ),
                ),
                *(
                    h("p", {"class": "xl-dim"}, f"{word}: {run_line(found)}")
                    for word, found in (("forwards", record.forward), ("backwards", record.backward))
                    if found
                ),
            ),
        )  # fmt: skip
