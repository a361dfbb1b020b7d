"""Converts specs to and from the compiler's forms: HLO tilings and Shardy's text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlab.backend import shardings as _native
from xlab.errors import IndivisibleError
from xlab.sharding.spec import UNCONSTRAINED, PartitionSpec


def from_spec(mesh: Any, spec: PartitionSpec, ndim: int) -> Any:
    """The tiling of a value of rank `ndim`: positions count through the mesh, last axis fastest."""
    names, sizes = mesh.axis_names, dict(mesh.shape_tuple)
    manual = [a for a in names if a in mesh.manual_axes]
    dims: list[int] = []
    order: list[Any] = []
    for d in range(ndim):
        dim_axes = spec.axes_of(d)
        order.extend(dim_axes)
        dims.append(math.prod([sizes[a] for a in dim_axes]))
    order = [a for a in order if a not in manual]
    unreduced = [a for a in names if a in spec.unreduced]
    replicated = [a for a in names if a not in order and a not in manual and a not in unreduced]
    subgroups = []
    for axes, kind in ((replicated, _native.REPLICATED_KIND), (manual, _native.MANUAL_KIND),
                       (unreduced, _native.UNREDUCED_KIND)):  # fmt: skip
        count = math.prod([sizes[a] for a in axes])
        if count > 1:
            dims.append(count)
            subgroups.append(kind)
    if math.prod(dims) == 1 or (subgroups == [_native.REPLICATED_KIND] and dims[-1] == mesh.size):
        return _native.REPLICATED
    places = {a: i for i, a in enumerate(names)}
    turn = tuple(places[a] for a in (*order, *replicated, *manual, *unreduced))
    return _native.hlo_from_iota(
        tuple(dims), tuple(sizes[a] for a in names), turn, tuple(subgroups)
    )


def sdy_text(mesh: Any, spec: PartitionSpec, ndim: int, mesh_symbol: str) -> str:
    """The sharding attribute of a value of rank `ndim`."""
    dims = []
    for d in range(ndim):
        if d < len(spec) and spec[d] is UNCONSTRAINED:
            dims.append("{?}")
        else:
            dims.append("{" + ", ".join(_quoted(a) for a in spec.axes_of(d)) + "}")
    extra = ""
    if spec.unreduced:
        listed = ", ".join(_quoted(a) for a in mesh.axis_names if a in spec.unreduced)
        extra = f", unreduced={{{listed}}}"
    return f"#sdy.sharding<@{mesh_symbol.lstrip('@')}, [{', '.join(dims)}]{extra}>"


def _quoted(axis: Any) -> str:
    return '"' + str(axis).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tiles(hlo_sharding: Any, ndim: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Positions arranged by tile, with the copies of each tile last; and the tiles per dimension."""
    dims = tuple(hlo_sharding.tile_assignment_dimensions())
    tiles = dims[:ndim]
    positions = np.array(hlo_sharding.tile_assignment_devices(), dtype=np.int64)
    return positions.reshape(*tiles, -1), tiles


def shard_shape(hlo_sharding: Any, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape of one part under a tiling."""
    if hlo_sharding.is_replicated() or hlo_sharding.is_manual():
        return shape
    tiles = tuple(hlo_sharding.tile_assignment_dimensions())[: len(shape)]
    for d, (size, parts) in enumerate(zip(shape, tiles, strict=True)):
        if size % parts:
            raise IndivisibleError(
                f"Sharding {what} implies that array axis {d} is partitioned {parts} times, but the dimension size is "
                f"{size} (full shape: {shape}). Pad the dimension or leave it unsharded."
            )
    return tuple(size // parts for size, parts in zip(shape, tiles, strict=True))


def indices(
    hlo_sharding: Any, shape: tuple[int, ...], count: int, what: str
) -> list[tuple[slice, ...]]:
    """The slice at each position under a tiling."""
    everything = slice(None)
    if hlo_sharding.is_replicated() or hlo_sharding.is_manual():
        return [(everything,) * len(shape)] * count
    part = shard_shape(hlo_sharding, shape, what)
    positions, tiles = _tiles(hlo_sharding, len(shape))
    out: list[Any] = [None] * count
    for at in np.ndindex(*tiles):
        index = tuple(
            everything if tiles[d] == 1 else slice(at[d] * part[d], (at[d] + 1) * part[d])
            for d in range(len(shape))
        )
        for position in positions[at]:
            out[int(position)] = index
    return out


def are_hlo_shardings_equal(one: Any, other: Any, shape: tuple[int, ...], count: int) -> bool:
    """Whether two tilings give every device the same part of an array of this shape."""
    return one == other or indices(one, shape, count, "array") == indices(
        other, shape, count, "array"
    )


def to_spec(hlo_sharding: Any, mesh: Any, ndim: int) -> PartitionSpec | None:
    """The equivalent spec on this mesh, or None if there is none.

    Trailing dimensions that are not sharded are left out.
    """
    if hlo_sharding.is_replicated():
        return PartitionSpec()
    if not hlo_sharding.is_tiled() and not hlo_sharding.tile_assignment_dimensions():
        return None
    positions, tiles = _tiles(hlo_sharding, ndim)
    if positions.size != mesh.size:
        return None
    entries: list[Any] = []
    for d, parts in enumerate(tiles):
        if parts == 1:
            entries.append(None)
            continue
        line = positions[tuple(slice(None) if i == d else 0 for i in range(ndim)) + (0,)]
        axes = _axes_along(line, mesh)
        if axes is None:
            return None
        entries.append(axes[0] if len(axes) == 1 else axes)
    while entries and entries[-1] is None:
        entries.pop()
    spec = PartitionSpec(*entries)
    try:
        same = from_spec(mesh, spec, ndim) == hlo_sharding
    except ValueError:
        return None
    return spec if same else None


def _axes_along(line: np.ndarray, mesh: Any) -> tuple[Any, ...] | None:
    """The mesh axes that vary along a line of positions, slowest first."""
    coordinates = np.array(np.unravel_index(line, mesh.axis_sizes))
    moving = []
    for axis, row in enumerate(coordinates):
        if (row == row[0]).all():
            continue
        period = int(np.argmax(row != row[0]))
        moving.append((-period, axis))
    moving.sort()
    if math.prod([mesh.axis_sizes[axis] for _, axis in moving]) != len(line):
        return None
    return tuple(mesh.axis_names[axis] for _, axis in moving)
