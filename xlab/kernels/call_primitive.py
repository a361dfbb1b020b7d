"""The primitive `kernel_call`: a kernel's jaxpr over a grid. Its derivatives and batching are in `call_rules.py`."""

from __future__ import annotations

import functools

from xlab.backend import caches
from xlab.compile.dispatch import apply_primitive
from xlab.core import effects as _effects
from xlab.core.avals import INVARYING, ShapedArray, aval_of
from xlab.core.jaxpr import number_equations
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef
from xlab.interpreters import mlir
from xlab.interpreters import partial_eval as pe
from xlab.kernels.compiled import program_on_values
from xlab.kernels.params import lowering_rule
from xlab.kernels.value_path import is_value, lower_value, run_eagerly, value_effects

kernel_call_p = Primitive(
    "kernel_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
kernel_call_p.takes_refs = True


@kernel_call_p.def_effectful_abstract_eval
def _kernel_call_aval(
    *avals, jaxpr, grid_mapping, input_output_aliases, interpret, out_avals, name, **_
):
    first = grid_mapping.prefetch_operands.start
    for a in avals:
        if a.explicit_sharding is not None:
            raise ValueError(
                f"the kernel call of {name} got an operand of type {a}, sharded over mesh axes of type Explicit: all mesh axes must "
                f"be manual. Call the kernel inside a shard_map over these axes, on each device's part."
            )
    aliased = {o: avals[first + i] for i, o in input_output_aliases}
    outs = []
    for o, a in enumerate(out_avals):
        like = aliased.get(o, a)
        like = like.inner_aval if type(like) is AbstractRef else like
        outs.append(like.update(memory_space=None, weak_type=False))
    return outs, _outer_effects(avals, jaxpr, grid_mapping) | value_effects(interpret)


@kernel_call_p.def_impl
def _kernel_call_impl(*operands, **params):
    if not is_value(params["interpret"]):
        return apply_primitive(kernel_call_p, *operands, **params)
    avals, _ = kernel_call_p.abstract(tuple(map(aval_of, operands)), params)
    return run_eagerly(kernel_call_p, operands, params, avals)


def _outer_effects(avals, jaxpr, grid_mapping) -> frozenset[_effects.Effect]:
    """The effects of a kernel as those of its call: on operands that are references, and those on no reference."""
    captured, operands = grid_mapping.num_captured, grid_mapping.prefetch_operands.start

    def place(i):
        at = i if i < captured else i - captured + operands
        return at if at < len(avals) and type(avals[at]) is AbstractRef else None

    return _effects.moved(jaxpr.effects, place) - {_effects.INTERNAL_REF}


# -- lowering ---------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _program(avals: tuple, params: tuple):
    """The call as a program on values, and its equations' numbers."""
    given = dict(params)

    def run(*operands):
        return program_on_values(
            operands,
            given["jaxpr"],
            given["grid_mapping"],
            given["input_output_aliases"],
            given["alias_mode"],
        )

    closed = pe.trace_to_closed_jaxpr(run, avals)
    return closed, tuple(number_equations(closed.jaxpr))


caches.register(_program.cache_clear)


def _lowering(ctx, *operands, **params):
    name, interpret = params["name"], params["interpret"]
    rule = lowering_rule(ctx.platform, params["compiler_params"], name)
    if interpret is False:
        if rule is not None:
            return rule(ctx, *operands, **params)
        raise ValueError(
            f"only interpret mode is supported on CPU: pass interpret=True to the kernel call of {name}, wrap it in "
            f"xlab.kernels.interpret_mode(), or set the option kernels_default_interpret to 'compiled'"
        )
    if is_value(interpret):
        return lower_value(ctx, kernel_call_p, operands, params)
    avals = tuple(
        a.update(sharding=None, mat=INVARYING) if type(a) is ShapedArray else a
        for a in ctx.avals_in
    )
    closed, equations = _program(avals, tuple(params.items()))
    module = ctx.module
    module.keepalive.append(closed)
    module.numbers.update(dict.fromkeys(equations, module.numbers[id(ctx.eqn)]))
    return ctx.call(
        (id(closed), params["metadata"]), name, closed, operands, _attributes(params["metadata"])
    )


def _attributes(metadata) -> str:
    if not metadata:
        return ""
    text = ", ".join(f'"{mlir.values.escape(k)}" = "{mlir.values.escape(v)}"' for k, v in metadata)
    return f"mhlo.frontend_attributes = {{{text}}}"


mlir.register_text_lowering(kernel_call_p, _lowering)
