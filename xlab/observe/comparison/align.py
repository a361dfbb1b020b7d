"""Aligns two sequences with the fewest insertions and deletions, within a limit on the search.

>>> align("abcd", "axcde")
[('same', 0, 1, 0, 1), ('other', 1, 2, 1, 2), ('same', 2, 4, 2, 4), ('other', 4, 4, 4, 5)]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

MOST_DIFFERENCES = 600
"""Items that came or went up to which the fewest are looked for: the work grows with their square."""


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[str, int, int, int, int]]:
    """Ranges `(equal or not, from, to, from, to)` of both sequences, in order."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[len(a) - 1 - end] == b[len(b) - 1 - end]:
        end += 1
    inner_a, inner_b = a[start : len(a) - end], b[start : len(b) - end]
    blocks = _fewest(inner_a, inner_b)
    if blocks is None:
        found = SequenceMatcher(None, inner_a, inner_b, autojunk=False).get_matching_blocks()
        blocks = [(m.a, m.b, m.size) for m in found if m.size]
    blocks = [
        (0, 0, start),
        *((i + start, j + start, n) for i, j, n in blocks),
        (len(a) - end, len(b) - end, end),
    ]
    out: list[tuple[str, int, int, int, int]] = []
    i = j = 0
    for x, y, n in blocks:
        if i < x or j < y:
            out.append(("other", i, x, j, y))
        if n and out and out[-1][0] == "same":
            out[-1] = ("same", out[-1][1], x + n, out[-1][3], y + n)
        elif n:
            out.append(("same", x, x + n, y, y + n))
        i, j = x + n, y + n
    return out


def _fewest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int, int]] | None:
    """Matching ranges `(from, from, length)`: a shortest edit script by furthest-reaching paths; None beyond the limit."""
    ends = {1: 0}
    steps: list[dict[int, int]] = []
    for d in range(min(len(a) + len(b), MOST_DIFFERENCES) + 1):
        steps.append(dict(ends))
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and ends[k - 1] < ends[k + 1])
            x = ends[k + 1] if down else ends[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            ends[k] = x
            if x >= len(a) and y >= len(b):
                return _back(steps, len(a), len(b))
    return None


def _back(steps: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int]]:
    out: list[tuple[int, int, int]] = []
    for d in range(len(steps) - 1, -1, -1):
        ends, k = steps[d], x - y
        down = k == -d or (k != d and ends[k - 1] < ends[k + 1])
        before = k + 1 if down else k - 1
        from_x = ends[before] if d else 0
        from_y = from_x - before if d else 0
        begun = from_x + (0 if down else 1) if d else 0
        if x > begun:
            out.append((begun, y - (x - begun), x - begun))
        x, y = from_x, from_y
    return out[::-1]
