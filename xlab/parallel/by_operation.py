"""Bodies of `shard_map` that run operation by operation, on the values of all devices.

A value of the body is kept as one array with a leading dimension over the mesh axes that it varies along, sharded over them: each
device holds its own part. An operation is a small `shard_map` program of its own on such arrays, compiled once per types, so
collectives really communicate, and transformations around the body see ordinary operations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from xlab.backend import caches
from xlab.compile.tracing import context_key
from xlab.core.array import is_native_array
from xlab.core.avals import AbstractValue, ShapedArray, aval_of, escaped_tracer
from xlab.core.jaxpr import Literal, eval_jaxpr, results_of
from xlab.core.pending import AbstractTodo, refuse_operand
from xlab.core.source_info import describe_caller
from xlab.core.trace import EVAL, Trace, Tracer, set_trace, state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad.jvp import JVPTrace
from xlab.interpreters.followed import FollowedTrace
from xlab.lax.collectives.starting import finished_p, synchronous
from xlab.lax.shape import expand_dims, squeeze
from xlab.parallel.manual import local_aval
from xlab.parallel.per_device import ShardMapTracer
from xlab.parallel.shard_map_primitive import shard_map_p
from xlab.sharding import Mesh, PartitionSpec, get_abstract_mesh, use_abstract_mesh


class Answered(BaseException):
    """Raised with its results by a body that Python has looked into, past those who wait for its program."""

    def __init__(self, trace, outs, out_tree):
        super().__init__()
        self.trace, self.outs, self.out_tree = trace, outs, out_tree


class Unfit(BaseException):
    """Raised where a body has values that cannot be kept per device: references, tokens, unfinished sums. It runs as one program."""


class _Call(threading.local):
    """The eager call that the next traced body belongs to, and whether bodies may be looked into."""

    args: tuple | None = None
    refused = False


call = _Call()


def runs_on_values() -> bool:
    """Whether operations run now, or can be made to: nothing around records a program for later."""
    trace: Any = state.trace
    while trace is not EVAL:
        if trace is None or type(trace) is pe.DynamicJaxprTrace:
            return False
        trace = getattr(trace, "parent", None)
    return state.kernel is None and not call.refused


def is_traced() -> bool:
    """Whether operations become parts of a program."""
    return any(type(t) is pe.DynamicJaxprTrace for t in _outwards(state.trace))


# -- operations --------------------------------------------------------------------------------------------


class _Operation(NamedTuple):
    """One operation of a body as a `shard_map` program on arrays of all devices' values."""

    jaxpr: Any
    in_specs: tuple
    out_specs: tuple
    out_avals: tuple[AbstractValue, ...]
    consts: tuple


_operations: caches.Latest[tuple, _Operation] = caches.Latest(4096)
caches.register(_operations.clear)


