"""From Python to jaxprs: tracing a function, and tracing only the part of it that is not known yet.

`DynamicJaxprTrace` records every primitive. `JaxprTrace` records those that depend on its own (unknown) inputs and lets
its parent run the rest; what the recorded part needs from the rest becomes constants of the recorded jaxpr, the
*residuals*. Linearization, `jaxpr` splitting and rematerialization are built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from xlab.collector import in_strides
from xlab.config import config, flag_context
from xlab.core import check as _check
from xlab.core import effects as _effects
from xlab.core import printing as _printing  # noqa: F401  (jaxprs print through it)
from xlab.core import source_info as _source_info
from xlab.core.avals import ShapedArray, aval_of, escaped_tracer
from xlab.core.current_trace import enclosing_traces
from xlab.core.dims import SymbolicDim
from xlab.core.hi_states import (
    AvalMutableQDD,
    AvalQDD,
    MutableHiType,
    MutableQuasiDynamicData,
    is_mutable,
)
from xlab.core.hi_tracers import tracer_class
from xlab.core.hi_types import HiType, as_value, in_use
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr
from xlab.core.locations import (
    callers_of_trace,
    current_source_info,
    forget_frames,
    trace_began,
)
from xlab.core.pending import AbstractTodo, at_boundary
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, Trace, Tracer, set_trace, state, switch_trace
from xlab.interpreters import ref_flow
from xlab.interpreters.constants import (  # noqa: F401  (likewise)
    close_jaxpr,
    convert_constvars_jaxpr,
    number_of,
    open_closed_jaxpr,
)
from xlab.interpreters.control_flow import states_after
from xlab.interpreters.dead_code import (  # noqa: F401  (their names here are the field's)
    dce_closed_jaxpr,
    dce_jaxpr,
    dce_jaxpr_consts,
    dce_jaxpr_eqns,
    dce_rules,
    kept_primitives,
    prune_closed_consts,
)
from xlab.interpreters.leaks import check_leaks
from xlab.interpreters.ref_flow import partial_eval_rules

_new = object.__new__
_SCALARS = (bool, int, float, complex, np.generic)


# Set by lax/dim_value.py: the primitive that makes a symbolic dimension a value.
_dim_as_value: Primitive = None  # type: ignore[assignment]


def set_dim_as_value(prim: Primitive) -> None:
    global _dim_as_value
    _dim_as_value = prim


class DynamicJaxprTracer(Tracer):
    """A traced value: a variable of the jaxpr under construction."""

    __slots__ = ("source_info", "variable")

    def __init__(self, trace, aval, var, source=None):
        self._trace = trace
        self.aval = aval
        self.variable = var
        self.source_info = source

    def _looked(self) -> Tracer | None:
        """What stands for this value where its trace can run what it has recorded."""
        look = self._trace.look
        return look(self) if look is not None and self._trace.alive else None

    def concrete(self):
        found = self._looked()
        return None if found is None else found.concrete()

    def disagreement(self):
        found = self._looked()
        return None if found is None else found.disagreement()

    def _number(self, convert, name=None):
        found = self._looked()
        return super()._number(convert, name) if found is None else found._number(convert, name)

    def __array__(self, *args, **kwargs):
        found = self._looked()
        return super().__array__() if found is None else found.__array__(*args, **kwargs)

    def __repr__(self):
        found = self._looked()
        return f"JitTracer({self.aval})" if found is None else repr(found)

    def __format__(self, spec):
        found = self._looked()
        return super().__format__(spec) if found is None else format(found, spec)

    def origin(self) -> str:
        return (
            str(_source_info.SourceInfo(*self.source_info))
            if self.source_info is not None
            else f"the arguments of {self._trace.label}"
        )


JaxprTracer = DynamicJaxprTracer  # both traces have values of this class


class DynamicJaxprTrace(Trace):
    """Records primitives as equations."""

    makes_programs = True

    __slots__ = ("constants", "eqns", "here", "invars", "label", "leaks", "look", "outer", "scalars", "states")  # fmt: skip

    def __init__(self, label: str = "a function"):
        super().__init__()
        # Of a trace that can run what it has recorded: gives what stands for one of its values, where Python asks for it.
        self.look: Callable[[DynamicJaxprTracer], Tracer | None] | None = None
        self.eqns: list[JaxprEqn] = []
        self.constants: dict[int, tuple[Var, object]] = {}
        # Arrays of no dimension that the traced function makes.
        self.scalars: dict[int, object] = {}
        self.invars: list[Var] = []
        self.label = label
        self.leaks: list | None = [] if config.check_tracer_leaks else None
        # Of variables of mutable hi types; `outer` knows those of values from outside.
        self.states: dict[Var, MutableQuasiDynamicData] = {}
        self.outer = state.trace
        self.here = state.__dict__

    def new_input(self, aval) -> DynamicJaxprTracer:
        if type(aval) is AbstractTodo:
            raise at_boundary(aval, None, f"was given to {self.label}, which is traced on its own,")
        var = self.new_var(aval)
        self.invars.append(var)
        return self.tracer(aval, var, None)

    def new_var(self, aval) -> Var:
        """A variable; one of a mutable hi type has a state from now on."""
        if type(aval) is not AvalQDD:
            if in_use.mutable and isinstance(aval, MutableHiType):
                raise TypeError(
                    f"{self.label} is given a value of the mutable hi type {aval} here, where only values that do not change in place can be: let "
                    f"it close over the value"
                )
            return Var(aval)
        var = Var(AvalQDD(aval.aval, aval.qdd))  # whose last state is its own
        self.states[var] = MutableQuasiDynamicData(aval.qdd)
        return var

    def cur_qdd(self, x):
        return self.states[self.atom(x)].cur_val

    def tracer(self, aval, var, source):
        if type(aval) is AvalQDD:
            aval = aval.aval
        tracer = tracer_class(DynamicJaxprTracer, aval)(self, aval, var, source)
        if self.leaks is not None:
            import weakref

            self.leaks.append(weakref.ref(tracer))
        return tracer

    def capture(self, x):
        """The atom that stands for a value from outside: a literal for scalars, else a constant variable."""
        found = self.constants.get(id(x))
        if found is not None:
            return found[0]
        if isinstance(x, Tracer):
            around = x._trace
            while around is not None and around is not self:
                around = getattr(around, "parent", None)
            if (
                not x._trace.alive or around is self
            ):  # ended, or of a transformation that runs inside this trace
                raise escaped_tracer(
                    x, f"while tracing {self.label} at {_source_info.describe_caller()}"
                )
            aval = x.aval
            if in_use.mutable and is_mutable(x):
                aval = AvalQDD(aval, self.outer.cur_qdd(x))
        else:
            if type(x) is SymbolicDim:
                return self.atom(
                    DynamicJaxprTrace.process_primitive(self, _dim_as_value, (), {"dim": x})
                )
            aval = aval_of(x)
            if type(x) in _SCALARS[:4] or isinstance(x, np.generic):
                return Literal(x, aval)
            if type(aval) is ShapedArray and not aval.shape and isinstance(aval.dtype, np.dtype):
                return Literal(number_of(x, aval) if id(x) in self.scalars else x, aval)
            if in_use.types and isinstance(aval, HiType):
                with set_trace(self):
                    whole = as_value(x)
                if whole is not x:  # it has traced arrays
                    return self.atom(whole)
            if in_use.mutable and is_mutable(x):
                aval = AvalQDD(aval, self.outer.cur_qdd(x))
        if type(aval) is AbstractTodo:
            raise at_boundary(aval, x, f"was used in {self.label}, which is traced on its own,")
        var = self.new_var(aval)
        self.constants[id(x)] = (var, x)
        return var

    def process_primitive(self, prim, args, params):
        invars, avals = [], []
        for x in args:
            if x.__class__ is DynamicJaxprTracer and x._trace is self:
                invars.append(x.variable)
                avals.append(x.aval)
            else:
                atom = self.capture(x)
                invars.append(atom)
                avals.append(atom.aval)
        if self.states:
            avals = [
                AvalMutableQDD(v.aval.aval, self.states[v]) if v in self.states else a
                for v, a in zip(invars, avals)
            ]
        # The primitive's own cache, looked up here: this line runs once per equation.
        types = tuple(avals)
        try:
            found = prim._cache.get((types, *params.items()) if params else types)
        except TypeError:
            found = None
        out_avals, effects = found or prim.abstract(types, params)
        if prim.multiple_results or self.leaks is not None or in_use.types:
            outs = self.record(prim, invars, params, out_avals, effects)
            if self.states:
                self._follow_states(self.eqns[-1])
            return outs
        # As `record` does it. Setting attributes takes half as long as calling classes that do.
        where = current_source_info(self.here)
        var = _new(Var)
        var.aval = out_avals
        eqn = _new(JaxprEqn)
        eqn.invars, eqn.outvars, eqn.primitive, eqn.params = invars, [var], prim, params
        eqn.effects, eqn.raw_source_info = effects, where
        self.eqns.append(eqn)
        out = _new(DynamicJaxprTracer)
        out._trace, out.aval, out.variable, out.source_info = self, out_avals, var, where
        return out

    def _follow_states(self, eqn):
        """After an equation with programs inside: values of mutable hi types are as these leave them."""
        for atom, qdd in states_after(eqn):
            if atom in self.states:
                self.states[atom].update(qdd)

    def record(self, prim, invars, params, out_avals, effects):
        """Appends an equation and returns tracers for its results."""
        where = current_source_info(self.here)
        if prim.multiple_results:
            outvars = [Var(a) for a in out_avals]
            if in_use.mutable:
                outvars = [self.new_var(v.aval) for v in outvars]
            self.eqns.append(JaxprEqn(invars, outvars, prim, params, effects, where))
            return [self.tracer(v.aval, v, where) for v in outvars]
        var = self.new_var(out_avals) if in_use.mutable else Var(out_avals)
        self.eqns.append(JaxprEqn(invars, [var], prim, params, effects, where))
        return self.tracer(out_avals, var, where)

    def atom(self, x):
        """The atom for a value: this trace's variable, or a captured constant."""
        if x.__class__ is DynamicJaxprTracer and x._trace is self:
            return x.variable
        return self.capture(x)

    def finish(self, outs, debug_info=None) -> tuple[Jaxpr, list]:
        """Closes the trace: the jaxpr with these outputs, and the values of its constants."""
        outvars = [self.atom(x) for x in outs]
        for v, x in zip(outvars, outs):
            if type(v.aval) is AbstractTodo:
                raise at_boundary(v.aval, x, f"is a result of {self.label}, which is traced")
        self.alive = False
        for v, data in self.states.items():
            v.aval.final = data.cur_val
        constants = list(self.constants.values())
        jaxpr = Jaxpr(
            [v for v, _ in constants], self.invars, outvars, self.eqns, debug_info=debug_info
        )
        if config.check_jaxpr or config.enable_checks:
            _check.check_jaxpr(jaxpr)
        return jaxpr, [x for _, x in constants]

    # Functions with custom derivatives are recorded as one equation with their inner jaxpr.

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        return prim.stage(self, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return prim.stage(self, fun, fwd, bwd, args, params)


class JaxprTrace(DynamicJaxprTrace):
    """Records what depends on its inputs; everything else runs on the parent trace."""

    __slots__ = ("parent",)
    records_derivatives = True
    makes_programs = False

    def __init__(self, parent: Trace, label: str = "a linear function"):
        super().__init__(label)
        self.parent = parent

    def is_unknown(self, x) -> bool:
        return x.__class__ is DynamicJaxprTracer and x._trace is self

    def process_primitive(self, prim, args, params):
        for x in args:
            if x.__class__ is DynamicJaxprTracer and x._trace is self:
                rule = partial_eval_rules.get(prim)
                if rule is not None:
                    return rule(self, args, **params)
                return DynamicJaxprTrace.process_primitive(self, prim, args, params)
        previous = switch_trace(self.parent)
        try:
            return self.parent.process_primitive(prim, args, params)
        finally:
            switch_trace(previous)

    def cur_qdd(self, x):
        return super().cur_qdd(x) if self.is_unknown(x) else self.parent.cur_qdd(x)

    def record_unknown(self, prim, args, params):
        """Records an equation, although its operands may be known."""
        return DynamicJaxprTrace.process_primitive(self, prim, args, params)

    def run_known(self, fun: Callable, *args, **kwargs):
        """Calls `fun` with the parent as current trace."""
        with set_trace(self.parent):
            return fun(*args, **kwargs)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        if any(map(self.is_unknown, args)):
            return super().process_custom_jvp(prim, fun, jvp, args, params)
        with set_trace(self.parent):
            return self.parent.process_custom_jvp(prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        if any(map(self.is_unknown, args)):
            return super().process_custom_vjp(prim, fun, fwd, bwd, args, params)
        with set_trace(self.parent):
            return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)


class FoldingTrace(DynamicJaxprTrace):
    """Evaluates at once what depends on no argument and has no effects: tracing under `config.eager_constant_folding`.

    Not where axes are bound: a constant there need not be the same on every device. Calls with derivatives of their own are recorded.
    """

    __slots__ = ()

    def process_primitive(self, prim, args, params):
        if (
            state.kernel is None
            and not state.axes
            and prim is not _dim_as_value
            and not any(isinstance(x, (Tracer, SymbolicDim)) for x in args)
        ):
            out_avals, effects = prim.abstract(tuple(map(aval_of, args)), params)
            found = out_avals if prim.multiple_results else [out_avals]
            if not effects and all(
                type(a) is ShapedArray and all(type(d) is int for d in a.shape) for a in found
            ):
                with set_trace(EVAL), flag_context("eager_constant_folding", False):
                    return EVAL.process_primitive(prim, args, params)
        return super().process_primitive(prim, args, params)


def trace_to_jaxpr(
    fun: Callable,
    in_avals: Sequence,
    debug_info: DebugInfo | None = None,
    unfinished: Callable[[Jaxpr, list], None] | None = None,
    trace: DynamicJaxprTrace | None = None,
) -> tuple[Jaxpr, list]:
    """Traces a function of flat arguments that returns a flat list; gives the jaxpr and its constants' values.

    Where the function raises, `unfinished` gets what was recorded up to there, a program without results. `trace` is what records.
    """
    if trace is None:
        trace = (FoldingTrace if config.eager_constant_folding else DynamicJaxprTrace)(
            debug_info.name if debug_info else getattr(fun, "__name__", "a function")
        )
    previous, previous_source_info, previous_scope = state.trace, state.source_info, state.scope
    previous_callers, callers = state.callers, callers_of_trace()
    tracers = [trace.new_input(a) for a in in_avals]
    try:
        with set_trace(trace), in_strides() if previous is EVAL else nullcontext():
            state.source_info, state.scope = None, _source_info.innermost(previous_scope)
            state.callers = callers
            try:
                outs = fun(*tracers)
            except BaseException:
                if unfinished is not None:
                    unfinished(*trace.finish((), debug_info))
                raise
        state.source_info, state.scope = previous_source_info, previous_scope
        state.callers = previous_callers
        forget_frames()
        del tracers
        result = trace.finish(outs, debug_info)
        del outs
        if trace.leaks is not None:
            check_leaks(trace)
        return result
    finally:
        trace.alive = False
        switch_trace(previous)
        state.source_info, state.scope = previous_source_info, previous_scope
        state.callers = previous_callers
        forget_frames()


trace_began(trace_to_jaxpr.__code__)


def trace_to_closed_jaxpr(fun, in_avals, debug_info=None) -> ClosedJaxpr:
    return ClosedJaxpr(*trace_to_jaxpr(fun, in_avals, debug_info))


class PartialVal(tuple):
    """What is known of a value: `(None, value)`, or `(type, None)` for one that comes later."""

    __slots__ = ()

    def __new__(cls, pair: tuple):
        return tuple.__new__(cls, pair)

    @classmethod
    def known(cls, value) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self):
        """The value, or None."""
        return self[1] if self[0] is None else None

    def get_aval(self):
        """The type, known or not."""
        return aval_of(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(
    fun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], tuple]:
    """Runs what is known of a wrapped function of flat arguments and records the rest.

    Args:
        fun: a `xlab.extend.linear_util.WrappedFun` that returns a list.
        pvals: what is known of each argument.
        instantiate: whether results that are known are results of the program all the same, one answer or one per result.

    Returns:
        The program of what is unknown, what is known of each result, and the program's constants.
    """
    trace = JaxprTrace(state.trace, fun.debug_info.name)
    try:
        with set_trace(trace):
            outs = list(
                fun.call_wrapped(
                    *(
                        p.get_known() if p.is_known() else trace.new_input(p.get_aval())
                        for p in pvals
                    )
                )
            )
        wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        later = [want or trace.is_unknown(x) for x, want in zip(outs, wanted, strict=True)]
        jaxpr, consts = trace.finish(
            [x for x, is_later in zip(outs, later) if is_later], fun.debug_info
        )
    finally:
        trace.alive = False
    found = [
        PartialVal.unknown(x.aval if isinstance(x, Tracer) else aval_of(x))
        if is_later
        else PartialVal.known(x)
        for x, is_later in zip(outs, later)
    ]
    return jaxpr, found, tuple(consts)


