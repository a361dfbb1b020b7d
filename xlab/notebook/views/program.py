"""The program view: Python, jaxpr and compiled text side by side, joined by equation id.

The page draws only the lines in sight, so a program is sent as columns: one list per property, one entry per line.
"""

from __future__ import annotations

from typing import Any

from xlab.notebook.views.base import View
from xlab.notebook.views.draw import Node, clean, h, key, panel
from xlab.observe.records import Equation, Program, Variable
from xlab.observe.text import equation_text, plural

SHOWN = 200
"""Lines of each text that the page shows without a script; the rest of the jaxpr is folded under them."""

LEVEL_TITLES = {"stablehlo": "StableHLO", "propagated": "shardings propagated", "partitioned": "partitioned", "optimized": "compiled HLO"}


def columns(program: Program) -> dict[str, Any]:
    """Return the program as columns for the page.

    `rows` are the lines of the jaxpr: text, equation id (-1: none), depth, and how many following rows fold under it.
    `eqs` are per equation: id, row, program number (for name scopes), names in and out, line in `python`.
    """
    lines, places = _python_lines(program)
    text: list[str] = []
    ids: list[int] = []
    depth: list[int] = []
    fold: list[int] = []
    eqs: dict[str, list[Any]] = {k: [] for k in ("id", "row", "prog", "ins", "outs", "src", "op", "extra")}
    numbers = iter(range(1 << 60))

    def row(line: str, equation: int, level: int) -> int:
        text.append(clean(line))
        ids.append(equation)
        depth.append(level)
        fold.append(0)
        return len(text) - 1

    def put(p: Program, level: int) -> None:
        number = next(numbers)
        for e in p.equations:
            at = row(equation_text(e), e.id, level)
            for name, value in _equation_columns(e, at, number, places).items():
                eqs[name].append(value)
            labels = e.nested_labels or ("",) * len(e.nested)
            for label, inner in zip(labels, e.nested, strict=False):
                head = row(f"{label or inner.name} {_names(inner.inputs)}".rstrip(), -1, level + 1)
                put(inner, level + 2)
                row("→ " + " ".join(inner.outputs), -1, level + 2)
                fold[head] = len(text) - 1 - head
            fold[at] = len(text) - 1 - at

    for word, variables in (("in ", program.inputs), ("const ", program.constants)):
        for v in variables:
            row(f"{word} {v.name}:{v.type.text}" + (f"  {v.note}" if v.note and v.note != v.name else ""), -1, 0)
    put(program, 0)
    row("out " + " ".join(program.outputs), -1, 0)
    mesh = program.mesh
    return {
        "name": clean(program.name),
        "mesh": {"names": [clean(n) for n in mesh.axis_names], "sizes": list(mesh.axis_sizes)} if mesh else None,
        "python": lines,
        "rows": {"text": text, "id": ids, "depth": depth, "fold": fold},
        "eqs": eqs,
        "counts": [list(c) for c in program.counts],
        "levels": [{"name": LEVEL_TITLES.get(lv.name, clean(lv.name)), "lines": [clean(x) for x in lv.text.splitlines()],
                    "links": [[line, *found] for line, found in lv.links], "heat": [list(x) for x in lv.heat]}
                   for lv in program.levels],
        "heat": [list(x) for x in program.heat],
    }


def _equation_columns(e: Equation, at: int, number: int, places: dict[tuple[str, int], int]) -> dict[str, Any]:
    source = e.source
    extra = " · ".join(part for part in (e.scope, f"rule {e.rule}" if e.rule else "",
                                         f"over {','.join(e.axes)}" if e.axes else "") if part)
    notes = "".join(f" ({v.note})" for v in e.outputs if v.note and v.note != v.name)
    return {"id": e.id, "row": at, "prog": number, "ins": clean(" ".join(e.inputs)),
            "outs": clean(_names(e.outputs) + notes), "op": clean(e.primitive), "extra": clean(extra),
            "src": places.get((source.file, source.line), -1) if source else -1}


