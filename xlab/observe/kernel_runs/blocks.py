"""Which block each step of a grid reads and writes, worked out from the index maps alone: nothing is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core.effects import AccumEffect, ReadEffect, RefEffect, WriteEffect
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.blocks import BlockMapping, BoundedSlice, Element, Indirect, Squeezed
from xlab.observe.kernel_runs.movement import Visits, covering, visit_counts
from xlab.observe.records.kernel import BlockVisit, KernelOperand
from xlab.transforms.vmap import vmap

MOST_STEPS = 1 << 20
"""Steps of a grid that are counted; of more, the first ones."""
MOST_EVENTS = 30_000
"""Block visits that a record keeps one by one."""


def grid_points(grid: Sequence[int], most: int = MOST_STEPS) -> np.ndarray:
    """The first points of a grid in the order they run, last axis fastest, one row each.

    >>> grid_points((2, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    steps = min(math.prod(grid), most)
    if not grid:
        return np.zeros((1, 0), np.int32)
    return (
        np.stack(np.unravel_index(np.arange(steps), grid), 1).astype(np.int32)
        if steps
        else (np.zeros((0, len(grid)), np.int32))
    )


def depends_on_data(mapping: BlockMapping) -> bool:
    """Whether the blocks depend on prefetched values."""
    return any(
        isinstance(v.aval, AbstractRef)
        for e in mapping.index_map.jaxpr.eqns
        for v in e.invars
        if not isinstance(v, Literal)
    )


def visits(
    mapping: BlockMapping,
    operand: KernelOperand,
    io: str,
    points: np.ndarray,
    prefetch: Sequence[Any] = (),
) -> Visits:
    """The block of one operand at each point of a grid; `prefetch` are the values of the prefetched operands."""
    closed, n, ids = mapping.index_map, len(points), points.shape[1]
    mask = [isinstance(a, AbstractRef) for a in closed.in_avals]
    if any(mask):
        closed, _ = discharge_jaxpr(closed, mask, ())
    values = prefetch or [np.zeros(a.shape, a.dtype) for a in closed.in_avals[ids:]]
    given = mapping.results(_outputs(closed, points, values)) if n else None
    rank = len(mapping.block_shape)
    start, size = np.zeros((n, rank), np.int64), np.zeros((n, rank), np.int64)
    index: list[np.ndarray] = []
    shifts = np.zeros(rank, np.int64)
    for d, dim in enumerate(mapping.block_shape):
        if given is None:
            break
        got, size[:, d] = given[d], dim.block_size
        if isinstance(dim, BoundedSlice):
            start[:, d], size[:, d] = got
            index += [got[0], got[1]]
        elif isinstance(dim, Indirect):
            low, high = got.min(axis=1), got.max(axis=1)
            start[:, d], size[:, d] = low, high - low + 1
            index += list(got.T)
        else:
            index.append(got)
            start[:, d] = got if isinstance(dim, (Element, Squeezed)) else got * dim.block_size
            shifts[d] = dim.padding[0] if isinstance(dim, Element) else 0
    whole = np.asarray(mapping.padded_shape, np.int64)
    # As in any slice, a negative start counts from the end.
    start = np.where(start < 0, start + whole, start)
    moved = np.clip(start, 0, np.maximum(whole - size, 0))
    squeezed = tuple(d for d, dim in enumerate(mapping.block_shape) if isinstance(dim, Squeezed))
    tiles = not any(isinstance(d, (Element, BoundedSlice, Indirect)) for d in mapping.block_shape)
    return Visits(
        operand,
        io,
        np.stack(index, 1) if index else np.zeros((n, 0), np.int64),
        moved - shifts,
        size,
        start - shifts,
        squeezed,
        covering(mapping.array_aval.shape, mapping.sizes) if tiles else -1,
    )


def whole_visits(operand: KernelOperand, io: str, steps: int) -> Visits:
    """The visits of an operand that every step sees whole."""
    rank = len(operand.shape)
    zeros = np.zeros((steps, rank), np.int64)
    size = np.broadcast_to(np.asarray(operand.shape, np.int64), (steps, rank))
    return Visits(operand, io, zeros, zeros, size, zeros, (), 1)


def _outputs(closed: ClosedJaxpr, points: np.ndarray, values: Sequence[Any]) -> list[np.ndarray]:
    """What an index map gives at every point: it is mapped over them as a whole."""
    n, outs = len(points), closed.jaxpr.outvars
    fixed: dict[int, Any] = {i: v.val for i, v in enumerate(outs) if isinstance(v, Literal)}
    if len(fixed) < len(outs):
        axes = (0,) * points.shape[1] + (None,) * len(values)
        columns = [np.ascontiguousarray(c) for c in points.T]
        got = (
            vmap(lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args), in_axes=axes)(
                *columns, *values
            )
            if columns
            else [np.asarray(x)[None] for x in eval_jaxpr(closed.jaxpr, closed.consts, *values)]
        )
    else:
        got = [None] * len(outs)
    return [
        np.broadcast_to(np.asarray(fixed[i]), (n, *np.shape(fixed[i])))
        if i in fixed
        else np.asarray(x).astype(np.int64)
        for i, x in enumerate(got)
    ]


def index_map_text(mapping: BlockMapping) -> str:
    """`i, j → (i, 2 * j)`: what an index map computes, its arguments named as axes of a grid usually are."""
    jaxpr = mapping.index_map.jaxpr
    words = {v: _LETTERS[k] if k < len(_LETTERS) else f"i{k}" for k, v in enumerate(jaxpr.invars)}
    bound = ", ".join(words.values())

    def word(atom: Any) -> str:
        if isinstance(atom, Literal):
            value = np.asarray(atom.val)
            return str(value.item()) if value.ndim == 0 else str(value.tolist())
        return words.get(atom, "…")

    for eqn in jaxpr.eqns[:_MOST_EQUATIONS]:
        name, parts = eqn.primitive.name, [word(a) for a in eqn.invars]
        if name in ("convert_element_type", "broadcast_in_dim"):
            said = parts[0]
        elif name in _INFIX and len(parts) == 2:
            said = f"({parts[0]} {_INFIX[name]} {parts[1]})"
        elif name == "get":
            said = f"{parts[0]}[{', '.join(parts[1:])}]"
        else:
            said = f"{name}({', '.join(parts)})"
        words.update({v: said if len(said) <= 80 else "…" for v in eqn.outvars})
    outs = [
        w[1:-1] if w.startswith("(") and w.endswith(")") and w.count("(") == 1 else w
        for w in map(word, jaxpr.outvars)
    ]
    return f"{bound or '()'} → ({', '.join(outs)})"


_LETTERS = "ijklmnpqrstuvw"
_MOST_EQUATIONS = 40
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "floor_divide": "//"}


