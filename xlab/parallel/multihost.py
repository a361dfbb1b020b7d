"""Communication between processes: gather, broadcast, compare, barriers, global arrays.

In one process there is nothing to communicate, and these functions return at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import processes as _processes
from xlab.backend.client import process_count, process_index
from xlab.core.array import is_native_array
from xlab.core.trace import is_tracer
from xlab.parallel.across import everywhere, rows
from xlab.parallel.assemble import (
    make_array_from_process_local_data,
)
from xlab.parallel.put import device_put
from xlab.sharding import Mesh, NamedSharding, PartitionSpec


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes, as NumPy arrays in each: stacked along a new leading dimension, or joined along the first.

    An array that is laid over the processes comes as a whole; `tiled=True` says that this is meant.

    Raises:
        ValueError: an array spans processes and `tiled` is not set, or the processes have values of different types.

    Example:
        >>> from xlab.experimental import multihost_utils
        >>> multihost_utils.process_allgather([1.0, 2.0], tiled=False)
        [array([1.]), array([2.])]
    """

    def gather(x):
        if _spans(x):
            return everywhere(x)
        whole = rows(np.asarray(x))
        return (
            whole if not tiled else whole.reshape(-1, *whole.shape[2:]) if whole.ndim > 1 else whole
        )

    for x in _tree.leaves(in_tree):
        if _spans(x) and not tiled:
            raise ValueError(
                f"process_allgather: an array of type {x.aval.str_short(short_dtypes=True)} spans processes, so it is gathered as the one whole that it "
                f"is, which only supports tiled=True. With tiled=False each process gives a value of its own, such as "
                f"[s.data for s in x.addressable_shards]."
            )
    _agree("process_allgather", in_tree)
    return _tree.map(gather, in_tree)


def _spans(x) -> bool:
    return is_native_array(x) and not x.is_fully_addressable


