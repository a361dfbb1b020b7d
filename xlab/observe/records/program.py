"""A traced program: types, variables, equations, and its later forms as text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from xlab.observe.pictures import picture
from xlab.observe.records.base import Record, record_type
from xlab.observe.records.call_tree import Call
from xlab.observe.records.source import Listing, Source, line_text
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural

MOST_DEVICES = 1 << 17
"""Devices of a mesh that a record from elsewhere may speak of: pictures draw each."""


@record_type
class Type(Record):
    """A value's type as known before running.

    `spec` has one tuple of mesh axis names per dimension (`()` = not split), or is None when no sharding is
    known. `varying` are manual axes along which the value differs, `unreduced` axes along which it is still a sum
    of partial values, `reduced` those along which its cotangent is one. `label` replaces the computed text for types that are not arrays (tokens, references).
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    spec: tuple[tuple[str, ...], ...] | None = None
    varying: tuple[str, ...] = ()
    unreduced: tuple[str, ...] = ()
    weak: bool = False
    label: str = ""
    reduced: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`f32[8@data,4@model]`, with `{V:axis}` varying, `{U:axis}` unreduced and `{R:axis}` reduced axes."""
        if self.label:
            return self.label
        spec = self.spec or ()
        dims = []
        for i, size in enumerate(self.shape):
            axes = spec[i] if i < len(spec) else ()
            dims.append(f"{size}@{'+'.join(axes)}" if axes else str(size))
        states = (("V", self.varying), ("U", self.unreduced), ("R", self.reduced))
        marks = [f"{k}:{','.join(v)}" for k, v in states if v]
        return f"{self.dtype}[{','.join(dims)}]" + (f"{{{' '.join(marks)}}}" if marks else "")


@record_type
class MeshInfo(Record):
    """A mesh. `device_ids` and `hosts` (process index per device) are flat, the last axis fastest."""

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    device_ids: tuple[int, ...] = ()
    platform: str = "cpu"
    hosts: tuple[int, ...] = ()
    axis_types: tuple[str, ...] = ()

    def contradiction(self) -> str:
        """Names, sizes and devices that do not make one mesh."""
        if len(self.axis_names) != len(self.axis_sizes) or (
            self.axis_types and len(self.axis_types) != len(self.axis_names)
        ):
            return f"axis_names, axis_sizes and axis_types are of {len(self.axis_names)}, {len(self.axis_sizes)} and {len(self.axis_types)} axes"
        if any(n < 1 for n in self.axis_sizes) or self.size > MOST_DEVICES:
            return f"axis_sizes must be from 1, and of up to {MOST_DEVICES:,} devices"
        wrong = next(
            (
                name
                for name in ("device_ids", "hosts")
                if getattr(self, name) and len(getattr(self, name)) != self.size
            ),
            "",
        )
        return (
            f"{wrong} has {len(getattr(self, wrong))} entries for {self.size} devices"
            if wrong
            else ""
        )

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.axis_sizes)

    @property
    def text(self) -> str:
        """`data=4 model=2`."""
        return " ".join(f"{n}={s}" for n, s in zip(self.axis_names, self.axis_sizes, strict=True))


@record_type
class Variable(Record):
    """A name in a program. `name` is unique in its program (`a`, `b`, …); `note` is the user's own name, if any."""

    name: str
    type: Type
    note: str = ""


@record_type
class Equation(Record):
    """One application of a primitive.

    `inputs` are variable names, or the text of literals (`1.0:f32[]`). `params` is their text without nested
    programs, which are in `nested` with one label each in `nested_labels` (`body`, `branch 0`). `scope` is the
    name stack joined by `/`, or the modules whose calls led to the equation where it says none. `text` is the equation's line in the jaxpr, without indentation. `axes` are the mesh axes of a
    collective, None for anything else. `rule` names the rule that produced it (`jvp(sin)`), if known.
    """

    id: int
    primitive: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[Variable, ...] = ()
    params: str = ""
    source: Source | None = None
    scope: str = ""
    nested: tuple[Program, ...] = ()
    nested_labels: tuple[str, ...] = ()
    text: str = ""
    axes: tuple[str, ...] | None = None
    rule: str | None = None


@record_type
class Level(Record):
    """One stage of a program as text, joined to equations.

    `name` is `stablehlo`, `propagated`, `partitioned` or `optimized`. `links` are `(line number from 1, equation
    ids)`, sorted, for the lines that come from an equation. `heat` are `(line number, measured microseconds)`.
    """

    name: str
    text: str
    links: tuple[tuple[int, tuple[int, ...]], ...] = ()
    heat: tuple[tuple[int, float], ...] = ()


