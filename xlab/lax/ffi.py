"""`ffi_call`: compiled functions of other libraries, called from programs by the name they are registered under."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.effects import Effect
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import dense_text, escape
from xlab.lax.callbacks import VMAP_METHODS, batch_callback, result_types
from xlab.lax.hashable import FrozenDict, HashableArray


class FfiEffect(Effect):
    """A foreign function has side effects."""

    def __str__(self):
        return "FFI"


_FFI = FfiEffect()


def ffi_call(
    target_name: str,
    result_shape_dtypes,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence | None = None,
    output_layouts=None,
    input_output_aliases: dict[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable:
    """A function that calls a foreign function from a program.

    Args:
        target_name: the name it was registered under, with `xlab.ffi.register_ffi_target`.
        result_shape_dtypes: a `ShapeDtypeStruct` for one result, or a sequence for several.
        has_side_effect: call it although nobody reads its results.
        vmap_method: as for `pure_callback`.
        input_layouts, output_layouts: per array the order of its dimensions in memory, the slowest first; None: the last fastest.
        input_output_aliases: which result shares the memory of which operand.
        custom_call_api_version, legacy_backend_config: for functions of the older untyped interface, with a string instead of attributes.

    Returns:
        A function of arrays; keyword arguments are passed on as attributes.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.lax import linalg
        >>> _ = linalg.cholesky(np.eye(2, dtype=np.float32))     # LAPACK is registered when first used
        >>> S = xlab.ShapeDtypeStruct
        >>> potrf = xlab.ffi.ffi_call("lapack_spotrf_ffi", (S((2, 2), np.float32), S((), np.int32)),
        ...                           input_layouts=[(1, 0)], output_layouts=[(1, 0), ()])
        >>> factor, info = potrf(4 * np.eye(2, dtype=np.float32), uplo=np.uint8(ord("L")))
        >>> int(info), factor[0, 0].item()
        (0, 2.0)
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {list(VMAP_METHODS)}, but got: {vmap_method}"
        )
    several = isinstance(result_shape_dtypes, Sequence)
    result_avals, _ = result_types(list(result_shape_dtypes) if several else [result_shape_dtypes])
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise ValueError(
            f"The use of the legacy_backend_config parameter requires custom_call_api_version < 4; got "
            f"{custom_call_api_version}. Pass attributes as keyword arguments of the call instead."
        )
    given_out = output_layouts if several or output_layouts is None else [output_layouts]
    out_layouts = _layouts(given_out, result_avals, "output")

    def wrapped(*args, **kwargs):
        in_avals = [aval_of(x) for x in args]
        in_layouts = _layouts(input_layouts, in_avals, "input")
        if kwargs and custom_call_api_version < 4:
            raise ValueError(
                f"attributes ({sorted(kwargs)}) need custom_call_api_version 4; got {custom_call_api_version}"
            )
        aliases = tuple(sorted((input_output_aliases or {}).items()))
        for i, o in aliases:
            _check_alias(i, o, in_avals, in_layouts, result_avals, out_layouts)
        outs = ffi_call_p.bind(
            *args,
            target_name=target_name,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            result_avals=result_avals,
            input_layouts=in_layouts,
            output_layouts=out_layouts,
            input_output_aliases=aliases,
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=_attributes(kwargs),
        )
        return list(outs) if several else outs[0]

    return wrapped


def _layouts(given, avals, what) -> tuple:
    """Orders from the fastest dimension to the slowest, as programs write them."""
    if given is None:
        return tuple(tuple(reversed(range(a.ndim))) for a in avals)
    if len(given) != len(avals):
        raise ValueError(
            f"ffi_call got {len(given)} {what}_layouts for {len(avals)} {what}s: give one each"
        )
    out = []
    for layout, aval in zip(given, avals):
        if layout is None:
            out.append(tuple(reversed(range(aval.ndim))))
            continue
        order = tuple(getattr(layout, "major_to_minor", layout))
        if sorted(order) != list(range(aval.ndim)):
            raise ValueError(
                f"ffi_call {what}_layouts has {order} for {aval}: name each of its {aval.ndim} dimensions once"
            )
        out.append(tuple(reversed(order)))
    return tuple(out)


