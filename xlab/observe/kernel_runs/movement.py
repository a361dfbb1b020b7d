"""What the blocks of a grid move between memories, in the order of its steps, and what about them is likely a mistake.

The rule is the one of a pipeline with a buffer per operand: a block that the next step wants again stays, any other is fetched; an
output's block is written back when the steps leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlab.observe.records.kernel import KernelLint, KernelOperand, Movement
from xlab.observe.records.units import plural


class Visits(NamedTuple):
    """The blocks of one operand, a row per step: what the index map gave, and start and size in elements of the array.

    `unclamped` are the starts before they were moved to keep the block inside. `covers` is how many blocks make up the array, -1
    where blocks do not tile it.
    """

    operand: KernelOperand
    io: str
    indices: np.ndarray
    start: np.ndarray
    size: np.ndarray
    unclamped: np.ndarray
    squeezed: tuple[int, ...] = ()
    covers: int = -1

    @property
    def steps(self) -> int:
        return len(self.start)

    def numbers(self) -> np.ndarray:
        """The number of each step's block: equal blocks have equal numbers."""
        keys = np.concatenate([self.start, self.size], 1)
        return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)

    def sizes_inside(self) -> np.ndarray:
        """Bytes of each step's block that lie in the array."""
        shape = np.asarray(self.operand.shape, np.int64)
        low, high = np.clip(self.start, 0, shape), np.clip(self.start + self.size, 0, shape)
        return np.prod(high - low, axis=1, dtype=np.int64) * self.operand.itemsize


def changes(numbers: np.ndarray) -> np.ndarray:
    """Whether each step's block is another than that of the step before; the first step's is.

    >>> changes(np.asarray([0, 0, 1, 0])).tolist()
    [True, False, True, True]
    """
    return np.concatenate([[True], numbers[1:] != numbers[:-1]])[: len(numbers)]


def movement(visits: Visits) -> Movement:
    """What one operand's blocks move."""
    if not visits.steps:
        return Movement(visits.operand.name, visits.io, 0, 0, 0, 0, 0, 0)
    numbers, sizes = visits.numbers(), visits.sizes_inside()
    moved = changes(numbers)
    first = np.unique(numbers, return_index=True)[1]
    return Movement(
        visits.operand.name,
        visits.io,
        visits.steps,
        int(moved.sum()),
        len(first),
        int(sizes[moved].sum()),
        int(sizes[first].sum()),
        int(sizes.sum()),
    )


def visit_counts(numbers: np.ndarray) -> np.ndarray:
    """For each step how many steps up to it have had its block.

    >>> visit_counts(np.asarray([0, 1, 0, 0])).tolist()
    [1, 1, 2, 3]
    """
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    starts = np.flatnonzero(changes(sorted_numbers))
    lengths = np.diff(np.append(starts, len(numbers)))
    out = np.empty(len(numbers), np.int64)
    out[order] = np.arange(len(numbers)) - np.repeat(starts, lengths) + 1
    return out


def lints(found: Sequence[Visits], grid: Sequence[int]) -> tuple[KernelLint, ...]:
    """Blocks of outputs that no step has, or that are left and come again; blocks that were moved to lie inside."""
    out: list[KernelLint] = []
    for v in found:
        name, steps = v.operand.name, v.steps
        if steps and v.operand.role == "output":
            out += _output_lints(v, grid)
        moved = np.flatnonzero((v.start != v.unclamped).any(axis=1))
        if len(moved):
            out.append(
                KernelLint(
                    f"in {plural(len(moved), 'step')} the block of {name} begins outside of the array and is moved inside, first in "
                    f"step {moved[0] + 1}: index {_place(v.indices[moved[0]])} starts at {_place(v.unclamped[moved[0]])}",
                    name,
                    "let the index map stay below the number of blocks",
                )
            )
        if not steps and v.operand.role == "output":
            out.append(KernelLint(f"the grid has no step: {name} stays uninitialized", name))
    return tuple(out)


def _output_lints(v: Visits, grid: Sequence[int]) -> list[KernelLint]:
    out, name = [], v.operand.name
    numbers = v.numbers()
    distinct = int(numbers.max()) + 1
    if 0 <= distinct < v.covers and v.operand.alias == "":
        out.append(
            KernelLint(
                f"{plural(v.covers - distinct, 'block')} of {v.covers:,} of {name} belong to no step: they stay uninitialized",
                name,
                "make the grid cover the output, or alias an input to it",
            )
        )
    begun = np.flatnonzero(changes(numbers))
    counts = np.bincount(numbers[begun])
    again = np.flatnonzero(counts > 1)
    if len(again):
        first = int(again[np.argmin([np.flatnonzero(numbers == n)[0] for n in again[:64]])])
        stops = begun[numbers[begun] == first]
        out.append(
            KernelLint(
                f"{plural(len(again), 'block')} of {name} are left and visited again, first {_place(v.indices[stops[0]])}, in steps "
                f"{stops[0] + 1} and {stops[1] + 1}: on hardware what such a block holds then is undefined",
                name,
                "put the axes of the grid that its index map does not use last"
                if len(grid) > 1
                else "",
            )
        )
    return out


def _place(row: np.ndarray) -> str:
    return f"({', '.join(map(str, row.tolist()))})"


def covering(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """How many blocks of a size make up an array."""
    return math.prod(-(-n // b) if b else 1 for n, b in zip(shape, sizes))
