"""Records drawn as set text: programs, steps, ladders, differences, tables, and the text of whatever has no drawing of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlab.observe.figures.sizes import ADVANCE, LEADING, MARGIN, Size
from xlab.observe.records import Equation, Program, Step, StepTrace, Value
from xlab.observe.records.diff import MARKS, Diff
from xlab.observe.records.ladder import Ladder, short_rule
from xlab.observe.records.program import shown_names
from xlab.observe.records.repeats import layer_text, layers
from xlab.observe.records.stepper import value_text
from xlab.observe.records.text import Options, text
from xlab.observe.records.units import plural

Line = tuple[tuple[str, str], ...]
"""Pieces of a line: their text, and their look."""

LOOKS = {
    "": ("#1b1f24", "normal"),
    "name": ("#0b63a5", "normal"),
    "op": ("#1b1f24", "bold"),
    "head": ("#1b1f24", "bold"),
    "dim": ("#5a6572", "normal"),
    "literal": ("#0a7a5a", "normal"),
    "left": ("#b8450a", "normal"),
    "right": ("#0a7a5a", "normal"),
    "changed": ("#8a6100", "normal"),
    "now": ("#0b63a5", "bold"),
}


def listing(figure: Any, size: Size, lines: Sequence[Line]) -> None:
    """Sets lines one under the other and makes the figure as tall as they are; what does not fit is counted."""
    if len(lines) > size.lines:
        left = len(lines) - size.lines + 1
        lines = [*lines[: size.lines - 1], ((f"… {plural(left, 'more line')}", "dim"),)]
    tall = max(1, len(lines)) * size.code * LEADING / 72 + 2 * MARGIN
    figure.set_size_inches(size.width, tall)
    figure.set_layout_engine("none")
    across, letter = size.width, size.code * ADVANCE / 72
    for row, line in enumerate(lines):
        y = 1 - (MARGIN + (row + 0.8) * size.code * LEADING / 72) / tall
        column = 0
        for words, look in _elided(line, size.letters):
            color, weight = LOOKS[look]
            if words.strip():
                figure.text(
                    (MARGIN + column * letter) / across,
                    y,
                    words,
                    family="monospace",
                    fontsize=size.code,
                    color=color,
                    weight=weight,
                    va="baseline",
                )
            column += len(words)


def _elided(line: Line, most: int) -> Iterator[tuple[str, str]]:
    """The pieces of a line that fit, with a sign where it goes on."""
    whole = sum(len(words) for words, _ in line)
    left = most if whole <= most else most - 1
    for words, look in line:
        if words[:left]:
            # A control character has no place in a file of text.
            yield "".join(c if c.isprintable() else "?" for c in words[:left]), look
        left -= len(words[:left])
    if whole > most:
        yield "…", "dim"


def equation_line(e: Equation, names: dict[str, str], depth: int = 0) -> Line:
    """One equation: results with their types, the primitive, its operands."""
    made: list[tuple[str, str]] = [("  " * depth, "")]
    for v in e.outputs:
        made += [(names.get(v.name, v.name), "name"), (f":{v.type.text} ", "dim")]
    made += [("= ", "")] * bool(e.outputs) + [(e.primitive, "op")]
    for given in e.inputs:
        known = given.isidentifier()
        made += [(" ", ""), (names.get(given, given), "name" if known else "literal")]
    return tuple(made)


def program_lines(
    program: Program, depth: int = 0, names: dict[str, str] | None = None
) -> Iterator[Line]:
    """A program, those within it indented."""
    if names is None:
        names = shown_names(program)
        yield (
            (program.name, "head"),
            (f"  {plural(sum(n for _, n in program.counts), 'equation')}", "dim"),
        )
    for word, variables in (("in", program.inputs), ("const", program.constants)):
        # One line for each where there are few; the equations are what a figure is for.
        if variables and len(variables) <= 6:
            for v in variables:
                yield (
                    ("  " * depth + f"{word} ", "dim"),
                    (names.get(v.name, v.name), "name"),
                    (f":{v.type.text}", "dim"),
                )
        elif variables:
            yield (("  " * depth + f"{word} {plural(len(variables), 'array')}", "dim"),)
    after_first = {r.start + r.length: r for r in layers(program)}
    passed = 0
    for at, e in enumerate(program.equations):
        if at in after_first:  # one layer is read, the others are counted
            r = after_first[at]
            passed = r.end
            yield (("  " * depth + layer_text(r), "dim"),)
        if at < passed:
            continue
        yield equation_line(e, names, depth)
        for label, inner in itertools.zip_longest(e.nested_labels, e.nested, fillvalue=""):
            if isinstance(inner, Program):
                yield (("  " * (depth + 1) + (str(label) or inner.name), "head"),)
                yield from program_lines(inner, depth + 2, names)
    if program.outputs:
        outs = " ".join(names.get(name, name) for name in program.outputs[:12])
        more = f" and {len(program.outputs) - 12} more" if len(program.outputs) > 12 else ""
        yield (("  " * depth + "out ", "dim"), (outs, "name"), (more, "dim"))


def step_lines(step: Step, size: Size | None = None) -> list[Line]:
    """One step: where, the equation, what it read and what it made."""
    lines: list[Line] = [((f"step {step.index}", "head"), ("  " + " ▸ ".join(step.path), "dim"))]
    lines.append(((step.text or f"equation {step.equation}", "op"),))
    lines += [(("in   ", "dim"), *_value(v)) for v in step.inputs]
    lines += [(("out  ", "dim"), *_value(v)) for v in step.outputs]
    return lines


def _value(v: Value) -> Line:
    name = v.note or v.name
    return (name, "name"), (value_text(v, Options()).removeprefix(v.name), "")


def trace_lines(trace: StepTrace) -> list[Line]:
    """A run: the program's name, and every step with what it made."""
    cut = f" of {trace.total}" if trace.total > len(trace.steps) else ""
    lines: list[Line] = [
        ((trace.program.name, "head"), (f"  {plural(len(trace.steps), 'step')}{cut}", "dim"))
    ]
    digits = len(str(len(trace.steps)))
    for s in trace.steps:
        for v in s.outputs:
            lines.append(
                ((f"{s.index:>{digits}} ", "dim"), ("  " * max(0, len(s.path) - 1), ""), *_value(v))
            )
    return lines


