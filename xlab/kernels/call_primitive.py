"""The primitive `kernel_call`: a kernel's jaxpr over a grid, and its rules."""

from __future__ import annotations

from xlab.compile.dispatch import apply_primitive
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.interpreters import mlir
from xlab.kernels.compiled import program_on_values
from xlab.kernels.value_path import is_value, lower_value, run_eagerly, value_effects

kernel_call_p = Primitive(
    "kernel_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
kernel_call_p.takes_refs = True


@kernel_call_p.def_effectful_abstract_eval
def _kernel_call_aval(*avals, jaxpr, grid_mapping, input_output_aliases, interpret, out_avals, **_):
    first = grid_mapping.prefetch_operands.start
    aliased = {o: avals[first + i] for i, o in input_output_aliases}
    outs = [aliased.get(i, a).update(memory_space=None) for i, a in enumerate(out_avals)]
    captured = grid_mapping.num_captured
    effects = _effects.moved(jaxpr.effects, lambda i: i if i < captured else None)
    return outs, (effects - {_effects.INTERNAL_REF}) | value_effects(interpret)


@kernel_call_p.def_impl
def _kernel_call_impl(*operands, **params):
    if not is_value(params["interpret"]):
        return apply_primitive(kernel_call_p, *operands, **params)
    avals, _ = kernel_call_p.abstract(tuple(map(aval_of, operands)), params)
    return run_eagerly(kernel_call_p, operands, params, avals)


def _kernel_call_on_values(
    *operands, jaxpr, grid_mapping, input_output_aliases, interpret, name, **_
):
    if interpret is False:
        raise ValueError(
            f"only interpret mode is supported on CPU: pass interpret=True to the kernel call of {name}, or wrap it in "
            f"xlab.kernels.interpret_mode()"
        )
    return program_on_values(operands, jaxpr, grid_mapping, input_output_aliases)


_compiled = mlir.lower_fun(_kernel_call_on_values)


@mlir.text_rule
def _kernel_call_lowering(ctx, *args, **params):
    if is_value(params["interpret"]):
        return lower_value(ctx, kernel_call_p, args, params)
    return _compiled(ctx, *args, **params)


mlir.register_text_lowering(kernel_call_p, _kernel_call_lowering)
