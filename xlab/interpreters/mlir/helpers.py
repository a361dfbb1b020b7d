"""Short ways to write lowering rules."""

from __future__ import annotations

import functools

from xlab.core.avals import INVARYING, ShapedArray
from xlab.core.jaxpr import number_equations
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.mlir.building import (
    LoweringRuleContext,
    call_program,
    from_objects,
    is_text_rule,
    text_rule,
)
from xlab.interpreters.mlir.lowering_rules import lowerings, single_operations
from xlab.interpreters.mlir.objects import custom_call_op
from xlab.interpreters.mlir.values import escape, tensor_type

_PLATFORMS = {"gpu": ("gpu", "cuda", "rocm"), "cuda": ("cuda", "gpu"), "rocm": ("rocm", "gpu")}


single_platform_primitives: set = set()
"""Primitives that a program for several platforms cannot have."""


def register_lowering(
    prim, rule, platform: str | None = None, inline: bool = True, cacheable: bool = True
):
    """Registers the lowering rule of a primitive, for all platforms or for one.

    A rule is `rule(ctx, *operands, **params)`: it gets MLIR values and returns MLIR values, which it builds with the operations of
    `xlab.extend.mlir.dialects`. What makes rules (`lower_fun`, `ffi_lowering`, `unary`, ...) gives rules on text, which say so and
    may be registered here as well. For a rule of one's own on text there is `register_text_lowering`.

    Args:
        platform: `"cpu"`, `"gpu"`, `"tpu"`, ...; the rule for all platforms is used where there is none for the platform.
        cacheable: whether the rule gives the same for the same types and parameters.

    Example:
        >>> import xlab
        >>> from xlab.extend.core import Primitive
        >>> from xlab.extend.mlir.dialects import stablehlo as hlo
        >>> twice_p = Primitive("twice")
        >>> twice_p.def_abstract_eval(lambda x: x) and None
        >>> register_lowering(twice_p, lambda ctx, x: [hlo.add(x, x)])
        >>> float(xlab.jit(twice_p.bind)(2.0))
        4.0
    """
    _register(prim, rule if is_text_rule(rule) else from_objects(prim, rule, cacheable), platform)


def register_text_lowering(prim, rule, platform: str | None = None) -> None:
    """Registers a rule that writes text: `rule(ctx, *operands, **params)` gets SSA names and returns SSA names.

    So all rules of this package are written: a line of text costs a fraction of building an operation from Python.

    Args:
        platform: as for `register_lowering`.

    Example:
        >>> import xlab
        >>> from xlab.extend.core import Primitive
        >>> wave_p = Primitive("wave")
        >>> wave_p.def_abstract_eval(lambda x: x) and None
        >>> register_text_lowering(wave_p, lambda ctx, x: ctx.op(f"stablehlo.sine {x} : {ctx.type_out()}"))
        >>> float(xlab.jit(wave_p.bind)(0.0))
        0.0
    """
    _register(prim, rule, platform)


def _register(prim, rule, platform: str | None) -> None:
    known = lowerings.get(prim)
    by_platform = known if isinstance(known, _ByPlatform) else None
    if platform is None and by_platform is None:
        lowerings[prim] = rule
        return
    if by_platform is None:
        by_platform = lowerings[prim] = _ByPlatform(prim, known)
    if platform is None:
        by_platform.general = rule
    else:
        by_platform.rules.update(dict.fromkeys(_PLATFORMS.get(platform, (platform,)), rule))


class _ByPlatform:
    """The lowering rules of a primitive that differ between platforms."""

    def __init__(self, prim, general):
        self.prim, self.general, self.rules = prim, general, {}

    def __call__(self, ctx, *args, **params):
        chosen = self.rules.get(ctx.platform, self.general)
        if chosen is None:
            raise NotImplementedError(
                f"MLIR translation rule for primitive '{self.prim.name}' not found for platform {ctx.platform}: there is one for "
                f"{', '.join(self.rules)} only. Register one with mlir.register_lowering({self.prim.name}_p, rule), for all "
                f"platforms, or with platform={ctx.platform!r}."
            )
        return chosen(ctx, *args, **params)


def branch_for_platform(platform: str, platforms) -> int:
    """Index of the alternative for a platform: `platforms` names those of each, None for all others."""
    names = _PLATFORMS.get(platform, (platform,)) if platform != "gpu" else ("cuda",)
    for i, of in enumerate(platforms):
        if of is None or any(n in of for n in names):
            return i
    raise NotImplementedError(
        f"platform_dependent has no branch for the platform {platform}: there is one for {', '.join(n for of in platforms for n in of)} only. "
        f"Give one as {platform}=..., or for all platforms that are not named as default=..."
    )


