"""Shares of the parts of a fused instruction in its cost, estimated from their shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xlab.observe.programs import hlo as _hlo

_FREE = frozenset(
    (
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "broadcast",
        "iota",
        "reshape",
    )
)
_SLOW = frozenset(("exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "sine", "cosine", "tan", "logistic", "power", "sqrt",
                   "rsqrt", "cbrt", "erf", "atan2", "divide", "remainder"))  # fmt: skip
SLOW = 10.0
"""Elements that are added while one of these functions is worked out, about."""

_DIMS = re.compile(r"\[([\d,]*)\]")


def fused_costs(
    module: _hlo.Module, instruction: _hlo.Instruction, equations: Sequence[int]
) -> dict[int, float]:
    """The part of an instruction's work that each of some equations has; the parts add up to one.

    >>> m = _hlo.parse('''HloModule m
    ...
    ... %fused (a: f32[8,8], b: f32[8,8]) -> f32[8,8] {
    ...   %a = f32[8,8]{1,0} parameter(0)
    ...   %b = f32[8,8]{1,0} parameter(1)
    ...   %d = f32[8,8]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="f/dot;e0"}
    ...   ROOT %n = f32[8,8]{1,0} negate(%d), metadata={op_name="f/neg;e1"}
    ... }
    ...
    ... ENTRY %main (p: f32[8,8]) -> f32[8,8] {
    ...   %p = f32[8,8]{1,0} parameter(0)
    ...   ROOT %f = f32[8,8]{1,0} fusion(%p, %p), kind=kLoop, calls=%fused
    ... }
    ... ''')
    >>> {i: round(part, 2) for i, part in fused_costs(m, m.entry.instructions[1], (0, 1)).items()}
    {0: 0.94, 1: 0.06}
    """
    if len(equations) < 2:
        return dict.fromkeys(equations, 1.0)
    work = dict.fromkeys(equations, 0.0)
    for computation in module.called_by(instruction):
        here = computation.by_name()
        for i in here.values():
            mine = [n for n in i.equations if n in work]
            for n in mine:
                work[n] += _work(i, here) / len(mine)
    total = sum(work.values())
    return (
        {n: part / total for n, part in work.items()}
        if total
        else dict.fromkeys(equations, 1.0 / len(equations))
    )


def _work(i: _hlo.Instruction, here: dict[str, _hlo.Instruction]) -> float:
    """Additions of one instruction, about."""
    if i.opcode in _FREE:
        return 0.0
    out = _elements(i.shape)
    operands = [here[name].shape for name in i.operands if name in here]
    if i.opcode == "dot" and operands:
        dims = _sizes(operands[0])
        contracted = [
            dims[int(d)]
            for d in re.findall(r"\d+", _hlo.attribute(i.attributes, "lhs_contracting_dims"))
        ]
        return 2.0 * out * math.prod(contracted)
    if i.opcode == "convolution" and len(operands) > 1:
        return (
            2.0
            * out
            * _elements(operands[1])
            / max(1, _sizes(i.shape)[-1] if _sizes(i.shape) else 1)
        )
    if i.opcode in ("reduce", "reduce-window", "sort", "scatter", "all-reduce"):
        return float(sum(map(_elements, operands)))
    return out * (SLOW if i.opcode in _SLOW else 1.0)


def _sizes(shape: str) -> list[int]:
    found = _DIMS.search(shape)
    return [int(d) for d in found[1].split(",") if d] if found else []


def _elements(shape: str) -> float:
    return float(
        sum(math.prod(int(d) for d in dims.split(",") if d) for dims in _DIMS.findall(shape))
    )
