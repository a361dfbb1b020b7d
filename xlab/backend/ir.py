"""MLIR: parse, build, verify, print, apply passes. Loaded when first used.

Example:
    >>> module = parse("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
    >>> apply_passes(module, "canonicalize")
    >>> "tensor<4xf32>" in print_module(module)
    True
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
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

    return _filled(ir.Context())


def _filled(made: Any) -> Any:
    from jaxlib.mlir._mlir_libs import _chlo, _mlirHlo, _sdy, _stablehlo

    made.append_dialect_registry(registry())
    made.load_all_available_dialects()
    made.enable_multithreading(False)
    for register in (_stablehlo.register_dialect, _sdy.register_dialect, _chlo.register_dialect,
                     _mlirHlo.register_mhlo_dialect):  # fmt: skip
        register(made)
    return made


@functools.cache
def registry() -> Any:
    """The dialects of MLIR itself that programs are written in, by name, to be loaded when they are met."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext

    made = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(made)
    return made


@functools.cache
def context_class() -> type:
    """The class of contexts that have every dialect programs are written in, for modules that others make."""
    from jaxlib.mlir import ir

    class JaxIrContext(ir.Context):
        """A context of MLIR with every dialect that programs are written in."""

        def __init__(self) -> None:
            super().__init__()
            _filled(self)

    return JaxIrContext


def objects() -> Any:
    """The module of MLIR objects: `Type`, `Value`, `Location`, `Module`, ..."""
    from jaxlib.mlir import ir

    return ir


def passes() -> Any:
    """The module of MLIR's passes: `PassManager`."""
    from jaxlib.mlir import passmanager

    return passmanager


