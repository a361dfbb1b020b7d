"""The `custom_jvp_call` primitive: one equation with a function and its forward derivative rule."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.compile.jit import hoisted
from xlab.compile.placement import from_host
from xlab.compile.ref_discharge import check_refs
from xlab.core.hi_states import typed
from xlab.core.jaxpr import DebugInfo, jaxpr_as_fun
from xlab.core.primitive import Primitive
from xlab.core.trace import WrappedFunction, state
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.constants import made_while_traced
from xlab.interpreters.control_flow import CallFlow, control_flow_rules
from xlab.interpreters.discharge import discharge_rules, inline


class CustomCall(Primitive):
    """A primitive that carries functions: traces handle it by a method of their own."""

    __slots__ = ()
    rules: tuple[str, ...] = ()  # the parameters that hold them

    def get_bind_params(self, params):
        """As for any primitive, with the functions under `subfuns`: the one called, then its rules. `call_wrapped` of each calls it.

        Example:
            >>> import xlab
            >>> eqn, = xlab.make_jaxpr(xlab.nn.relu)(1.0).eqns
            >>> fun, jvp = eqn.primitive.get_bind_params(eqn.params)["subfuns"]
            >>> fun.call_wrapped(-2.0)
            [Array(0., dtype=float32, weak_type=True)]
        """
        functions, kept = self.split_params(params)
        return {**kept, "subfuns": tuple(map(WrappedFunction, functions))}

    def split_params(self, params):
        """The functions of an equation's parameters, or of what `get_bind_params` made of them, and the other parameters."""
        if "subfuns" in params:
            functions = [
                f.f if type(f) is WrappedFunction else f.call_wrapped for f in params["subfuns"]
            ]
            return functions, {k: v for k, v in params.items() if k != "subfuns"}
        kept = {k: v for k, v in params.items() if k != "call_jaxpr" and k not in self.rules}
        return [jaxpr_as_fun(params["call_jaxpr"]), *(params[r] for r in self.rules)], kept

    @staticmethod
    def operands(values: Sequence) -> list:
        """The operands of a recorded call as arrays, which its author's functions may ask for their shapes; literals are Python numbers."""
        return [
            made_while_traced(from_host(v)) if type(v) in (bool, int, float, complex) else v
            for v in values
        ]


class _CustomJVPCall(CustomCall):
    __slots__ = ()
    rules = ("jvp",)

    def bind(self, *args, **params):
        """Applies a recorded call again."""
        functions, params = self.split_params(params)
        return state.trace.process_custom_jvp(self, *functions, self.operands(args), params)

    def stage(self, trace, fun, jvp, args, params):
        """Records the call as one equation."""
        avals = [typed(x) for x in args]
        closed = pe.trace_to_closed_jaxpr(fun, avals, DebugInfo(params["name"]))
        consts, closed = hoisted(closed)
        invars = [trace.atom(x) for x in (*consts, *args)]
        check_refs(closed, args, consts, params["name"])
        rule = _Rule(jvp, len(consts))
        return trace.record(
            self,
            invars,
            {
                "call_jaxpr": closed,
                "jvp": rule,
                "name": params["name"],
                "num_consts": len(consts) + params["num_consts"],
                "symbolic_zeros": params["symbolic_zeros"],
            },
            closed.out_avals,
            closed.effects,
        )


class _Rule:
    """A derivative rule as a parameter: skips the operands that tracing added in front."""

    __slots__ = ("__name__", "rule", "skip")

    def __init__(self, rule, skip):
        self.rule, self.skip = rule, skip
        self.__name__ = getattr(rule, "__name__", "jvp")

    def __call__(self, *args):
        n = len(args) // 2
        return self.rule(*args[self.skip : n], *args[n + self.skip :])


custom_jvp_call_p = _CustomJVPCall(
    "custom_jvp_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
custom_jvp_call_p.takes_refs = True
custom_jvp_call_p.def_effectful_abstract_eval(
    lambda *avals, call_jaxpr, **_: (call_jaxpr.out_avals, call_jaxpr.effects)
)
ad.primitive_jvps.excuse(custom_jvp_call_p, "its own rule is called instead")
batching.primitive_batchers.excuse(
    custom_jvp_call_p, "the function and its rule are batched together"
)


def _transpose(cts, *operands, call_jaxpr, **params):
    """Transposes the function itself, without its rule: a linear function is its own derivative."""
    return ad.backward_pass(call_jaxpr.jaxpr, call_jaxpr.consts, operands, cts)


ad.primitive_transposes[custom_jvp_call_p] = _transpose
control_flow_rules[custom_jvp_call_p] = lambda params: CallFlow(params["call_jaxpr"])
discharge_rules[custom_jvp_call_p] = inline("call_jaxpr")
mlir.register_text_lowering(
    custom_jvp_call_p, lambda ctx, *args, call_jaxpr, **_: ctx.jaxpr(call_jaxpr, args)
)
