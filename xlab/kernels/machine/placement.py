"""Where a block of an operand is: from what an index map gives to ranges of the array, with padding and what lies outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab import tree as _tree
from xlab.core.jaxpr import ClosedJaxpr, Literal, eval_jaxpr, results_of
from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.blocks import Blocked, BlockMapping, BoundedSlice, Indirect, Squeezed
from xlab.kernels.machine.events import BlockEvent
from xlab.lax.refs import get_p

_REMEMBERED = 1 << 15  # blocks per operand


class PlacedBlock(NamedTuple):
    """A block of an operand: its place in the padded array, and what is told of it."""

    index: tuple  # what the index map gave, per dimension
    take: tuple  # a NumPy index into the padded array, squeezed dimensions as ranges of one
    starts: tuple[int, ...]  # per dimension of the array, without padding
    shape: tuple[int, ...]
    squeezed: tuple[int, ...]
    pad: tuple[int, ...]
    clamped: bool
    sizes: tuple  # per dimension: how many positions count (BoundedSlice), or None
    outside: str  # what is said of a start outside the array, or ""
    whole: bool  # a plain window, all of which counts
    kept: tuple[int, ...]  # dimensions that are not squeezed

    def event(self, step, grid, operand, io, visit, core, pair) -> BlockEvent:
        return BlockEvent(
            step,
            grid,
            operand,
            io,
            self.index,
            self.starts,
            self.shape,
            self.squeezed,
            self.pad,
            self.clamped,
            visit,
            core,
            pair,
        )


class BlockPlacement:
    """The blocks of one operand. What does not change from step to step is made once; blocks are remembered by their index."""

    def __init__(self, mapping: BlockMapping):
        self.mapping = m = mapping
        self.padded, self.padding = m.padded_shape, m.padding
        self.known: dict[tuple, PlacedBlock] = {}
        jaxpr = m.index_map.jaxpr
        places = {v: i for i, v in enumerate(jaxpr.invars)}
        self.plain: list[tuple[bool, int]] | None = None
        if not jaxpr.eqns and not any(type(d) is Indirect for d in m.block_shape):
            # Positions in the grid and numbers, as they are.
            self.plain = [
                (True, int(a.val)) if type(a) is Literal else (False, places[a])
                for a in jaxpr.outvars
            ]
        kinds = {type(d) for d in m.block_shape}
        self.windows = None
        if kinds <= {Blocked, Squeezed} and not any(lo for lo, _ in self.padding):
            # Per dimension the block's size and those of the array, with padding and without.
            self.sizes = m.sizes
            self.windows = list(zip(m.sizes, self.padded, m.array_aval.shape))
            squeezed = [d for d, dim in enumerate(m.block_shape) if type(dim) is Squeezed]
            self.squeezed = tuple(squeezed)
            self.kept = tuple(d for d in range(len(m.sizes)) if d not in squeezed)
            self.counts = (None,) * len(m.sizes)

    def at(self, position: Sequence[int], read: Callable[..., Any] | None) -> PlacedBlock:
        """The block at a grid point."""
        m = self.mapping
        if self.plain is not None:
            given: list = [x if fixed else position[x] for fixed, x in self.plain]
        else:
            given = [np.asarray(x) for x in index_results(m, position, read)]
            if any(x.ndim for x in given):
                return self.block(m.results(given))
            given = list(map(int, given))
        key = tuple(given)
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _REMEMBERED:
                self.known.clear()
            found = self.known[key] = self._window(key) or self.block(m.results(given))
        return found

    def _window(self, index: tuple[int, ...]) -> PlacedBlock | None:
        """The block with a number per dimension, where it is a plain window inside the array: most blocks are."""
        if self.windows is None:
            return None
        take, starts, pad = [], [], []
        for i, (b, padded, n) in zip(index, self.windows):
            start = i * b
            stop = start + b
            if start < 0 or stop > padded:
                return None
            take.append(slice(start, stop))
            starts.append(start)
            pad.append(stop - n if stop > n else 0)
        return PlacedBlock(
            index,
            tuple(take),
            tuple(starts),
            self.sizes,
            self.squeezed,
            tuple(pad),
            False,
            self.counts,
            "",
            True,
            self.kept,
        )

    def block(self, indices: Sequence[Any]) -> PlacedBlock:
        """The block that an index map's results name. Starts outside are moved inside, as compiled programs do."""
        return _block(self.mapping, self.padded, self.padding, indices)


