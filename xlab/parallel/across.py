"""Arrays sharded over several processes: moving them, and comparing host values across processes.

Loaded by `xlab.distributed`: where there is one process, nothing here is needed.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.backend.client import devices, local_devices, process_count
from xlab.compile.jit import jit
from xlab.compile.placement import put_host, set_across_processes
from xlab.config import config
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray
from xlab.lax.collectives import ppermute
from xlab.parallel.shard_map import shard_map
from xlab.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    from_native,
)


def move(x: Any, aval: ShapedArray, target: Any, committed: bool, copy: bool) -> Any:
    """Reshards an array whose old or new devices are not all in this process.

    Over the same devices a compiled program moves the shards, so all processes have to call this. For other devices each process
    makes its shards from the data that it holds itself.

    Raises:
        ValueError: parts are wanted in a process that does not hold them.
    """
    source = from_native(x._sharding)
    if source.device_set != target.device_set:
        return _from_own_parts(x, aval, source, target, committed)
    kind, x = target.memory_kind, _over_auto_axes(x, source)
    if not _same_parts(source, target, aval.shape):
        x = _moved(x, target.with_memory_kind(source.memory_kind), aval)
    by_device = dict(
        zip(from_native(x._sharding).addressable_in_order, _arrays.shards(x), strict=True)
    )
    parts = [by_device[d] for d in target.addressable_in_order]
    if kind != source.memory_kind or copy:
        parts = [
            _arrays.copy_to_devices(p, p.aval, SingleDeviceSharding(d, kind), [d], copy=copy)
            for p, d in zip(parts, target.addressable_in_order, strict=True)
        ]
    return _arrays.from_shards(aval, target, parts, committed)


def _same_parts(source, target, shape) -> bool:
    return source.devices_indices_map(shape) == target.devices_indices_map(shape)


def _over_auto_axes(x, source):
    """The array with Explicit mesh axes turned into Auto ones."""
    if not isinstance(source, NamedSharding):
        return x
    return _arrays.from_shards(
        x.aval.update(sharding=None), _auto(source, source.devices_in_order), _arrays.shards(x)
    )


def _auto(sharding: NamedSharding, order) -> NamedSharding:
    mesh = sharding.mesh
    mesh = Mesh(
        np.array(order, dtype=object).reshape(mesh.axis_sizes),
        mesh.axis_names,
        axis_types=(AxisType.Auto,) * len(mesh.axis_names),
    )
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)


def _moved(x, target, aval):
    if not isinstance(target, NamedSharding):
        raise ValueError(
            f"an array of type {aval.str_short(short_dtypes=True)} that spans processes moves to a NamedSharding, got {target}"
        )
    return _program(from_native(x._sharding).devices_in_order, target)(x)


@functools.lru_cache(256)
def _program(order: tuple, target: NamedSharding):
    """The jitted function that reshards an array with devices in `order` to `target`."""
    if order == target.devices_in_order:
        return jit(lambda v: v, name="move", out_shardings=_auto(target, order))
    # Blocks are made where a mesh in the array's order has them, and then change devices.
    there = _auto(target, order)
    names = there.mesh.axis_names
    at = {d: i for i, d in enumerate(order)}
    pairs = [(i, at[d]) for i, d in enumerate(target.devices_in_order)]
    change = shard_map(
        lambda block: ppermute(block, names, pairs),
        mesh=there.mesh,
        in_specs=there.spec,
        out_specs=there.spec,
        check_vma=False,
    )
    return jit(change, name="move", in_shardings=None, out_shardings=there)


caches.register(_program.cache_clear)


def _from_own_parts(x, aval, source, target, committed):
    """Shards made from each process's own data; all processes decide alike whether that is possible."""
    have, want = source.devices_indices_map(aval.shape), target.devices_indices_map(aval.shape)
    everything = {_key(i) for i in have.values()}
    for process in {d.process_index for d in want}:
        held = {_key(i) for d, i in have.items() if d.process_index == process}
        if held != everything:
            raise ValueError(
                f"an array of type {aval.str_short(short_dtypes=True)} on the devices {_ids(have)} cannot go to the devices {_ids(want)}: process {process} holds "
                f"{len(held)} of its {len(everything)} different parts, and parts go from process to process only between shardings over "
                f"the same devices. Bring the whole to every process first, with xlab.device_put(x, NamedSharding(mesh, P())) over the mesh it "
                f"has, or read xlab.experimental.multihost_utils.process_allgather(x, tiled=True). No transfer server of the platform "
                f"{next(iter(have)).platform} would carry them: the options cross_host_transfer_socket_address "
                f"({config.cross_host_transfer_socket_address!r}) and cross_host_transport_addresses "
                f"({config.cross_host_transport_addresses!r}) have no effect."
            )
    if not target.has_addressable_devices:
        return _arrays.from_shards(aval, target, [], committed)
    return put_host(np.asarray(x._host_value()), aval, target, committed)


