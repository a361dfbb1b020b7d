"""The calls of a program as headings over its equations: one fold for every view of it.

A heading is a run of equations, one after the other, that one call made in one pass. Calls whose runs are the same share a heading.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xlab.observe.records.call_tree import Call
from xlab.observe.records.program import Program
from xlab.observe.records.repeats import Repeat, layers, repeats

SMALL = 24
"""Equations of a program that is taken in at a glance, and has no headings."""

DEEPEST = 32
"""Calls within one another that have headings; those within these stand in them."""


class Place(NamedTuple):
    """Where something stands: a call, by its number in reading order, and whether it belongs to the backward pass."""

    call: int
    backward: bool


class Structure:
    """The calls of a program, numbered in reading order: 0 is the program itself.

    >>> loss, update = Call("loss", equations=(1, 2), backward=(2,)), Call("update", equations=(3,))
    >>> s = Structure(Call("step", children=(loss, update)))
    >>> s.at(2), s.words(s.at(2)), s.words(s.at(1)), s.words(s.at(3)), s.chain(2)
    (Place(call=1, backward=True), 'backward', 'forward', '', (2,))
    """

    def __init__(self, root: Call):
        self.calls: list[Call] = []
        self.parents: list[int] = []
        self._passes: list[
            tuple[Place, Place]
        ] = []  # one record for each, so that they are compared at once
        self._places: dict[int, Place] = {}
        self._others: dict[int, list[Place]] = {}  # of programs that are called at several places
        self._chains: dict[int, tuple[int, ...]] = {}
        self._add(root)
        self.two_sided = [False] * len(self.calls)
        for n in range(len(self.calls) - 1, -1, -1):
            call = self.calls[n]
            self.two_sided[n] |= bool(call.backward)
            if n:
                self.two_sided[self.parents[n]] |= self.two_sided[n]

    def _add(self, root: Call) -> None:
        todo = [(root, -1)]
        while todo:
            call, parent = todo.pop()
            number = len(self.calls)
            self.calls.append(call)
            self.parents.append(parent)
            forward, back = Place(number, False), Place(number, True)
            self._passes.append((forward, back))
            backward = set(call.backward)
            for e in call.equations:
                place = back if e in backward else forward
                if self._places.setdefault(e, place) is not place:
                    self._others.setdefault(e, []).append(place)
            todo += [(child, number) for child in reversed(call.children)]

    def chain(self, call: int) -> tuple[int, ...]:
        """A call and those around it, from the outermost on; the program itself is not among them."""
        found = self._chains.get(call)
        if found is None:
            found = (*self.chain(self.parents[call]), call)[:DEEPEST] if call > 0 else ()
            self._chains[call] = found
        return found

    def at(self, equation: int, around: Place | None = None) -> Place:
        """Where an equation stands. One of a program inside of another equation stands where that does, or in what is called there."""
        if around is None or around == (0, False):
            return self._places.get(equation, self._passes[0][0])
        prefix = self.chain(around.call)
        first = self._places.get(equation)
        for place in (first, *self._others.get(equation, ())) if first is not None else ():
            if self.chain(place.call)[: len(prefix)] == prefix:
                return self.place(place.call, place.backward or around.backward)
        return around

    def place(self, call: int, backward: bool) -> Place:
        """A call in one of its passes."""
        return self._passes[call][backward]

    def words(self, place: Place) -> str:
        """`forward` or `backward`; nothing for what has one pass alone."""
        return ("backward" if place.backward else "forward") if self.two_sided[place.call] else ""


def structure_of(program: Program) -> Structure | None:
    """The structure of a program that has one to speak of: calls, and more equations than one takes in at a glance."""
    if program.calls is None or not program.calls.children:
        return None
    few = sum(1 for _ in itertools.islice(program.walk(), SMALL)) < SMALL
    return None if few else Structure(program.calls)


class Heading(NamedTuple):
    """Equations of one call in one pass, one after the other.

    Args:
        title: what the calls are called: `tower ▸ block ×6`.
        place: the call, of several that have the same equations the innermost, and the pass.
        calls: all of these, the outermost first.
        start, end: where the run begins and ends among the program's own equations.
        parts: the headings within it.
        layers: the repeated layers within it that are not within one of the parts.
    """

    title: str
    place: Place
    calls: tuple[int, ...]
    start: int
    end: int
    parts: tuple[Heading, ...] = ()
    layers: tuple[Repeat, ...] = ()

    def walk(self) -> Iterator[Heading]:
        """This heading and those within it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def named(self) -> bool:
        """Whether it names the layers in it: they are all that it has, or all but a rest."""
        return len(self.layers) == 1 and self.layers[0].start == self.start and bool(self.calls)