def ladder_lines(ladder: Ladder) -> Iterator[Line]:
    """The programs of a ladder, each equation with the rule that made it."""
    for rung in ladder.rungs:
        yield (rung.name, "head"), (f"  {rung.says}", "dim")
        names = shown_names(rung.program)
        for e, depth in rung.program.walk():
            rule = f"   {short_rule(e.rule)}" if e.rule and rung is not ladder.rungs[0] else ""
            yield (*equation_line(e, names, depth + 1), (rule, "changed"))
        yield ()


def diff_lines(diff: Diff, letters: int) -> Iterator[Line]:
    """Two programs side by side: the numbers that differ, then the lines that do, with what stands around them."""
    half = (letters - 5) // 2
    yield ((f"  {diff.left[:half]:<{half}} │ {diff.right[:half]}", "head"),)
    for f in diff.figures:
        if f.differs:
            what = f"{f.what}: "
            yield (
                ("~ ", "changed"),
                (f"{what + f.left:<{half}.{half}} │ {what + f.right:.{half}}", "changed"),
            )
    for pairs in (diff.collectives, diff.pairs):
        near = {
            m for n, p in enumerate(pairs) if p.state != "same" for m in range(n - 1, n + 2)
        } & set(range(len(pairs)))
        last = -1
        for n in sorted(near):
            if n > last + 1:
                yield ((f"  … {plural(n - last - 1, 'line')} the same", "dim"),)
            p, last = pairs[n], n
            look = {"left": "left", "right": "right", "same": ""}.get(p.state, "changed")
            yield ((f"{MARKS[p.state]} {p.left:<{half}.{half}} │ {p.right:.{half}}", look),)


def text_lines(record: Any) -> list[Line]:
    """The text form of a record, its first line as a heading."""
    return [((line, "" if n else "head"),) for n, line in enumerate(text(record).splitlines())]


LINES: tuple[tuple[type, Callable[[Any, Size], Any]], ...] = (
    (Program, lambda r, size: program_lines(r)),
    (StepTrace, lambda r, size: trace_lines(r)),
    (Step, lambda r, size: step_lines(r)),
    (Ladder, lambda r, size: ladder_lines(r)),
    (Diff, lambda r, size: diff_lines(r, size.letters)),
)
"""Records that are set as lines."""


def lines_of(record: Any, size: Size) -> list[Line]:
    """The lines of a record; what has none of its own is set as its text."""
    for kind, make in LINES:
        if isinstance(record, kind):
            return list(make(record, size))
    return text_lines(record)
