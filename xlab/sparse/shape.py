"""Functions of shape: broadcast, concatenate, reshape, reverse, squeeze, slice, gather, and sums over dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core.avals import aval_of
from xlab.numpy.arithmetic import as_array
from xlab.sparse.base import columns
from xlab.sparse.bcoo import BCOO
from xlab.sparse.dense import over_dense
from xlab.sparse.order import (
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    in_bounds,
    padding,
    sparse_size,
)
from xlab.transforms.vmap import vmap


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding=None
) -> BCOO:
    """The array with new dimensions, and dimensions of size 1 repeated.

    A new dimension before the first sparse one is a batch dimension, one after the first dense one is dense, one in between is sparse.

    Args:
        mat: the array.
        shape: of the result.
        broadcast_dimensions: for each dimension of `mat`, that of the result.
        sharding: has to be None.
    """
    shape, dims = tuple(map(int, shape)), tuple(map(int, broadcast_dimensions))
    if (
        len(dims) != mat.ndim
        or list(dims) != sorted(set(dims))
        or any(n not in (1, shape[d]) for n, d in zip(mat.shape, dims))
    ):
        raise ValueError(
            f"bcoo_broadcast_in_dim: an array of shape {mat.shape} cannot be broadcast to {shape} with broadcast_dimensions={dims}"
        )
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    first = dims[b] if mat.n_sparse else (dims[s] if mat.n_dense else len(shape))
    last = dims[s] if mat.n_dense else len(shape)  # the first dense dimension
    batch, dense = shape[:first], shape[last:]
    data = lax.broadcast_in_dim(
        mat.data,
        (*batch, mat.nse, *dense),
        (*dims[:b], first, *(d - last + first + 1 for d in dims[s:])),
    )
    indices = lax.broadcast_in_dim(
        mat.indices, (*batch, mat.nse, mat.n_sparse), (*dims[:b], first, first + 1)
    )
    old = dict(zip(dims[b:s], columns(indices)))
    grown = [
        d
        for d in range(first, last)
        if shape[d] > 1 and (d not in old or mat.shape[dims.index(d)] == 1)
    ]
    if last - first == mat.n_sparse and not grown:
        return BCOO((data, indices), shape=shape)
    # Each stored element is stored once for every position along the dimensions that grow.
    sizes = [shape[d] for d in grown]
    nse, times = mat.nse, math.prod(sizes)
    cols = []
    for d in range(first, last):
        if d in grown:
            here = lax.broadcasted_iota(
                indices.dtype, (*batch, nse, *sizes), len(batch) + 1 + grown.index(d)
            )
        else:
            here = old.get(d, jnp.zeros((*batch, nse), indices.dtype))
            here = jnp.broadcast_to(
                here.reshape(*batch, nse, *(1,) * len(sizes)), (*batch, nse, *sizes)
            )
        cols.append(here.reshape(*batch, nse * times))
    inside = jnp.repeat(
        in_bounds(mat.indices, mat.shape), times, -1, total_repeat_length=nse * times
    )
    inside = jnp.broadcast_to(inside, (*batch, nse * times))
    out = padding(shape[first:last], indices.dtype)
    indices = jnp.where(inside[..., None], jnp.stack(cols, -1), out)
    return BCOO(
        (jnp.repeat(data, times, len(batch), total_repeat_length=nse * times), indices), shape=shape
    )


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Sparse arrays one after another along a dimension.

    Raises:
        ValueError: for an empty sequence, operands that are not sparse, and layouts with other numbers of batch dimensions.
    """
    operands, dimension = list(operands), int(dimension)
    if not operands or not all(isinstance(m, BCOO) for m in operands):
        raise ValueError(
            f"bcoo_concatenate: expected operands to be a sequence of BCOO arrays. Got {operands}"
        )
    if len({m.n_batch for m in operands}) > 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching batch dimensions.")
    shapes = {(*m.shape[:dimension], None, *m.shape[dimension + 1 :]) for m in operands}
    if len(shapes) > 1 or not 0 <= dimension < operands[0].ndim:
        raise ValueError(
            f"bcoo_concatenate: shapes {[m.shape for m in operands]} do not go together along dimension {dimension}"
        )
    if (
        len({m.n_dense for m in operands}) > 1
        or dimension >= operands[0].ndim - operands[0].n_dense
    ):
        operands = [bcoo_update_layout(m, n_dense=0) for m in operands]
    b = operands[0].n_batch
    shape = list(operands[0].shape)
    shape[dimension] = sum(m.shape[dimension] for m in operands)
    if dimension < b:
        nse = max(m.nse for m in operands)
        operands = [padded(m, nse) for m in operands]
        at = dimension
        indices = [m.indices for m in operands]
    else:
        at, k, before, indices = b, dimension - b, 0, []
        out = padding(shape[b : b + operands[0].n_sparse], operands[0].indices.dtype)
        for m in operands:
            step = np.zeros(m.n_sparse, m.indices.dtype)
            step[k] = before
            inside = in_bounds(m.indices, m.shape)[..., None]
            indices.append(jnp.where(inside, m.indices + step, out))
            before += m.shape[dimension]
    dtype = jnp.result_type(*(m.dtype for m in operands))
    return BCOO(
        (
            jnp.concatenate([m.data.astype(dtype) for m in operands], at),
            jnp.concatenate(indices, at),
        ),
        shape=shape,
    )


