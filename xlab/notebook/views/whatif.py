"""The what-if views: two placements compared, a ranking, and the controls of a live report."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from typing import Any

from xlab.notebook.views.base import Field, Request, View
from xlab.notebook.views.draw import Node, clean, decimal, h, panel, table, unshown
from xlab.notebook.views.layout import mesh_data
from xlab.notebook.views.tabs import add_tab, placed_programs
from xlab.observe.placing.patterns import call_of, groups_of, put_line
from xlab.observe.records import ArrayLayout, Report
from xlab.observe.records.units import plural, size_text, time_text
from xlab.observe.records.whatif import (
    Placement,
    Ranking,
    WhatIf,
    change_line,
    collective_line,
    cost_rows,
    count_of,
    left_line,
)
from xlab.observe.sharding.reasons import spec_text

MOST_COLLECTIVES = 40
MOST_PLACEMENTS = 100
MOST_ARGUMENTS = 12
LONGEST = 100_000
"""Characters of a placement that a page may send."""

SECONDS = 30.0
"""How long a search that a page asks for may estimate."""

TURN = 0.7
"""Seconds between two answers of a search."""

WHAT_IF = Request(
    "what_if",
    {"program": Field(int, low=0, high=1 << 20), "placement": Field(str)},
    WhatIf,
    "compile a program with its arguments placed otherwise, or for another mesh; `placement` is read as axis names and numbers",
)
SEARCH = Request(
    "search",
    {"program": Field(int, low=0, high=1 << 20), "placement": Field(str)},
    Ranking,
    "begin a search over the arguments listed under `vary`, or go on with it for about a second, and rank what was found",
)


def read_placement(
    text: str,
) -> tuple[dict[int, tuple[tuple[str, ...], ...]], dict[str, int], tuple[int, ...]]:
    """Specs by argument, axis sizes, and arguments to vary, as a page wrote them; nothing but names and numbers passes.

    >>> read_placement('{"mesh": [["data", 4]], "specs": {"0": [["data"], []]}, "vary": [1]}')
    ({0: (('data',), ())}, {'data': 4}, (1,))

    Raises:
        ValueError: it is anything else.
    """
    wrong = ValueError(
        'a placement is {"mesh": [[axis, size], …], "specs": {argument: [[axis, …] per dimension]}, "vary": [argument, …]}; '
        f"given {text[:80]!r}"
    )
    if len(text) > LONGEST:
        raise wrong
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(given, dict) or not set(given) <= {"mesh", "specs", "vary", *_OPTIONS}:
        raise wrong
    mesh, specs, vary = given.get("mesh", []), given.get("specs", {}), given.get("vary", [])
    fits = (
        isinstance(mesh, list)
        and all(
            isinstance(m, list) and len(m) == 2 and type(m[0]) is str and type(m[1]) is int
            for m in mesh
        )
        and isinstance(specs, dict)
        and all(
            k.isdecimal() and k.isascii() and len(k) < 7 and _is_spec(v) for k, v in specs.items()
        )
        and isinstance(vary, list)
        and all(type(n) is int and n >= 0 for n in vary)
        and all(type(given[k]) is kind for k, kind in _OPTIONS.items() if k in given)
    )
    if not fits:
        raise wrong
    sizes = dict(mesh)
    if len(sizes) != len(mesh):
        raise ValueError(
            f"a mesh names each axis once; given {', '.join(f'{n}={s}' for n, s in mesh)}"
        )
    return {int(k): tuple(map(tuple, v)) for k, v in specs.items()}, sizes, tuple(vary)


_OPTIONS = {"machine": str, "shapes": bool, "on": bool}


def read_options(text: str) -> tuple[str, bool, bool]:
    """The machine, whether other shapes of the mesh are tried, and whether a search goes on, of what `read_placement` let pass.

    >>> read_options('{"machine": "tpu:v5e", "on": true}')
    ('tpu:v5e', True, True)
    """
    given = json.loads(text)
    return given.get("machine", "cpu"), given.get("shapes", True), given.get("on", False)


def _is_spec(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(axes, list) and all(type(a) is str for a in axes) for axes in value
    )


# ------------------------------------------------------------------------------------------------------- pictures


def what_if_node(x: WhatIf) -> Node:
    """Numbers of both with bars, then the collectives of both."""
    head = [("", ""), (x.before.title, "n"), ("", ""), (x.after.title, "n"), ("", ""), ("", "")]
    rows = []
    for what, was, now, a, b in cost_rows(x):
        most = max(a, b) or 1
        word = "same" if a == b else "less" if b < a else "more"
        sign = {"same": "=", "less": "▼ less", "more": "▲ more"}[word]
        rows.append(
            h(
                "tr",
                {"class": f"xl-is-{word}"},
                h("td", None, what),
                h("td", {"class": "n"}, was),
                h("td", None, _bar(a / most)),
                h("td", {"class": "n"}, now),
                h("td", None, _bar(b / most)),
                h("td", {"class": "xl-verdict"}, sign),
            )
        )
    return h(
        "div",
        {"class": "xl-whatif-result"},
        h("p", None, h("b", None, change_line(x))),
        table(head, rows, "xl-weighed"),
        h("div", {"class": "xl-pair"}, _side(x.before), _side(x.after)),
    )


def _bar(share: float) -> Node:
    return h("span", {"class": "xl-share"}, h("span", {"style": f"width:{decimal(100 * share)}%"}))


def _side(p: Placement) -> Node:
    shown = p.collectives[:MOST_COLLECTIVES]
    more = len(p.collectives) - len(shown)
    return h(
        "figure",
        {"class": "xl-weighed-side"},
        h("figcaption", None, p.title, f" · mesh {p.mesh.text}" if p.mesh else ""),
        h(
            "ul",
            None,
            *(
                h("li", {"class": "xl-added" if t.reshards else None}, collective_line(t, "⚠"))
                for t in shown
            ),
        )
        if shown
        else h("p", None, "no collectives"),
        unshown(more, "more collective"),
    )


def ranking_node(x: Ranking) -> Node:
    """What was found as a sentence, placements in order, the time of each as a bar, and the code of the best."""
    most = max((p.step_us for p in x.found), default=1) or 1
    shown = [(n, p) for n, p in enumerate(x.found[:MOST_PLACEMENTS])]
    head = [
        ("", "n"),
        ("placement", ""),
        ("mesh", ""),
        ("step", "n"),
        ("computing and sending", ""),
        ("per device", "n"),
        ("collectives", "n"),
        ("sent", "n"),
        ("", ""),
    ]
    rows = [
        h(
            "tr",
            {"data-rank": n, "class": "xl-now" if p.name == "now" else "xl-best" if n == x.best else None},
            h("td", {"class": "n"}, n + 1),
            h("td", {"title": p.title}, h("b", None, p.name) if p.name else None, h("code", None, f" {short(p.title)}")),
            h("td", None, p.mesh.text if p.mesh else ""),
            h("td", {"class": "n"}, time_text(p.step_us)),
            h("td", None, _parts(p, most)),
            h("td", {"class": "n"}, size_text(p.peak)),
            h("td", {"class": "n"}, count_of(p)),
            h("td", {"class": "n"}, size_text(p.sent)),
            h("td", {"class": "xl-dim"}, "estimate" if p.estimated else "compiled"),
        )
        for n, p in shown
    ]  # fmt: skip
    more = len(x.found) - len(rows)
    notes = [plural(more, "more placement")] * bool(more) + [left_line(x)] * bool(left_line(x))
    return h(
        "div",
        {"class": "xl-whatif-result"},
        h("p", {"class": "xl-found"}, h("b", None, x.verdict), f"; {plural(x.tried, 'placement')} tried, for {x.machine or 'cpu'}"),
        h("div", {"class": "xl-scroll"}, table(head, rows, "xl-ranking")),
        h("p", {"class": "xl-dim"}, "; ".join(notes)) if notes else None,
        h("pre", {"class": "xl-code"}, x.code) if x.code else None,
    )  # fmt: skip


SHORTEST = 90


def short(text: str) -> str:
    """A placement in a line."""
    return text if len(text) <= SHORTEST else text[: SHORTEST - 1] + "…"


def _parts(p: Placement, most: float) -> Node:
    """The parts of a step as one bar: computing, then sending."""
    share = lambda us: f"width:{decimal(100 * min(1.0, us / most))}%"
    return h(
        "span",
        {"class": "xl-share xl-parts", "title": f"{time_text(p.compute_us)} computing, {time_text(p.predicted_us)} sending"},
        h("span", {"style": share(p.compute_us)}),
        h("span", {"class": "xl-sending", "style": share(p.predicted_us)}),
    )  # fmt: skip


MOST_SPECS = 6
"""Arguments whose placements stand in one line of code."""


def code_of(function: str, arguments: Sequence[ArrayLayout], call: str = "") -> str:
    """The Python code for the same question, of a call as it was written or of a function `f` and its arguments."""
    specs = ", ".join(spec_text(x.type.spec or ()) for x in arguments[:MOST_SPECS]) + (
        ", …" if len(arguments) > MOST_SPECS else ""
    )
    fun, bracket, rest = call.partition("(")
    of_cell = fun == "cell"
    f = fun if bracket and not of_cell else function if function.isidentifier() else "f"
    given = f"{f}, {rest[:-1]}" if bracket else f"{f}, *args"
    first = arguments[0]
    whole = f"{{0: {[[] for _ in first.type.shape]}}}"
    return (
        "from xlab import observe\n\n"
        + "# f: a function of what the cell reads that returns what it leaves\n" * of_cell
        + f"tried = observe.Experiment({given})\n"
        f"print(tried.weigh({whole}))    # {first.name} whole on every device; a mesh such as {{'data': 64, 'model': 8}} behind it need not be there\n"
        "found = tried.search()    # looks for a better placement; machine='tpu:v5e:16x16' for one that is not here\n"
        "print(found, found.code)\n"
        f"# now: {specs}"
    )


Programs = Mapping[int, tuple[str, Sequence[ArrayLayout]]]
"""Programs with arguments on a mesh: the name of each, and its arguments."""

Calls = Mapping[int, tuple[list[str], str]]
"""Of a program the paths of all its arguments, and the call as it was written."""

NO_CALLS: Calls = types.MappingProxyType({})


def what_if_panel(programs: Programs, calls: Calls = NO_CALLS) -> Node:
    """The What if tab: without a kernel the arguments as they lie, and the code that tries other placements."""
    children = []
    for index, (function, arguments) in programs.items():
        rows = [
            h(
                "tr",
                None,
                h("td", None, h("code", None, x.name)),
                h("td", None, h("code", None, x.type.text)),
                h("td", None, h("code", None, spec_text(x.type.spec or ()))),
            )
            for x in arguments[:MOST_ARGUMENTS]
        ]
        more = len(arguments) - len(rows)
        children += [
            h("h3", None, function),
            table([("argument", ""), ("type", ""), ("spec", "")], rows),
            unshown(more, "more argument"),
            h("pre", {"class": "xl-code"}, code_of(function, arguments, *calls.get(index, ())[1:])),
        ]
    return panel(
        "whatif",
        "What if",
        h(
            "div",
            {"class": "xl-whatif-static"},
            h(
                "p",
                {"class": "xl-dim"},
                "Other placements are compiled by a running kernel, never run. This is how to ask:",
            ),
            *children,
        ),
    )


def what_if_data(programs: Programs, calls: Calls = NO_CALLS) -> list[dict[str, Any]]:
    """What the controls need: arguments with their specs, and the mesh."""
    return [
        {
            "program": index,
            "name": clean(function),
            "put": clean(
                put_line(function, [x.name for x in arguments], *calls.get(index, ((), "")))
            ),
            "mesh": mesh_data(arguments[0].mesh),
            "kind": "Explicit" if "Explicit" in arguments[0].mesh.axis_types else "Auto",
            "args": [
                {
                    "name": clean(x.name),
                    "type": clean(x.type.text),
                    "shape": list(x.type.shape),
                    "spec": [
                        list(map(clean, axes)) for axes in x.type.spec or ((),) * len(x.type.shape)
                    ],
                }
                for x in arguments
            ],
            "groups": [
                [clean(g.pattern), list(g.members)]
                for g in groups_of(
                    [x.name for x in arguments], [(x.type.dtype, x.type.shape) for x in arguments]
                )
            ],
        }
        for index, (function, arguments) in programs.items()
        if arguments[0].mesh is not None
    ]


class WhatIfView(View):
    """One program under two placements.

    >>> WhatIfView().title(WhatIf("f", Placement("now"), Placement("what if")))
    'f: nothing lies otherwise'
    """

    name = "whatif"
    record_type = WhatIf
    height = 420
    scripted = False

    def title(self, record: WhatIf) -> str:
        """The function and what is different."""
        return f"{record.function}: {change_line(record)}"

    def tree(self, record: WhatIf) -> Node:
        """Numbers and collectives side by side."""
        return h(
            "article",
            {"class": "xl xl-report"},
            panel("weighed", "What if", h("h3", None, record.function), what_if_node(record)),
        )


class RankingView(View):
    """Placements of one program, the cheapest first.

    >>> RankingView().title(Ranking("f"))
    'placements of f'
    """

    name = "ranking"
    record_type = Ranking
    height = 420
    scripted = False

    def title(self, record: Ranking) -> str:
        """The function."""
        return f"placements of {record.function}"

    def tree(self, record: Ranking) -> Node:
        """One table."""
        return h(
            "article",
            {"class": "xl xl-report"},
            panel(
                "ranking",
                self.title(record),
                h("h3", None, self.title(record)),
                ranking_node(record),
            ),
        )


def _calls(report: Report) -> Calls:
    alone = len(report.programs) == 1
    every = [[v.note or v.name for v in p.inputs] for p in report.programs]
    return {
        n: (names, call_of(report.title, p.name, names, alone))
        for n, (p, names) in enumerate(zip(report.programs, every, strict=True))
    }


def _report_panel(report: Report) -> Node | None:
    placed = placed_programs(report)
    return what_if_panel(placed, _calls(report)) if placed else None


add_tab(
    "whatif",
    "What if",
    90,
    _report_panel,
    lambda report: {"whatif": what_if_data(placed_programs(report), _calls(report))},
    (WHAT_IF, SEARCH),
)
