"""A compiled program, and calling it.

An `Executable` compiles what `lowering.py` wrote, and holds everything needed to call it safely: types, shardings, which arguments it
kept. `call` checks and places every argument; afterwards the native fast path runs calls with the same signature.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import events
from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import caches, calling, module_passes
from xlab.backend import compiling as _compiling
from xlab.backend import dispatch as _native
from xlab.backend.pytree import dispatch_registry
from xlab.backend.transfer_guards import explicit_transfer
from xlab.compile import (
    disk_cache,
    divergence,
    equal_programs,
    launching,
    layouts,
    logs,
    memory_cache,
)
from xlab.compile import effects as _effects
from xlab.compile.devices import PlaceholderDevice
from xlab.compile.history import ledger
from xlab.compile.history.parts import PlacementKey
from xlab.compile.history.unlisted import is_unlisted
from xlab.compile.lowering import MeshComputation, lower
from xlab.compile.placement import is_open, physical_sharding, place, settled
from xlab.compile.resolve import LoweringRequest, replicated
from xlab.compile.tracing import trace_program
from xlab.config import check_thread, config
from xlab.core import donation, dtypes
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import TOKEN, ShapedArray, aval_of
from xlab.core.key_array import words_of
from xlab.core.tokens import Token
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import (
    GSPMDSharding,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    from_hlo_sharding,
    from_native,
)
from xlab.sharding.hlo import are_hlo_shardings_equal
from xlab.sharding.placement import Layout, default_layout
from xlab.sharding.typed import memory_kind, typed


def require_static(lowered: MeshComputation) -> None:
    """Raises for a program with symbolic shapes, which is compiled where it is called."""
    if lowered.module.dynamic:
        types = ", ".join(a.str_short(short_dtypes=True) for a in lowered.closed.in_avals)
        raise ValueError(
            f"jit({lowered.name}) has symbolic shapes, its arguments being {types}, so there is no one program to compile: keep it with "
            f"xlab.export.export(f)(...), whose `call` compiles it for the shapes it is given, or compile it for shapes that are numbers"
        )


class Executable:
    """A compiled program. `made_by` is a weak reference to the jitted function that made it, and the structure of its arguments.

    `loaded` is the native executable where there is one already.
    """

    made_by: tuple[Callable[[], Any], Any] = (lambda: None, None)
    shares = ""
    """The name of the equal program whose executable this is."""
    compiled_for: tuple = ()

    def __init__(
        self,
        lowered: MeshComputation,
        reason: str = "",
        differences: tuple = (),
        placed: PlacementKey | None = None,
        loaded: Any = None,
    ):
        self.lowered, self.name, self.devices = lowered, lowered.name, lowered.devices
        if isinstance(self.devices[0], PlaceholderDevice):
            raise RuntimeError(
                f"jit({self.name}) was lowered for a mesh without devices, so there is nothing here to compile it for: give its "
                f"arguments shardings over a Mesh of devices (xlab.make_mesh), say where with compile(device_assignment=devices), or keep it "
                f"with xlab.export."
            )
        require_static(lowered)
        closed = lowered.closed
        self.in_avals, self.out_avals = tuple(closed.in_avals), tuple(closed.out_avals)
        self.physical_in, self.physical_out = (
            list(map(physical_aval, self.in_avals)),
            list(map(physical_aval, self.out_avals)),
        )
        self.with_keys = any(map(_is_key, (*self.in_avals, *self.out_avals)))
        self.kept = lowered.kept
        # Positions among those kept.
        self.donated = tuple(k for k, i in enumerate(self.kept) if i in lowered.donated)
        several = len(self.devices) > 1
        self.across_processes = several and len({d.process_index for d in self.devices}) > 1
        self.committed = lowered.committed or several
        self.ordered = lowered.module.ordered
        self.effectful = _effects.at_run_time(lowered)
        self.callbacks = tuple(lowered.module.callbacks)

        start = events.clock()
        if loaded is not None:  # compiled by another process
            self.native = loaded
        else:
            self.native, found = self._compile(reason)
            ledger.add(
                self.name,
                closed,
                start,
                events.clock(),
                reason,
                differences,
                placed,
                found,
                self.shares,
            )

        # Programs with collectives run one at a time, and Python starts each of them.
        self.needs_serial_launch = several and _compiling.communicates(self.native)
        self.describe_stuck = None  # of a program whose devices may wait for ever
        if self.needs_serial_launch and not self.across_processes:
            self.describe_stuck = divergence.watched(closed, self.name, self.devices)
        for callback in self.callbacks:
            callback.joint, callback.continues_after_failure = several, self.needs_serial_launch
        consts = self._bind_shardings() if several else self._bind_to_one_device()
        if not is_unlisted():
            if config.distributed_debug:
                logs.log_placement(self)
            if lowered.module.inspections:
                self._report_shardings()
        self.spellings: dict[NamedSharding, Executable] = {}
        by_position = dict(zip(self.kept, lowered.in_shardings))
        self._spell(*self._first_placed([by_position.get(i) for i in range(len(self.in_avals))]))
        with explicit_transfer():
            self.consts = [
                place(c.base if isinstance(c, KeyArray) else c, physical_aval(aval_of(c)), s)
                for c, s in zip(lowered.module.hoisted, consts)
            ]

    def _compile(self, reason: str) -> tuple[Any, disk_cache.CacheLookup]:
        """The native executable, and what the disk cache said."""
        lowered, module = self.lowered, self.lowered.module
        memory_cache.make_room()
        for inspection in module.inspections:
            inspection.found = []
        logs.dump(self.name, module.text, lowered.closed)
        tokens = [False] * len(self.ordered)
        to_outputs = [*tokens, *(s is None or is_open(s) for s in lowered.out_shardings)]
        to_inputs = [
            *tokens,
            *(True for _ in module.hoisted),
            *(s is None or is_open(s) for s in lowered.in_shardings),
        ]
        with (
            _explained(module.partitioners),
            events.span(
                "compile", name=self.name, devices=len(self.devices), reason=reason, executable=self
            ) as attrs,
            logs.timed("Finished XLA compilation of jit(%s) in %.9f sec", self.name),
        ):
            storable = not (
                module.callbacks
                or module.partitioners
                or module.inspections
                or module_passes.any_registered()
            )
            settings = to_inputs, to_outputs, repr(lowered.compiler_options)
            # What is compiled is set within the span: who listens is given a program that is whole.
            equal = (
                equal_programs.equal_to(self, settings)
                if storable and not self.across_processes
                else None
            )
            if equal is not None:
                position = equal.lowered.closed.jaxpr.debug_info.position
                attrs["shared"] = self.shares = ledger.shown(equal.name, position)
                self.native = equal.native
                return self.native, disk_cache.NOTHING
            self.native, found = disk_cache.compiled(
                self.name,
                module.text,
                self.devices,
                lambda: _compiling.compile_text(
                    module.text,
                    self.devices,
                    partitions=len(self.devices),
                    allow_propagation_to_outputs=to_outputs,
                    allow_propagation_to_inputs=to_inputs,
                    options=lowered.compiler_options or None,
                    host_callbacks=module.callbacks,
                    arguments=len(to_inputs),
                ),
                options=lowered.compiler_options,
                propagation="".join("01"[x] for x in (*to_inputs, *to_outputs)),
                storable=storable,
            )
            if found.found:
                attrs["disk"] = found.found
            if storable:
                equal_programs.remember(self)
        return self.native, found

    # -- shardings of the compiled program -------------------------------------------------------------

    def _bind_shardings(self) -> list:
        """On several devices: reads the shardings the compiler chose, checks the requested ones; returns the constants'."""
        lowered, skipped = self.lowered, len(self.ordered)
        names = lowered.closed.jaxpr.debug_info.arg_names
        n_consts = len(lowered.module.hoisted)
        chosen = _compiling.parameter_shardings(self.native)[skipped:]
        consts, given = chosen[:n_consts], chosen[n_consts:]
        self._check_followed(
            lowered.in_shardings,
            given,
            [self.in_avals[i] for i in self.kept],
            lambda k: (
                f"argument `{names[self.kept[k]] if self.kept[k] < len(names) else self.kept[k]}`"
            ),
        )
        self.in_shardings = tuple(
            s
            if s is not None and not is_open(s)
            else self._chosen_sharding(g, self.physical_in[i], s)
            for i, s, g in zip(self.kept, lowered.in_shardings, given)
        )
        given = _compiling.output_shardings(self.native)[skipped:]
        self._check_followed(lowered.out_shardings, given, self.out_avals, "result {}".format)
        self.out_shardings = tuple(
            physical_sharding(s, a)
            if s is not None and not is_open(s)
            else self._chosen_sharding(g, p, s)
            for s, a, g, p in zip(lowered.out_shardings, self.out_avals, given, self.physical_out)
        )
        return [
            self._chosen_sharding(g, physical_aval(aval_of(c)))
            for c, g in zip(lowered.module.hoisted, consts)
        ]

    def _bind_to_one_device(self) -> list:
        """On one device every value is on that device, in the memory that its type says."""
        lowered = self.lowered
        self.in_shardings = tuple(map(settled, lowered.in_shardings))
        self.out_shardings = tuple(
            settled(s) if s is not None else self._on_one_device(a)
            for s, a in zip(lowered.out_shardings, self.out_avals)
        )
        return [SingleDeviceSharding(self.devices[0])] * len(lowered.module.hoisted)

    def _check_followed(self, asked, given, avals, what) -> None:
        """Raises if the compiler's sharding of a value differs from the requested one."""
        for k, (s, found, aval) in enumerate(zip(asked, given, avals)):
            if (
                not isinstance(s, NamedSharding)
                or is_open(s)
                or s.spec.unreduced
                or s.spec.reduced
                or not isinstance(aval, ShapedArray)
                or dtypes.is_extended(aval.dtype)
                or not aval.size
                or not (found.is_replicated() or found.is_tiled())
                or s.devices_in_order != self.devices
            ):
                continue
            if not are_hlo_shardings_equal(
                s.to_hlo_sharding(aval.ndim), found, aval.shape, len(self.devices)
            ):
                raise AssertionError(
                    f"internal error in jit({self.name}): {what(k)} of type {aval} was to be laid out as {s}, {s.to_hlo_sharding(aval.ndim)}, and "
                    f"the compiler laid it out as {found}. Please report the function with its shardings."
                )

    def _chosen_sharding(self, hlo_sharding, aval, asked=None):
        """The sharding the compiler chose for a result, over the requested mesh and memory."""
        mesh = self.lowered.mesh if asked is None else asked.mesh
        if mesh is None:
            mesh = replicated(None, self.devices).mesh
        spec = from_hlo_sharding(hlo_sharding, mesh, aval.ndim)
        kind = memory_kind(aval) if asked is None else asked.memory_kind
        return (
            NamedSharding(mesh, spec, kind)
            if spec is not None
            else GSPMDSharding(self.devices, hlo_sharding, kind)
        )

    def _report_shardings(self) -> None:
        """Tells the callbacks of `inspect_array_sharding` what the compiler chose."""

        for inspection in self.lowered.module.inspections:
            one = self._on_one_device(inspection.aval) if len(self.devices) == 1 else None
            inspection.report(one, self._chosen_sharding)

    def _on_one_device(self, aval) -> Any:
        """The sharding of a value in a program for one device."""
        mesh, kind = self.lowered.mesh, memory_kind(aval)
        if mesh is not None and hasattr(mesh, "devices"):
            return NamedSharding(mesh, PartitionSpec(), kind)
        return SingleDeviceSharding(self.devices[0], memory_kind=kind)

    def _first_placed(self, placements) -> tuple[Any, int]:
        """The sharding of the first argument that is sharded over a mesh, and the argument's rank."""
        return next(
            (
                (placements[i], self.physical_in[i].ndim)
                for i in self.kept
                if isinstance(placements[i], NamedSharding)
            ),
            (None, 0),
        )

    def spelled(self, placements: Sequence) -> Executable:
        """This program with result specs spelled as the first argument's is: `P('x', None)` or `P('x')`."""
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
            s.update(spec=like.spec)
            if like is not None
            and asked is None
            and isinstance(s, NamedSharding)
            and s.mesh == like.mesh
            and a.ndim == ndim
            and s.is_equivalent_to(like, ndim)
            else s
            for asked, s, a in zip(
                self.lowered.out_shardings, self.out_shardings, self.physical_out
            )
        )
        self.handlers = [
            _arrays.result_handler(a, s, self.committed)
            for a, s in zip(self.physical_out, self.out_shardings)
        ]

    # -- calls -----------------------------------------------------------------------------------------

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
            out = [
                x if self.in_avals[i] is TOKEN else _ensure_layout(x, a, flat[i], self.name)
                for i, x, a in zip(self.kept, out, asked)
            ]
        return out

    def _check_host_argument(self, i, x) -> None:
        """Raises if host data would be split across processes: equality of its values cannot be checked."""
        asked = self.lowered.in_shardings[self.kept.index(i)]
        if asked is not None and not asked.is_fully_replicated:
            names = self.lowered.closed.jaxpr.debug_info.arg_names
            raise ValueError(
                f"jit({self.name}): argument `{names[i] if i < len(names) else i}` is a {type(x).__name__} of type {self.in_avals[i].str_short(short_dtypes=True)}, and "
                f"in_shardings lays it over several processes as {asked}, each of which would take parts of its own copy. Make it an array "
                f"first: xlab.device_put(x, sharding) where all processes have the same value, xlab.make_array_from_process_local_data(sharding, "
                f"x) where each has its part; or ask for a replicated sharding."
            )

    def call(self, flat: Sequence) -> list:
        """Runs on values that fit `in_avals`; returns the flat results."""
        if self.across_processes:
            check_thread(self.name)
        if config.no_execution:
            raise RuntimeError(
                f"execution of {self.name} was asked for while config.no_execution is set"
            )
        args = self.place_args(flat)
        with events.span("execute", name=self.name, devices=len(self.devices), executable=self):
            outs = self._start(args)
            if events.listeners:  # what is recorded is the run, not its start
                _arrays.block_until_ready(outs)
        return [self._logical(o, a) for o, a in zip(outs, self.out_avals)]

    def _start(self, args) -> list:
        """Runs on arrays that already have the program's input shardings."""
        calling.check(len(self.devices))
        if self.donated:
            donation.check_apart(self.name, args, self.donated, self._kept_names)
        given = [*self.consts, *args] if self.consts else args
        if self.across_processes and launching.gate is not None:
            launching.gate(self)
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
        return list(map(self.lowered.closed.jaxpr.debug_info.arg_name, self.kept))

    def repeat(self, flat: Sequence) -> list:
        """Runs on arguments of a signature that an earlier `call` accepted without placing them."""
        kept = self.kept
        args = list(flat) if len(kept) == len(flat) else [flat[i] for i in kept]
        if not self.with_keys:
            return self._start(args)
        outs = self._start(list(map(words_of, args)))
        return [self._logical(o, a) for o, a in zip(outs, self.out_avals)]

    def cacheable(self, flat: Sequence) -> bool:
        """Whether `repeat` may run the next call of this signature: no argument has to be moved."""
        return self._plain() and all(
            x._sharding is s.native or from_native(x._sharding).is_equivalent_to(s, x.ndim)
            for x, s in ((words_of(flat[i]), s) for i, s in zip(self.kept, self.in_shardings))
        )

    def _logical(self, out, aval):
        if isinstance(aval, ShapedArray) and isinstance(aval.dtype, dtypes.ExtendedDType):
            return KeyArray(out, aval.dtype)
        if aval is TOKEN:
            return Token(out)
        if isinstance(aval, ShapedArray) and aval.dtype == dtypes.float0:
            return np.zeros(aval.shape, dtypes.float0)
        return out

    def fast_path(self, out_tree, result):
        """What the native fast path needs to repeat the call that gave `result`; None if Python must handle every call."""
        if self.python_reason():
            return None
        if any(map(_is_key, self.out_avals)):
            out_tree = dispatch_registry.flatten(result)[1]
        kept, n = set(self.kept), len(self.consts)
        return _native.FastPath(
            self.native,
            out_tree,
            [*(c._sharding for c in self.consts), *(s.native for s in self.in_shardings)],
            [s.native for s in self.out_shardings],
            list(map(typed, self.physical_out, self.out_shardings)),
            [self.committed] * len(self.out_avals),
            [*[True] * n, *(i in kept for i in range(len(self.in_avals)))],
            [None] * (n + len(self.kept)),
            self.consts,
        )

    def python_reason(self) -> str:
        """Why Python starts each call of the program; empty where native code repeats it."""
        if self.needs_serial_launch:
            return "its devices wait for one another, and such programs start one after the other"
        if self.across_processes and launching.in_group:
            return "the processes that it spans agree on each start"
        if self.effectful or self.lowered.closed.effects:
            return "it has effects, such as callbacks or writes to references"
        if self.lowered.in_layouts or self.lowered.out_layouts:
            return "layouts were asked for, and native code does not compare them"
        return "" if self._plain() else "an argument or a result is no ordinary array"

    def _plain(self) -> bool:
        """Whether a call only runs the program on ordinary arrays, without effects or references."""
        if (
            self.effectful
            or self.lowered.closed.effects
            or self.lowered.in_layouts
            or self.lowered.out_layouts
        ):
            return False
        return all(
            isinstance(a, ShapedArray)
            and (_is_key(a) or not isinstance(a.dtype, dtypes.ExtendedDType))
            and a.dtype != dtypes.float0
            for a in (*self.in_avals, *self.out_avals)
        )


