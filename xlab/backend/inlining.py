"""Modules before partitioning: calls put in place, as the compiler does, and whether every sharding divides what it cuts."""

from __future__ import annotations

import re
from typing import Any


def inline_calls(module: Any) -> None:
    """Replaces every call of a function of the module by the function's body."""
    from jaxlib.mlir import ir

    functions = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations
                 if op.operation.name == "func.func"}
    for function in functions.values():
        for _ in range(1000):        # a body that was put in place may call further functions
            calls = [op for op in operations(function) if op.name == "func.call"]
            if not calls:
                break
            for call in calls:
                _inline(call, functions)
    for name, function in functions.items():
        if name != "main":
            function.erase()


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


_DIMS = re.compile(r"<@(\w+), \[((?:\{[^}]*\}(?:, )?)*)\]")
_AXIS = re.compile(r'"([^"]*)"(?::\(\d+\)(\d+))?')


def undivided(module: Any) -> str:
    """A sentence about the first value whose sharding does not divide it, empty if all do: such a program has no local form."""
    meshes = {name: {n: int(size) for n, size in re.findall(r'"([^"]*)"=(\d+)', axes)}
              for name, axes in re.findall(r"sdy\.mesh @(\w+) = <(\[[^\]]*\])", str(module.operation.get_asm(large_elements_limit=4)))}
    for op in operations(module.operation):
        attributes = op.attributes
        pairs: list[tuple[Any, str]] = []
        for name in ("sdy.sharding", "sharding", "out_sharding"):
            if name in attributes:
                texts = ["<@" + part for part in str(attributes[name]).split("<@")[1:]]
                pairs += [(value.type, text) for value, text in zip(op.results, texts)]
        if op.name == "func.func" and op.regions[0].blocks:
            block = op.regions[0].blocks[0]
            ends = block.operations[len(block.operations) - 1].operands
            for name, values in (("arg_attrs", block.arguments), ("res_attrs", ends)):
                if name in attributes:
                    pairs += [(v.type, str(a)) for v, a in zip(values, attributes[name])]
        for kind, text in pairs:
            found, shape = _DIMS.search(text), shape_of(kind)
            if not found or shape is None:
                continue
            for length, dim in zip(shape, re.findall(r"\{([^}]*)\}", found.group(2))):
                parts = 1
                for axis, part in _AXIS.findall(dim):
                    parts *= int(part) if part else meshes.get(found.group(1), {}).get(axis, 1)
                if length % parts:
                    return f"a dimension of {length} in {op.name} is cut into {parts} parts, which do not divide it"
    return ""


def shape_of(kind: Any) -> tuple[int, ...] | None:
    """The shape of a tensor type, None for a token."""
    from jaxlib.mlir import ir

    try:
        return tuple(ir.RankedTensorType(kind).shape)
    except ValueError:      # a token
        return None
