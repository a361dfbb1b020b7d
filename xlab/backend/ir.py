"""MLIR: parse, verify, run passes, and see a program at each stage of partitioning. Loaded when first used.

Example:
    >>> text = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    >>> "tensor<4xf32>" in run_passes(text, "canonicalize")
    True
"""

from __future__ import annotations

import threading
from typing import Any

_lock = threading.Lock()
_made: Any = None


def context() -> Any:
    """The one MLIR context, with every dialect programs are written in."""
    global _made
    if _made is None:
        with _lock:
            if _made is None:
                _made = _new_context()
    return _made


def _new_context() -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy, _stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    made.enable_multithreading(False)
    for register in (_stablehlo.register_dialect, _sdy.register_dialect, _chlo.register_dialect,
                     _mlirHlo.register_mhlo_dialect):  # fmt: skip
        register(made)
    return made


def parse(text: str | bytes) -> Any:
    """The module a text or bytecode stands for; a syntax error names line and column."""
    from jaxlib.mlir import ir

    return ir.Module.parse(text, context=context())


def verify(program: str | bytes | Any) -> None:
    """Raises if the program is not well formed."""
    module = parse(program) if isinstance(program, (str, bytes)) else program
    module.operation.verify()


def print_module(module: Any, *, locations: bool = False, large_constants: int | None = 16) -> str:
    """The module as text; constants of more elements than `large_constants` are elided."""
    return module.operation.get_asm(
        enable_debug_info=locations, large_elements_limit=large_constants
    )


def to_bytecode(program: str | Any) -> bytes:
    """The program as MLIR bytecode."""
    import io

    module = parse(program) if isinstance(program, str) else program
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def _run(module: Any, pipeline: str) -> None:
    from jaxlib.mlir import passmanager

    if not pipeline.startswith("builtin.module("):
        pipeline = f"builtin.module({pipeline})"
    with context():
        passmanager.PassManager.parse(pipeline).run(module.operation)


def run_passes(text: str | bytes, pipeline: str, *, locations: bool = False) -> str:
    """The program after a pass pipeline such as `"cse,canonicalize"`."""
    module = parse(text)
    _run(module, pipeline)
    return print_module(module, locations=locations, large_constants=None)


PROPAGATE = "sdy-propagation-pipeline"


def propagate_shardings(text: str | bytes, *, locations: bool = False) -> str:
    """The program with the sharding of every value, as the partitioner's propagation chooses it."""
    return run_passes(text, PROPAGATE, locations=locations)


PARTITION_PIPELINE = {
    "propagated": PROPAGATE,
    "resharded": "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "collectives": "func.func(sdy-reshard-to-collectives)",
    "local": "sdy-convert-global-to-local",
}
"""Stages of partitioning in order: name and passes."""


def partition_stages(text: str | bytes, *, locations: bool = False) -> dict[str, str]:
    """The program before and after each stage of partitioning, down to what one device runs.

    The last stages are missing where the program uses what the passes cannot rewrite; `"failed"` then holds
    the pass's message.
    """
    module = parse(text)
    stages = {"input": print_module(module, locations=locations)}
    for name, passes in PARTITION_PIPELINE.items():
        try:
            _run(module, passes)
        except Exception as error:
            stages["failed"] = f"{name}: {error}"
            break
        stages[name] = print_module(module, locations=locations)
    return stages
