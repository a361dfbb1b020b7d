"""Lower, compile, call.

An `Executable` is one compiled program with everything needed to call it safely: types, shardings, which arguments it
kept. `call` checks and places every argument; afterwards the native fast path repeats the call without Python.
"""

from __future__ import annotations

import copy
import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from xlab import events
from xlab.backend import arrays as _arrays
from xlab.backend import compiling as _compiling
from xlab.backend import dispatch as _native
from xlab.backend.transfer_guards import explicit_transfer
from xlab.compile import disk_cache, divergence, layouts, logs, memory_cache
from xlab.compile import effects as _effects
from xlab.compile.devices import (
    DeviceAssignment,
    PlaceholderDevice,
    concretize_sharding,
    device_assignment,
    intermediate_shardings,
    resolve,
)
from xlab.compile.history import ledger
from xlab.compile.history.parts import PlacementKey
from xlab.compile.placement import place
from xlab.config import check_thread, config
from xlab.core import donation, dtypes
from xlab.core.array import KeyArray, is_native_array, key_sharding
from xlab.core.avals import TOKEN, ShapedArray, aval_of, explicit_types
from xlab.core.jaxpr import ClosedJaxpr, number_part
from xlab.core.refs import Ref
from xlab.core.tokens import Token
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.mlir import LoweredModule, lower_module
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import (
    UNCONSTRAINED,
    GSPMDSharding,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    from_hlo_sharding,
    from_native,
    get_abstract_mesh,
)
from xlab.sharding.hlo import are_hlo_shardings_equal
from xlab.sharding.typed import memory_kind, mesh_of_devices, result_sharding, typed


@dataclass(eq=False)
class MeshComputation:
    """A program lowered for particular devices and shardings, ready to be compiled."""

    closed: ClosedJaxpr
    module: LoweredModule
    name: str
    devices: tuple
    committed: bool
    kept: tuple[int, ...]
    in_shardings: tuple            # per kept argument, None where the compiler decides
    out_shardings: tuple           # per result, None where the compiler decides
    donated: tuple[int, ...]
    mesh: Any
    compiler_options: dict = field(default_factory=dict)
    refused: tuple[int, ...] = ()  # donated arguments that no result can use
    in_layouts: tuple = ()         # per kept argument the layout asked for, or None; empty where none was
    out_layouts: tuple = ()        # the same of results
    key: tuple = ()                # by which the jit that lowered it finds it, and what was compiled of it


def arg_sharding(x):
    """The sharding of a committed array; None for values that go where the program goes."""
    if type(x) is Ref:
        x = x.peek()
    if isinstance(x, KeyArray):
        return key_sharding(arg_sharding(x.base), x.aval.ndim)
    if is_native_array(x) and x._committed:
        return from_native(x._sharding)
    return None


def physical_sharding(sharding, aval):
    """A sharding of keys as a sharding of the array they are made of."""
    if isinstance(sharding, NamedSharding) and isinstance(aval, ShapedArray) and dtypes.is_extended(aval.dtype):
        spec = tuple(sharding.spec) + (None,) * (aval.ndim - len(sharding.spec))
        return NamedSharding(sharding.mesh, PartitionSpec(*spec, *(None,) * len(aval.dtype.base_shape)),
                             memory_kind=sharding.memory_kind)
    return sharding


def is_open(sharding) -> bool:
    """Whether some dimension is left to the compiler, so that only the compiled program says how the value lies."""
    return isinstance(sharding, NamedSharding) and UNCONSTRAINED in sharding.spec


def _settled(sharding):
    """How a value lies whose sharding leaves dimensions open: these are not sharded."""
    if not is_open(sharding):
        return sharding
    return sharding.update(spec=PartitionSpec(*(None if p is UNCONSTRAINED else p for p in sharding.spec)))


