"""Slices at positions known at run time, along one dimension."""

from __future__ import annotations

import numpy as np

from xlab.core.avals import aval_of
from xlab.core.dims import dim_index
from xlab.core.typing import Array, ArrayLike
from xlab.lax.shape import (
    broadcast_in_dim,
    canonical_axis,
    squeeze,
)
from xlab.lax.slicing import (
    dynamic_slice,
    dynamic_update_slice,
)

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice_in_dim",
]


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one dimension.

    Args:
        operand: an array.
        start_index: where the slice begins.
        slice_size: its length.
        axis: the axis.
        allow_negative_indices: whether negative indices count from the end.
    """
    shape = aval_of(operand).shape
    axis = canonical_axis(axis, len(shape))
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start_index, dim_index(slice_size)
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """One run-time position along a dimension.

    Args:
        operand: an array.
        index: the position.
        axis: the axis.
        keepdims: whether the dimension stays, with size 1.
        allow_negative_indices: whether negative indices count from the end.
    """
    out = dynamic_slice_in_dim(
        operand,
        _position(index, allow_negative_indices),
        1,
        axis,
        allow_negative_indices=allow_negative_indices,
    )
    return out if keepdims else squeeze(out, (axis,))


def _position(index, allow_negative: bool):
    """An index whose negative values are moved to 0 where they do not count from the end, also if known now."""
    return max(index, 0) if not allow_negative and isinstance(index, (int, np.integer)) else index


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one dimension.

    Args:
        operand: an array.
        update: the array to put there.
        start_index: where it goes; moved inside where it would leave the array.
        axis: the axis.
        allow_negative_indices: whether negative indices count from the end.
    """
    ndim = aval_of(operand).ndim
    starts = [0] * ndim
    starts[canonical_axis(axis, ndim)] = start_index
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replaces one run-time position along a dimension.

    Args:
        operand: an array.
        update: the array to put there.
        index: the position.
        axis: the axis.
        allow_negative_indices: whether negative indices count from the end.
    """
    axis = canonical_axis(axis, aval_of(operand).ndim)
    if aval_of(update).ndim != aval_of(operand).ndim:
        shape = list(aval_of(operand).shape)
        shape[axis] = 1
        update = broadcast_in_dim(update, shape, [i for i in range(len(shape)) if i != axis])
    return dynamic_update_slice_in_dim(
        operand,
        update,
        _position(index, allow_negative_indices),
        axis,
        allow_negative_indices=allow_negative_indices,
    )
