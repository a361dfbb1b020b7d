"""Lowers a program to a StableHLO module, with the devices and shardings that `resolve.py` decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlab import events
from xlab.backend.compiling import annotation
from xlab.backend.values import fresh, record_class, replaced
from xlab.collector import in_strides
from xlab.compile import effects as _effects
from xlab.compile import layouts, logs
from xlab.compile.devices import PlaceholderDevice, concretize_sharding
from xlab.compile.placement import physical_sharding
from xlab.compile.queries import needs_devices_to_lower
from xlab.compile.resolve import LoweringRequest, Resolution, resolve
from xlab.config import config
from xlab.core.avals import TOKEN
from xlab.core.jaxpr import ClosedJaxpr, number_part
from xlab.interpreters.mlir import LoweredModule, lower_module
from xlab.interpreters.mlir.shardings import tiling_text
from xlab.interpreters.mlir.values import escape, physical_aval
from xlab.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
from xlab.sharding.typed import memory_kind


@record_class
class MeshComputation:
    """A program lowered for particular devices and shardings, ready to be compiled."""

    closed: ClosedJaxpr
    module: LoweredModule
    name: str
    devices: tuple
    committed: bool
    kept: tuple[int, ...]
    in_shardings: tuple  # per kept argument, None where the compiler decides
    out_shardings: tuple  # per result, None where the compiler decides
    donated: tuple[int, ...]
    mesh: Any
    compiler_options: dict = fresh(factory=dict)
    refused: tuple[int, ...] = ()  # donated arguments that no result can use
    in_layouts: tuple = ()  # per kept argument the layout asked for, or None; empty where none was
    out_layouts: tuple = ()  # the same of results
    key: tuple = ()  # the key of the lowered program and its executable in its jit's cache


rewriter: Callable[[ClosedJaxpr], ClosedJaxpr] | None = None
"""Called with every program before it is lowered, without what it does not need; what it returns is lowered. See `set_rewriter`."""


def set_rewriter(rewrite: Callable[[ClosedJaxpr], ClosedJaxpr] | None) -> None:
    """Lowers `rewrite(program)` in place of every program from now on; None lowers programs as they are.

    A program has been pruned of dead code and unused arguments by then. What is lowered already stays as it is until
    `clear_caches()`.

    Args:
        rewrite: a function from a `ClosedJaxpr` to one that takes and returns values of the same types.

    Example:
        >>> import xlab
        >>> seen = []
        >>> set_rewriter(lambda closed: seen.append(closed) or closed)
        >>> _ = xlab.jit(lambda x: x + 1).lower(1)
        >>> set_rewriter(None)
        >>> len(seen)
        1
    """
    global rewriter
    rewriter = rewrite


@in_strides()
def lower(closed: ClosedJaxpr, name: str, request: LoweringRequest) -> MeshComputation:
    """Decides devices and shardings, drops unused arguments and emits StableHLO."""
    layouts.note((*request.in_layouts, *request.out_layouts))
    found = resolve(closed, name, request)
    module = _emit(closed, name, request, found)
    return MeshComputation(
        closed,
        module,
        name,
        found.devices,
        found.committed,
        found.kept,
        found.in_shardings,
        found.out_shardings,
        tuple(sorted(found.donated)),
        found.mesh,
        dict(request.compiler_options or {}),
        tuple(i for i in request.donated if i not in found.donated),
        tuple(request.in_layouts[i] for i in found.kept) if request.in_layouts else (),
        tuple(request.out_layouts),
    )


def _emit(
    closed: ClosedJaxpr, name: str, request: LoweringRequest, found: Resolution
) -> LoweredModule:
    """The text of the module, with a sharding on every argument and result."""
    jaxpr, devices = closed.jaxpr, found.devices
    program = found.program if rewriter is None else _rewritten(found.program, name)
    several = len(devices) > 1
    tokens = _effects.check_devices(closed.effects, devices)

    def argument(i, sharding, meshes):
        aval, donated = jaxpr.invars[i].aval, found.donated.get(i, -1)
        if several and sharding is not None and aval is not TOKEN:
            yield f"sdy.sharding = {_sdy(sharding, physical_aval(aval).ndim, meshes)}"
        if donated != -1:
            yield (
                "jax.buffer_donor = true"
                if several or donated is None
                else f"tf.aliasing_output = {donated + tokens} : i32"
            )
        yield from _memory_attribute(sharding, aval)
        if request.in_layouts:
            yield from layouts.attribute(
                request.in_layouts[i],
                aval,
                f"the argument {jaxpr.debug_info.arg_name(i)} of jit({name})",
            )

    def result(i, sharding, meshes):
        aval = jaxpr.outvars[i].aval
        if request.out_layouts:
            yield from layouts.attribute(request.out_layouts[i], aval, f"result {i} of jit({name})")
        if several and sharding is not None and aval is not TOKEN:
            yield f"sdy.sharding = {_sdy(physical_sharding(sharding, aval), physical_aval(aval).ndim, meshes)}"
        yield from _memory_attribute(sharding, aval)
        yield f'jax.result_info = "{escape(request.result_name(i))}"'

    if logs.enabled():
        logs.log(
            "Compiling jit(%s) with global shapes and types (%s). Argument mapping: (%s).",
            name,
            ", ".join(str(jaxpr.invars[i].aval) for i in found.kept),
            ", ".join(map(str, found.in_shardings)),
        )
    platform = request.platform or devices[0].platform
    typed_mesh = found.typed_mesh.abstract_mesh if found.typed_mesh is not None else None

    def make() -> LoweredModule:
        with (
            events.span("lower", name=name, closed=closed) as attrs,
            annotation("lower"),
            logs.timed("Finished jaxpr to MLIR module conversion jit(%s) in %.9f sec", name),
        ):
            module = lower_module(
                program,
                name,
                platform=platform,
                devices=len(devices),
                assignment=devices,
                arg_attributes=lambda meshes: [
                    _attributes(argument(i, s, meshes))
                    for i, s in zip(found.kept, found.in_shardings)
                ],
                result_attributes=lambda meshes: [
                    _attributes(result(i, s, meshes)) for i, s in enumerate(found.out_shardings)
                ],
                numbers=number_part(program.jaxpr, jaxpr),
                typed_mesh=typed_mesh,
            )
            attrs["bytes"] = len(module.text)
        return module

    if program is not found.program or needs_devices_to_lower(program):
        return make()
    # Everything but the devices: the same program on others is compiled, and not lowered again.
    key = (
        "module",
        name,
        platform,
        len(devices),
        found.kept,
        tuple(map(_without_devices, (*found.in_shardings, *found.out_shardings))),
        tuple(found.donated.items()),
        tuple(request.in_layouts),
        tuple(request.out_layouts),
        typed_mesh,
        config.trace_context(),
    )
    return closed.memo(key, make)


def _rewritten(program: ClosedJaxpr, name: str) -> ClosedJaxpr:
    """What the rewriter makes of a program."""
    made = rewriter(program)
    for what, was, now in (
        ("arguments", program.in_avals, made.in_avals),
        ("results", program.out_avals, made.out_avals),
    ):
        if list(was) != list(now):
            raise TypeError(
                f"the rewriter returned a program for jit({name}) with {what} of types ({', '.join(map(str, now))}), but those of the "
                f"given one are ({', '.join(map(str, was))}): calls of jit({name}) go on as before, so that they have to be the same"
            )
    return made


def _without_devices(sharding) -> Any:
    """What a module says of a sharding: all but the devices."""
    if isinstance(sharding, NamedSharding):
        return sharding.mesh.abstract_mesh, sharding.spec, sharding.memory_kind
    if isinstance(sharding, SingleDeviceSharding):
        return sharding.memory_kind
    return sharding


def _attributes(parts) -> str:
    text = ", ".join(parts)
    return f" {{{text}}}" if text else ""


def _sdy(sharding, ndim, meshes) -> str:
    if isinstance(sharding, NamedSharding):
        return sharding.sdy(ndim, meshes.symbol(sharding.mesh))
    if isinstance(sharding, SingleDeviceSharding):
        raise ValueError(f"{sharding} cannot be used in a program on several devices")
    return tiling_text(sharding.to_hlo_sharding(ndim), ndim, len(sharding.devices_in_order), meshes)


def _memory_attribute(sharding, aval) -> list[str]:
    """The memory-kind attribute of an argument or result: from the user's sharding, or from its type."""
    kind = memory_kind(aval) if sharding is None else sharding.memory_kind
    return [] if kind in (None, "device") else [f'mhlo.memory_kind = "{kind}"']