def needed(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, tuple[int, ...]]:
    """The program without the equations and constants that no result and no effect needs, and which arguments it reads; all of them stay."""
    def make():
        old = closed.jaxpr
        read = _read(old)
        if read.issuperset(chain(old.constvars, chain.from_iterable(map(attrgetter("outvars"), old.eqns)))):
            return None, _positions(old, read)
        jaxpr, used, _ = pe.dce_jaxpr_consts(old, [True] * len(old.outvars), instantiate=True)
        if all(used) and len(jaxpr.eqns) == len(old.eqns) and all(map(operator.is_, jaxpr.eqns, old.eqns)):
            return None, _positions(old, read)
        smaller = ClosedJaxpr(jaxpr.replace(debug_info=old.debug_info), [c for c, r in zip(closed.consts, used) if r])
        return smaller, _positions(jaxpr, _read(jaxpr))
    smaller, kept = closed.memo("needed", make)      # not the program itself, which would wait for the garbage collector
    return smaller or closed, kept


def _read(jaxpr) -> set:
    """What the equations and results read."""
    return {*chain.from_iterable(map(attrgetter("invars"), jaxpr.eqns)), *jaxpr.outvars}


def _positions(jaxpr, read: set) -> tuple[int, ...]:
    return tuple(i for i, v in enumerate(jaxpr.invars) if v in read)


