"""The compiled path of a kernel: one loop over the steps of its grid, on values.

The loop carries the position in the grid, the padded arrays that the kernel writes, and scratch. A step takes the blocks that
the index maps name, runs the kernel without its references, and puts back the blocks that it writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.blocks import BlockMapping, BoundedSlice, Indirect, Squeezed
from xlab.kernels.grid import GridMapping
from xlab.kernels.program import num_programs_p, program_id_p
from xlab.lax.arithmetic import add, div, mul, rem
from xlab.lax.arithmetic import max as lax_max
from xlab.lax.comparison import lt, select
from xlab.lax.control.while_loop import while_loop
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import iota
from xlab.lax.indexers import NDIndexer, Slice
from xlab.lax.ref_transforms import read, write
from xlab.lax.shape import broadcast_in_dim, pad
from xlab.lax.slicing import slice as lax_slice
from xlab.lax.uninitialized import uninitialized


def program_on_values(
    operands: Sequence[Any],
    jaxpr: ClosedJaxpr,
    grid: GridMapping,
    aliases: Sequence[tuple[int, int]],
    alias_mode: str = "copy",
) -> list:
    """Runs a kernel over its grid; returns the outputs.

    Args:
        operands: dynamic sizes, prefetched scalars, inputs.
        jaxpr: of the kernel, with references.
        aliases: pairs of a prefetched or input operand and an output.
        alias_mode: whether such a pair is one buffer ("shared") or the output a copy of the input ("copy").
    """
    prefetch = list(operands[grid.prefetch_operands])
    buffers, buffer_of = _buffers(operands, grid, aliases, alias_mode)
    scratch = [uninitialized(a.inner_aval) for a in grid.scratch_avals]
    dynamic = iter(operands[grid.dynamic_operands])
    sizes = [
        n
        if isinstance(n, int)
        else lax_max(convert_element_type(next(dynamic), np.int32), np.int32(0))
        for n in grid.grid
    ]
    body, written = discharge_jaxpr(jaxpr, [type(a) is AbstractRef for a in jaxpr.in_avals])
    mappings, blocks_from = grid.block_mappings, len(prefetch)
    # What the kernel's references stand for: prefetched arrays, buffers of which they are blocks, scratch.
    cells = [*prefetch, *buffers, *scratch]
    scratch_from = blocks_from + len(buffers)
    cell_of = [
        *range(blocks_from),
        *(blocks_from + b for b in buffer_of),
        *range(scratch_from, len(cells)),
    ]

    def step(position, cells):
        places = [m.start_indices(position, *cells[:blocks_from]) for m in mappings]
        values = [cells[c] for c in cell_of]
        for k, (m, place) in enumerate(zip(mappings, places), blocks_from):
            values[k] = fetch(values[k], m, place)
        ids, seen = ([x[i] for i in grid.seen_axes] for x in (position, sizes))
        cells = list(cells)
        for i, final in zip(written, eval_on_grid(body, values, ids, seen)):
            k, c = i - blocks_from, cell_of[i]
            is_block = 0 <= k < len(mappings)
            cells[c] = put_back(cells[c], mappings[k], places[k], final) if is_block else final
        return cells

    cells = _over_grid(step, sizes, cells, sorted({cell_of[i] for i in written}))
    outputs = [cells[c] for c in cell_of[blocks_from + grid.num_inputs :]]
    return [_cropped(x, m) for x, m in zip(outputs, grid.output_mappings)]


def _buffers(operands, grid: GridMapping, aliases, alias_mode) -> tuple[list, list[int]]:
    """The padded arrays of inputs and outputs, and which of them each block mapping is about."""
    mappings = grid.block_mappings
    ends = [[hi for _, hi in m.padding] for m in mappings]
    first = grid.num_prefetch
    shared = {
        grid.num_inputs + o: i - first for i, o in aliases if alias_mode == "shared" and i >= first
    }
    for o, i in shared.items():
        ends[i] = list(map(max, ends[i], ends[o]))
    given = operands[grid.prefetch_operands.start :]
    buffers = [
        _padded(x, m, end)
        for x, m, end in zip(operands[grid.input_operands], grid.input_mappings, ends)
    ]
    buffer_of = list(range(len(buffers)))
    source = {o: given[i] for i, o in aliases}
    for o, m in enumerate(grid.output_mappings):
        k = grid.num_inputs + o
        if k in shared:
            buffer_of.append(shared[k])
            continue
        buffer_of.append(len(buffers))
        buffers.append(
            _padded(source[o], m, ends[k])
            if o in source
            else uninitialized(m.array_aval.update(shape=m.padded_shape))
        )
    return buffers, buffer_of


def _over_grid(
    step: Callable[[Sequence[Any], Sequence[Any]], list],
    sizes: Sequence[Any],
    cells: list,
    changing: Sequence[int],
) -> list:
    """Repeats `cells = step(position, cells)` in row-major order, the last axis fastest. Only cells that change are carried."""
    zero, one = np.int32(0), np.int32(1)
    static = [n for n in sizes if isinstance(n, int)]
    if 0 in static:
        return cells
    moving = [axis for axis, n in enumerate(sizes) if not (isinstance(n, int) and n == 1)]
    if not moving:
        return step([zero] * len(sizes), cells)
    total: Any = np.int32(math.prod(static))
    for n in sizes:
        if not isinstance(n, int):
            total = mul(n, total)

    def restored(changed):
        out = list(cells)
        for c, x in zip(changing, changed):
            out[c] = x
        return out

    def more(carry):
        return lt(carry[0], total)

    def advance(carry):
        i, changed = carry
        position, rest = [zero] * len(sizes), i
        for axis in reversed(moving):
            if axis == moving[0]:
                position[axis] = rest
                break
            n = np.int32(sizes[axis]) if isinstance(sizes[axis], int) else sizes[axis]
            position[axis], rest = rem(rest, n), div(rest, n)
        new = step(position, restored(changed))
        return add(i, one), [new[c] for c in changing]

    return restored(while_loop(more, advance, (zero, [cells[c] for c in changing]))[1])


def eval_on_grid(
    closed: ClosedJaxpr, args: Sequence[Any], ids: Sequence[Any], sizes: Sequence[Any]
) -> list:
    """Evaluates a kernel's jaxpr on values at a position of the grid."""
    found = {}
    rest = []
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive is program_id_p:
            found[eqn.outvars[0]] = ids[eqn.params["axis"]]
        elif eqn.primitive is num_programs_p:
            found[eqn.outvars[0]] = sizes[eqn.params["axis"]]
        else:
            rest.append(eqn)
    jaxpr = closed.jaxpr
    if not found:
        return eval_jaxpr(jaxpr, closed.consts, *args)
    whole = Jaxpr(
        jaxpr.constvars,
        [*jaxpr.invars, *found],
        jaxpr.outvars,
        rest,
        debug_info=jaxpr.debug_info,
    )
    return eval_jaxpr(whole, closed.consts, *args, *found.values())


