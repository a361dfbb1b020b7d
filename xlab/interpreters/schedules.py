"""Schedules of collectives among ranks: who passes which chunk on to whom, in which step. Pure functions of the number of ranks.

A scatter, in which each rank adds up one chunk, is a gather run backwards: the way of a chunk from its owner to everybody becomes the way of
all parts of a sum to its owner (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005).

>>> [tuple(m) for m in gather(2, "ring")]
[(0, 0, 1, 0, 0, -1), (0, 1, 0, 1, 0, -1)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

ALGORITHMS = (
    "ring",
    "bidirectional",
    "shortest",
    "doubling",
    "direct",
    "pipelined",
    "axes",
    "per_axis",
)
"""One ring; half of every chunk each way around; whole chunks the shorter way; recursive halving and doubling; everyone to everyone;
a broadcast in pieces that follow one another; rings along all mesh axes at once; rings along one axis after the other."""

PIECES = 4
"""Pieces of a pipelined broadcast."""


class Move(NamedTuple):
    """In a step a rank sends a part of a chunk. Of an exchange, `chunk` is the rank it is for and `origin` the one it comes from."""

    step: int
    source: int
    target: int
    chunk: int
    part: int = 0
    origin: int = -1


def carried_out(stages: Sequence[str], n: int, algorithm: str, sizes: Sequence[int] = ()) -> str:
    """The algorithm that is used where one was asked for: not each exists for each collective, or for each number of ranks.

    >>> carried_out(("gather",), 6, "doubling"), carried_out(("exchange",), 6, "shortest")
    ('ring', 'bidirectional')
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    rings = set(stages) <= {"scatter", "gather"}
    if algorithm == "shortest":
        return "shortest" if rings else "bidirectional"
    if algorithm == "doubling":
        return "doubling" if n & (n - 1) == 0 or stages == ("broadcast",) else "ring"
    if algorithm == "pipelined":
        return "pipelined" if stages == ("broadcast",) else "ring"
    if algorithm in ("axes", "per_axis"):
        several = rings and len(sizes) > 1 and math.prod(sizes) == n
        return algorithm if several else "ring"
    return algorithm


def parts_of(stage: str, algorithm: str, sizes: Sequence[int] = ()) -> int:
    """Into how many parts an algorithm cuts each chunk."""
    if stage in ("scatter", "gather"):
        return {"bidirectional": 2, "axes": len(sizes)}.get(algorithm, 1)
    return PIECES if stage == "broadcast" and algorithm == "pipelined" else 1


def gather(n: int, algorithm: str, sizes: Sequence[int] = (), way: int = 1) -> list[Move]:
    """Rank r has chunk r; in the end everyone has all. `way` is the direction of a ring."""
    ranks = range(n)
    if algorithm == "direct":
        return [Move(0, r, d, r) for r in ranks for d in ranks if r != d]
    if algorithm == "doubling":
        return [
            Move(s, r, r ^ 1 << s, c)
            for s in range(n.bit_length() - 1)
            for r in ranks
            for c in range(r >> s << s, (r >> s << s) + (1 << s))
        ]
    if algorithm == "axes":
        k = len(sizes)
        orders = ([(k - 1 - i - p) % k for i in range(k)] for p in range(k))
        every = [m for p, order in enumerate(orders) for m in _along(sizes, order, p, way)]
        return sorted(every, key=lambda m: m.step)
    if algorithm == "per_axis":
        return _along(sizes, range(len(sizes) - 1, -1, -1), 0, way)

    def ring(way, steps, part=0):
        return [
            Move(t, r, (r + way) % n, (r - way * t) % n, part) for t in range(steps) for r in ranks
        ]

    if algorithm == "shortest":
        both = ring(way, n // 2) + ring(-way, (n - 1) // 2)
    elif algorithm == "bidirectional":
        both = ring(way, n - 1) + ring(-way, n - 1, 1)
    else:
        return ring(way, n - 1)
    return sorted(both, key=lambda m: m.step)


def _along(sizes, order, part, way) -> list[Move]:
    """A ring along each axis of the ranks, one after the other: what was gathered along the axes before goes along together."""
    place = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), 1)
    rank = np.arange(math.prod(sizes)).reshape(sizes)
    out, first, done = [], 0, []
    for axis in order:
        for t in range(sizes[axis] - 1):
            for r, at in enumerate(place):
                target, had = at.copy(), list(at)
                target[axis] = (at[axis] + way) % sizes[axis]
                had[axis] = (at[axis] - way * t) % sizes[axis]
                chunks = rank[tuple(slice(None) if a in done else had[a] for a in range(len(had)))]
                to = int(rank[tuple(target)])
                out += [Move(first + t, r, to, int(c), part) for c in np.ravel(chunks)]
        first += sizes[axis] - 1
        done.append(axis)
    return out


