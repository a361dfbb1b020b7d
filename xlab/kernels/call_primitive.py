"""The primitive `kernel_call`: a kernel's jaxpr over a grid. Its derivatives and batching are in `call_rules.py`."""

from __future__ import annotations

import math

from xlab.compile.dispatch import apply_primitive
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.printing import hide_params
from xlab.core.refs import AbstractRef
from xlab.interpreters import mlir
from xlab.kernels.compiled import program_on_values
from xlab.kernels.cost import jaxpr_cost, register_cost_rule
from xlab.kernels.lowering import lower_kernel
from xlab.kernels.value_path import is_value, run_eagerly, value_effects

kernel_call_p = Primitive(
    "kernel_call", multiple_results=True, auto_pvary=False, context_dependent=True
)
kernel_call_p.takes_refs = True
# The types of results stand before the equation; options say something where they are set.
hide_params(
    "kernel_call",
    "out_avals",
    when={
        "alias_mode": "copy",
        "input_output_aliases": (),
        "mesh": None,
        "compiler_params": None,
        "cost_estimate": None,
        "debug": False,
        "metadata": None,
    },
)


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


def _on_values(operands, params):
    return program_on_values(
        operands,
        params["jaxpr"],
        params["grid_mapping"],
        params["input_output_aliases"],
        params["alias_mode"],
    )


def _lowering(ctx, *operands, **params):
    return lower_kernel(ctx, kernel_call_p, params["name"], operands, params, _on_values)


mlir.register_text_lowering(kernel_call_p, _lowering)


# -- cost -------------------------------------------------------------------------------------------------


def _cost(ins, outs, *, jaxpr, grid_mapping, cost_estimate, **_):
    """What its caller states, else that of the kernel at each step; sizes of the grid that are values count once."""
    steps = math.prod(n for n in grid_mapping.grid if type(n) is int)
    return cost_estimate or jaxpr_cost(jaxpr.jaxpr).times(steps)


register_cost_rule(kernel_call_p, _cost)