# -- blocks of arrays ---------------------------------------------------------------------------------------


def transforms_of(m: BlockMapping, place: Sequence[Any], shape: Sequence[int]) -> list[NDIndexer]:
    """The block as a chain of indexers on the padded array: its windows, then the positions that vectors give."""
    entries: list = []
    for d, p, n in zip(m.block_shape, place, shape):
        if type(d) is Indirect:
            entries.append(Slice(0, n))
        elif type(d) is Squeezed:
            entries.append(_clamped(p, n, 1))
        else:
            start = p[0] if type(d) is BoundedSlice else p
            entries.append(Slice(_clamped(start, n, d.block_size), d.block_size))
    out = [NDIndexer(entries, tuple(shape))]
    for k, (d, p) in enumerate(_kept(m, place)):
        if type(d) is Indirect:
            now = out[-1].result_shape()
            chosen = [p if j == k else Slice(0, n) for j, n in enumerate(now)]
            out.append(NDIndexer(chosen, now, (d.block_size,)))
    return out


def _kept(m, place) -> list[tuple]:
    """The dimensions that the kernel's reference has, and their places."""
    return [(d, p) for d, p in zip(m.block_shape, place) if type(d) is not Squeezed]


def _clamped(start, n: int, size: int):
    """A start that is known, as `dynamic_slice` takes it: a negative one counts from the end, and the slice is moved inside."""
    if not isinstance(start, (int, np.integer)):
        return start
    start = int(start) + (n if start < 0 else 0)
    return max(0, min(start, n - size))


def fetch(x: Any, m: BlockMapping, place: Sequence[Any]) -> Any:
    """The block of a padded array at a place."""
    return _bounded(m, place, read(x, transforms_of(m, place, aval_of(x).shape)), None)


def put_back(x: Any, m: BlockMapping, place: Sequence[Any], block: Any) -> Any:
    """The padded array with the block at a place replaced."""
    transforms = transforms_of(m, place, aval_of(x).shape)
    if any(type(d) is BoundedSlice for d in m.block_shape):
        block = _bounded(m, place, block, read(x, transforms))
    return write(x, transforms, block)


def _bounded(m, place, block, other):
    """The block, with `other` (else uninitialized elements) past the ends of slices that are smaller than it."""
    aval = aval_of(block)
    for k, (d, p) in enumerate(_kept(m, place)):
        if type(d) is BoundedSlice:
            inside = lt(iota(np.int32, d.block_size), broadcast_in_dim(p[1], (d.block_size,), ()))
            inside = broadcast_in_dim(inside, aval.shape, (k,))
            block = select(inside, block, uninitialized(aval) if other is None else other)
    return block


def _padded(x, m: BlockMapping, ends: Sequence[int]):
    """The array with padding, uninitialized, up to the given ends."""
    amounts = [(lo, hi, 0) for (lo, _), hi in zip(m.padding, ends)]
    if not any(lo or hi for lo, hi, _ in amounts):
        return x
    return pad(x, uninitialized(aval_of(x).update(shape=())), amounts)


def _cropped(x, m: BlockMapping):
    shape = m.array_aval.shape
    if aval_of(x).shape == shape:
        return x
    starts = [lo for lo, _ in m.padding]
    return lax_slice(x, starts, [s + n for s, n in zip(starts, shape)])