def padded(mat: BCOO, nse: int) -> BCOO:
    """The array with padding up to `nse` stored elements."""
    more = nse - mat.nse
    if more <= 0:
        return mat
    b = mat.n_batch
    out = padding(mat.shape[b : mat.ndim - mat.n_dense], mat.indices.dtype)
    filler = jnp.broadcast_to(out, (*mat.shape[:b], more, mat.n_sparse))
    zeros = jnp.zeros((*mat.shape[:b], more, *mat.data.shape[b + 1 :]), mat.dtype)
    return mat.like(
        jnp.concatenate([mat.data, zeros], b), jnp.concatenate([mat.indices, filler], b)
    )


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding=None
) -> BCOO:
    """The array with another shape: batch, sparse and dense dimensions each among themselves.

    Args:
        mat: the array.
        new_sizes: the shape of the result.
        dimensions: an order to bring the dimensions into first.
        sharding: has to be None.

    Raises:
        TypeError: if the sizes differ.
        ValueError: where dimensions of different kinds would become one.
    """
    new = tuple(map(int, new_sizes))
    if math.prod(new) != mat.size:
        raise TypeError(
            f"cannot reshape array of shape {mat.shape} (size {mat.size}) into shape {new} (size {math.prod(new)})"
        )
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    old, b, s = mat.shape, mat.n_batch, mat.ndim - mat.n_dense
    first = _cut(new, math.prod(old[:b])) if b else 0
    if first is None:
        raise ValueError(
            f"bcoo_reshape: new shape cannot mix batch and sparse dimensions; got shape={old} new_shape={new} with n_batch={b}"
        )
    last = _cut(new, math.prod(old[s:]), back=True) if mat.n_dense else len(new)
    if last is None or last < first:
        raise ValueError(
            f"bcoo_reshape: new shape cannot mix sparse and dense dimensions; got shape={old} new_shape={new} with n_dense={mat.n_dense}"
        )
    if math.prod(new[first:last]) != math.prod(old[b:s]):
        raise ValueError(
            f"bcoo_reshape: {old} cannot become {new} with n_batch={b} and n_dense={mat.n_dense}"
        )
    sizes, dtype = new[first:last], mat.indices.dtype
    wide = (
        np.int64 if math.prod(sizes) > np.iinfo(np.int32).max and jnp.int64 is np.int64 else dtype
    )
    flat = jnp.zeros(aval_of(mat.indices).shape[:-1], wide)
    for c, n in zip(columns(mat.indices), old[b:s]):
        flat = flat * n + c
    cols, stride = [], math.prod(sizes)
    for n in sizes:
        stride = stride // n if n else 1
        cols.append((flat // max(stride, 1) % max(n, 1)).astype(dtype))
    indices = jnp.stack(cols, -1) if cols else jnp.zeros((*flat.shape, 0), dtype)
    inside = in_bounds(mat.indices, old)[..., None]
    indices = jnp.where(inside, indices, padding(sizes, dtype))
    return BCOO(
        (
            mat.data.reshape(*new[:first], mat.nse, *new[last:]),
            indices.reshape(*new[:first], mat.nse, len(sizes)),
        ),
        shape=new,
        unique_indices=mat.unique_indices and bool(sizes),
    )


def _cut(shape, size, back=False):
    """How many dimensions of a shape, from the front or to the back, have `size` elements; None if no number does."""
    ends = range(len(shape), -1, -1) if back else range(len(shape) + 1)
    found = [i for i in ends if math.prod(shape[i:] if back else shape[:i]) == size]
    return found[0] if found else None


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with the order along some dimensions reversed."""
    mat, b, s = operand, operand.n_batch, operand.ndim - operand.n_dense
    dims = [int(d) % mat.ndim for d in dimensions]
    batch = [d for d in dims if d < b]
    dense = [d - s + b + 1 for d in dims if d >= s]
    data = lax.rev(mat.data, (*batch, *dense))
    indices = lax.rev(mat.indices, batch)
    sparse = [d for d in dims if b <= d < s]
    if sparse:
        sizes = padding(mat.shape[b:s], indices.dtype)
        turned = np.isin(np.arange(b, s), sparse)
        # Padding stays out of bounds.
        indices = jnp.where(turned & (indices < sizes), sizes - 1 - indices, indices)
    return mat.like(data, indices, indices_sorted=mat.indices_sorted and not sparse)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some dimensions of size 1.

    Raises:
        ValueError: if one of them has another size.
    """
    dims = sorted({int(d) % arr.ndim for d in dimensions})
    if any(arr.shape[d] != 1 for d in dims):
        raise ValueError(
            f"cannot squeeze dimensions {tuple(dims)} of shape {arr.shape}: not all have size 1"
        )
    b, s = arr.n_batch, arr.ndim - arr.n_dense
    batch = tuple(d for d in dims if d < b)
    dense = tuple(d - s + b + 1 for d in dims if d >= s)
    kept = [d - b for d in range(b, s) if d not in dims]
    indices = lax.squeeze(arr.indices, batch)
    inside = in_bounds(arr.indices, arr.shape)
    data = arr.data
    if len(kept) < arr.n_sparse:
        if not kept:  # nothing is left that could be out of bounds
            data = jnp.where(over_dense(inside, data), data, jnp.zeros((), data.dtype))
        indices = indices[..., tuple(kept)] if kept else indices[..., :0]
    return arr.like(
        lax.squeeze(data, (*batch, *dense)),
        indices,
        shape=[n for d, n in enumerate(arr.shape) if d not in dims],
    )


# -- slices ------------------------------------------------------------------------------------------------


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A slice of the array, as `lax.slice`.

    Raises:
        ValueError: for bounds that do not fit the shape.
    """
    starts, limits = tuple(map(int, start_indices)), tuple(map(int, limit_indices))
    steps = (1,) * mat.ndim if strides is None else tuple(map(int, strides))
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(
            f"bcoo_slice: an array of shape {mat.shape} takes {mat.ndim} starts, limits and strides, got {starts}, {limits} and {steps}"
        )
    if not all(0 <= a <= z <= n and k > 0 for a, z, n, k in zip(starts, limits, mat.shape, steps)):
        raise ValueError(
            f"bcoo_slice: bounds {starts}, {limits}, strides {steps} do not fit the shape {mat.shape}"
        )
    sizes = [max(0, -(-(z - a) // k)) for a, z, k in zip(starts, limits, steps)]
    if tuple(sizes) == mat.shape:
        return mat
    b, s = mat.n_batch, mat.ndim - mat.n_dense

    def part(x, keep):
        take = [
            *zip(starts[:b], limits[:b], steps[:b]),
            *[(0, n, 1) for n in x.shape[b : b + keep]],
        ]
        take += zip(starts[s:], limits[s:], steps[s:]) if keep == 1 else ()
        return lax.slice(x, *zip(*take))

    return _window(mat, part(mat.data, 1), part(mat.indices, 2), starts[b:s], sizes, steps[b:s])


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence, slice_sizes: Sequence[int]) -> BCOO:
    """A slice of given sizes at a position that may be traced, as `lax.dynamic_slice`: positions are moved inside.

    Raises:
        ValueError: for sizes that do not fit the shape.
    """
    starts, sizes = [as_array(i) for i in start_indices], tuple(map(int, slice_sizes))
    if (
        len(starts) != mat.ndim
        or len(sizes) != mat.ndim
        or not all(0 <= k <= n for k, n in zip(sizes, mat.shape))
    ):
        raise ValueError(
            f"bcoo_dynamic_slice: slice_sizes={sizes} at {len(starts)} start indices do not fit an array of shape {mat.shape}"
        )
    starts = [
        jnp.clip(jnp.where(i < 0, i + n, i), 0, n - k) for i, k, n in zip(starts, sizes, mat.shape)
    ]
    b, s = mat.n_batch, mat.ndim - mat.n_dense
    zero = jnp.zeros((), np.int32)
    cast = lambda xs: [x.astype(np.int32) for x in xs]
    data = lax.dynamic_slice(
        mat.data, [*cast(starts[:b]), zero, *cast(starts[s:])], (*sizes[:b], mat.nse, *sizes[s:])
    )
    indices = lax.dynamic_slice(
        mat.indices, [*cast(starts[:b]), zero, zero], (*sizes[:b], mat.nse, mat.n_sparse)
    )
    return _window(mat, data, indices, starts[b:s], sizes, (1,) * mat.n_sparse)


def _window(mat, data, indices, starts, sizes, steps):
    """The stored elements inside of a window of the sparse dimensions; others become padding."""
    b, s = mat.n_batch, mat.ndim - mat.n_dense
    inside, cols = in_bounds(indices, (*aval_of(indices).shape[:-2], *mat.shape[b:s])), []
    for c, a, n, k in zip(columns(indices), starts, sizes[b:s], steps):
        c = c - jnp.asarray(a).astype(c.dtype)
        inside = inside & (c >= 0) & (c < n * k) & (c % k == 0)
        cols.append(c // k)
    if cols:
        out = padding(sizes[b:s], indices.dtype)
        indices = jnp.where(inside[..., None], jnp.stack(cols, -1), out)
        data = jnp.where(over_dense(inside, data), data, jnp.zeros((), data.dtype))
    found = BCOO((data, indices), shape=sizes, unique_indices=mat.unique_indices and bool(cols))
    most = sparse_size(found)
    if found.nse > most:
        found = bcoo_sum_duplicates(found, nse=most)
    return found.like(found.data, indices_sorted=False, unique_indices=False)


def bcoo_gather(
    operand: BCOO,
    start_indices,
    dimension_numbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode=None,
    fill_value=None,
) -> BCOO:
    """Slices of a sparse array at many positions, as `lax.gather`: each is a dynamic slice, and there is a batch of them."""
    start_indices = as_array(start_indices)
    numbers, sizes = dimension_numbers, tuple(map(int, slice_sizes))
    if getattr(numbers, "operand_batching_dims", ()):
        raise NotImplementedError("bcoo_gather does not take operand_batching_dims: use vmap")

    def one(row):
        starts = [jnp.zeros((), np.int32)] * operand.ndim
        for k, d in enumerate(numbers.start_index_map):
            starts[d] = row[k]
        return bcoo_squeeze(
            bcoo_dynamic_slice(operand, starts, sizes), dimensions=numbers.collapsed_slice_dims
        )

    for _ in start_indices.shape[:-1]:
        one = vmap(one)
    out = one(start_indices)
    lead = start_indices.ndim - 1
    offset = tuple(numbers.offset_dims)
    order = [d for d in range(out.ndim) if d not in offset]
    places = {d: i for i, d in enumerate((*order, *offset))}
    permutation = tuple(places[d] for d in range(out.ndim))
    if permutation != tuple(range(out.ndim)) and lead:
        out = bcoo_update_layout(out, n_batch=0, n_dense=0)
    return bcoo_transpose(out, permutation=permutation)


# -- sums --------------------------------------------------------------------------------------------------


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sums over some dimensions, as a sparse array of the others."""
    axes = sorted({int(a) % mat.ndim for a in axes})
    b, s = mat.n_batch, mat.ndim - mat.n_dense
    data, indices = mat.data, mat.indices
    dense = tuple(a - s + b + 1 for a in axes if a >= s)
    if dense:
        data = data.sum(dense, dtype=data.dtype)
    kept = [d - b for d in range(b, s) if d not in axes]
    if len(kept) < mat.n_sparse:
        inside = in_bounds(indices, mat.shape)
        data = jnp.where(over_dense(inside, data), data, jnp.zeros((), data.dtype))
        indices = indices[..., tuple(kept)] if kept else indices[..., :0]
    gone = [a for a in axes if a < b]
    if gone:  # the entries of a batch become elements of one
        left = [d for d in range(b) if d not in axes]
        shape = tuple(mat.shape[d] for d in left)
        count = mat.nse * math.prod(mat.shape[d] for d in gone)
        data = lax.transpose(data, (*left, *gone, *range(b, data.ndim))).reshape(
            *shape, count, *data.shape[b + 1 :]
        )
        indices = lax.transpose(indices, (*left, *gone, b, b + 1)).reshape(
            *shape, count, indices.shape[-1]
        )
    shape = [n for d, n in enumerate(mat.shape) if d not in axes]
    return BCOO((data, indices), shape=shape)


__all__ = ["bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dynamic_slice", "bcoo_gather", "bcoo_reduce_sum", "bcoo_reshape",
           "bcoo_rev", "bcoo_slice", "bcoo_squeeze"]  # fmt: skip
