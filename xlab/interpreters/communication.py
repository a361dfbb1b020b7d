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
from typing import Any, NamedTuple

import numpy as np

from xlab.backend.values import value_class
from xlab.core.rules import RuleTable
from xlab.interpreters import schedules
from xlab.interpreters.schedules import ALGORITHMS

collective_rules = RuleTable(
    "communication.collective_rules",
    "show the messages of",
    "rule(avals_in, avals_out, **params) -> CollectiveOp",
    required=False,
)
"""What a collective moves. Types are those of one device. Worked example, an all-reduce:
`lambda avals_in, avals_out, axes, **_: CollectiveOp("all_reduce", axes, "add", bytes_in=size(avals_in), bytes_out=size(avals_out))`."""


class Algorithm(NamedTuple):
    """How long one way of doing a collective takes: messages one after the other, and bytes of each, of `n` devices with `s` bytes.

    Of the algorithm `axes`: how often a ring along every axis is walked, and bytes on the links of all axes together.
    """

    steps: Callable[[int], int]
    size: Callable[[int, float], float]
    formula: str


@value_class
class Collective:
    """A kind of collective: all that is needed to predict its cost, draw it, or read it from HLO.

    Args:
        kind: its name in a `CollectiveOp` and in records.
        hlo: the opcodes of HLO that carry it out.
        stages: what happens, in this order: `scatter` (each adds up one part), `gather` (everyone gets what each has), `exchange` (each has
            a block for each), `broadcast` (everyone gets what the first has), `pairs` (who sends to whom is given).
        sent: bytes that each device sends in a bandwidth-optimal algorithm.
        ring, bidirectional, direct, axes, shortest, doubling, pipelined: what the algorithms take; one that is not there is a ring.
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
    shortest: Algorithm | None = None
    doubling: Algorithm | None = None
    pipelined: Algorithm | None = None
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


def _log2(n: int) -> int:
    """Steps of halving or doubling."""
    return max(1, (n - 1).bit_length())


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
        shortest=Algorithm(lambda n: 2 * (n // 2), lambda n, s: s / n, "2⌈(n−1)/2⌉(α + S/(nβ))"),
        doubling=Algorithm(
            lambda n: 2 * _log2(n),
            lambda n, s: s * (n - 1) / n / _log2(n),
            "2log₂(n)α + 2S(n−1)/(nβ)",
        ),
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
        shortest=Algorithm(lambda n: n // 2, lambda n, s: s, "⌈(n−1)/2⌉(α + S/β)"),
        doubling=Algorithm(_log2, lambda n, s: s * (n - 1) / _log2(n), "log₂(n)α + S(n−1)/β"),
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
        shortest=Algorithm(lambda n: n // 2, lambda n, s: s / n, "⌈(n−1)/2⌉(α + S/(nβ))"),
        doubling=Algorithm(
            _log2, lambda n, s: s * (n - 1) / n / _log2(n), "log₂(n)α + S(n−1)/(nβ)"
        ),
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
            doubling=Algorithm(_log2, lambda n, s: s / 2, "log₂(n)(α + S/(2β))"),
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
        doubling=Algorithm(_log2, lambda n, s: s, "⌈log₂n⌉(α + S/β)"),
        pipelined=Algorithm(
            lambda n: n - 2 + schedules.PIECES,
            lambda n, s: s / schedules.PIECES,
            f"(n−2+c)(α + S/(cβ)), c={schedules.PIECES}",
        ),
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


@value_class
class CollectiveOp:
    """What one collective equation moves.

    `axes` are the mesh axes it runs over, `groups` ranks within them where it runs in groups, `perm` pairs of ranks, `root` the
    rank that has what the others get, `dimension` the one that is gathered, scattered or split, `concat` where an exchange puts the
    blocks; `tiled` if no dimension comes or goes. `reduced` are dimensions that each device adds up by itself before.
    """

    kind: str
    axes: tuple[Any, ...]
    reduction: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    groups: tuple[tuple[int, ...], ...] | None = None
    perm: tuple[tuple[int, int], ...] = ()
    root: int = 0
    dimension: int = 0
    concat: int = 0
    tiled: bool = True
    reduced: tuple[int, ...] = ()


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

    def rule(
        avals_in,
        avals_out,
        axes=None,
        axis_name=None,
        axis_index_groups=None,
        scatter_dimension=0,
        tiled=True,
        **_,
    ):
        named = axes if axes is not None else axis_name
        return CollectiveOp(
            kind,
            _names(named),
            reduction,
            size(avals_in),
            size(avals_out),
            _groups(axis_index_groups),
            dimension=scatter_dimension,
            tiled=tiled,
            reduced=tuple(a for a in _tuple(named) if isinstance(a, int)),
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
        all_gather_dimension=0,
        split_axis=None,
        concat_axis=0,
        tiled=True,
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
            all_gather_dimension if split_axis is None else split_axis,
            concat_axis,
            tiled,
        )

    return rule


def _tuple(axes) -> tuple:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


def _names(axes) -> tuple:
    return tuple(a for a in _tuple(axes) if not isinstance(a, int))


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
    sizes: Sequence[int] = (),
) -> list[Message]:
    """Every message of one run of a collective.

    Args:
        kind: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `collective_permute`, `collective_broadcast`.
        groups, pairs: device ids; a broadcast starts at the first of each group.
        bytes_in: what each device has before.
        algorithm: one of `ALGORITHMS`; where it does not fit, what `schedules.carried_out` says.
        sizes: of the mesh axes that a group runs over, for rings along axes.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    if kind not in collectives:
        return []
    if by_pairs(kind):
        return [Message(0, s, d, bytes_in, 0) for s, d in pairs if s != d]
    out: list[Message] = []
    for group in groups:
        if len(group) > 1:
            for m in _in_stages(collectives[kind].stages, len(group), bytes_in, algorithm, sizes):
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


def _cut(total: int, i: int, n: int) -> int:
    """Bytes of part `i` of a chunk; of parts that are not equal the first are larger."""
    return _part(total, n - 1 - i, n)


def _in_stages(
    stages: Sequence[str], n: int, total: int, algorithm: str, sizes: Sequence[int]
) -> list[Message]:
    """The messages of one group: after a scatter each has a part, before it all."""
    out: list[Message] = []
    way = schedules.carried_out(stages, n, algorithm, sizes)
    whole = stages[0] in ("gather", "broadcast")  # what each has at first is one chunk
    for stage, moves in schedules.of_stages(stages, n, algorithm, sizes):
        k = schedules.parts_of(stage, way, sizes)
        action = "reduce" if stage == "scatter" else "copy"
        for step, source, target, chunk, part, origin in moves:
            bytes_ = _cut(total if whole else _part(total, chunk, n), part, k)
            out.append(Message(step, source, target, bytes_, k * chunk + part, action, origin))
    return out
