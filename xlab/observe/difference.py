"""Makes the record of two programs beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from xlab.observe.comparison import Comparison, Figure, Pair
from xlab.observe.memory import memory
from xlab.observe.phases import time
from xlab.observe.program import program
from xlab.observe.records import Equation, Memory, Program
from xlab.observe.subject import Subject, subject
from xlab.observe.text import equation_text
from xlab.observe.transfers import transfers
from xlab.observe.units import size_text, time_text

_MEMORY = ("arguments", "outputs", "temporaries", "peak")


def diff(left: tuple, right: tuple, *, names: tuple[str, str] = ("left", "right"), repeat: int = 0) -> Comparison:
    """Compares two calls: equations, collectives, memory, and with `repeat` the time of warm runs.

    Args:
        left, right: a function and its arguments, `(f, x, y)`, or a stage of `jit` alone, `(compiled,)`.
        names: what to call them.
        repeat: number of warm runs of each; takes functions that may be called twice with the same arguments.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> x = np.ones(3, np.float32)
        >>> made = diff((lambda x: lax.sin(x), x), (lambda x: lax.cos(x), x))
        >>> [(p.state, p.left, p.right) for p in made.pairs]
        [('changed', 'b:f32[3] = sin a', 'b:f32[3] = cos a')]
    """
    about = [subject(call[0], call[1:]) for call in (left, right)]
    programs = [program(a) for a in about]
    figures = [*_equations(programs), *collective_figures(about), *memory_figures(memory(about[0]), memory(about[1]))]
    if repeat:
        measured = [time(*call, repeat=repeat) for call in (left, right)]
        a, b = (t.warm_us or 0.0 for t in measured)
        figures.append(Figure("time", f"median of {repeat} warm runs", time_text(a), time_text(b), ratio(a, b)))
    return Comparison(*names, tuple(figures), tuple(_pairs(*programs)))


def ratio(left: float, right: float) -> str:
    """Right over left, where it tells: neither is nothing, and they differ in two digits."""
    said = "" if not left or not right else f"×{right / left:.2g}" if right / left < 1000 else "×1000+"
    return "" if said == "×1" else said


def _equations(programs: list[Program]) -> Iterator[Figure]:
    counts = [Counter(e.primitive for e, _ in p.walk()) for p in programs]
    a, b = (sum(c.values()) for c in counts)
    yield Figure("program", "equations", str(a), str(b), ratio(a, b))
    for name in sorted({*counts[0], *counts[1]}):
        if counts[0][name] != counts[1][name]:
            yield Figure("program", name, str(counts[0][name]), str(counts[1][name]))


def collective_figures(about: list[Subject]) -> Iterator[Figure]:
    """Number and bytes each device receives, by kind; loop trips multiplied where they are known."""
    found: list[dict[str, tuple[int, int]]] = []
    for one in about:
        moved: dict[str, tuple[int, int]] = {}
        for t in transfers(one):
            number, size = moved.get(t.kind, (0, 0))
            moved[t.kind] = number + 1, size + t.bytes_in * (1 if t.times is None else t.times)
        found.append(moved)
    totals = [(sum(n for n, _ in moved.values()), sum(b for _, b in moved.values())) for moved in found]
    kinds = sorted({*found[0], *found[1]})
    if len(kinds) != 1:
        yield _moved("all", *totals)
    for kind in kinds:
        yield _moved(kind, *(one.get(kind, (0, 0)) for one in found))


def _moved(what: str, left: tuple[int, int], right: tuple[int, int]) -> Figure:
    a, b = (f"{n}, {size_text(moved)} in" if n else "none" for n, moved in (left, right))
    return Figure("collectives", what, a, b, ratio(left[1], right[1]))


def memory_figures(a: Memory, b: Memory, parts: Sequence[str] = _MEMORY) -> Iterator[Figure]:
    """Bytes per device of two programs."""
    for what in parts:
        one, other = getattr(a, what), getattr(b, what)
        yield Figure("memory", what, size_text(one), size_text(other), ratio(one, other))


def _pairs(left: Program, right: Program) -> Iterator[Pair]:
    """Equations in reading order, matched by primitive, parameters and types, whatever their variables are called."""
    rows = [[("  " * depth + equation_text(e), _key(e, depth)) for e, depth in p.walk()] for p in (left, right)]
    matcher = SequenceMatcher(None, [k for _, k in rows[0]], [k for _, k in rows[1]], autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        for n in range(max(b - a, d - c)):
            one = rows[0][a + n][0] if a + n < b else ""
            other = rows[1][c + n][0] if c + n < d else ""
            yield Pair("same" if what == "equal" else "changed" if one and other else "left" if one else "right", one, other)


def _key(e: Equation, depth: int) -> tuple:
    return depth, e.primitive, e.params, tuple(v.type.text for v in e.outputs)