def _is_key(aval) -> bool:
    return isinstance(aval, ShapedArray) and dtypes.is_extended(aval.dtype)


@contextlib.contextmanager
def _explained(partitioners: Sequence):
    """Failures of the functions that partition operations, as their own errors."""
    try:
        yield
    except Exception:
        for partitioner in partitioners:
            partitioner.raise_failure()
        raise


# -- arguments that lie in memory in another order ------------------------------------------------------------


def _ensure_layout(x, asked: Layout | None, given, name: str):
    """The placed argument `given` in the layout that a program was compiled for: the one asked for, or the default."""
    target = asked or default_layout(x.ndim)
    found = layouts.layout_of(x)
    if found == target:
        return x
    if asked is not None and is_native_array(given) and given._committed:
        raise ValueError(
            f"Layout passed to jit does not match the layout on the respective arg: jit({name}) was asked for {asked}, and got an "
            f"array of type {x.aval.str_short(short_dtypes=True)} that lies as {found}. Bring it there with xlab.device_put(x, Format(...)), or "
            f"leave this entry of in_shardings out."
        )
    return relayout(x, target)


def relayout(x, target: Layout):
    """A copy of the array in another layout, on the same devices."""
    return _copier(x.aval, x.sharding, layouts.layout_of(x), target).call([x])[0]


@functools.lru_cache(maxsize=512)
def _copier(aval: ShapedArray, sharding, source: Layout, target: Layout) -> Executable:
    program = trace_program(
        lambda x: x.copy(), _tree.structure(((0,), {})), (aval,), label="relayout"
    )
    request = LoweringRequest(
        [sharding],
        in_shardings=[sharding],
        out_shardings=[sharding],
        in_layouts=(source,),
        out_layouts=(target,),
    )
    return Executable(lower(program.closed, "relayout", request))


caches.register(_copier.cache_clear)
