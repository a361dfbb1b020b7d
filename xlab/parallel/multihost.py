"""Several processes as one: values that all of them get, arrays that each holds a part of, a line they all cross.

In one process everything is there already, and these functions say so quickly.
"""

from __future__ import annotations

import zlib

import numpy as np

from xlab import tree as _tree
from xlab.backend.client import devices, local_devices, process_count, process_index
from xlab.compile.jit import jit
from xlab.core.array import is_native_array
from xlab.core.trace import is_tracer
from xlab.parallel.assemble import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from xlab.parallel.put import device_put
from xlab.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def process_allgather(in_tree, tiled: bool = False):
    """The values of all processes, as NumPy arrays in each: stacked along a new leading dimension, or joined along the first.

    An array that is laid over the processes comes as a whole.

    Example:
        >>> from xlab.experimental import multihost_utils
        >>> multihost_utils.process_allgather([1.0, 2.0], tiled=False)
        [array([1.]), array([2.])]
    """
    def gather(x):
        if is_native_array(x) and not x.is_fully_addressable:
            return np.asarray(_everywhere(x.sharding.mesh)(x).addressable_data(0))
        rows = _rows(np.asarray(x))
        return rows if not tiled else rows.reshape(-1, *rows.shape[2:]) if rows.ndim > 1 else rows
    return _tree.map(gather, in_tree)


def broadcast_one_to_all(in_tree, is_source: bool | None = None):
    """The values of one process, as NumPy arrays in all of them.

    Args:
        in_tree: the values; those of other processes have the same shapes and dtypes, and are not looked at.
        is_source: whether this process is the one; by default process 0 is.
    """
    if process_count() == 1:
        return _tree.map(np.asarray, in_tree)
    source = process_index() == 0 if is_source is None else bool(is_source)
    sources = np.flatnonzero(_rows(np.asarray(source)))
    if len(sources) != 1:
        raise ValueError(f"broadcast_one_to_all needs one source, and the processes {sources.tolist()} say that they are it")
    return _tree.map(lambda x: _rows(np.asarray(x))[sources[0]], in_tree)


def assert_equal(in_tree, fail_message: str = "") -> None:
    """Fails in every process whose values are not those of process 0.

    Raises:
        AssertionError: with the message, and both values.
    """
    expected = broadcast_one_to_all(in_tree)
    same = _tree.map(lambda a, b: np.array_equal(np.asarray(a), b, equal_nan=np.asarray(b).dtype.kind in "fc"), in_tree, expected)
    if not all(_tree.leaves(same)):
        raise AssertionError(f"{fail_message} Expected: {expected}; got: {in_tree}.")


def sync_global_devices(name: str) -> None:
    """A line that no process crosses before all have reached it, under the same name."""
    if not isinstance(name, str):
        raise TypeError(f"sync_global_devices takes the name of the place as a string, got {name!r} of type {type(name).__name__}")
    assert_equal(np.uint32(zlib.crc32(name.encode())), f"sync_global_devices name mismatch ('{name}').")


def host_local_array_to_global_array(local_inputs, global_mesh: Mesh, pspecs):
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
        return device_put(x, sharding) if process_count() == 1 else make_array_from_process_local_data(sharding, np.asarray(x))
    return _with_specs(whole, local_inputs, pspecs)


def global_array_to_host_local_array(global_inputs, global_mesh: Mesh, pspecs):
    """This process's parts of arrays over all processes, each an array over the process's own devices."""
    def part(x, spec):
        if is_tracer(x):
            return x
        if process_count() == 1:
            return device_put(x, NamedSharding(global_mesh, spec))
        return device_put(_own_part(x), NamedSharding(global_mesh.local_mesh, spec))
    return _with_specs(part, global_inputs, pspecs)


def _with_specs(fun, values, pspecs):
    leaves, treedef = _tree.flatten(values)
    specs = _tree.flatten_prefix("pspecs", pspecs, values, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
    if any(s is None for s in specs):
        raise ValueError("`None` is not a valid input to the pspecs argument. Please use PartitionSpec() if you wanted to replicate your "
                         "input.")
    return _tree.unflatten(treedef, [fun(x, s) for x, s in zip(leaves, specs)])


def _own_part(x) -> np.ndarray:
    """The block of an array that the process's own devices hold."""
    shards = x.addressable_shards
    starts = [min(s.index[d].indices(n)[0] for s in shards) for d, n in enumerate(x.shape)]
    stops = [max(s.index[d].indices(n)[1] for s in shards) for d, n in enumerate(x.shape)]
    out = np.empty([b - a for a, b in zip(starts, stops)], x.dtype)
    for s in shards:
        out[tuple(slice(i.indices(n)[0] - a, i.indices(n)[1] - a) for i, n, a in zip(s.index, x.shape, starts))] = s.data
    return out


def _rows(x: np.ndarray) -> np.ndarray:
    """The arrays of all processes, one a row."""
    n = process_count()
    if n == 1:
        return x[None]
    by_process = sorted(devices(), key=lambda d: (d.process_index, d.id))
    mesh = Mesh(np.array(by_process, dtype=object).reshape(n, -1), ("process", "device"), axis_types=(AxisType.Auto,) * 2)
    rows = NamedSharding(mesh, PartitionSpec("process"))
    mine = [device_put(x[None], d) for d in local_devices()]
    whole = make_array_from_single_device_arrays((n, *x.shape), rows, mine)
    return np.asarray(_everywhere(mesh)(whole).addressable_data(0))


def _everywhere(mesh):
    return jit(lambda x: x, name="everywhere", out_shardings=NamedSharding(mesh, PartitionSpec()))