class ShardMapTrace(Trace):
    """Runs primitives on the values of all devices, each as a program of its own."""

    makes_programs = True

    __slots__ = (
        "_surroundings",
        "check_vma",
        "derived",
        "label",
        "mesh",
        "names",
        "parent",
        "was_looked_at",
    )

    def __init__(self, parent: Trace, mesh, names: frozenset, check_vma: bool, label: str):
        super().__init__()
        self.parent, self.mesh, self.names, self.check_vma = parent, mesh, names, check_vma
        self.label, self.was_looked_at = label, False
        self._surroundings = state.axes, state.manual, state.manual_mesh, get_abstract_mesh()
        # Whether rules of custom derivatives may be asked for.
        self.derived = any(isinstance(t, (JVPTrace, pe.JaxprTrace)) for t in _outwards(parent))

    def looked(self) -> None:
        self.was_looked_at = True

    def axes_of(self, aval) -> tuple:
        """The mesh axes that devices' parts are kept along, in mesh order."""
        return tuple(
            n
            for n in self.mesh.axis_names
            if n in self.names and (not self.check_vma or n in aval.mat.varying)
        )

    def _spec(self, aval) -> PartitionSpec:
        axes = self.axes_of(aval)
        return PartitionSpec(axes) if axes else PartitionSpec()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """The surroundings of the body, where its operations run."""
        before = state.axes, state.manual, state.manual_mesh
        state.axes, state.manual, state.manual_mesh, mesh = self._surroundings
        try:
            with use_abstract_mesh(mesh) if self.mesh.explicit_axes else nullcontext():
                with set_trace(self.parent):
                    yield
        finally:
            state.axes, state.manual, state.manual_mesh = before

    def process_primitive(self, prim, args, params):
        if prim.takes_pending:
            return self._finished(prim, args[0])
        if prim is finished_p:
            (out,) = self.apply(lambda x: [x], args)
            return ShardMapTracer(self, out.value, AbstractTodo(out.aval, params["start"]))
        start, prim = prim, synchronous.get(prim, prim)

        def one(*xs):
            out = prim.bind(*xs, **params)
            return list(out) if prim.multiple_results else [out]

        try:
            outs = self.apply(one, args, (prim, *params.items()))
        except FloatingPointError as e:  # of debug_nans and debug_infs
            raise FloatingPointError(
                str(e).replace("encountered in shard_map", f"encountered in {prim.name}")
            ) from None
        if start is not prim:  # it ran at once, and is pending for those who ask for its type
            return ShardMapTracer(self, outs[0].value, AbstractTodo(outs[0].aval, start))
        return outs if prim.multiple_results else outs[0]

    def _finished(self, prim, x):
        """The result of what was started."""
        if x.__class__ is ShardMapTracer and x._trace is self and type(x.aval) is AbstractTodo:
            return ShardMapTracer(self, x.value, x.aval.inner_aval)
        prim.abstract((aval_of(x),), {})  # raises where nothing was started
        return x

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        if not self.derived:
            return fun(*args)
        return self.apply(
            lambda *xs: prim_call(state.trace.process_custom_jvp, prim, fun, jvp, xs, params), args
        )

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        if not self.derived:
            return fun(*args)
        return self.apply(
            lambda *xs: prim_call(state.trace.process_custom_vjp, prim, fun, fwd, bwd, xs, params),
            args,
        )

    def apply(self, fun: Callable, args, key: tuple | None = None) -> list:
        """Runs a function of local values that returns a list. With a `key` that says what it does, its program is kept."""
        mine = tuple(x.__class__ is ShardMapTracer and x._trace is self for x in args)
        values = [x.value if m else _from_outside(x) for x, m in zip(args, mine)]
        avals = tuple(x.aval if m else aval_of(x) for x, m in zip(args, mine))
        if key is not None:
            refuse_operand(key[0], avals)

        def make():
            return self._operation(fun, avals, mine)

        if key is None:
            found = make()
        else:
            try:
                found = _operations.get_or_make(
                    (key, avals, mine, self.mesh, self.names, self.check_vma, context_key()), make
                )
            except TypeError as e:
                if "unhashable" not in str(e):
                    raise
                found = make()
        if found.consts:
            values = [
                *(
                    c.value
                    if c.__class__ is ShardMapTracer and c._trace is self
                    else _from_outside(c)
                    for c in found.consts
                ),
                *values,
            ]
        outs = self._bind(values, found)
        return [ShardMapTracer(self, x, a) for x, a in zip(outs, found.out_avals)]

    def _operation(self, fun, avals, mine) -> _Operation:
        jaxpr, consts = pe.trace_to_jaxpr(
            fun, [self._local(a) if not m else a for a, m in zip(avals, mine)]
        )
        mine = (*(c.__class__ is ShardMapTracer and c._trace is self for c in consts), *mine)
        avals = (*(c.aval if m else aval_of(c) for c, m in zip(consts, mine)), *avals)
        jaxpr = pe.convert_constvars_jaxpr(jaxpr)

        def run(*parts):
            local = [squeeze(x, (0,)) if m else x for x, m in zip(parts, mine)]
            return [expand_dims(x, (0,)) for x in eval_jaxpr(jaxpr, (), *local)]

        out_avals = tuple(v.aval for v in jaxpr.outvars)
        for a in out_avals:
            _check_fit(a)
        whole, _ = pe.trace_to_jaxpr(
            run, [_with_row(a) if m else self._local(a) for a, m in zip(avals, mine)]
        )
        return _Operation(
            whole,
            tuple(self._spec(a) if m else PartitionSpec() for a, m in zip(avals, mine)),
            tuple(map(self._spec, out_avals)),
            out_avals,
            tuple(consts),
        )

    def _local(self, aval):
        """The type in the body of a value from outside, which is the same on all its devices."""
        return local_aval(aval, self.mesh, PartitionSpec(), self.check_vma, self.names)

    def _bind(self, values, operation: _Operation) -> list:
        if not operation.jaxpr.outvars and not operation.jaxpr.effects:
            return []
        with self.outside():
            return shard_map_p.bind(
                *values,
                jaxpr=operation.jaxpr,
                mesh=self.mesh,
                in_specs=operation.in_specs,
                out_specs=operation.out_specs,
                check_vma=self.check_vma,
                newly_manual_axes=self.names,
            )

    # -- the way in and out --------------------------------------------------------------------------------

    def enter(self, flat, in_specs) -> list:
        """Arguments as values of the body, by their specs."""
        avals = tuple(map(aval_of, flat))
        local = [
            local_aval(a, self.mesh, s, self.check_vma, self.names) for a, s in zip(avals, in_specs)
        ]
        for a in local:
            _check_fit(a)

        def make():
            jaxpr, _ = pe.trace_to_jaxpr(lambda *xs: [expand_dims(x, (0,)) for x in xs], local)
            return _Operation(
                jaxpr, tuple(in_specs), tuple(map(self._spec, local)), tuple(local), ()
            )

        key = (
            "enter",
            avals,
            tuple(in_specs),
            self.mesh,
            self.names,
            self.check_vma,
            context_key(),
        )
        outs = self._bind(flat, _operations.get_or_make(key, make))
        if not isinstance(self.mesh, Mesh):  # the devices are those of the arguments
            self.mesh = next(
                (
                    x.sharding.mesh
                    for x in outs
                    if is_native_array(x) and isinstance(x.sharding.mesh, Mesh)
                ),
                self.mesh,
            )
        return [ShardMapTracer(self, x, a) for x, a in zip(outs, local)]

    def leave(self, results, out_specs) -> list:
        """Results put together by their specs."""
        mine = tuple(x.__class__ is ShardMapTracer and x._trace is self for x in results)
        values = [x.value if m else _from_outside(x) for x, m in zip(results, mine)]
        avals = tuple(x.aval if m else aval_of(x) for x, m in zip(results, mine))

        def make():
            jaxpr, _ = pe.trace_to_jaxpr(
                lambda *xs: [squeeze(x, (0,)) if m else x for x, m in zip(xs, mine)],
                [_with_row(a) if m else self._local(a) for a, m in zip(avals, mine)],
            )
            in_specs = (self._spec(a) if m else PartitionSpec() for a, m in zip(avals, mine))
            return _Operation(jaxpr, tuple(in_specs), tuple(out_specs), (), ())

        key = (
            "leave",
            avals,
            mine,
            tuple(out_specs),
            self.mesh,
            self.names,
            self.check_vma,
            context_key(),
        )
        return self._bind(values, _operations.get_or_make(key, make))


