"""Sharding propagation: which operation carried each mesh axis from one value to another.

Shardy records this itself when asked to (`propagation_edges`); here its records become plain tuples. Calls are inlined first,
as the compiler does, so that shardings reach the bodies of called functions. The passes run in the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xlab.backend import ir as _ir
from xlab.backend import worker as _worker
from xlab.backend.inlining import inline_calls, operations, shape_of

# Unused values are removed first: removed later, they would leave records of steps without a value, which end the process.
_PASSES = "trivial-dce,sdy-import-pipeline,sdy-user-priority-propagate{debug-propagation-edge-sharding=true}"
_VALUE = re.compile(r"step-(\d+) = \[((?:[^\[\]]|\[[^\[\]]*\])*)\]")
_EDGE = re.compile(r'("[^"]*"(?::\(\d+\)\d+)?) = (operand|result)-(\d+) -> \[([^\]]*)\]')
_EQUATION = re.compile(r'"(?:[^"\\]|\\.)*;e(\d+)(?:["/.])')


class PropagationStep(NamedTuple):
    """One step: `operation` carried `axis` from value `source` to value `target`, both `(operand or result, number)`."""

    number: int
    axis: str
    operation: str
    equation: int
    source: int
    target: int
    forward: bool


class Result(NamedTuple):
    """A result of an operation: its value, equation, shape, and sharding as text (empty for none)."""

    value: int
    equation: int
    shape: tuple[int, ...]
    sharding: str


@dataclass
class Propagation:
    """What propagation did: `steps` by `(target value, axis)`, `results` in program order, and where axes were given.

    `failed` says why nothing is known, where the passes did not come to their end.
    """

    steps: dict[tuple[int, str], PropagationStep] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    # Value that the function returns: number of the result.
    asked: dict[int, int] = field(default_factory=dict)
    # Value a constraint gives: its equation.
    constraints: dict[int, int] = field(default_factory=dict)
    failed: str = ""


def propagation(text: str | bytes) -> Propagation:
    """The steps by which the shardings of a program reached its values."""
    found, why = _worker.run(propagation_of, text)
    return found[0] if found else Propagation(failed=why)


def propagation_of(text: str | bytes) -> Iterator[Propagation]:
    """The propagation of a program, in this process."""
    module = _ir.parse(text)
    with _ir.context():
        inline_calls(module)
        asked = _asked(_main(module))
        # The steps name the ends of a loop's data-flow edge, which the verifier takes for operands.
        try:
            _ir.apply_passes(module, _PASSES, verify=False)
        except _ir.objects().MLIRError as error:
            yield Propagation(failed=str(error))
            return
        yield _Reader().read(module, asked)


def _main(module: Any) -> Any:
    from jaxlib.mlir import ir

    return next(
        op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
        and ir.StringAttr(op.attributes["sym_name"]).value == "main"
    )


def _asked(main: Any) -> list[int]:
    """Numbers of the results that were given axes."""
    given = main.attributes.get("res_attrs", ())
    return [
        k
        for k, one in enumerate(given)
        if "sdy.sharding" in one and '"' in str(one["sdy.sharding"])
    ]


class _Reader:
    def __init__(self) -> None:
        self.out = Propagation()
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def read(self, module: Any, asked: list[int]) -> Propagation:
        main = _main(module)
        block = main.regions[0].blocks[0]
        self.out.arguments = [self.number(a) for a in block.arguments]
        listed = list(operations(main))
        for op in listed:
            if op.name == "sdy.data_flow_edge":
                self._same(op)
        for op in listed:
            self._operation(op)
        for k in asked:
            self.out.asked.setdefault(self.number(listed[-1].operands[k]), k)
        return self.out

    def _same(self, edge: Any) -> None:
        """A loop's initial value, the body's argument and the result share one sharding: one number."""
        value = edge.operands[0]
        number = self.number(edge.results[0])
        self.numbers[value] = number
        owner = value.owner
        if getattr(owner, "name", "") == "stablehlo.while":
            for region in owner.operation.regions:
                self.numbers[region.blocks[0].arguments[value.result_number]] = number

    def _operation(self, op: Any) -> None:
        found = _EQUATION.search(str(op.location))
        equation = int(found.group(1)) if found else -1
        attributes = op.attributes
        edge = op.name == "sdy.data_flow_edge"
        if op.name == "sdy.sharding_constraint":
            self.out.constraints[self.number(op.results[0])] = equation
        if op.results:
            name = (
                "sdy.sharding"
                if "sdy.sharding" in attributes
                else "sharding"
                if "sharding" in attributes
                else ""
            )
            texts = (
                re.findall(r"<@\w+, \[(?:\{[^}]*\}(?:, )?)*\][^>]*>", str(attributes[name]))
                if name
                else []
            )
            for k, value in enumerate(op.results):
                shape = shape_of(value.type)
                if shape is not None:
                    self.out.results.append(
                        Result(
                            self.number(value), equation, shape, texts[k] if k < len(texts) else ""
                        )
                    )
        if "sdy.propagation_edges" not in attributes:
            return
        sources = self._ends(op) if edge else op.operands
        for number, listed in _VALUE.findall(str(attributes["sdy.propagation_edges"])):
            for axis, kind, index, targets in _EDGE.findall(listed):
                start = self._end(kind, int(index), sources, op.results)
                for target_kind, target_index in re.findall(r"(operand|result)-(\d+)", targets):
                    end = self._end(target_kind, int(target_index), sources, op.results)
                    if start is not None and end is not None and start != end:
                        axis_name = axis.strip('"').replace('":', ":")
                        owner = op.operands[0].owner if edge else op
                        self.out.steps.setdefault(
                            (end, axis_name),
                            PropagationStep(
                                int(number),
                                axis_name,
                                getattr(owner, "name", op.name),
                                equation,
                                start,
                                end,
                                target_kind == "result",
                            ),
                        )

    def _end(self, kind: str, index: int, sources: Any, results: Any) -> int | None:
        values = sources if kind == "operand" else results
        return self.number(values[index]) if index < len(values) else None

    def _ends(self, edge: Any) -> list[Any]:
        """The sources of a data-flow edge: a loop's initial value and the body's result, or each branch's result."""
        value = edge.operands[0]
        owner = value.owner
        name = getattr(owner, "name", "")
        if not hasattr(value, "result_number"):
            return [value]
        k = value.result_number
        ends = [
            r.blocks[0].operations[len(r.blocks[0].operations) - 1].operands
            for r in owner.operation.regions
        ]
        if name == "stablehlo.while":
            return [owner.operation.operands[k], ends[1][k]]
        return [e[k] for e in ends if k < len(e)] or [value]
