"""Collectives as messages: sender, receiver, bytes and round of each.

A rule in `collective_rules` says what a collective primitive moves, as a `CollectiveOp`; `collectives` says of each kind what happens, what
it costs and what HLO calls it. Everything below is a pure function of moves, groups and sizes: `messages` spells out an algorithm message
by message. What a run takes is predicted in `communication_costs.py`.

>>> [tuple(m)[:4] for m in messages("all_gather", ((0, 1),), bytes_in=8)]
[(0, 0, 1, 8), (0, 1, 0, 8)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xlab.core.rules import RuleTable

collective_rules = RuleTable(
    "communication.collective_rules",
    "show the messages of",
    "rule(avals_in, avals_out, **params) -> CollectiveOp",
    required=False,
)
"""What a collective moves. Types are those of one device. Worked example, an all-reduce:
`lambda avals_in, avals_out, axes, **_: CollectiveOp("all_reduce", axes, "add", bytes_in=size(avals_in), bytes_out=size(avals_out))`."""

ALGORITHMS = ("ring", "bidirectional", "direct", "axes")


class Algorithm(NamedTuple):
    """How long one way of doing a collective takes: messages one after the other, and bytes of each, of `n` devices with `s` bytes.

    Of the algorithm `axes`: how often a ring along every axis is walked, and bytes on the links of all axes together.
    """

    steps: Callable[[int], int]
    size: Callable[[int, float], float]
    formula: str


@dataclass(frozen=True)
class Collective:
    """A kind of collective: all that is needed to predict its cost, draw it, or read it from HLO.

    Args:
        kind: its name in a `CollectiveOp` and in records.
        hlo: the opcodes of HLO that carry it out.
        stages: what happens, in this order: `scatter` (each adds up one part), `gather` (everyone gets what each has), `exchange` (each has
            a block for each), `broadcast` (everyone gets what the first has), `pairs` (who sends to whom is given).
        sent: bytes that each device sends in a bandwidth-optimal algorithm.
        ring, bidirectional, direct, axes: what the algorithms take.
        formula: of one that has no algorithms but pairs.
    """

    kind: str
    hlo: tuple[str, ...]
    stages: tuple[str, ...]
    sent: Callable[[int, float], float] = lambda n, s: s
    ring: Algorithm | None = None
    bidirectional: Algorithm | None = None
    direct: Algorithm | None = None
    axes: Algorithm | None = None
    formula: str = ""

    @property
    def reduces(self) -> bool:
        """Whether it adds values up."""
        return "scatter" in self.stages


collectives: dict[str, Collective] = {}
"""Every kind by its name. What XLA has stands below; a collective of one's own is added beside its primitive."""


opcodes: dict[str, str] = {}
"""Kinds by opcode of HLO."""


def add_collective(made: Collective) -> Collective:
    """Makes a kind of collective known: messages, prices, the reading of compiled programs and the page follow."""
    collectives[made.kind] = made
    opcodes.update(dict.fromkeys(made.hlo, made.kind))
    return made


def reduces(kind: str) -> bool:
    """Whether a kind adds values up."""
    return kind in collectives and collectives[kind].reduces


def by_pairs(kind: str) -> bool:
    """Whether a kind is given by who sends to whom, and not by groups."""
    return kind in collectives and collectives[kind].stages == ("pairs",)


