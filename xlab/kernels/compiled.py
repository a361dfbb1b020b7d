"""The compiled path of a kernel: one loop over the steps of its grid, on values.

The loop carries the position in the grid, the padded arrays that the kernel writes, and scratch. A step takes the blocks that
the index maps name, runs the kernel without its references, and puts back the blocks that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.blocks import BlockMapping, BoundedSlice, Element, Indirect, Squeezed
from xlab.kernels.grid import GridMapping
from xlab.kernels.program import num_programs_p, program_id_p
from xlab.lax.arithmetic import add, mul
from xlab.lax.comparison import eq, lt, select
from xlab.lax.control.while_loop import while_loop
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import iota
from xlab.lax.indexers import NDIndexer, Slice
from xlab.lax.ref_transforms import read, write
from xlab.lax.shape import broadcast_in_dim, pad
from xlab.lax.slicing import slice as lax_slice
from xlab.lax.uninitialized import uninitialized


def program_on_values(
    operands: Sequence[Any], jaxpr: ClosedJaxpr, grid: GridMapping, aliases: Sequence[tuple]
) -> list:
    """Runs a kernel over its grid; returns the outputs.

    Args:
        operands: dynamic sizes, prefetched scalars, inputs.
        jaxpr: of the kernel, with references.
        aliases: pairs of a prefetched or input operand and an output.
    """
    prefetch = list(operands[grid.prefetch_operands])
    inputs = list(operands[grid.input_operands])
    given = [*prefetch, *inputs]
    aliased = {o: given[i] for i, o in aliases}
    outputs = [
        _padded(aliased[i], m)
        if i in aliased
        else uninitialized(m.array_aval.update(shape=m.padded_shape))
        for i, m in enumerate(grid.output_mappings)
    ]
    arrays = [*(_padded(x, m) for x, m in zip(inputs, grid.input_mappings)), *outputs]
    scratch = [uninitialized(a.inner_aval) for a in grid.scratch_avals]
    sizes = list(grid.grid)
    dynamic = iter(operands[grid.dynamic_operands])
    sizes = [
        n if isinstance(n, int) else convert_element_type(next(dynamic), np.int32) for n in sizes
    ]

    body, written = discharge_jaxpr(jaxpr, [type(a) is AbstractRef for a in jaxpr.in_avals])
    first, n_prefetch, n_arrays = grid.num_prefetch, grid.num_prefetch, len(arrays)
    moving = sorted({i - first for i in written if first <= i < first + n_arrays})
    kept = [i for i in written if i >= first + n_arrays]  # scratch
    changing_scratch = [i - first - n_arrays for i in kept]
    changing_prefetch = [i for i in written if i < n_prefetch]

    def step(position, values):
        arrays, scratch, prefetch = values
        blocks, places = [], []
        for x, m in zip(arrays, grid.block_mappings):
            place = block_place(m, position, prefetch)
            places.append(place)
            blocks.append(fetch(x, m, place))
        ids = [position[i] for i in grid.seen_axes]
        seen_sizes = [sizes[i] for i in grid.seen_axes]
        finals = eval_on_grid(body, [*prefetch, *blocks, *scratch], ids, seen_sizes)
        finals = dict(zip(written, finals))
        arrays, scratch, prefetch = list(arrays), list(scratch), list(prefetch)
        for k in moving:
            arrays[k] = put_back(arrays[k], grid.block_mappings[k], places[k], finals[first + k])
        for k in changing_scratch:
            scratch[k] = finals[first + n_arrays + k]
        for k in changing_prefetch:
            prefetch[k] = finals[k]
        return arrays, scratch, prefetch

    arrays, scratch, prefetch = _over_grid(
        step, sizes, (arrays, scratch, prefetch), moving, changing_scratch, changing_prefetch
    )
    return [_cropped(x, m) for x, m in zip(arrays[grid.num_inputs :], grid.output_mappings)]


def _over_grid(step, sizes, values, moving, changing_scratch, changing_prefetch):
    """The loop. Only what a step changes is carried."""
    arrays, scratch, prefetch = values
    if any(isinstance(n, int) and n == 0 for n in sizes):
        return values
    if not sizes:
        return step([], values)

    def pack(arrays, scratch, prefetch):
        return (
            [arrays[k] for k in moving],
            [scratch[k] for k in changing_scratch],
            [prefetch[k] for k in changing_prefetch],
        )

    def unpack(packed):
        out = list(arrays), list(scratch), list(prefetch)
        for whole, part, places in zip(out, packed, (moving, changing_scratch, changing_prefetch)):
            for k, x in zip(places, part):
                whole[k] = x
        return out

    total: Any = np.int32(1)
    for n in sizes:
        total = mul(total, np.int32(n)) if isinstance(n, int) else mul(total, n)

    def more(carry):
        return lt(carry[0], total)

    def advance(carry):
        i, position, packed = carry
        new = step(list(position), unpack(packed))
        following, carrying = list(position), None
        for axis in reversed(range(len(sizes))):
            p = following[axis]
            stepped = (
                add(p, np.int32(1))
                if carrying is None
                else add(p, convert_element_type(carrying, np.int32))
            )
            if axis == 0:
                following[axis] = stepped
                break
            n = sizes[axis]
            end = eq(stepped, np.int32(n) if isinstance(n, int) else n)
            following[axis] = select(end, np.int32(0), stepped)
            carrying = end
        return add(i, np.int32(1)), following, pack(*new)

    start = (np.int32(0), [np.int32(0)] * len(sizes), pack(*values))
    _, _, packed = while_loop(more, advance, start)
    return unpack(packed)


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


def block_place(m: BlockMapping, position: Sequence[Any], prefetch: Sequence[Any]) -> list:
    """Where a block is, per dimension: a start, or for `BoundedSlice` a pair, for `Indirect` a vector."""
    index_map = m.index_map
    if any(type(a) is AbstractRef for a in index_map.in_avals):
        index_map, _ = discharge_jaxpr(
            index_map, [type(a) is AbstractRef for a in index_map.in_avals]
        )
    outs = eval_jaxpr(index_map.jaxpr, index_map.consts, *position, *prefetch)
    place = []
    for d, r in zip(m.block_shape, m.results(outs[: _count(m)])):
        if type(d) in (Squeezed, Element, Indirect, BoundedSlice):
            place.append(r)
        elif isinstance(r, (int, np.integer)):
            place.append(int(r) * d.block_size)
        else:
            place.append(mul(r, np.int32(d.block_size)))
    return place


def _count(m):
    return sum(2 if type(d) is BoundedSlice else 1 for d in m.block_shape)


def transforms_of(m: BlockMapping, place: Sequence[Any]) -> list[NDIndexer]:
    """The block as a chain of indexers on the padded array: its windows, then the positions that vectors give."""
    shape, entries = m.padded_shape, []
    for d, p, n in zip(m.block_shape, place, shape):
        if type(d) is Indirect:
            entries.append(Slice(0, n))
        elif type(d) is Squeezed:
            entries.append(_plain(p))
        else:
            entries.append(Slice(_plain(p[0] if type(d) is BoundedSlice else p), d.block_size))
    out = [NDIndexer(entries, shape)]
    kept = [(d, p) for d, p in zip(m.block_shape, place) if type(d) is not Squeezed]
    for k, (d, p) in enumerate(kept):
        if type(d) is Indirect:
            now = out[-1].result_shape()
            out.append(
                NDIndexer(
                    [p if j == k else Slice(0, n) for j, n in enumerate(now)], now, (d.block_size,)
                )
            )
    return out


def _plain(x):
    return int(x) if isinstance(x, (int, np.integer)) else x


def fetch(x: Any, m: BlockMapping, place: Sequence[Any]) -> Any:
    """The block of a padded array at a place."""
    block = read(x, transforms_of(m, place))
    return _bounded(m, place, block, None)


def put_back(x: Any, m: BlockMapping, place: Sequence[Any], block: Any) -> Any:
    """The padded array with the block at a place replaced."""
    transforms = transforms_of(m, place)
    if any(type(d) is BoundedSlice for d in m.block_shape):
        block = _bounded(m, place, block, read(x, transforms))
    return write(x, transforms, block)


def _bounded(m, place, block, other):
    """The block, with `other` (else uninitialized elements) past the ends of slices that are smaller than it."""
    kept = [(d, p) for d, p in zip(m.block_shape, place) if type(d) is not Squeezed]
    aval = aval_of(block)
    for k, (d, p) in enumerate(kept):
        if type(d) is BoundedSlice:
            inside = lt(iota(np.int32, d.block_size), broadcast_in_dim(p[1], (d.block_size,), ()))
            inside = broadcast_in_dim(inside, aval.shape, (k,))
            block = select(inside, block, uninitialized(aval) if other is None else other)
    return block


def _padded(x, m: BlockMapping):
    if not any(lo or hi for lo, hi in m.padding):
        return x
    value = uninitialized(aval_of(x).update(shape=()))
    return pad(x, value, [(lo, hi, 0) for lo, hi in m.padding])


def _cropped(x, m: BlockMapping):
    if not any(lo or hi for lo, hi in m.padding):
        return x
    starts = [lo for lo, _ in m.padding]
    return lax_slice(x, starts, [s + n for s, n in zip(starts, m.array_aval.shape)])