def io_of(jaxpr: Jaxpr, place: int, role: str) -> str:
    """Whether a kernel reads the reference at a place, writes it, or both. An input's block is fetched and an output's written back always."""
    effects = [e for e in jaxpr.effects if isinstance(e, RefEffect) and e.input == place]
    reads = role == "input" or any(isinstance(e, (ReadEffect, AccumEffect)) for e in effects)
    writes = role == "output" or any(isinstance(e, (WriteEffect, AccumEffect)) for e in effects)
    return "both" if reads and writes else "write" if writes else "read"


def block_events(
    found: Sequence[Visits], points: np.ndarray, most: int = MOST_EVENTS
) -> list[BlockVisit]:
    """A record per step and operand, in the order of the steps; whole steps only."""
    if not found or not len(points):
        return []
    steps = min(len(points), max(1, most // len(found)))
    columns = []
    for v in found:
        shape = np.asarray(v.operand.shape, np.int64)
        low = np.maximum(0, -v.start[:steps])
        pad = np.minimum(
            low + np.maximum(0, v.start[:steps] + v.size[:steps] - shape), v.size[:steps]
        )
        clamped = (v.start != v.unclamped).any(axis=1)
        columns.append(
            (
                v,
                v.indices[:steps].tolist(),
                v.start[:steps].tolist(),
                v.size[:steps].tolist(),
                pad.tolist(),
                clamped.tolist(),
                visit_counts(v.numbers()).tolist(),
            )
        )
    grid = [tuple(p) for p in points[:steps].tolist()]
    return [
        BlockVisit(
            step,
            grid[step],
            v.operand.name,
            v.io,
            tuple(index[step]),
            tuple(start[step]),
            tuple(size[step]),
            v.squeezed,
            tuple(pad[step]),
            clamped[step],
            count[step],
        )
        for step in range(steps)
        for v, index, start, size, pad, clamped, count in columns
    ]
