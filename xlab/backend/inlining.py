"""Inlines calls in modules before partitioning, as the compiler does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def inline_calls(module: Any) -> None:
    """Inlines every call of a function of the module; functions used in other ways stay."""
    from jaxlib.mlir import ir

    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    for function in functions.values():
        for _ in range(1000):  # a body that was put in place may call further functions
            calls = [op for op in operations(function) if op.name == "func.call"]
            if not calls:
                break
            for call in calls:
                _inline(call, functions)
    named = {
        name
        for function in functions.values()
        for op in operations(function)
        for name in _named(op)
    }
    for name, function in functions.items():
        if name != "main" and name not in named:
            function.erase()


def _named(op: Any) -> Iterator[str]:
    """Functions that an operation's attributes name, such as the decomposition of a composite."""
    from jaxlib.mlir import ir

    for name in ("decomposition", "called_computations"):
        if name in op.attributes:  # one by one: some constants have no form in Python
            given = op.attributes[name]
            for one in given if isinstance(given, ir.ArrayAttr) else (given,):
                yield ir.FlatSymbolRefAttr(one).value


def _inline(call: Any, functions: dict[str, Any]) -> None:
    from jaxlib.mlir import ir

    body = functions[ir.FlatSymbolRefAttr(call.attributes["callee"]).value].regions[0].blocks[0]
    known = dict(zip(body.arguments, call.operands))
    for op in body.operations:
        op = op.operation
        if op.name == "func.return":
            for old, new in zip(call.results, op.operands):
                old.replace_all_uses_with(known.get(new, new))
            break
        made = op.clone(ip=ir.InsertionPoint(call))
        for inner in (made, *operations(made)):
            for i, operand in enumerate(inner.operands):
                if operand in known:
                    inner.operands[i] = known[operand]
        known.update(zip(op.results, made.results))
    call.erase()


def operations(op: Any) -> Any:
    """The operations inside one, those of inner regions after their owner."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from operations(inner.operation)


def shape_of(kind: Any) -> tuple[int, ...] | None:
    """The shape of a tensor type, None for a token."""
    from jaxlib.mlir import ir

    try:
        return tuple(ir.RankedTensorType(kind).shape)
    except ValueError:  # a token
        return None
