"""Meshes of cores: how many cores run a kernel, of what type, with which memory spaces.

Any object with the members of `KernelMesh` is a mesh of cores; `CoreMesh` is the one for cores that are simulated. A memory space
tied to a mesh (`CoreMemorySpace`) says to whose cores a piece of scratch memory belongs.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray
from xlab.kernels.memory import ANY, MemoryRef, MemorySpace


@runtime_checkable
class KernelMesh(Protocol):
    """What a mesh of cores has to have. `dimension_semantics` and `kernel_type` are read where a mesh has them."""

    @property
    def default_memory_space(self) -> Any:
        """Where operands live that name no memory space."""

    @property
    def shape(self) -> Mapping[Any, int]:
        """Size by axis name, in order."""

    @property
    def core_type(self) -> Any:
        """What kind of core it is; each function of an `mpmd_map` runs on another."""

    @property
    def supported_memory_spaces(self) -> Sequence[Any]:
        """The memory spaces that can be tied to its cores."""

    def discharges_effect(self, effect: _effects.Effect) -> bool:
        """Whether an effect of a kernel ends at the mesh, so that the caller's program does not have it."""

    def check_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError if the two cannot run in one `mpmd_map`."""

    def tracing_context(self) -> contextlib.AbstractContextManager:
        """The context in which functions for this mesh are traced."""


class IncompatibleByDefault:
    """Base of meshes that can run in an `mpmd_map` only alone, unless they say otherwise."""

    def discharges_effect(self, effect: _effects.Effect) -> bool:
        return False

    def check_is_compatible_with(self, other: Any) -> None:
        raise _incompatible(self, other, "no other mesh can run beside it")

    def tracing_context(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()


def _incompatible(mesh: Any, other: Any, reason: str) -> ValueError:
    return ValueError(f"the meshes {mesh} and {other} are not compatible: {reason}")


@dataclass(frozen=True, repr=False)
class CoreMesh(IncompatibleByDefault):
    """A mesh of simulated cores.

    Args:
        axis_names: a name per axis, or one name.
        sizes: the size of each axis, or one size.
        core_type: what kind of core; meshes of one `mpmd_map` differ in it.
        core_axis_names: the axes that count cores of the chip, which compatible meshes name alike. None says nothing about it.
        default_memory_space: where operands live that name no memory space.
        supported_memory_spaces: the spaces that `CoreMemorySpace` may tie to the mesh.
        dimension_semantics: per axis "parallel", "arbitrary" or another hint for compilers.
        kernel_type: a hint for compilers.

    Raises:
        ValueError: names and sizes do not go together.

    Example:
        >>> from xlab.kernels import CoreMesh
        >>> mesh = CoreMesh(("core", "subcore"), (2, 4))
        >>> dict(mesh.shape), mesh.num_cores
        ({'core': 2, 'subcore': 4}, 8)
    """

    axis_names: Any
    sizes: Any
    core_type: str = "vector"
    core_axis_names: Any = None
    default_memory_space: Any = ANY
    supported_memory_spaces: Any = (
        ANY,
        MemorySpace.DEFAULT,
        MemorySpace.SHARED,
        MemorySpace.LOCAL,
        MemorySpace.SEMAPHORE,
    )
    dimension_semantics: Any = None
    kernel_type: Any = None

    def __post_init__(self):
        names, sizes = _as_tuple(self.axis_names), _as_tuple(self.sizes)
        if len(names) != len(sizes) or len(set(names)) != len(names):
            raise ValueError(
                f"CoreMesh takes one size for each axis name, and each name once: got axis_names={names} and sizes={sizes}"
            )
        for name, size in zip(names, sizes):
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(
                    f"CoreMesh: the size of axis {name!r} is a positive int, got {size!r}"
                )
        core_axes = None if self.core_axis_names is None else _as_tuple(self.core_axis_names)
        for name in core_axes or ():
            if name not in names:
                raise ValueError(
                    f"CoreMesh: core_axis_names={core_axes} names {name!r}, which is none of the axes {names}"
                )
        for field, value in {
            "axis_names": names,
            "sizes": sizes,
            "core_axis_names": core_axes,
            "supported_memory_spaces": tuple(self.supported_memory_spaces),
        }.items():
            object.__setattr__(self, field, value)
        if self.dimension_semantics is not None:
            object.__setattr__(self, "dimension_semantics", tuple(self.dimension_semantics))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """Size by axis name, in order."""
        return OrderedDict(zip(self.axis_names, self.sizes))

    @property
    def num_cores(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes)

    def check_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError unless the two are equal, or of different core types and alike where they name the same axes."""
        if self == other:
            return
        if not isinstance(other, CoreMesh):
            raise _incompatible(self, other, "only another CoreMesh can run beside a CoreMesh")
        if self.core_type == other.core_type:
            raise _incompatible(
                self,
                other,
                f"different meshes need different core types, both are {self.core_type!r}",
            )
        if None not in (self.core_axis_names, other.core_axis_names) and (
            self.core_axis_names != other.core_axis_names
        ):
            raise _incompatible(
                self,
                other,
                f"they count cores along different axes, {self.core_axis_names} and {other.core_axis_names}",
            )
        theirs = other.shape
        for name, size in self.shape.items():
            if theirs.get(name, size) != size:
                raise _incompatible(
                    self,
                    other,
                    f"the axis {name!r} has size {size} in one and {theirs[name]} in the other",
                )

    def __rmatmul__(self, space: Any) -> CoreMemorySpace:
        return CoreMemorySpace(space, self)

    def __repr__(self):
        more = [
            f", {f.name}={getattr(self, f.name)!r}"
            for f in fields(self)[3:]
            if getattr(self, f.name) != f.default
        ]
        return f"CoreMesh({self.axis_names!r}, {self.sizes!r}, {self.core_type!r}{''.join(more)})"

    def __str__(self):
        axes = ", ".join(f"{n}={s}" for n, s in self.shape.items())
        return f"CoreMesh({axes}; {self.core_type})"


