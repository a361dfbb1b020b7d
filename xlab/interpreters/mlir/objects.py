"""MLIR as objects: types, constants and attributes for rules that are written with the dialects' Python builders.

Everything here works inside a rule, where a context, a location and an insertion point are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xlab.backend import ir as _ir
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.interpreters.mlir.values import dense_text, physical_aval, tensor_type


def _typed(text: str):
    return _ir.objects().Type.parse(text, _ir.context())


def dtype_to_ir_type(dtype):
    """The MLIR type of one element.

    Example:
        >>> str(dtype_to_ir_type(np.float32))
        'f32'
    """
    return _typed(dtypes.mlir_type(np.dtype(dtype)))


def aval_to_ir_type(*ctx_and_aval):
    """The MLIR type of a value of an abstract type, called as `(aval)` or `(module_context, aval)`.

    Example:
        >>> from xlab.core import ShapedArray
        >>> str(aval_to_ir_type(ShapedArray((2, 3), np.float32)))
        'tensor<2x3xf32>'
    """
    return _typed(tensor_type(ctx_and_aval[-1]))


def aval_to_ir_types(*ctx_and_aval) -> tuple:
    """All the MLIR types that stand for one abstract type; here always one."""
    return (aval_to_ir_type(*ctx_and_aval),)


def token_type():
    return _typed("!stablehlo.token")


_constant_handlers: dict[type, Callable] = {}


def register_constant_handler(type_: type, handler_fun: Callable) -> None:
    """Says how values of a type become constants: `handler_fun(value, aval) -> MLIR value(s)`."""
    _constant_handlers[type_] = handler_fun


def ir_constants(val: Any, *, const_lowering=None, aval=None) -> tuple:
    """The MLIR values of a constant."""
    for cls in type(val).__mro__:
        if cls in _constant_handlers:
            made = _constant_handlers[cls](val, aval)
            return tuple(made) if isinstance(made, (tuple, list)) else (made,)
    aval = physical_aval(aval if aval is not None else aval_of(val))
    value = val._host_value() if hasattr(val, "_host_value") else np.asarray(val)
    attribute = _ir.objects().Attribute.parse(
        f"{dense_text(value, aval.dtype)} : {tensor_type(aval)}", _ir.context()
    )
    return (_ir.dialect("stablehlo").ConstantOp(attribute).result,)


def ir_constant(val: Any, *, const_lowering=None, aval=None):
    """The MLIR value of a constant: a NumPy array, an array, or a number.

    Example:
        >>> def rule(ctx, x):
        ...     return [hlo.add(x, ir_constant(np.float32(1.0)))]
    """
    (value,) = ir_constants(val, const_lowering=const_lowering, aval=aval)
    return value


def _attribute(text: str):
    return _ir.objects().Attribute.parse(text, _ir.context())


def i32_attr(i: int):
    return _attribute(f"{int(i)} : i32")


def i64_attr(i: int):
    return _attribute(f"{int(i)} : i64")


def dense_int_elements(xs: Iterable[int]):
    """Integers as a `dense<...> : tensor<nxi64>` attribute."""
    value = np.asarray(list(xs), np.int64)
    return _attribute(f"{dense_text(value, np.int64)} : tensor<{len(value)}xi64>")


def dense_int_array(xs: Iterable[int]):
    """Integers as an `array<i64: ...>` attribute."""
    return _ir.objects().DenseI64ArrayAttr.get([int(x) for x in xs], _ir.context())


def ir_attribute(val: Any):
    """A Python value as an attribute: booleans, numbers, strings, NumPy scalars, and sequences and dicts of these."""
    ir, context = _ir.objects(), _ir.context()
    if isinstance(val, ir.Attribute):
        return val
    if isinstance(val, (bool, np.bool_)):
        return ir.BoolAttr.get(bool(val), context)
    if isinstance(val, np.integer):
        return _attribute(f"{int(val)} : {dtypes.mlir_type(val.dtype)}")
    if isinstance(val, (np.floating, float)):
        dtype = val.dtype if isinstance(val, np.floating) else np.dtype(np.float64)
        return ir.FloatAttr.get(
            dtype_to_ir_type(dtype), float(val), _ir.objects().Location.unknown(context)
        )
    if isinstance(val, int):
        return _attribute(f"{val} : i64")
    if isinstance(val, str):
        return ir.StringAttr.get(val, context)
    if isinstance(val, np.dtype):
        return ir.TypeAttr.get(dtype_to_ir_type(val), context)
    if isinstance(val, (list, tuple)):
        return ir.ArrayAttr.get([ir_attribute(v) for v in val], context)
    if isinstance(val, dict):
        return ir.DictAttr.get({k: ir_attribute(v) for k, v in val.items()}, context)
    if isinstance(val, np.ndarray):
        return _attribute(f"{dense_text(val, val.dtype)} : {tensor_type(aval_of(val))}")
    raise TypeError(
        f"{val!r} of type {type(val).__name__} cannot become an MLIR attribute: give a bool, a number, a string, a "
        f"NumPy array, or a sequence or dict of these"
    )


def shape_tensor(*ctx_and_sizes):
    """A shape as a tensor of 32-bit integers, called as `(sizes)` or `(module_context, sizes)`."""
    return ir_constant(np.asarray(list(ctx_and_sizes[-1]), np.int32))


def flatten_ir_values(xs: Iterable) -> list:
    """Values, and sequences of values, as one list."""
    return [v for x in xs for v in (x if isinstance(x, (tuple, list)) else (x,))]


flatten_ir_types = flatten_ir_values


def unflatten_ir_values_like_types(xs: Iterable, ys: Sequence) -> list:
    """A flat list of values nested as a list of types is."""
    values = iter(xs)
    return [
        tuple(next(values) for _ in y) if isinstance(y, (tuple, list)) else next(values) for y in ys
    ]


def custom_call_op(
    call_target_name: str,
    *,
    result_types: Sequence,
    operands: Sequence,
    backend_config: Any = None,
    has_side_effect: bool = False,
    result_shapes: Sequence | None = None,
    called_computations: Sequence[str] = (),
    api_version: int = 2,
    operand_output_aliases: dict[int, int] | None = None,
    operand_layouts: Sequence | None = None,
    result_layouts: Sequence | None = None,
    extra_attributes: dict | None = None,
):
    """Emits a `stablehlo.custom_call`; `backend_config` is a string, bytes, or (api_version 4) a dict of attributes."""
    ir = _ir.objects()
    if isinstance(backend_config, bytes):
        backend_config = backend_config.decode("latin-1")
    if api_version == 4 and backend_config is None:
        backend_config = {}
    attributes = {
        "call_target_name": ir_attribute(call_target_name),
        "has_side_effect": ir_attribute(has_side_effect),
        "api_version": i32_attr(api_version),
        "backend_config": ir_attribute("" if backend_config is None else backend_config),
        "called_computations": ir.ArrayAttr.get(
            [ir.FlatSymbolRefAttr.get(c, _ir.context()) for c in called_computations], _ir.context()
        ),
        **{k: ir_attribute(v) for k, v in (extra_attributes or {}).items()},
    }
    operands = list(operands)
    if result_shapes is not None:
        attributes["indices_of_shape_operands"] = dense_int_elements(
            range(len(operands), len(operands) + len(result_shapes))
        )
        operands += list(result_shapes)
    if operand_output_aliases:
        attributes["output_operand_aliases"] = _attribute(
            "["
            + ", ".join(
                f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if len(result_types) > 1 else ''}], "
                f"operand_index = {i}, operand_tuple_indices = []>"
                for i, out in operand_output_aliases.items()
            )
            + "]"
        )
    if operand_layouts is not None:
        attributes["operand_layouts"] = _layouts(operand_layouts)
        attributes["result_layouts"] = _layouts(result_layouts or ())
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=list(result_types),
        operands=operands,
        attributes=attributes,
    )


def _layouts(layouts):
    return _attribute(
        "["
        + ", ".join(
            f"dense<{list(d)}> : tensor<{len(d)}xindex>" if len(d) else "dense<> : tensor<0xindex>"
            for d in layouts
        )
        + "]"
    )


def module_to_string(module, enable_debug_info: bool | None = None) -> str:
    """A module as text."""
    return module.operation.get_asm(enable_debug_info=bool(enable_debug_info))


def module_to_bytecode(module) -> bytes:
    """A module as MLIR bytecode."""
    return _ir.to_bytecode(module)


def make_ir_context():
    """A new MLIR context with every dialect that programs use."""
    return _ir._new_context()