def headings(program: Program, s: Structure, around: Place | None = None) -> Heading:
    """A program's own equations under headings; `around` is where the equation that holds it stands.

    >>> from xlab.observe.records.program import Equation
    >>> block = lambda at: [Equation(at + i, op) for i, op in enumerate(("dot", "add", "tanh", "mul"))]
    >>> calls = Call("f", equations=(8,), children=(Call("block", calls=2, equations=tuple(range(8))),))
    >>> made = headings(Program("f", equations=(*block(0), *block(4), Equation(8, "sum")), calls=calls), Structure(calls))
    >>> [(h.title, h.start, h.end, [(r.start, r.length, r.times) for r in h.layers]) for h in made.walk()]
    [('', 0, 9, []), ('block ×2', 0, 8, [(0, 4, 2)])]
    """
    return _Fold(program, s, around or Place(0, False)).whole()


class _Fold:
    """One fold of one program's own equations."""

    def __init__(self, program: Program, s: Structure, around: Place):
        self.program = program
        self.s = s
        self.around = around
        self.places = [s.at(e.id, around) for e in program.equations]

    def whole(self) -> Heading:
        level = len(self.s.chain(self.around.call))
        return self.run(self.around, 0, len(self.places), level, layers(self.program))

    def run(
        self,
        at: Place,
        start: int,
        end: int,
        level: int,
        found: Sequence[Repeat],
        calls: tuple[int, ...] = (),
        title: str = "",
    ) -> Heading:
        """The heading of a run of equations, all of which stand in the call `at`, with calls so far within one another."""
        chains = {place: self.s.chain(place.call) for place in dict.fromkeys(self.places[start:end])}  # fmt: skip
        # What stands in the call itself has no heading of its own.
        below = {
            p: self.s.place(c[level], p.backward) if len(c) > level else None
            for p, c in chains.items()
        }
        runs: list[tuple[Place, int, int]] = []
        n = start
        for place, same in itertools.groupby(map(below.get, self.places[start:end])):
            first, n = n, n + len(list(same))
            if place is not None:
                runs.append((place, first, n))
        if len(runs) == 1 and runs[0][1:] == (start, end):
            inner = runs[0][0]
            found = self.begun(inner, start, end, found)
            more = " ▸ ".join(filter(None, (title, self.s.calls[inner.call].label)))
            return self.run(inner, start, end, level + 1, found, (*calls, inner.call), more)
        mine, theirs = self.shared_out(runs, found)
        if not runs:
            # Two of something within one call are no layers of the user's.
            often_called = bool(calls) and self.s.calls[calls[-1]].calls != 1
            mine = [r for r in mine if r.times > 2 or (often_called and r.start == start)]
        cuts = sorted({c for r in mine for c in (r.start, r.start + r.length, r.end)})
        often = Counter(place for place, _, _ in runs)
        parts = []
        for (place, first, last), inside in zip(runs, theirs):
            pieces = [first, *(c for c in cuts if first < c < last), last]
            for a, b in itertools.pairwise(pieces):
                name = self.label(place, often[place] == 1 and len(pieces) == 2, a, inside)
                parts.append(self.run(place, a, b, level + 1, inside, (place.call,), name))
        return Heading(title, at, calls, start, end, tuple(parts), tuple(mine))

    def label(self, place: Place, alone: bool, start: int, found: Sequence[Repeat]) -> str:
        """What a run is called: how often a call is done is said where all of them stand in it."""
        call = self.s.calls[place.call]
        times = next((r.times for r in found if r.start == start), 1)
        return call.label if alone else call.name + (f" ×{times:,}" if times > 1 else "")

    def shared_out(
        self, runs: Sequence[tuple[Place, int, int]], found: Sequence[Repeat]
    ) -> tuple[list[Repeat], list[Sequence[Repeat]]]:
        """Which layers are those of a heading itself, and which are those of each of its parts.

        Layers that reach beyond a part which holds more than one of them are told anew by that part: they begin elsewhere than the call does.
        """
        mine = []
        theirs: list[list[Repeat]] = [[] for _ in runs]
        for r in found:
            at = next((n for n, (_, a, b) in enumerate(runs) if a <= r.start and r.end <= b), None)
            if at is not None:
                theirs[at].append(r)
            elif not any(min(b, r.end) - max(a, r.start) > r.length for _, a, b in runs):
                mine.append(r)
        return mine, [self.begun(place, a, b, theirs[n]) for n, (place, a, b) in enumerate(runs)]

    def begun(
        self, place: Place, start: int, end: int, found: Sequence[Repeat]
    ) -> Sequence[Repeat]:
        """The layers in the run of a call: where it is called several times, they begin where the run does, if they make up most of it."""
        if self.s.calls[place.call].calls == 1 or any(r.start == start for r in found):
            return found
        own = [
            r._replace(start=r.start + start)
            for r in repeats(self.program.equations[start:end])
        ]  # fmt: skip
        size = lambda of: sum(r.end - r.start for r in of)
        return own if size(own) > max(size(found), (end - start) // 2) else found


def more_layers_text(layer: Repeat, named: bool) -> str:
    """The line that stands for all layers but the first, below the heading that names them or by itself.

    >>> more_layers_text(Repeat(0, 14, 6, "block"), True), more_layers_text(Repeat(0, 14, 6, "block"), False)
    ('5 more like these 14 equations', 'block ×6, 5 more like these 14 equations')
    """
    text = f"{layer.times - 1:,} more like these {layer.length} equations"
    return text if named else f"{layer.label}, {text}"


def structures_of(programs: Sequence[Program]) -> dict[int, Structure]:
    """The structures of those of some programs that have one, by their numbers."""
    return {n: s for n, p in enumerate(programs) if (s := structure_of(p)) is not None}


class CallGroup(NamedTuple):
    """Things under a call and a word, as the rows of a table: those of the call itself, the groups within it, and the sum of all."""

    title: str
    calls: tuple[int, ...]
    word: str
    items: tuple[int, ...]
    parts: tuple[CallGroup, ...]
    total: float

    def walk(self, depth: int = 0) -> Iterator[tuple[CallGroup, int]]:
        """This group and those within it, with their depth."""
        yield self, depth
        for part in self.parts:
            yield from part.walk(depth + 1)

    @property
    def all_items(self) -> list[int]:
        """Those within it too."""
        return [*self.items, *(i for part in self.parts for i in part.all_items)]


def grouped(
    s: Structure,
    items: Sequence[tuple[Place, str]],
    size: Callable[[int], float],
) -> CallGroup:
    """Things with a place and a word as a tree of groups, the largest first.

    What has other words stands in other groups from the top on; a group whose only content is one group stands with it on one line.

    >>> s = Structure(Call("f", children=(Call("g", equations=(1,), children=(Call("h", equations=(2,)),)),)))
    >>> made = grouped(s, [(Place(1, False), ""), (Place(2, False), ""), (Place(2, False), "kept")], lambda n: n + 1.0)
    >>> [(g.title, g.word, g.items, g.total) for g in made.parts], made.parts[0].parts[0].title
    ([('g', '', (0,), 3.0), ('g ▸ h', 'kept', (2,), 3.0)], 'h')
    """

    def build(numbers: Sequence[int], level: int, calls: tuple[int, ...], word: str) -> CallGroup:
        own = []
        below: dict[tuple[int, str], list[int]] = {}
        for n in numbers:
            place, said = items[n]
            chain = s.chain(place.call)
            if len(chain) > level:
                below.setdefault((chain[level], said), []).append(n)
            else:
                own.append(n)
        if not own and len(below) == 1 and calls:
            ((call, _), inside), *_ = below.items()
            return build(inside, level + 1, (*calls, call), word)
        parts = [build(inside, level + 1, (call,), said) for (call, said), inside in below.items()]
        parts.sort(key=lambda g: -g.total)
        own.sort(key=lambda n: -size(n))
        total = sum(map(size, own)) + sum(g.total for g in parts)
        title = " ▸ ".join(s.calls[c].label for c in calls)
        return CallGroup(title, calls, word, tuple(own), tuple(parts), total)

    return build(range(len(items)), 0, (), "")
