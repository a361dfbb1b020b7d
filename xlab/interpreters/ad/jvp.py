"""Forward differentiation: every value carries its tangent, every primitive has a rule for the pair.

Tangents that are zero are `Zero(aval)` and cost nothing. A rule runs under the parent trace, so the derivative of a
program is a program of the same kind: concrete, recorded, batched, or differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import AbstractValue, ShapedArray, aval_of, vector_space
from xlab.core.hi_tracers import tracer_class
from xlab.core.hi_types import as_value, in_use, is_high
from xlab.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.core.rules import RuleTable
from xlab.core.trace import Trace, Tracer, set_trace, state, switch_trace, transforming
from xlab.errors import UnexpectedTracerError
from xlab.interpreters import partial_eval as pe
from xlab.tree.registration import register_pytree_node

primitive_jvps = RuleTable(
    "ad.primitive_jvps",
    "differentiate",
    "rule(primals, tangents, **params) -> (primal out, tangent out)",
    phrase="Differentiation rule for '{}' not implemented",
)
"""`tangents` may hold `Zero`s; several results give lists. Worked example, for `neg`:
`lambda primals, tangents: (neg(primals[0]), neg(tangents[0]))` with the zero handled, which `ad.deflinear` does."""


class Zero:
    """A tangent or cotangent that is zero, by type; no array is made for it."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self):
        return f"{type(self).__name__}({self.aval})"

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)

    @classmethod
    def of(cls, x) -> Zero:
        """The zero tangent for a primal value."""
        return cls(aval_of(x).to_tangent_aval())

    @classmethod
    def from_primal_value(cls, x) -> Zero:
        """The zero tangent for a primal value; the name is JAX's."""
        return cls.of(x)


# A rule may hand its tangents on as arguments, to `vmap` for one: no array goes with a zero.
register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


class SymbolicZero(Zero):
    """A `Zero` in the trees that custom rules take and give: a leaf there, in the place of an array."""

    __slots__ = ()

    @staticmethod
    def as_leaf(tangent):
        """A tangent or cotangent as custom rules are given it."""
        return SymbolicZero(tangent.aval) if type(tangent) is Zero else tangent


def has_no_derivative(tangent_aval: AbstractValue) -> bool:
    """Whether this is the type of the tangents of integers and the like, which are all zero."""
    return type(tangent_aval) is ShapedArray and tangent_aval.dtype == dtypes.float0


def nonzero_mask(values: Sequence) -> list[bool]:
    """For each tangent or cotangent, whether it is an array rather than a `Zero`."""
    return [type(x) is not Zero for x in values]


def drop_zeros(values: Sequence) -> list:
    """Tangents or cotangents without the `Zero`s."""
    return [x for x in values if type(x) is not Zero]