def _agree(what: str, values) -> None:
    """Raises in every process if their values differ in structure, shape or dtype."""
    if process_count() == 1:
        return
    leaves, structure = _tree.flatten(values)
    types = [
        f"{np.shape(x)} {x.dtype if hasattr(x, 'dtype') else np.result_type(x)}{' elsewhere' if _spans(x) else ''}"
        for x in leaves
    ]
    text = f"{structure}: {', '.join(types)}"
    same = rows(np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8))
    other = np.flatnonzero((same != same[0]).any(axis=1)).tolist()
    if other:
        raise ValueError(
            f"{what}: the processes {other} have values of other structure, shapes or dtypes than process 0; those of this process "
            f"({process_index()}) are {text}"
        )


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process, as NumPy arrays in all of them.

    Args:
        in_tree: the values; those of other processes have the same shapes and dtypes, and are not looked at.
        is_source: whether this process is the one; by default process 0 is.
    """
    if process_count() == 1:
        return _tree.map(np.asarray, in_tree)
    source = process_index() == 0 if is_source is None else bool(is_source)
    sources = np.flatnonzero(rows(np.asarray(source)))
    if len(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all needs one source, and the processes {sources.tolist()} say that they are it"
        )
    _agree("broadcast_one_to_all", in_tree)
    return _tree.map(lambda x: rows(np.asarray(x))[sources[0]], in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Fails in every process unless all have the same values.

    Raises:
        AssertionError: with the message, the values of process 0, and those of this process.
    """
    try:
        _agree("assert_equal", in_tree)
    except ValueError as e:
        raise AssertionError(f"{fail_message} {e}") from None
    found = _tree.map(lambda x: rows(np.asarray(x)), in_tree)
    different: set[int] = set()
    for each in _tree.leaves(found):
        different.update(
            i
            for i, row in enumerate(each)
            if not np.array_equal(row, each[0], equal_nan=each.dtype.kind in "fc")
        )
    if different:
        expected = _tree.map(lambda each: each[0], found)
        raise AssertionError(
            f"{fail_message} Expected, as in process 0: {expected}; got: {in_tree} in process {process_index()}. Processes with "
            f"other values than process 0: {sorted(different)}."
        )


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes should save now because some of them are about to be taken away.

    Raises:
        RuntimeError: always: notices of preemption are not listened to, so that none is ever missed silently. Programs that
            save when they are preempted have their own signal handler.
    """
    raise RuntimeError(
        f"step {step_id}: nothing listens to notices of preemption here. Handle SIGTERM in the program, or save at steps of your own."
    )


def sync_global_devices(name: str) -> None:
    """A barrier: waits until all processes have called it; raises in all of them if the names differ."""
    if not isinstance(name, str):
        raise TypeError(
            f"sync_global_devices takes the name of the place as a string, got {name!r} of type {type(name).__name__}"
        )
    assert_equal(
        np.uint32(zlib.crc32(name.encode())), f"sync_global_devices name mismatch ('{name}')."
    )


class ProcessFailureError(Exception):
    """Processes ended inside a `live_devices` block; `failed_devices` are theirs."""

    def __init__(self, failed_devices):
        self.failed_devices = set(failed_devices)
        owners = sorted({d.process_index for d in self.failed_devices})
        super().__init__(
            f"the processes {owners} ended during the block, with the devices {sorted(d.id for d in self.failed_devices)}"
        )


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Any:
    """Those of the devices whose processes are alive, agreed on by all of these processes at the beginning and the end of the block.

    Args:
        devices: devices, some of them of this process; every living process they belong to enters the block with the same.

    Raises:
        RuntimeError: the process is alone.
        ValueError: none of the devices belongs to this process.
        ProcessFailureError: a process ended before all came to the end of the block.
    """
    devices = list(devices)
    if not _processes.joined():
        raise RuntimeError(
            "live_devices asks several processes: call xlab.distributed.initialize first"
        )
    if all(d.process_index != process_index() for d in devices):
        raise ValueError(
            f"live_devices needs devices of this process, {process_index()}; got those of {sorted({d.process_index for d in devices})}"
        )
    alive = set(_processes.alive_processes(sorted({d.process_index for d in devices})))
    here = [d for d in devices if d.process_index in alive]
    try:
        yield here
    finally:
        failed = alive - set(_processes.alive_processes(sorted(alive)))
        if failed:
            raise ProcessFailureError(d for d in here if d.process_index in failed)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over all processes of which each gives its own part.

    Args:
        local_inputs: this process's parts, a pytree.
        global_mesh: a mesh over the devices of all processes.
        pspecs: a `PartitionSpec` per value, or a pytree prefix of them.
    """

    def whole(x, spec):
        if is_tracer(x):
            return x
        sharding = NamedSharding(global_mesh, spec)
        return (
            device_put(x, sharding)
            if process_count() == 1
            else make_array_from_process_local_data(sharding, np.asarray(x))
        )

    return _with_specs(whole, local_inputs, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """This process's parts of arrays over all processes, each an array over the process's own devices.

    Args:
        global_inputs: a tree of arrays over the mesh.
        global_mesh: the mesh.
        pspecs: a spec for each, or a prefix of the tree.
    """

    def part(x, spec):
        if is_tracer(x):
            return x
        if process_count() == 1:
            return device_put(x, NamedSharding(global_mesh, spec))
        return device_put(_own_part(x), NamedSharding(global_mesh.local_mesh, spec))

    return _with_specs(part, global_inputs, pspecs)


def _with_specs(fun, values, pspecs):
    leaves, treedef = _tree.flatten(values)
    specs = _tree.flatten_prefix(
        "pspecs", pspecs, values, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec)
    )
    if any(s is None for s in specs):
        raise ValueError(
            "`None` is not a valid input to the pspecs argument. Please use PartitionSpec() if you wanted to replicate your "
            "input."
        )
    return _tree.unflatten(treedef, [fun(x, s) for x, s in zip(leaves, specs)])


def _own_part(x) -> np.ndarray:
    """The block of an array that the process's own devices hold."""
    shards = x.addressable_shards
    starts = [min(s.index[d].indices(n)[0] for s in shards) for d, n in enumerate(x.shape)]
    stops = [max(s.index[d].indices(n)[1] for s in shards) for d, n in enumerate(x.shape)]
    out = np.empty([b - a for a, b in zip(starts, stops)], x.dtype)
    for s in shards:
        out[
            tuple(
                slice(i.indices(n)[0] - a, i.indices(n)[1] - a)
                for i, n, a in zip(s.index, x.shape, starts)
            )
        ] = s.data
    return out
