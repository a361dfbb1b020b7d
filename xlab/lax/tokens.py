"""Values without data: `create_token` and `after_all`; `stage` and `dce_sink`, which act on the trace under way only."""

from __future__ import annotations

from typing import Any

from xlab import tree as _tree
from xlab.core.avals import TOKEN, aval_of, value_and_type
from xlab.core.effects import Effect
from xlab.core.locations import current_source_info
from xlab.core.primitive import Primitive
from xlab.core.tokens import Token
from xlab.core.trace import Tracer, state
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.lax.convert import convert

__all__ = [
    "after_all",
    "after_all_p",
    "create_token",
    "create_token_p",
    "dce_sink",
    "dce_sink_p",
    "stage",
]


def create_token(_: Any = None) -> Any:
    """A token: a value without data that says that something has happened. The argument is ignored.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> type(xlab.jit(lax.after_all)(lax.create_token())).__name__
        'Token'
    """
    return create_token_p.bind()


def after_all(*operands: Any) -> Any:
    """The token that says that everything the given tokens stand for has happened."""
    for x in operands:
        if not isinstance(x, Token | Tracer) or aval_of(x) is not TOKEN:
            raise TypeError(
                f"Arguments to after_all must be tokens, as create_token makes them; got {value_and_type(x)}"
            )
    return after_all_p.bind(*operands)


create_token_p = Primitive("create_token")
create_token_p.def_abstract_eval(lambda: TOKEN)
mlir.register_text_lowering(
    create_token_p, lambda ctx: ctx.op("stablehlo.create_token : !stablehlo.token")
)

after_all_p = Primitive("after_all")
after_all_p.def_abstract_eval(lambda *tokens: TOKEN)
mlir.register_text_lowering(
    after_all_p,
    lambda ctx, *tokens: ctx.op(
        f"stablehlo.after_all {', '.join(tokens)} : !stablehlo.token"
        if tokens
        else "stablehlo.create_token : !stablehlo.token"
    ),
)
for _prim in (create_token_p, after_all_p):
    ad.primitive_jvps.excuse(_prim, "tokens have no derivative")
    ad.primitive_transposes.excuse(_prim, "tokens have no derivative")
    batching.primitive_batchers.excuse(_prim, "a token has no dimension to map over")


class NoDCEEffect(Effect):
    """Keeps the equation, and so its operands, through dead code elimination."""


_NO_DCE = NoDCEEffect()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keeps the computation of values in a program although nothing uses them.

    Args:
        val: array or pytree of arrays.
        prevent_mlir_dce: whether the compiler, too, has to keep them.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> print(xlab.make_jaxpr(lambda x: lax.dce_sink(x * 2.0))(1.0))
        { lambda ; a:f32[]. let
            b:f32[] = mul a 2.0:f32[]
            dce_sink[prevent_mlir_dce=False] b
          in () }
    """
    for x in _tree.leaves(val):
        _check("dce_sink", x)
        dce_sink_p.bind(x, prevent_mlir_dce=prevent_mlir_dce)


def _check(name, x):
    try:
        return aval_of(x)
    except InvalidInputException:
        raise TypeError(f"lax.{name} takes arrays and numbers, got {value_and_type(x)}") from None


dce_sink_p = Primitive("dce_sink", multiple_results=True)
dce_sink_p.linear_in_unreduced = True


@dce_sink_p.def_impl
def _sink_impl(x, **_):
    return []


@dce_sink_p.def_effectful_abstract_eval
def _sink_aval(x, **_):
    return [], {_NO_DCE}


def _sink_jvp(primals, tangents, **params):
    dce_sink_p.bind(*primals, **params)
    if type(tangents[0]) is not ad.Zero:
        dce_sink_p.bind(*tangents, **params)
    return [], []


def _sink_batch(operands, dims, **params):
    dce_sink_p.bind(*operands, **params)
    return [], []


def _sink_lowering(ctx, x, *, prevent_mlir_dce):
    if prevent_mlir_dce:
        order = [*reversed(range(mlir.values.physical_aval(ctx.avals_in[0]).ndim))]
        layout = f"dense<{order}> : tensor<{len(order)}xindex>"
        ctx.op0(
            f'stablehlo.custom_call @dce_sink({x}) {{backend_config = "", has_side_effect = true, mhlo.backend_config = {{}}, '
            f"operand_layouts = [{layout}], result_layouts = []}} : ({ctx.type_in()}) -> ()"
        )
    return []


ad.primitive_jvps[dce_sink_p] = _sink_jvp
ad.primitive_transposes[dce_sink_p] = lambda cts, x, **_: [None]
batching.primitive_batchers[dce_sink_p] = _sink_batch
mlir.register_text_lowering(dce_sink_p, _sink_lowering)


def stage(x: Any, /) -> Any:
    """The value as part of the trace under way: a constant of the program; outside of traces, an array.

    Example:
        >>> import xlab
        >>> from xlab import lax
        >>> print(type(lax.stage(2.0)).__name__, xlab.make_jaxpr(lambda x: lax.stage(2.0))(1.0))
        ArrayImpl { lambda ; a:f32[]. let  in (2.0:f32[],) }
    """
    aval = _check("stage", x)
    if isinstance(x, Tracer):
        return x
    trace = state.trace
    while getattr(trace, "parent", None) is not None:
        trace = trace.parent
    if isinstance(trace, pe.DynamicJaxprTrace):
        return trace.tracer(aval, trace.capture(x), current_source_info())
    return convert(x, aval.dtype, aval.weak_type)


costs.register(costs.free, create_token_p, after_all_p, dce_sink_p)