class JVPTracer(Tracer):
    """A value with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace, primal, tangent):
        self._trace = trace
        self.aval = aval_of(primal)
        self.primal, self.tangent = primal, tangent

    def __repr__(self):
        if self._trace.parent.records_derivatives:
            return f"GradTracer(primal={self.primal}, typeof(tangent)={aval_of(self.primal).to_tangent_aval().str_short(short_dtypes=True)})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"

    def known(self):
        return self.primal.known() if isinstance(self.primal, Tracer) else self.primal

    def concrete(self):
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def disagreement(self):
        return self.primal.disagreement() if isinstance(self.primal, Tracer) else None

    def origin(self):
        return self.primal.origin() if isinstance(self.primal, Tracer) else "an earlier line"


class JVPTrace(Trace):
    """Interprets primitives as functions of (value, tangent) pairs."""

    __slots__ = ("parent",)
    label = "a function under differentiation"

    def __init__(self, parent: Trace):
        super().__init__()
        self.parent = parent

    def split(self, x):
        """Primal and tangent of any value."""
        if x.__class__ is JVPTracer and x._trace is self:
            return x.primal, x.tangent
        return x, Zero(aval_of(x).to_tangent_aval())

    def process_primitive(self, prim, args, params):
        involved = False
        primals, tangents = [], []
        for x in args:
            if x.__class__ is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                involved = True
            else:
                primals.append(x)
                tangents.append(None)
        previous = switch_trace(self.parent)
        try:
            if not involved and not prim.makes_ref:
                return self.parent.process_primitive(prim, args, params)
            tangents = [Zero.of(p) if t is None else t for p, t in zip(primals, tangents)]
            rule = primitive_jvps.get(prim)
            if rule is None:
                if not all(
                    getattr(t.aval if type(t) is Zero else aval_of(t), "dtype", None)
                    == dtypes.float0
                    for t in tangents
                ):
                    raise primitive_jvps.missing(prim)
                # Integers alone have no tangents.
                return self.parent.process_primitive(prim, primals, params)
            out, out_tangent = rule(tuple(primals), tuple(tangents), **params)
        finally:
            switch_trace(previous)
        if prim.multiple_results:
            return [self.pair(p, t) for p, t in zip(out, out_tangent)]
        return self.pair(out, out_tangent)

    def pair(self, primal, tangent):
        if type(tangent) is Zero:
            return primal
        if in_use.types:
            return tracer_class(JVPTracer, aval_of(primal))(self, primal, tangent)
        return JVPTracer(self, primal, tangent)

    def cur_qdd(self, x):
        return self.parent.cur_qdd(self.split(x)[0])

    @contextmanager
    def nothing_closed_over(self, params):
        """Context manager: raises `closed_over` where a rule in the block uses one of this trace's values."""
        try:
            yield
        except UnexpectedTracerError as e:
            if getattr(getattr(e, "tracer", None), "_trace", None) is self:
                raise closed_over(params) from None
            raise

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        primals, tangents = zip(*map(self.split, args)) if args else ((), ())
        with set_trace(self.parent), self.nothing_closed_over(params):
            if all(type(t) is Zero for t in tangents):
                return self.parent.process_custom_jvp(prim, fun, jvp, args, params)
            n = params.get("num_consts", 0)
            if any(type(t) is not Zero for t in tangents[:n]):
                raise closed_over(params)
            if not params.get("symbolic_zeros"):
                tangents = [instantiate_zeros(t) for t in tangents]
            outs = jvp(*primals, *tangents)
            n = len(outs) // 2
            return [self.pair(p, t) for p, t in zip(outs[:n], outs[n:])]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        primals, tangents = zip(*map(self.split, args)) if args else ((), ())
        with set_trace(self.parent), self.nothing_closed_over(params):
            if all(type(t) is Zero for t in tangents):
                return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)
            outs, out_tangents = prim.linear_part(fwd, bwd, primals, tangents, params)
            return [
                p if has_no_derivative(aval_of(t)) else self.pair(p, t)
                for p, t in zip(outs, out_tangents)
            ]


def closed_over(params) -> UnexpectedTracerError:
    """The error for a custom derivative rule that closes over a value being differentiated."""
    return UnexpectedTracerError(
        f"{params.get('name', 'a function')} has a custom derivative and closes over a value that is being "
        f"differentiated: its rule cannot give a derivative for that value. Pass it as an argument instead."
    )


def jvp(fun: Callable, primals: Sequence, tangents: Sequence):
    """Runs a flat function on (value, tangent) pairs; returns flat results and tangents (maybe `Zero`)."""
    trace = JVPTrace(state.trace)
    args = [trace.pair(p, t) for p, t in zip(primals, tangents)]
    try:
        with set_trace(trace), transforming("jvp"):
            outs = fun(*args)
            if in_use.types:
                outs = list(map(as_value, outs))
            pairs = [trace.split(x) for x in outs]
    finally:
        trace.alive = False
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(closed: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]):
    """The program that maps primals and the nonzero tangents to results and their nonzero tangents.

    Returns the program and which result tangents it gives; `instantiate` forces them to be given.
    """
    nonzeros = tuple(nonzeros)
    force = (
        (instantiate,) * len(closed.out_avals)
        if isinstance(instantiate, bool)
        else tuple(instantiate)
    )
    return closed.memo(("jvp", nonzeros, force), lambda: _jvp_jaxpr(closed, nonzeros, force))