def _names(variables: tuple[Variable, ...]) -> str:
    return " ".join(f"{v.name}:{v.type.text}" for v in variables)


def _python_lines(program: Program) -> tuple[dict[str, list[Any]], dict[tuple[str, int], int]]:
    text: list[str] = []
    number: list[int] = []
    places: dict[tuple[str, int], int] = {}
    for listing in program.sources:
        if len(program.sources) > 1:
            text.append("# " + clean(listing.name or listing.file))
            number.append(0)
        for i, line in enumerate(listing.lines):
            places[listing.file, listing.first + i] = len(text)
            text.append(clean(line))
            number.append(listing.first + i)
    return {"text": text, "number": number}, places


def program_node(program: Program, index: int, data: dict[str, Any]) -> Node:
    """The columns as plain text, complete for the jaxpr, cut (and saying so) for the compiled levels."""
    rows = data["rows"]
    python = data["python"]
    keys = _keys_by_line(data, index)
    width = max((len(str(n)) for n in python["number"]), default=1)
    listing = [_line(f"{n or '':>{width}}  {t}", keys.get(i)) for i, (n, t) in enumerate(zip(python["number"], python["text"], strict=True))]
    body = [_line("  " * d + t, key(index, i)) for t, i, d in zip(rows["text"], rows["id"], rows["depth"], strict=True)]
    parts = [h("h3", None, program.name, h("small", None, " " + plural(sum(n for _, n in program.counts), "equation")))]
    if listing:
        parts.append(h("details", {"open": ""}, h("summary", None, "Python"), _pre(listing[:SHOWN]), *_rest(listing)))
    parts.append(h("details", {"open": ""}, h("summary", None, "jaxpr"), _pre(body[:SHOWN]), *_rest(body)))
    for level in data["levels"]:
        lines = level["lines"]
        more = len(lines) - SHOWN
        parts.append(h("details", None, h("summary", None, f"{level['name']} · {plural(len(lines), 'line')}"),
                       _pre([line + "\n" for line in lines[:SHOWN]]),
                       h("p", {"class": "xl-dim"}, f"{plural(more, 'more line')}: with scripts on, all of it is here") if more > 0 else None))
    return h("div", {"class": "xl-program-static", "data-program": index}, *parts)


def _keys_by_line(data: dict[str, Any], index: int) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for equation, line in zip(data["eqs"]["id"], data["eqs"]["src"], strict=True):
        if line >= 0:
            found.setdefault(line, []).append(f"{index}:{equation}")
    return {line: " ".join(keys[:50]) for line, keys in found.items()}


def _line(text: str, found: str | None) -> Node | str:
    return text + "\n" if found is None else h("span", {"data-eq": found}, text + "\n")


def _pre(lines: list[Any]) -> Node:
    return h("pre", {"class": "xl-code"}, lines)


def _rest(lines: list[Any]) -> list[Node]:
    if len(lines) <= SHOWN:
        return []
    return [h("details", None, h("summary", None, plural(len(lines) - SHOWN, "more line")), _pre(lines[SHOWN:]))]


def programs_panel(programs: tuple[Program, ...], data: list[dict[str, Any]]) -> Node:
    """The Program tab."""
    if not programs:
        return panel("program", "Program", h("p", {"class": "xl-dim"}, "Nothing was traced."))
    return panel("program", "Program", *(program_node(p, i, d) for i, (p, d) in enumerate(zip(programs, data, strict=True))))


class ProgramView(View):
    """A traced program: text, folding, search, linked levels.

    >>> ProgramView().payload(Program("f"))["view"]
    'program'
    """

    name = "program"
    record_type = Program

    def tree(self, record: Program) -> Node:
        """The columns as text."""
        return h("article", {"class": "xl xl-report"}, programs_panel((record,), [columns(record)]))

    def data(self, record: Program) -> dict[str, Any]:
        """The program's columns."""
        return {"programs": [columns(record)]}