def lower(closed: ClosedJaxpr, name: str, arg_shardings: Sequence, *, in_shardings: Sequence | None = None,
          out_shardings: Sequence | None = None, donated: Sequence[int] = (), keep_unused: bool = False,
          arg_names: Sequence[str] = (), result_name: Callable[[int], str] = "result {}".format, context_mesh=None, compiler_options=None,
          mesh_override: tuple | None = None, in_layouts: Sequence = (), out_layouts: Sequence = (),
          platform: str | None = None) -> MeshComputation:
    """Decides devices and shardings, drops unused arguments and emits StableHLO.

    `arg_shardings` are those of committed arguments (None otherwise); `in_shardings` and `out_shardings` what the user
    asked for (None per value where unspecified).
    """
    jaxpr = closed.jaxpr
    n = len(jaxpr.invars)
    layouts.note((*in_layouts, *out_layouts))
    in_shardings = list(in_shardings) if in_shardings is not None else [None] * n
    out_shardings = list(out_shardings) if out_shardings is not None else [None] * len(jaxpr.outvars)
    arg_shardings = [_settled(s) for s in arg_shardings]
    names = list(arg_names) if len(arg_names) == n else [f"argument {i}" for i in range(n)]

    live, kept = (closed, tuple(range(n))) if keep_unused else needed(closed)

    asked = {i: device_assignment(in_shardings[i], f"the in_shardings entry of `{names[i]}`") for i in kept if in_shardings[i] is not None}
    assignments = [device_assignment(arg_shardings[i], f"argument `{names[i]}` of {name} with type {jaxpr.invars[i].aval}")
              for i in kept if arg_shardings[i] is not None and not (i in asked and asked[i].devices)]     # it is brought to those
    assignments += asked.values()
    for s in out_shardings:
        if s is not None:
            assignments.append(device_assignment(s, "an explicit output sharding"))
    mesh = next((s.mesh for s in (*(in_shardings[i] or arg_shardings[i] for i in kept), *out_shardings)
                 if isinstance(s, NamedSharding)), None)
    moves = False       # between memories: somebody chose where values are
    for s, eqn in intermediate_shardings(live.jaxpr):
        if not isinstance(s, Sharding):
            moves = True
            continue
        assignments.append(device_assignment(s, f"{eqn.primitive.name} inside {name} at {eqn.source_info}"))
        if mesh is None and isinstance(s, NamedSharding):
            mesh = s.mesh
    if context_mesh is not None and not context_mesh.empty:
        assignments.append(DeviceAssignment(tuple(context_mesh.devices.flat), "the current mesh"))
        mesh = mesh or context_mesh
    if not assignments:  # constants go where the program goes; where nothing else says so, it goes to them
        own = [s for s in map(arg_sharding, live.consts) if s is not None]
        if own and all(s.devices_in_order == own[0].devices_in_order for s in own):
            assignments.append(device_assignment(own[0], "a closed-over constant"))
            mesh = next((s.mesh for s in own if isinstance(s, NamedSharding)), None)
    if not assignments and explicit_types.in_use:  # nothing but the types of results says where to run
        explicit = next((v.aval.explicit_sharding for v in jaxpr.outvars if isinstance(v.aval, ShapedArray) and v.aval.explicit_sharding is not None), None)
        mesh = mesh_of_devices(explicit) if explicit is not None else None
        if mesh is not None:
            assignments.append(DeviceAssignment(mesh.devices_in_order, f"the mesh of {explicit}"))
    abstract = get_abstract_mesh()
    if platform is not None and not abstract.empty and not any(c.devices for c in assignments):
        assignments.append(DeviceAssignment((), "the current mesh", abstract.size))
    devices, committed = resolve(assignments, f"jit({name})", platform)
    committed = committed or moves
    if any(c.count for c in assignments):
        in_shardings, arg_shardings, out_shardings = ([concretize_sharding(s, devices) for s in found]
                                                      for found in (in_shardings, arg_shardings, out_shardings))
        mesh = concretize_sharding(NamedSharding(mesh if mesh is not None else abstract, PartitionSpec()), devices).mesh
    explicit = next((m for m in (mesh, context_mesh) if m is not None and m.are_all_axes_explicit), None)
    if explicit is not None:  # types of results say where they go
        out_shardings = [result_sharding(v.aval, explicit) if s is None and isinstance(v.aval, ShapedArray) else s
                         for s, v in zip(out_shardings, jaxpr.outvars)]

    several = len(devices) > 1
    n_tokens = _effects.check_devices(closed.effects, devices)
    donate = _usable_donations(closed, donated, kept, [a or b for a, b in zip(in_shardings, arg_shardings)], out_shardings,
                               in_layouts, out_layouts)
    final_in = []
    for i in kept:
        s = in_shardings[i] if in_shardings[i] is not None else arg_shardings[i]
        aval = jaxpr.invars[i].aval
        if s is None and several and isinstance(aval, ShapedArray) and aval.ndim and i not in donate:
            final_in.append(None)  # the compiler decides
            continue
        if s is None:
            kind = memory_kind(aval)
            s = _everywhere(mesh, devices, kind) if several else SingleDeviceSharding(devices[0], kind)
        _check_fits(s, aval, name, lambda i=i: f"argument `{names[i]}`")
        final_in.append(physical_sharding(s, aval))
    for i, s in enumerate(out_shardings):
        if s is not None:
            _check_fits(s, jaxpr.outvars[i].aval, name, lambda i=i: f"`{result_name(i)}`")

    kept_jaxpr = live.jaxpr if len(kept) == n else live.jaxpr.replace(invars=[jaxpr.invars[i] for i in kept])
    kept_closed = live if kept_jaxpr is live.jaxpr else ClosedJaxpr(kept_jaxpr, live.consts)

    def arg_attributes(meshes):
        out = []
        for i, s in zip(kept, final_in):
            parts = []
            if several and s is not None and jaxpr.invars[i].aval is not TOKEN:
                parts.append(f"sdy.sharding = {_sdy(s, physical_aval(jaxpr.invars[i].aval).ndim, meshes)}")
            if i in donate:
                parts.append("jax.buffer_donor = true" if several or donate[i] is None
                             else f"tf.aliasing_output = {donate[i] + n_tokens} : i32")
            parts += _memory_attribute(s, jaxpr.invars[i].aval)
            if in_layouts:
                parts += layouts.attribute(in_layouts[i], jaxpr.invars[i].aval, f"the argument {names[i]} of jit({name})")
            out.append(f" {{{', '.join(parts)}}}" if parts else "")
        return out

    def result_attributes(meshes):
        out = []
        for i, (v, s) in enumerate(zip(jaxpr.outvars, out_shardings)):
            parts = layouts.attribute(out_layouts[i], v.aval, f"result {i} of jit({name})") if out_layouts else []
            if several and s is not None and v.aval is not TOKEN:
                aval = physical_aval(v.aval)
                parts.append(f"sdy.sharding = {_sdy(physical_sharding(s, v.aval), aval.ndim, meshes)}")
            parts += _memory_attribute(s, v.aval)
            out.append(f" {{{', '.join(parts)}}}" if parts else "")
        return out

    if logs.logger.isEnabledFor(10) or config.log_compiles:
        logs.log("Compiling jit(%s) with global shapes and types (%s). Argument mapping: (%s).", name,
                 ", ".join(str(jaxpr.invars[i].aval) for i in kept), ", ".join(map(str, final_in)))
    with (logs.timed("Finished jaxpr to MLIR module conversion jit(%s) in %.9f sec", name),
          events.span("lower", name=name, closed=closed) as attrs):
        module = lower_module(kept_closed, name, platform=platform or devices[0].platform, devices=len(devices), assignment=devices,
                              arg_attributes=arg_attributes, result_attributes=result_attributes, numbers=number_part(kept_closed.jaxpr, jaxpr),
                              typed_mesh=explicit.abstract_mesh if explicit is not None else None)
        attrs["bytes"] = len(module.text)
    return MeshComputation(closed, module, name, devices, committed, kept, tuple(final_in), tuple(out_shardings),
                   tuple(sorted(donate)), mesh, dict(compiler_options or {}),
                   tuple(i for i in donated if i not in donate), tuple(in_layouts[i] for i in kept) if in_layouts else (),
                   tuple(out_layouts))


