"""Places values on devices: host data, arrays on other devices, keys.

Native code checks neither types nor shapes, so this is the place where every buffer is made to fit exactly what the
executable was compiled for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from xlab import events
from xlab.backend import arrays as _arrays
from xlab.backend import neighbors
from xlab.backend.arrays import ArrayImpl
from xlab.backend.client import default_device
from xlab.backend.transfer_guards import between_devices
from xlab.compile.exchange import exchanged
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array, set_from_host
from xlab.core.avals import HOST_VALUES, ShapedArray, array_converters, aval_of
from xlab.core.donation import check_alive
from xlab.core.key_array import key_sharding
from xlab.core.refs import Ref
from xlab.core.trace import Tracer
from xlab.errors import InvalidInputException, UnexpectedTracerError
from xlab.sharding import (
    UNCONSTRAINED,
    Format,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    from_native,
    get_mesh,
)


class _Batch(threading.local):
    """The transfers of the call of `device_put` that this thread is in, `(name, bytes, attributes)` each; None outside."""

    rows: list[tuple[str, int, dict[str, Any]]] | None = None


_batch = _Batch()


def transfer(name: str, nbytes: int, reason: str = "") -> AbstractContextManager:
    """The event of one transfer, or its part in that of the batch. Yields its attributes: `reason` says which way the data took."""
    if _batch.rows is None:
        return events.span("transfer", name=name, bytes=nbytes, leaves=1, reason=reason)
    attrs = {"reason": reason}
    _batch.rows.append((name, nbytes, attrs))
    return nullcontext(attrs)


@contextmanager
def one_transfer() -> Iterator[None]:
    """Transfers in this block are one event, which says how many arrays and bytes were moved."""
    if not events.listeners or _batch.rows is not None:
        yield
        return
    rows = _batch.rows = []
    start = events.clock()
    try:
        yield
    finally:
        _batch.rows = None
        if rows:
            kinds = sorted({name for name, _, _ in rows})
            ways = dict.fromkeys(attrs["reason"] for _, _, attrs in rows)
            many = f", {len(rows)} arrays" if len(rows) > 1 else ""
            events.emit(
                "transfer",
                start_ns=start,
                name=" and ".join(kinds) + many,
                bytes=sum(nbytes for _, nbytes, _ in rows),
                leaves=len(rows),
                reason="; ".join(way for way in ways if way),
            )


def default_sharding() -> SingleDeviceSharding:
    """The sharding of values without a placement."""
    return SingleDeviceSharding(default_device())


def as_sharding(x):
    """A sharding from what users may write: a sharding, a format, a spec for the current mesh, or None."""
    if x is None or isinstance(x, Sharding):
        return x
    if isinstance(x, Format):
        return x.sharding
    if isinstance(x, PartitionSpec):
        mesh = get_mesh()
        if mesh is None or mesh.empty:
            raise RuntimeError(
                f"a bare PartitionSpec requires a non-empty mesh in context, got {x}: use NamedSharding(mesh, {x}), or set "
                f"a mesh with xlab.set_mesh(mesh)"
            )
        return NamedSharding(mesh, x)
    raise TypeError(
        neighbors.refusal(x)
        or f"expected a sharding, a PartitionSpec or None, got {x!r} of type {type(x).__name__}"
    )


def arg_sharding(x):
    """The sharding of a committed array; None for uncommitted values."""
    if type(x) is Ref:
        x = x.peek()
    if isinstance(x, KeyArray):
        return key_sharding(arg_sharding(x.base), x.aval.ndim)
    if is_native_array(x) and x._committed:
        return from_native(x._sharding)
    return None


def physical_sharding(sharding, aval):
    """A sharding of keys as a sharding of the array they are made of."""
    if (
        isinstance(sharding, NamedSharding)
        and isinstance(aval, ShapedArray)
        and dtypes.is_extended(aval.dtype)
    ):
        spec = tuple(sharding.spec) + (None,) * (aval.ndim - len(sharding.spec))
        return NamedSharding(
            sharding.mesh,
            PartitionSpec(*spec, *(None,) * len(aval.dtype.base_shape)),
            memory_kind=sharding.memory_kind,
        )
    return sharding


def is_open(sharding) -> bool:
    """Whether the compiler chooses the sharding of some dimension (an unconstrained one)."""
    return isinstance(sharding, NamedSharding) and UNCONSTRAINED in sharding.spec


def settled(sharding):
    """How a value lies whose sharding leaves dimensions open: these are not cut."""
    if not is_open(sharding):
        return sharding
    return sharding.update(
        spec=PartitionSpec(*(None if p is UNCONSTRAINED else p for p in sharding.spec))
    )


def host_array(x, aval: ShapedArray) -> np.ndarray:
    """Host data in the dtype the program uses."""
    value = np.asarray(x)
    if value.dtype == dtypes.float0:  # no data, which a program holds as booleans
        return np.zeros(aval.shape, bool)
    return value if value.dtype == aval.dtype else value.astype(aval.dtype)


def from_host(x):
    """Host data as an array of its type on the default device; other values, and those of float0, as they are."""
    if not isinstance(x, HOST_VALUES) or (aval := aval_of(x)).dtype == dtypes.float0:
        return x
    return on_default_device(host_array(x, aval), aval)


def place(x, aval: ShapedArray, sharding, *, committed: bool | None = True, copy: bool = False):
    """An array with exactly the given type and sharding, holding the value `x`.

    With `committed=None` only the buffers matter: an array that already has the sharding is returned unchanged.
    """
    if type(x) is ArrayImpl and is_native_array(x):
        check_alive(x)
        return _move(x, aval, sharding, committed, copy)
    if isinstance(x, KeyArray):
        raise InvalidInputException("a key array must be unwrapped before it is placed")
    if isinstance(x, Tracer):
        raise UnexpectedTracerError(
            f"a traced value of type {x.aval} was given where concrete data is needed; it was made at {x.origin()}"
        )
    convert = array_converters.get(type(x))
    if convert is not None:
        return place(convert(x), aval, sharding, committed=committed, copy=copy)
    value = host_array(x, aval)
    return put_host(value, aval, sharding, committed is not False)


def put_host(value: np.ndarray, aval: ShapedArray, sharding, committed: bool):
    """Host data to every device of a sharding, each its own slice."""
    if type(sharding) is SingleDeviceSharding:
        return _arrays.put([value], aval, sharding, [sharding.device], committed)
    with transfer("host to devices", int(value.nbytes)) as event:
        indices = sharding.devices_indices_map(value.shape)
        devices = sharding.addressable_in_order
        if events.listeners:
            event["reason"] = (
                f"the whole value to each of {len(devices)} devices"
                if sharding.is_fully_replicated
                else f"a slice to each of {len(devices)} devices"
            )
        parts = [value[indices[d]] for d in devices]
        if _unreduced(sharding):
            # The first device along those axes holds the value, the others zeros.
            parts = [
                part if whole else np.zeros_like(part)
                for part, whole in zip(
                    parts, _first_along(sharding, sharding.spec.unreduced, devices), strict=True
                )
            ]
        return _arrays.put(parts, aval, sharding, devices, committed)


def _unreduced(sharding) -> frozenset:
    return sharding.spec.unreduced if isinstance(sharding, NamedSharding) else frozenset()


def _first_along(sharding, axes, devices) -> list[bool]:
    """Which devices have index 0 along the given mesh axes."""
    at = {d: place for place, d in np.ndenumerate(sharding.mesh.devices)}
    apart = [sharding.mesh.axis_names.index(a) for a in axes]
    return [not any(at[d][i] for i in apart) for d in devices]


def _sum_of_shards(x, sharding) -> np.ndarray:
    """The value of an unreduced array: the sum of its shards along the given mesh axes."""
    spec, devices = sharding.spec, sharding.devices_in_order
    copies = [
        a for a in sharding.mesh.axis_names if a not in spec.axes() and a not in spec.unreduced
    ]
    total = np.zeros(x.shape, x.dtype)
    indices = sharding.devices_indices_map(x.shape)
    for shard, device, counted in zip(
        _arrays.shards(x), devices, _first_along(sharding, copies, devices), strict=True
    ):
        if counted:
            total[indices[device]] += np.asarray(
                shard._host_value() if hasattr(shard, "_host_value") else shard
            )
    return total


def _move(x, aval, sharding, committed, copy):
    native = sharding.native
    mine = x._sharding
    if not copy and (mine is native or from_native(mine) == sharding):
        if committed is None or (x._committed == committed and x.aval is aval):
            return x
        return _arrays.from_shards(aval, sharding, _arrays.shards(x), committed)
    committed = committed is not False
    source = from_native(mine)
    with transfer("device to device", int(aval.nbytes)) as event:
        if not source.is_fully_addressable:
            event["reason"] = "shards of several processes: a compiled program moves them"
            return _move_across(x, aval, sharding, committed, copy)
        if not sharding.is_fully_addressable:
            event["reason"] = "through the host, to the devices of several processes"
            return put_host(np.asarray(x._host_value()), aval, sharding, committed)
        if type(source) is SingleDeviceSharding and type(sharding) is SingleDeviceSharding:
            event["reason"] = "one copy"
            return _arrays.copy_to_devices(
                x, aval, sharding, [sharding.device], committed, copy=copy
            )
        parts = _parts(x, source, sharding, copy)
        if parts is not None:
            parts, kept = parts
            event["reason"] = f"whole shards: {kept} stay, {len(parts) - kept} are copied"
            return _arrays.from_shards(aval, sharding, parts, committed)
        with between_devices(aval, sharding):
            event["reason"] = "through the host, for a sum that is not reduced"
            if _unreduced(source):
                return put_host(_sum_of_shards(x, source), aval, sharding, committed)
            if _unreduced(sharding):
                return put_host(np.asarray(x._host_value()), aval, sharding, committed)
            event["reason"] = "pieces of shards: each device gets those of its new shard"
            return exchanged(x, aval, source, sharding, committed)


def _parts(x, source, target, copy):
    """The shards of `x` on the devices and in the memory of `target`, where each is a shard that `x` has, and how many were there
    already; None otherwise."""
    if _unreduced(source) != _unreduced(target):
        return None
    kind = target.memory_kind
    held: dict[tuple, dict] = {}
    indices = source.devices_indices_map(x.aval.shape)
    for device, shard in zip(source.addressable_in_order, _arrays.shards(x)):
        held.setdefault(_corners(indices[device]), {})[device] = shard
    out, kept = [], 0
    for device, index in target.devices_indices_map(x.aval.shape).items():
        holders = held.get(_corners(index))
        if holders is None:
            return None
        shard = holders.get(device)
        if shard is None or copy or kind != source.memory_kind:
            shard = shard if shard is not None else next(iter(holders.values()))
            where = SingleDeviceSharding(device, kind)
            shard = _arrays.copy_to_devices(shard, shard.aval, where, [device], copy=copy)
        else:
            kept += 1
        out.append(shard)
    return out, kept


def _corners(index) -> tuple:
    return tuple((s.start, s.stop) for s in index)


def on_default_device(value: np.ndarray, aval: ShapedArray):
    """Host data as an uncommitted array."""
    return put_host(value, aval, default_sharding(), False)


set_from_host(on_default_device)


def _nobody(x, *given) -> Any:
    raise ValueError(
        f"a value of type {getattr(x, 'aval', type(x).__name__)} meets devices of processes that this one has not joined, such as those "
        f"of a topology: programs can be compiled for them, and data cannot go there"
    )


_move_across = _compare_across = _nobody


def set_across_processes(
    move: Callable[..., Any], compare: Callable[[Any, Sharding], None]
) -> None:
    """Sets the functions that move arrays spanning processes and that compare a value across processes."""
    global _move_across, _compare_across
    _move_across, _compare_across = move, compare


def check_one_value(x, sharding) -> None:
    """Raises if a value to be placed on several processes is not the same in all of them."""
    if not sharding.is_fully_addressable:
        _compare_across(x, sharding)


def shard_arg(x, native_sharding, layout):
    """Places an argument the native fast path cannot place itself."""
    return place(x, aval_of(x), from_native(native_sharding), committed=None)
