"""Call primitives: JAX's names for them, and a class to define new ones."""

from __future__ import annotations

from xlab.core.hi_states import typed
from xlab.core.jaxpr import DebugInfo
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import ParamUpdater, define_call


def call_impl(fun, *args, **params):
    """Calls a function: the eager rule of call primitives."""
    return fun(*args)


class CallPrimitive(Primitive):
    """A primitive that calls a function on its operands: `bind(fun, *args, **params)`, where `fun` returns a list.

    It is recorded with the function's jaxpr in the parameter `call_jaxpr`, and every transformation goes into the function. `updaters` say how
    the other parameters follow; see `define_call`.

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

    def __init__(self, name: str, *updaters: ParamUpdater):
        super().__init__(name, hidden=True)
        self.call = define_call(self, "call_jaxpr", *updaters)

    def bind(self, *args, **params):
        if "call_jaxpr" not in params:
            fun, *args = args
            if state.trace is EVAL:
                return fun(*args)
            closed = pe.trace_to_closed_jaxpr(
                fun, [typed(x) for x in args], DebugInfo(getattr(fun, "__name__", self.name))
            )
            consts, jaxpr = pe.open_closed_jaxpr(closed)
            args, params = (
                [*consts, *args],
                {
                    **params,
                    **self.call.added(params, len(consts)),
                    "call_jaxpr": pe.close_jaxpr(jaxpr),
                },
            )
        return super().bind(*args, **params)


call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")
