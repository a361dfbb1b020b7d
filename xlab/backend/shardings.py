"""Native shardings that arrays carry, each pointing back to the sharding object users see.

The native classes compare mesh and spec in C++ when a call's signature is matched. We give them small tokens: they are
interned, compare by identity first, and pass the check that JAX installs in the native constructor.
"""

from __future__ import annotations

from typing import Any

from xlab.backend import class_sharing
from xlab.backend.native import _hlo, _jax, neighbor_present

HloSharding = _hlo.HloSharding
OpSharding = _hlo.OpSharding
NativeNamed = _jax.NamedSharding
NativeSingle = _jax.SingleDeviceSharding
NativeGSPMD = _jax.GSPMDSharding

REPLICATED = HloSharding.replicate()
_OWNER = "_xlab_owner"


class MeshToken:
    """A mesh as native code sees it: its size and its devices (None for an abstract mesh)."""

    __slots__ = ("__weakref__", "_internal_device_list", "axis_types", "mesh", "size")

    def __init__(self, mesh: Any, devices: Any):
        self.mesh = mesh
        self.size = mesh.size
        self._internal_device_list = devices
        self.axis_types = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is MeshToken and self.mesh == other.mesh)

    def __hash__(self) -> int:
        return hash(self.mesh)


class SpecToken:
    """A spec as native code sees it: an object that compares as the owner's spec does."""

    __slots__ = ("owner", "partitions", "reduced", "unreduced")

    def __init__(self, owner: Any):
        self.owner = owner
        self.partitions = ()
        self.unreduced = self.reduced = frozenset()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is SpecToken and self.owner.spec == other.owner.spec)

    def __hash__(self) -> int:
        return hash(self.owner.spec)


def device_list(devices: Any) -> Any:
    """The native, ordered, hashable list of devices."""
    return _jax.DeviceList(tuple(devices))


def native_named(owner: Any, mesh_token: MeshToken, memory_kind: str | None) -> Any:
    """The native sharding for a mesh and a spec."""
    return NativeNamed(mesh_token, SpecToken(owner), memory_kind)


def native_single(owner: Any, device: Any, memory_kind: str | None) -> Any:
    """The native sharding for one device."""
    native = NativeSingle(device, memory_kind)
    setattr(native, _OWNER, owner)
    return native


def native_gspmd(owner: Any, devices: Any, hlo_sharding: Any, memory_kind: str | None) -> Any:
    """The native sharding for an HLO tiling."""
    native = NativeGSPMD(devices, hlo_sharding, memory_kind)
    setattr(native, _OWNER, owner)
    return native


def owner_of(native: Any) -> Any:
    """Our sharding object behind a native one, or None if native code made it."""
    if type(native) is NativeNamed:
        spec = native.spec
        return spec.owner if type(spec) is SpecToken else None
    return getattr(native, _OWNER, None)


def adopt(native: Any, owner: Any) -> None:
    """Makes `owner` the sharding object behind a native one that native code made."""
    setattr(native, _OWNER, owner)


def hlo_from_iota(dims: tuple[int, ...], reshape: tuple[int, ...], order: tuple[int, ...],
                  subgroups: tuple[Any, ...] = ()) -> Any:  # fmt: skip
    """A tiling whose device order is a transposed iota; `subgroups` name the kinds of the trailing dims."""
    return HloSharding.iota_tile(dims, reshape, order, subgroups)


def hlo_to_bytes(tiling: Any) -> bytes:
    """A tiling for another process, as `hlo_from_bytes` reads it."""
    return bytes(tiling.to_proto().SerializeToString())


def hlo_from_bytes(data: bytes) -> Any:
    """The tiling that `hlo_to_bytes` wrote."""
    proto = OpSharding()
    proto.ParseFromString(data)
    return HloSharding.from_proto(proto)


REPLICATED_KIND = OpSharding.Type.REPLICATED
MANUAL_KIND = OpSharding.Type.MANUAL
UNREDUCED_KIND = getattr(OpSharding.Type, "UNREDUCED", None)


def set_unconstrained(value: Any) -> None:
    """Tells native code which object in a spec means "leave this dimension to the compiler"."""
    if not neighbor_present():
        _jax.set_pspec_unconstrained(value)


def _named_hlo(self, ndim: int) -> Any:
    return self.spec.owner.to_hlo_sharding(ndim)


def _single_hlo(self, ndim: int) -> Any:
    return REPLICATED


def _gspmd_hlo(self, ndim: int) -> Any:
    return self._hlo_sharding


def _memory_kind(self) -> str | None:
    return self._memory_kind


def _named_is_ours(native: Any) -> bool:
    return type(native.spec) is SpecToken


def _has_owner(native: Any) -> bool:
    return getattr(native, _OWNER, None) is not None


def _install() -> None:
    kind = property(_memory_kind)
    class_sharing.install(
        NativeNamed, {"_to_xla_hlo_sharding": _named_hlo, "memory_kind": kind}, _named_is_ours
    )
    class_sharing.install(
        NativeSingle, {"_to_xla_hlo_sharding": _single_hlo, "memory_kind": kind}, _has_owner
    )
    class_sharing.install(
        NativeGSPMD, {"_to_xla_hlo_sharding": _gspmd_hlo, "memory_kind": kind}, _has_owner
    )
    if not neighbor_present():
        _prepare_named_constructor()


def _prepare_named_constructor() -> None:
    """Gives the native constructor a checker, which it would otherwise fetch from JAX.

    The constructor looks the function up once and keeps it, so ours passes foreign meshes on to JAX's,
    if the user imports JAX later.
    """
    import sys
    import types

    where = "jax._src.named_sharding"

    def check_pspec(mesh: Any, spec: Any, *args: Any, **kwargs: Any) -> None:
        if type(mesh) is not MeshToken:
            theirs = getattr(sys.modules.get(where), "check_pspec", None)
            if theirs is not None and theirs is not check_pspec:
                theirs(mesh, spec, *args, **kwargs)

    names = ("jax", "jax._src", where)
    try:
        for name in names:
            sys.modules[name] = types.ModuleType(name)
        sys.modules[where].check_pspec = check_pspec  # type: ignore[attr-defined]
        probe = MeshToken.__new__(MeshToken)
        probe.mesh, probe.size, probe.axis_types = "probe", 1, ()
        probe._internal_device_list = None
        NativeNamed(probe, ())
    finally:
        for name in names:
            sys.modules.pop(name, None)


_install()