def scatter(n: int, algorithm: str, sizes: Sequence[int] = ()) -> list[Move]:
    """Each rank has a part of the sum of every chunk; in the end rank r has the whole of chunk r. What arrives is added."""
    forth = gather(n, algorithm, sizes, -1)
    last = max((m.step for m in forth), default=0)
    back = [m._replace(step=last - m.step, source=m.target, target=m.source) for m in forth]
    return sorted(back, key=lambda m: (m.step, m.part, m.source))


def exchange(n: int, algorithm: str) -> list[Move]:
    """Each rank has a block for each; ranks in between pass blocks on."""
    ranks = range(n)
    if algorithm == "direct":
        return [Move(0, r, d, d, 0, r) for r in ranks for d in ranks if r != d]
    out = []
    for origin in ranks:
        for away in range(1, n):
            if algorithm == "doubling":  # one bit of the difference after the other
                target, at = origin ^ away, origin
                for s in range(n.bit_length() - 1):
                    if away >> s & 1:
                        out.append(Move(s, at, at ^ 1 << s, target, 0, origin))
                        at ^= 1 << s
                continue
            target = (origin + away) % n
            back = algorithm == "bidirectional" and away > n // 2
            way, hops = (-1, n - away) if back else (1, away)
            out += [
                Move(t, (origin + way * t) % n, (origin + way * (t + 1)) % n, target, 0, origin)
                for t in range(hops)
            ]
    return sorted(out, key=lambda m: m.step)


def broadcast(n: int, algorithm: str) -> list[Move]:
    """Everyone gets what rank 0 has."""
    if algorithm == "direct":
        return [Move(0, 0, d, 0) for d in range(1, n)]
    if algorithm == "doubling":
        return [
            Move(s, r, r + (1 << s), 0)
            for s in range((n - 1).bit_length())
            for r in range(min(1 << s, n - (1 << s)))
        ]
    if algorithm == "pipelined":
        every = (Move(p + t, t, t + 1, 0, p) for p in range(PIECES) for t in range(n - 1))
        return sorted(every, key=lambda m: m.step)
    if algorithm == "bidirectional":
        right = [Move(t, t, t + 1, 0) for t in range(n // 2)]
        left = [Move(t, -t % n, -(t + 1) % n, 0) for t in range((n - 1) // 2)]
        return sorted(right + left, key=lambda m: m.step)
    return [Move(t, t, t + 1, 0) for t in range(n - 1)]


def of_stages(
    stages: Sequence[str], n: int, algorithm: str, sizes: Sequence[int] = ()
) -> Iterable[tuple[str, list[Move]]]:
    """The moves of each stage of a collective, steps counted through."""
    way, first = carried_out(stages, n, algorithm, sizes), 0
    for stage in stages:
        made = {
            "scatter": lambda: scatter(n, way, sizes),
            "gather": lambda: gather(n, way, sizes),
            "exchange": lambda: exchange(n, way),
            "broadcast": lambda: broadcast(n, way),
        }[stage]()
        yield stage, [m._replace(step=m.step + first) for m in made]
        first += max((m.step for m in made), default=-1) + 1
