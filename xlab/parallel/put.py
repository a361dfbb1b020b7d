"""Moving data: `device_put` (its primitive is in `lax/device_put.py`), `device_get`, `block_until_ready`.

Eagerly a value is placed at once: on a device, under a sharding, in another memory. In a traced program `device_put` is one equation for
all leaves; a `NamedSharding` destination then constrains the value, and a single device is advice that compiled programs do not follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import neighbors
from xlab.backend.client import Device
from xlab.backend.transfer_guards import explicit_transfer
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of
from xlab.core.trace import EVAL, Tracer, state
from xlab.lax.device_put import ArrayCopySemantics, device_put_p, put_all, sharding_of, source_of
from xlab.sharding import (
    UNCONSTRAINED,
    Format,
    Layout,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_mesh,
)
from xlab.sharding.placement import MemorySpace

__all__ = [
    "copy_to_host_async",
    "ArrayCopySemantics",
    "block_until_ready",
    "device_get",
    "device_put",
    "device_put_p",
    "device_put_sharded",
]


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """Puts arrays on a device or lays them over devices by a sharding.

    Args:
        x: array, NumPy array, number, or a pytree of them.
        device: a device, a sharding, a `PartitionSpec` for the current mesh, a `Format`, a `memory.Space` (where the values are,
            in another memory), or None (the default device, and no move for arrays); or a pytree prefix of `x` of these.
        src: where the values come from, for the transpose; same forms.
        donate: the source may be given up.
        may_alias: True or None to share buffers where nothing has to move, False for a copy in any case.

    Returns:
        The values as arrays, committed to their place where `device` is given.

    Example:
        >>> import numpy as np, xlab
        >>> x = xlab.device_put(np.arange(4.0), xlab.devices()[0])
        >>> x.committed, len(x.devices())
        (True, 1)
    """
    leaves, treedef = _tree.flatten(x)
    if isinstance(device, Device) or device is None or isinstance(device, Sharding):
        devices = [device] * len(leaves)
    else:
        devices = [_destination(d) for d in _prefix("device", device, x)]
    for d in (device,) if isinstance(device, Sharding) else devices:
        if isinstance(d, (NamedSharding, Format)):
            _check_settled(d)
    srcs = (
        [_destination(d) for d in _prefix("src", src, x)]
        if src is not None
        else [None] * len(leaves)
    )
    copies = [
        _semantics(d, a)
        for d, a in zip(
            _flags("donate", donate, x, len(leaves)), _flags("may_alias", may_alias, x, len(leaves))
        )
    ]
    if state.trace is EVAL and not any(isinstance(v, Tracer) for v in leaves):
        with explicit_transfer():
            return _tree.unflatten(treedef, put_all(leaves, devices, copies))
    if all(
        isinstance(v, np.ndarray) and d is None and c is ArrayCopySemantics.REUSE_INPUT
        for v, d, c in zip(leaves, devices, copies)
    ):  # constants of the program, which need no equation
        with explicit_transfer():
            return _tree.unflatten(treedef, put_all(leaves, devices, copies))
    # In a program values have the default layout, where none is asked for.
    devices, srcs = (
        [d.sharding if isinstance(d, Format) and d.layout is None else d for d in given]
        for given in (devices, srcs)
    )
    for v, d in zip(leaves, devices):
        aval = aval_of(v)
        if isinstance(d, (Sharding, Format)) and sharding_of(d) is not None:
            sharding_of(d).shard_shape(aval.shape)
    srcs = [source_of(v) if s is None else s for v, s in zip(leaves, srcs)]
    outs = (
        device_put_p.bind(
            *leaves, devices=tuple(devices), srcs=tuple(srcs), copy_semantics=tuple(copies)
        )
        if leaves
        else []
    )
    return _tree.unflatten(treedef, outs)


def _prefix(what, given, x):
    try:
        return _tree.flatten_prefix(f"device_put {what}", given, x, is_leaf=_is_destination)
    except ValueError as e:
        raise ValueError(
            f"device_put {what} specification must be a tree prefix of the corresponding value: {e}"
        ) from None


def _is_destination(x) -> bool:
    return x is None or isinstance(
        x, (Device, Sharding, PartitionSpec, Format, Layout, MemorySpace)
    )


def _flags(what, given, x, n):
    return (
        [given] * n
        if given is None or isinstance(given, bool)
        else _tree.flatten_prefix(f"device_put {what}", given, x, is_leaf=lambda v: v is None)
    )


def _semantics(donate, may_alias) -> ArrayCopySemantics:
    if donate and may_alias:
        raise ValueError(
            "may_alias and donate cannot be True at the same time: a donated buffer has one owner"
        )
    if donate:
        return ArrayCopySemantics.DONATE_INPUT
    return ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT


def _destination(d):
    """The destination that the user gave, as a device, a sharding, or None."""
    if d is MemorySpace.Any:
        raise ValueError(
            "device_put brings values to memory.Space.Device or memory.Space.Host; Space.Any names no memory in particular"
        )
    if d is None or isinstance(d, (Device, Sharding, MemorySpace)):
        return d
    if isinstance(d, PartitionSpec):
        mesh = get_mesh()
        if mesh.empty:
            raise ValueError(
                f"Please set a mesh via xlab.set_mesh if a PartitionSpec is passed to device_put, or pass "
                f"NamedSharding(mesh, {d})"
            )
        return NamedSharding(mesh, d)
    if isinstance(d, Format):
        if d.layout is not None and not isinstance(d.layout, Layout):
            raise ValueError(
                f"device_put needs a Format whose layout and sharding are both concrete, got {d}"
            )
        return d if d.layout is not None or d.sharding is not None else None
    if words := neighbors.refusal(d):
        raise TypeError(words)
    raise ValueError(
        f"`xlab.device_put` only accepts None, a Sharding, a Device, a Format, a memory Space, a PartitionSpec or a pytree of these values. "
        f"Received invalid value: {d!r} of type {type(d).__name__}"
    )


def _check_settled(d) -> None:
    sharding = d.sharding if isinstance(d, Format) else d
    if isinstance(sharding, NamedSharding) and UNCONSTRAINED in sharding.spec:
        raise ValueError(
            f"device_put needs to know how every dimension is laid out, got UNCONSTRAINED in {sharding.spec}: name the axes of that "
            f"dimension, or None. Inside jit, with_sharding_constraint leaves a dimension to the compiler."
        )


def device_get(x: Any) -> Any:
    """Values as NumPy arrays on the host; all transfers are started before the first is waited for.

    Traced values and random keys, which NumPy cannot hold, stay as they are.

    Example:
        >>> import xlab
        >>> xlab.device_get({"a": xlab.lax.iota("int32", 3)})
        {'a': array([0, 1, 2], dtype=int32)}
    """
    leaves, treedef = _tree.flatten(x)
    for v in leaves:
        if is_native_array(v) and not v.is_deleted():
            _arrays.copy_to_host_async(v)
    return _tree.unflatten(treedef, [_host(v) for v in leaves])


def _host(v):
    return (
        np.asarray(v)
        if hasattr(v, "__array__") and not isinstance(v, (np.generic, Tracer, KeyArray))
        else v
    )


def block_until_ready(x: Any) -> Any:
    """Waits until every array in a pytree is computed; returns the pytree.

    Example:
        >>> import xlab
        >>> y = xlab.block_until_ready(xlab.lax.sin(xlab.lax.iota("float32", 3)))
    """
    leaves = [v.base if type(v) is KeyArray else v for v in _tree.leaves(x)]
    native = [v for v in leaves if type(v) is _arrays.ArrayImpl]
    if native:
        _arrays.block_until_ready(native)
    if len(native) != len(leaves):
        for v in leaves:
            waits = hasattr(v, "block_until_ready") and not isinstance(v, Tracer)
            if waits and type(v) is not _arrays.ArrayImpl:
                v.block_until_ready()
    return x


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Stacks one value per device along a new leading dimension, each on its device.

    Example:
        >>> import numpy as np, xlab
        >>> xlab.device_put_sharded([np.zeros(3)], xlab.devices()[:1]).shape
        (1, 3)
    """
    if len(shards) != len(devices):
        raise ValueError(
            f"device_put_sharded needs one shard per device, got {len(shards)} shards and {len(devices)} devices"
        )
    mesh = _row_of(devices)

    def leaf(*parts):
        avals = {aval_of(p) for p in parts}
        if len(avals) != 1:
            raise ValueError(
                f"device_put_sharded needs shards of one type, got {sorted(map(str, avals))}"
            )
        return device_put(
            np.stack([np.asarray(p) for p in parts]), NamedSharding(mesh, PartitionSpec("_device"))
        )

    return _tree.map(leaf, *shards)


def _row_of(devices):
    return Mesh(np.array(list(devices), dtype=object), ("_device",))


def copy_to_host_async(x: Any) -> Any:
    """Starts copying the arrays of a pytree to the host, so that reading them later need not wait; returns the pytree.

    Example:
        >>> import xlab
        >>> xlab.copy_to_host_async({"a": xlab.numpy.ones(2), "b": 3})["b"]
        3
    """
    for leaf in _tree.leaves(x):
        start = getattr(leaf, "copy_to_host_async", None)
        if start is not None:
            start()
    return x