def _check_alias(i, o, in_avals, in_layouts, out_avals, out_layouts):
    if not 0 <= i < len(in_avals):
        raise ValueError(
            f"input_output_aliases contains the mapping '{i}:{o}' with input index {i} outside the range [0, {len(in_avals)})"
        )
    if not 0 <= o < len(out_avals):
        raise ValueError(
            f"input_output_aliases contains the mapping '{i}:{o}' with output index {o} outside the range "
            f"[0, {len(out_avals)})"
        )
    a, b = in_avals[i], out_avals[o]
    if (a.shape, a.dtype) != (b.shape, b.dtype) or in_layouts[i] != out_layouts[o]:
        raise ValueError(
            f"input_output_aliases contains the mapping '{i}:{o}' referring to an input of type {a} and an output of type {b}: "
            f"both must have one type and layout"
        )


def _attributes(kwargs: Mapping[str, Any]) -> tuple:
    out = []
    for name, value in sorted(kwargs.items()):
        if isinstance(value, np.ndarray):
            value = HashableArray(value)
        elif isinstance(value, Mapping):
            value = FrozenDict(value)
        try:
            hash(value)
        except TypeError as e:
            raise TypeError(
                f"Non-hashable keyword argument to ffi_call {name}: {value}. Give a number, a string, a NumPy array or a dict "
                f"of these"
            ) from e
        out.append((name, value))
    return tuple(out)


ffi_call_p = Primitive("ffi_call", multiple_results=True)


@ffi_call_p.def_effectful_abstract_eval
def _aval(*avals, result_avals, has_side_effect, **_):
    return result_avals, {_FFI} if has_side_effect else ()


def _not_differentiable(*_, target_name=None, **__):
    raise ValueError(
        f"The FFI call to `{target_name}` cannot be differentiated. You can use `xlab.custom_jvp` or `xlab.custom_vjp` to "
        f"add support."
    )


ad.primitive_jvps[ffi_call_p] = _not_differentiable
ad.primitive_transposes[ffi_call_p] = _not_differentiable


def _batch(axis, args, dims, *, vmap_method, result_avals, input_layouts, output_layouts, **params):
    if vmap_method is None:
        raise NotImplementedError(
            "vmap is only supported for the ffi_call primitive when vmap_method is one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'. Got vmap_method=None."
        )
    if not vmap_method.startswith("sequential"):
        every = vmap_method != "legacy_vectorized"
        input_layouts = tuple(
            _outer(layout) if every or d is not None else layout
            for layout, d in zip(input_layouts, dims)
        )
        output_layouts = tuple(map(_outer, output_layouts))
    params = {
        **params,
        "vmap_method": vmap_method,
        "input_layouts": input_layouts,
        "output_layouts": output_layouts,
    }
    return batch_callback(ffi_call_p, axis, args, dims, vmap_method, result_avals, params)


def _outer(layout) -> tuple:
    """The layout with a new leading dimension that is the slowest."""
    return (*(d + 1 for d in layout), 0)


batching.axis_primitive_batchers[ffi_call_p] = _batch


def _lowering(
    ctx,
    *args,
    target_name,
    has_side_effect,
    input_layouts,
    output_layouts,
    input_output_aliases,
    custom_call_api_version,
    legacy_backend_config,
    attributes,
    **_,
):
    return _emit(
        ctx,
        args,
        target_name,
        attributes,
        input_layouts,
        output_layouts,
        input_output_aliases,
        has_side_effect,
        custom_call_api_version,
        legacy_backend_config,
    )


def _emit(
    ctx,
    args,
    target,
    attributes,
    in_layouts,
    out_layouts,
    aliases,
    side_effect,
    api_version,
    config,
) -> list[str]:
    if api_version >= 4:
        backend_config = (
            "{" + ", ".join(f"{_name(k)} = {_attribute(v)}" for k, v in attributes) + "}"
        )
    else:
        backend_config = f'"{escape(config or "")}"'
    n = len(ctx.avals_out)
    parts = [
        f"api_version = {api_version} : i32, has_side_effect = {'true' if side_effect else 'false'}, backend_config = {backend_config}"
    ]
    if in_layouts is not None:
        parts.append(
            f"operand_layouts = [{', '.join(map(_layout, in_layouts))}], result_layouts = "
            f"[{', '.join(map(_layout, out_layouts))}]"
        )
    if aliases:
        parts.append(
            "output_operand_aliases = ["
            + ", ".join(
                f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if n > 1 else ''}], operand_index = {i}, "
                f"operand_tuple_indices = []>"
                for i, o in aliases
            )
            + "]"
        )
    types_out = [mlir.tensor_type(a) for a in ctx.avals_out]
    return ctx.ops(
        f"stablehlo.custom_call @{_name(target)}({', '.join(args)}) {{{', '.join(parts)}}} : ({ctx.types_in()}) -> "
        f"{types_out[0] if n == 1 else '(' + ', '.join(types_out) + ')'}",
        n,
    )