def _as_tuple(x: Any) -> tuple:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def create_core_mesh(
    axis_name: Any,
    devices: Sequence[Any] | None = None,
    num_cores: int | None = None,
    **options: Any,
) -> CoreMesh:
    """A mesh of cores along one axis.

    Args:
        axis_name: the name of the axis.
        devices: one core for each of them.
        num_cores: how many cores; 1 where neither is given.
        options: further arguments of `CoreMesh`.

    Returns:
        A `CoreMesh`.

    Raises:
        ValueError: both `devices` and `num_cores` are given.

    Example:
        >>> from xlab.kernels import create_core_mesh
        >>> print(create_core_mesh("core", num_cores=4, core_type="scalar"))
        CoreMesh(core=4; scalar)
    """
    if devices is not None and num_cores is not None:
        raise ValueError(
            f"create_core_mesh takes devices or num_cores, not both: got {len(devices)} devices and num_cores={num_cores}"
        )
    if devices is not None:
        num_cores = len(devices)
    return CoreMesh((axis_name,), (1 if num_cores is None else num_cores,), **options)


@dataclass(frozen=True)
class CoreMemorySpace:
    """A memory space that belongs to the cores of a mesh. Called with a shape and a dtype it gives a `MemoryRef`.

    Raises:
        ValueError: the mesh does not support the space.

    Example:
        >>> from xlab.kernels import CoreMemorySpace, MemorySpace, create_core_mesh
        >>> space = CoreMemorySpace(MemorySpace.LOCAL, create_core_mesh("core", num_cores=2))
        >>> space, space((8,), "float32").shape
        (local@vector, (8,))
    """

    memory_space: Any
    mesh: Any

    def __post_init__(self):
        if self.memory_space not in self.mesh.supported_memory_spaces:
            raise ValueError(
                f"memory space {self.memory_space} is not supported by mesh {self.mesh}, which supports "
                f"{', '.join(map(str, self.mesh.supported_memory_spaces))}"
            )

    @property
    def per_core(self) -> bool:
        """Whether each core of the mesh has its own copy: all but what its cores share."""
        return self.memory_space is not MemorySpace.SHARED

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        inner = ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype))
        return MemoryRef(inner, self)

    def __str__(self):
        return f"{self.memory_space}@{self.mesh.core_type}"

    __repr__ = __str__


# -- several meshes -----------------------------------------------------------------------------------------


def mesh_of(space: Any) -> Any:
    """The mesh that a memory space is tied to, or None."""
    return space.mesh if isinstance(space, CoreMemorySpace) else None


def plain_space(space: Any) -> Any:
    """A memory space without the mesh that it is tied to."""
    return space.memory_space if isinstance(space, CoreMemorySpace) else space


def check_meshes(meshes: Iterable[Any]) -> None:
    """Raises unless every two of the meshes can run together.

    Raises:
        TypeError: one is no mesh of cores.
        ValueError: two are not compatible.
    """
    meshes = list(meshes)
    for mesh in meshes:
        if not isinstance(mesh, KernelMesh):
            raise TypeError(
                f"expected a mesh of cores such as CoreMesh(axis_names, sizes), got {mesh!r} of type {type(mesh).__name__}"
            )
    for mesh, other in itertools.combinations(meshes, 2):
        mesh.check_is_compatible_with(other)


def super_mesh_shape(meshes: Iterable[Any]) -> OrderedDict[Any, int]:
    """The axes of all the meshes together, with their sizes.

    Raises:
        ValueError: two meshes give one axis different sizes.

    Example:
        >>> from xlab.kernels.mesh import CoreMesh, super_mesh_shape
        >>> dict(super_mesh_shape([CoreMesh("core", 2, "scalar"), CoreMesh(("core", "subcore"), (2, 16))]))
        {'core': 2, 'subcore': 16}
    """
    shape: OrderedDict[Any, int] = OrderedDict()
    owner: dict[Any, Any] = {}
    for mesh in meshes:
        for name, size in mesh.shape.items():
            if shape.setdefault(name, size) != size:
                raise ValueError(
                    f"the axis {name!r} has size {shape[name]} in mesh {owner[name]} and size {size} in mesh {mesh}: meshes "
                    f"that run together agree on the axes they share"
                )
            owner.setdefault(name, mesh)
    return shape
