"""How the dimensions of each operation of a program belong together, as Shardy's rules say it: what a model of partitioning needs.

A rule names factors: `([i, k], [k, j])->([i, j])` of a product, `k` being added up. The pass that finds them runs in the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from xlab.backend import ir, worker
from xlab.backend.inlining import inline_calls


class Rule(NamedTuple):
    """The factors of one operation: numbers per dimension of each operand and result, their sizes, and which are special."""

    operands: tuple[tuple[tuple[int, ...], ...], ...]
    results: tuple[tuple[tuple[int, ...], ...], ...]
    sizes: tuple[int, ...]
    reduction: frozenset[int] = frozenset()
    replicated: frozenset[int] = frozenset()
    permuted: frozenset[int] = frozenset()


class FactorOp(NamedTuple):
    """One operation: values by number, the number of its rule or -1, its equation or -1, its own shardings, and its regions."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    rule: int
    equation: int
    shardings: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()


class Region(NamedTuple):
    """A block: arguments, operations, what it gives back."""

    arguments: tuple[int, ...]
    ops: tuple[FactorOp, ...]
    results: tuple[int, ...]


class Factored(NamedTuple):
    """A program as operations with rules; `shapes` and `itemsizes` are by number of the value."""

    shapes: tuple[tuple[int, ...], ...]
    itemsizes: tuple[float, ...]
    rules: tuple[Rule, ...]
    main: Region


def factored(text: str | bytes) -> Factored | None:
    """The operations of a lowered program with their rules; None where the passes did not come to their end.

    Example:
        >>> made = factored('func.func public @main(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {'
        ...     ' %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>'
        ...     ' return %0 : tensor<8x2xf32> }')
        >>> made.rules[0].operands, made.rules[0].results, sorted(made.rules[0].reduction)
        ((((0,), (2,)), ((2,), (1,))), (((0,), (1,)),), [2])
    """
    found, why = worker.run(factors_of, text)
    return None if why or not found else found[0]


# ---------------------------------------------------------------------------------------------------- in the worker

_EQUATION = re.compile(r'"(?:[^"\\]|\\.)*;e(\d+)(?:["/.])')
_KINDS = re.compile(r"(reduction|need_replication|permutation)=\{([^}]*)\}")
_RULE = re.compile(r"<\((.*?)\)->\((.*?)\)(?: \{([^}]*)\})?(.*)>$")
_FACTOR = re.compile(r"[a-z](?:_\d+)?")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*?)(?:, .*)?>$")
_BITS = re.compile(r"(?:f|i|ui|bf|complex<f|E\d+M|f8E\d+M)(\d+)")
_INSIDE = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")


def factors_of(text: str | bytes) -> Iterator[Factored]:
    """The same in this process."""
    module = ir.parse(text)
    with ir.context():
        inline_calls(module)
    ir.apply_passes(module, "func.func(sdy-populate-op-sharding-rules)")
    mlir = ir.objects()
    main = next(
        op
        for op in module.body.operations
        if op.operation.name == "func.func"
        and mlir.StringAttr(op.attributes["sym_name"]).value == "main"
    )
    yield _Reader().whole(main.operation)


class _Reader:
    def __init__(self) -> None:
        self.values: dict[Any, int] = {}
        self.shapes: list[tuple[int, ...]] = []
        self.itemsizes: list[float] = []
        self.rules: dict[str, int] = {}
        self.types: dict[str, tuple[tuple[int, ...], float]] = {}

    def whole(self, main: Any) -> Factored:
        region = self.block(main.regions[0].blocks[0])
        return Factored(
            tuple(self.shapes), tuple(self.itemsizes), tuple(map(_rule, self.rules)), region
        )

    def value(self, v: Any) -> int:
        number = self.values.get(v)
        if number is None:
            number = self.values[v] = len(self.shapes)
            text = str(v.type)
            if text not in self.types:
                self.types[text] = _type(text)
            shape, size = self.types[text]
            self.shapes.append(shape)
            self.itemsizes.append(size)
        return number

    def block(self, block: Any) -> Region:
        arguments = tuple(map(self.value, block.arguments))
        ops, results = [], ()
        for op in block.operations:
            op = op.operation
            operands = tuple(map(self.value, op.operands))
            if op.name in ("func.return", "stablehlo.return", "sdy.return"):
                results = operands
            else:
                ops.append(self.operation(op, operands))
        return Region(arguments, tuple(ops), results)

    def operation(self, op: Any, operands: tuple[int, ...]) -> FactorOp:
        rule = -1
        if "sdy.sharding_rule" in op.attributes:
            text = str(op.attributes["sdy.sharding_rule"])
            rule = self.rules.setdefault(text, len(self.rules))
        shardings = tuple(
            str(op.attributes[name])
            for name in ("sharding", "in_shardings", "out_shardings")
            if op.name.startswith("sdy.") and name in op.attributes
        )
        place = _EQUATION.search(str(op.location))
        regions = tuple(self.block(r.blocks[0]) for r in op.regions) if op.name in _INSIDE else ()
        return FactorOp(
            op.name.partition(".")[2], operands, tuple(map(self.value, op.results)), rule,
            int(place[1]) if place else -1, shardings, regions,
        )  # fmt: skip


def _type(text: str) -> tuple[tuple[int, ...], float]:
    found = _TENSOR.match(text)
    if not found:
        return (), 0.0
    bits = _BITS.match(found[2])
    size = int(bits[1]) / 8 if bits else 1.0
    if found[2].startswith("complex"):
        size *= 2
    return tuple(int(d) for d in found[1].split("x") if d), max(size, 1.0) if found[
        2
    ] == "i1" else size


def _rule(text: str) -> Rule:
    found = _RULE.search(text)
    if found is None:
        return Rule((), (), ())
    sizes = dict(part.strip().split("=") for part in (found[3] or "").split(",") if "=" in part)
    number = {name: n for n, name in enumerate(sizes)}

    def side(values: str) -> tuple:
        return tuple(
            tuple(
                tuple(number[f] for f in _FACTOR.findall(dim) if f in number)
                for dim in (value.split(",") if value else ())
            )
            for value in re.findall(r"\[([^\]]*)\]", values)
        )

    kinds = {
        kind: frozenset(number[f.strip()] for f in names.split(",") if f.strip() in number)
        for kind, names in _KINDS.findall(found[4])
    }
    return Rule(
        side(found[1]), side(found[2]), tuple(int(s) for s in sizes.values()),
        kinds.get("reduction", frozenset()), kinds.get("need_replication", frozenset()),
        kinds.get("permutation", frozenset()),
    )  # fmt: skip
