"""Reductions over segments of an array: rows with equal numbers are reduced together.

Example:
    >>> import numpy as np
    >>> segment_sum(np.float32([1, 2, 3, 4]), np.int32([0, 0, 1, 2])).tolist()
    [3.0, 3.0, 4.0]
"""

from __future__ import annotations

import numpy as np

from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.trace import is_tracer
from xlab.errors import ConcretizationTypeError
from xlab.numpy.operands import check

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def segment_sum(
    data,
    segment_ids,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode=None,
    out_sharding=None,
):
    """The sum of the rows of each segment.

    Args:
        data: an array whose first dimension lists rows, or a scalar for all of them.
        segment_ids: the segment of each row; rows of segments out of range are dropped. Where it has several dimensions, `data` is
            broadcast against it, and what is left of `data` after its first dimension is a row.
        num_segments: how many segments there are, by default up to the largest; needed where `segment_ids` is traced.
        indices_are_sorted: promises that `segment_ids` is sorted.
        unique_indices: promises that no two rows have one segment.
        bucket_size: rows are reduced in groups of this size first, which keeps sums accurate.
        mode: what happens to numbers out of range, as for indexing.
        out_sharding: the sharding of the result.
    """
    return _segments(
        "segment_sum",
        "add",
        jnp.sum,
        _nothing,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
        out_sharding,
    )


def segment_prod(
    data,
    segment_ids,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode=None,
    out_sharding=None,
):
    """The product of the rows of each segment; arguments as for `segment_sum`."""
    return _segments(
        "segment_prod",
        "multiply",
        jnp.prod,
        _one,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
        out_sharding,
    )


def segment_max(
    data,
    segment_ids,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode=None,
    out_sharding=None,
):
    """The largest of the rows of each segment; arguments as for `segment_sum`."""
    return _segments(
        "segment_max",
        "max",
        jnp.max,
        _lowest,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
        out_sharding,
    )


def segment_min(
    data,
    segment_ids,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode=None,
    out_sharding=None,
):
    """The smallest of the rows of each segment; arguments as for `segment_sum`."""
    return _segments(
        "segment_min",
        "min",
        jnp.min,
        _highest,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
        out_sharding,
    )


def _nothing(dtype):
    return 0


def _one(dtype):
    return 1


def _lowest(dtype):
    if dtype == np.bool_:
        return False
    return -np.inf if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).min


def _highest(dtype):
    if dtype == np.bool_:
        return True
    return np.inf if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).max


def _segments(
    name,
    update,
    reduce,
    neutral,
    data,
    segment_ids,
    num_segments,
    is_sorted,
    unique,
    bucket_size,
    mode,
    out_sharding,
):
    check(name, data, segment_ids)
    data, ids = jnp.asarray(data), jnp.asarray(segment_ids)
    if num_segments is None:
        if is_tracer(ids):
            raise ConcretizationTypeError(
                f"{name} needs num_segments= where segment_ids is traced: the size of the result "
                f"depends on it"
            )
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    num_segments = int(num_segments)
    if num_segments < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {num_segments}")
    try:
        values = jnp.broadcast_to(data, (*ids.shape, *data.shape[1:]))
    except ValueError:
        raise ValueError(
            f"{name}: data of shape {data.shape} does not fit segment_ids of shape {ids.shape}: give one number per row of "
            f"data, or data that broadcast against {(*ids.shape, *data.shape[1:])}"
        ) from None
    rows = ids.shape[0] if ids.ndim and bucket_size is not None else 1
    size = 1 if bucket_size is None else bucket_size
    parts = []
    for start in range(0, max(rows, 1), size):
        window = slice(start, start + size) if bucket_size is not None else ...
        out = jnp.full((num_segments, *data.shape[1:]), neutral(data.dtype), data.dtype)
        parts.append(
            getattr(out.at[ids[window]], update)(
                values[window],
                indices_are_sorted=is_sorted,
                unique_indices=unique,
                mode=mode,
                wrap_negative_indices=False,
            )
        )
    out = parts[0] if len(parts) == 1 else reduce(jnp.stack(parts), axis=0).astype(data.dtype)
    if out_sharding is not None:
        from xlab.lax.reshard import reshard

        out = reshard(out, out_sharding)
    return out
