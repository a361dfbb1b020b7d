"""Taylor mode: every value carries the coefficients of its Taylor polynomial in one variable, up to an order.

A polynomial is `x(t) = x_0 + x_1 t + ... + x_n t^n`; a tracer holds `x_0` as its primal and `x_1 ... x_n` as its terms, without factorials. Rules of
`jet_rules` are those of primitives that have a recurrence. All others follow from the primitive's rule to differentiate: the polynomial of
`y = f(x)` of order n is that of `dy/dt = f'(x) dx/dt` of order n - 1, integrated. So whatever `jvp` differentiates has a Taylor polynomial.

Source:
    Griewank and Walther (2008), Evaluating Derivatives, chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.rules import RuleTable
from xlab.core.trace import Trace, Tracer, set_trace, state, switch_trace
from xlab.interpreters.ad.jvp import Zero, add_tangents, instantiate_zeros, primitive_jvps

jet_rules = RuleTable(
    "jet.jet_rules",
    "find the Taylor polynomial of",
    "rule(primals, series, order, **params) -> (primal out, series out)",
    required=False,
)
"""`series` holds a list of `order` terms for each operand, or None where it is constant; results likewise."""


class JetTracer(Tracer):
    """A value with the terms of its Taylor polynomial."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace, primal, terms):
        self._trace = trace
        self.aval = aval_of(primal)
        self.primal, self.terms = primal, terms

    def __repr__(self):
        return f"JetTracer(primal={self.primal}, terms={self.terms})"

    def known(self):
        return self.primal.known() if isinstance(self.primal, Tracer) else self.primal

    def concrete(self):
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def origin(self):
        return self.primal.origin() if isinstance(self.primal, Tracer) else "an earlier line"


