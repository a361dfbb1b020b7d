"""Users' lowering rules, written with MLIR objects: `rule(ctx, *values, **params) -> values`.

The runtime lowers to text. A rule that builds operations runs on the arguments of a small separate function; the function
is printed, becomes part of the module, and is called where the primitive was applied. The text is kept: the same rule for the
same types and parameters is not run again, only its location is that of each equation.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlab.backend import ir as _ir
from xlab.backend.values import fresh, record_class, replaced, value_class
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, number_equations
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.mlir.context import function_text as _function_text
from xlab.interpreters.mlir.module import lower_module as _lower_module
from xlab.interpreters.mlir.values import tensor_type


class TokenSet:
    """Tokens by ordered effect; rules for primitives without such effects pass it on."""

    def __init__(self, tokens: dict | None = None):
        self._tokens = dict(tokens or {})

    def __len__(self):
        return len(self._tokens)

    def get(self, effect):
        return self._tokens[effect]

    def effects(self) -> set:
        return set(self._tokens)

    def items(self):
        return tuple(self._tokens.items())

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        return TokenSet({**self._tokens, **tokens._tokens})


@value_class
class LoweringParameters:
    """What the caller of a lowering decides."""

    override_lowering_rules: tuple | None = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


@value_class
class SPMDAxisContext:
    """The code runs per device over the manual axes of a mesh."""

    mesh: Any
    manual_axes: frozenset = frozenset()

    @property
    def axis_env(self):
        return tuple(self.mesh.shape.items())


@value_class
class ShardingContext:
    """The code runs over all devices at once."""

    num_devices: int
    device_assignment: tuple | None = None
    abstract_mesh: Any = None


AxisContext = SPMDAxisContext | ShardingContext
LoweringRule = Callable
MeshAxisName = Any


@record_class
class ModuleContext:
    """The module under construction, as rules see it."""

    platforms: Sequence[str]
    axis_context: Any
    module: Any
    text: Any = None  # the text context of the equation
    backend: Any = None
    keepalives: list = fresh(factory=list)
    host_callbacks: list = fresh(factory=list)
    lowering_parameters: LoweringParameters = fresh(factory=LoweringParameters)
    # Functions in the program's module that the rule asked for.
    own: list = fresh(factory=list)

    @property
    def context(self):
        return _ir.context()

    @property
    def ip(self):
        return _ir.objects().InsertionPoint(self.module.body)

    @property
    def symbol_table(self):
        return _ir.objects().SymbolTable(self.module.operation)

    def add_keepalive(self, keepalive: Any) -> None:
        """Keeps an object for as long as the program."""
        self.keepalives.append(keepalive)

    def replace(self, **changes) -> ModuleContext:
        return replaced(self, **changes)


@record_class
class LoweringRuleContext:
    """What a rule sees of the equation it lowers."""

    module_context: ModuleContext
    name_stack: str = ""
    traceback: Any = None
    primitive: Any = None
    avals_in: Sequence = ()
    avals_out: Any = ()
    tokens_in: TokenSet = fresh(factory=TokenSet)
    tokens_out: TokenSet | None = None
    const_lowering: dict = fresh(factory=dict)
    axis_size_env: dict | None = None
    dim_var_values: Sequence = ()
    jaxpr_eqn_ctx: Any = None
    platforms: Sequence[str] | None = None

    def replace(self, **changes) -> LoweringRuleContext:
        return replaced(self, **changes)

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        self.tokens_out = tokens_out

    def is_forward_compat(self) -> bool:
        return False


class Template(NamedTuple):
    """The functions of a rule as text, the rule's own first, to be named and placed."""

    functions: list[str]
    symbols: list[str]


_SYMBOL = r'func\.func (?:\w+ )?@("[^"]*"|[\w.$-]+)'
_LOCATION = f'loc("{_ir.HERE}")'
_LIMIT = 1024


