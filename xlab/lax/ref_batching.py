"""Batching rules of the operations on mutable references.

A reference made inside the mapped function holds one array per example, batch dimension first. An access inserts the whole
batch dimension into the index; where positions differ from example to example they become integer arrays, one position per
example.
"""

from __future__ import annotations

import numpy as np

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.interpreters import batching
from xlab.lax.arithmetic import add, mul
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import iota
from xlab.lax.indexers import NDIndexer, Slice
from xlab.lax.ref_transforms import Rearranged, RefTransposer
from xlab.lax.refs import addupdate_p, empty_ref_p, free_ref_p, freeze_p, get_p, new_ref_p, swap_p
from xlab.lax.shape import broadcast_in_dim, reshape, transpose


def _new_ref_batch(axis, operands, dims, **params):
    return new_ref_p.bind(
        batching.move_batch_dim_to(operands[0], dims[0], axis.size, 0), **params
    ), 0


def _empty_ref_batch(axis, operands, dims, *, ty, memory_space):
    return empty_ref_p.bind(
        ty=ty.update(shape=(axis.size, *ty.shape)), memory_space=memory_space
    ), 0


batching.axis_primitive_batchers[new_ref_p] = _new_ref_batch
batching.axis_primitive_batchers[empty_ref_p] = _empty_ref_batch
batching.primitive_batchers[freeze_p] = lambda xs, ds: (freeze_p.bind(xs[0]), ds[0])
batching.primitive_batchers[free_ref_p] = lambda xs, ds: (free_ref_p.bind(xs[0]), [])


def _column(i, dim, size, ndim, tail):
    """An integer index as an array over (examples, the index's own dimensions, `tail` more)."""
    aval = aval_of(i)
    own = aval.ndim - (dim is not None)
    if dim is None:
        return reshape(i, (*aval.shape, *(1,) * tail)) if aval.ndim and tail else i
    i = batching.moveaxis(i, dim, 0)
    return reshape(i, (size, *(1,) * (ndim - own), *aval_of(i).shape[1:], *(1,) * tail))


def _batched(index: NDIndexer, dims, order, size):
    """The index into an array whose dimensions are `order`, and what the dimensions of its result are.

    Both say, per dimension, which one of the example it is, or 'batch'.
    """
    entries: list = list(index.indices)
    shape = [size if o == "batch" else index.shape[o] for o in order]
    if all(d is None for d in dims):
        own, labels = (
            index.int_indexer_shape,
            [("int", k) for k in range(len(index.int_indexer_shape))],
        )
        batch: object = Slice(0, size)
    else:
        ndim = len(index.int_indexer_shape)
        moving = [
            d
            for d, (e, b) in enumerate(zip(entries, dims))
            if isinstance(e, Slice) and b is not None
        ]
        own = [size, *index.int_indexer_shape, *(entries[d].size for d in moving)]
        labels = ["batch", *(("int", k) for k in range(ndim)), *(("slice", d) for d in moving)]
        for d, (e, b) in enumerate(zip(index.indices, dims)):
            if d in moving:
                entries[d] = _positions(e, b, size, 1 + ndim + moving.index(d), len(own))
            elif not isinstance(e, Slice):
                entries[d] = _column(e, b, size, ndim, len(moving))
        batch = reshape(iota(np.int32, size), (size, *(1,) * (len(own) - 1)))
    new = NDIndexer([batch if o == "batch" else entries[o] for o in order], shape, own)
    result = [
        labels[i] if k == "int" else "batch" if order[i] == "batch" else ("slice", order[i])
        for k, i in new.layout()
    ]
    wanted = index.layout()
    return new, ["batch" if label == "batch" else wanted.index(label) for label in result]


def _positions(e: Slice, dim, size, k, n):
    """A slice whose start differs among examples, as positions over (examples, its own steps in dimension `k` of `n`)."""
    steps = mul(iota(np.int32, e.size), np.int32(e.stride))
    start = broadcast_in_dim(
        convert_element_type(batching.moveaxis(e.start, dim, 0), np.int32), (size, e.size), (0,)
    )
    both = add(start, broadcast_in_dim(steps, (size, e.size), (1,)))
    return reshape(both, [size if j == 0 else e.size if j == k else 1 for j in range(n)])


