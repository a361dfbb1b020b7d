"""Arrays made of parts: from one array per device, from a function of an index, from what each process has."""

from __future__ import annotations

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.core import dtypes
from xlab.core.array import is_native_array
from xlab.core.avals import ShapedArray
from xlab.core.donation import check_alive
from xlab.parallel.put import device_put
from xlab.sharding import Sharding

__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays"]


def make_array_from_single_device_arrays(shape, sharding, arrays, *, dtype=None):
    """One array from its parts, each already on its device; nothing is copied.

    Args:
        shape: shape of the whole.
        sharding: how the parts lie.
        arrays: one single-device array per addressable device of the sharding, in any order.
        dtype: needed only when this process has no parts.

    Example:
        >>> import xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> part = xlab.device_put(xlab.lax.iota("float32", 4), xlab.devices()[0])
        >>> xlab.make_array_from_single_device_arrays((4,), where, [part]).shape
        (4,)
    """
    shape = tuple(shape)
    if not isinstance(sharding, Sharding):
        raise TypeError(f"make_array_from_single_device_arrays takes a sharding, got {sharding!r} of type {type(sharding).__name__}")
    if isinstance(arrays, np.ndarray) or not isinstance(arrays, (list, tuple)):
        raise TypeError(f"make_array_from_single_device_arrays takes a list of single-device arrays, got {type(arrays).__name__}")
    for a in arrays:
        if not is_native_array(a):
            raise TypeError(f"make_array_from_single_device_arrays: every part must be an array on a device, got {a!r} of type "
                            f"{type(a).__name__}; use device_put, or make_array_from_callback for host data")
        check_alive(a)
    wanted = sharding.addressable_in_order
    part_shape = sharding.shard_shape(shape)
    by_device = {}
    for a in arrays:
        where = a.sharding.device_set
        if len(where) != 1:
            raise ValueError(f"make_array_from_single_device_arrays: a part of type {a.aval} lies on {len(where)} devices; each part "
                             f"must lie on one")
        device = next(iter(where))
        if device in by_device:
            raise ValueError(f"make_array_from_single_device_arrays got two parts on device {device.id}; the parts are on devices "
                             f"{sorted(next(iter(x.sharding.device_set)).id for x in arrays)}")
        by_device[device] = a
    if set(by_device) != set(wanted):
        raise ValueError(f"make_array_from_single_device_arrays needs one part on each of the devices {[d.id for d in wanted]} of "
                         f"{sharding}, got {len(arrays)} parts on devices {sorted(d.id for d in by_device)}")
    parts = [by_device[d] for d in wanted]
    for a in parts:
        if a.shape != part_shape:
            raise ValueError(f"make_array_from_single_device_arrays: a part has shape {a.shape}, but the parts of an array of shape "
                             f"{shape} under {sharding} have shape {part_shape}")
        if a.dtype != parts[0].dtype:
            raise ValueError(f"make_array_from_single_device_arrays got parts of different dtypes: {a.dtype} and {parts[0].dtype}")
    weak = all(a.weak_type for a in parts)
    return _arrays.from_shards(ShapedArray(shape, parts[0].dtype if parts else dtype, weak), sharding, parts)


def make_array_from_callback(shape, sharding, data_callback, dtype=None):
    """An array whose parts a function makes: it receives the index of each part and returns its data.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> whole = np.arange(4)
        >>> print(xlab.make_array_from_callback((4,), where, lambda index: whole[index]))
        [0 1 2 3]
    """
    shape = tuple(shape)
    if not isinstance(sharding, Sharding):
        raise TypeError(f"make_array_from_callback takes a sharding, got {sharding!r} of type {type(sharding).__name__}")
    part_shape = sharding.shard_shape(shape)
    made: dict[tuple, np.ndarray] = {}
    parts = []
    index_of = sharding.devices_indices_map(shape)
    for device in sharding.addressable_in_order:
        index = index_of[device]
        key = tuple((s.start, s.stop) for s in index)
        if key not in made:
            value = np.asarray(data_callback(index))
            if value.shape != part_shape:
                raise ValueError(f"make_array_from_callback: the callback returned data of shape {value.shape} for index {index}; "
                                 f"parts of an array of shape {shape} under {sharding} have shape {part_shape}")
            made[key] = value.astype(dtypes.canonicalize_dtype(dtype or value.dtype), copy=False)
        parts.append(made[key])
    aval = ShapedArray(shape, parts[0].dtype)
    return _arrays.put(parts, aval, sharding, list(sharding.addressable_in_order))


def make_array_from_process_local_data(sharding, local_data, global_shape=None):
    """An array of which every process gives the part its devices hold; with one process, the whole.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> print(xlab.make_array_from_process_local_data(where, np.arange(3)))
        [0 1 2]
    """
    if not isinstance(sharding, Sharding):
        raise TypeError(f"make_array_from_process_local_data takes a sharding first, got {sharding!r} of type "
                        f"{type(sharding).__name__}")
    local = np.asarray(local_data)
    if sharding.is_fully_addressable:
        if global_shape is not None and tuple(global_shape) != local.shape:
            raise ValueError(f"make_array_from_process_local_data: this process holds the whole array, so its data must have the global "
                             f"shape {tuple(global_shape)}, got {local.shape}")
        return device_put(local, sharding)
    shape = tuple(global_shape) if global_shape is not None else _grown(sharding, local.shape)
    index_of = sharding.addressable_devices_indices_map(shape)
    starts = [min((i[d].start or 0) for i in index_of.values()) for d in range(len(shape))]

    def part(index):
        if local.shape == shape:
            return local[index]
        return local[tuple(slice((s.start or 0) - o, (s.stop if s.stop is not None else n) - o)
                           for s, o, n in zip(index, starts, shape))]
    return make_array_from_callback(shape, sharding, part, local.dtype)


def _grown(sharding, local_shape) -> tuple:
    """The global shape when every dimension that is cut over processes is cut evenly."""
    mesh, mine = sharding.mesh, sharding.mesh.local_mesh
    return tuple(n * int(np.prod([mesh.shape[a] // mine.shape[a] for a in sharding.spec.axes_of(d)], dtype=np.int64))
                 for d, n in enumerate(local_shape))
