"""Compares two programs, as a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xlab.observe.buffers.memory import memory
from xlab.observe.comparison.align import align
from xlab.observe.programs.program import program
from xlab.observe.programs.stages import ProgramStages, is_specialized, program_stages
from xlab.observe.records import Equation, Memory, Program, Transfer, Variable
from xlab.observe.records.diff import Diff, Figure, Pair
from xlab.observe.records.program import equation_text
from xlab.observe.records.transfers import transfer_name, transfer_origin, transfer_over
from xlab.observe.records.units import size_text, time_text
from xlab.observe.sharding.transfers import transfers_of
from xlab.observe.timing.phases import time

_MEMORY = ("arguments", "outputs", "temporaries", "peak")


def diff(
    left: Any, right: Any, *, names: tuple[str, str] = ("left", "right"), repeat: int = 0
) -> Diff:
    """Compares two calls: equations, collectives, memory, and with `repeat` the time of warm runs.

    Args:
        left, right: a function and its arguments, `(f, x, y)`, or a stage of `jit` alone; with arguments it can be run too.
        names: what to call them.
        repeat: number of warm runs of each; takes functions that may be called twice with the same arguments.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> x = np.ones(3, np.float32)
        >>> made = diff((lambda x: lax.sin(x), x), (lambda x: lax.cos(x), x))
        >>> [(p.state, p.left, p.right) for p in made.pairs]
        [('same', 'in a:f32[3]  x', 'in a:f32[3]  x'), ('changed', 'b:f32[3] = sin a', 'b:f32[3] = cos a')]
    """
    calls = [call if isinstance(call, tuple) else (call,) for call in (left, right)]
    stages = [
        program_stages(call[0], () if is_specialized(call[0]) else call[1:]) for call in calls
    ]
    programs = [program(a, levels=("propagated",)) for a in stages]
    figures = [
        *_equations(programs),
        *collective_figures(stages),
        *memory_figures(memory(stages[0]), memory(stages[1])),
    ]
    if repeat:
        measured = [time(*call, repeat=repeat) for call in calls]
        a, b = (t.warm_us or 0.0 for t in measured)
        figures.append(
            Figure("time", f"median of {repeat} warm runs", time_text(a), time_text(b), ratio(a, b))
        )
    return Diff(
        *names,
        tuple(figures),
        tuple(_pairs(*programs)),
        tuple(_communication(stages)),
        _made_by(names, stages),
    )


def _made_by(names: tuple[str, str], stages: list[ProgramStages]) -> str:
    """Who traced and compiled both programs, or each."""
    by = [s.made_by or "traced and compiled by xlab" for s in stages]
    if not any(s.made_by for s in stages):
        return ""
    return by[0] if by[0] == by[1] else f"{names[0]} {by[0]}, {names[1]} {by[1]}"


def ratio(left: float, right: float) -> str:
    """Right over left, unless one is zero or they agree to two digits."""
    said = (
        ""
        if not left or not right
        else f"×{right / left:.2g}"
        if right / left < 9.5
        else f"×{right / left:.0f}"
        if right / left < 1000
        else "×1000+"
    )
    return "" if said == "×1" else said


def _equations(programs: list[Program]) -> Iterator[Figure]:
    counts = [Counter(e.primitive for e, _ in p.walk()) for p in programs]
    a, b = (sum(c.values()) for c in counts)
    yield Figure("program", "equations", str(a), str(b), ratio(a, b))
    for name in sorted({*counts[0], *counts[1]}):
        if counts[0][name] != counts[1][name]:
            yield Figure("program", name, str(counts[0][name]), str(counts[1][name]))


def collective_figures(stages: list[ProgramStages]) -> Iterator[Figure]:
    """Number and bytes each device sends, by kind; loop trips multiplied where they are known."""
    found: list[dict[str, tuple[int, int]]] = []
    for one in stages:
        moved: dict[str, tuple[int, int]] = {}
        for t in transfers_of(one, tries=0):
            if t.removed:
                continue
            number, size = moved.get(t.kind, (0, 0))
            moved[t.kind] = number + 1, size + t.sent_in_run
        found.append(moved)
    totals = [
        (sum(n for n, _ in moved.values()), sum(b for _, b in moved.values())) for moved in found
    ]
    kinds = sorted({*found[0], *found[1]})
    if len(kinds) != 1:
        yield _moved("all", *totals)
    for kind in kinds:
        yield _moved(kind, *(one.get(kind, (0, 0)) for one in found))


def _moved(what: str, left: tuple[int, int], right: tuple[int, int]) -> Figure:
    a, b = (f"{n}, {size_text(moved)} sent" if n else "none" for n, moved in (left, right))
    return Figure("collectives", what, a, b, ratio(left[1], right[1]))


def memory_figures(a: Memory, b: Memory, parts: Sequence[str] = _MEMORY) -> Iterator[Figure]:
    """Bytes per device of two programs."""
    for what in parts:
        one, other = getattr(a, what), getattr(b, what)
        yield Figure("memory", what, size_text(one), size_text(other), ratio(one, other))


def _pairs(left: Program, right: Program) -> Iterator[Pair]:
    """Arguments, then equations in reading order, matched by primitive, parameters and types, whatever their variables are called."""
    rows = [
        [
            *_inputs(p),
            *(
                ("  " * depth + _text(e), _key(e, depth), _specs(e.outputs))
                for e, depth in p.walk()
            ),
        ]
        for p in (left, right)
    ]
    for what, a, b, c, d in align([k for _, k, _ in rows[0]], [k for _, k, _ in rows[1]]):
        for n in range(max(b - a, d - c)):
            one = rows[0][a + n] if a + n < b else ("", None, None)
            other = rows[1][c + n] if c + n < d else ("", None, None)
            state = (
                ("same" if one[2] == other[2] else "placed")
                if what == "same"
                else "changed"
                if one[0] and other[0]
                else "left"
                if one[0]
                else "right"
            )
            texts = [
                _QUIET.sub("", text) if state in ("same", "placed") else text
                for text in (one[0], other[0])
            ]
            yield Pair(state, *texts)


_QUIET = re.compile(
    r" ?\b(?:preferred_element_type=\w+|\w+=None|\w+=False|dimensions=None)(?= |\])"
)
"""Parameters that say nothing where both sides have them."""


def _inputs(p: Program) -> Iterator[tuple[str, tuple, tuple]]:
    for n, v in enumerate(p.inputs):
        yield (
            f"in {v.name}:{v.type.text}" + (f"  {v.note}" if v.note and v.note != v.name else ""),
            ("in", n, v.type.replace(spec=None).text),
            _specs((v,)),
        )


def _specs(variables: tuple[Variable, ...]) -> tuple:
    """The spec of each value; an unknown one counts as not split."""
    return tuple(v.type.spec if any(v.type.spec or ()) else None for v in variables)


def _text(e: Equation) -> str:
    """The equation's line, with the shardings that its results turned out to have."""
    whole = equation_text(e)
    left, equals, right = whole.partition(" = ")
    if equals and ":" in left and any(_specs(e.outputs)):
        return f"{' '.join(f'{v.name}:{v.type.text}' for v in e.outputs)} = {right}"
    return whole


