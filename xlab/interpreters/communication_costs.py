"""What collectives cost: bytes sent, and the time predicted by the alpha-beta model, with the formula written out.

The formulas of each kind stand with its `Collective` in `communication.py`.

>>> cost("all_reduce", 4, 8000, link=Interconnect("example", 1.0, 1000.0))[0]
18.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xlab.interpreters.communication import Collective, by_pairs, collectives
from xlab.interpreters.schedules import carried_out

AXIS_ALGORITHMS = {"axes": "all axes at once", "per_axis": "one axis after the other"}
"""What formulas call the algorithms whose ranks lie in a grid."""


@dataclass(frozen=True)
class Interconnect:
    """A connection: `alpha` microseconds per message, `beta` bytes per microsecond in each direction, and `start` microseconds for each
    collective before its first message, as where all devices wait for one another."""

    name: str
    alpha: float
    beta: float
    start: float = 0.0


LINKS = {
    link.name: link
    for link in (
        Interconnect("cpu", 2.0, 10_000.0),
        Interconnect("pcie", 3.0, 25_000.0),
        Interconnect("nvlink", 1.0, 225_000.0),
        Interconnect("ici", 1.0, 45_000.0),
    )
}
"""Round numbers for common interconnects, to compare programs with and not to be taken as measurements."""


def sent_per_device(kind: str, n: int, bytes_in: int) -> float:
    """Bytes each device sends in a bandwidth-optimal algorithm."""
    if n < 2:
        return 0.0
    return collectives[kind].sent(n, float(bytes_in)) if kind in collectives else float(bytes_in)


def sent_in_all(
    kind: str, groups: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]], bytes_in: int
) -> float:
    """Bytes that all devices together send in one run, in a bandwidth-optimal algorithm.

    >>> sent_in_all("all_gather", ((0, 1), (2, 3)), (), 8), sent_in_all("collective_permute", (), ((0, 1), (2, 2)), 8)
    (32.0, 8.0)
    """
    if by_pairs(kind):
        return float(bytes_in * sum(s != d for s, d in pairs))
    if kind in collectives and collectives[kind].stages == ("broadcast",):
        return float(bytes_in * sum(len(g) - 1 for g in groups if g))
    return sum(len(g) * sent_per_device(kind, len(g), bytes_in) for g in groups)


class Price(NamedTuple):
    """What one run takes on any interconnect: `steps` messages of `size` bytes one after the other, and `load` bytes over `links` links at once."""

    steps: int
    size: float
    formula: str
    load: float = 0
    links: int = 1

    def us(self, link: Interconnect) -> float:
        """Microseconds."""
        return (
            link.start
            + self.steps * (link.alpha + self.size / link.beta)
            + self.load / (self.links * link.beta)
            if self.steps
            else 0.0
        )


def price(
    kind: str, n: int, bytes_in: int, algorithm: str = "ring", sizes: Sequence[int] = ()
) -> Price | None:
    """What a collective over groups takes; None where there is no formula.

    >>> price("all_gather", 4, 100), price("all_reduce", 8, 1000, "axes", (4, 2)).steps
    (Price(steps=3, size=100, formula='(n−1)(α + S/β)', load=0, links=1), 8)
    """
    found = collectives.get(kind)
    if found is None:
        return None
    algorithm = used_algorithm(kind, n, algorithm, sizes)
    if algorithm in ("axes", "per_axis") and found.axes is not None and n > 1:
        walks, on_links, _ = found.axes
        links = len(sizes) if algorithm == "axes" else 1
        formula = formula_of(found, algorithm)
        return Price(walks(n) * sum(k - 1 for k in sizes), 0, formula, on_links(n, bytes_in), links)
    way = getattr(found, algorithm, None)
    return None if way is None else Price(way.steps(n), way.size(n, bytes_in), way.formula)


def used_algorithm(kind: str, n: int, algorithm: str, sizes: Sequence[int] = ()) -> str:
    """The algorithm that a prediction is about where another was asked for that does not fit.

    >>> used_algorithm("all_reduce", 6, "doubling"), used_algorithm("all_reduce", 8, "doubling")
    ('ring', 'doubling')
    """
    found = collectives.get(kind)
    if found is None or by_pairs(kind):
        return algorithm
    algorithm = carried_out(found.stages, n, algorithm, sizes)
    known = getattr(found, "axes" if algorithm == "per_axis" else algorithm)
    return "ring" if known is None else algorithm


def formula_of(made: Collective, algorithm: str) -> str:
    """The formula of an algorithm; of one that the kind does not have, that of a ring."""
    if made.axes is not None and algorithm == "per_axis":
        return made.axes.formula.replace("kβ", "β")
    way = getattr(made, "axes" if algorithm == "per_axis" else algorithm) or made.ring
    return made.formula if way is None else way.formula


def permute_price(
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    bytes_in: int,
    algorithm: str = "ring",
) -> Price:
    """What a permute takes: on rings the longest way and the busiest link, else a message for each.

    >>> permute_price(((0, 1, 2, 3),), ((0, 2), (1, 3)), 8)[:4]
    (2, 0, 'hα + L/β', 16)
    """
    if groups and algorithm != "direct":
        hops, load = permute_load(
            groups, pairs, bytes_in, both_ways=algorithm in ("bidirectional", "shortest")
        )
    else:
        hops, load = int(any(s != d for s, d in pairs)), bytes_in
    return Price(hops, 0, collectives["collective_permute"].formula, load)


def cost(
    kind: str,
    n: int,
    bytes_in: int,
    *,
    hops: int = 1,
    load: float | None = None,
    algorithm: str = "ring",
    link: Interconnect = LINKS["cpu"],
    sizes: Sequence[int] = (),
) -> tuple[float, str]:
    """Predicted microseconds of one run, and the formula with its numbers.

    `n` devices per group, `bytes_in` on each. For a permute, `hops` is the longest way on the ring and `load` the bytes on
    the busiest link. `sizes` are those of the mesh axes, for the algorithm `axes`.

    >>> cost("all_gather", 8, 1000, algorithm="axes", sizes=(4, 2), link=Interconnect("example", 1.0, 1000.0))[0]
    7.5
    >>> cost("collective_permute", 4, 1000, link=Interconnect("example", 1.0, 1000.0, start=5.0))
    (7.0, 'start 5 µs, hα + L/β = 1·1 µs + 1,000 B/(1 GB/s) = 7 µs')
    """
    start = f"start {link.start:g} µs, " if link.start else ""
    if by_pairs(kind):
        load = bytes_in if load is None else load
        us = link.start + hops * link.alpha + load / link.beta if hops else 0.0
        return us, (
            f"{start}{collectives[kind].formula} = {hops}·{link.alpha:g} µs + {load:,} B/({link.beta / 1e3:g} GB/s) = {us:.3g} µs"
        )
    found = price(kind, n, bytes_in, algorithm, sizes)
    if n < 2 or found is None:
        return 0.0, "0: one device per group" if n < 2 else f"no formula for {kind}"
    us = found.us(link)
    used = used_algorithm(kind, n, algorithm, sizes)
    ranks = "·".join(map(str, sizes)) if used in AXIS_ALGORITHMS else n
    links = f", k={found.links}" if found.links > 1 else ""
    written = f"{AXIS_ALGORITHMS.get(used, used)}: {found.formula} with n={ranks}{links}"
    return (
        us,
        f"{start}{written}, S={bytes_in:,} B, α={link.alpha:g} µs, β={link.beta / 1e3:g} GB/s = {us:.3g} µs",
    )


def permute_load(
    groups: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    bytes_in: int,
    *,
    both_ways: bool = False,
) -> tuple[int, int]:
    """Longest way and bytes on the busiest link when every group is a ring in rank order."""
    links: dict[tuple[int, int], int] = {}
    longest = 0
    place = {d: (i, k) for i, g in enumerate(groups) for k, d in enumerate(g)}
    for s, d in pairs:
        if s == d or s not in place or d not in place:
            continue
        group = groups[place[s][0]]
        n = len(group)
        hops = (place[d][1] - place[s][1]) % n
        way = 1
        if both_ways and hops > n - hops:
            way, hops = -1, n - hops
        longest = max(longest, hops)
        for t in range(hops):
            key = (group[(place[s][1] + way * t) % n], group[(place[s][1] + way * (t + 1)) % n])
            links[key] = links.get(key, 0) + bytes_in
    return longest, max(links.values(), default=0)