class JetTrace(Trace):
    """Interprets primitives as functions of Taylor polynomials of one order."""

    __slots__ = ("order", "parent")
    label = "a function whose Taylor polynomial is sought"

    def __init__(self, parent: Trace, order: int):
        super().__init__()
        self.parent, self.order = parent, order

    def split(self, x):
        """Primal and terms of any value; None for those of a constant."""
        if x.__class__ is JetTracer and x._trace is self:
            return x.primal, x.terms
        return x, None

    def pair(self, primal, terms):
        return primal if not terms else JetTracer(self, primal, terms)

    def process_primitive(self, prim, args, params):
        primals, series = zip(*map(self.split, args)) if args else ((), ())
        previous = switch_trace(self.parent)
        try:
            if all(terms is None for terms in series):
                return self.parent.process_primitive(prim, list(args), params)
            rule = jet_rules.get(prim) or _general(prim)
            out, out_series = rule(list(primals), list(series), self.order, **params)
        finally:
            switch_trace(previous)
        if prim.multiple_results:
            return [self.pair(p, s) for p, s in zip(out, out_series)]
        return self.pair(out, out_series)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        primals, series = zip(*map(self.split, args)) if args else ((), ())
        with set_trace(self.parent):
            if all(terms is None for terms in series):
                return self.parent.process_custom_jvp(prim, fun, jvp, args, params)

            def rule(primals, tangents):
                outs = jvp(*primals, *map(instantiate_zeros, tangents))
                return outs[: len(outs) // 2], outs[len(outs) // 2 :]

            pairs = _integrated(rule, primals, series, self.order)
        return [self.pair(p, s) for p, s in zip(*pairs)]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        # Its rule goes backward; the function itself has a polynomial.
        with set_trace(self):
            return fun(*args)


def jet_flat(fun: Callable, primals: Sequence, series: Sequence, order: int):
    """Runs a flat function on Taylor polynomials; returns results and their terms, None for constants."""
    trace = JetTrace(state.trace, order)
    try:
        with set_trace(trace):
            outs = fun(*map(trace.pair, primals, series))
            pairs = [trace.split(x) for x in outs]
    finally:
        trace.alive = False
    return [p for p, _ in pairs], [s for _, s in pairs]


def inlined(run: Callable) -> Callable:
    """The rule of a primitive that calls a jaxpr: the jaxpr, equation by equation.

    Args:
        run: from operands and parameters to results.
    """

    def rule(primals, series, order, **params):
        return jet_flat(lambda *xs: run(*xs, **params), primals, series, order)

    return rule


def velocity(terms: Sequence) -> list:
    """The polynomial of `dx/dt`, from the terms of `x`."""
    return [term if k == 0 else (k + 1) * term for k, term in enumerate(terms)]


def integral(speed: Sequence, factor: Sequence):
    """The next term of `y` where `dy/dt = factor dx/dt`: of the order that `factor`, with its primal, has terms.

    Args:
        speed: the `velocity` of `x`.
        factor: the primal and the terms known so far.
    """
    order = len(factor)
    total = speed[0] * factor[order - 1]
    for k in range(1, order):
        total = total + speed[k] * factor[order - 1 - k]
    return total if order == 1 else total / order


def _general(prim) -> Callable:
    """The rule that follows from the one to differentiate."""
    rule = primitive_jvps.get(prim)
    if rule is None:
        raise (
            jet_rules.missing(prim)
            if not primitive_jvps.excuse_for(prim)
            else primitive_jvps.missing(prim)
        )
    form = getattr(rule, "form", None)
    if form is not None:
        return lambda primals, series, order, **params: _FORMS[form](
            prim, primals, series, order, params
        )

    def derived(primals, series, order, **params):
        several = prim.multiple_results

        def lists(primals, tangents):
            out, out_tangent = rule(primals, tangents, **params)
            return (out, out_tangent) if several else ([out], [out_tangent])

        outs, terms = _integrated(lists, primals, series, order)
        return (outs, terms) if several else (outs[0], terms[0])

    return derived


def _linear(prim, primals, series, order, params):
    """Each term by itself."""

    def at(k):
        return prim.bind(
            *(
                instantiate_zeros(Zero.of(p)) if s is None else s[k]
                for p, s in zip(primals, series)
            ),
            **params,
        )

    out, terms = prim.bind(*primals, **params), [at(k) for k in range(order)]
    return (out, list(zip(*terms))) if prim.multiple_results else (out, terms)


def _bilinear(prim, primals, series, order, params):
    """Cauchy's product."""
    bind = lambda x, y: prim.bind(x, y, **params)
    (x, y), (dx, dy) = primals, series
    out = bind(x, y)
    if dy is None:
        return out, [bind(term, y) for term in dx]
    if dx is None:
        return out, [bind(x, term) for term in dy]
    xs, ys = [x, *dx], [y, *dy]
    terms = []
    for k in range(1, order + 1):
        total = None
        for i in range(k + 1):
            total = add_tangents(total, bind(xs[i], ys[k - i]))
        terms.append(total)
    return out, terms


_FORMS = {"linear": _linear, "bilinear": _bilinear}


def _integrated(rule, primals, series, order):
    """Results and terms of a function, by its rule from primals and tangents to results and their tangents."""
    trace = JetTrace(state.trace, order - 1)
    xs = [p if s is None else trace.pair(p, s[:-1]) for p, s in zip(primals, series)]
    speeds = [
        Zero.of(p) if s is None else trace.pair(s[0], velocity(s)[1:])
        for p, s in zip(primals, series)
    ]
    try:
        with set_trace(trace if order > 1 else trace.parent):
            outs, tangents = rule(xs, speeds)
            primals_out = [trace.split(x)[0] for x in outs]
            pairs = [None if _still(t) else trace.split(t) for t in tangents]
    finally:
        trace.alive = False
    terms = []
    for pair in pairs:
        if pair is None:
            terms.append(None)
            continue
        first, more = pair
        more = [instantiate_zeros(Zero.of(first))] * (order - 1) if more is None else more
        terms.append([first, *(c / (k + 2) for k, c in enumerate(more))])
    return primals_out, terms


def _still(tangent) -> bool:
    return type(tangent) is Zero or getattr(tangent, "dtype", None) == dtypes.float0
