"""`Mesh` and `AbstractMesh`: devices, or their number alone, arranged along named axes."""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.backend import client as _client
from xlab.backend import shardings as _native
from xlab.backend.values import value_class
from xlab.config import config

ENTERED = "entered_mesh"
"""Name of the context value that `with mesh:` sets."""


class AxisType(enum.Enum):
    """Who decides shardings along a mesh axis: the compiler (Auto), the types (Explicit), the code (Manual).

    `Auto`: the compiler. `Explicit`: the types of the program. `Manual`: the program's body, as in `shard_map`.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


@value_class
class AbstractDevice:
    """What is known of the devices of an abstract mesh."""

    device_kind: str
    num_cores: int | None = None
    platform: str | None = None

    def __repr__(self) -> str:
        platform = f", platform={self.platform}" if self.platform else ""
        return f"device_kind={self.device_kind}, num_cores={self.num_cores}{platform}"


class _Axes:
    """What concrete and abstract meshes have in common: named, sized, typed axes."""

    __slots__ = ()
    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """Axis sizes by axis name."""
        return collections.OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        return bool(self.axis_types) and all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        return bool(self.axis_types) and all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        return bool(self.axis_types) and all(t is AxisType.Manual for t in self.axis_types)

    def _describe(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        types = f"axis_types={self.axis_types!r}"
        return f"{sizes}, {types}" if sizes else types


def _axis_types(what: str, names: tuple, types: Any) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    if isinstance(types, AxisType):
        types = (types,) * len(names) if len(names) == 1 else (types,)
    types = tuple(types)
    for t in types:
        if not isinstance(t, AxisType):
            raise TypeError(
                f"{what}: axis_types must be AxisType.Auto, .Explicit or .Manual; got {t!r}."
            )
    if len(types) != len(names):
        raise ValueError(
            f"Number of axis names should match the number of axis_types. Got axis_names={names} and "
            f"axis_types={types}"
        )
    return types


def _axis_names(names: Any) -> tuple[Any, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    for name in found:
        if name is None:
            raise ValueError(f"Mesh axis names cannot be None. Got: {found}")
    if len(set(found)) != len(found):
        raise ValueError(f"Mesh axis names must differ from one another; got {found}.")
    return found


class Mesh(_Axes):
    """Devices arranged in a grid with named axes.

    Args:
        devices: an array of devices, one dimension per axis.
        axis_names: a name per dimension.
        axis_types: an `AxisType` per dimension, by default `Auto`.

    Equal meshes are the same object. `with mesh:` makes it the current one.

    Example:
        >>> import numpy as np, xlab.backend.client as client
        >>> mesh = Mesh(np.array(client.devices()[:1]), ("x",))
        >>> mesh.shape["x"], mesh.size
        (1, 1)
    """

    __slots__ = ("__weakref__", "_entered", "_flat", "_hash", "_token", "abstract_mesh", "axis_names", "axis_sizes",
                 "axis_types", "devices", "size")  # fmt: skip
    devices: np.ndarray
    size: int
    abstract_mesh: AbstractMesh
    _flat: tuple[Any, ...]
    _hash: int
    _token: Any
    _entered: list[Any]

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        grid = devices if isinstance(devices, np.ndarray) else np.array(devices, dtype=object)
        names = _axis_names(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {grid.ndim} and len(axis_names) == {len(names)}."
            )
        types = _axis_types("Mesh", names, axis_types)
        flat = tuple(grid.flat) if grid.ndim else ()
        key = (flat, grid.shape, names, types)
        found = _meshes.get(key)
        if found is not None:
            return found
        for device in flat:
            if not isinstance(device, _client.Device):
                raise TypeError(
                    f"A Mesh is made of devices, such as xlab.devices(); got {device!r}."
                )
        if len(set(flat)) != len(flat):
            raise ValueError(f"A Mesh cannot use a device twice; got {[d.id for d in flat]}.")
        self = object.__new__(cls)
        self.devices = grid.copy()
        self.devices.flags.writeable = False
        self.axis_names, self.axis_sizes, self.axis_types = names, tuple(grid.shape), types
        self.size = math.prod(grid.shape) if grid.ndim else 0
        self._flat = flat
        self._hash = hash(key)
        self._entered = []
        self._token = None
        kind = AbstractDevice(flat[0].device_kind, None, flat[0].platform) if flat else None
        self.abstract_mesh = AbstractMesh(self.axis_sizes, names, types, abstract_device=kind)
        return _meshes.setdefault(key, self)

    @property
    def token(self) -> Any:
        """The token that stands for this mesh in native code."""
        if self._token is None:
            self._token = _native.MeshToken(self, _native.device_list(self._flat))
        return self._token

    @property
    def devices_in_order(self) -> tuple[Any, ...]:
        """The devices, the last axis varying fastest: the order of a program's device assignment."""
        return self._flat

    _flat_devices_tuple = devices_in_order

    @property
    def empty(self) -> bool:
        return self.size == 0

    @property
    def is_scalar(self) -> bool:
        return self.devices.ndim == 0

    @property
    def device_ids(self) -> np.ndarray:
        """The ids of the devices, in the mesh's shape."""
        return np.array([d.id for d in self._flat], dtype=np.int64).reshape(self.axis_sizes)

    @property
    def is_multi_process(self) -> bool:
        return len({d.process_index for d in self._flat}) > 1

    @property
    def local_devices(self) -> list[Any]:
        """The mesh's devices that belong to this process."""
        mine = _client.process_index()
        return [d for d in self._flat if d.process_index == mine]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that belongs to this process."""
        if not self.is_multi_process:
            return self
        mine = _client.process_index()
        inside = np.vectorize(lambda d: d.process_index == mine, otypes=[bool])(self.devices)
        window = tuple(slice(int(i.min()), int(i.max()) + 1) for i in np.nonzero(inside))
        return Mesh(self.devices[window], self.axis_names, self.axis_types)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """This mesh with some fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        self._entered.append(config.set_context_value(ENTERED, None if self.empty else self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        config.set_context_value(ENTERED, self._entered.pop())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Mesh)
            and self._flat == other._flat
            and self.shape_tuple == other.shape_tuple
            and self.axis_types == other.axis_types
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _rebuild, (self.device_ids.tolist(), self.axis_names, self.axis_types)

    def __str__(self) -> str:
        return f"Mesh({self._describe()})"

    def __repr__(self) -> str:
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, axis_types={self.axis_types})"