def text_rule(rule: Callable) -> Callable:
    """Marks a lowering rule as a text rule for `register_lowering`; `register_text_lowering` needs no mark.

    Example:
        >>> from xlab.interpreters import mlir
        >>> @mlir.text_rule
        ... def rule(ctx, x):
        ...     return ctx.op(f"stablehlo.sine {x} : {ctx.type_out()}")
    """
    rule.text_rule = True
    return rule


def is_text_rule(rule: Callable) -> bool:
    """Whether a rule is marked as a text rule."""
    while isinstance(rule, functools.partial):
        rule = rule.func
    return getattr(rule, "text_rule", False)


def from_objects(prim, rule: Callable, cacheable: bool = True) -> Callable:
    """A text rule from a rule on MLIR objects."""
    kept: dict[Any, Template] = {}

    def lower(ctx, *names, **params):
        types_in = [tensor_type(a) for a in ctx.avals_in]
        types_out = [tensor_type(a) for a in ctx.avals_out]
        key = (
            tuple(ctx.avals_in),
            tuple(ctx.avals_out),
            tuple(params.items()),
            ctx.platform,
            ctx.mesh,
            ctx.manual,
        )
        try:
            template = kept.get(key)
        except TypeError:  # a parameter that cannot be hashed
            template = key = None
        if template is None:
            template, reusable = _template(prim, rule, ctx, types_in, types_out, params)
            if cacheable and reusable and key is not None:
                if len(kept) >= _LIMIT:
                    kept.clear()
                kept[key] = template
        symbol = place_functions(ctx, template, prim.name)
        return ctx.ops(
            f"func.call @{symbol}({', '.join(names)}) : ({', '.join(types_in)}) -> ({', '.join(types_out)})",
            len(types_out),
        )

    lower.rule = rule
    return lower


def _template(prim, rule, ctx, types_in, types_out, params) -> tuple[Template, bool]:
    axes = (
        SPMDAxisContext(ctx.mesh, frozenset(ctx.manual))
        if ctx.mesh is not None
        else ShardingContext(ctx.module.devices)
    )
    seen: dict[str, ModuleContext] = {}

    def made(module):
        seen["ctx"] = ModuleContext((ctx.platform,), axes, module, ctx)

    def body(arguments):
        given = rule(
            LoweringRuleContext(
                seen["ctx"],
                ctx.scope,
                None,
                prim,
                tuple(ctx.avals_in),
                tuple(ctx.avals_out),
                platforms=(ctx.platform,),
            ),
            *arguments,
            **params,
        )
        return flatten(given)

    try:
        functions = _ir.build_function(types_in, types_out, body, made)
    except TypeError as e:
        if str(e).startswith("it gave"):
            name = getattr(rule, "__name__", "rule")
            raise TypeError(
                f"the lowering rule {name} of '{prim.name}' must return MLIR values: {e}"
            ) from None
        raise
    symbols = [match[1].strip('"') for f in functions if (match := re.search(_SYMBOL, f))]
    order = sorted(range(len(functions)), key=lambda i: symbols[i] != "function")
    ctx.module.keepalive.extend(seen["ctx"].keepalives)
    return Template([functions[i] for i in order], [symbols[i] for i in order]), not seen["ctx"].own


def flatten(given) -> list:
    """The values in what a rule returned: a value, an operation, or nested sequences of them."""
    if isinstance(given, (tuple, list)) or type(given).__name__ == "OpResultList":
        return [v for g in given for v in flatten(g)]
    return [given]


def place_functions(ctx, template, name) -> str:
    """Adds the functions to the module under names of their own; returns that of the first."""
    symbols = {
        s: ctx.module.unique_symbol(name if s == "function" else s) for s in template.symbols
    }
    pattern = re.compile(
        r"@("
        + "|".join(re.escape(s) for s in sorted(symbols, key=len, reverse=True))
        + r")(?![\w.$-])"
    )
    for text in template.functions:
        text = text.replace(f" {_LOCATION}", ctx.loc)
        ctx.module.functions.append(pattern.sub(lambda m: "@" + symbols[m[1]], text))
    return symbols["function"]