def _block(m: BlockMapping, padded, padding, indices: Sequence[Any]) -> PlacedBlock:
    index, take, starts, shape, squeezed, pad, sizes = [], [], [], [], [], [], []
    clamped, said = False, ""
    for d, (dim, r, n) in enumerate(zip(m.block_shape, indices, m.array_aval.shape)):
        b, whole, lo = dim.block_size, padded[d], padding[d][0]
        kind = type(dim)
        if kind is Indirect:
            vector = np.asarray(r).astype(np.int64)
            places = np.where(vector < 0, vector + whole, vector)
            inside = np.clip(places, 0, max(whole - 1, 0))
            if not said and (places != inside).any():
                bad = int(vector[places != inside][0])
                said = f"index {bad} in dimension {d} of size {whole}"
            clamped = clamped or bool((places != inside).any())
            index.append(tuple(vector.tolist()))
            take.append(inside)
            starts.append(int(inside.min()) if inside.size else 0)
            shape.append(b)
            pad.append(0)
            sizes.append(None)
            continue
        size = None
        if kind is BoundedSlice:
            start, size = int(r[0]), int(r[1])
            index.append((start, size))
            if size > b or size < 0:
                said = f"a slice of size {size} in dimension {d}, whose block has {b} positions"
                size = min(max(size, 0), b)
        else:
            number = int(r)
            index.append(number)
            start = number * b if kind is Blocked else number
        place = start + whole if start < 0 else start
        inside = min(max(place, 0), whole - b)
        if place != inside or start < 0 or (kind is BoundedSlice and start + (size or 0) > n):
            if not said:
                what = f"{start}:{start + (b if size is None else size)}"
                said = f"positions {what} in dimension {d} of size {n}" + (
                    f" (padded to {whole})" if whole != n else ""
                )
        clamped = clamped or place != inside
        take.append(slice(inside, inside + b))
        first = inside - lo
        starts.append(first)
        shape.append(b)
        pad.append(max(0, -first) + max(0, first + (b if size is None else size) - n))
        sizes.append(size)
        if kind is Squeezed:
            squeezed.append(d)
    return PlacedBlock(
        tuple(index),
        tuple(take),
        tuple(starts),
        tuple(shape),
        tuple(squeezed),
        tuple(pad),
        clamped,
        tuple(sizes),
        said,
        not said and all(s is None for s in sizes) and all(type(t) is slice for t in take),
        tuple(d for d in range(len(starts)) if d not in squeezed),
    )


def numpy_index(block: PlacedBlock) -> tuple:
    """The block's index with positions along every dimension, where some are given by vectors."""
    if block.whole or all(type(t) is slice for t in block.take):
        return block.take
    return np.ix_(*(np.arange(t.start, t.stop) if type(t) is slice else t for t in block.take))


def index_results(m: BlockMapping, position: Sequence[int], read: Any) -> list:
    """What the index map gives at a grid point, flat. `read(input, tree, leaves)` reads a prefetched reference."""
    jaxpr = m.index_map.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.invars, map(np.int32, position)))
    env.update(zip(jaxpr.constvars, m.index_map.consts))
    refs = {v: i for i, v in enumerate(jaxpr.invars[len(position) :])}
    for eqn in jaxpr.eqns:
        values = [a.val if type(a) is Literal else env.get(a) for a in eqn.invars]
        if eqn.primitive is get_p:
            outs = [read(refs[eqn.invars[0]], eqn.params["tree"], values[1:])]
        elif any(type(a.aval) is AbstractRef for a in eqn.invars):
            return _on_values(m.index_map, position, len(refs), read)
        else:
            outs = results_of(eqn, values)
        env.update(zip(eqn.outvars, outs))
    return [a.val if type(a) is Literal else env[a] for a in jaxpr.outvars]


def _on_values(index_map: ClosedJaxpr, position, count, read):
    whole = _tree.structure(())
    mask = [type(a) is AbstractRef for a in index_map.in_avals]
    closed, _ = discharge_jaxpr(index_map, mask, ())
    values = [read(i, whole, ()) for i in range(count)]
    return eval_jaxpr(closed.jaxpr, closed.consts, *map(np.int32, position), *values)


def depends_on_data(m: BlockMapping) -> bool:
    """Whether an index map reads prefetched scalars."""
    return bool(m.index_map.effects)


def whole_block(shape: tuple[int, ...]) -> PlacedBlock:
    """The one block of an operand that every step sees whole."""
    n = len(shape)
    return PlacedBlock(
        (0,) * n,
        tuple(slice(0, s) for s in shape),
        (0,) * n,
        tuple(shape),
        (),
        (0,) * n,
        False,
        (None,) * n,
        "",
        True,
        tuple(range(n)),
    )
