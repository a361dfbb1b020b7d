"""Live arrays: size, devices, name, and the line that made each. Their data is not read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import client as _client
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.observe.arrays import allocation_sites
from xlab.observe.programs.program import type_of
from xlab.observe.records import ArrayLayout
from xlab.observe.records.live import Live, LiveArray, place
from xlab.observe.sharding.layout import of_sharding, spec_of
from xlab.sharding import from_native

LIMIT = 500


def live(names: Mapping[str, Any] | None = None, *, limit: int | None = LIMIT) -> Live:
    """The arrays alive in this process.

    Args:
        names: a namespace; arrays in it are called by its names.
        limit: how many to list, the largest; all are counted.

    Example:
        >>> import xlab.numpy as jnp
        >>> kept = jnp.ones((2, 3))
        >>> [(a.name, a.type) for a in live({"kept": kept}).arrays if a.name]
        [('kept', 'f32[2,3]')]
    """
    found = _whole() if _client.started() else []
    called, keys = _names(names or {})
    sized = sorted(
        ((_bytes(x), called.get(id(x), ""), x) for x in found),
        key=lambda s: (-s[0], _natural(s[1]), str(s[2].aval)),
    )
    lines: dict[str, list[int]] = {}
    for size, _, x in sized:
        entry = lines.setdefault(place(allocation_sites.origin(x)), [0, 0])
        entry[0] += 1
        entry[1] += size
    return Live(
        tuple(_one(keys.get(id(x), x), name, size, x) for size, name, x in sized[:limit]),
        sum(s[0] for s in sized),
        max(0, len(sized) - (limit or len(sized))),
        tuple(sorted(_on_devices(found).items())),
        tuple(sorted(((p, n, b) for p, (n, b) in lines.items()), key=lambda e: (-e[2], e[0]))),
        allocation_sites.tracking(),
    )


def bytes_on_devices() -> dict[int, int]:
    """Bytes of the arrays alive in this process, by the id of the device."""
    return _on_devices(_whole())


def _alive() -> list[Any]:
    return [x for x in _client.live_arrays() if is_native_array(x) and not x.is_deleted()]


def _whole() -> list[Any]:
    """The arrays that are alive, without those whose memory is that of an array they are part of."""
    found = _alive()
    parts = {id(part) for x in found for part in _arrays.known_shards(x)}
    return [x for x in found if id(x) not in parts]


def _on_devices(arrays: Sequence[Any]) -> dict[int, int]:
    held: dict[int, int] = {}
    for x in arrays:
        sharding = (
            x.sharding if hasattr(x.sharding, "devices_in_order") else from_native(x.sharding)
        )
        each = math.prod(sharding.shard_shape(x.shape)) * dtypes.itemsize(x.dtype)
        for device in sharding.devices_in_order:
            held[int(device.id)] = held.get(int(device.id), 0) + each
    return held


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key for names: numbers in them compare by value, and the empty name is last."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name or "\uffff")
    ]


def _bytes(x: Any) -> int:
    return math.prod(x.shape) * dtypes.itemsize(x.dtype)


def _one(x: Any, name: str, size: int, held: Any) -> LiveArray:
    """An array, or keys, whose bytes are those of the array `held`."""
    sharding = x.sharding
    spec = spec_of(sharding, x.ndim)
    typed = type_of(x.aval, spec).replace(spec=spec)
    devices = tuple(int(d.id) for d in sharding.devices_in_order)
    mesh = getattr(sharding, "mesh", None)
    axes = " ".join(f"{n}={s}" for n, s in mesh.shape.items()) if mesh is not None else ""
    return LiveArray(
        typed.text,
        size,
        name,
        devices,
        f"{sharding.spec} over {axes}" if axes and hasattr(sharding, "spec") else "",
        bool(held.committed),
        "" if sharding.memory_kind in (None, "device") else str(sharding.memory_kind),
        allocation_sites.origin(held),
    )


def _names(names: Mapping[str, Any]) -> tuple[dict[int, str], dict[int, KeyArray]]:
    """Names of arrays by id, the first that holds each, and the random keys that arrays are the words of; outputs the shell keeps come last."""
    called: dict[int, str] = {}
    keys: dict[int, KeyArray] = {}
    for name, value in sorted(
        dict(names).items(), key=lambda item: (item[0].startswith("_"), item[0])
    ):
        if name in ("In", "Out", "_oh", "_dh", "_ih") or callable(value):
            continue
        try:
            leaves = _tree.flatten_with_path(value)[0]
        except Exception:  # what is no tree, or a class fails to flatten, names no array
            continue
        for path, leaf in leaves:
            x = leaf.base if isinstance(leaf, KeyArray) else leaf
            if is_native_array(x):
                called.setdefault(id(x), name + _tree.keystr(path))
                if x is not leaf:
                    keys.setdefault(id(x), leaf)
    return called, keys


def live_arrays(limit: int | None = None) -> tuple[ArrayLayout, ...]:
    """Layouts of the arrays that are alive now, the largest first; nothing is read from them.

    Example:
        >>> isinstance(live_arrays(limit=3), tuple)
        True
    """
    found = _alive()
    found.sort(key=lambda x: -x.aval.nbytes)
    return tuple(
        of_sharding(x.sharding, x.aval, committed=bool(x.committed)) for x in found[:limit]
    )