# -- from objects back to programs -----------------------------------------------------------------------


def _add_program(ctx: ModuleContext, closed: ClosedJaxpr, name: str) -> str:
    """Adds a program as a function to the module under construction, with the location of the rule's equation."""
    text, builder = ctx.text, ctx.text.module
    symbol = builder.unique_symbol(name)
    builder.keepalive.append(closed)
    builder.numbers.update(
        dict.fromkeys(number_equations(closed.jaxpr), builder.numbers[id(text.eqn)])
    )
    builder.functions.append(
        _function_text(builder, symbol, closed, text.scope, mesh=text.mesh, manual=text.manual)
    )
    ctx.own.append(symbol)
    return symbol


def call_program(
    ctx: LoweringRuleContext, closed: ClosedJaxpr, values: Sequence, name: str
) -> list:
    """Calls an inner program on MLIR values from inside a rule."""
    symbol = _add_program(ctx.module_context, closed, name)
    return _ir.call(
        ctx.module_context.module,
        symbol,
        [tensor_type(a) for a in closed.in_avals],
        [tensor_type(a) for a in closed.out_avals],
        values,
    )


def jaxpr_subcomp(
    ctx: ModuleContext,
    jaxpr: Jaxpr | ClosedJaxpr,
    name_stack,
    tokens: TokenSet,
    consts_for_constvars: Sequence,
    *args,
    dim_var_values: Sequence = (),
    const_lowering: dict | None = None,
    outer_traceback=None,
):
    """Lowers a jaxpr on MLIR values from inside a rule.

    Returns:
        `(results, tokens)`.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    closed = pe.close_jaxpr(pe.convert_constvars_jaxpr(jaxpr))
    inner = LoweringRuleContext(ctx, str(name_stack or ""))
    return call_program(
        inner, closed, [*consts_for_constvars, *args], closed.jaxpr.debug_info.name or "jaxpr"
    ), tokens


def core_call_lowering(ctx, *args, name: str, call_jaxpr, backend=None):
    """Lowers the call of an inner program; works in both kinds of rule."""
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else pe.close_jaxpr(call_jaxpr)
    if isinstance(ctx, LoweringRuleContext):
        return call_program(ctx, closed, args, name)
    return ctx.call((id(closed), name), name, closed, args)


class LoweringResult(NamedTuple):
    """A lowered program as an MLIR module."""

    module: Any
    keepalive: Any
    host_callbacks: list
    shape_poly_state: Any = None


def lower_jaxpr_to_module(
    module_name: str,
    jaxpr: ClosedJaxpr,
    *,
    platforms: Sequence[str] = ("cpu",),
    num_partitions: int = 1,
    **unused,
) -> LoweringResult:
    """A program as an MLIR module with a public function `main`.

    Example:
        >>> import xlab
        >>> lowered = lower_jaxpr_to_module("twice", xlab.make_jaxpr(lambda x: x * 2)(1.0))
        >>> "stablehlo.multiply" in str(lowered.module)
        True
    """
    lowered = _lower_module(
        jaxpr, module_name.removeprefix("jit_"), platform=platforms[0], devices=num_partitions
    )
    return LoweringResult(_ir.parse(lowered.text), jaxpr, lowered.callbacks)


def lower_jaxpr_to_fun(
    ctx: ModuleContext, name: str, jaxpr: ClosedJaxpr, effects: Sequence = (), **unused
):
    """Adds a program to the module of a rule as a function; returns the function's operation.

    Call it with `func.CallOp(function, values)`.
    """
    symbol = _add_program(ctx, jaxpr, name)
    return _ir.declare(
        ctx.module,
        symbol,
        [tensor_type(a) for a in jaxpr.in_avals],
        [tensor_type(a) for a in jaxpr.out_avals],
    )


def merge_mlir_modules(dst_module, sym_name: str, src_module, dst_symtab=None) -> str:
    """Copies the functions of a module into another; its `main` becomes the private function `sym_name`, renamed if taken."""
    return _ir.merge(dst_module, sym_name, src_module)
