"""Which devices a program runs on, and the error when its parts disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import client
from xlab.compile.placement import default_sharding
from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, inner_jaxprs, subjaxprs
from xlab.core.rules import RuleTable
from xlab.core.source_info import warn
from xlab.errors import IncompatibleDevices
from xlab.sharding import (
    UNCONSTRAINED,
    AbstractMesh,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
)
from xlab.sharding.typed import memory_space

sharding_sources = RuleTable(
    "compile.sharding_sources",
    "find shardings in",
    "rule(eqn) -> iterable of shardings the equation fixes",
    required=False,
)


class DeviceAssignment(NamedTuple):
    """A required device assignment: an ordered tuple of devices, or only their number."""

    devices: tuple
    who: str
    count: int = 0  # of a mesh without devices


class PlaceholderDevice(NamedTuple):
    """Stands for a device of an abstract mesh, for programs lowered for another machine."""

    id: int
    platform: str
    process_index: int = 0


def device_assignment(sharding, who: str) -> DeviceAssignment:
    """The device assignment that a sharding requires."""
    if _abstract(sharding):
        return DeviceAssignment((), who, sharding.mesh.size)
    return DeviceAssignment(sharding.devices_in_order, who)


def deprecated_device_sharding(
    device, backend: str | None, in_shardings, out_shardings
) -> SingleDeviceSharding:
    """Where `jit(device=, backend=)` runs a program.

    Raises:
        ValueError: when shardings are given as well, or both arguments are.
    """
    if device is not None and backend is not None:
        raise ValueError(
            f"can't specify both a device and a backend for jit, got device={device!r} and backend={backend!r}"
        )
    for name, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        if given is not None:
            raise ValueError(
                f"If backend or device is specified on jit, then {name} should not be specified."
            )
    warn(
        "jit(device=, backend=) is deprecated: put the arguments where the program is to run, with xlab.device_put(x, device), "
        "or call it within xlab.default_device(device).",
        DeprecationWarning,
    )
    return SingleDeviceSharding(client.devices(backend)[0] if device is None else device)


def concretize_sharding(sharding, devices: Sequence):
    """A sharding over a mesh without devices, over the devices a program has; others as they are."""
    if not _abstract(sharding) or isinstance(devices[0], PlaceholderDevice):
        return sharding
    mesh = sharding.mesh
    return NamedSharding(
        Mesh(
            np.array(devices, dtype=object).reshape(mesh.axis_sizes),
            mesh.axis_names,
            mesh.axis_types,
        ),
        sharding.spec,
        memory_kind=sharding.memory_kind,
    )


def is_compatible(asked, given, ndim: int) -> bool:
    """Whether sharding `given` satisfies `asked`; `resolve` checks device counts of abstract meshes."""
    if _abstract(asked) and _abstract(given):
        return asked.mesh.shape_tuple == given.mesh.shape_tuple and all(
            asked.spec.axes_of(d) == given.spec.axes_of(d) for d in range(ndim)
        )
    for one, other in ((asked, given), (given, asked)):
        if _abstract(one):
            devices = other.devices_in_order
            return one.mesh.size != len(devices) or concretize_sharding(
                one, devices
            ).is_equivalent_to(other, ndim)
    return given.is_equivalent_to(asked, ndim) or _reordered(asked, given, ndim)


def leaves_room(asked, given) -> bool:
    """Whether a sharding is one that an open sharding asks for: the same where that one says anything."""
    return (
        isinstance(given, NamedSharding)
        and asked.mesh == given.mesh
        and asked.memory_kind == given.memory_kind
        and all(
            entry is UNCONSTRAINED or asked.spec.axes_of(d) == given.spec.axes_of(d)
            for d, entry in enumerate(asked.spec)
        )
        and all(not given.spec.axes_of(d) for d in range(len(asked.spec), len(given.spec)))
    )


def check_memory(asked, aval, what) -> None:
    """Raises where `in_shardings` name another memory than the program was traced for."""
    if asked is not None and memory_space(asked) != getattr(aval, "memory_space", None):
        raise ValueError(
            f"{what()} of type {aval}, and the program was traced for that, but in_shardings asks for it in the memory "
            f"{asked.memory_kind!r}. Bring it there first with xlab.device_put(x, {asked})."
        )


def _reordered(asked, given, ndim: int) -> bool:
    """Whether two shardings differ only in device order, so that whole shards can be copied."""
    return (
        isinstance(asked, NamedSharding)
        and isinstance(given, NamedSharding)
        and asked.device_set == given.device_set
        and asked.devices_in_order != given.devices_in_order
        and asked.memory_kind == given.memory_kind
        and asked.to_hlo_sharding(ndim) == given.to_hlo_sharding(ndim)
    )


def _abstract(sharding) -> bool:
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def intermediate_shardings(jaxpr: Jaxpr) -> Iterator[tuple[Any, Any]]:
    """Shardings fixed inside a program with the equation that fixes each, nested programs last; memories that something moves to as well."""
    find, eqns = sharding_sources.get, jaxpr.eqns
    sources = {p for p in set(map(attrgetter("primitive"), eqns)) if find(p) is not None}
    if sources:
        for eqn in eqns:
            if eqn.primitive in sources:
                for sharding in find(eqn.primitive)(eqn):
                    if sharding is not None:
                        yield sharding, eqn
    for inner in subjaxprs(jaxpr):
        yield from intermediate_shardings(inner)


def meeting(jaxpr: Jaxpr, sides: Sequence) -> JaxprEqn | None:
    """The first equation that takes values of two sides, in the innermost program that shows it.

    `sides` holds what each argument belongs to, None where it belongs nowhere.
    """
    side = dict(zip(jaxpr.invars, sides))
    for eqn in jaxpr.eqns:
        given = [None if isinstance(v, Literal) else side.get(v) for v in eqn.invars]
        found = {s for s in given if s is not None}
        if len(found) > 1:
            inner = inner_jaxprs(eqn.params)
            same = len(inner) == 1 and len(inner[0].invars) == len(given)
            return (meeting(inner[0], given) if same else None) or eqn
        if found:
            side.update(dict.fromkeys(eqn.outvars, *found))
    return None


def resolve(
    assignments: Sequence[DeviceAssignment],
    what: str,
    platform: str | None = None,
    meets: Callable[[], JaxprEqn | None] = lambda: None,
) -> tuple[tuple, bool]:
    """The devices that all requirements agree on, in order, and whether any requirement named them.

    Where there are only meshes without devices, they are `PlaceholderDevice` ones of the platform. `meets` is asked where they do not agree.
    """
    if not assignments:
        return tuple(default_sharding().devices_in_order), False
    first = next((c for c in assignments if c.devices), None)
    if first is None:
        if platform is None:
            raise ValueError(
                f"{what} knows only meshes without devices: {assignments[0].who} is laid over an AbstractMesh. Say what it is lowered for, with "
                f"jit(f).trace(...).lower(lowering_platforms=...) or xlab.export, or give it a Mesh of devices (xlab.make_mesh)."
            )
        first = DeviceAssignment(
            tuple(PlaceholderDevice(i, platform) for i in range(assignments[0].count)),
            assignments[0].who,
        )
    for other in assignments:
        if other.count and other.count != len(first.devices):
            raise IncompatibleDevices(
                f"{what} got incompatible devices: {first.who} is on {len(first.devices)} devices, but {other.who} is laid over an AbstractMesh of size "
                f"{other.count}: AbstractMesh should be of the same size across all shardings. Give both meshes of one size."
            )
        if not other.count and other.devices != first.devices:
            same = [d.id for d in first.devices] == [d.id for d in other.devices]
            sides: dict[tuple, list[str]] = {}  # one for all on the same devices in the same order
            for c in (first, other, *assignments):
                if c.devices and c.who not in (found := sides.setdefault(c.devices, [])):
                    found.append(c.who)
            more = len(sides) > 2 or any(len(found) > 1 for found in sides.values())
            met = meets()
            # An operation by itself has the name of its program.
            alone = met is None or what == f"jit({met.primitive.name})"
            place = None if alone else met.source_info.position()
            error = IncompatibleDevices(
                f"{what} got incompatible devices: {first.who} is on {_devices(first.devices)}, but {other.who} is on "
                f"{_devices(other.devices)}{' of another client' if same else ''}. {_all_sides(sides) if more else ''}"
                f"{f'They meet in {met.primitive.name} at {place}. ' if place else ''}Put "
                f"{'all' if more else 'both'} on the same devices (xlab.device_put), or leave {'some' if more else 'one'} uncommitted."
            )
            error.sides = tuple(
                (_several(found), tuple(d.id for d in devices)) for devices, found in sides.items()
            )
            error.place = place
            raise error
    return first.devices, True


def _all_sides(sides: dict[tuple, list[str]]) -> str:
    """Everything that places the program, by devices."""
    rows = [f"on {_devices(devices)}: {_several(found)}" for devices, found in sides.items()]
    hidden = f"; and {len(rows) - 8} more" if len(rows) > 8 else ""
    return f"In all, {'; '.join(rows[:8])}{hidden}. "


def _several(found: list[str]) -> str:
    hidden = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return ", ".join(found[:5]) + hidden


def _devices(devices) -> str:
    ids = [d.id for d in devices]
    shown = str(ids) if len(ids) <= 16 else f"[{ids[0]}, ..., {ids[-1]}] ({len(ids)} devices)"
    return f"device ids {shown} on platform {devices[0].platform.upper()}"
