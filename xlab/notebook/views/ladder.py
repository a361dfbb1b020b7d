"""The ladder view: one program under the other, each equation beside the rule that made it, one selection through all of them."""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, clean, h, panel, unshown
from xlab.notebook.views.program import columns, equation_row
from xlab.observe.records import Equation, Program
from xlab.observe.records.ladder import Ladder, Rung, short_rule, signature
from xlab.observe.records.units import plural

SHOWN = 60
"""Equations of each rung that the page shows without a script."""


def rung_data(rung: Rung, program: dict[str, Any]) -> dict[str, Any]:
    """Per equation, in the order of `program`'s columns: where it came from (-1: nowhere), which rule made it, whether it is a derivative."""
    origin, derivative = dict(rung.links), set(rung.derivative)
    by_id = {e.id: e.rule or "" for e, _ in rung.program.walk()}
    rules = sorted(set(by_id.values()))
    place = {rule: n for n, rule in enumerate(rules)}
    ids = program["eqs"]["id"]
    return {
        "name": clean(rung.name),
        "says": clean(rung.says),
        "of": [origin.get(i, -1) for i in ids],
        "rule": [place[by_id[i]] for i in ids],
        "rules": [clean(short_rule(rule)) for rule in rules],
        "derivative": [int(i in derivative) for i in ids],
    }


def rung_node(rung: Rung, index: int) -> Node:
    """A rung as text: rule and equation side by side; a rule is written where it begins."""
    equations = list(rung.program.walk())
    derivative = set(rung.derivative)
    rows: list[Node] = []
    before = None
    for e, depth in equations[:SHOWN]:
        rule = rule_of(e, index)
        rows.append(
            h(
                "div",
                {"class": "xl-rung-row", "data-eq": f"{index}:{e.id}"},
                h(
                    "span",
                    {"class": "xl-rule", "title": rule},
                    "" if rule == before else short_rule(rule),
                ),
                h("code", {"class": "xl-d"}, "∂" if e.id in derivative else ""),
                h("code", None, "  " * depth + equation_row(e)),
            )
        )
        before = rule
    more = len(equations) - SHOWN
    return h(
        "div",
        {"class": "xl-rung", "data-rung": index},
        h(
            "h3",
            None,
            h("code", None, rung.name),
            h("small", None, f" {plural(len(equations), 'equation')}   {rung.says}"),
        ),
        h("p", {"class": "xl-rung-in"}, h("code", None, signature(rung.program))),
        *rows,
        unshown(more, "more equation", ": with scripts on, all of it is here"),
    )


def rule_of(e: Equation, index: int) -> str:
    """What stands beside an equation: its rule, or for the function itself the user's line."""
    return e.rule or (f"line {e.source.line}" if e.source and not index else "")


def _python(program: Program) -> list[Node]:
    lines = [
        f"{listing.first + i:>4}  {line}"
        for listing in program.sources
        for i, line in enumerate(listing.lines)
    ]
    pre = h("pre", {"class": "xl-code"})
    pre.append("\n".join(map(clean, lines[:SHOWN])))
    cut = h(
        "p",
        {"class": "xl-dim"},
        f"{plural(len(lines) - SHOWN, 'more line')}: with scripts on, all of it is here",
    )
    return [pre, *([cut] if len(lines) > SHOWN else [])] if lines else []


class LadderView(View):
    """A function under each transformation.

    >>> LadderView().title(Ladder("ladder of f"))
    'ladder of f'
    """

    name = "ladder"
    record_type = Ladder
    height = 900

    def tree(self, record: Ladder) -> Node:
        """The rungs as text, then what was left out."""
        python = _python(record.rungs[0].program) if record.rungs else []
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
                    "   " + " → ".join(r.name for r in record.rungs),
                ),
            ),
            panel(
                "ladder",
                "Ladder",
                h(
                    "div",
                    {"class": "xl-ladder-static"},
                    *python,
                    *(rung_node(r, i) for i, r in enumerate(record.rungs)),
                ),
                *(
                    h("p", {"class": "xl-dim"}, h("code", None, name), " is left out: ", why)
                    for name, why in record.left_out
                ),
            ),
        )

    def data(self, record: Ladder) -> dict[str, Any]:
        """The programs as columns, and beside each what its equations came from. The source is sent once."""
        sources = record.rungs[0].program.sources if record.rungs else ()
        programs = [columns(r.program.replace(sources=sources)) for r in record.rungs]
        for program in programs[1:]:
            program["python"] = {"text": [], "number": []}
        return {
            "title": clean(record.title),
            "programs": programs,
            "ladder": [rung_data(r, p) for r, p in zip(record.rungs, programs, strict=True)],
        }
