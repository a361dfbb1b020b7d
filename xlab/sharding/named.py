"""Shardings: a mesh and a spec, one device, or a tiling the compiler chose."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xlab.backend import caches, neighbors
from xlab.backend import client as _client
from xlab.backend import shardings as _native
from xlab.sharding import hlo as _hlo
from xlab.sharding import indices as _indices
from xlab.sharding.mesh import AbstractMesh, Mesh
from xlab.sharding.spec import DuplicateSpecError, PartitionSpec

Shape = tuple[int, ...]


class Sharding:
    """Base of shardings: how an array is laid out over devices. `native` is the form stored in arrays."""

    __slots__ = ()
    native: Any
    memory_kind: str | None

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        """The devices in the order of the program's device assignment."""
        raise TypeError(f"{type(self).__name__} says nothing about devices.")

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return self.devices_in_order

    @property
    def device_set(self) -> frozenset:
        """The devices that hold a part."""
        return frozenset(self.devices_in_order)

    @property
    def num_devices(self) -> int:
        return len(self.devices_in_order)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        raise TypeError(f"{type(self).__name__} says nothing about devices.")

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        devices = self.devices_in_order
        return len(_addressable(devices)) == len(devices)

    @property
    def addressable_devices(self) -> frozenset:
        """The devices of this process that hold a part."""
        return frozenset(self.addressable_in_order)

    @property
    def addressable_in_order(self) -> tuple[Any, ...]:
        """The same, in order."""
        return _addressable(self.devices_in_order)

    @property
    def has_addressable_devices(self) -> bool:
        return bool(self.addressable_devices)

    def devices_indices_map(self, global_shape: Shape) -> dict[Any, tuple[slice, ...]]:
        """For each device the slices of an array of this shape that it holds."""
        return dict(_index_map(self, tuple(global_shape)))

    def addressable_devices_indices_map(self, global_shape: Shape) -> dict[Any, tuple[slice, ...]]:
        """The same for the devices of this process."""
        found = _index_map(self, tuple(global_shape))
        return {d: found[d] for d in self.addressable_in_order}

    def _indices(self, shape: Shape) -> list[tuple[slice, ...]]:
        raise TypeError(f"{type(self).__name__} says nothing about devices.")

    def shard_shape(self, global_shape: Shape) -> Shape:
        """The shape of one device's part of an array of this shape."""
        raise TypeError(f"{type(self).__name__} says nothing about devices.")

    def to_hlo_sharding(self, ndim: int) -> Any:
        """The tiling of an array of this rank, in the compiler's form."""
        raise TypeError(f"{type(self).__name__} says nothing about devices.")

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return self.to_hlo_sharding(ndim)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both shardings lay out arrays of this rank in the same way."""
        if self is other:
            return True
        return (
            self.devices_in_order == other.devices_in_order
            and self.memory_kind == other.memory_kind
            and self.to_hlo_sharding(ndim) == other.to_hlo_sharding(ndim)
        )

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises unless an array of this shape can be laid out so."""
        self.shard_shape(tuple(aval_shape))

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same layout in another kind of memory."""
        raise TypeError(f"{type(self).__name__} has no memory kind.")


@functools.lru_cache(4096)
def _index_map(sharding: Sharding, shape: Shape) -> dict[Any, tuple[slice, ...]]:
    return dict(zip(sharding.devices_in_order, sharding._indices(shape), strict=True))


@functools.lru_cache(256)
def distinct_parts(
    sharding: Sharding, shape: Shape
) -> tuple[tuple[tuple[slice, ...], ...], tuple[int, ...]]:
    """Indices of the different parts that this process holds of an array, and for each of its devices which one it has."""
    index_of = _index_map(sharding, shape)
    numbers: dict[tuple, int] = {}
    indices: list[tuple[slice, ...]] = []
    owned: list[int] = []
    for device in sharding.addressable_in_order:
        index = index_of[device]
        span = tuple((s.start, s.stop) for s in index)
        if span not in numbers:
            numbers[span] = len(indices)
            indices.append(index)
        owned.append(numbers[span])
    return tuple(indices), tuple(owned)


@functools.lru_cache(4096)
def _shard_shape(sharding: NamedSharding, shape: Shape) -> Shape:
    return _indices.shard_shape(sharding.spec, sharding.mesh, shape, str(sharding))


@functools.lru_cache(256)
def _addressable(devices: tuple) -> tuple:
    mine = _client.client().process_index()
    return tuple(d for d in devices if d.process_index == mine)


for _cached in (_index_map, distinct_parts, _shard_shape, _addressable):
    caches.register(_cached.cache_clear)


def _memory_kind(devices: tuple, kind: str | None) -> str | None:
    if not devices:
        return kind
    kinds = _client.memory_kinds(devices[0])
    if kind is None:
        return kinds[0]
    if kind not in kinds:
        raise ValueError(
            f"Could not find memory addressable by device {devices[0].device_kind}. Device {devices[0].device_kind} "
            f"can address the following memory kinds: {', '.join(kinds)}. Got memory kind: {kind}"
        )
    return kind


class NamedSharding(Sharding):
    """A mesh and a `PartitionSpec`: dimension `d` is sharded along the mesh axes `spec[d]`.

    Equal shardings are the same object.

    Example:
        >>> from xlab.sharding import make_mesh, NamedSharding, PartitionSpec as P
        >>> NamedSharding(make_mesh((1,), ("x",)), P("x")).shard_shape((4, 2))
        (4, 2)
    """

    __slots__ = (
        "__weakref__",
        "_hash",
        "_hlo",
        "_native",
        "_replicated",
        "_sdy",
        "memory_kind",
        "mesh",
        "spec",
    )
    mesh: Any
    spec: PartitionSpec
    _hash: int
    _hlo: dict[int, Any]
    _sdy: dict[tuple[int, str], str]
    _native: Any
    _replicated: bool | None

    def __new__(
        cls, mesh: Mesh | AbstractMesh, spec: PartitionSpec, memory_kind: str | None = None
    ) -> NamedSharding:
        try:
            return _named[mesh, spec, memory_kind]
        except (KeyError, TypeError):
            pass
        _check(mesh, spec)
        devices = mesh.devices_in_order if isinstance(mesh, Mesh) else ()
        kind = _memory_kind(devices, memory_kind)
        self = _named.get((mesh, spec, kind))
        if self is None:
            self = object.__new__(cls)
            self.mesh, self.spec, self.memory_kind = mesh, spec, kind
            self._hash = hash((mesh, spec, kind))
            self._hlo, self._sdy, self._native, self._replicated = {}, {}, None, None
            self = _named.setdefault((mesh, spec, kind), self)
        _named[mesh, spec, memory_kind] = self
        return self

    @property
    def native(self) -> Any:
        if self._native is None:
            if not isinstance(self.mesh, Mesh):
                raise ValueError(
                    f"{self!r} has no devices: its mesh is abstract, so no array can be laid out by it."
                )
            self._native = _native.native_named(self, self.mesh.token, self.memory_kind)
        return self._native

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        if not isinstance(self.mesh, Mesh):
            raise ValueError(f"{self!r} has no devices: its mesh is abstract.")
        return self.mesh.devices_in_order

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        if self._replicated is None:
            sizes = self.mesh.shape
            self._replicated = (
                all(sizes[a] == 1 for a in self.spec.axes()) and not self.spec.unreduced
            )
        return self._replicated

    @property
    def replicated_axes(self) -> frozenset:
        """Mesh axes along which devices hold equal parts."""
        used = {*self.spec.axes(), *self.spec.unreduced, *self.mesh.manual_axes}
        return frozenset(a for a in self.mesh.axis_names if a not in used)

    def _indices(self, shape: Shape) -> list[tuple[slice, ...]]:
        return _indices.indices(self.spec, self.mesh, shape, str(self))

    def shard_shape(self, global_shape: Shape) -> Shape:
        return _shard_shape(self, tuple(global_shape))

    def to_hlo_sharding(self, ndim: int) -> Any:
        found = self._hlo.get(ndim)
        if found is None:
            found = self._hlo[ndim] = _hlo.from_spec(self.mesh, self.spec, ndim)
        return found

    def sdy(self, ndim: int, mesh_symbol: str = "mesh") -> str:
        """The sharding of a value of this rank as Shardy writes it.

        Example:
            >>> from xlab.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
            >>> NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x")).sdy(2)
            '#sdy.sharding<@mesh, [{"x"}, {}]>'
        """
        key = (ndim, mesh_symbol)
        found = self._sdy.get(key)
        if found is None:
            found = self._sdy[key] = _hlo.sdy_text(self.mesh, self.spec, ndim, mesh_symbol)
        return found

    def update(self, **changes: Any) -> NamedSharding:
        """This sharding with `mesh`, `spec` or `memory_kind` replaced."""
        spec = changes.get("spec", self.spec)
        return NamedSharding(changes.get("mesh", self.mesh),
                             spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec),
                             changes.get("memory_kind", self.memory_kind))  # fmt: skip

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NamedSharding)
            and self._hash == other._hash
            and self.mesh == other.mesh
            and self.spec == other.spec
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec, self.memory_kind)

    def __repr__(self) -> str:
        kind = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


_named: dict[tuple, NamedSharding] = {}


def _check(mesh: Any, spec: Any) -> None:
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            neighbors.refusal(mesh)
            or f"NamedSharding expects a Mesh as its first argument; got {mesh!r} of type {type(mesh).__name__}."
        )
    if not isinstance(spec, PartitionSpec):
        raise TypeError(
            neighbors.refusal(spec)
            or f"NamedSharding expects a PartitionSpec as its second argument; got {spec!r} of type {type(spec).__name__}."
            + (f" Write P{spec!r}." if isinstance(spec, tuple) else "")
        )
    names = mesh.axis_names
    seen: set[Any] = set()
    for axis in spec.axes():
        if axis not in names:
            raise ValueError(
                f"Resource axis: {axis} of {spec} is not found in mesh: {names}. Use one of the mesh's axes, or make a "
                f"mesh with an axis {axis!r}."
            )
        if axis in seen:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                f"dimension, but {spec} has duplicate entries for `{axis}`"
            )
        seen.add(axis)
    for what, axes in (("unreduced", spec.unreduced), ("reduced", spec.reduced)):
        for axis in axes:
            if axis not in names:
                raise ValueError(f"{what} axis {axis!r} of {spec} is not found in mesh: {names}.")
        if axes & set(mesh.auto_axes):
            raise ValueError(
                f"{what.capitalize()} axes can only refer to mesh axes that is of type `Explicit`. Got {what} axes: "
                f"{set(axes)} and mesh: {mesh!s}"
            )


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    Example:
        >>> import xlab.backend.client as client
        >>> SingleDeviceSharding(client.devices()[0]).is_fully_replicated
        True
    """

    __slots__ = ("__weakref__", "_native", "device", "memory_kind")
    device: Any
    _native: Any

    def __new__(cls, device: Any, memory_kind: str | None = None) -> SingleDeviceSharding:
        found = _single.get((device, memory_kind))
        if found is not None:
            return found
        if not isinstance(device, _client.Device):
            raise TypeError(
                neighbors.refusal(device)
                or f"SingleDeviceSharding expects a device, such as xlab.devices()[0]; got {device!r}."
            )
        kind = _memory_kind((device,), memory_kind)
        self = _single.get((device, kind))
        if self is None:
            self = object.__new__(cls)
            self.device, self.memory_kind = device, kind
            self._native = _native.native_single(self, device, kind)
            self = _single.setdefault((device, kind), self)
        _single[device, memory_kind] = self
        return self

    @property
    def native(self) -> Any:
        return self._native

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        return (self.device,)

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def _indices(self, shape: Shape) -> list[tuple[slice, ...]]:
        return [(slice(None),) * len(shape)]

    def shard_shape(self, global_shape: Shape) -> Shape:
        return tuple(global_shape)

    def to_hlo_sharding(self, ndim: int) -> Any:
        return _native.REPLICATED

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, SingleDeviceSharding)
            and self.device == other.device
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash((self.device, self.memory_kind))

    def __reduce__(self) -> Any:
        return _single_by_id, (self.device.id, self.memory_kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}, memory_kind={self.memory_kind})"


