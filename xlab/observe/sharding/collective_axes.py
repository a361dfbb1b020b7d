"""The mesh axes that groups and pairs of devices go along."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.interpreters import communication
from xlab.observe.programs import hlo as _hlo
from xlab.observe.records import MeshInfo


def count_of(sizes: Any) -> int:
    n = 1
    for s in sizes:
        n *= int(s)
    return n


def axes_of_pairs(mesh: MeshInfo, pairs: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
    """The mesh axes along which a permute sends.

    >>> axes_of_pairs(MeshInfo(("a", "b"), (2, 2), (0, 1, 2, 3)), ((0, 2), (3, 1)))
    ('a',)
    """
    ids = mesh.device_ids or tuple(range(mesh.size))
    at = {d: np.unravel_index(i, mesh.axis_sizes) for i, d in enumerate(ids)}
    return tuple(
        n
        for k, n in enumerate(mesh.axis_names)
        if any(s in at and d in at and at[s][k] != at[d][k] for s, d in pairs)
    )


def steps_of_pairs(
    mesh: MeshInfo, axes: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> frozenset[int]:
    """How far a permute sends along the ring of some mesh axes, by all its pairs; empty where it leaves the ring.

    A shift has one step, and one to neighbors has 1 or -1, which is the same where there are two devices.

    >>> mesh = MeshInfo(("a",), (4,), (0, 1, 2, 3))
    >>> sorted(steps_of_pairs(mesh, ("a",), ((0, 3), (1, 0)))), sorted(steps_of_pairs(mesh, ("a",), ((0, 1), (1, 3))))
    ([-1], [1, 2])
    """
    ids = mesh.device_ids or tuple(range(mesh.size))
    at = {d: np.unravel_index(i, mesh.axis_sizes) for i, d in enumerate(ids)}
    ring = [k for k, name in enumerate(mesh.axis_names) if name in axes]
    n = count_of(mesh.axis_sizes[k] for k in ring)
    found = set()
    for s, d in pairs:
        if s not in at or d not in at:
            return frozenset()
        if any(x != y for k, (x, y) in enumerate(zip(at[s], at[d])) if k not in ring):
            return frozenset()
        here, there = 0, 0
        for k in ring:
            here, there = (here * mesh.axis_sizes[k] + int(at[s][k]), there * mesh.axis_sizes[k] + int(at[d][k]))  # fmt: skip
        step = (there - here) % n
        found.add(step - n if step > n // 2 else step)
    return frozenset(found)


def itemsize(c: _hlo.HloCollective) -> int:
    """Bytes of one element of what a collective moves."""
    dims = (
        c.operand_shapes[0].split("[")[1].split("]")[0]
        if c.operand_shapes and "[" in c.operand_shapes[0]
        else ""
    )
    return max(1, c.bytes_in // max(1, count_of(d for d in dims.split(",") if d)))


def axes_of_groups(mesh: MeshInfo, groups: tuple[tuple[int, ...], ...]) -> tuple[str, ...]:
    """The mesh axes along which groups lie; empty when they are not whole axes.

    >>> axes_of_groups(MeshInfo(("a", "b"), (2, 2), (0, 1, 2, 3)), ((0, 2), (1, 3)))
    ('a',)
    """
    wanted = {frozenset(g) for g in groups}
    names = [n for n, s in zip(mesh.axis_names, mesh.axis_sizes) if s > 1]
    ids = mesh.device_ids or tuple(range(mesh.size))
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            rows = communication.groups_along(mesh.axis_names, mesh.axis_sizes, chosen)
            if {frozenset(ids[i] for i in row) for row in rows} == wanted:
                return chosen
    return ()
