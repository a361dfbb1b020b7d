"""Questions about the transformations around the code that asks, and call primitives of one's own."""

from __future__ import annotations

from collections.abc import Iterator

from xlab.core.avals import aval_of
from xlab.core.jaxpr import DebugInfo, eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, Trace, state
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe


def _traces() -> Iterator[Trace]:
    trace = state.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether what is bound now is being recorded for a compiled program."""
    return any(isinstance(t, pe.JaxprTrace) and not isinstance(t, pe.PartialTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether what is bound now is being batched."""
    return any(isinstance(t, batching.BatchTrace) for t in _traces())


def call_impl(fun, *args, **params):
    """Calls a function: what a call primitive means on concrete values."""
    return fun(*args)


class CallPrimitive(Primitive):
    """A primitive that calls a function on its operands: `bind(fun, *args, **params)`, where `fun` returns a list.

    It is recorded with the function's jaxpr in the parameter `call_jaxpr`, and every transformation goes into the function.

    Example:
        >>> import xlab
        >>> marked_p = CallPrimitive("marked")
        >>> def f(x):
        ...     return marked_p.bind(lambda x: [x * 2.0], x, label="twice")[0]
        >>> print(xlab.make_jaxpr(f)(1.0))
        { lambda ; a:f32[]. let
            b:f32[] = marked[
              call_jaxpr={ lambda ; c:f32[]. let d:f32[] = mul c 2.0:f32[] in (d,) }
              label=twice
            ] a
          in (b,) }
        >>> float(xlab.grad(f)(3.0))
        2.0
    """

    __slots__ = ()
    call_primitive = True

    def __init__(self, name: str):
        super().__init__(name, multiple_results=True, joins=False, context_dependent=True, hidden=True)
        self.def_impl(lambda *args, call_jaxpr, **params: eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args))
        self.def_effectful_abstract_eval(lambda *avals, call_jaxpr, **params: (call_jaxpr.out_avals, call_jaxpr.effects))
        mlir.register_text_lowering(self, mlir.inline_call("call_jaxpr"))
        ad.primitive_jvps[self] = self._jvp
        ad.primitive_transposes[self] = self._transpose
        batching.axis_primitive_batchers[self] = self._batch
        pe.partial_eval_rules[self] = lambda trace, args, **params: _split_call(trace, self, args, **params)
        pe.dce_rules[self] = pe.dce_closed_call("call_jaxpr")

    def bind(self, *args, **params):
        if "call_jaxpr" not in params:
            fun, *args = args
            if state.trace is EVAL:
                return fun(*args)
            closed = pe.trace_to_closed_jaxpr(fun, [aval_of(x) for x in args], DebugInfo(getattr(fun, "__name__", self.name)))
            opened = pe.close_jaxpr(pe.convert_constvars_jaxpr(closed.jaxpr))
            args, params = [*closed.consts, *args], {**params, "call_jaxpr": opened}
        return super().bind(*args, **params)

    def _jvp(self, primals, tangents, *, call_jaxpr, **params):
        nonzero = [type(t) is not ad.Zero for t in tangents]
        new, nonzero_out = ad.jvp_jaxpr(call_jaxpr, nonzero, False)
        outs = self.bind(*primals, *(t for t in tangents if type(t) is not ad.Zero), call_jaxpr=new, **params)
        n = len(call_jaxpr.out_avals)
        given = iter(outs[n:])
        return outs[:n], [next(given) if nz else ad.Zero(a.to_tangent_aval())
                          for nz, a in zip(nonzero_out, call_jaxpr.out_avals)]

    def _transpose(self, cts, *operands, call_jaxpr, **params):
        linear = [ad.is_undefined_primal(x) for x in operands]
        nonzero = [type(ct) is not ad.Zero for ct in cts]
        new, nonzero_out = ad.transpose_jaxpr(call_jaxpr, linear, nonzero)
        given = iter(self.bind(*(x for x, lin in zip(operands, linear) if not lin),
                               *(ct for ct, nz in zip(cts, nonzero) if nz), call_jaxpr=new, **params))
        found = iter([next(given) if nz else None for nz in nonzero_out])
        return [next(found) if lin else None for lin in linear]

    def _batch(self, axis, operands, dims, *, call_jaxpr, **params):
        new, batched = batching.batch_jaxpr(call_jaxpr, axis, [d is not None for d in dims], False)
        operands = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(operands, dims)]
        return self.bind(*operands, call_jaxpr=new, **params), [0 if b else None for b in batched]


def _split_call(trace, prim, args, *, call_jaxpr, **params):
    """Runs the known part of a call and records the rest."""
    unknown = [trace.is_unknown(x) for x in args]
    known, waiting, out_unknown, _ = pe.split_jaxpr(call_jaxpr, unknown)
    n_known = sum(not u for u in out_unknown)
    outs = trace.run_known(prim.bind, *(x for x, u in zip(args, unknown) if not u), call_jaxpr=known, **params)
    known_outs, residuals = iter(outs[:n_known]), outs[n_known:]
    rest = iter(pe.JaxprTrace.process(trace, prim, [*residuals, *(x for x, u in zip(args, unknown) if u)],
                                      {"call_jaxpr": waiting, **params}))
    return [next(rest if u else known_outs) for u in out_unknown]


call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")
