"""Lowering: a jaxpr as StableHLO text.

Text, because the compiler parses it in C++: emitting a line costs a fraction of building an operation from Python, and
it is what people read. `module.py` (a whole program), `context.py` (one function: what a rule sees and writes to), `lowering_rules.py` (the table), `module_builder.py` (what the functions of a module share), `values.py` (how types and literals are spelled),
`shardings.py` (Shardy attributes), `annotations.py` (attributes for the compiler), `locations.py` (texts without locations), `constants.py` (closed-over arrays: text or arguments), `helpers.py` (registering rules, short ways to write them). The package's own rules are registered with
`register_text_lowering`. Rules registered with `register_lowering` build operations with the dialects' Python builders:
`dynamic_operations.py` (operations whose sizes are values), `dynamic_shapes.py` (programs with symbolic dimensions), `building.py` (from such rules to text), `objects.py` (types, constants).
"""

from importlib import import_module as _import_module

from xlab.interpreters.mlir.building import (
    AxisContext,
    LoweringParameters,
    LoweringResult,
    LoweringRule,
    LoweringRuleContext,
    MeshAxisName,
    ModuleContext,
    ShardingContext,
    SPMDAxisContext,
    TokenSet,
    core_call_lowering,
    jaxpr_subcomp,
    lower_jaxpr_to_fun,
    lower_jaxpr_to_module,
    merge_mlir_modules,
    text_rule,
)
from xlab.interpreters.mlir.context import TOKEN_TYPE, Context
from xlab.interpreters.mlir.helpers import (
    binary,
    branch_for_platform,
    comparison,
    custom_call,
    inline_call,
    lower_fun,
    register_lowering,
    register_text_lowering,
    single_platform_primitives,
    unary,
)
from xlab.interpreters.mlir.lowering_rules import lowered_with_devices, lowerings
from xlab.interpreters.mlir.module import LoweredModule, lower_module
from xlab.interpreters.mlir.objects import (
    aval_to_ir_type,
    aval_to_ir_types,
    dense_int_array,
    dense_int_elements,
    dtype_to_ir_type,
    flatten_ir_types,
    flatten_ir_values,
    i32_attr,
    i64_attr,
    ir_attribute,
    ir_constant,
    ir_constants,
    make_ir_context,
    module_to_bytecode,
    module_to_string,
    register_constant_handler,
    shape_tensor,
    token_type,
    unflatten_ir_values_like_types,
)
from xlab.interpreters.mlir.shardings import constrain_sums
from xlab.interpreters.mlir.values import constant_text, dense_text, tensor_type

__all__ = [
    "TOKEN_TYPE", "AxisContext", "Context", "LoweredModule", "LoweringParameters", "LoweringResult", "LoweringRule", "LoweringRuleContext", "MeshAxisName",
    "ModuleContext", "SPMDAxisContext", "ShardingContext", "TokenSet", "aval_to_ir_type", "aval_to_ir_types", "binary",
    "branch_for_platform", "comparison", "constant_text", "core_call_lowering", "custom_call", "dense_int_array", "dense_int_elements", "dense_text",
    "dtype_to_ir_type", "flatten_ir_types", "flatten_ir_values", "constrain_sums", "i32_attr", "i64_attr", "inline_call", "ir_attribute",
    "ir_constant", "ir_constants", "jaxpr_subcomp", "lower_fun", "lower_jaxpr_to_fun", "lower_jaxpr_to_module", "lower_module",
    "lowerings", "make_ir_context", "merge_mlir_modules", "module_to_bytecode", "module_to_string", "register_constant_handler",
    "register_lowering", "register_text_lowering", "shape_tensor", "single_platform_primitives", "tensor_type", "text_rule", "token_type", "unary", "unflatten_ir_values_like_types",
]  # fmt: skip


def __getattr__(name: str):
    """`ir`, `hlo`, `func`, and `Value` (also called `Token`): what loads the MLIR bindings, when first used."""
    backend = _import_module("xlab.backend.ir")
    if name == "ir":
        return backend.objects()
    if name in ("Value", "Token"):
        return backend.objects().Value
    if name in ("hlo", "func"):
        return backend.dialect("stablehlo" if name == "hlo" else name)
    if name == "Mesh":
        return _import_module("xlab.sharding").Mesh
    if name == "emit_python_callback":  # for rules of users: it is made of primitives
        return _import_module("xlab.lax.rule_callbacks").emit_python_callback
    raise AttributeError(f"module 'xlab.interpreters.mlir' has no attribute {name!r}")
