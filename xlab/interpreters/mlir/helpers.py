"""Short ways to write lowering rules."""

from __future__ import annotations

import functools

from xlab.core.avals import INVARYING, ShapedArray
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.mlir.module import lowerings
from xlab.interpreters.mlir.values import escape, tensor_type


def register_lowering(prim, rule, platform: str | None = None):
    """Registers how a primitive becomes StableHLO, on all platforms or on one."""
    if platform is None:
        lowerings[prim] = rule
        return
    general = lowerings.get(prim)

    def by_platform(ctx, *args, **params):
        chosen = rule if ctx.platform == platform else general
        if chosen is None:
            raise NotImplementedError(
                f"primitive '{prim.name}' has a lowering for {platform} only, not for {ctx.platform}")
        return chosen(ctx, *args, **params)
    lowerings[prim] = by_platform


def unary(op: str):
    """Rule for `stablehlo.op` on one operand of the result's type."""
    head = f"{op} "
    arrow = op.startswith("chlo.")  # that dialect spells the operand's type and the result's

    def rule(ctx, x, **_):
        aval = ctx.avals_out[0]
        t = aval.mlir or tensor_type(aval)
        return ctx.op(f"{head}{x} : {t} -> {t}" if arrow else f"{head}{x} : {t}")
    return rule


def binary(op: str):
    """Rule for `stablehlo.op` on operands of the result's type, scalars being spread."""
    head = f"{op} "

    def rule(ctx, x, y, **_):
        a, b = ctx.avals_in
        out = ctx.avals_out[0]
        if a.shape != out.shape:
            x = ctx.spread(x, a, out)
        if b.shape != out.shape:
            y = ctx.spread(y, b, out)
        return ctx.op(f"{head}{x}, {y} : {out.mlir or tensor_type(out)}")
    return rule


def comparison(direction: str, kind_of):
    """Rule for `stablehlo.compare`; `kind_of(dtype)` says FLOAT, SIGNED or UNSIGNED."""
    def rule(ctx, x, y, **_):
        a, b = ctx.avals_in
        out = ctx.avals_out[0]
        wide = a if a.shape else b
        x, y = ctx.spread(x, a, out), ctx.spread(y, b, out)
        operand = tensor_type(wide.update(shape=out.shape))
        return ctx.op(f"stablehlo.compare {direction}, {x}, {y}, {kind_of(wide.dtype)} : "
                      f"({operand}, {operand}) -> {tensor_type(out)}")
    return rule


def custom_call(ctx, target: str, operands, types_in, types_out, *, config: str = "", extra: str = "",
                side_effect: bool = False) -> list[str]:
    """Emits a typed-FFI custom call."""
    attrs = [f'call_target_name = "{escape(target)}"', "api_version = 4 : i32"]
    if config:
        attrs.append(f"backend_config = {{{config}}}")
    if side_effect:
        attrs.append("has_side_effect = true")
    if extra:
        attrs.append(extra)
    result = types_out[0] if len(types_out) == 1 else f"({', '.join(types_out)})"
    return ctx.ops(f'"stablehlo.custom_call"({", ".join(operands)}) {{{", ".join(attrs)}}} : '
                   f'({", ".join(types_in)}) -> {result}', len(types_out))


def inline_call(param: str):
    """Rule for primitives that just run the inner program in the given parameter."""
    def rule(ctx, *args, **params):
        return ctx.jaxpr(params[param], args)
    return rule


def lower_fun(fun, multiple_results: bool = True):
    """Rule for primitives whose meaning is a function of other primitives: `fun(*operands, **params)`, one or more results.

    `multiple_results` is accepted as the field writes it; a list or tuple says so itself. Operations keep the location of the one equation they stand for.
    """
    @functools.lru_cache(maxsize=1024)
    def program(avals, params):
        def flat(*args):
            out = fun(*args, **dict(params))
            return list(out) if isinstance(out, (list, tuple)) else [out]
        return pe.trace_to_closed_jaxpr(flat, avals)

    def rule(ctx, *args, **params):
        avals = tuple(a.update(sharding=None, mat=INVARYING) if type(a) is ShapedArray else a for a in ctx.avals_in)
        closed = program(avals, tuple(params.items()))
        module = ctx.module
        module.keepalive.append(closed)
        number = module.numbers[id(ctx.eqn)]
        for eqn in closed.jaxpr.eqns:
            module.numbers[id(eqn)] = number
        return ctx.jaxpr(closed, args)
    return rule