def dialect(name: str) -> Any:
    """The Python builders of a dialect, by name: `stablehlo`, `func`, `chlo`, ...

    Example:
        >>> dialect("stablehlo").AddOp.OPERATION_NAME
        'stablehlo.add'
    """
    import importlib

    try:
        return importlib.import_module(f"jaxlib.mlir.dialects.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"there is no MLIR dialect {name!r} in this jaxlib") from None


def type_of(text: str) -> Any:
    """The type that a text spells, such as `tensor<8x4xf32>`."""
    return objects().Type.parse(text, context())


HERE = "xlab.here"
"""Name of the location that built functions carry until they become part of a program."""


def build_function(
    types_in: Sequence[str], types_out: Sequence[str], body: Callable, made: Callable
) -> list[str]:
    """Builds a function from MLIR objects; gives its text, followed by that of further functions that were built beside it.

    Args:
        types_in: types of the arguments, as MLIR spells them.
        types_out: types its results must have.
        body: called as `body(arguments)` inside the function; returns its results, values or operations.
        made: called with the new module before the body, for those who add functions to it.

    Raises:
        TypeError: when the results are not of the types they must have.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    with context() as made_in, ir.Location.name(HERE):
        module = ir.Module.create()
        made(module)
        with ir.InsertionPoint.at_block_begin(module.body):
            kind = ir.FunctionType.get(
                [ir.Type.parse(t, made_in) for t in types_in],
                [ir.Type.parse(t, made_in) for t in types_out],
            )
            function = func.FuncOp("function", kind, visibility="private")
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            results = [_value(r) for r in body(list(block.arguments))]
            got = [str(r.type) for r in results]
            if got != list(types_out):
                raise TypeError(
                    f"it gave results of types ({', '.join(got)}), but its primitive's abstract evaluation says "
                    f"({', '.join(types_out)})"
                )
            func.ReturnOp(results)
        module.operation.verify()
        return [
            op.operation.get_asm(enable_debug_info=True, use_local_scope=True)
            for op in module.body.operations
            if not (op.operation.name == "func.func" and op.is_external)
        ]


def _value(x: Any) -> Any:
    """The value of an operation with one result, or the value itself."""
    from jaxlib.mlir import ir

    if isinstance(x, ir.Value):
        return x
    results = getattr(x, "results", None)
    if results is None or len(results) != 1:
        raise TypeError(f"it gave {x!r} where an MLIR value was expected")
    return results[0]


def declare(module: Any, symbol: str, types_in: Sequence[str], types_out: Sequence[str]) -> Any:
    """Declares in `module` a function that is defined elsewhere."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    made_in = context()
    with made_in, ir.Location.name(HERE), ir.InsertionPoint(module.body):
        kind = ir.FunctionType.get(
            [ir.Type.parse(t, made_in) for t in types_in],
            [ir.Type.parse(t, made_in) for t in types_out],
        )
        return func.FuncOp(symbol, kind, visibility="private")


def call(
    module: Any, symbol: str, types_in: Sequence[str], types_out: Sequence[str], operands: Sequence
) -> list:
    """Emits a call of a function that is defined elsewhere, declaring it in `module`."""
    from jaxlib.mlir.dialects import func

    return list(
        func.CallOp(
            declare(module, symbol, types_in, types_out), [_value(x) for x in operands]
        ).results
    )


def merge(target: Any, name: str, source: Any) -> str:
    """Copies the functions of `source` into `target`, all private; `main` is called `name`. Returns the name it got."""
    from jaxlib.mlir import ir

    made_in = target.context
    copy = ir.Module.parse(source.operation.get_asm(enable_debug_info=True), context=made_in)
    own = ir.SymbolTable(copy.operation)
    taken = {
        ir.StringAttr(op.attributes["sym_name"]).value
        for op in target.body.operations
        if "sym_name" in op.attributes
    }
    result = name
    for op in list(copy.body.operations):
        old = ir.StringAttr(op.attributes["sym_name"]).value
        new = base = name if old == "main" else old
        n = 0
        while new in taken:
            new, n = f"{base}_{n}", n + 1
        taken.add(new)
        if old == "main":
            result = new
        if new != old:
            with made_in:
                ir.SymbolTable.replace_all_symbol_uses(old, new, copy.operation)
                own.set_symbol_name(op, new)
    with made_in:
        for op in list(copy.body.operations):
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            target.body.append(op)
    return result


def parse(text: str | bytes, *, alone: bool = False) -> Any:
    """The module a text or bytecode stands for; a syntax error names line and column.

    The one context is used under the interpreter's lock. A module for native code that lets go of that lock, as the compiler does, is
    parsed `alone`, in a context of its own.
    """
    from jaxlib.mlir import ir

    return ir.Module.parse(text, context=_new_context() if alone else context())


def verify(program: str | bytes | Any) -> None:
    """Raises if the program is not well formed."""
    module = parse(program) if isinstance(program, (str, bytes)) else program
    module.operation.verify()


def print_module(module: Any, *, locations: bool = False, large_constants: int | None = 16) -> str:
    """The module as text; constants of more elements than `large_constants` are elided."""
    return module.operation.get_asm(
        enable_debug_info=locations, large_elements_limit=large_constants
    )


def print_local(module: Any) -> str:
    """The whole module as text, with the locations of operations in place."""
    return module.operation.get_asm(enable_debug_info=True, use_local_scope=True)


def operations(module: Any) -> list[Any]:
    """All operations of a module, those in regions too."""
    found: list[Any] = []

    def visit(operation: Any) -> None:
        for region in operation.regions:
            for block in region:
                for op in block:
                    found.append(op.operation)
                    visit(op.operation)

    visit(module.operation)
    return found


_FRONTEND = "mhlo.frontend_attributes"


def annotate(op: Any, pairs: Sequence[tuple[str, str]]) -> None:
    """Adds annotations for the compiler to an operation."""
    from jaxlib.mlir import ir

    with context():
        given = (
            {a.name: a.attr for a in op.attributes[_FRONTEND]} if _FRONTEND in op.attributes else {}
        )
        given |= {k: ir.StringAttr.get(v) for k, v in pairs}
        op.attributes[_FRONTEND] = ir.DictAttr.get(given)


def annotate_operand(op: Any, pairs: Sequence[tuple[str, str]]) -> None:
    """Takes out an operation that stands for its operand, and annotates what made that, if an operation did."""
    from jaxlib.mlir import ir

    (operand,) = op.operands
    if not isinstance(operand.owner, ir.Block):  # an argument has no operation
        annotate(operand.owner, pairs)
    op.results[0].replace_all_uses_with(operand)
    op.erase()


def to_bytecode(program: str | Any) -> bytes:
    """The program as MLIR bytecode."""
    import io

    module = parse(program) if isinstance(program, str) else program
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def apply_passes(module: Any, pipeline: str, *, verify: bool = True) -> None:
    """Applies a pass pipeline to a module in place. Passes over programs of users may end the process: run them in the worker."""
    from jaxlib.mlir import passmanager

    if not pipeline.startswith("builtin.module("):
        pipeline = f"builtin.module({pipeline})"
    with context():
        passes = passmanager.PassManager.parse(pipeline)
        passes.enable_verifier(verify)
        passes.run(module.operation)


# -- programs as files -----------------------------------------------------------------------------------


def to_portable(text: str | bytes, version: str | None = None) -> bytes:
    """The program as a portable StableHLO artifact, which later and somewhat earlier versions read."""
    from jaxlib.mlir.dialects import stablehlo

    module, version = parse(text), version or stablehlo.get_current_version()
    # Shardings and special functions are of other dialects, which promise less about other versions.
    other = any(dialect in str(text) for dialect in ("sdy.", "chlo."))
    return stablehlo.serialize_portable_artifact(module, version, allow_other_dialects=other)


def from_portable(artifact: bytes) -> Any:
    """The module of a portable artifact."""
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.deserialize_portable_artifact(context(), artifact)


def refine_shapes(module: str | bytes) -> Any:
    """The module with every dynamic shape refined to the number that follows from the types of the arguments of `main`.

    Raises:
        ValueError: an assertion on shapes does not hold, or a shape does not follow from those of the arguments.
    """
    return parse(refined_bytecode(module))


def refined_bytecode(
    module: str | bytes, assertions: bool = True, static: bool = True, shardy: bool | None = None
) -> bytes:
    """As `refine_shapes`; whether assertions are checked and all shapes have to become static can be chosen."""
    from jaxlib import _jax

    parsed = parse(module)
    if shardy is None:
        shardy = "sdy." in str(parsed)
    try:
        return _jax.mlir.refine_polymorphic_shapes(to_bytecode(parsed), assertions, static, shardy)
    except Exception as e:
        raise ValueError(str(e)) from None


def from_hlo(computation: bytes) -> bytes:
    """A serialized HLO module as the bytecode of a StableHLO module."""
    from jaxlib import _jax

    return _jax.mlir.hlo_to_stablehlo(computation)


def function_texts(module: Any, main: str) -> dict[str, str]:
    """The functions of a module as text by name, all private; its `main` is called as given."""
    from jaxlib.mlir import ir

    with context():
        merged = ir.Module.create(ir.Location.unknown())
    merge(merged, main, module)
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation.get_asm(
            enable_debug_info=True, use_local_scope=True
        )
        for op in merged.body.operations
    }


def argument_count(module: Any) -> int:
    """How many arguments the `main` of a module takes.

    >>> argument_count(parse("func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) { return }"))
    2
    """
    from jaxlib.mlir import ir

    for op in module.body.operations:
        if ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return len(op.arguments)
    raise ValueError("a module to be compiled has a function named main, and this one has none")