add_collective(
    Collective(
        "all_reduce",
        ("all-reduce", "all-reduce-start"),
        ("scatter", "gather"),
        lambda n, s: 2 * s * (n - 1) / n,
        ring=Algorithm(lambda n: 2 * (n - 1), lambda n, s: s / n, "2(n−1)(α + S/(nβ))"),
        bidirectional=Algorithm(
            lambda n: 2 * (n - 1), lambda n, s: s / (2 * n), "2(n−1)(α + S/(2nβ))"
        ),
        direct=Algorithm(lambda n: 2, lambda n, s: s * (n - 1) / n, "2(α + S(n−1)/(nβ))"),
        axes=Algorithm(lambda n: 2, lambda n, s: 2 * s * (n - 1) / n, "2Σ(nᵢ−1)α + 2S(n−1)/(nkβ)"),
    )
)
add_collective(
    Collective(
        "all_gather",
        ("all-gather", "all-gather-start"),
        ("gather",),
        lambda n, s: s * (n - 1),
        ring=Algorithm(lambda n: n - 1, lambda n, s: s, "(n−1)(α + S/β)"),
        bidirectional=Algorithm(lambda n: n - 1, lambda n, s: s / 2, "(n−1)(α + S/(2β))"),
        direct=Algorithm(lambda n: 1, lambda n, s: s * (n - 1), "α + S(n−1)/β"),
        axes=Algorithm(lambda n: 1, lambda n, s: s * (n - 1), "Σ(nᵢ−1)α + S(n−1)/(kβ)"),
    )
)
add_collective(
    Collective(
        "reduce_scatter",
        ("reduce-scatter",),
        ("scatter",),
        lambda n, s: s * (n - 1) / n,
        ring=Algorithm(lambda n: n - 1, lambda n, s: s / n, "(n−1)(α + S/(nβ))"),
        bidirectional=Algorithm(lambda n: n - 1, lambda n, s: s / (2 * n), "(n−1)(α + S/(2nβ))"),
        direct=Algorithm(lambda n: 1, lambda n, s: s * (n - 1) / n, "α + S(n−1)/(nβ)"),
        axes=Algorithm(lambda n: 1, lambda n, s: s * (n - 1) / n, "Σ(nᵢ−1)α + S(n−1)/(nkβ)"),
    )
)
for _kind in ("all_to_all", "ragged_all_to_all"):
    add_collective(
        Collective(
            _kind,
            (_kind.replace("_", "-"),),
            ("exchange",),
            lambda n, s: s * (n - 1) / n,
            ring=Algorithm(lambda n: n - 1, lambda n, s: s / 2, "(n−1)(α + S/(2β))"),
            bidirectional=Algorithm(
                lambda n: n // 2,
                lambda n, s: s * (n * n // 4) / (2 * n) / max(1, n // 2),
                "⌊n/2⌋α + S⌊n²/4⌋/(2nβ)",
            ),
            direct=Algorithm(lambda n: 1, lambda n, s: s * (n - 1) / n, "α + S(n−1)/(nβ)"),
        )
    )
add_collective(
    Collective(
        "collective_broadcast",
        ("collective-broadcast",),
        ("broadcast",),
        ring=Algorithm(lambda n: n - 1, lambda n, s: s, "(n−1)(α + S/β)"),
        bidirectional=Algorithm(lambda n: n // 2, lambda n, s: s, "⌊n/2⌋(α + S/β)"),
        direct=Algorithm(lambda n: 1, lambda n, s: s * (n - 1), "α + S(n−1)/β"),
    )
)
add_collective(
    Collective(
        "collective_permute",
        ("collective-permute", "collective-permute-start"),
        ("pairs",),
        formula="hα + L/β",
    )
)


@dataclass(frozen=True)
class CollectiveOp:
    """What one collective equation moves.

    `axes` are the mesh axes it runs over, `groups` ranks within them where it runs in groups, `perm` pairs of ranks, `root` the
    rank that has what the others get.
    """

    kind: str
    axes: tuple[Any, ...]
    reduction: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    groups: tuple[tuple[int, ...], ...] | None = None
    perm: tuple[tuple[int, int], ...] = ()
    root: int = 0


class Message(NamedTuple):
    """`source` sends `size` bytes of `chunk` to `target` in a round; the target copies them or adds them (`reduce`)."""

    round: int
    source: int
    target: int
    size: int
    chunk: int
    action: str = "copy"
    origin: int = -1


def size(avals: Sequence[Any]) -> int:
    """Bytes of all values of these types."""
    return sum(getattr(a, "nbytes", 0) for a in avals)


def axes_of(primitive: Any, params: dict[str, Any]) -> tuple[str, ...] | None:
    """Names of the mesh axes a collective runs over; None for any other primitive."""
    if primitive not in collective_rules:
        return None
    axes = params.get("axes", params.get("axis_name", ()))
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(str(a) for a in axes if not isinstance(a, int))


def reducing(kind: str, reduction: str) -> Callable[..., CollectiveOp]:
    """The rule of a collective that combines values: `collective_rules[psum_p] = reducing("all_reduce", "add")`."""

    def rule(avals_in, avals_out, axes=None, axis_name=None, axis_index_groups=None, **_):
        return CollectiveOp(
            kind,
            _names(axes if axes is not None else axis_name),
            reduction,
            size(avals_in),
            size(avals_out),
            _groups(axis_index_groups),
        )

    return rule


def moving(kind: str) -> Callable[..., CollectiveOp]:
    """The rule of a collective that only moves values: `collective_rules[all_gather_p] = moving("all_gather")`."""

    def rule(
        avals_in,
        avals_out,
        axes=None,
        axis_name=None,
        axis_index_groups=None,
        perm=(),
        source=0,
        **_,
    ):
        return CollectiveOp(
            kind,
            _names(axes if axes is not None else axis_name),
            "",
            size(avals_in),
            size(avals_out),
            _groups(axis_index_groups),
            tuple((int(a), int(b)) for a, b in perm),
            int(source),
        )

    return rule


def _names(axes) -> tuple:
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(a for a in axes if not isinstance(a, int))


def _groups(groups):
    return None if groups is None else tuple(tuple(int(i) for i in g) for g in groups)


# ------------------------------------------------------------------------------------------------------- groups


def groups_along(
    names: Sequence[Any],
    sizes: Sequence[int],
    axes: Sequence[Any],
    groups: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Positions in a mesh that take part together in a collective over `axes`, the last axis fastest.

    >>> groups_along(("data", "model"), (2, 2), ("model",))
    ((0, 1), (2, 3))
    """
    names = list(names)
    unknown = [a for a in axes if a not in names]
    if unknown:
        raise ValueError(f"axes {unknown} are not in the mesh, whose axes are {names}")
    grid = np.arange(math.prod(sizes)).reshape(tuple(sizes))
    chosen = [names.index(a) for a in axes]
    others = [i for i in range(len(names)) if i not in chosen]
    rows = (
        grid.transpose([*others, *chosen]).reshape(-1, math.prod(sizes[i] for i in chosen)).tolist()
    )
    if groups is None:
        return tuple(map(tuple, rows))
    return tuple(tuple(row[i] for i in g) for row in rows for g in groups)


def in_order(move: CollectiveOp, groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Groups of positions as a collective numbers its ranks: a permute by position, whichever order its axes are given in; a
    broadcast from its root on.

    >>> in_order(CollectiveOp("collective_permute", ("b", "a"), perm=((0, 1),)), ((0, 2, 1, 3),))
    ((0, 1, 2, 3),)
    >>> in_order(CollectiveOp("collective_broadcast", ("a",), root=2), ((0, 1, 2, 3),))
    ((2, 3, 0, 1),)
    """
    if by_pairs(move.kind):
        return tuple(tuple(sorted(g)) for g in groups)
    return tuple((*g[move.root :], *g[: move.root]) for g in groups)


def pairs_along(
    groups: Sequence[Sequence[int]], perm: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """A permutation of ranks as pairs of positions, in every group."""
    return tuple((g[s], g[d]) for g in groups for s, d in perm)


# ----------------------------------------------------------------------------------------------------- messages


def messages(
    kind: str,
    groups: Sequence[Sequence[int]] = (),
    pairs: Sequence[tuple[int, int]] = (),
    *,
    bytes_in: int = 0,
    algorithm: str = "ring",
) -> list[Message]:
    """Every message of one run of a collective.

    Args:
        kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `collective_permute`, `collective_broadcast`.
        groups, pairs: device ids; a broadcast starts at the first of each group.
        bytes_in: what each device has before.
        algorithm: `ring`, `bidirectional` (both directions at once, half the bytes each), `direct` (everyone to everyone), or
            `axes` (a ring along every axis, all at once: a model of time, spelled out as one ring).
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    if kind not in collectives:
        return []
    if by_pairs(kind):
        return [Message(0, s, d, bytes_in, 0) for s, d in pairs if s != d]
    algorithm = "ring" if algorithm == "axes" else algorithm
    out: list[Message] = []
    for group in groups:
        if len(group) > 1:
            for m in _in_stages(collectives[kind].stages, len(group), bytes_in, algorithm):
                origin = group[m.origin] if m.origin >= 0 else -1
                out.append(
                    m._replace(source=group[m.source], target=group[m.target], origin=origin)
                )
    out.sort(key=lambda m: m.round)
    return [m for m in out if m.size or not bytes_in]


def message_count(
    kind: str, groups: Sequence[Sequence[int]] = (), pairs: Sequence[tuple[int, int]] = ()
) -> int:
    """At most how many messages one run has, without making them.

    >>> message_count("all_reduce", ((0, 1, 2, 3),))
    24
    """
    if kind not in collectives:
        return sum(len(g) * (len(g) - 1) for g in groups)
    if by_pairs(kind):
        return len(pairs)
    return sum(
        n * n * (n - 1) // 2 if stage == "exchange" else n * (n - 1)
        for n in map(len, groups)
        for stage in collectives[kind].stages
    )


def rounds(found: Sequence[Message]) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """Messages as `(source, target, bytes)` per round; several between the same two devices are added up."""
    out: dict[int, dict[tuple[int, int], int]] = {}
    for m in found:
        here = out.setdefault(m.round, {})
        here[m.source, m.target] = here.get((m.source, m.target), 0) + m.size
    return tuple(tuple((s, t, n) for (s, t), n in out[k].items()) for k in sorted(out))


def _part(total: int, i: int, n: int) -> int:
    """Bytes of chunk `i` when `total` is cut into `n` nearly equal chunks."""
    return total * (i + 1) // n - total * i // n


def _both_ways(n, make):
    """A ring in both directions at once: every chunk is halved and the second half runs the other way."""
    forward = [m._replace(size=m.size - m.size // 2, chunk=2 * m.chunk) for m in make(1)]
    back = [m._replace(size=m.size // 2, chunk=2 * m.chunk + 1) for m in make(-1)]
    return forward + back


def _reduce_scatter(n, total, algorithm, first=0):
    if algorithm == "direct":
        return [
            Message(first, r, d, _part(total, d, n), d, "reduce")
            for r in range(n)
            for d in range(n)
            if r != d
        ]

    def ring(way):
        # After round t a rank has added up t + 2 values of the chunk it passes on; in the end rank r owns chunk r.
        return [
            Message(
                first + t,
                r,
                (r + way) % n,
                _part(total, (r - way * (t + 1)) % n, n),
                (r - way * (t + 1)) % n,
                "reduce",
            )
            for t in range(n - 1)
            for r in range(n)
        ]

    return ring(1) if algorithm == "ring" else _both_ways(n, ring)


def _gather(n, part, algorithm, first=0):
    """Rank r has chunk r of size `part(r)`; in the end everyone has all."""
    if algorithm == "direct":
        return [Message(first, r, d, part(r), r) for r in range(n) for d in range(n) if r != d]

    def ring(way):
        return [
            Message(first + t, r, (r + way) % n, part((r - way * t) % n), (r - way * t) % n)
            for t in range(n - 1)
            for r in range(n)
        ]

    return ring(1) if algorithm == "ring" else _both_ways(n, ring)


def _all_to_all(n, total, algorithm):
    if algorithm == "direct":
        return [
            Message(0, r, d, _part(total, d, n), d, "copy", r)
            for r in range(n)
            for d in range(n)
            if r != d
        ]
    out = []
    for origin in range(n):
        for away in range(1, n):
            target = (origin + away) % n
            back = algorithm == "bidirectional" and away > n // 2
            way, hops = (-1, n - away) if back else (1, away)
            out += [
                Message(
                    t,
                    (origin + way * t) % n,
                    (origin + way * (t + 1)) % n,
                    _part(total, target, n),
                    target,
                    "copy",
                    origin,
                )
                for t in range(hops)
            ]
    return out


def _broadcast(n, total, algorithm):
    if algorithm == "direct":
        return [Message(0, 0, d, total, 0) for d in range(1, n)]
    if algorithm == "ring":
        return [Message(t, t, t + 1, total, 0) for t in range(n - 1)]
    right = [Message(t, t, t + 1, total, 0) for t in range(n // 2)]
    return right + [Message(t, -t % n, -(t + 1) % n, total, 0) for t in range((n - 1) // 2)]


def _in_stages(stages: Sequence[str], n: int, total: int, algorithm: str) -> list[Message]:
    """The messages of one group: after a scatter each has a part, before it all."""
    out: list[Message] = []
    part, first = (lambda r: total), 0
    for stage in stages:
        if stage == "scatter":
            out += _reduce_scatter(n, total, algorithm, first)
            part = lambda r: _part(total, r, n)
        elif stage == "gather":
            out += _gather(n, part, algorithm, first)
        else:
            out += [
                m._replace(round=m.round + first)
                for m in (_all_to_all if stage == "exchange" else _broadcast)(n, total, algorithm)
            ]
        first = max((m.round for m in out), default=-1) + 1
    return out
