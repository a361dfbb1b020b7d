"""MLIR for those who write lowering rules or handle modules: `ir.py` (its objects), `passmanager.py` (its passes), `dialects.py` (its
operations), and modules as bytes."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from xlab.backend import ir as _ir
from xlab.extend.mlir import dialects as dialects

__all__ = [
    "deserialize_portable_artifact",
    "dialects",
    "hlo_to_stablehlo",
    "refine_polymorphic_shapes",
    "serialize_portable_artifact",
]


def __getattr__(name: str):
    if name == "ir":
        return _ir.objects()
    if name == "passmanager":
        return _import_module("xlab.extend.mlir.passmanager")
    raise AttributeError(f"module 'xlab.extend.mlir' has no attribute {name!r}")


def serialize_portable_artifact(mlir_module: Any, target: str | None = None) -> bytes:
    """A StableHLO module as bytes that later and somewhat earlier versions read.

    Args:
        mlir_module: a module: its text, its bytecode, or an MLIR object.
        target: the version of StableHLO to write, the current one by default.

    Example:
        >>> blob = serialize_portable_artifact("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
        >>> "tensor<4xf32>" in deserialize_portable_artifact(blob)
        True
    """
    return bytes(_ir.to_portable(_text(mlir_module), target))


def deserialize_portable_artifact(mlir_module: bytes) -> str:
    """The text of the module that `serialize_portable_artifact` wrote."""
    return str(_ir.from_portable(mlir_module))


def refine_polymorphic_shapes(
    mlir_module: Any,
    enable_shape_assertions: bool = True,
    validate_static_shapes: bool = True,
    enable_shardy: bool | None = None,
) -> bytes:
    """A module whose dynamic shapes follow from the types of the arguments of `main`, with numbers in their place.

    Args:
        mlir_module: a module: its text, its bytecode, or an MLIR object.
        enable_shape_assertions: whether assertions on shapes are checked.
        validate_static_shapes: whether a shape that stays dynamic is an error.
        enable_shardy: whether shardings are Shardy's; by default, if the module has any.

    Returns:
        The bytecode of the module.

    Raises:
        ValueError: an assertion does not hold, or a shape does not follow.
    """
    return _ir.refined_bytecode(
        _text(mlir_module), enable_shape_assertions, validate_static_shapes, enable_shardy
    )


def hlo_to_stablehlo(computation: bytes) -> bytes:
    """A serialized HLO module (`HloModuleProto`) as the bytecode of a StableHLO module."""
    return _ir.from_hlo(computation)


def _text(module: Any) -> str | bytes:
    return module if isinstance(module, (str, bytes)) else str(module)
