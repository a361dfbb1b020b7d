"""Resolves devices, shardings, layouts and donation of a program from all that was requested."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.compile.devices import (
    DeviceAssignment,
    concretize_sharding,
    device_assignment,
    intermediate_shardings,
    meeting,
    sharding_sources,
)
from xlab.compile.devices import resolve as agree_on_devices
from xlab.compile.placement import arg_sharding, physical_sharding, settled
from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, explicit_types, symbolic_types
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr
from xlab.core.source_info import warn
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.dead_code import reads_everything, variables_read
from xlab.interpreters.mlir.dynamic_shapes import is_dynamic
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    get_abstract_mesh,
)
from xlab.sharding.typed import memory_kind, mesh_of_devices, result_sharding


class LoweringRequest(NamedTuple):
    """What a program is lowered for. Entries are per argument or result, None where nothing is requested.

    Attributes:
        arg_shardings: shardings of committed arguments.
        in_shardings, out_shardings: what the user asked for.
        donated: positions of donated arguments.
        keep_unused: whether unused arguments are kept.
        in_layouts, out_layouts: layouts asked for; empty where none is.
        result_name: what errors call a result.
        context_mesh: the current mesh, if there is one.
        platform: lowers for this one, instead of that of the devices.
        compiler_options: XLA options by name.
    """

    arg_shardings: Sequence
    in_shardings: Sequence | None = None
    out_shardings: Sequence | None = None
    donated: Sequence[int] = ()
    keep_unused: bool = False
    in_layouts: Sequence = ()
    out_layouts: Sequence = ()
    result_name: Callable[[int], str] = "result {}".format
    context_mesh: Any = None
    platform: str | None = None
    compiler_options: Mapping[str, Any] | None = None


class Resolution(NamedTuple):
    """The resolved request. Attributes not explained here are those of `MeshComputation`.

    Attributes:
        program: the program after dead code elimination, with the arguments it uses.
        donated: by argument the result that reuses its buffer, None to let the compiler choose.
        typed_mesh: the mesh of the shardings in the values' types, if there is one.
    """

    program: ClosedJaxpr
    kept: tuple[int, ...]
    devices: tuple
    committed: bool
    mesh: Any
    in_shardings: tuple
    out_shardings: tuple
    donated: dict[int, int | None]
    typed_mesh: Any


def resolve(closed: ClosedJaxpr, name: str, request: LoweringRequest) -> Resolution:
    """Decides devices, shardings and donation, and drops dead code and unused arguments."""
    jaxpr = closed.jaxpr
    n = len(jaxpr.invars)
    asked = list(request.in_shardings or [None] * n)
    outs = list(request.out_shardings or [None] * len(jaxpr.outvars))
    given = list(map(settled, request.arg_shardings))
    # Shapes of all arguments may be what dimension variables are found from.
    keep = request.keep_unused or (symbolic_types.in_use and is_dynamic(closed.in_avals))
    live, kept = (closed, tuple(range(n))) if keep else needed(closed)

    assignments, mesh, moves = _assignments(jaxpr, live, name, request, kept, asked, given, outs)
    abstract = get_abstract_mesh()
    if (
        request.platform is not None
        and not abstract.empty
        and not any(c.devices for c in assignments)
    ):
        assignments.append(DeviceAssignment((), "the current mesh", abstract.size))
    devices, committed = agree_on_devices(
        assignments,
        f"jit({name})",
        request.platform,
        lambda: meeting(
            live.jaxpr,
            [
                None if s is None else device_assignment(s, "").devices or None
                for s in (a or g for a, g in zip(asked, given))
            ],
        ),
    )
    if any(c.count for c in assignments):
        asked, given, outs = (
            [concretize_sharding(s, devices) for s in found] for found in (asked, given, outs)
        )
        mesh = concretize_sharding(
            NamedSharding(mesh if mesh is not None else abstract, PartitionSpec()), devices
        ).mesh
    typed_mesh = next(
        (m for m in (mesh, request.context_mesh) if m is not None and m.are_all_axes_explicit), None
    )
    if typed_mesh is not None:  # types of results say where they go
        outs = [
            result_sharding(v.aval, typed_mesh)
            if s is None and isinstance(v.aval, ShapedArray)
            else s
            for s, v in zip(outs, jaxpr.outvars)
        ]

    lies = [a if a is not None else g for a, g in zip(asked, given)]
    for i in request.donated:
        if lies[i] is None and len(devices) > 1:
            lies[i] = _as_read(live.jaxpr, live.jaxpr.invars[i], devices)
    donated = _usable_donations(closed, request, kept, lies, outs)
    ins = tuple(
        _argument_sharding(lies[i], jaxpr.invars[i].aval, i in donated, mesh, devices) for i in kept
    )
    for i, s in zip(kept, ins):
        if s is not None:
            _check_fits(
                s,
                jaxpr.invars[i].aval,
                name,
                lambda i=i: f"argument `{jaxpr.debug_info.arg_name(i)}`",
            )
    for i, s in enumerate(outs):
        if s is not None:
            _check_fits(s, jaxpr.outvars[i].aval, name, lambda i=i: f"`{request.result_name(i)}`")
    program = (
        live
        if len(kept) == n
        else ClosedJaxpr(live.jaxpr.replace(invars=[jaxpr.invars[i] for i in kept]), live.consts)
    )
    return Resolution(
        program,
        kept,
        devices,
        committed or moves,
        mesh,
        tuple(
            s if s is None else physical_sharding(s, jaxpr.invars[i].aval)
            for i, s in zip(kept, ins)
        ),
        tuple(outs),
        donated,
        typed_mesh,
    )


# -- what the program needs ---------------------------------------------------------------------------------


def needed(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, tuple[int, ...]]:
    """The program after dead code elimination, and which arguments it uses; it still takes all of them."""

    def make():
        old = closed.jaxpr
        read = variables_read(old)
        if reads_everything(old, read):
            return None, _positions(old, read)
        jaxpr, used, _ = pe.dce_jaxpr_consts(old, [True] * len(old.outvars), instantiate=True)
        if (
            all(used)
            and len(jaxpr.eqns) == len(old.eqns)
            and all(map(operator.is_, jaxpr.eqns, old.eqns))
        ):
            return None, _positions(old, read)
        smaller = ClosedJaxpr(
            jaxpr.replace(debug_info=old.debug_info), [c for c, r in zip(closed.consts, used) if r]
        )
        return smaller, _positions(jaxpr, variables_read(jaxpr))

    # Not the program itself, which would wait for the garbage collector.
    smaller, kept = closed.memo("needed", make)
    return smaller or closed, kept


def _positions(jaxpr, read: set) -> tuple[int, ...]:
    return tuple(i for i, v in enumerate(jaxpr.invars) if v in read)


# -- where it runs ------------------------------------------------------------------------------------------


def _assignments(
    jaxpr, live: ClosedJaxpr, name: str, request: LoweringRequest, kept, asked, given, outs
) -> tuple[list[DeviceAssignment], Any, bool]:
    """The required device assignments, the mesh, and whether the program moves values between memories."""
    said = {
        i: device_assignment(
            asked[i], f"the in_shardings entry of `{jaxpr.debug_info.arg_name(i)}`"
        )
        for i in kept
        if asked[i] is not None
    }
    # These are moved.
    assignments = [
        device_assignment(
            given[i],
            f"argument `{jaxpr.debug_info.arg_name(i)}` of {name} with type {jaxpr.invars[i].aval}",
        )
        for i in kept
        if given[i] is not None and not (i in said and said[i].devices)
    ]
    assignments += said.values()
    assignments += (
        device_assignment(s, "an explicit output sharding") for s in outs if s is not None
    )
    mesh = next(
        (
            s.mesh
            for s in (*(asked[i] or given[i] for i in kept), *outs)
            if isinstance(s, NamedSharding)
        ),
        None,
    )
    moves = False
    for s, eqn in intermediate_shardings(live.jaxpr):
        if not isinstance(s, Sharding):
            moves = True
            continue
        assignments.append(
            device_assignment(s, f"{eqn.primitive.name} inside {name} at {eqn.source_info}")
        )
        if mesh is None and isinstance(s, NamedSharding):
            mesh = s.mesh
    context = request.context_mesh
    if context is not None and not context.empty:
        assignments.append(DeviceAssignment(tuple(context.devices.flat), "the current mesh"))
        mesh = mesh or context
    if not assignments:  # constants follow the program; if nothing else places it, it follows them
        own = [s for s in map(arg_sharding, live.consts) if s is not None]
        if own and all(s.devices_in_order == own[0].devices_in_order for s in own):
            assignments.append(device_assignment(own[0], "a closed-over constant"))
            mesh = next((s.mesh for s in own if isinstance(s, NamedSharding)), None)
    if (
        not assignments and explicit_types.in_use
    ):  # nothing but the types of results says where to run
        explicit = next(
            (
                v.aval.explicit_sharding
                for v in jaxpr.outvars
                if isinstance(v.aval, ShapedArray) and v.aval.explicit_sharding is not None
            ),
            None,
        )
        mesh = mesh_of_devices(explicit) if explicit is not None else None
        if mesh is not None:
            assignments.append(DeviceAssignment(mesh.devices_in_order, f"the mesh of {explicit}"))
    return assignments, mesh, moves


def _argument_sharding(lies, aval, donated: bool, mesh, devices: tuple):
    """The sharding of an argument; None where the compiler decides."""
    if lies is not None:
        return lies
    several = len(devices) > 1
    if several and isinstance(aval, ShapedArray) and aval.ndim and not donated:
        return None
    kind = memory_kind(aval)
    return replicated(mesh, devices, kind) if several else SingleDeviceSharding(devices[0], kind)


def _as_read(jaxpr: Jaxpr, v, devices: tuple):
    """How an argument lies that one equation reads and lays out, as a `shard_map` does; None if the program does not say."""
    readers = [eqn for eqn in jaxpr.eqns if v in eqn.invars]
    if len(readers) != 1 or v in jaxpr.outvars:
        return None
    (eqn,) = readers
    rule = sharding_sources.get(eqn.primitive)
    found = list(rule(eqn)) if rule is not None else []
    if len(found) != len(eqn.invars) + len(eqn.outvars):  # not one for each
        return None
    sharding = found[eqn.invars.index(v)]
    fits = sharding.devices_in_order == devices and memory_kind(v.aval) in (
        None,
        sharding.memory_kind,
    )
    return sharding if fits else None


def replicated(mesh, devices: Sequence, kind: str | None = None) -> NamedSharding:
    """The replicated sharding, over the mesh if there is one."""
    if mesh is None:
        mesh = Mesh(np.array(devices, dtype=object), ("device",))
    return NamedSharding(mesh, PartitionSpec(), kind)


def _check_fits(sharding, aval, name, what):
    """Raises if a value cannot have the sharding: its rank is too small, or a dimension does not divide."""
    if isinstance(aval, ShapedArray):
        try:
            sharding.shard_shape(aval.shape)
        except ValueError as e:
            raise type(e)(
                f"jit({name}): {what()} of type {aval} does not fit its sharding. {e}"
            ) from None


# -- who gets which buffer ---------------------------------------------------------------------------------


def _usable_donations(
    closed: ClosedJaxpr, request: LoweringRequest, kept, ins, outs
) -> dict[int, int | None]:
    """The result that reuses each donated buffer, None to let the compiler choose; warns about unusable ones."""
    donated, in_layouts, out_layouts = request.donated, request.in_layouts, request.out_layouts
    if not donated or config.debug_nans or config.debug_infs:
        return {}
    avals, results = closed.in_avals, closed.out_avals
    free = [o for o, a in enumerate(results) if isinstance(a, ShapedArray)]
    read = set(kept)
    out: dict[int, int | None] = {}

    def where(sharding, aval, layout):
        kind = sharding.memory_kind if sharding is not None else None
        return kind or ("pinned_host" if aval.memory_space == "host" else "device"), layout

    def size(aval):
        physical = physical_aval(aval)
        return physical.size * dtypes.itemsize(physical.dtype)

    for same in (
        lambda a, b: a.shape == b.shape and a.dtype == b.dtype,
        lambda a, b: size(a) == size(b),
    ):
        for i in donated:
            if i not in read or i in out or not isinstance(avals[i], ShapedArray):
                continue
            here = where(ins[i], avals[i], in_layouts[i] if in_layouts else None)
            match = next(
                (
                    o
                    for o in free
                    if same(avals[i], results[o])
                    and where(outs[o], results[o], out_layouts[o] if out_layouts else None) == here
                ),
                None,
            )
            if match is not None:
                free.remove(match)
                out[i] = (
                    match
                    if avals[i].shape == results[match].shape
                    and avals[i].dtype == results[match].dtype
                    else None
                )
    unusable = [avals[i] for i in donated if i in read and i not in out]
    if unusable:
        warn(
            f"Some donated buffers were not usable: {', '.join(map(str, unusable))}. A buffer can be reused only for a result of as "
            f"many bytes, in the same kind of memory and layout; donate fewer arguments."
        )
    return out