_meshes: dict[tuple, Mesh] = {}


def _rebuild(ids: list, names: tuple, types: tuple) -> Mesh:
    by_id = {d.id: d for d in _client.devices()}
    wanted = np.array(ids, dtype=np.int64)
    missing = [i for i in wanted.flat if int(i) not in by_id]
    if missing:
        raise ValueError(
            f"This mesh was saved where devices {missing} existed; here there are {len(by_id)} devices."
        )
    grid = np.empty(wanted.shape, dtype=object)
    for index, i in np.ndenumerate(wanted):
        grid[index] = by_id[int(i)]
    return Mesh(grid, names, types)


class AbstractMesh(_Axes):
    """Named, sized axes without devices: enough to trace and lower programs for other machines.

    Example:
        >>> AbstractMesh((4, 2), ("x", "y")).size
        8
    """

    __slots__ = (
        "__weakref__",
        "_hash",
        "abstract_device",
        "axis_names",
        "axis_sizes",
        "axis_types",
        "size",
    )
    abstract_device: AbstractDevice | None
    size: int
    _hash: int

    def __new__(cls, axis_sizes: Any, axis_names: Any, axis_types: Any = None, *,
                abstract_device: AbstractDevice | None = None) -> AbstractMesh:  # fmt: skip
        sizes = (axis_sizes,) if isinstance(axis_sizes, int) else tuple(int(s) for s in axis_sizes)
        names = _axis_names(axis_names)
        if len(sizes) != len(names):
            raise ValueError(
                f"AbstractMesh needs a size for each axis name; got sizes {sizes} and names {names}."
            )
        types = _axis_types("AbstractMesh", names, axis_types)
        key = (sizes, names, types, abstract_device)
        found = _abstract_meshes.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.axis_sizes, self.axis_names, self.axis_types = sizes, names, types
        self.abstract_device = abstract_device
        self.size = math.prod(sizes) if sizes else 0
        self._hash = hash((sizes, names, types))
        return _abstract_meshes.setdefault(key, self)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    @property
    def empty(self) -> bool:
        return self.size == 0

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **kwargs: Any
    ) -> AbstractMesh:
        """This mesh with some fields replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=kwargs.get("abstract_device", self.abstract_device),
        )

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """This mesh with the types of some axes replaced."""
        types = tuple(
            name_to_type.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True)
        )
        return self.update(axis_types=types)

    def _no_devices(self, what: str) -> Any:
        raise ValueError(
            f"AbstractMesh has no {what}: it stands for axes only. Make a Mesh with make_mesh(...)."
        )

    @property
    def devices(self) -> Any:
        return self._no_devices("devices")

    @property
    def device_ids(self) -> Any:
        return self._no_devices("device_ids")

    @property
    def local_devices(self) -> Any:
        return self._no_devices("local_devices")

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, AbstractMesh)
            and self.shape_tuple == other.shape_tuple
            and self.axis_types == other.axis_types
            and self.abstract_device == other.abstract_device
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _rebuild_abstract, (
            self.axis_sizes,
            self.axis_names,
            self.axis_types,
            self.abstract_device,
        )

    def __repr__(self) -> str:
        device = f", {self.abstract_device!r}" if self.abstract_device else ""
        return f"AbstractMesh({self._describe()}{device})"


_abstract_meshes: dict[tuple, AbstractMesh] = {}


def _rebuild_abstract(
    sizes: tuple, names: tuple, types: tuple, device: AbstractDevice | None
) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *,
              devices: Sequence[Any] | None = None) -> Mesh:  # fmt: skip
    """A mesh of the first devices of the machine, or of the given ones.

    Args:
        axis_shapes: size of each axis.
        axis_names: name of each axis.
        axis_types: `AxisType` of each axis, by default `Explicit`.

    Example:
        >>> make_mesh((1,), ("x",)).axis_types
        (Explicit,)
    """
    shape = (axis_shapes,) if isinstance(axis_shapes, int) else tuple(int(s) for s in axis_shapes)
    names = _axis_names(axis_names)
    if len(shape) != len(names):
        raise ValueError(f"make_mesh needs one name per axis; got shape {shape} and names {names}.")
    if any(s < 1 for s in shape):
        raise ValueError(f"Mesh axes have at least size 1; got shape {shape}.")
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(names)
    available = _client.devices() if devices is None else list(devices)
    wanted = math.prod(shape)
    if wanted > len(available):
        more = (
            "" if devices is not None
            else f" Devices of the CPU are virtual: ask for {wanted} with XLAB_NUM_CPU_DEVICES={wanted} or "
            f"xlab.config.update('num_cpu_devices', {wanted}) before the first device is used (restart the kernel), "
            "or make a smaller mesh."
        )  # fmt: skip
        raise ValueError(
            f"Number of devices {len(available)} must be >= the product of mesh_shape {shape}, which is {wanted}.{more}"
        )
    if devices is not None and wanted != len(available):
        raise ValueError(
            f"The mesh shape {shape} uses {wanted} devices, but {len(available)} were given."
        )
    grid = np.empty(wanted, dtype=object)
    grid[:] = available[:wanted]
    return Mesh(grid.reshape(shape), names, axis_types)
