"""The primitive `mpmd_map`, and its rules.

Its operands are the arguments and what the functions capture, arrays or references. Each jaxpr takes references only: to the
operands, the outputs, scratch. What a function writes to an array among the operands stays inside; what it writes to a reference
is seen outside.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import caches
from xlab.compile.dispatch import apply_primitive
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.effects import Effect
from xlab.core.jaxpr import ClosedJaxpr, Var
from xlab.core.primitive import Primitive
from xlab.core.printing import hide_params
from xlab.core.refs import AbstractRef, is_ref
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_rules
from xlab.kernels.cost import NOTHING, jaxpr_cost, register_cost_rule
from xlab.kernels.lowering import lower_kernel
from xlab.kernels.mesh import super_mesh_shape
from xlab.kernels.mpmd_compiled import mpmd_on_values
from xlab.kernels.pairs import pairs_of
from xlab.kernels.params import checked_compiler_params, given_params
from xlab.kernels.value_path import is_value, run_eagerly, value_effects
from xlab.lax.control.scan import scan
from xlab.lax.ref_batching import unbatched
from xlab.lax.refs import get_p, swap_p
from xlab.lax.shape import expand_dims, squeeze

_WHOLE = _tree.structure(())


class KernelEffect(Effect):
    """A kernel acts on more than its results: its call is not dropped."""


kernel_effect = KernelEffect()

mpmd_map_p = Primitive("mpmd_map", multiple_results=True, auto_pvary=False)
mpmd_map_p.takes_refs = True
# The types of results stand before the equation; options say something where they are set.
hide_params(
    "mpmd_map",
    "out_avals",
    when={
        "external_meshes": (),
        "input_output_aliases": (),
        "name": None,
        "num_captured": 0,
        "compiler_params": None,
        "cost_estimate": None,
        "debug": False,
        "metadata": None,
    },
)


# -- types --------------------------------------------------------------------------------------------------


@mpmd_map_p.def_effectful_abstract_eval
def _mpmd_map_aval(*avals, **params):
    aliased = {o: avals[i] for i, o in params["input_output_aliases"]}
    outs = [_result(aliased.get(k, a)) for k, a in enumerate(params["out_avals"])]
    return outs, mpmd_map_effects(avals, params)


@mpmd_map_p.def_impl
def _mpmd_map_impl(*operands, **params):
    if not is_value(params["interpret"]):
        return apply_primitive(mpmd_map_p, *operands, **params)
    avals, _ = mpmd_map_p.abstract(tuple(map(aval_of, operands)), params)
    return run_eagerly(mpmd_map_p, operands, params, avals)


def mpmd_map_effects(avals: Sequence[Any], params: Mapping[str, Any]) -> set[Effect]:
    """The effects of a call on operands of these types: what its jaxprs do to references among them, and what no mesh discharges.

    Raises:
        TypeError: a jaxpr has an input that is no reference.
    """
    axes = super_mesh_shape([*params["meshes"], *params["external_meshes"]])
    effects: set[Effect] = set()
    for mesh, jaxpr in zip(params["meshes"], params["jaxprs"]):
        _check_inputs(jaxpr)
        moved = _effects.moved(
            jaxpr.effects,
            lambda i: i if 0 <= i < len(avals) and type(avals[i]) is AbstractRef else None,
        )
        effects.update(
            e
            for e in _effects.without_axes(moved, axes)
            if e != _effects.INTERNAL_REF and not mesh.discharges_effect(e)
        )
    given = given_params(params["compiler_params"])
    if (
        given.get("has_side_effects")
        if isinstance(given, Mapping)
        else getattr(given, "has_side_effects", False)
    ):
        effects.add(kernel_effect)
    return effects | value_effects(params["interpret"])


def _result(aval):
    """An output as callers see it: an array in the memory of the device."""
    array = aval.inner_aval if type(aval) is AbstractRef else aval
    return array.strip_weak_type().update(memory_space=None)


def _check_inputs(jaxpr: ClosedJaxpr) -> None:
    for i, aval in enumerate(jaxpr.in_avals):
        if type(aval) is not AbstractRef:
            raise TypeError(
                f"the functions of an mpmd_map take Ref inputs only, but input {i} of {jaxpr.jaxpr.debug_info.name} has type "
                f"{aval}"
            )


# -- dead code, known and unknown ---------------------------------------------------------------------------

# A kernel is never pruned: it may act on what it does not return.
pe.kept_primitives.add(mpmd_map_p)


@functools.partial(pe.dce_rules.__setitem__, mpmd_map_p)
def _mpmd_map_dce(used_outputs, eqn):
    return [True] * len(eqn.invars), eqn


def partial_eval_mpmd_map(prim: Primitive, trace, args, **params):
    """All of it waits for unknown operands. What is unknown cannot be written to references that are known."""
    _, effects = prim.abstract(tuple(map(aval_of, args)), params)
    for i in _effects.written(effects):
        if not trace.is_unknown(args[i]):
            raise ValueError(
                f"{prim} with unknown operands writes to a reference of type {aval_of(args[i])} whose value is known: make the "
                f"reference an argument of the differentiated function"
            )
    return trace.record_unknown(prim, args, params)


pe.partial_eval_rules[mpmd_map_p] = functools.partial(partial_eval_mpmd_map, mpmd_map_p)


# -- derivatives --------------------------------------------------------------------------------------------


def refuse_derivative(name: str, tangents: Sequence[Any]) -> None:
    """Raises NotImplementedError if anything is differentiated."""
    if any(type(t) is not ad.Zero for t in tangents):
        raise NotImplementedError(
            f"{name} has no derivative: its functions run at the same time and write to shared references. Give the function that calls "
            f"it one with xlab.custom_jvp or xlab.custom_vjp, or keep its operands out: arrays with xlab.lax.stop_gradient, references with "
            f"xlab.new_ref(x, kind='no_grad_no_remat')"
        )


def _mpmd_map_jvp(primals, tangents, **params):
    refuse_derivative("mpmd_map", tangents)
    outs = mpmd_map_p.bind(*primals, **params)
    return outs, [ad.Zero.of(x) for x in outs]


ad.primitive_jvps[mpmd_map_p] = _mpmd_map_jvp
ad.primitive_transposes.excuse(mpmd_map_p, "it has no derivative and is never linear")


# -- on values ----------------------------------------------------------------------------------------------


def _written(params: Mapping[str, Any], n: int) -> set[int]:
    """The operands that some function writes."""
    return {i for j in params["jaxprs"] for i in _effects.written(j.effects) if 0 <= i < n}


@functools.lru_cache(maxsize=256)
def _discharged(params: tuple, ref_mask: tuple[bool, ...]) -> tuple[dict, tuple[int, ...]]:
    """The parameters with references among the operands as arrays, and the operands whose last values are further results.

    Each written reference becomes an array operand that the kernel does not look at, and an output that starts as it and takes
    its place in the kernel.
    """
    new = dict(params)
    n_in, n_out = len(ref_mask), len(new["out_avals"])
    written = tuple(i for i in sorted(_written(new, n_in)) if ref_mask[i])

    def changed(closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        names = jaxpr.debug_info.arg_names
        invars, outputs = list(jaxpr.invars), [jaxpr.invars[i] for i in written]
        for i in written:
            invars[i] = Var(invars[i].aval)
        first = n_in + n_out
        info = jaxpr.debug_info
        return ClosedJaxpr(
            jaxpr.replace(
                invars=[*invars[:first], *outputs, *invars[first:]],
                debug_info=type(info)(
                    info.name,
                    (*names[:first], *(names[i] for i in written), *names[first:]),
                    (),
                    info.position,
                ),
            )
        )

    avals = new["jaxprs"][0].in_avals
    new["jaxprs"] = tuple(map(changed, new["jaxprs"]))
    new["out_avals"] = (*new["out_avals"], *(avals[i].inner_aval for i in written))
    new["input_output_aliases"] = (
        *new["input_output_aliases"],
        *((i, n_out + k) for k, i in enumerate(written)),
    )
    return new, written


caches.register(_discharged.cache_clear)


def bind_on_values(
    values: Sequence[Any], ref_mask: Sequence[bool], params: Mapping[str, Any]
) -> tuple[dict[int, Any], list]:
    """Binds the primitive on the values of references; returns the new ones by operand, and the results."""
    new, written = _discharged(tuple(params.items()), tuple(ref_mask))
    outs = mpmd_map_p.bind(*values, **new)
    n = len(params["out_avals"])
    return dict(zip(written, outs[n:])), list(outs[:n])


discharge_rules[mpmd_map_p] = lambda eqn, ref_mask, operands: bind_on_values(
    operands, ref_mask, eqn.params
)


# -- batches ------------------------------------------------------------------------------------------------


def batch_mpmd_map(axis, operands, dims, **params):
    """One example after the other; references are read before, and written with what the examples leave in them."""
    n = len(operands)
    if all(d is None for d in dims):
        return mpmd_map_p.bind(*operands, **params), [None] * len(params["out_avals"])
    for i in range(n - params["num_captured"], n):
        if dims[i] is not None and not is_ref(operands[i]):
            raise ValueError(
                f"a number of type {aval_of(operands[i])} that a kernel closes over cannot be batched: pass it as "
                f"an input instead"
            )
    ref_mask = [is_ref(x) for x in operands]
    written = _written(params, n)
    for i in written:
        if ref_mask[i] and dims[i] is None and axis.size > 1:
            raise unbatched("a set/swap", operands[i])
    values = [get_p.bind(x, tree=_WHOLE) if r else x for x, r in zip(operands, ref_mask)]
    batched = [
        batching.move_batch_dim_to(x, d, axis.size, 0)
        for x, d in zip(values, dims)
        if d is not None
    ]

    def example(parts):
        given = iter(parts)
        one = [x if d is None else next(given) for x, d in zip(values, dims)]
        updates, outs = bind_on_values(one, ref_mask, params)
        return outs, [updates[i] for i in sorted(updates)]

    if axis.size == 1:
        outs, finals = example([squeeze(x, (0,)) for x in batched])
        outs, finals = (
            [expand_dims(x, (0,)) for x in outs],
            [expand_dims(x, (0,)) for x in finals],
        )
    else:
        _, (outs, finals) = scan(lambda _, parts: ((), example(parts)), (), batched)
    for i, x in zip(sorted(i for i in written if ref_mask[i]), finals):
        d = dims[i]
        x = squeeze(x, (0,)) if d is None else batching.move_batch_dim_to(x, 0, axis.size, d)
        swap_p.bind(operands[i], x, tree=_WHOLE)
    return outs, [0] * len(outs)


batching.axis_primitive_batchers[mpmd_map_p] = batch_mpmd_map


# -- lowering -----------------------------------------------------------------------------------------------


def _mpmd_map_lowering(ctx, *args, **params):
    name = params["name"] or params["jaxprs"][0].jaxpr.debug_info.name
    if params["external_meshes"]:
        raise NotImplementedError(
            f"the mpmd_map of {name} has memory of external meshes, on which no function runs: "
            f"{', '.join(map(str, params['external_meshes']))}. Give each of them a function, or tie the memory to a mesh that has one."
        )

    def for_rule(params: dict[str, Any]) -> dict[str, Any]:
        return as_kernel_call(params, len(args), name)

    return lower_kernel(ctx, mpmd_map_p, name, args, params, mpmd_on_values, for_rule)


def as_kernel_call(params: Mapping[str, Any], num_operands: int, name: str) -> dict[str, Any]:
    """The parameters of the `kernel_call` over the grid of the mesh that is the same, for the rule of a platform.

    Raises:
        NotImplementedError: there are several pairs.
    """
    pairs = pairs_of(params, num_operands)
    if len(pairs) > 1:
        raise NotImplementedError(
            f"multiple mesh/function pairs are not currently supported on this platform: the mpmd_map of {name} has "
            f"{len(pairs)}. Interpreted they run, with interpret=True."
        )
    (pair,) = pairs
    shared = (
        "out_avals",
        "input_output_aliases",
        "interpret",
        "debug",
        "cost_estimate",
        "metadata",
    )
    return {
        **{n: params[n] for n in shared},
        "jaxpr": pair.jaxpr,
        "grid_mapping": pair.grid_mapping,
        "mesh": pair.mesh,
        "compiler_params": with_hints_of(params["compiler_params"], pair.mesh),
        "alias_mode": "copy",
        "name": name,
    }


def with_hints_of(compiler_params: Any, mesh: Any) -> Any:
    """Parameters for a compiler with what a mesh says about its axes and its kind of kernel, where they have room for it."""
    given = given_params(compiler_params)
    if not dataclasses.is_dataclass(given) or isinstance(given, type):
        return compiler_params
    fields = {f.name for f in dataclasses.fields(given)}
    hints = {n: getattr(mesh, n, None) for n in ("dimension_semantics", "kernel_type")}
    changes = {n: x for n, x in hints.items() if x is not None and n in fields}
    return (
        checked_compiler_params(dataclasses.replace(given, **changes))
        if changes
        else compiler_params
    )


mlir.register_text_lowering(mpmd_map_p, _mpmd_map_lowering)
mlir.single_platform_primitives.add(mpmd_map_p)


# -- cost ---------------------------------------------------------------------------------------------------


def _cost(ins, outs, *, meshes, jaxprs, cost_estimate, **_):
    """What its caller states, else that of each function on every core of its mesh."""
    pairs = zip(meshes, jaxprs)
    each = (jaxpr_cost(j.jaxpr).times(math.prod(m.shape.values())) for m, j in pairs)
    return cost_estimate or sum(each, NOTHING)


register_cost_rule(mpmd_map_p, _cost)