def on_devices(lowered: MeshComputation, devices: tuple) -> MeshComputation:
    """Binds a program lowered for an abstract mesh to these devices; one with devices must have the same."""
    had = lowered.devices
    if not isinstance(had[0], PlaceholderDevice):
        if had != devices:
            raise ValueError(
                f"{lowered.name} was lowered for device ids {[d.id for d in had]} on platform {had[0].platform.upper()}, but is to be "
                f"compiled for device ids {[d.id for d in devices]} on platform {devices[0].platform.upper() if devices else 'none'}: "
                f"leave device_assignment out, or lower it for arguments over an AbstractMesh"
            )
        return lowered
    if len(devices) != len(had) or any(d.platform != had[0].platform for d in devices):
        raise ValueError(
            f"{lowered.name} was lowered for {len(had)} devices of platform {had[0].platform.upper()}, and cannot be compiled for "
            f"{len(devices)} of {sorted({d.platform.upper() for d in devices})}: give as many devices of that platform"
        )
    ins, outs = (
        tuple(concretize_sharding(s, devices) if s is not None else None for s in found)
        for found in (lowered.in_shardings, lowered.out_shardings)
    )
    mesh = (
        None
        if lowered.mesh is None
        else concretize_sharding(NamedSharding(lowered.mesh, PartitionSpec()), devices).mesh
    )
    return replaced(lowered, devices=devices, in_shardings=ins, out_shardings=outs, mesh=mesh)
