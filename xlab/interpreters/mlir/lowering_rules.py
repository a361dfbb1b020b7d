"""The table of lowering rules, and what is noted of some of them."""

from __future__ import annotations

from collections.abc import Callable

from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable

lowerings = RuleTable(
    "mlir.lowerings",
    "lower",
    "rule(ctx, *operands, **params) -> the result(s), from MLIR values to MLIR values such as hlo.sine(x)",
    registration="mlir.register_lowering({}_p, rule)",
    phrase="MLIR translation rule for primitive '{}' not found{}",
)
"""The rules as they are run: on text. Operands and results are SSA names, `ctx.avals_in` and `ctx.avals_out` give the types, and
`ctx.op(text)` emits one operation and returns its name. `mlir.register_text_lowering` takes such rules, `mlir.register_lowering` rules
that build operations. Worked example:

    from xlab.extend.core import Primitive
    from xlab.extend.mlir.dialects import stablehlo as hlo
    from xlab.interpreters import mlir

    wave_p, ripple_p = Primitive("wave"), Primitive("ripple")
    for p in (wave_p, ripple_p):
        p.def_abstract_eval(lambda x: x)
    mlir.register_text_lowering(wave_p, lambda ctx, x: ctx.op(f"stablehlo.sine {x} : {ctx.type_out()}"))
    mlir.register_lowering(ripple_p, lambda ctx, x: hlo.sine(x))
"""

lowered_with_devices: set[Primitive] = set()
"""Primitives whose lowering asks for the program's devices, `ctx.module.assignment`: a program with one is lowered for each."""


single_operations: dict[Callable, tuple[str, bool]] = {}
"""By rule: what stands before the operands, of rules that without parameters write one operation on operands of the result's type,
and whether they do for complex numbers too."""
