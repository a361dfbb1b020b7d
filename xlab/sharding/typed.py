"""Shardings in types: how a value is sharded over the `Explicit` axes of a mesh.

A type carries the sharding of a value: a sharding over an abstract mesh with one entry per dimension, naming Explicit axes only.
A value that nothing shards carries None, so that programs without such axes pay for none of this.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.config import config
from xlab.sharding.current import get_abstract_mesh
from xlab.sharding.mesh import AxisType
from xlab.sharding.named import NamedSharding
from xlab.sharding.spec import PartitionSpec

Entries = tuple[tuple[Any, ...], ...]


def canonical(sharding: Any, ndim: int) -> NamedSharding | None:
    """The part of a sharding that belongs to the type of a value of this rank; None without Explicit axes.

    Example:
        >>> from xlab.sharding import AbstractMesh, AxisType, P
        >>> mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
        >>> canonical(NamedSharding(mesh, P("x", "y")), 2).spec
        P('x', None)
    """
    return _canonical(sharding, ndim, config.remove_size_one_mesh_axis_from_type)


@functools.lru_cache(4096)
def _canonical(sharding, ndim, without_single):
    if not isinstance(sharding, NamedSharding):
        return None
    explicit = sharding.mesh.explicit_axes
    if without_single:
        explicit = tuple(a for a in explicit if sharding.mesh.shape[a] > 1)
    if not explicit:
        return None
    spec = sharding.spec
    dim_axes = [tuple(a for a in spec.axes_of(d) if a in explicit) for d in range(ndim)]
    return of_entries(sharding.mesh.abstract_mesh, tuple(dim_axes)) if any(dim_axes) else None


caches.register(_canonical.cache_clear)
caches.register(lambda: _laid_out.clear())


def of_entries(mesh: Any, entries: Entries) -> NamedSharding:
    """The sharding whose dimension `d` is sharded along the axes `entries[d]`."""
    return NamedSharding(mesh, PartitionSpec(*entries))


def entries(aval: Any) -> Entries:
    """Per dimension of a type, the mesh axes that shard it."""
    explicit = aval.explicit_sharding
    if explicit is None:
        return ((),) * aval.ndim
    return tuple([explicit.spec.axes_of(d) for d in range(aval.ndim)])


def parts(mesh: Any, axes: tuple[Any, ...]) -> int:
    """Into how many parts these axes shard a dimension."""
    sizes = mesh.shape
    return math.prod([sizes[a] for a in axes])


def dimension(size: int, axes: tuple[Any, ...]) -> str:
    """One dimension as types print it: `8`, `8@x`, `8@(x,y)`."""
    if not axes:
        return str(size)
    return f"{size}@{axes[0]}" if len(axes) == 1 else f"{size}@({','.join(map(str, axes))})"


def is_nowhere(given: Any) -> bool:
    """Whether it is the sharding of a value without a mesh, as `typeof(x).sharding` gives it."""
    return isinstance(given, NamedSharding) and given.mesh.empty


def out_sharding(given: Any, api: str, ndim: int | None = None) -> NamedSharding | None:
    """The user's `out_sharding` as a sharding over the abstract mesh; None if it was not given."""
    if given is None or is_nowhere(given):
        return None
    if isinstance(given, PartitionSpec):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(
                f"Using PartitionSpec when you are not under a mesh context is not allowed. {api} got {given}: pass a "
                "NamedSharding, or set a mesh with xlab.set_mesh(mesh)."
            )
        given = NamedSharding(mesh, given)
    if not isinstance(given, NamedSharding):
        raise TypeError(
            f"{api} takes a PartitionSpec or a NamedSharding, got {given!r} of type {type(given).__name__}."
        )
    mesh, spec = given.mesh.abstract_mesh, given.spec
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for axis in spec.axes():
        if types[axis] is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {api} cannot contain axis names that are of type Auto or Manual. Got "
                f"PartitionSpec: {spec} with axis name: {axis} of type: AxisType.{types[axis]}. Make the mesh with "
                f"axis_types=AxisType.Explicit, or use lax.with_sharding_constraint for Auto axes."
            )
    if ndim is not None:
        if len(spec) > ndim:
            raise ValueError(
                f"{api} got {spec}, which names {len(spec)} dimensions, for a result of rank {ndim}."
            )
        spec = spec.update(partitions=(*spec, *(None,) * (ndim - len(spec))))
    return NamedSharding(mesh, spec)


def typed(aval: Any, sharding: Any) -> Any:
    """The type with this sharding and memory space."""
    space = memory_space(sharding)
    if getattr(aval, "memory_space", space) != space:
        aval = aval.update(memory_space=space)
    if type(sharding) is NamedSharding and sharding.mesh.explicit_axes:
        _laid_out[sharding.mesh.abstract_mesh] = sharding.mesh
        return _laid(aval, sharding, config.remove_size_one_mesh_axis_from_type)
    return aval if getattr(aval, "explicit_sharding", None) is None else aval.update(sharding=None)


@functools.lru_cache(1024)
def _laid(aval: Any, sharding: NamedSharding, without_single: bool) -> Any:
    mat = aval.mat
    if mat or sharding.spec.unreduced or sharding.spec.reduced:
        mat = mat.update(unreduced=sharding.spec.unreduced, reduced=sharding.spec.reduced)
    return aval.update(sharding=sharding, mat=mat)


caches.register(_laid.cache_clear)


def memory_space(sharding: Any) -> str | None:
    """The memory space in types for this sharding: `"host"`, or None for the device's own."""
    return "host" if sharding.memory_kind == "pinned_host" else None


def memory_kind(aval: Any) -> str | None:
    """The kind of memory that the type of a value asks for; None for the devices' own."""
    return "pinned_host" if getattr(aval, "memory_space", None) else None


# The last mesh of devices that arrays were laid over, for each abstract mesh.
_laid_out: dict[Any, Any] = {}


def mesh_of_devices(explicit: NamedSharding) -> Any:
    """The concrete mesh last used for a type's abstract mesh; None if no array was laid out over one."""
    return _laid_out.get(explicit.mesh)


def result_sharding(aval: Any, mesh: Any) -> NamedSharding | None:
    """The sharding of a result of this type on a concrete mesh whose axes are all Explicit."""
    explicit, mat = aval.explicit_sharding, aval.mat
    if explicit is not None and explicit.mesh.shape_tuple != mesh.shape_tuple:
        return None
    spec = explicit.spec if explicit is not None else PartitionSpec(*(None,) * aval.ndim)
    if mat.unreduced or mat.reduced:
        spec = spec.update(unreduced=mat.unreduced, reduced=mat.reduced)
    return NamedSharding(mesh, spec, memory_kind(aval))


_arrays.set_typing(typed)