_single: dict[tuple, SingleDeviceSharding] = {}


def _single_by_id(device_id: int, kind: str | None) -> SingleDeviceSharding:
    return SingleDeviceSharding(next(d for d in _client.devices() if d.id == device_id), kind)


def make_single_device_sharding(
    device: Any, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding that puts a whole array on one device."""
    return SingleDeviceSharding(device, memory_kind)


class GSPMDSharding(Sharding):
    """A tiling in the compiler's form, for those that no mesh and spec describe."""

    __slots__ = ("__weakref__", "_devices", "_hlo_sharding", "_native", "memory_kind")

    def __init__(self, devices: Any, hlo_sharding: Any, memory_kind: str | None = None):
        self._devices = tuple(devices)
        self._hlo_sharding = hlo_sharding
        self.memory_kind = _memory_kind(self._devices, memory_kind)
        self._native = None

    @classmethod
    def get_replicated(cls, devices: Any, memory_kind: str | None = None) -> GSPMDSharding:
        """Every device holds the whole array."""
        return cls(devices, _native.REPLICATED, memory_kind)

    @property
    def native(self) -> Any:
        if self._native is None:
            where = _native.device_list(self._devices)
            self._native = _native.native_gspmd(self, where, self._hlo_sharding, self.memory_kind)
        return self._native

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        return self._devices

    @property
    def is_fully_replicated(self) -> bool:
        return len(self._devices) == 1 or self._hlo_sharding.is_replicated()

    def _indices(self, shape: Shape) -> list[tuple[slice, ...]]:
        return _hlo.indices(self._hlo_sharding, shape, len(self._devices), str(self))

    def shard_shape(self, global_shape: Shape) -> Shape:
        return _hlo.shard_shape(self._hlo_sharding, tuple(global_shape), str(self))

    def to_hlo_sharding(self, ndim: int) -> Any:
        return self._hlo_sharding

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        return GSPMDSharding(self._devices, self._hlo_sharding, kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, GSPMDSharding)
            and self._devices == other._devices
            and self._hlo_sharding == other._hlo_sharding
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash((self._devices, self._hlo_sharding, self.memory_kind))

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._hlo_sharding}, memory_kind={self.memory_kind})"


