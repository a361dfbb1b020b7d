"""Arrays made of shards: from one array per device, from a callback, from process-local data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import neighbors
from xlab.compile.placement import physical_sharding
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray
from xlab.core.donation import check_alive
from xlab.core.typing import Array, DTypeLike
from xlab.parallel.put import device_put
from xlab.sharding import Format, Sharding
from xlab.sharding.named import distinct_parts

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def make_array_from_single_device_arrays(
    shape: Sequence[int],
    sharding: Sharding,
    arrays: Sequence[Array],
    *,
    dtype: DTypeLike | None = None,
) -> Array:
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
        raise TypeError(
            neighbors.refusal(sharding)
            or f"make_array_from_single_device_arrays takes a sharding, got {sharding!r} of type {type(sharding).__name__}"
        )
    if isinstance(arrays, np.ndarray) or not isinstance(arrays, (list, tuple)):
        raise TypeError(
            f"make_array_from_single_device_arrays takes a list of single-device arrays, got {type(arrays).__name__}"
        )
    if arrays and all(isinstance(a, KeyArray) for a in arrays):
        words = arrays[0].dtype.base_shape
        whole = ShapedArray(shape, arrays[0].dtype)
        made = make_array_from_single_device_arrays(
            (*shape, *words), physical_sharding(sharding, whole), [a.base for a in arrays]
        )
        return KeyArray(made, arrays[0].dtype)
    for a in arrays:
        if not is_native_array(a):
            raise TypeError(
                f"make_array_from_single_device_arrays: every part must be an array on a device, got {a!r} of type "
                f"{type(a).__name__}; use device_put, or make_array_from_callback for host data"
            )
        check_alive(a)
    wanted = sharding.addressable_in_order
    part_shape = sharding.shard_shape(shape)
    by_device = {}
    for a in arrays:
        where = a.sharding.device_set
        if len(where) != 1:
            raise ValueError(
                f"make_array_from_single_device_arrays: a part of type {a.aval} lies on {len(where)} devices; each part "
                f"must lie on one"
            )
        device = next(iter(where))
        if device in by_device:
            raise ValueError(
                f"make_array_from_single_device_arrays got two parts on device {device.id}; the parts are on devices "
                f"{sorted(next(iter(x.sharding.device_set)).id for x in arrays)}"
            )
        by_device[device] = a
    if set(by_device) != set(wanted):
        raise ValueError(
            f"make_array_from_single_device_arrays needs one part on each of the devices {[d.id for d in wanted]} of "
            f"{sharding}, got {len(arrays)} parts on devices {sorted(d.id for d in by_device)}"
        )
    parts = [by_device[d] for d in wanted]
    for a in parts:
        if a.shape != part_shape:
            raise ValueError(
                f"make_array_from_single_device_arrays: a part has shape {a.shape}, but the parts of an array of shape "
                f"{shape} under {sharding} have shape {part_shape}"
            )
        if a.dtype != parts[0].dtype:
            raise ValueError(
                f"make_array_from_single_device_arrays got parts of different dtypes: {a.dtype} and {parts[0].dtype}"
            )
    weak = all(a.weak_type for a in parts)
    return _arrays.from_shards(
        ShapedArray(shape, parts[0].dtype if parts else dtype, weak), sharding, parts
    )


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable,
    dtype: DTypeLike | None = None,
) -> Array:
    """An array whose parts a function makes: it receives the index of each part and returns its data.

    Args:
        shape: shape of the whole array.
        sharding: how it lies.
        data_callback: called with an index, a tuple of slices, for each part this process holds;
            returns that part.
        dtype: dtype of the array; by default that of the parts.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> whole = np.arange(4)
        >>> print(xlab.make_array_from_callback((4,), where, lambda index: whole[index]))
        [0 1 2 3]
    """
    shape = tuple(shape)
    if isinstance(sharding, Format):
        made = make_array_from_callback(shape, sharding.sharding, data_callback, dtype)
        return made if sharding.layout is None else device_put(made, sharding)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            neighbors.refusal(sharding)
            or f"make_array_from_callback takes a sharding, got {sharding!r} of type {type(sharding).__name__}"
        )
    return _assembled(
        "make_array_from_callback: the callback returned", shape, sharding, data_callback, dtype
    )


def _assembled(who: str, shape, sharding, data_callback, dtype):
    part_shape = sharding.shard_shape(shape)
    indices, owned = distinct_parts(sharding, shape)
    made: list[Any] = []
    for index in indices:
        value = data_callback(index)
        if not isinstance(value, KeyArray):
            value = np.asarray(value)
            asked = dtypes.canonicalize_dtype(dtype or value.dtype)
            value = value if value.dtype == asked else value.astype(asked)
        if value.shape != part_shape:
            raise ValueError(
                f"{who} data of shape {value.shape} for index {index}; parts of an array of shape {shape} under {sharding} have "
                f"shape {part_shape}"
            )
        made.append(value)
    parts = [made[i] for i in owned]
    if not parts and dtype is None:
        raise ValueError(
            f"{who} nothing, since none of the devices of {sharding} belongs to this process: give the dtype"
        )
    if any(isinstance(p, KeyArray) for p in parts):
        return _of_keys(shape, sharding, parts)
    aval = ShapedArray(shape, parts[0].dtype if parts else dtypes.canonicalize_dtype(dtype))
    return _arrays.put(parts, aval, sharding, list(sharding.addressable_in_order))


def _of_keys(shape, sharding, parts):
    """Keys from keys: their words are laid out as they are."""
    of = parts[0].dtype
    if any(getattr(p, "dtype", None) != of for p in parts):
        raise TypeError(
            f"keys of one type make an array of keys, got parts of {sorted({str(p.dtype) for p in parts})}"
        )
    physical = physical_sharding(sharding, ShapedArray(shape, of))
    words = _arrays.put(
        [np.asarray(p.base) for p in parts],
        ShapedArray((*shape, *of.base_shape), of.base_dtype),
        physical,
        list(sharding.addressable_in_order),
    )
    return KeyArray(words, of)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Any = None
) -> Any:
    """An array of which every process gives the part its devices hold; with one process, the whole.

    Args:
        sharding: how the whole lies, or a pytree prefix of them.
        local_data: what this process holds of it, or a pytree of such.
        global_shape: shape of the whole, or a pytree prefix of them; found from the data where every process holds as much.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> print(xlab.make_array_from_process_local_data(where, np.arange(3)))
        [0 1 2]
    """
    leaves, treedef = _tree.flatten(local_data)
    shardings = _broadcast("sharding", sharding, local_data, lambda s: isinstance(s, Sharding))
    shapes = (
        [None] * len(leaves)
        if global_shape is None
        else _broadcast(
            "global_shape", global_shape, local_data, lambda s: s is None or _is_shape(s)
        )
    )
    return _tree.unflatten(
        treedef, [_of_local_data(*each) for each in zip(shardings, leaves, shapes)]
    )


def _is_shape(x) -> bool:
    return isinstance(x, (tuple, list)) and all(
        n is None or isinstance(n, (int, np.integer)) for n in x
    )


def _broadcast(what, given, tree, is_leaf) -> list:
    for leaf in _tree.leaves(given, is_leaf=is_leaf):
        if not is_leaf(leaf):
            raise TypeError(
                f"make_array_from_process_local_data takes a {what.replace('_', ' ')}, or a pytree of them, got {leaf!r} of type "
                f"{type(leaf).__name__}"
            )
    return _tree.flatten_prefix(
        f"make_array_from_process_local_data {what}", given, tree, is_leaf=is_leaf
    )


def _of_local_data(sharding, local_data, global_shape):
    local = local_data if isinstance(local_data, KeyArray) else np.asarray(local_data)
    if global_shape is not None and None in global_shape:
        raise ValueError(
            f"make_array_from_process_local_data: the global_shape {tuple(global_shape)} has a None; give every dimension, or leave out "
            f"global_shape to have it found from the data"
        )
    shape = (
        tuple(global_shape)
        if global_shape is not None
        else local.shape
        if sharding.is_fully_addressable
        else _grown(sharding, local.shape)
    )
    if sharding.is_fully_addressable:
        if shape != local.shape:
            raise ValueError(
                f"make_array_from_process_local_data: this process holds the whole array, so its data must have the global "
                f"shape {shape}, got {local.shape}"
            )
        return device_put(local, sharding)
    index_of = sharding.addressable_devices_indices_map(shape)
    spans = [sorted({s[d].indices(n)[:2] for s in index_of.values()}) for d, n in enumerate(shape)]
    own = tuple(sum(b - a for a, b in each) for each in spans)
    if len(local.shape) != len(shape) or any(
        m not in (n, whole) for m, n, whole in zip(local.shape, own, shape)
    ):
        raise ValueError(
            f"make_array_from_process_local_data: of an array of shape {shape} under {sharding} the devices of this process hold "
            f"parts that make up {own}, so that is the shape of its data (or, where a dimension is the whole one, that); got data of "
            f"shape {local.shape}"
        )

    def part(index):
        return local[
            tuple(
                s if m == whole else _within(s.indices(whole)[:2], each)
                for s, m, whole, each in zip(index, local.shape, shape, spans)
            )
        ]

    return _assembled(
        "make_array_from_process_local_data: this process gave", shape, sharding, part, local.dtype
    )


def _within(span, spans) -> slice:
    """The position of a global span in local data that consists of these spans in sequence."""
    before = sum(b - a for a, b in spans[: spans.index(span)])
    return slice(before, before + span[1] - span[0])


def _grown(sharding, local_shape) -> tuple:
    """The global shape when every dimension that is sharded over processes is sharded evenly."""
    mesh, mine = sharding.mesh, sharding.mesh.local_mesh
    if len(sharding.spec) > len(local_shape):
        raise ValueError(
            f"make_array_from_process_local_data: {sharding} lays out values of rank {len(sharding.spec)} at least, got data of shape "
            f"{local_shape}"
        )
    return tuple(
        n
        * int(
            np.prod(
                [mesh.shape[a] // mine.shape[a] for a in sharding.spec.axes_of(d)], dtype=np.int64
            )
        )
        for d, n in enumerate(local_shape)
    )
