"""Lays an array out anew: every device gets its pieces straight from the shards that hold them.

The devices of one process share the memory of its machine, so that an element is copied once: from the shard that holds it into the new
shard. The whole array is never put together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlab.backend import arrays as _arrays

Corners = tuple[tuple[int, int], ...]


def corners(index: tuple[slice, ...], shape: tuple[int, ...]) -> Corners:
    """The part of an array that slices of step 1 stand for: start and end of each dimension."""
    return tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))


def exchanged(x: Any, aval: Any, source: Any, target: Any, committed: bool) -> Any:
    """The array `x`, which lies as `source` says, under another sharding.

    Both are of devices of this process, and neither is unreduced.
    """
    shape = aval.shape
    held: dict[Corners, Any] = {}
    indices = source.devices_indices_map(shape)
    for device, shard in zip(source.addressable_in_order, _arrays.shards(x)):
        held.setdefault(corners(indices[device], shape), shard)
    pieces = {where: _arrays.to_numpy(shard) for where, shard in held.items()}
    made: dict[Corners, np.ndarray] = {}
    wanted = target.devices_indices_map(shape)
    for index in wanted.values():
        where = corners(index, shape)
        if where not in made:
            made[where] = _assembled(where, pieces, aval.dtype)
    parts = [made[corners(index, shape)] for index in wanted.values()]
    return _arrays.put(parts, aval, target, list(wanted), committed, owned=True)


def _assembled(where: Corners, pieces: dict[Corners, np.ndarray], dtype) -> np.ndarray:
    """One part of the array, of the overlaps with the pieces that there are."""
    out = _arrays.empty_for_device(tuple(end - start for start, end in where), dtype)
    for place, piece in pieces.items():
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(where, place, strict=True)]
        if all(start < end for start, end in common):
            to = tuple(slice(s - w[0], e - w[0]) for (s, e), w in zip(common, where))
            of = tuple(slice(s - p[0], e - p[0]) for (s, e), p in zip(common, place))
            out[to] = piece[of]
    return out
