"""What is alive at the peak of a program's memory, by the calls that made it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlab.observe.records.buffers import Buffer, alive_at
from xlab.observe.records.memory import Memory
from xlab.observe.records.structure import Place, Structure

OUTSIDE = {"argument": "arguments", "constant": "constants"}
"""Kinds of buffers that no call makes."""

RESIDUALS = "forward residuals"


class Alive(NamedTuple):
    """A buffer at the peak: the bytes of it that no larger one has, the call that made it, and a word for what it is."""

    buffer: Buffer
    size: int
    place: Place
    word: str


def at_peak(m: Memory, s: Structure) -> list[Alive]:
    """The buffers alive at the peak. What the forward pass made and the backward pass reads is a residual.

    Who reads a buffer last is known by what is made at its last step; where nothing is, it was kept if the backward pass has begun by then.

    >>> from xlab.observe.records.call_tree import Call
    >>> s = Structure(Call("step", children=(Call("loss", equations=(1, 2, 3), backward=(3,)),)))
    >>> made = (Buffer("x", 8, "argument", 0, 3), Buffer("h", 4, start=1, end=3, equation=1), Buffer("t", 2, start=1, end=2, equation=2),
    ...         Buffer("u", 1, start=2, end=2, equation=2), Buffer("g", 4, start=3, end=3, equation=3))
    >>> [(a.buffer.name, a.word) for a in at_peak(Memory(peak_step=1, buffers=made), s)]
    [('x', 'arguments'), ('h', 'forward residuals'), ('t', 'forward temporaries')]
    """
    made = {b.start: set[bool]() for b in m.buffers}
    for b in m.buffers:
        if b.kind not in OUTSIDE and b.equation >= 0:
            made[b.start].add(s.at(b.equation).backward)
    begun = min((step for step, passes in made.items() if True in passes), default=None)

    def kept(b: Buffer) -> bool:
        readers = made.get(b.end) if b.end > b.start else {False}
        return True in readers if readers else begun is not None and b.end > begun

    found = []
    for b, size in alive_at(m.buffers, m.peak_step):
        place = Place(0, False) if b.kind in OUTSIDE else s.at(b.equation)
        passed = s.words(place)
        word = OUTSIDE.get(b.kind) or (
            "results"
            if b.kind == "output"
            else RESIDUALS
            if passed == "forward" and kept(b)
            else f"{passed} temporaries".strip()
        )
        found.append(Alive(b, size, place, word))
    return found


def sizes_by_word(alive: Sequence[Alive]) -> dict[str, int]:
    """The bytes of each kind, the largest first."""
    sums: dict[str, int] = {}
    for a in alive:
        sums[a.word] = sums.get(a.word, 0) + a.size
    return dict(sorted(sums.items(), key=lambda x: -x[1]))