def _key(e: Equation, depth: int) -> tuple:
    return depth, e.primitive, e.params, tuple(v.type.replace(spec=None).text for v in e.outputs)


def _communication(stages: list[ProgramStages]) -> Iterator[Pair]:
    """The collectives of both in the order they run, matched by what they do and how much they move."""
    rows = [
        [
            (_collective(t), (t.kind, t.reduction, t.axes, t.bytes_in, t.times))
            for t in transfers_of(one, tries=0)
            if not t.removed
        ]
        for one in stages
    ]
    for what, a, b, c, d in align([k for _, k in rows[0]], [k for _, k in rows[1]]):
        for n in range(max(b - a, d - c)):
            one, other = (
                rows[0][a + n][0] if a + n < b else "",
                rows[1][c + n][0] if c + n < d else "",
            )
            yield Pair(
                "same"
                if what == "same"
                else "changed"
                if one and other
                else "left"
                if one
                else "right",
                one,
                other,
            )


def _collective(t: Transfer) -> str:
    often = " in a loop" if t.times is None else f" × {t.times}" if t.times != 1 else ""
    return (
        f"{transfer_name(t)} over {transfer_over(t)}  {size_text(t.bytes_in)} → {size_text(t.bytes_out)}{often}  {transfer_origin(t)}"
        + (f", line {t.source.line}" if t.source else "")
    )