class BodyTrace(pe.DynamicJaxprTrace):
    """Records a body as one program until Python looks at a value: then runs what it has recorded, and the rest at once.

    Args:
        values: the trace that runs operations.
        arguments: of the call, where the body can be looked into.
        in_specs: their specs.
        follows: the run that is followed around it; then the body is recorded to its end, beside running.
    """

    __slots__ = ("_arguments", "_context", "_env", "_in_specs", "follows", "parent", "values")

    def __init__(
        self, values: ShardMapTrace, arguments, in_specs, follows: FollowedTrace | None = None
    ):
        super().__init__(values.label)
        self.follows = follows
        self.values, self.parent = values, values.parent
        self._arguments, self._in_specs = arguments, in_specs
        self._env: dict | None = None
        self._context = state.axes, state.manual, state.manual_mesh
        self.look = self.find

    @property
    def switched(self) -> bool:
        """Whether operations run now."""
        return self._env is not None

    def find(self, tracer):
        """The values of a traced value; None where they cannot be kept per device."""
        try:
            self.switch()
        except Unfit:
            return None
        self.values.looked()
        return self.now(tracer)

    def now(self, x):
        """What stands for any value of the body from here on."""
        if x.__class__ is pe.DynamicJaxprTracer and x._trace is self:
            return self._env[x.variable]  # type: ignore[index]
        return x if self.follows is None else self.follows.value(x)

    def switch(self) -> None:
        """Runs what has been recorded."""
        if self._env is not None:
            return
        for around in _outwards(self.parent):
            if isinstance(around, BodyTrace):
                around.switch()
        before = state.axes, state.manual, state.manual_mesh, state.source_info
        state.axes, state.manual, state.manual_mesh = self._context
        outside = (lambda x: x) if self.follows is None else self.follows.value
        env: dict = {v: outside(x) for v, x in self.constants.values()}
        arguments = list(map(outside, self._arguments))
        try:
            with set_trace(self.values):
                env.update(zip(self.invars, self.values.enter(arguments, self._in_specs)))
                for eqn in self.eqns:
                    state.source_info = eqn.raw_source_info
                    operands = [a.val if type(a) is Literal else env[a] for a in eqn.invars]
                    env.update(zip(eqn.outvars, results_of(eqn, operands)))
        finally:
            state.axes, state.manual, state.manual_mesh, state.source_info = before
        self._env = env

    def process_primitive(self, prim, args, params):
        return self._recorded_or_run(prim, "process_primitive", (), args, params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        return self._recorded_or_run(prim, "process_custom_jvp", (fun, jvp), args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return self._recorded_or_run(prim, "process_custom_vjp", (fun, fwd, bwd), args, params)

    def _recorded_or_run(self, prim, process: str, rules: tuple, args, params):
        """What a primitive gives: recorded, run once Python has looked, or both where the run is followed."""
        outs = None
        if self._env is None or self.follows is not None:
            outs = getattr(super(), process)(prim, *rules, args, params)
        if self._env is None:
            return outs
        with set_trace(self.values):
            values = getattr(self.values, process)(prim, *rules, list(map(self.now, args)), params)
        if outs is None:
            return values
        several = isinstance(outs, (list, tuple))
        for x, value in zip(outs if several else [outs], values if several else [values]):
            self._env[x.variable] = value
        return outs


def _outwards(trace) -> Iterator[Trace]:
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None)


def prim_call(process, *args):
    return list(process(*args))


def _from_outside(x):
    if isinstance(x, Tracer) and not x._trace.alive:
        raise escaped_tracer(x, f"at {describe_caller()}")
    return x


def _with_row(aval):
    return aval.update(shape=(1, *aval.shape))


def _check_fit(aval) -> None:
    """Raises `Unfit` for types whose values cannot be kept per device."""
    if (
        not isinstance(aval, ShapedArray)
        or aval.explicit_sharding is not None
        or aval.mat.unreduced
        or aval.mat.reduced
        or (isinstance(aval.dtype, np.dtype) and aval.dtype.names is not None)
    ):
        raise Unfit
