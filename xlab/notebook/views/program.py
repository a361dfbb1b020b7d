"""The program view: Python, jaxpr and compiled text side by side, joined by equation id.

The page draws only the lines in sight, so a program is sent as columns: one list per property, one entry per line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from xlab.backend import caches
from xlab.notebook.views.base import View
from xlab.notebook.views.draw import LONGEST, Node, clean, h, panel, unshown
from xlab.notebook.views.levels import level_columns
from xlab.notebook.views.tabs import add_tab
from xlab.observe.records import Equation, Program, Variable
from xlab.observe.records.program import screen_names
from xlab.observe.records.repeats import layers
from xlab.observe.records.structure import (
    Heading,
    Place,
    Structure,
    headings,
    more_layers_text,
    structure_of,
)
from xlab.observe.records.units import plural

SHOWN = 200
"""Lines of each text that the page shows without a script."""

FOLDED = 400
"""Lines of Python and jaxpr that are there without a script, those beyond `SHOWN` folded."""

LONG_PROGRAM = 200
"""Equations of a program whose calls that call nothing are shut at first: what stands open is its structure."""

# By the ids of the programs, which are kept alive with their columns.
_made: caches.Latest[int, tuple[Program, dict[str, Any]]] = caches.Latest(16)
caches.register(_made.clear)
_NOWHERE = repeat(-1)


def columns(program: Program) -> dict[str, Any]:
    """The program as columns for the page; cached for the latest programs."""
    return _made.get_or_make(id(program), lambda: (program, _columns(program)))[1]


def _columns(program: Program) -> dict[str, Any]:
    """Makes the columns.

    `rows` are the lines of the jaxpr: text, equation id (-1: none), depth, and how many following rows fold under it.
    `eqs` are per equation: id, row, program number (for name scopes), names in and out, line in `python`, and `args`: per
    input the position of the equation that made it, -1 for a literal or constant, -2 - n for argument n of its own program.
    `layers` are by program number: the first equation of repeated layers, how many are in one, how many times, and a name.
    `names` are the user's own names of variables, as the page shows them. Of a program with a structure, `heads` are its headings: row, calls,
    1 for the backward pass, the first equation and the one after the last; `deep` is per equation how deep its program lies, `calls` what is
    said of each call. `closed` are the rows that are folded at first.
    """
    structure = structure_of(program)
    lines, places = _python_lines(program)
    text: list[str] = []
    ids: list[int] = []
    depth: list[int] = []
    fold: list[int] = []
    eqs: dict[str, list[Any]] = {
        k: [] for k in ("id", "row", "prog", "ins", "outs", "args", "src", "op", "scope", "extra")
    }
    eq_id, eq_row, eq_prog, eq_ins, eq_outs, eq_args, eq_src, eq_op, eq_scope, eq_extra = (
        column.append for column in eqs.values()
    )
    if structure is not None:
        eqs["deep"] = []
    notes: dict[str, str] = {}
    letters: set[str] = set()
    numbers = iter(range(1 << 60))
    types: dict[int, str] = {}  # texts by identity: many variables share a type
    words: dict[str, str] = {"": ""}

    def named(variables: tuple[Variable, ...]) -> str:
        if len(variables) == 1:
            v = variables[0]
            return f"{v.name}:{types.get(id(v.type)) or types.setdefault(id(v.type), v.type.text)}"
        return " ".join(
            [
                f"{v.name}:{types.get(id(v.type)) or types.setdefault(id(v.type), v.type.text)}"
                for v in variables
            ]
        )

    def short(given: str) -> str:
        found = words.get(given)
        if found is None:
            found = words[given] = clean(given)
        return found

    def row(line: str, equation: int, level: int) -> int:
        text.append(clean(line))
        ids.append(equation)
        depth.append(level)
        fold.append(0)
        return len(text) - 1

    def note(variables: tuple[Variable, ...]) -> None:
        for v in variables:
            if v.note:
                notes[v.name] = "" if notes.get(v.name, v.note) != v.note else v.note

    def begin(heading: Heading, level: int) -> int:
        """The row of a heading, which its equations fold under; those of the last calls are shut in a long program."""
        said = structure.words(heading.place) if structure is not None else ""
        at = row("   ".join(filter(None, (heading.title, said))), -1, level)
        heads.append([at, list(heading.calls), int(heading.place.backward), len(eqs["id"]), 0])
        return at

    def finish(at: int) -> None:
        fold[at] = len(text) - 1 - at

    def put(p: Program, level: int, deep: int, around: Place) -> None:
        number = next(numbers)
        made = {v.name: -2 - n for n, v in enumerate(p.inputs)}
        note(p.inputs)
        find = made.get
        # One layer stands open; those like it are one line, which opens.
        top = (
            headings(p, structure, around)
            if structure is not None
            else Heading("", around, (), 0, len(p.equations), (), tuple(layers(p)))
        )
        found = [(r, h.named) for h in top.walk() for r in h.layers]
        after_first = {r.start + r.length: (r, shown) for r, shown in found}
        if found:
            folds[str(number)] = [[r.start, r.length, r.times, clean(r.name)] for r, _ in found]
        begins: dict[int, list[Heading]] = {}
        for heading in top.walk():
            if heading.calls:
                begins.setdefault(heading.start, []).append(heading)
        opened: list[tuple[int, int, int]] = []  # where they end, their rows, their numbers

        def end(place: int) -> None:
            while opened and opened[-1][0] <= place:
                _, head, which = opened.pop()
                finish(head)
                if which >= 0:
                    heads[which][4] = len(eqs["id"])

        under = level
        for place, e in enumerate(p.equations):
            if opened and opened[-1][0] <= place:
                end(place)
                under = level + sum(which >= 0 for _, _, which in opened)
            if place in after_first:
                layer, shown = after_first[place]
                closed.append(row(more_layers_text(layer, shown), -1, under))
                opened.append((layer.end, closed[-1], -1))
            for heading in begins.get(place, ()):
                head = begin(heading, under)
                if long and not heading.parts and not heading.layers:
                    closed.append(head)
                opened.append((heading.end, head, len(heads) - 1))
                under += 1
            outs = named(e.outputs)
            line = equation_row(e, outs)
            ins = " ".join(e.inputs)
            if ins.count(" ") >= len(e.inputs) > 0:
                ins = " ".join([n.replace(" ", "\u00a0") for n in e.inputs])
            # Nearly all is plain: one look at the three together.
            whole = line + ins + outs
            if len(whole) > LONGEST or not (whole.isascii() and whole.isprintable()):
                line, ins, outs = clean(line), clean(ins), clean(outs)
            at = len(text)
            text.append(line)
            ids.append(e.id)
            depth.append(under)
            fold.append(0)
            scope = short(e.scope)
            eq_id(e.id)
            eq_row(at)
            eq_prog(number)
            eq_ins(ins)
            eq_outs(outs)
            eq_op(short(e.primitive))
            eq_scope(scope)
            eq_extra(short(_extra(e)) if e.rule or e.axes else scope)
            eq_src(places.get((e.source.file, e.source.line), -1) if e.source else -1)
            eq_args(list(map(find, e.inputs, _NOWHERE)))
            for v in e.outputs:
                made[v.name] = len(eqs["id"]) - 1
            note(e.outputs)
            if structure is not None:
                eqs["deep"].append(deep)
            if not e.nested:
                continue
            inside = structure.at(e.id, around) if structure is not None else around
            labels = e.nested_labels or ("",) * len(e.nested)
            for label, inner in zip(labels, e.nested, strict=False):
                head = row(f"{label or inner.name} {_names(inner.inputs)}".rstrip(), -1, under + 1)
                put(inner, under + 2, deep + 2, inside)
                row("→ " + " ".join(inner.outputs), -1, under + 2)
                finish(head)
            finish(at)
        end(len(p.equations))
        letters.update(made)
        results.append([made.get(name, -1) for name in p.outputs] if number == 0 else [])

    long = structure is not None and sum(n for _, n in program.counts) > LONG_PROGRAM
    heads: list[list[Any]] = []
    closed: list[int] = []
    folds: dict[str, list[list[Any]]] = {}
    results: list[list[int]] = []
    if program.effects:
        row(f"effects {', '.join(program.effects)}", -1, 0)
    unused = set(program.unused)
    for word, variables in (("in ", program.inputs), ("const ", program.constants)):
        for v in variables:
            row(
                f"{word} {v.name}:{v.type.text}"
                + (f"  {v.note}" if v.note and v.note != v.name else "")
                + ("  (not used)" if word == "in " and v.name in unused else ""),
                -1,
                0,
            )
    note(program.constants)
    put(program, 0, 0, Place(0, False))
    row("out " + " ".join(program.outputs), -1, 0)
    mesh = program.mesh
    more = {"heads": heads, "calls": _calls(structure)} if structure is not None else {}
    return more | {
        "name": clean(program.name),
        "mesh": {"names": [clean(n) for n in mesh.axis_names], "sizes": list(mesh.axis_sizes)}
        if mesh
        else None,
        "python": lines,
        "rows": {"text": text, "id": ids, "depth": depth, "fold": fold, "closed": closed},
        "eqs": eqs,
        "layers": folds,
        "inputs": [clean(f"{v.name}:{v.type.text}") for v in program.inputs],
        "results": results[-1],
        "names": {clean(k): clean(v) for k, v in screen_names(notes, letters).items()},
        "counts": [[clean(name), n] for name, n in program.counts],
        "levels": [level_columns(lv) for lv in program.levels],
        "heat": [list(x) for x in program.heat],
        "shared": list(program.shared),
    }


def _calls(s: Structure) -> list[list[Any]]:
    """Of each call what it is called, its line, and the predicted microseconds of its forward and of its backward pass."""
    return [
        [clean(c.label), c.source.line if c.source else 0, round(c.forward_us, 2), round(c.backward_us, 2)]
        for c in s.calls
    ]  # fmt: skip


SHARED = "Of equations that were fused and measured together, each time is an estimate: a part of theirs, by what it computes."


def equation_row(e: Equation, outs: str | None = None) -> str:
    """The equation's line with the shardings its results turned out to have; `outs` is what `_names` says of them.

    >>> from xlab.observe.records import Type
    >>> equation_row(Equation(0, "sin", ("a",), (Variable("b", Type("f32", (8,), (("data",),))),), text="b:f32[8] = sin a"))
    'b:f32[8@data] = sin a'
    """
    if outs is None:
        outs = _names(e.outputs)
    if not e.text:
        params = f"[{e.params}]" if e.params else ""
        return " ".join(
            [
                part
                for part in (f"{outs} =" if outs else "", e.primitive + params, *e.inputs)
                if part
            ]
        )
    if not any(v.type.spec for v in e.outputs):
        return e.text
    left, equals, right = e.text.partition(" = ")
    return f"{outs} = {right}" if equals and ":" in left else e.text


def _extra(e: Equation) -> str:
    """What else the status line says of an equation: its scope, the rule that made it, mesh axes."""
    if not (e.rule or e.axes):
        return e.scope
    return " · ".join(
        part
        for part in (
            e.scope,
            f"rule {e.rule}" if e.rule else "",
            f"over {','.join(e.axes)}" if e.axes else "",
        )
        if part
    )


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
    """The columns as plain text: the jaxpr and Python folded after some lines, the last compiled level cut, all cuts counted."""
    rows = data["rows"]
    python = data["python"]
    width = max((len(str(n)) for n in python["number"]), default=1)
    listing = [
        f"{n or '':>{width}}  {t}" for n, t in zip(python["number"], python["text"], strict=True)
    ]
    within = _depths_within(rows, data.get("heads", ()))
    body = ["  " * d + t for t, d in zip(rows["text"], within, strict=True)]
    if data["heat"]:
        by_line, by_row = heat_shares(data)
        listing = [by_line.get(i, "").rjust(5) + " │ " + line for i, line in enumerate(listing)]
        body = [by_row.get(i, "").rjust(5) + " │ " + line for i, line in enumerate(body)]
    parts = [
        h(
            "h3",
            None,
            program.name,
            h("small", None, " " + plural(len(data["eqs"]["id"]), "equation")),
        )
    ]
    if data.get("shared"):
        parts.append(h("p", {"class": "xl-dim"}, SHARED))
    if listing:
        parts.append(h("details", {"open": ""}, h("summary", None, "Python"), *_listing(listing)))
    made = _called(body, rows, data["heads"]) if data.get("heads") else _listing(body)
    parts.append(h("details", {"open": ""}, h("summary", None, "jaxpr"), *made))
    for level in data["levels"][-1:]:
        lines = level["lines"]
        parts.append(
            h(
                "details",
                None,
                h("summary", None, f"{level['name']} · {plural(len(lines), 'line')}"),
                _pre([_QUIET.sub("", line) for line in lines[:SHOWN]]),
                _more(len(lines) - SHOWN),
            )
        )
    if len(data["levels"]) > 1:
        parts.append(
            h(
                "p",
                {"class": "xl-dim"},
                "with scripts on, also: " + ", ".join(lv["name"] for lv in data["levels"][:-1]),
            )
        )
    return h("div", {"class": "xl-program-static", "data-program": index}, *parts)


def heat_shares(data: dict[str, Any]) -> tuple[dict[int, str], dict[int, str]]:
    """Of the measured time, the share of each line of Python and of the jaxpr, as text; lines without one are left out.

    >>> heat_shares({"heat": [[7, 3.0], [8, 1.0]], "eqs": {"id": [7, 8], "src": [0, 0], "row": [2, 3]}})
    ({0: '100 %'}, {2: '75 %', 3: '25 %'})
    """
    eqs = data["eqs"]
    place = {number: k for k, number in enumerate(eqs["id"])}
    total = sum(us for _, us in data["heat"]) or 1.0
    lines: dict[int, float] = {}
    rows: dict[int, float] = {}
    for number, us in data["heat"]:
        k = place.get(number)
        if k is not None:
            lines[eqs["src"][k]] = lines.get(eqs["src"][k], 0.0) + us
            rows[eqs["row"][k]] = us

    def shares(found: dict[int, float]) -> dict[int, str]:
        return {
            i: "<1 %" if us < 0.005 * total else f"{100 * us / total:.0f} %"
            for i, us in found.items()
            if us and i >= 0
        }

    return shares(lines), shares(rows)


_QUIET = re.compile(r", (?:backend_config|frontend_attributes|sharding)=\{.*\}$")


def _pre(lines: list[str]) -> Node:
    node = h("pre", {"class": "xl-code"})
    node.append("\n".join(lines))
    return node


def _more(count: int) -> Node | None:
    return unshown(count, "more line", ": with scripts on, all of it is here")


def _listing(lines: list[str]) -> list[Node | None]:
    rest = lines[SHOWN:FOLDED]
    folded = (
        h(
            "details",
            None,
            h("summary", None, plural(len(lines) - SHOWN, "more line")),
            _pre(rest),
            _more(len(lines) - FOLDED),
        )
        if rest
        else None
    )
    return [_pre(lines[:SHOWN]), folded]


def _depths_within(rows: dict[str, Any], heads: Sequence[list[Any]]) -> list[int]:
    """How deep each line stands in the heading that it is under: headings themselves are drawn within one another."""
    made = list(rows["depth"])
    for row, *_ in heads:
        less = rows["depth"][row] + 1 - made[row]
        for i in range(row + 1, row + 1 + rows["fold"][row]):
            made[i] = rows["depth"][i] - less
    return made


def _called(
    lines: list[str], rows: dict[str, Any], heads: Sequence[list[Any]]
) -> list[Node | None]:
    """The lines under the headings of calls, which fold; of repeated layers one, and no more lines than `FOLDED`."""
    titles = {head[0] for head in heads}
    closed, fold = set(rows["closed"]), rows["fold"]
    left = FOLDED
    cut = 0

    def part(at: int, end: int) -> list[Node | None]:
        nonlocal left, cut
        made: list[Node | None] = []
        plain: list[str] = []
        while at < end:
            after = at + 1 + (fold[at] if at in titles or at in closed else 0)
            if left <= 0:
                cut += end - at
                break
            left -= 1
            if at in titles:
                made += [_pre(plain)] if plain else []
                plain = []
                shut = {"class": "xl-calls"} | ({} if at in closed else {"open": ""})
                made.append(h("details", shut, h("summary", None, lines[at]), *part(at + 1, after)))
            else:
                plain.append(lines[at])
            at = after
        made += [_pre(plain)] if plain else []
        return made

    return [*part(0, len(lines)), _more(cut)]


def programs_panel(programs: tuple[Program, ...], data: list[dict[str, Any]]) -> Node:
    """The Program tab."""
    if not programs:
        return panel("program", "Program", h("p", {"class": "xl-dim"}, "Nothing was traced."))
    return panel(
        "program",
        "Program",
        *(program_node(p, i, d) for i, (p, d) in enumerate(zip(programs, data, strict=True))),
    )


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


add_tab(
    "program",
    "Program",
    10,
    lambda report: (
        programs_panel(report.programs, [columns(p) for p in report.programs])
        if report.programs
        else None
    ),
    lambda report: {"programs": [columns(p) for p in report.programs]},
)