def on_devices(lowered: MeshComputation, devices: tuple) -> MeshComputation:
    """A program that was lowered for a mesh without devices, for these; one that has devices, if they are the same."""
    had = lowered.devices
    if not isinstance(had[0], PlaceholderDevice):
        if had != devices:
            raise ValueError(f"{lowered.name} was lowered for device ids {[d.id for d in had]} on platform {had[0].platform.upper()}, but is to be "
                             f"compiled for device ids {[d.id for d in devices]} on platform {devices[0].platform.upper() if devices else 'none'}: "
                             f"leave device_assignment out, or lower it for arguments over an AbstractMesh")
        return lowered
    if len(devices) != len(had) or any(d.platform != had[0].platform for d in devices):
        raise ValueError(f"{lowered.name} was lowered for {len(had)} devices of platform {had[0].platform.upper()}, and cannot be compiled for "
                         f"{len(devices)} of {sorted({d.platform.upper() for d in devices})}: give as many devices of that platform")
    ins, outs = (tuple(concretize_sharding(s, devices) if s is not None else None for s in found) for found in (lowered.in_shardings, lowered.out_shardings))
    mesh = None if lowered.mesh is None else concretize_sharding(NamedSharding(lowered.mesh, PartitionSpec()), devices).mesh
    return replace(lowered, devices=devices, in_shardings=ins, out_shardings=outs, mesh=mesh)


def _check_fits(sharding, aval, name, what):
    """Raises where a value cannot be laid out so: its rank is too small, or a dimension does not divide."""
    if isinstance(aval, ShapedArray):
        try:
            sharding.shard_shape(aval.shape)
        except ValueError as e:
            raise type(e)(f"jit({name}): {what()} of type {aval} does not fit its sharding. {e}") from None


def _sdy(sharding, ndim, meshes) -> str:
    if isinstance(sharding, NamedSharding):
        return sharding.sdy(ndim, meshes.symbol(sharding.mesh))
    if isinstance(sharding, SingleDeviceSharding) or sharding.is_fully_replicated:
        raise ValueError(f"{sharding} cannot be used in a program on several devices")
    raise ValueError(
        f"{sharding} has no mesh axes to name: give this argument a NamedSharding (xlab.device_put) first")


