"""Source maps: which place of which file each place of a printed text comes from, as debuggers and browsers read it.

The format is revision 3 of ECMA-426 (https://tc39.es/ecma426/). `MappingsGenerator` counts places, `SourceMap` holds and writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Segment = tuple[int, ...]
Mappings = Sequence[Sequence[Segment]]


@dataclass(frozen=True)
class SourceMap:
    """A source map.

    Args:
        version: of the format, 3.
        sources: the files, by their paths.
        sources_content: the text of each file, or nothing.
        names: names that segments speak of.
        mappings: for each line of the printed text its segments: a column of the line; file, line and column of where it comes from; and a
            name: one, four or five numbers, from 0. Each is the difference to the same number before it: the first within the line, others
            within the text.

    Example:
        >>> places = MappingsGenerator()
        >>> places.new_group()
        >>> places.new_segment(4, 0, 2, 11)
        >>> SourceMap(3, ["wave.py"], [], [], places.mappings()).to_json()
        '{"version": 3, "sources": ["wave.py"], "sourcesContent": [], "names": [], "mappings": "IAEW"}'
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Mappings

    def to_json(self) -> str:
        """The map as a file of JSON has it, with its numbers in base 64."""
        return json.dumps(
            {
                "version": self.version,
                "sources": list(self.sources),
                "sourcesContent": list(self.sources_content),
                "names": list(self.names),
                "mappings": ";".join(
                    ",".join("".join(map(_digits, segment)) for segment in line)
                    for line in self.mappings
                ),
            }
        )

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """The map that a text of JSON holds.

        Raises:
            ValueError: it is not JSON, is of another version, or its mappings cannot be read.
        """
        data = json.loads(json_data)
        missing = [k for k in ("version", "sources", "mappings") if k not in data]
        if missing or data["version"] != 3:
            raise ValueError(
                f"expected a source map of version 3; given one without {', '.join(missing)}"
                if missing
                else f"expected a source map of version 3; given version {data['version']!r}"
            )
        return cls(
            data["version"],
            data["sources"],
            data.get("sourcesContent") or [],
            data.get("names") or [],
            [
                [tuple(_numbers(segment)) for segment in line.split(",") if segment]
                for line in data["mappings"].split(";")
            ],
        )


class MappingsGenerator:
    """Makes the mappings of a `SourceMap` from places counted from the beginning of their files.

    Example:
        >>> places = MappingsGenerator()
        >>> places.new_group()
        >>> places.new_segment(4, 0, 10, 3)
        >>> places.new_segment(8, 0, 9, 2)
        >>> places.new_group()
        >>> places.new_segment(2, 0, 11, 0)
        >>> places.mappings()
        [[(4, 0, 10, 3), (4, 0, -1, -1)], [(2, 0, 2, -2)]]
    """

    def __init__(self) -> None:
        self._lines: list[list[Segment]] = []
        self._last = [0, 0, 0, 0, 0]

    def new_group(self) -> None:
        """Begins a line."""
        self._lines.append([])
        self._last[0] = 0

    def new_segment(self, *seg: int) -> None:
        """A segment of the line: its column alone (it comes from nowhere), or with file, line, column, or with these and a name.

        Raises:
            RuntimeError: no line has begun.
            ValueError: another number of numbers.
        """
        if not self._lines:
            raise RuntimeError("a segment belongs to a line; call new_group() first")
        if len(seg) not in (1, 4, 5):
            raise ValueError(
                "a segment has 1 number (column), 4 (column, file, line, column) or 5 (and a name); "
                f"given {len(seg)}: {seg}"
            )
        self._lines[-1].append(tuple(now - last for now, last in zip(seg, self._last)))
        self._last[: len(seg)] = seg

    def mappings(self) -> list[list[Segment]]:
        """The lines so far."""
        return [list(line) for line in self._lines]


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {letter: value for value, letter in enumerate(_LETTERS)}


def _digits(number: int) -> str:
    """A number in letters of 5 bits, the lowest first: the sign is its lowest bit, and a sixth bit says that more follow.

    >>> _digits(0), _digits(-1), _digits(16), list(_numbers("AADgB"))
    ('A', 'D', 'gB', [0, 0, -1, 16])
    """
    rest = abs(number) << 1 | (number < 0)
    out = ""
    while True:
        rest, digit = rest >> 5, rest & 31
        out += _LETTERS[digit | (32 if rest else 0)]
        if not rest:
            return out


def _numbers(letters: str) -> Iterable[int]:
    value = shift = 0
    for letter in letters:
        digit = _VALUES.get(letter)
        if digit is None:
            raise ValueError(
                f"mappings are in base 64; {letter!r} in the segment {letters!r} is no digit of it"
            )
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            yield -(value >> 1) if value & 1 else value >> 1
            value = shift = 0
    if shift:
        raise ValueError(f"the segment {letters!r} of the mappings ends within a number")
