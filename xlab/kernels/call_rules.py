"""How kernel calls are differentiated, batched, and freed of references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, inner_jaxprs
from xlab.core.refs import AbstractRef, is_ref
from xlab.interpreters import ad, batching
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_rules
from xlab.interpreters.ref_flow import unknown_variables
from xlab.kernels.blocks import Blocked, BlockMapping, BoundedSlice, squeezed
from xlab.kernels.call_primitive import kernel_call_p
from xlab.kernels.grid import GridMapping
from xlab.kernels.memory import ANY
from xlab.lax.control.common import reorder
from xlab.lax.control.scan import scan
from xlab.lax.shape import expand_dims, squeeze
from xlab.lax.slicing import index_in_dim

# -- derivatives ------------------------------------------------------------------------------------------


def _jvp(primals, tangents, **params):
    grid: GridMapping = params["grid_mapping"]
    _check_differentiable(params, grid)
    jaxpr: ClosedJaxpr = params["jaxpr"]
    nonzero = [type(t) is not ad.Zero for t in tangents]
    # What a kernel writes needs a place for its tangent: outputs, scratch, and inputs that it writes.
    written = _effects.written(jaxpr.effects)
    n_given = len(primals)
    has = [
        nz or (i in written and _moves(a)) for i, (a, nz) in enumerate(zip(jaxpr.in_avals, nonzero))
    ]
    has += [_moves(a) for a in jaxpr.in_avals[n_given:]]
    new, _ = ad.jvp_jaxpr(jaxpr, has, False)
    n = len(jaxpr.in_avals)
    place = dict(zip([i for i, h in enumerate(has) if h], range(n, len(new.in_avals))))

    def doubled(part: slice) -> list[int]:
        here = range(n)[part]
        return [*here, *(place[i] for i in here if has[i])]

    parts = (grid.captured_refs, grid.input_refs, grid.output_refs, grid.scratch_refs)
    order = [i for part in parts for i in doubled(part)]
    kernel = reorder(new, order)
    ins, outs, scratch = map(doubled, parts[1:])
    captured = grid.num_captured
    mappings = [grid.block_mappings[i - captured] if i < n else None for i in (*ins, *outs)]
    tangent_of = {j: i for i, j in place.items()}
    mappings = [
        m or _tangent_mapping(grid.block_mappings[tangent_of[i] - captured])
        for m, i in zip(mappings, (*ins, *outs))
    ]
    changed = replace(
        grid,
        block_mappings=tuple(mappings),
        scratch_avals=tuple(new.in_avals[i] for i in scratch),
        num_captured=len(doubled(parts[0])),
        num_inputs=len(ins),
        num_outputs=len(outs),
    )
    given = [*primals, *[None] * (n - n_given)]
    dots = {place[i]: _tangent(t, p) for i, (t, p) in enumerate(zip(tangents, primals)) if has[i]}
    operands = [given[i] if i < n else dots[i] for i in (*doubled(parts[0]), *ins)]
    out_avals = params["out_avals"]
    first = grid.output_refs.start
    out_types = [
        out_avals[i - first] if i < n else out_avals[tangent_of[i] - first].to_tangent_aval()
        for i in outs
    ]
    cost = params["cost_estimate"]
    results = kernel_call_p.bind(
        *operands,
        **{
            **params,
            "jaxpr": kernel,
            "grid_mapping": changed,
            "out_avals": tuple(out_types),
            "cost_estimate": cost and cost.times(2),
        },
    )
    n_out = grid.num_outputs
    given_dots = iter(results[n_out:])
    return results[:n_out], [
        next(given_dots) if has[first + i] else ad.Zero.of(x) for i, x in enumerate(results[:n_out])
    ]


def _check_differentiable(params, grid: GridMapping) -> None:
    reasons = (
        (grid.num_dynamic, "its grid has sizes that are known only at run time"),
        (grid.num_prefetch, "it has prefetched scalars"),
        (params["input_output_aliases"], "it has input_output_aliases"),
        (params["mesh"] is not None, "it runs on a mesh of cores"),
    )
    for holds, reason in reasons:
        if holds:
            raise NotImplementedError(
                f"the kernel call of {params['name']} cannot be differentiated: {reason}. Give it a derivative with "
                f"xlab.custom_jvp or xlab.custom_vjp"
            )


def _moves(aval: AbstractRef) -> bool:
    """Whether values of a reference have tangents."""
    return aval.to_tangent_aval().dtype != dtypes.float0


def _tangent(t, primal):
    if type(t) is not ad.Zero:
        return t
    return ad.zeros_like_aval(aval_of(primal).to_tangent_aval())


def _tangent_mapping(m: BlockMapping) -> BlockMapping:
    return replace(
        m,
        array_aval=m.array_aval.to_tangent_aval(),
        block_aval=m.block_aval.to_tangent_aval(),
        origin=f"tangent of {m.origin}",
    )


def _transpose(cts, *operands, **params):
    raise NotImplementedError(
        f"the kernel call of {params['name']} has no reverse-mode derivative: a kernel runs forwards only. Give it one with "
        f"xlab.custom_vjp, whose forward and backward functions may be kernel calls; forward mode works (jvp, jacfwd)"
    )


def _partial_eval(trace, args, **params):
    """Outputs that do not depend on unknown operands are computed now; the recorded call computes them once more."""
    grid: GridMapping = params["grid_mapping"]
    jaxpr = params["jaxpr"].jaxpr
    unknown = [trace.is_unknown(x) for x in args]
    recorded = trace.record_unknown(kernel_call_p, args, params)
    first = grid.prefetch_operands.start
    if any(unknown[: grid.input_operands.start]) or any(map(is_ref, args)):
        return recorded
    waiting = _reached(params, unknown[first:])
    outs = jaxpr.invars[grid.output_refs]
    known_out = [v not in waiting for v in outs]
    if not any(known_out):
        return recorded
    known = _known_kernel(jaxpr, waiting)
    used = {v for e in known.eqns for v in e.invars if type(v) is Var}
    kept = [v in used or v not in waiting for v in jaxpr.invars]
    known = ClosedJaxpr(known.replace(invars=[v for v, k in zip(jaxpr.invars, kept) if k]))
    dropped = _without(params, kept, known)
    operands = [*args[:first]]
    for x, k in zip(args[first:], kept):
        if k:
            operands.append(ad.zeros_like_aval(aval_of(x)) if trace.is_unknown(x) else x)
    found = trace.run_known(kernel_call_p.bind, *operands, **dropped)
    found = iter([x for x, k in zip(_spread(found, kept[grid.output_refs]), known_out) if k])
    return [next(found) if k else x for x, k in zip(recorded, known_out)]


def _reached(params, given: Sequence[bool]) -> set[Var]:
    """The variables of a kernel, references among them, that depend on given operands (captured, prefetched, inputs)."""
    grid: GridMapping = params["grid_mapping"]
    jaxpr = params["jaxpr"].jaxpr
    shared = params["alias_mode"] == "shared"
    reached = [*given, *[False] * (grid.num_outputs + grid.num_scratch)]
    while True:
        for i, o in params["input_output_aliases"]:
            start, end = grid.prefetch_refs.start + i, grid.output_refs.start + o
            reached[end] |= reached[start]
            reached[start] |= reached[end] and shared
        variables = unknown_variables(jaxpr, reached)
        now = [v in variables for v in jaxpr.invars]
        if now == reached:
            return variables
        reached = now


def _spread(values, kept):
    values = iter(values)
    return [next(values) if k else None for k in kept]


def _known_kernel(jaxpr: Jaxpr, waiting: set) -> Jaxpr:
    """The kernel without equations of which all that they make or write waits."""

    def waits(eqn):
        written = [eqn.invars[i] for i in _effects.written(eqn.effects)]
        made = [*written, *eqn.outvars]
        return any(v in waiting for v in eqn.invars if type(v) is Var) and all(
            v in waiting for v in made
        )

    return pe.dce_jaxpr_eqns(jaxpr.replace(eqns=[e for e in jaxpr.eqns if not waits(e)]))


def _without(params, kept, jaxpr: ClosedJaxpr) -> dict:
    """The parameters of a call whose kernel has lost some references."""
    grid: GridMapping = params["grid_mapping"]
    inputs, outputs, scratch = (
        kept[p] for p in (grid.input_refs, grid.output_refs, grid.scratch_refs)
    )
    number = np.cumsum([*kept[grid.prefetch_refs], *inputs]) - 1
    out_number = np.cumsum(outputs) - 1
    return {
        **params,
        "jaxpr": jaxpr,
        "grid_mapping": replace(
            grid,
            block_mappings=tuple(m for m, k in zip(grid.block_mappings, [*inputs, *outputs]) if k),
            scratch_avals=tuple(a for a, k in zip(grid.scratch_avals, scratch) if k),
            num_inputs=sum(inputs),
            num_outputs=sum(outputs),
        ),
        "input_output_aliases": tuple(
            (int(number[i]), int(out_number[o]))
            for i, o in params["input_output_aliases"]
            if outputs[o]
        ),
        "out_avals": tuple(a for a, k in zip(params["out_avals"], outputs) if k),
    }


ad.primitive_jvps[kernel_call_p] = _jvp
ad.primitive_transposes[kernel_call_p] = _transpose
pe.partial_eval_rules[kernel_call_p] = _partial_eval

# -- batching ---------------------------------------------------------------------------------------------


def _batch(axis, operands, dims, **params):
    grid: GridMapping = params["grid_mapping"]
    name = params["name"]
    if params["mesh"] is not None:
        raise NotImplementedError(
            f"the kernel call of {name} runs on a mesh of cores and cannot be batched: map over its arguments with xlab.lax.map"
        )
    if axis.name is not None and _uses_axis(params["jaxpr"].jaxpr, axis.name):
        raise NotImplementedError(
            f"the kernel of {name} uses the axis {axis.name!r} of a vmap around it, which blocks have no part in: pass what it needs "
            f"as an argument, such as xlab.lax.axis_index({axis.name!r})"
        )
    if all(d is None for d in dims):
        return kernel_call_p.bind(*operands, **params), [None] * grid.num_outputs
    _check_unbatched_refs(params, operands, dims)
    if any(d is not None for d in dims[grid.num_captured : grid.input_operands.start]):
        return _one_by_one(axis, operands, dims, params)
    # An output that no mapped operand reaches is the same for all examples.
    mapped = [d is not None for d in dims]
    reached = _reached(
        params, [*mapped[grid.captured_operands], *mapped[grid.prefetch_operands.start :]]
    )
    differs = [v in reached for v in params["jaxpr"].jaxpr.invars[grid.output_refs]]
    out_dims = [0 if d else None for d in differs]
    if axis.size == 1 and not any(map(is_ref, operands)):
        single = [x if d is None else squeeze(x, (d,)) for x, d in zip(operands, dims)]
        outs = kernel_call_p.bind(*single, **params)
        return [expand_dims(x, (0,)) if d else x for x, d in zip(outs, differs)], out_dims
    params, operands, dims = _captured_as_inputs(params, list(operands), list(dims))
    grid = params["grid_mapping"]
    first, inputs = grid.prefetch_operands.start, grid.input_operands
    written = _effects.written(params["jaxpr"].effects)
    # An output is batched at 0; what it starts as is so too. An input that is written changes for each example alone.
    at_front = {first + i for i, _ in params["input_output_aliases"]}
    changes = {
        inputs.start + i - grid.input_refs.start for i in written if i >= grid.input_refs.start
    }
    for i in range(inputs.start, inputs.stop):
        if not is_ref(operands[i]):
            if i in at_front or (i in changes and dims[i] is None):
                operands[i] = batching.move_batch_dim_to(operands[i], dims[i], axis.size, 0)
                dims[i] = 0
    where = [*dims[inputs], *[0] * grid.num_outputs]
    new_grid = replace(
        grid,
        grid=(axis.size, *grid.grid),
        grid_names=None if grid.grid_names is None else (None, *grid.grid_names),
        vmapped_dims=(0, *(d + 1 for d in grid.vmapped_dims)),
        block_mappings=tuple(
            _batched_mapping(m, d, axis.size) for m, d in zip(grid.block_mappings, where)
        ),
    )
    cost = params["cost_estimate"]
    outs = kernel_call_p.bind(
        *operands,
        **{
            **params,
            "grid_mapping": new_grid,
            "out_avals": tuple(_wider(a, 0, axis.size) for a in params["out_avals"]),
            "cost_estimate": cost and cost.times(axis.size),
        },
    )
    return [x if d else index_in_dim(x, 0, keepdims=False) for x, d in zip(outs, differs)], out_dims


def _uses_axis(jaxpr: Jaxpr, name: Any) -> bool:
    """Whether an operation in a kernel is about a named axis."""
    for eqn in jaxpr.eqns:
        named = eqn.params.get("axis_name", eqn.params.get("axes"))
        if named == name or (isinstance(named, tuple) and name in named):
            return True
        if any(_uses_axis(inner, name) for inner in inner_jaxprs(eqn.params)):
            return True
    return False


def _wider(aval: ShapedArray, dim: int, size: int) -> ShapedArray:
    return aval.update(shape=(*aval.shape[:dim], size, *aval.shape[dim:]))


def _batched_mapping(m: BlockMapping, dim: int | None, size: int) -> BlockMapping:
    """The block mapping of an operand with a batch dimension at `dim`, over a grid with the examples in front."""
    jaxpr = m.index_map.jaxpr
    example = Var(ShapedArray((), np.dtype(np.int32)))
    outs = list(jaxpr.outvars)
    if dim is not None:
        before = sum(2 if type(d) is BoundedSlice else 1 for d in m.block_shape[:dim])
        outs.insert(before, example)
    index_map = ClosedJaxpr(
        jaxpr.replace(invars=[example, *jaxpr.invars], outvars=outs), m.index_map.consts
    )
    if dim is None:
        return replace(m, index_map=index_map)
    return replace(
        m,
        block_shape=(*m.block_shape[:dim], squeezed, *m.block_shape[dim:]),
        array_aval=_wider(m.array_aval, dim, size),
        index_map=index_map,
    )


def _check_unbatched_refs(params, operands, dims) -> None:
    grid = params["grid_mapping"]
    for i in _effects.written(params["jaxpr"].effects):
        at = i if i < grid.num_captured else i - grid.num_captured + grid.prefetch_operands.start
        if at < len(operands) and is_ref(operands[at]) and dims[at] is None:
            raise ValueError(
                f"under vmap the kernel of {params['name']} writes to the reference {aval_of(operands[at])}, which is unbatched: "
                f"the examples would write over one another. Move it to an argument of the mapped function, so that each example "
                f"has its own"
            )


def _captured_as_inputs(params, operands, dims):
    """Captured references that are batched become inputs, of which each example is a block."""
    grid: GridMapping = params["grid_mapping"]
    n = grid.num_captured
    moved = [i for i in range(n) if dims[i] is not None]
    if not moved:
        return params, operands, dims
    kept = [i for i in range(n) if dims[i] is None]
    jaxpr = params["jaxpr"]
    rest = range(grid.input_operands.start, len(operands))
    between = range(n, grid.input_operands.start)
    order = [
        *kept,
        *grid_range(grid.prefetch_refs),
        *moved,
        *range(grid.input_refs.start, len(jaxpr.in_avals)),
    ]
    avals = [jaxpr.in_avals[i] for i in moved]
    rank = len(grid.grid)
    mappings = [whole_mapping(a, rank, grid, f"captured[{i}]") for i, a in zip(moved, avals)]
    k = grid.num_prefetch
    operand_order = [*kept, *between, *moved, *rest]
    return (
        {
            **params,
            "jaxpr": reorder(jaxpr, order),
            "grid_mapping": replace(
                grid,
                num_captured=len(kept),
                num_inputs=grid.num_inputs + len(moved),
                block_mappings=(*mappings, *grid.block_mappings),
            ),
            "input_output_aliases": tuple(
                (i if i < k else i + len(moved), o) for i, o in params["input_output_aliases"]
            ),
        },
        [operands[i] for i in operand_order],
        [dims[i] for i in operand_order],
    )


def grid_range(part: slice) -> range:
    return range(part.start, part.stop)


def whole_mapping(aval: AbstractRef, rank: int, grid: GridMapping, origin: str) -> BlockMapping:
    """Every step sees the whole array."""
    scalar = ShapedArray((), np.dtype(np.int32))
    prefetch = grid.block_mappings[0].index_map.in_avals[rank:] if grid.block_mappings else []
    zeros = [Literal(np.int32(0), scalar) for _ in aval.shape]
    index_map = ClosedJaxpr(
        Jaxpr([], [*(Var(scalar) for _ in range(rank)), *map(Var, prefetch)], zeros, [])
    )
    block = AbstractRef(aval.inner_aval, ANY if aval.memory_space is None else aval.memory_space)
    return BlockMapping(
        tuple(Blocked(n) for n in aval.shape), block, index_map, aval.inner_aval, origin
    )


def _one_by_one(axis, operands, dims, params):
    """Examples differ in prefetched scalars or in the size of the grid: a loop over them."""
    batched = [d is not None for d in dims]
    if any(b and is_ref(x) for x, b in zip(operands, batched)):
        raise NotImplementedError(
            f"under vmap the kernel call of {params['name']} has batched references, and prefetched scalars or grid sizes that differ "
            f"between examples: map over its arguments with xlab.lax.map"
        )
    moving = [batching.moveaxis(x, d, 0) for x, d in zip(operands, dims) if d is not None]

    def example(_, xs):
        given = iter(xs)
        one = [next(given) if b else x for x, b in zip(operands, batched)]
        return (), kernel_call_p.bind(*one, **params)

    _, outs = scan(example, (), moving)
    return outs, [0] * len(outs)


batching.axis_primitive_batchers[kernel_call_p] = _batch

# -- references -------------------------------------------------------------------------------------------


def _discharge(eqn, ref_mask, operands):
    """Each operand that is a reference becomes an input with an output aliased to it, which the kernel reads and writes."""
    params = eqn.params
    grid: GridMapping = params["grid_mapping"]
    jaxpr: ClosedJaxpr = params["jaxpr"]
    n, p = grid.num_captured, grid.num_prefetch
    inputs = [i for i, is_one in enumerate(ref_mask[grid.input_operands]) if is_one]
    rank = len(grid.grid)
    captured = [jaxpr.in_avals[i] for i in range(n)]
    mappings = [whole_mapping(a, rank, grid, f"captured[{i}]") for i, a in enumerate(captured)]
    # Kernel: prefetched, captured (not read), inputs, captured outputs, outputs of inputs, outputs, scratch.
    first_in, first_out = grid.input_refs.start, grid.output_refs.start
    own = jaxpr.jaxpr.invars
    ins = list(own[grid.input_refs])
    for i in inputs:
        ins[i] = Var(own[first_in + i].aval)
    new = ClosedJaxpr(
        jaxpr.jaxpr.replace(
            invars=[
                *own[grid.prefetch_refs],
                *(Var(a) for a in captured),
                *ins,
                *own[:n],
                *(own[first_in + i] for i in inputs),
                *own[first_out:],
            ]
        ),
        jaxpr.consts,
    )
    added = n + len(inputs)
    aliases = [(p + i, i) for i in range(n)]
    aliases += [(p + n + i, n + k) for k, i in enumerate(inputs)]
    aliases += [(i if i < p else i + n, o + added) for i, o in params["input_output_aliases"]]
    changed = replace(
        grid,
        num_captured=0,
        num_inputs=grid.num_inputs + n,
        num_outputs=grid.num_outputs + added,
        block_mappings=(
            *mappings,
            *grid.input_mappings,
            *mappings,
            *(grid.input_mappings[i] for i in inputs),
            *grid.output_mappings,
        ),
    )
    types = [m.array_aval for m in (*mappings, *(grid.input_mappings[i] for i in inputs))]
    outs = kernel_call_p.bind(
        *operands[n : grid.input_operands.start],
        *operands[:n],
        *operands[grid.input_operands],
        **{
            **params,
            "jaxpr": new,
            "grid_mapping": changed,
            "input_output_aliases": tuple(sorted(aliases)),
            "out_avals": (*types, *params["out_avals"]),
        },
    )
    places = [*range(n), *(grid.input_operands.start + i for i in inputs)]
    written = _effects.written(eqn.effects)
    return {i: x for i, x in zip(places, outs) if i in written}, outs[added:]


discharge_rules[kernel_call_p] = _discharge