def _name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else f'"{escape(name)}"'


def _layout(order) -> str:
    return (
        f"dense<[{', '.join(map(str, order))}]> : tensor<{len(order)}xindex>"
        if order
        else "dense<> : tensor<0xindex>"
    )


def _attribute(value) -> str:
    """A Python value as an attribute of the call."""
    if isinstance(value, HashableArray):
        return (
            f"{dense_text(value.val, value.val.dtype)} : {mlir.tensor_type(_array_aval(value.val))}"
        )
    if isinstance(value, FrozenDict):
        return "{" + ", ".join(f"{_name(k)} = {_attribute(v)}" for k, v in value.items) + "}"
    if isinstance(value, str):
        return f'"{escape(value)}"'
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.generic):
        text = dense_text(np.asarray(value), value.dtype).removeprefix("dense<").removesuffix(">")
        return f"{text} : {mlir.tensor_type(_array_aval(np.asarray(value))).removeprefix('tensor<').removesuffix('>')}"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return _attribute(np.float64(value))
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_attribute, value)) + "]"
    raise TypeError(
        f"No attribute handler defined for type: {type(value)}. Give a bool, a number, a string, a NumPy array, or a tuple or "
        f"dict of these"
    )


def _array_aval(value: np.ndarray):
    return ShapedArray(value.shape, value.dtype)


mlir.register_text_lowering(ffi_call_p, _lowering)


# -- for one's own primitives -----------------------------------------------------------------------------


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts=None,
    result_layouts=None,
    backend_config=None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args,
) -> Callable:
    """A lowering rule for a primitive that is one foreign function; the equation's parameters become attributes.

    The rule may be registered, or called from another rule with that rule's context and operands.

    Args:
        operand_layouts, result_layouts: as `input_layouts` and `output_layouts` of `ffi_call`, or, with
            `skip_ffi_layout_processing`, from the fastest dimension to the slowest.
        backend_config: attributes besides the parameters, or a string for the untyped interface.
        lowering_args: further options of the call: `has_side_effect`, `api_version`, `operand_output_aliases`, `result_types`.
    """
    return _Rule(
        call_target_name,
        operand_layouts,
        result_layouts,
        backend_config,
        skip_ffi_layout_processing,
        lowering_args,
    )


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts=None,
    result_layouts=None,
    backend_config=None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args,
) -> Callable:
    """As `ffi_lowering`, for use inside a rule on MLIR values: what it returns gives the call's operation."""
    rule = _Rule(
        call_target_name,
        operand_layouts,
        result_layouts,
        backend_config,
        skip_ffi_layout_processing,
        lowering_args,
    )
    return rule.operation


class _Rule:
    text_rule = True  # registered, it writes text; called from another rule it builds operations

    def __init__(self, target, operand_layouts, result_layouts, backend_config, as_given, options):
        self.target, self.given, self.as_given = target, (operand_layouts, result_layouts), as_given
        self.config, self.options = backend_config, options
        if isinstance(backend_config, str) and options.get("api_version", 4) >= 4:
            raise ValueError("When api_version >= 4, backend_config must be a dict of attributes.")

    def layouts(self, ctx) -> tuple:
        if self.as_given:
            return self.given
        return tuple(
            _layouts(g, avals, w)
            for g, avals, w in zip(self.given, (ctx.avals_in, ctx.avals_out), ("input", "output"))
        )

    def __call__(self, ctx, *operands, **params):
        if not all(isinstance(x, str) for x in operands) or not hasattr(ctx, "ops"):
            return self.operation(ctx, *operands, **params).results
        api_version = self.options.get("api_version", 4)
        attributes = (
            () if isinstance(self.config, str) else _attributes({**(self.config or {}), **params})
        )
        return _emit(
            ctx,
            operands,
            self.target,
            attributes,
            *self.layouts(ctx),
            tuple(sorted(self.options.get("operand_output_aliases", {}).items())),
            self.options.get("has_side_effect", False),
            api_version,
            self.config if isinstance(self.config, str) else None,
        )

    def operation(self, ctx, *operands, **params):
        in_layouts, out_layouts = self.layouts(ctx)
        options = {
            "api_version": 4,
            "operand_layouts": in_layouts,
            "result_layouts": out_layouts,
            **self.options,
        }
        options.setdefault("result_types", [mlir.aval_to_ir_type(a) for a in ctx.avals_out])
        config = self.config if isinstance(self.config, str) else {**(self.config or {}), **params}
        return mlir.custom_call(
            self.target, operands=list(operands), backend_config=config, **options
        )


costs.register(costs.host, ffi_call_p)
