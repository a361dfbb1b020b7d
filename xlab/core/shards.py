"""One device's part of an array, and which devices hold the same."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.sharding import from_native


class Shard:
    """The part of an array that one device holds.

    Args:
        device: the device.
        sharding: how the whole array is sharded over devices; where this part begins and ends follows from it.
        global_shape: shape of the whole array.
        data: the part's values on that device; None on the devices of other processes.

    Example:
        >>> import xlab
        >>> xlab.numpy.ones(3).addressable_shards[0]
        Shard(device=CpuDevice(id=0), index=(slice(None, None, None),), replica_id=0, data=[1. 1. 1.])
    """

    __slots__ = ("_data", "_global_shape", "_sharding", "_unread", "device")

    def __init__(self, device, sharding, global_shape, data=None):
        self.device, self._sharding, self._global_shape = device, sharding, tuple(global_shape)
        self._data, self._unread = data, None

    @property
    def data(self):
        """The part's values on that device; None on the devices of other processes."""
        unread = self._unread  # once: another thread may be reading it too
        if unread is not None:
            array, position = unread
            self._data = _arrays.shards(array)[position]
            self._unread = None
        return self._data

    @property
    def index(self) -> tuple[slice, ...]:
        """Which part of the whole array this is, as slices."""
        return self._sharding.devices_indices_map(self._global_shape)[self.device]

    @property
    def replica_id(self) -> int:
        """How many devices before this one, in the order of the sharding, hold the same part."""
        return _replica_ids(self._sharding, self._global_shape)[self.device]

    def __repr__(self):
        data = "" if self.data is None else f", data={self.data}"
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}{data})"
        )


def _span(index: tuple[slice, ...]) -> tuple:
    """A hashable form of an index."""
    return tuple((s.start, s.stop) for s in index)


@lru_cache(256)
def covered(sharding: Any, shape: tuple[int, ...]) -> bool:
    """Whether the devices of this process hold every part of an array of this shape."""
    index_of = sharding.devices_indices_map(shape)
    return {_span(index_of[d]) for d in sharding.addressable_in_order} == {
        _span(i) for i in index_of.values()
    }


def readable(self: Any) -> bool:
    sharding = from_native(self._sharding)
    return sharding.is_fully_addressable or covered(sharding, self.aval.shape)


@lru_cache(256)
def _replica_ids(sharding: Any, shape: tuple[int, ...]) -> dict[Any, int]:
    seen: Counter = Counter()
    out = {}
    for device, index in sharding.devices_indices_map(shape).items():
        key = _span(index)
        out[device] = seen[key]
        seen[key] += 1
    return out