def _memory_attribute(sharding, aval) -> list[str]:
    """Says in which memory an argument or result is: where the user asked for it, or where its type says."""
    kind = memory_kind(aval) if sharding is None else sharding.memory_kind
    return [] if kind in (None, "device") else [f'mhlo.memory_kind = "{kind}"']


def _everywhere(mesh, devices, kind=None):
    import numpy as np

    from xlab.sharding import Mesh
    if mesh is None:
        mesh = Mesh(np.array(devices, dtype=object), ("device",))
    return NamedSharding(mesh, PartitionSpec(), kind)


def _usable_donations(closed, donated, kept, ins, outs, in_layouts, out_layouts) -> dict[int, int | None]:
    """For each donated argument the result that takes its buffer, None where one of other type may; warns about those with none."""
    if not donated or config.debug_nans or config.debug_infs:
        return {}
    avals, results = closed.in_avals, closed.out_avals
    free = [o for o, a in enumerate(results) if isinstance(a, ShapedArray)]
    out: dict[int, int | None] = {}

    def where(sharding, aval, layout):
        kind = sharding.memory_kind if sharding is not None else None
        return kind or ("pinned_host" if aval.memory_space == "host" else "device"), layout

    def size(aval):
        physical = physical_aval(aval)
        return physical.size * dtypes.itemsize(physical.dtype)

    for same in (lambda a, b: a.shape == b.shape and a.dtype == b.dtype, lambda a, b: size(a) == size(b)):
        for i in donated:
            if i not in kept or i in out or not isinstance(avals[i], ShapedArray):
                continue
            here = where(ins[i], avals[i], in_layouts[i] if in_layouts else None)
            match = next((o for o in free if same(avals[i], results[o])
                          and where(outs[o], results[o], out_layouts[o] if out_layouts else None) == here), None)
            if match is not None:
                free.remove(match)
                out[i] = match if avals[i].shape == results[match].shape and avals[i].dtype == results[match].dtype else None
    unusable = [avals[i] for i in donated if i in kept and i not in out]
    if unusable:
        warnings.warn(f"Some donated buffers were not usable: {', '.join(map(str, unusable))}. A buffer can be reused only for a result of as "
                      f"many bytes, in the same kind of memory and layout; donate fewer arguments.", stacklevel=2)
    return out


