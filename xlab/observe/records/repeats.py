"""Layers: runs of equations that stand in a program several times, one after the other, from the same lines of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xlab.observe.records.program import Equation, Program, Type

LEAST, MOST, TRIES, NEAR = 4, 2000, 8, 48
"""Equations of a layer, at least and at most, how many lengths are tried from one equation on, and how far it is looked whether any are."""
_PRIME, _BASE = (1 << 61) - 1, 1_000_003


class Repeat(NamedTuple):
    """`times` times `length` equations, from the one at `start` on; `name` is the function that most of them stand in."""

    start: int
    length: int
    times: int
    name: str

    @property
    def end(self) -> int:
        """After the last of them."""
        return self.start + self.length * self.times

    @property
    def label(self) -> str:
        """What they are called together.

        >>> Repeat(0, 14, 6, "block").label
        'block ×6'
        """
        return f"{self.name or 'layer'} ×{self.times}"


def layer_text(layer: Repeat) -> str:
    """The line that stands for all layers but the first.

    >>> layer_text(Repeat(0, 14, 6, "block"))
    'block ×6, 5 more like these 14 equations'
    """
    return f"{layer.label}, {layer.times - 1:,} more like these {layer.length} equations"


def layers(program: Program) -> list[Repeat]:
    """The layers of a program by the names that it has for them.

    >>> layer = [Equation(i, op) for i, op in enumerate(("dot", "add", "tanh", "mul"))]
    >>> layers(Program("f", equations=(*layer, *layer), layer_names=("block",)))
    [Repeat(start=0, length=4, times=2, name='block')]
    """
    found = repeats(program.equations)
    names = program.layer_names if len(program.layer_names) == len(found) else [""] * len(found)
    return [r._replace(name=name or r.name) for r, name in zip(found, names)]


class LayerPlace(NamedTuple):
    """Where in repeated layers something stands: which layers, and which equation of one of them, counted with those inside others."""

    layers: Repeat
    number: tuple[int, int]


def places(program: Program) -> dict[int, LayerPlace]:
    """The place of each equation that stands in layers, by its id; equations at the same place of different layers do the same.

    >>> layer = ("dot", "add", "tanh", "mul")
    >>> made = places(Program("f", equations=tuple(Equation(i, layer[i % 4]) for i in range(8))))
    >>> made[1].number, made[5] == made[1], made[5].layers.times
    ((1, 0), True, 2)
    """
    out = {}
    for e in program.equations:
        for inner in e.nested:
            out.update(places(inner))
    for r in layers(program):
        for at, e in enumerate(program.equations[r.start : r.end]):
            inside = [e, *(one for p in e.nested for one, _ in p.walk())]
            for n, one in enumerate(inside):
                out[one.id] = LayerPlace(r, (at % r.length, n))
    return out


def _kind(t: Type) -> tuple:
    """What types of layers have in common: how one layer's value is split may differ from how the others' are."""
    return (t.dtype, t.shape) if t.dtype else (t.label,)


def repeats(equations: Sequence[Equation]) -> list[Repeat]:
    """The layers among equations, in order: equal primitives with results of equal shapes and dtypes, from equal lines.

    >>> from xlab.observe.records.source import Source
    >>> layer = [Equation(i, op, source=Source("f.py", i, function="block")) for i, op in enumerate(("dot", "add", "tanh", "mul"))]
    >>> repeats([Equation(9, "sin"), *layer, *layer, *layer])
    [Repeat(start=1, length=4, times=3, name='block')]
    """
    numbers: dict[tuple, int] = {}
    keys = []
    for e in equations:
        place = (e.source.file, e.source.line) if e.source else ()
        key = (e.primitive, place, tuple([_kind(v.type) for v in e.outputs]))
        keys.append(numbers.setdefault(key, len(numbers) + 1))
    later = [0] * len(keys)
    last: dict[int, int] = {}
    for i in range(len(keys) - 1, -1, -1):
        later[i] = last.get(keys[i], 0)
        last[keys[i]] = i
    # Sums by which two stretches are compared at once; what they say is looked at again.
    sums, powers = [0], [1]
    for number in keys:
        sums.append((sums[-1] * _BASE + number) % _PRIME)
        powers.append(powers[-1] * _BASE % _PRIME)

    def part(at: int, n: int) -> int:
        return (sums[at + n] - sums[at] * powers[n]) % _PRIME

    found = []
    at = 0
    while at < len(keys):
        made = _from(at, keys, later, part)
        if made is None:
            at += 1
            continue
        length, times = made
        functions = Counter(
            e.source.function for e in equations[at : at + length] if e.source is not None
        )
        name = functions.most_common(1)[0][0] if functions else ""
        found.append(Repeat(at, length, times, name.rpartition(".")[2]))
        at += length * times
    return found


def _from(
    at: int, keys: list[int], later: list[int], part: Callable[[int, int], int]
) -> tuple[int, int] | None:
    """Length and number of the layers that begin here: those that make up most, for a layer may itself begin with what repeats."""
    after = at
    best = None
    # Where few kinds of equations alternate are no layers, and nearly every length would be compared.
    tries = TRIES if len(set(keys[at : at + NEAR])) < LEAST else 0
    while tries < TRIES:
        after = later[after]
        length = after - at
        if not after or length > MOST or after + length > len(keys):
            break
        if length < LEAST:
            continue
        tries += 1
        if part(at, length) != part(after, length):
            continue
        first, times = keys[at : at + length], 1
        while keys[at + times * length : at + (times + 1) * length] == first:
            times += 1
        if times > 1 and len(set(first)) >= LEAST:
            best = max(best or (0, 0), (length, times), key=lambda found: found[0] * found[1])
    return best
