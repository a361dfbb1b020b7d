"""How kernels are lowered, calls and mpmd_maps alike: by a platform's rule, as a program on values, or as a call of the value interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend import caches
from xlab.core.avals import INVARYING, ShapedArray
from xlab.core.jaxpr import ClosedJaxpr, number_equations
from xlab.core.primitive import Primitive
from xlab.core.trace import Axis, bound_axes
from xlab.interpreters import mlir
from xlab.interpreters import partial_eval as pe
from xlab.kernels.params import lowering_rule
from xlab.kernels.value_path import is_value, lower_value

Evaluate = Callable[[Sequence[Any], dict[str, Any]], list]


@functools.lru_cache(maxsize=1024)
def _program(
    evaluate: Evaluate, avals: tuple, params: tuple, axes: tuple
) -> tuple[ClosedJaxpr, tuple]:
    """A call as a program on values, and its equations' numbers. `axes` are names and sizes of the manual mesh axes around it."""
    with bound_axes([Axis(name, size, "mesh") for name, size in axes]):
        closed = pe.trace_to_closed_jaxpr(lambda *operands: evaluate(operands, dict(params)), avals)
    return closed, tuple(number_equations(closed.jaxpr))


caches.register(_program.cache_clear)


def lower_kernel(
    ctx: Any,
    prim: Primitive,
    name: str,
    operands: Sequence[str],
    params: dict[str, Any],
    evaluate: Evaluate,
    for_rule: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params,
) -> list[str]:
    """Lowers the equation of a kernel.

    Args:
        ctx, operands, params: as of a rule that writes text.
        name: of the kernel.
        evaluate: `evaluate(operands, params)` runs it on arrays.
        for_rule: the parameters as those of a `kernel_call`, for a platform's own rule.

    Raises:
        ValueError: there is no rule for the platform, or on CPU it is not interpreted.
    """
    rule, interpret = (
        lowering_rule(ctx.platform, params["compiler_params"], name),
        params["interpret"],
    )
    if interpret is False:
        if rule is not None:
            return rule(ctx, *operands, **for_rule(params))
        raise ValueError(
            f"only interpret mode is supported on CPU: pass interpret=True to the {prim} of {name}, wrap it in "
            f"xlab.kernels.interpret_mode(), or set the option kernels_default_interpret to 'compiled'"
        )
    if is_value(interpret):
        return lower_value(ctx, prim, operands, params)
    avals = tuple(
        a.update(sharding=None, mat=INVARYING) if type(a) is ShapedArray else a
        for a in ctx.avals_in
    )
    axes = tuple([(name, ctx.mesh.shape[name]) for name in ctx.manual])
    closed, equations = _program(evaluate, avals, tuple(params.items()), axes)
    module = ctx.module
    module.keepalive.append(closed)
    module.numbers.update(dict.fromkeys(equations, module.numbers[id(ctx.eqn)]))
    metadata = params["metadata"]
    return ctx.call((id(closed), metadata), name, closed, operands, _attributes(metadata))


def _attributes(metadata: tuple[tuple[str, str], ...] | None) -> str:
    if not metadata:
        return ""
    text = ", ".join(f'"{mlir.values.escape(k)}" = "{mlir.values.escape(v)}"' for k, v in metadata)
    return f"mhlo.frontend_attributes = {{{text}}}"