class Executable:
    """A compiled program. `made_by` is a weak reference to the jitted function that made it, and the structure of its arguments."""

    made_by: tuple[Callable[[], Any], Any] = (lambda: None, None)

    def __init__(self, lowered: MeshComputation, reason: str = "", differences: tuple = (), placed: PlacementKey | None = None):
        self.lowered = lowered
        closed = lowered.closed
        self.name = lowered.name
        self.in_avals = tuple(closed.in_avals)
        self.out_avals = tuple(closed.out_avals)
        self.physical_in = [physical_aval(a) for a in closed.in_avals]
        self.physical_out = [physical_aval(a) for a in closed.out_avals]
        self.kept = lowered.kept
        self.donated = tuple(k for k, i in enumerate(lowered.kept) if i in lowered.donated)     # positions among those kept
        self.devices = lowered.devices
        if isinstance(self.devices[0], PlaceholderDevice):
            raise RuntimeError(f"jit({self.name}) was lowered for a mesh without devices, so there is nothing here to compile it for: give its "
                               f"arguments shardings over a Mesh of devices (xlab.make_mesh), say where with compile(device_assignment=devices), or keep it "
                               f"with xlab.export.")
        several = len(self.devices) > 1
        self.across_processes = several and len({d.process_index for d in self.devices}) > 1
        self.ordered = lowered.module.ordered
        self.effectful = _effects.at_run_time(lowered)
        n_tokens = len(self.ordered)
        memory_cache.make_room()
        start = events.clock()
        logs.dump(self.name, lowered.module.text, closed)
        with (logs.timed("Finished XLA compilation of jit(%s) in %.9f sec", self.name),
              events.span("compile", name=self.name, devices=len(self.devices), reason=reason, executable=self) as attrs):
            to_outputs = [*(False for _ in self.ordered), *(s is None or is_open(s) for s in lowered.out_shardings)]
            to_inputs = [*(False for _ in self.ordered), *(True for _ in lowered.module.hoisted), *(s is None or is_open(s) for s in lowered.in_shardings)]
            self.native, cached = disk_cache.compiled(
                self.name, lowered.module.text, self.devices, lambda: _compiling.compile_text(
                    lowered.module.text, self.devices, partitions=len(self.devices), allow_propagation_to_outputs=to_outputs,
                    allow_propagation_to_inputs=to_inputs, options=lowered.compiler_options or None,
                    host_callbacks=lowered.module.callbacks),
                options=lowered.compiler_options or {}, propagation="".join("01"[x] for x in (*to_inputs, *to_outputs)),
                storable=not lowered.module.callbacks)
            if cached.found:
                attrs["disk"] = cached.found
        ledger.add(self.name, closed, start, events.clock(), reason, differences, placed, cached)
        # Devices that wait for one another: such programs take turns, and Python starts each of them.
        self.needs_serial_launch = several and _compiling.communicates(self.native)
        self.describe_stuck = None      # of a program whose devices may wait for ever
        if self.needs_serial_launch and not self.across_processes:
            self.describe_stuck = divergence.watched(closed, self.name, self.devices)
        self.callbacks = tuple(lowered.module.callbacks)
        for callback in self.callbacks:
            callback.continues_after_failure = self.needs_serial_launch
        self.in_shardings = lowered.in_shardings
        chosen = _compiling.parameter_shardings(self.native)[n_tokens:] if several else None
        if chosen is not None:
            names = closed.jaxpr.debug_info.arg_names
            self._check_followed(lowered.in_shardings, chosen[len(lowered.module.hoisted):], [closed.in_avals[i] for i in self.kept],
                                 lambda k: f"argument `{names[self.kept[k]] if self.kept[k] < len(names) else self.kept[k]}`")
            self.in_shardings = tuple(
                s if s is not None and not is_open(s) else self._result_sharding(g, self.physical_in[i], s)
                for i, s, g in zip(self.kept, self.in_shardings, chosen[len(lowered.module.hoisted):]))
        if several:
            given = _compiling.output_shardings(self.native)[n_tokens:]
            self._check_followed(lowered.out_shardings, given, self.out_avals, "result {}".format)
            self.out_shardings = tuple(
                physical_sharding(s, a) if s is not None and not is_open(s) else self._result_sharding(g, p, s)
                for s, a, g, p in zip(lowered.out_shardings, self.out_avals, given, self.physical_out))
        else:
            named = lowered.mesh is not None and hasattr(lowered.mesh, "devices")
            one = functools.partial(NamedSharding, lowered.mesh, PartitionSpec()) if named else \
                functools.partial(SingleDeviceSharding, self.devices[0])
            self.out_shardings = tuple(_settled(s) if s is not None else one(memory_kind=memory_kind(a))
                                       for s, a in zip(lowered.out_shardings, self.out_avals))
            self.in_shardings = tuple(map(_settled, self.in_shardings))
        self.committed = lowered.committed or several
        self.spellings: dict[NamedSharding, Executable] = {}
        by_position = dict(zip(self.kept, lowered.in_shardings))
        self._spell(*self._first_placed([by_position.get(i) for i in range(len(self.in_avals))]))
        with explicit_transfer():
            self.consts = self._placed_constants(chosen)

    def _check_followed(self, asked, given, avals, what) -> None:
        """Raises where the compiler laid a value otherwise than was asked: what is handed out would be read by the wrong sharding."""
        for k, (s, found, aval) in enumerate(zip(asked, given, avals)):
            if not isinstance(s, NamedSharding) or is_open(s) or s.spec.unreduced or s.spec.reduced or not isinstance(aval, ShapedArray) \
                    or dtypes.is_extended(aval.dtype) or not aval.size or not (found.is_replicated() or found.is_tiled()) or s.devices_in_order != self.devices:
                continue
            if not are_hlo_shardings_equal(s.to_hlo_sharding(aval.ndim), found, aval.shape, len(self.devices)):
                raise AssertionError(f"internal error in jit({self.name}): {what(k)} of type {aval} was to be laid out as {s}, {s.to_hlo_sharding(aval.ndim)}, and "
                                     f"the compiler laid it out as {found}. Please report the function with its shardings.")

    def _placed_constants(self, chosen) -> list:
        """Large constants as device arrays, laid out as the compiled program expects its first parameters."""
        out = []
        for n, c in enumerate(self.lowered.module.hoisted):
            aval = physical_aval(aval_of(c))
            where = (SingleDeviceSharding(self.devices[0]) if chosen is None
                     else self._result_sharding(chosen[n], aval))
            out.append(place(c.base if isinstance(c, KeyArray) else c, aval, where))
        return out

    def _result_sharding(self, hlo_sharding, aval, asked=None):
        """What the compiler chose, over the mesh and in the memory that were asked for."""
        mesh = self.lowered.mesh if asked is None else asked.mesh
        if mesh is None:
            mesh = _everywhere(None, self.devices).mesh
        spec = from_hlo_sharding(hlo_sharding, mesh, aval.ndim)
        kind = memory_kind(aval) if asked is None else asked.memory_kind
        return NamedSharding(mesh, spec, kind) if spec is not None else GSPMDSharding(self.devices, hlo_sharding, kind)

    def _first_placed(self, placements) -> tuple[Any, int]:
        """The sharding of the first argument that lies over a mesh, and the argument's rank."""
        return next(((placements[i], self.physical_in[i].ndim) for i in self.kept if isinstance(placements[i], NamedSharding)), (None, 0))

    def spelled(self, placements: Sequence) -> Executable:
        """This program for arguments that lie so: results that lie as the first one does have its spec, `P('x', None)` or `P('x')`."""
        like, ndim = self._first_placed(placements)
        if like is None or like == self.like:
            return self
        if like not in self.spellings:
            made = self.spellings[like] = copy.copy(self)
            made._spell(like, ndim)
        return self.spellings[like]

    def _spell(self, like, ndim: int) -> None:
        self.like = like
        self.out_shardings = tuple(
            s.update(spec=like.spec) if like is not None and asked is None and isinstance(s, NamedSharding) and s.mesh == like.mesh and a.ndim == ndim
            and s.is_equivalent_to(like, ndim) else s
            for asked, s, a in zip(self.lowered.out_shardings, self.out_shardings, self.physical_out))
        self.handlers = [_arrays.result_handler(a, s, self.committed) for a, s in zip(self.physical_out, self.out_shardings)]

    def place_args(self, flat) -> list:
        out = []
        for i, s in zip(self.kept, self.in_shardings):
            x = flat[i]
            if isinstance(x, KeyArray | Token):
                x = x.base
            if self.across_processes and not is_native_array(x):
                self._check_host_argument(i, x)
            out.append(place(x, self.physical_in[i], s, committed=None))
        if layouts.in_use():
            asked = self.lowered.in_layouts or [None] * len(out)
            out = [x if self.in_avals[i] is TOKEN else layouts.ensure_layout(x, a, flat[i], self.name) for i, x, a in zip(self.kept, out, asked)]
        return out

    def _check_host_argument(self, i, x) -> None:
        """Host data goes as a whole to every process; of which it would take parts, no one could say that all have the same."""
        asked = self.lowered.in_shardings[self.kept.index(i)]
        if asked is not None and not asked.is_fully_replicated:
            names = self.lowered.closed.jaxpr.debug_info.arg_names
            raise ValueError(
                f"jit({self.name}): argument `{names[i] if i < len(names) else i}` is a {type(x).__name__} of type {self.in_avals[i].str_short()}, and "
                f"in_shardings lays it over several processes as {asked}, each of which would take parts of its own copy. Make it an array "
                f"first: xlab.device_put(x, sharding) where all processes have the same value, xlab.make_array_from_process_local_data(sharding, "
                f"x) where each has its part; or ask for a replicated sharding.")

    def call(self, flat: Sequence) -> list:
        """Runs on values that fit `in_avals`; returns the flat results."""
        if self.across_processes:
            check_thread(self.name)
        if config.no_execution:
            raise RuntimeError(f"execution of {self.name} was asked for while config.no_execution is set")
        args = self.place_args(flat)
        with events.span("execute", name=self.name, devices=len(self.devices), executable=self):
            outs = self._start(args)
            if events.listeners:        # what is recorded is the run, not its start
                _arrays.block_until_ready(outs)
        return [self._logical(o, a) for o, a in zip(outs, self.out_avals)]

    def _start(self, args) -> list:
        """Runs on arrays that lie where the program wants them."""
        if self.donated:
            donation.check_apart(self.name, args, self.donated, self._kept_names)
        given = [*self.consts, *args] if self.consts else args
        if self.effectful:
            outs = _effects.run(self, given)
        elif self.needs_serial_launch:
            outs = _arrays.execute_in_turn(self.native, given, self.handlers, self.describe_stuck)
        else:
            outs = _arrays.execute(self.native, given, self.handlers)
        if self.donated:
            donation.take([args[k] for k in self.donated], f"jit({self.name})")
        return outs

    def _kept_names(self) -> list[str]:
        names = self.lowered.closed.jaxpr.debug_info.arg_names
        return [names[i] if i < len(names) else f"argument {i}" for i in self.kept]

    def repeat(self, flat: Sequence) -> list:
        """Runs on the same kinds of arrays that an earlier `call` took as they were."""
        kept = self.kept
        args = list(flat) if len(kept) == len(flat) else [flat[i] for i in kept]
        return self._start(args)

    def cacheable(self, flat: Sequence) -> bool:
        """Whether `repeat` may answer the next call like this one: arguments lie where the program wants them."""
        return self._plain() and all(
            x._sharding is s.native or from_native(x._sharding).is_equivalent_to(s, x.ndim)
            for x, s in ((flat[i], s) for i, s in zip(self.kept, self.in_shardings)))

    def _logical(self, out, aval):
        if isinstance(aval, ShapedArray) and isinstance(aval.dtype, dtypes.ExtendedDType):
            return KeyArray(out, aval.dtype)
        if aval is TOKEN:
            return Token(out)
        if isinstance(aval, ShapedArray) and aval.dtype == dtypes.float0:
            import numpy as np
            return np.zeros(aval.shape, dtypes.float0)
        return out

    def fast_path(self, out_tree):
        """What the native dispatcher needs to repeat this call; None where Python must look at every call."""
        if self.needs_serial_launch or not self._plain():
            return None
        kept, n = set(self.kept), len(self.consts)
        return _native.FastPath(
            self.native, out_tree, [*(c._sharding for c in self.consts), *(s.native for s in self.in_shardings)],
            [s.native for s in self.out_shardings], list(map(typed, self.out_avals, self.out_shardings)),
            [self.committed] * len(self.out_avals), [*[True] * n, *(i in kept for i in range(len(self.in_avals)))],
            [None] * (n + len(self.kept)), self.consts)

    def _plain(self) -> bool:
        """Whether a call is nothing but running the program on ordinary arrays."""
        if self.effectful or self.lowered.closed.effects or self.lowered.in_layouts or self.lowered.out_layouts:
            return False
        return all(isinstance(a, ShapedArray) and not isinstance(a.dtype, dtypes.ExtendedDType)
                   and a.dtype != dtypes.float0 for a in (*self.in_avals, *self.out_avals))