def from_native(native: Any) -> Sharding:
    """The sharding object behind the one an array stores.

    Example:
        >>> import xlab.backend.client as client
        >>> s = SingleDeviceSharding(client.devices()[0])
        >>> from_native(s.native) is s
        True
    """
    owner = _native.owner_of(native)
    if owner is not None:
        return owner
    if type(native) is _native.NativeSingle:
        owner = SingleDeviceSharding(native._device, native._memory_kind)
    elif type(native) is _native.NativeGSPMD:
        owner = GSPMDSharding(
            tuple(native._internal_device_list), native._hlo_sharding, native._memory_kind
        )
    else:
        raise TypeError(
            f"{native!r} is a sharding of another package. Bring the array over with numpy.asarray(array)."
        )
    _native.adopt(native, owner)
    return owner


def _clear() -> None:
    _named.clear()


def device_ids(sharding: Sharding) -> np.ndarray:
    """The ids of a sharding's devices, in order."""
    return np.array([d.id for d in sharding.devices_in_order], dtype=np.int64)


caches.register(_clear)


for _cls in (Sharding, Mesh, AbstractMesh):
    neighbors.answer_jax(
        _cls,
        ("_internal_device_list", "_is_concrete"),
        "a sharding or a mesh of xlab's",
        "Make one of JAX's over as many devices: jax.sharding.NamedSharding(jax.make_mesh(sizes, names), jax.P(...)); an array goes over "
        "with jax.numpy.asarray(numpy.asarray(x)).",
    )