def _jvp_jaxpr(closed, nonzeros, force):
    in_avals = closed.in_avals
    aux = {}

    def run(*args):
        primals = args[: len(in_avals)]
        given = iter(args[len(in_avals) :])
        tangents = [
            next(given) if nz else Zero(a.to_tangent_aval()) for a, nz in zip(in_avals, nonzeros)
        ]
        outs, out_tangents = jvp(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), primals, tangents
        )
        out_tangents = [instantiate_zeros(t) if f else t for t, f in zip(out_tangents, force)]
        aux["nonzero_out"] = nonzero_mask(out_tangents)
        return [*outs, *drop_zeros(out_tangents)]

    tangent_avals = [a.to_tangent_aval() for a, nz in zip(in_avals, nonzeros) if nz]
    new = pe.trace_to_closed_jaxpr(run, [*in_avals, *tangent_avals], closed.jaxpr.debug_info)
    return new, aux["nonzero_out"]


# -- zeros and sums -------------------------------------------------------------------------------------

# `lax` registers what makes arrays of zeros and adds them.
_zeros_like_aval = None
_add = _add_primitive = None


def set_arithmetic(zeros_like_aval, add, primitive):
    global _zeros_like_aval, _add, _add_primitive
    _zeros_like_aval, _add, _add_primitive = zeros_like_aval, add, primitive


def instantiate_zeros(t):
    """An array for a tangent: zeros where it was a `Zero`."""
    if not isinstance(t, Zero):
        return t
    aval = t.aval
    if type(aval) is AbstractRef:  # nothing collects its derivatives
        return np.zeros((), dtypes.float0)
    if type(aval) is ShapedArray and aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return zeros_like_aval(aval)


def zeros_like_aval(aval: AbstractValue):
    """The zero of a type of tangents."""
    return (
        as_value(aval.vspace_zero()) if in_use.types and is_high(aval) else _zeros_like_aval(aval)
    )


def add_jaxvals(x, y):
    """Sum of two values of one type; the primitive that derivatives are added with."""
    if in_use.types and is_high(aval := aval_of(x)):
        return as_value(aval.vspace_add(x, y))
    return _add(x, y)


vector_space.update(zero=lambda aval: instantiate_zeros(Zero(aval)), add=add_jaxvals)


def add_jaxvals_primitive():
    """The primitive of `add_jaxvals`."""
    return _add_primitive


def add_tangents(x, y):
    """Sum of two tangents or cotangents, either of which may be `Zero` or None."""
    if x is None or type(x) is Zero:
        return y
    if y is None or type(y) is Zero:
        return x
    return add_jaxvals(x, y)


# -- short ways to write rules --------------------------------------------------------------------------


def defjvp(prim, *rules):
    """One rule per operand: `rule(tangent, *operands, **params)`, or None where the derivative is zero."""

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        total = None
        for r, t in zip(rules, tangents):
            if r is not None and type(t) is not Zero:
                total = add_tangents(total, r(t, *primals, **params))
        return out, Zero.of(out) if total is None else total

    primitive_jvps[prim] = rule


def defjvp2(prim, *rules):
    """Like `defjvp`, for rules that also receive the answer: `rule(tangent, ans, *operands, **params)`."""

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        total = None
        for r, t in zip(rules, tangents):
            if r is not None and type(t) is not Zero:
                total = add_tangents(total, r(t, out, *primals, **params))
        return out, Zero.of(out) if total is None else total

    primitive_jvps[prim] = rule


def not_differentiable(prim, reason: str):
    """States that a primitive has no derivative rule, and why; with `zero`-valued use see `defzero`."""
    primitive_jvps.excuse(prim, reason)


def defzero(prim):
    """For primitives whose result has zero derivative (integers, comparisons, rounding)."""

    def rule(primals, tangents, **params):
        out = prim.bind(*primals, **params)
        return out, ([Zero.of(o) for o in out] if prim.multiple_results else Zero.of(out))

    primitive_jvps[prim] = rule