def batched_index(operands, dims, first, tree, size):
    """Leaves and structure of the batched index, where the batch dimension of its result is, and the order that brings the other
    dimensions back into the example's (None where they stand so)."""
    order: list = list(range(aval_of(operands[0]).ndim - (dims[0] is not None)))
    if dims[0] is not None:
        order.insert(dims[0], "batch")
    marked, transforms = iter(dims[first:]), []
    for index in _tree.unflatten(tree, operands[first:]):
        if isinstance(index, Rearranged):
            if "batch" in order:
                numbers = range(len(order) - 1)
                if order != ["batch", *numbers]:
                    shape = (
                        transforms[-1].result_shape() if transforms else aval_of(operands[0]).shape
                    )
                    front = [order.index("batch"), *(order.index(k) for k in numbers)]
                    transforms.append(RefTransposer(tuple(shape), tuple(front)))
                index = index.batched(size)
                order = ["batch", *range(len(index.result_shape()) - 1)]
            else:
                order = list(range(len(index.result_shape())))
            transforms.append(index)
            continue
        entry_dims = [
            (next(marked) if not i.is_static else None) if isinstance(i, Slice) else next(marked)
            for i in index.indices
        ]
        if "batch" in order or any(d is not None for d in entry_dims):
            index, order = _batched(index, entry_dims, order, size)
        else:
            order = list(range(len(index.layout())))
        transforms.append(index)
    leaves, new_tree = _tree.flatten(tuple(transforms))
    at, numbers = order.index("batch"), [o for o in order if o != "batch"]
    plain = numbers == sorted(numbers)
    return (
        leaves,
        new_tree,
        at,
        None if plain else [at, *(order.index(i) for i in range(len(numbers)))],
    )


def _size(operands, dims):
    return next(aval_of(x).shape[d] for x, d in zip(operands, dims) if d is not None)


def _get_batch(operands, dims, *, tree):
    leaves, new_tree, at, order = batched_index(operands, dims, 1, tree, _size(operands, dims))
    out = get_p.bind(operands[0], *leaves, tree=new_tree)
    return (out, at) if order is None else (transpose(out, order), 0)


def unbatched(what: str, ref) -> ValueError:
    """The error for examples that would all write to one place."""
    return ValueError(
        f"performing {what} operation with vmapped value on an unbatched array reference of type {aval_of(ref)}: every "
        f"example would write to the same place. Move the array reference to be an argument to the vmapped function, or "
        f"make it inside."
    )


def batched_store(what, operands, dims, tree):
    """The value in the order of the batched index's dimensions, with that index."""
    size = _size(operands, dims)
    if dims[0] is None:
        raise unbatched(what, operands[0])
    leaves, new_tree, at, order = batched_index(operands, dims, 2, tree, size)
    value = batching.move_batch_dim_to(operands[1], dims[1], size, at if order is None else 0)
    if order is not None:
        value = transpose(value, [order.index(i) for i in range(len(order))])
    return value, leaves, new_tree, at, order


def _swap_batch(operands, dims, *, tree):
    value, leaves, new_tree, at, order = batched_store("a set/swap", operands, dims, tree)
    out = swap_p.bind(operands[0], value, *leaves, tree=new_tree)
    return (out, at) if order is None else (transpose(out, order), 0)


def _addupdate_batch(operands, dims, *, tree):
    value, leaves, new_tree, _, _ = batched_store("an addupdate", operands, dims, tree)
    addupdate_p.bind(operands[0], value, *leaves, tree=new_tree)
    return [], []


batching.primitive_batchers[get_p] = _get_batch
batching.primitive_batchers[swap_p] = _swap_batch
batching.primitive_batchers[addupdate_p] = _addupdate_batch