def _key(index) -> tuple:
    return tuple((s.start, s.stop) for s in index)


def _ids(found) -> str:
    ids = [d.id for d in found]
    return str(ids) if len(ids) <= 16 else f"[{ids[0]}, ..., {ids[-1]}] ({len(ids)} devices)"


def compare(x: Any, target: Any) -> None:
    """Checks that a value is the same in all processes before it is placed on their devices.

    Raises:
        AssertionError: processes have different values.
        ValueError: the value is committed to devices of this process.
    """
    value: Any = x.base if isinstance(x, KeyArray) else x
    if is_native_array(value):
        if not value.is_fully_addressable:
            return
        if value.committed:
            raise ValueError(
                f"device_put: an array of type {x.aval.str_short(short_dtypes=True)} that is committed to the devices {_ids(value.sharding.devices_in_order)} of one "
                f"process cannot go to {target}, whose devices belong to several. Give the value itself (np.asarray(x)) where "
                f"all processes have the same, or what each has as its part, with xlab.make_array_from_process_local_data."
            )
    if {d.process_index for d in target.device_set} != set(range(process_count())):
        return
    host = np.asarray(value)
    digest = hashlib.sha256(
        f"{host.dtype} {host.shape} ".encode() + np.ascontiguousarray(host).tobytes()
    ).digest()
    digests = rows(np.frombuffer(digest, np.uint8))
    other = np.flatnonzero((digests != digests[0]).any(axis=1)).tolist()
    if other:
        raise AssertionError(
            f"device_put: the {type(x).__name__} to be laid out as {target} is not the same in every process: that of process"
            f"{'es' * (len(other) > 1)} {', '.join(map(str, other))} differs from that of process 0. Each process takes the parts of its devices "
            f"from its own copy. Pass one value everywhere (xlab.experimental.multihost_utils.broadcast_one_to_all), or the parts that each "
            f"process has with xlab.make_array_from_process_local_data."
        )


def rows(x: np.ndarray) -> np.ndarray:
    """The arrays of all processes, one a row; all processes call it, with one shape and dtype."""
    n = process_count()
    if n == 1:
        return x[None]
    by_process = sorted(devices(), key=lambda d: (d.process_index, d.id))
    mesh = Mesh(
        np.array(by_process, dtype=object).reshape(n, -1),
        ("process", "device"),
        axis_types=(AxisType.Auto,) * 2,
    )
    aval = ShapedArray(x.shape, x.dtype)
    parts = [
        put_host(x[None], aval.update(shape=(1, *x.shape)), SingleDeviceSharding(d), True)
        for d in local_devices()
    ]
    whole = _arrays.from_shards(
        aval.update(shape=(n, *x.shape)), NamedSharding(mesh, PartitionSpec("process")), parts
    )
    return everywhere(whole)


def everywhere(x: Any) -> np.ndarray:
    """The whole array in every process, as NumPy."""
    sharding = NamedSharding(_named(x).mesh, PartitionSpec(), memory_kind=x.sharding.memory_kind)
    return np.asarray(move(x, x.aval, sharding, True, False))


def _named(x) -> NamedSharding:
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        return sharding
    return NamedSharding(
        Mesh(
            np.array(sharding.devices_in_order, dtype=object),
            ("device",),
            axis_types=(AxisType.Auto,),
        ),
        PartitionSpec(),
    )


set_across_processes(move, compare)
