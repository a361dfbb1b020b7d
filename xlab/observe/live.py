"""Arrays that are alive now: how large, where they lie, under which name, and the line that made them. Nothing is read from them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import client as _client
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.observe import creations
from xlab.observe.layout import spec_of
from xlab.observe.program import type_of
from xlab.observe.records import Record, Source, _record
from xlab.observe.text import add_form
from xlab.observe.units import plural, size_text, table
from xlab.sharding import from_native

LIMIT = 500


@_record
class LiveArray(Record):
    """One array. `name` is where the notebook holds it, empty for none; `devices` are ids; `sharding` in words; `source` where it was made."""

    type: str
    bytes: int
    name: str = ""
    devices: tuple[int, ...] = ()
    sharding: str = ""
    committed: bool = False
    memory_kind: str = ""
    source: Source | None = None


@_record
class Live(Record):
    """The arrays alive, largest first. `total` counts all of them, `more` those that are not listed; `devices` are `(id, bytes)`.

    `lines` are `(place, arrays, bytes)` per line that made some of them, largest first; `tracked` says whether lines are recorded.
    """

    arrays: tuple[LiveArray, ...] = ()
    total: int = 0
    more: int = 0
    devices: tuple[tuple[int, int], ...] = ()
    lines: tuple[tuple[str, int, int], ...] = ()
    tracked: bool = False


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
    found = [x for x in _client.live_arrays() if is_native_array(x) and not x.is_deleted()] if _client.started() else []
    parts = {id(part) for x in found for part in _arrays.known_shards(x)}
    found = [x for x in found if id(x) not in parts]        # memory of the array they are part of
    called = _names(names or {})
    sized = sorted(((_bytes(x), called.get(id(x), ""), x) for x in found), key=lambda s: (-s[0], _natural(s[1]), str(s[2].aval)))
    held: dict[int, int] = {}
    lines: dict[str, list[int]] = {}
    for size, _, x in sized:
        sharding = from_native(x.sharding) if not hasattr(x.sharding, "devices_in_order") else x.sharding
        each = math.prod(sharding.shard_shape(x.shape)) * dtypes.itemsize(x.dtype)
        for device in sharding.devices_in_order:
            held[int(device.id)] = held.get(int(device.id), 0) + each
        entry = lines.setdefault(place(creations.origin(x)), [0, 0])
        entry[0] += 1
        entry[1] += size
    return Live(tuple(_one(x, name, size) for size, name, x in sized[:limit]), sum(s[0] for s in sized), max(0, len(sized) - (limit or len(sized))),
                tuple(sorted(held.items())), tuple(sorted(((p, n, b) for p, (n, b) in lines.items()), key=lambda e: (-e[2], e[0]))),
                creations.tracking())


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in names in order of their values, and no name last."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name or "\uffff")]


def _bytes(x: Any) -> int:
    return math.prod(x.shape) * dtypes.itemsize(x.dtype)


def _one(x: Any, name: str, size: int) -> LiveArray:
    sharding = x.sharding
    spec = spec_of(sharding, x.ndim)
    typed = type_of(x.aval, spec).replace(spec=spec)
    devices = tuple(int(d.id) for d in sharding.devices_in_order)
    mesh = getattr(sharding, "mesh", None)
    axes = " ".join(f"{n}={s}" for n, s in mesh.shape.items()) if mesh is not None else ""
    return LiveArray(typed.text, size, name, devices, f"{sharding.spec} over {axes}" if axes and hasattr(sharding, "spec") else "",
                     bool(x.committed), "" if sharding.memory_kind in (None, "device") else str(sharding.memory_kind), creations.origin(x))


def _names(names: Mapping[str, Any]) -> dict[int, str]:
    """Names of arrays by id, the first that holds each; outputs the shell keeps come last."""
    called: dict[int, str] = {}
    for name, value in sorted(dict(names).items(), key=lambda item: (item[0].startswith("_"), item[0])):
        if name in ("In", "Out", "_oh", "_dh", "_ih") or callable(value):
            continue
        try:
            leaves = _tree.flatten_with_path(value)[0]
        except (TypeError, ValueError):
            continue
        for path, leaf in leaves:
            x = leaf.base if isinstance(leaf, KeyArray) else leaf
            if is_native_array(x):
                called.setdefault(id(x), name + _tree.keystr(path))
    return called


def place(source: Source | None) -> str:
    """A place of creation in words."""
    if source is None:
        return "unknown"
    file = source.file.rsplit("/", 1)[-1]
    return f"{file}, line {source.line}" if source.line else file


class Row(NamedTuple):
    """Arrays that are listed together: one with a name, or all without one that are alike; `array` is the first, `place` where they were made."""

    array: LiveArray
    number: int
    bytes: int
    place: str


def rows(arrays: Sequence[LiveArray]) -> list[Row]:
    """Arrays as they are listed, the most bytes first: those that no name holds together, by type, devices and sharding.

    >>> one = LiveArray("f32[2]", 8)
    >>> [(r.number, r.bytes, r.array.name) for r in rows([LiveArray("f32[2]", 8, "x"), one, one])]
    [(2, 16, ''), (1, 8, 'x')]
    """
    groups: dict[object, list[LiveArray]] = {}
    for n, a in enumerate(arrays):
        groups.setdefault(n if a.name else (a.type, a.bytes, a.devices, a.sharding, a.committed, a.memory_kind), []).append(a)
    out = []
    for group in groups.values():
        made = sorted({place(a.source) for a in group})
        out.append(Row(group[0], len(group), sum(a.bytes for a in group), made[0] if len(made) == 1 else f"{len(made)} places"))
    return sorted(out, key=lambda r: -r.bytes)


def devices_text(ids: tuple[int, ...]) -> str:
    """Which devices, in few words.

    >>> devices_text((0,)), devices_text((0, 1, 2, 3)), devices_text((0, 2))
    ('device 0', 'devices 0–3', 'devices 0, 2')
    """
    if not ids:
        return "no device"
    if len(ids) == 1:
        return f"device {ids[0]}"
    ordered = sorted(ids)
    if ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"devices {ordered[0]}–{ordered[-1]}"
    return "devices " + ", ".join(map(str, ordered[:8])) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")


def live_text(record: Live, options: Any = None) -> str:
    """A table of the arrays, then bytes per device where there are several."""
    count = len(record.arrays) + record.more
    if not count:
        return "no array of xlab is alive"
    limit = getattr(options, "limit", None)
    shown = rows(record.arrays)[:limit]
    listed = [("name", "array", "bytes", "on", "made in"),
              *((r.array.name or (f"{r.number} without a name" if r.number > 1 else "–"), r.array.type, size_text(r.bytes), devices_text(r.array.devices),
                 r.place) for r in shown)]
    more = count - sum(r.number for r in shown)
    lines = [table(listed, "llrll")] + ([f"  … {plural(more, 'smaller array')}"] if more else [])
    lines.append(f"{size_text(record.total)} in {plural(count, 'array')}" + (", copies counted once" if len(record.devices) > 1 else ""))
    if len(record.devices) > 1:
        lines.append("per device: " + ", ".join(f"{i} {size_text(n)}" for i, n in record.devices[:16])
                     + (f" and {len(record.devices) - 16} more" if len(record.devices) > 16 else ""))
    return "\n".join(lines)


add_form(Live, live_text)
add_form(LiveArray, lambda a, o: f"{a.name or 'an array'}: {a.type}, {size_text(a.bytes)} on {devices_text(a.devices)}, made in {place(a.source)}")
