"""`layout`: the layout of an array on devices. Reads only types and meshes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlab.backend import client
from xlab.compile import layouts
from xlab.compile.devices import concretize_sharding
from xlab.compile.stages import ShapeDtypeStruct
from xlab.core import dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import ShapedArray, aval_of
from xlab.observe.beside.values import laid_out
from xlab.observe.programs.program import mesh_info, spec_of, type_of
from xlab.observe.records import ArrayLayout, Block, MeshInfo
from xlab.sharding import AbstractMesh, NamedSharding, PartitionSpec, Sharding, get_mesh

Slices = tuple[tuple[int, int], ...]


def layout(
    what: Any, shape: Any = None, *, dtype: Any = np.float32, name: str = "", **more: Any
) -> ArrayLayout:
    """How an array, or an array of `shape` under a sharding, lies on devices.

    Args:
        what: an array, a `ShapeDtypeStruct` with a sharding, a sharding, or a `PartitionSpec` for the current mesh.
        shape: needed for a sharding.
        dtype: type of the elements, for a sharding.

    Example:
        >>> from xlab.sharding import PartitionSpec, NamedSharding, make_mesh
        >>> mesh = make_mesh((1,), ("data",))
        >>> layout(NamedSharding(mesh, PartitionSpec("data")), (4, 2)).shard_shape
        (4, 2)
    """
    committed = True
    aval: Any
    what, shape, dtype = laid_out(what, shape, dtype)
    if isinstance(what, PartitionSpec):
        mesh = get_mesh()
        if mesh is None or mesh.empty:
            raise ValueError(
                f"{what} needs a mesh: pass NamedSharding(mesh, {what}), or set one with xlab.set_mesh(mesh)"
            )
        what = NamedSharding(mesh, what)
    if isinstance(what, Sharding):
        if shape is None:
            raise TypeError(f"a sharding alone has no shape: layout(sharding, shape); given {what}")
        sharding, aval = (
            what,
            ShapedArray(shape, np.dtype(dtype) if not dtypes.is_dtype(dtype) else dtype),
        )
    else:
        if isinstance(what, KeyArray):
            sharding, aval, committed = what.sharding, what.aval, bool(what.base.committed)
        elif isinstance(what, ShapeDtypeStruct):
            sharding, aval = what.sharding, aval_of(what)
        elif is_native_array(what):
            sharding, aval, committed = what.sharding, what.aval, bool(what.committed)
        else:
            raise TypeError(
                f"layout takes an array or a sharding with a shape, given {what!r} of type {type(what).__name__}"
            )
        if sharding is None:
            raise ValueError(f"{what} has no sharding to lay out")
    if is_native_array(what):
        more.setdefault("order", tuple(reversed(layouts.layout_of(what).major_to_minor)))
    made = of_sharding(sharding, aval, name, committed, **more)
    if (is_native_array(what) or isinstance(what, KeyArray)) and what.is_deleted():
        return made.replace(
            warnings=(*made.warnings, "it was deleted or donated: this is how it lay")
        )
    return made


def of_sharding(
    sharding: Sharding, aval: Any, name: str = "", committed: bool = True, **more: Any
) -> ArrayLayout:
    """The layout of a type under a sharding; `more` are further fields of the record."""
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        # Numbers stand for the devices that it will have.
        sharding = concretize_sharding(sharding, client.virtual_devices(sharding.mesh.size))
    devices = sharding.devices_in_order
    indices = sharding.devices_indices_map(aval.shape)
    seen: dict[Slices, int] = {}
    blocks = []
    for device in devices:
        slices = tuple(s.indices(n)[:2] for s, n in zip(indices[device], aval.shape))
        copy = seen.get(slices, 0)
        seen[slices] = copy + 1
        blocks.append(Block(int(device.id), slices, copy))
    shard = tuple(max(b.slices[d][1] - b.slices[d][0] for b in blocks) for d in range(aval.ndim))
    mesh = mesh_info(getattr(sharding, "mesh", None)) or MeshInfo(
        ("device",),
        (len(devices),),
        tuple(int(d.id) for d in devices),
        str(devices[0].platform),
        tuple(int(d.process_index) for d in devices),
    )
    itemsize = dtypes.itemsize(aval.dtype)
    typed = type_of(aval, spec_of(sharding, aval.ndim))
    if typed.spec is None or not any(typed.spec):
        typed = typed.replace(spec=spec_of(sharding, aval.ndim))
    unreduced = tuple(
        sorted(map(str, getattr(getattr(sharding, "spec", None), "unreduced", ()) or ()))
    )
    if unreduced:
        typed = typed.replace(unreduced=unreduced)
    copies = max(seen.values(), default=1)
    return ArrayLayout(
        name,
        typed,
        mesh,
        shard,
        tuple(blocks),
        copies,
        math.prod(shard) * itemsize,
        aval.size * itemsize,
        committed,
        str(sharding.memory_kind or ""),
        warnings=replicated(typed, mesh, copies, aval),
        **more,
    )


def replicated(typed: Any, mesh: MeshInfo, copies: int, aval: Any) -> tuple[str, ...]:
    """Warns of replication: a large array copied along a mesh axis that would divide one of its dimensions."""
    size = aval.size * dtypes.itemsize(aval.dtype)
    if copies < 2 or size < 1 << 20 or typed.spec is None:
        return ()
    if any(typed.spec):
        return ()  # split over some axis: copies along the others are a choice, as in data parallelism
    out = []
    for axis, n in zip(mesh.axis_names, mesh.axis_sizes):
        if n < 2:
            continue
        fits = [
            d
            for d, length in enumerate(typed.shape)
            if not typed.spec[d] and isinstance(length, int) and length % n == 0
        ]
        if fits:
            out.append(
                f"every device along '{axis}' holds a copy; dimension {fits[0]} ({typed.shape[fits[0]]}) divides by {n}"
            )
        else:
            out.append(
                f"every device along '{axis}' holds a copy; no free dimension divides by {n}"
            )
    return tuple(out)
