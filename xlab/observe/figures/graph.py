"""A program as a graph: `to_svg` draws it with our own layout, `to_graphviz` hands it to Graphviz.

Equations are boxes; nested programs, and runs of equations under one `named_scope`, are boxes with their own graph inside.
`Program.to_svg()` and `Program.to_graphviz()` call these.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlab.observe.figures.sugiyama import GraphLayout, sugiyama_layout
from xlab.observe.pictures import set_picture
from xlab.observe.records import Equation, Program, Variable
from xlab.observe.records.repeats import layers, repeats
from xlab.observe.records.structure import Heading, Place, Structure, headings, structure_of
from xlab.observe.records.units import plural

MOST_ENDS = 16
"""Inputs or results with a box of their own beside the boxes of calls; more share one."""


@dataclass
class Box:
    """A box to draw: its text, the variables it uses and defines, and the graph inside, if it is open."""

    kind: str
    label: str
    type: str = ""
    name: str = ""
    uses: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    inside: Graph | None = None
    collective: bool = False
    overlaps: str = ""
    width: float = 0
    height: float = 0

    @property
    def pending(self) -> bool:
        """Whether it starts a collective, whose result comes later."""
        return self.type.startswith("Todo{")


@dataclass
class Graph:
    """Boxes in program order with edges from earlier to later ones."""

    boxes: list[Box]
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    drawing: GraphLayout | None = None


def graph(program: Program, depth: int = 1) -> Graph:
    """The boxes and edges of a program; boxes are open down to `depth`.

    >>> from xlab.observe.records import Equation, Program, Type, Variable
    >>> x, y = (Variable(n, Type("f32", (3,))) for n in "xy")
    >>> g = graph(Program("f", (x,), ("y",), (), (Equation(0, "sin", ("x",), (y,)),)))
    >>> [b.label for b in g.boxes], list(zip(g.sources, g.targets))
    (['x', 'sin', 'out 0'], [(0, 1), (1, 2)])
    """
    ends = tuple(Box("output", f"out {i}", uses=(name,)) for i, name in enumerate(program.outputs))
    structure = structure_of(program)
    if structure is not None:
        return _called(program, ends, structure, Place(0, False), depth)
    return _level(program.inputs, program.equations, ends, 0, depth, _layer_names(program))


def _layer_names(program: Program) -> dict[int, str]:
    """The names of layers, by the number of the first equation of each, those in nested programs included."""
    found = {program.equations[r.start].id: r.name for r in layers(program)}
    for e in program.equations:
        for inner in e.nested:
            found.update(_layer_names(inner))
    return found


def _called(
    program: Program, ends: Sequence[Box], s: Structure, around: Place, depth: int
) -> Graph:
    """The boxes of a program whose equations stand under the calls that made them; one of repeated layers stands for all."""
    equations = program.equations

    def boxes_of(heading: Heading, start: int, end: int, depth: int) -> list[Box]:
        parts = {part.start: part for part in heading.parts if start <= part.start < end}
        of_layers = {r.start: r for r in heading.layers if start <= r.start and r.end <= end}
        boxes = []
        at = start
        while at < end:
            part, r = parts.get(at), of_layers.get(at)
            if r is not None:
                once = at + r.length
                inside = boxes_of(heading, at, once, depth - 1) if depth > 0 else []
                boxes.append(_group(equations[at : r.end], r.label, f"{r.length} equations each", inside))  # fmt: skip
                at = r.end
            elif part is not None and (part.end - part.start > 1 or equations[at].nested):
                boxes.append(box_of(part, depth))
                at = part.end
            else:
                boxes.append(_equation(equations[at], depth, {}, (s, s.at(equations[at].id, around))))  # fmt: skip
                at += 1
        return boxes

    def box_of(heading: Heading, depth: int) -> Box:
        run = equations[heading.start : heading.end]
        layer = heading.layers[0] if heading.named else None
        whole = layer is not None and layer.end == heading.end
        end = heading.start + layer.length if layer is not None and whole else heading.end
        one = heading._replace(layers=()) if whole else heading
        inside = boxes_of(one, heading.start, end, depth - 1) if depth > 0 else []
        count = f"{end - heading.start:,} equations" + " each" * whole
        label = " · ".join(filter(None, (heading.title, s.words(heading.place))))
        return _group(run, label, count, inside)

    used = {name for e in equations for name in e.inputs} | {name for b in ends for name in b.uses}
    inputs = [
        Box("input", v.note or v.name, v.type.text, v.name, makes=(v.name,))
        for v in program.inputs
        if v.name in used
    ]
    if len(inputs) > MOST_ENDS:
        inputs = [Box("input", plural(len(inputs), "input"), makes=tuple(n for b in inputs for n in b.makes))]  # fmt: skip
    if len(ends) > MOST_ENDS:
        ends = [Box("output", plural(len(ends), "result"), uses=tuple(n for b in ends for n in b.uses))]  # fmt: skip
    top = headings(program, s, around)
    made = [box_of(top, depth)] if top.calls else boxes_of(top, 0, len(equations), depth)
    return _joined([*inputs, *made, *ends])


def _group(run: Sequence[Equation], label: str, words: str, inside: Sequence[Box]) -> Box:
    """A box of several equations, closed where nothing is given to stand inside."""
    made = {v.name for e in run for v in e.outputs}
    needs = tuple(dict.fromkeys(n for e in run for n in e.inputs if n not in made))
    return Box("scope", label, words, "", needs, tuple(made), _joined(list(inside)) if inside else None)  # fmt: skip


def _level(
    inputs: Sequence[Variable],
    equations: Sequence[Equation],
    ends: Sequence[Box],
    scope: int,
    depth: int,
    names: Mapping[int, str],
) -> Graph:
    used = {name for e in equations for name in e.inputs} | {name for b in ends for name in b.uses}
    boxes = [
        Box("input", v.note or v.name, v.type.text, v.name, makes=(v.name,))
        for v in inputs
        if v.name in used
    ]

    def part(e: Equation) -> str:
        parts = e.scope.split("/")
        return parts[scope] if scope < len(parts) else ""

    # A level that is one scope as a whole shows what is in it.
    if equations and part(equations[0]) and len({part(e) for e in equations}) == 1:
        return _level(inputs, equations, ends, scope + 1, depth, names)
    found = [
        r._replace(name=names.get(equations[r.start].id) or r.name) for r in repeats(equations)
    ]
    layer_at = {at: r for r in found for at in range(r.start, r.end)}
    places = {id(e): at for at, e in enumerate(equations)}

    def group(e: Equation) -> tuple[str, bool]:
        """The scope, or the layers, that an equation stands in."""
        r = layer_at.get(places[id(e)])
        return (part(e), False) if r is None else (f"{r.label} @{r.start}", True)

    for (name, repeated), grouped in itertools.groupby(equations, group):
        run = tuple(grouped)
        if repeated:
            r = layer_at[places[id(run[0])]]
            once = run[: r.length]
            made = {v.name for e in run for v in e.outputs}
            needs = tuple(dict.fromkeys(n for e in run for n in e.inputs if n not in made))
            inside = _level((), once, (), scope, depth - 1, names) if depth > 0 else None
            words = f"{r.length} equations each"
            label = r.label
            boxes.append(Box("scope", label, words, "", needs, tuple(made), inside))
        elif name and len(run) > 1:
            made = {v.name for e in run for v in e.outputs}
            needs = tuple(dict.fromkeys(n for e in run for n in e.inputs if n not in made))
            inside = _level((), run, (), scope + 1, depth - 1, names) if depth > 0 else None
            boxes.append(
                Box(
                    "scope",
                    name,
                    f"{len(run)} equations",
                    uses=needs,
                    makes=tuple(made),
                    inside=inside,
                )
            )
        else:
            boxes += [_equation(e, depth, names) for e in run]
    return _joined([*boxes, *ends])


def _equation(
    e: Equation,
    depth: int,
    names: Mapping[int, str],
    called: tuple[Structure, Place] | None = None,
) -> Box:
    inside = None
    if e.nested and depth > 0:
        inner = [
            _called(p, (), *called, depth - 1)
            if called is not None
            else _level(p.inputs, p.equations, (), 0, depth - 1, names)
            for p in e.nested
        ]
        inside = Graph([], [], [])
        for g in inner:
            base = len(inside.boxes)
            inside.boxes += g.boxes
            inside.sources += [base + a for a in g.sources]
            inside.targets += [base + b for b in g.targets]
    first = e.outputs[0] if e.outputs else None
    return Box(
        "equation",
        e.primitive,
        first.type.text if first else "",
        first.note if first else "",
        e.inputs,
        tuple(v.name for v in e.outputs),
        inside,
        bool(e.axes),
    )


def _joined(boxes: list[Box]) -> Graph:
    maker: dict[str, int] = {}
    made = Graph(boxes)
    for at, box in enumerate(boxes):
        for source in dict.fromkeys(maker[n] for n in box.uses if n in maker):
            made.sources.append(source)
            made.targets.append(at)
        maker.update(dict.fromkeys(box.makes, at))
    for source, target in zip(made.sources, made.targets):
        if boxes[source].pending:
            for between in boxes[source + 1 : target]:
                sends = between.collective or between.label.endswith("_done")
                if between.kind == "equation" and not sends:
                    between.overlaps = boxes[source].label
    return made


# ------------------------------------------------------------------------------------------------------------ SVG

_HEAD = 32


def to_svg(program: Program, depth: int = 1) -> str:
    """The program as an SVG picture; nested programs and scopes are open down to `depth`.

    Example:
        >>> from xlab.observe.records import Equation, Program
        >>> to_svg(Program("f", equations=(Equation(0, "iota"),)))[:4]
        '<svg'
    """
    made = graph(program, depth)
    place(made)
    assert made.drawing is not None
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {made.drawing.width + 32:.1f} {made.drawing.height + 24:.1f}" '
        f'width="{made.drawing.width + 32:.0f}" height="{made.drawing.height + 24:.0f}" font-family="ui-monospace,Menlo,Consolas,monospace" '
        f'font-size="12" role="img"><title>{_safe(program.name)}</title><rect width="100%" height="100%" fill="#fff"/>'
    ]
    _draw(made, 16, 12, out)
    return "".join(out) + "</svg>"


def place(g: Graph) -> GraphLayout:
    """Gives boxes their sizes and places, from the inside out."""
    for box in g.boxes:
        if box.inside is not None and box.inside.boxes:
            inner = place(box.inside)
            box.width, box.height = (
                max(inner.width + 20, len(box.label) * 7.3 + 60),
                inner.height + _HEAD + 10,
            )
        else:
            box.inside = None
            extra = len(box.name) + 1 if box.name and box.kind == "equation" else 0
            box.width = max(44, max(len(box.label) + extra, len(box.type) * 0.87) * 7.3 + 16)
            box.height = 34 if box.type else 22
    g.drawing = sugiyama_layout(
        [b.width for b in g.boxes], [b.height for b in g.boxes], g.sources, g.targets
    )
    return g.drawing


def _draw(g: Graph, dx: float, dy: float, out: list[str]) -> None:
    d = g.drawing
    assert d is not None
    out.append('<g fill="none" stroke="#8793a0">')
    words = []
    faint = ' stroke-opacity=".35"'
    for x1, y1, x2, y2, source, _ in d.links:
        start, end, turn, low = x1 + dx, x2 + dx, max(y1, y2 - 26) + dy, y2 + dy
        out.append(
            f'<path{_dashed(g.boxes[source])} d="M{start:.1f} {y1 + dy:.1f}V{turn:.1f}C{start:.1f} {turn + 14:.1f} {end:.1f} {low - 14:.1f} {end:.1f} {low:.1f}"/>'
        )
        if g.boxes[source].pending:
            words.append((end + 6, low - 8))
    for lane in d.lanes:
        if g.boxes[lane.source].pending:
            words += [(d.x[t] + dx + 6, y + dy - 8) for t, y in lane.targets]
        start, x, low = d.x[lane.source] + dx, lane.x + dx, lane.top + dy
        last = max(y for _, y in lane.targets) + dy
        branches = "".join(
            f"M{x:.1f} {max(low + 22, y + dy - 22):.1f}C{x:.1f} {y + dy - 2:.1f} {d.x[t] + dx:.1f} {y + dy - 14:.1f} "
            f"{d.x[t] + dx:.1f} {y + dy:.1f}"
            for t, y in lane.targets
        )
        out.append(
            f'<path{_dashed(g.boxes[lane.source], faint)} d="M{start:.1f} {low:.1f}C{start:.1f} {low + 14:.1f} {x:.1f} {low + 2:.1f} {x:.1f} {low + 22:.1f}'
            f'V{max(low + 22, last - 22):.1f}{branches}"/>'
        )
    out.append("</g>")
    out += [
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="10.5" fill="#8a6100">T</text>' for x, y in words
    ]
    for i, box in enumerate(g.boxes):
        x, y = d.x[i] - box.width / 2 + dx, d.y[i] + dy
        dash = ' stroke-dasharray="3 2"' if box.kind in ("input", "output") else ""
        out.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{11 if dash else 4}" '
            f'fill="{"#f5f7f9" if box.inside else "#e3f2ec" if box.overlaps else "#fff"}" stroke="{"#8a6100" if box.collective else "#8793a0"}"{dash}/>'
        )
        name = (
            f' <tspan fill="#0b63a5" font-weight="400">{_safe(box.name)}</tspan>'
            if box.name and box.kind == "equation"
            else ""
        )
        weight = "" if dash else ' font-weight="600"'
        out.append(
            f'<text x="{x + 8:.1f}" y="{y + 15:.1f}"{weight}>{_safe(box.label)}{name}</text>'
        )
        if box.inside:
            _draw(box.inside, x + 10, y + _HEAD, out)
        elif box.type:
            out.append(
                f'<text x="{x + 8:.1f}" y="{y + 28:.1f}" font-size="10.5" fill="#5a6572">{_safe(box.type)}</text>'
            )


def _dashed(source: Box, otherwise: str = "") -> str:
    """The look of an edge along which a value is pending; that of others is given."""
    return ' stroke="#8a6100" stroke-dasharray="5 4"' if source.pending else otherwise


def _safe(text: str) -> str:
    return "".join(
        f"&#{ord(c)};" if c in "&<>\"'" or not c.isprintable() else c for c in text[:200]
    )


# ------------------------------------------------------------------------------------------------------- Graphviz


def to_graphviz(program: Program, depth: int = 3) -> Any:
    """The program as a `graphviz.Digraph`, nested programs and scopes as clusters; drawing it needs `dot`, its source does not.

    Example:
        >>> from xlab.observe.records import Equation, Program
        >>> to_graphviz(Program("f", equations=(Equation(0, "iota"),))).source.split()[:2]
        ['digraph', 'f']
    """
    try:
        import graphviz
    except ImportError:
        raise ImportError(
            "to_graphviz needs the Python package graphviz: pip install graphviz. to_svg() needs nothing."
        ) from None

    style = {"fontname": "monospace", "fontsize": "11"}
    made = graphviz.Digraph(program.name, graph_attr=style, node_attr={**style, "shape": "box"})
    numbers = itertools.count()
    _clusters(graph(program, depth), made, numbers, graphviz.escape)
    return made


def _clusters(g: Graph, into: Any, numbers: Any, escape: Any) -> list[tuple[str, str]]:
    """Adds the boxes; returns the nodes where edges into and out of each box end."""
    ends: list[tuple[str, str]] = []
    for box in g.boxes:
        words = [
            box.label + (f" {box.name}" if box.name and box.kind == "equation" else ""),
            box.type,
        ]
        label = "\\n".join(escape(w) for w in words if w)
        if box.inside is not None and box.inside.boxes:
            with into.subgraph(name=f"cluster_{next(numbers)}") as inner:
                inner.attr(label=label, color="gray")
                inside = _clusters(box.inside, inner, numbers, escape)
            ends.append((inside[0][0], inside[-1][1]))
            continue
        node = f"n{next(numbers)}"
        shape = (
            {"shape": "oval", "style": "dashed"}
            if box.kind in ("input", "output")
            else {"color": "darkorange"}
            if box.collective
            else {}
        )
        into.node(node, label, **shape)
        ends.append((node, node))
    for a, b in zip(g.sources, g.targets):
        into.edge(
            ends[a][1],
            ends[b][0],
            **({"style": "dashed", "label": "T"} if g.boxes[a].pending else {}),
        )
    return ends


set_picture("svg", to_svg)
set_picture("graphviz", to_graphviz)
