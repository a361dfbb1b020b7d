"""Copies of values: the same value as every example of an axis, each copy on its device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.core.avals import aval_of
from xlab.core.trace import Tracer
from xlab.lax.shape import broadcast_in_dim, expand_dims
from xlab.parallel.assemble import make_array_from_single_device_arrays
from xlab.parallel.put import device_put
from xlab.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["device_put_replicated", "replicate"]


def replicate(
    x: Any,
    axis_size: int,
    nrep: int | None = None,
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    in_axis: int | None = 0,
) -> Any:
    """The same value as every example of a new axis, as `pmap` takes it: each device has a copy of the value.

    The value goes to one device, and from there to the others.

    Args:
        x: array, number, or a pytree of them.
        axis_size: examples along the new axis.
        nrep: copies in all, a multiple of `axis_size`; with more than that each example has several devices, as a map in a map needs
            them. By default one for each example.
        devices: where they are, as many as copies; those of one example beside one another. By default the first ones.
        backend: the platform of the default devices.
        in_axis: where the new axis stands; None for the value itself, whole on every device.

    Returns:
        Arrays of `x`'s shapes with an axis of `axis_size` more, or without it for `in_axis=None`; committed.

    Raises:
        ValueError: there are fewer devices than copies, the numbers do not fit, or `in_axis` is out of range.

    Example:
        >>> import numpy as np, xlab
        >>> y = replicate(np.ones(3, np.float32), 1)
        >>> y.shape, y.addressable_shards[0].data.shape
        ((1, 3), (1, 3))
    """
    nrep = axis_size if nrep is None else nrep
    given = devices is not None
    found = list(devices if devices is not None else _client.local_devices(backend=backend))
    if axis_size < 1 or nrep < 1 or nrep % axis_size:
        raise ValueError(
            f"replicate makes the same number of copies of each of {axis_size} examples, got nrep={nrep}: give a multiple of axis_size"
        )
    if len(found) < nrep or (given and len(found) != nrep):
        raise ValueError(
            f"replicate was asked for {nrep} copies of a value, one for each device, and "
            + (
                f"given {len(found)} devices, with ids {[d.id for d in found]}: give {nrep}"
                if given
                else f"there are {len(found)} devices: ask for fewer, or set config.num_cpu_devices before the first use of a device"
            )
        )
    grid = np.array(found[:nrep], dtype=object).reshape(axis_size, -1)
    mesh = Mesh(grid, ("_device", "_copy"))
    return _tree.map(lambda leaf: _copies(leaf, mesh, axis_size, in_axis), x)


def _copies(x: Any, mesh: Mesh, size: int, axis: int | None) -> Any:
    aval = aval_of(x)
    if axis is not None and not -aval.ndim - 1 <= axis <= aval.ndim:
        raise ValueError(
            f"replicate: in_axis={axis} is out of range for a value of type {aval.str_short(short_dtypes=True)}, which gets one dimension more"
        )
    at = None if axis is None else axis % (aval.ndim + 1)
    spec = PartitionSpec() if at is None else PartitionSpec(*(None,) * at, "_device")
    where = NamedSharding(mesh, spec)
    shape = aval.shape if at is None else (*aval.shape[:at], size, *aval.shape[at:])
    if isinstance(x, Tracer):
        kept = [d for d in range(len(shape)) if d != at]
        return device_put(broadcast_in_dim(x, shape, kept), where)
    first = device_put(x, mesh.devices_in_order[0])
    row = first if at is None else expand_dims(first, (at,))
    parts = device_put([row] * mesh.size, list(mesh.devices_in_order))
    return make_array_from_single_device_arrays(shape, where, parts)


def device_put_replicated(x: Any, devices: Sequence[Any]) -> Any:
    """A copy of `x` on each device, stacked along a new leading dimension.

    Example:
        >>> import xlab
        >>> xlab.device_put_replicated(xlab.lax.iota("float32", 3), xlab.devices()[:1]).shape
        (1, 3)
    """
    return replicate(x, len(devices), devices=devices)