@record_type
class Program(Record):
    """A traced program. `outputs` are variable names or literal text; `constants` are closed-over arrays.

    `sources` and `levels` are filled on the outermost program only. `heat` are measured `(equation id, microseconds)`;
    those in `shared` were measured together with others, and have an estimated part of that time. `effects` are what running it does
    besides giving results. `made_by` says who traced and compiled it, where that was not this package. `layer_names` are the functions that
    its repeated layers stand in, in the order in which `repeats.repeats` finds them. `calls` is the program by its own structure, where its cost
    was asked for.
    """

    name: str
    inputs: tuple[Variable, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[Variable, ...] = ()
    equations: tuple[Equation, ...] = ()
    sources: tuple[Listing, ...] = ()
    mesh: MeshInfo | None = None
    levels: tuple[Level, ...] = ()
    heat: tuple[tuple[int, float], ...] = ()
    shared: tuple[int, ...] = ()
    effects: tuple[str, ...] = ()
    made_by: str = ""
    layer_names: tuple[str, ...] = ()
    calls: Call | None = None

    def walk(self) -> Iterator[tuple[Equation, int]]:
        """Yield `(equation, depth)` in reading order, nested programs included.

        >>> inner = Program("body", equations=(Equation(1, "sin"),))
        >>> [(e.primitive, d) for e, d in Program("f", equations=(Equation(0, "jit", nested=(inner,)),)).walk()]
        [('jit', 0), ('sin', 1)]
        """
        stack: list[tuple[Iterator[Equation], int]] = [(iter(self.equations), 0)]
        while stack:
            equations, depth = stack[-1]
            for equation in equations:
                yield equation, depth
                if equation.nested:
                    stack.extend((iter(p.equations), depth + 1) for p in reversed(equation.nested))
                    break
            else:
                stack.pop()

    def to_svg(self, depth: int = 1) -> str:
        """The program as an SVG picture with our own layout; nested programs are open down to `depth`."""
        return str(picture("svg")(self, depth))

    def to_graphviz(self, depth: int = 3) -> Any:
        """The program as a `graphviz.Digraph`; its `.source` needs no Graphviz."""
        return picture("graphviz")(self, depth)

    @property
    def unused(self) -> tuple[str, ...]:
        """Inputs that no equation reads and that are no result: the compiled program does not take them.

        >>> Program("f", (Variable("a", Type("f32")), Variable("b", Type("f32"))), ("a",)).unused
        ('b',)
        """
        read = {name for e in self.equations for name in e.inputs} | set(self.outputs)
        return tuple(v.name for v in self.inputs if v.name not in read)

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How often each primitive occurs, most frequent first, nested programs included."""
        found = Counter(e.primitive for e, _ in self.walk())
        return tuple(sorted(found.items(), key=lambda kv: (-kv[1], kv[0])))


def equation_text(e: Equation) -> str:
    """The equation's own line: its `text`, or one put together from the fields.

    >>> equation_text(Equation(0, "sin", ("a",), (Variable("b", Type("f32", (8,))),)))
    'b:f32[8] = sin a'
    """
    if e.text:
        return e.text
    outputs = " ".join(f"{v.name}:{v.type.text}" for v in e.outputs)
    params = f"[{e.params}]" if e.params else ""
    return " ".join(
        part
        for part in (f"{outputs} =" if outputs else "", e.primitive + params, *e.inputs)
        if part
    )


def _called_text(e: Equation) -> str:
    """The equation's line, each result with what the user calls it.

    >>> _called_text(Equation(0, "sin", ("a",), (Variable("b", Type("f32", (8,)), "out"),)))
    'b:f32[8] (out) = sin a'
    """
    left, is_, right = equation_text(e).partition(" = ")
    for v in e.outputs:
        if v.note and v.note != v.name:
            left = re.sub(rf"(?<!\S){re.escape(v.name)}:\S+", rf"\g<0> ({v.note})", left, count=1)
    return left + is_ + right


_LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
LONGEST_NAME = 32
"""Letters of a name that stands in the place of a variable's."""


def screen_names(notes: dict[str, str], letters: set[str]) -> dict[str, str]:
    """What pictures call variables: the user's names, told apart where one was assigned twice or is a letter of another.

    >>> screen_names({"a": "x", "b": "h", "c": "h"}, {"a", "b", "c", "h"})
    {'a': 'x', 'b': 'h', 'c': 'h₂', 'h': '_h'}
    """
    times: dict[str, int] = {}
    shown: dict[str, str] = {}
    for letter, name in notes.items():
        if name and len(name) <= LONGEST_NAME:
            n = times[name] = times.get(name, 0) + 1
            shown[letter] = name if n == 1 else name + str(n).translate(_LOW)
    shown.update((name, f"_{name}") for name in sorted(letters & set(shown.values()) - set(shown)))
    return {k: v for k, v in shown.items() if k != v}


def shown_names(program: Program) -> dict[str, str]:
    """What pictures call the variables of a program and of those within it, by their letters."""
    notes: dict[str, str] = {}
    letters: set[str] = set()
    for p in (program, *(inner for e, _ in program.walk() for inner in e.nested)):
        for v in (*p.inputs, *p.constants, *(v for e in p.equations for v in e.outputs)):
            notes[v.name] = "" if notes.get(v.name, v.note) != v.note else v.note
            letters.add(v.name)
    return screen_names(notes, letters)


def _program(p: Program, o: Options) -> str:
    counts = p.counts
    total = sum(n for _, n in counts)
    listed = ", ".join(f"{name} {n}" for name, n in counts[:6]) + (", …" if len(counts) > 6 else "")
    head = f"{p.name}   {plural(total, 'equation')}" + (f" ({listed})" if listed else "")
    if p.mesh:
        head += f"   mesh {p.mesh.text}"
    lines = [head]
    if p.effects:
        lines.append(f"  effects  {', '.join(p.effects)}")
    for word, names in (("in", p.inputs), ("const", p.constants)):
        if names:
            left = f"   (not used: {', '.join(p.unused)})" if word == "in" and p.unused else ""
            lines.append(f"  {word}  " + "  ".join(variable_text(v, o) for v in names) + left)
    rows = list(_program_rows(p, 0))
    shown, more = limited(rows, o, "line")
    width = max((len(body) for _, body, _ in shown), default=0)
    digits = max((len(i) for i, _, _ in shown), default=0)
    for number, body, where in shown:
        lines.append(f"  {number.rjust(digits)}  {body.ljust(min(width, 100))}  {where}".rstrip())
    lines += more
    if p.outputs:
        lines.append("  out  " + "  ".join(p.outputs))
    return "\n".join(lines)


def _program_rows(p: Program, depth: int) -> Any:
    for e in p.equations:
        yield str(e.id), "  " * depth + _called_text(e), line_text(e.source)
        for label, inner in zip(e.nested_labels or ("",) * len(e.nested), e.nested, strict=False):
            names = " ".join(f"{v.name}:{v.type.text}" for v in inner.inputs)
            yield "", "  " * (depth + 1) + f"{label or inner.name}: {names}".rstrip(), ""
            yield from _program_rows(inner, depth + 2)
            yield "", "  " * (depth + 2) + "→ " + " ".join(inner.outputs), ""


def variable_text(v: Variable, o: Options) -> str:
    return f"{v.name}:{v.type.text}" + (f" ({v.note})" if v.note and v.note != v.name else "")


def _level(level: Level, o: Options) -> str:
    lines = level.text.splitlines()
    shown, more = limited(lines, o, "line", "")
    return "\n".join(
        [f"{level.name}: {plural(len(lines), 'line')}, {len(level.links)} linked", *shown, *more]
    )


def mesh_text(m: MeshInfo, o: Options) -> str:
    hosts = len(set(m.hosts)) or 1
    head = f"mesh {m.text}   {plural(m.size, m.platform + ' device')}" + (
        f" on {hosts} hosts" if hosts > 1 else ""
    )
    if not m.axis_sizes or not m.device_ids or m.size > 64:
        return head
    columns = m.axis_sizes[-1]
    rows = [m.device_ids[i : i + columns] for i in range(0, m.size, columns)]
    width = max(len(str(d)) for d in m.device_ids)
    return "\n".join([head, *("  " + " ".join(str(d).rjust(width) for d in row) for row in rows)])


add_form(Type, lambda t, o: t.text)
add_form(MeshInfo, mesh_text)
add_form(Variable, variable_text)
add_form(Equation, lambda e, o: equation_text(e))
add_form(Level, _level)
add_form(Program, _program)
