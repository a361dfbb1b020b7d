"""A ladder of programs, as a record and as text: what each transformation made of one function, and from which equation."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.program import Equation, Program
from xlab.observe.records.text import add_form
from xlab.observe.records.units import plural, table


@record_type
class Rung(Record):
    """One program of a ladder.

    `links` are `(equation id here, equation id in the first program)`. Every equation's `rule` names what made it. Equations in
    `derivative` compute tangents or cotangents, the others values. `says` is what the transformation does, in one sentence.
    """

    name: str
    program: Program
    says: str = ""
    links: tuple[tuple[int, int], ...] = ()
    derivative: tuple[int, ...] = ()


@record_type
class Ladder(Record):
    """One function under each transformation, the function itself first. `left_out` are `(name, why)` of those that do not apply.

    `made_by` says who traced it and who transformed it, where that was not this package alone.
    """

    title: str
    rungs: tuple[Rung, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    made_by: str = ""


def rule_counts(rung: Rung) -> tuple[tuple[str, int], ...]:
    """How many equations each rule made, most first."""
    found = Counter(e.rule for e, _ in rung.program.walk() if e.rule)
    return tuple(sorted(found.items(), key=lambda kv: (-kv[1], kv[0])))


def short_rule(rule: str) -> str:
    """A rule for reading: several rules of one primitive name it once.

    >>> short_rule("jvp of mul → transpose of mul"), short_rule("jvp of sin → transpose of mul → batch of mul")
    ('jvp → transpose of mul', 'jvp of sin → transpose → batch of mul')
    """
    steps = rule.split(" → ")
    of = [step.partition(" of ")[2] for step in steps]
    return " → ".join(
        step.partition(" of ")[0] if n + 1 < len(steps) and of[n] and of[n] == of[n + 1] else step
        for n, step in enumerate(steps)
    )


def signature(program: Program) -> str:
    """Inputs with the user's names, after a bar the residuals, then the outputs.

    >>> from xlab.observe.records import Type, Variable
    >>> x = Variable("a", Type("f32", (3,)), "x")
    >>> signature(Program("f", inputs=(x,), outputs=("c",), constants=(Variable("b", Type("f32", (3,))),)))
    'a:f32[3] (x) | b:f32[3] → c'
    """
    given, known = (
        " ".join(
            f"{v.name}:{v.type.text}" + f" ({v.note})" * (v.note not in ("", v.name)) for v in some
        )
        for some in (program.inputs, program.constants)
    )
    return f"{given}{' | ' + known if known else ''} → {' '.join(program.outputs)}"


def ladder_text(ladder: Ladder, o: Any) -> str:
    """The text form: per rung its equations, each with the equation it came from and the rule that made it."""
    lines = [f"{ladder.title}   " + " → ".join(r.name for r in ladder.rungs)]
    for n, rung in enumerate(ladder.rungs):
        lines += ["", rung_text(rung, o, first=n == 0)]
    return "\n".join(lines + [f"left out: {name}: {why}" for name, why in ladder.left_out])


def rung_text(rung: Rung, o: Any, first: bool = False) -> str:
    """One rung: the number of each equation, `←` the number of that in the first program, the rule, the equation."""
    equations = list(rung.program.walk())
    shown = equations if o.limit is None else equations[: o.limit]
    origin, derivative = dict(rung.links), set(rung.derivative)
    rows = []
    for e, depth in shown:
        came = (
            ()
            if first
            else (
                f"← {origin[e.id]}" if e.id in origin else "",
                ("∂ " if e.id in derivative else "  ") + short_rule(e.rule or ""),
            )
        )
        rows.append((str(e.id), *came, "  " * depth + equation_text(e)))
    more = len(equations) - len(shown)
    return "\n".join(
        [
            f"{rung.name}   {plural(len(equations), 'equation')}"
            + (f"   {rung.says}" if rung.says else ""),
            "  in  " + signature(rung.program),
            *([table(rows, "rl" if first else "rrll")] if rows else []),
            *(
                [f"  … {plural(more, 'more equation')}: text(record, limit=None) shows all"]
                if more
                else []
            ),
        ]
    )


def equation_text(e: Equation) -> str:
    """The equation's line without its parameters, which are those of the program view."""
    left = " ".join(f"{v.name}:{v.type.text}" for v in e.outputs)
    return f"{left} = {' '.join((e.primitive, *e.inputs))}"


add_form(Ladder, ladder_text)
add_form(Rung, rung_text)
