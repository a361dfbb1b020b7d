"""Lowering: a jaxpr as StableHLO text.

Text, because the compiler parses it in C++: emitting a line costs a fraction of building an operation from Python, and
it is what people read. `module.py` (functions, constants, locations), `values.py` (how types and literals are spelled),
`shardings.py` (Shardy attributes), `helpers.py` (short ways to write rules).
"""

from xlab.interpreters.mlir.helpers import (
                                            binary,
                                            comparison,
                                            custom_call,
                                            inline_call,
                                            lower_fun,
                                            register_lowering,
                                            unary,
)
from xlab.interpreters.mlir.module import TOKEN_TYPE, Context, LoweredModule, lower_module, lowerings
from xlab.interpreters.mlir.values import constant_text, dense_text, tensor_type

__all__ = ["TOKEN_TYPE", "Context", "LoweredModule", "binary", "comparison", "constant_text", "custom_call", "dense_text",
           "inline_call", "lower_fun", "lower_module", "lowerings", "register_lowering", "tensor_type", "unary"]
