"""Layers: runs of equations that stand in a program several times, one after the other, from the same lines of Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xlab.observe.records.program import Equation

LEAST, MOST, TRIES = 4, 2000, 3
"""Equations of a layer, at least and at most, and how many lengths are tried from one equation on."""
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


def repeats(equations: Sequence[Equation]) -> list[Repeat]:
    """The layers of a program, in order: equal primitives with results of equal types, from equal lines.

    >>> from xlab.observe.records.source import Source
    >>> layer = [Equation(i, op, source=Source("f.py", i, function="block")) for i, op in enumerate(("dot", "add", "tanh", "mul"))]
    >>> repeats([Equation(9, "sin"), *layer, *layer, *layer])
    [Repeat(start=1, length=4, times=3, name='block')]
    """
    numbers: dict[tuple, int] = {}
    keys = []
    for e in equations:
        place = (e.source.file, e.source.line) if e.source else ()
        key = (e.primitive, place, tuple(v.type.text for v in e.outputs))
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
    """Length and number of the layers that begin here."""
    after = at
    for _ in range(TRIES):
        after = later[after]
        length = after - at
        if not after or length > MOST or after + length > len(keys):
            return None
        if length < LEAST or part(at, length) != part(after, length):
            continue
        first, times = keys[at : at + length], 1
        while keys[at + times * length : at + (times + 1) * length] == first:
            times += 1
        if times > 1 and len(set(first)) >= LEAST:
            return length, times
    return None