def unary(op: str):
    """Rule for `stablehlo.op` on one operand of the result's type."""
    head = f"{op} "
    arrow = op.startswith("chlo.")  # that dialect spells the operand's type and the result's

    @text_rule
    def rule(ctx, x, **_):
        aval = ctx.avals_out[0]
        t = aval.mlir or tensor_type(aval)
        return ctx.op(f"{head}{x} : {t} -> {t}" if arrow else f"{head}{x} : {t}")

    if not arrow:
        single_operations[rule] = (head, True)
    return rule


def binary(op: str):
    """Rule for `stablehlo.op` on operands of the result's type, scalars being spread."""
    head = f"{op} "

    @text_rule
    def rule(ctx, x, y, **_):
        a, b = ctx.avals_in
        out = ctx.avals_out[0]
        if a.shape != out.shape:
            x = ctx.broadcast_operand(x, a, out)
        if b.shape != out.shape:
            y = ctx.broadcast_operand(y, b, out)
        return ctx.op(f"{head}{x}, {y} : {out.mlir or tensor_type(out)}")

    single_operations[rule] = (head, True)
    return rule


def comparison(direction: str, kind_of):
    """Rule for `stablehlo.compare`; `kind_of(dtype)` says FLOAT, SIGNED or UNSIGNED."""

    @text_rule
    def rule(ctx, x, y, **_):
        a, b = ctx.avals_in
        out = ctx.avals_out[0]
        wide = a if a.shape else b
        x, y = ctx.broadcast_operand(x, a, out), ctx.broadcast_operand(y, b, out)
        operand = tensor_type(wide.update(shape=out.shape))
        return ctx.op(
            f"stablehlo.compare {direction}, {x}, {y}, {kind_of(wide.dtype)} : "
            f"({operand}, {operand}) -> {tensor_type(out)}"
        )

    return rule


def custom_call(ctx, *args, **options):
    """Emits a custom call.

    With a name as first argument, as in rules on MLIR values: `custom_call(target, result_types=, operands=, ...)` gives the
    operation. With the context of a rule on text: `custom_call(ctx, target, operands, types_in, types_out, ...)` gives names.
    """
    if isinstance(ctx, str):
        return custom_call_op(ctx, *args, **options)
    return _custom_call_text(ctx, *args, **options)


def _custom_call_text(
    ctx,
    target: str,
    operands,
    types_in,
    types_out,
    *,
    config: str = "",
    extra: str = "",
    side_effect: bool = False,
) -> list[str]:
    attrs = [f'call_target_name = "{escape(target)}"', "api_version = 4 : i32"]
    if config:
        attrs.append(f"backend_config = {{{config}}}")
    if side_effect:
        attrs.append("has_side_effect = true")
    if extra:
        attrs.append(extra)
    result = types_out[0] if len(types_out) == 1 else f"({', '.join(types_out)})"
    return ctx.ops(
        f'"stablehlo.custom_call"({", ".join(operands)}) {{{", ".join(attrs)}}} : '
        f"({', '.join(types_in)}) -> {result}",
        len(types_out),
    )


def inline_call(param: str):
    """Rule for primitives that just run the inner program in the given parameter."""

    @text_rule
    def rule(ctx, *args, **params):
        return ctx.jaxpr(params[param], args)

    return rule


def lower_fun(fun, multiple_results: bool = True):
    """Rule for primitives whose meaning is a function of other primitives: `fun(*operands, **params)`, one or more results.

    `multiple_results` is accepted as in JAX and not needed. Operations keep the location of the equation they lower.
    """

    @functools.lru_cache(maxsize=1024)
    def program(avals, params):
        def flat(*args):
            out = fun(*args, **dict(params))
            return list(out) if isinstance(out, (list, tuple)) else [out]

        closed = pe.trace_to_closed_jaxpr(flat, avals)
        return closed, tuple(number_equations(closed.jaxpr))

    @text_rule
    def rule(ctx, *args, **params):
        avals = tuple(
            a
            if type(a) is not ShapedArray or (a.mat.unreduced and not ctx.manual)
            else a.update(sharding=None, mat=INVARYING)
            for a in ctx.avals_in
        )
        closed, equations = program(avals, tuple(params.items()))
        if isinstance(ctx, LoweringRuleContext):
            return call_program(ctx, closed, args, getattr(fun, "__name__", "fun"))
        module = ctx.module
        module.keepalive.append(closed)
        module.numbers.update(dict.fromkeys(equations, module.numbers[id(ctx.eqn)]))
        return ctx.jaxpr(closed, args)

    return rule