# -- known and unknown ----------------------------------------------------------------------------------


def split_jaxpr(
    closed: ClosedJaxpr, unknown_in: Sequence[bool], instantiate: bool | Sequence[bool] = False
):
    """Splits a program into what can run now and what has to wait for the unknown inputs.

    Returns:
        `(known, unknown, unknown_out, residual_avals)`: `known` maps the known inputs to the known outputs followed by
        the residuals; `unknown` maps the residuals followed by the unknown inputs to the unknown outputs.
        `instantiate` forces outputs (all or some) to be counted as unknown.
    """
    unknown_in = tuple(unknown_in)
    force = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    return closed.memo(
        ("split", unknown_in, force), lambda: _split_jaxpr(closed, unknown_in, force)
    )


def _split_jaxpr(closed, unknown_in, instantiate):
    jaxpr = closed.jaxpr
    known_avals = [v.aval for v, u in zip(jaxpr.invars, unknown_in) if not u]
    n_out = len(jaxpr.outvars)
    force = [instantiate] * n_out if isinstance(instantiate, bool) else list(instantiate)
    aux = {}

    def run(*known_args):
        partial = JaxprTrace(state.trace, jaxpr.debug_info.name)
        known_args = iter(known_args)
        args = [
            partial.new_input(v.aval) if u else next(known_args)
            for v, u in zip(jaxpr.invars, unknown_in)
        ]
        with set_trace(partial):
            if _effects.on_refs(jaxpr.effects):
                waiting = ref_flow.unknown_variables(jaxpr, unknown_in)
                outs = ref_flow.eval_split(
                    partial.record_unknown, jaxpr, closed.consts, args, waiting
                )
            else:
                outs = eval_jaxpr(jaxpr, closed.consts, *args)
            unknown_out = [partial.is_unknown(x) or f for x, f in zip(outs, force)]
            unknown_jaxpr, residuals = partial.finish(
                [x for x, u in zip(outs, unknown_out) if u], jaxpr.debug_info
            )
        # Concrete constants stay constants of the unknown part; only what was computed here is a residual.
        unknown_jaxpr = prune_closed_consts(ClosedJaxpr(dce_jaxpr_eqns(unknown_jaxpr), residuals))
        computed = [
            (v, x)
            for v, x in zip(unknown_jaxpr.jaxpr.constvars, unknown_jaxpr.consts)
            if isinstance(x, Tracer)
        ]
        fixed = [
            (v, x)
            for v, x in zip(unknown_jaxpr.jaxpr.constvars, unknown_jaxpr.consts)
            if not isinstance(x, Tracer)
        ]
        aux["unknown"] = ClosedJaxpr(
            unknown_jaxpr.jaxpr.replace(
                constvars=[v for v, _ in fixed],
                invars=[*(v for v, _ in computed), *unknown_jaxpr.jaxpr.invars],
            ),
            [x for _, x in fixed],
        )
        aux["unknown_out"] = unknown_out
        aux["residual_avals"] = [v.aval for v, _ in computed]
        return [x for x, u in zip(outs, unknown_out) if not u] + [x for _, x in computed]

    known = trace_to_closed_jaxpr(run, known_avals, jaxpr.debug_info)
    return known, aux["unknown"], aux["unknown_out"], aux["residual_avals"]


# -- other names -----------------------------------------------------------------------------------------


def trace_to_jaxpr_dynamic(fun: Callable, in_avals: Sequence):
    """Traces a function of flat arguments that returns a sequence: `(jaxpr, types of the results, constants)`."""
    jaxpr, consts = trace_to_jaxpr(
        lambda *args: list(fun(*args)), in_avals, DebugInfo(getattr(fun, "__name__", "fun"))
    )
    return jaxpr, jaxpr.out_avals, consts


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether what is bound now is being recorded for a compiled program."""
    return any(
        isinstance(t, DynamicJaxprTrace) and not isinstance(t, JaxprTrace)
        for t in enclosing_traces()
    )
