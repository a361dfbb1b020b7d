"""The primitive of `shard_map`: its types, derivatives, batching, and lowering to one manual region."""

from __future__ import annotations

import functools
import math

import numpy as np

from xlab.compile.devices import sharding_sources
from xlab.compile.dispatch import apply_primitive
from xlab.core import effects as _effects
from xlab.core.avals import TOKEN, ShapedArray, aval_of
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.errors import ShardingTypeError
from xlab.interpreters import ad, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import AlignedParams, Split, define_call, split_call
from xlab.lax.arithmetic import div
from xlab.lax.collectives import casts
from xlab.lax.collectives.one_sided import warn_unreceived
from xlab.lax.collectives.psum import bind_psum_invariant, psum_p
from xlab.lax.shape import broadcast_in_dim, squeeze
from xlab.parallel.manual import body_context, global_aval, unmentioned
from xlab.sharding import Mesh, NamedSharding, PartitionSpec

_WHOLE = PartitionSpec()

shard_map_p = Primitive("shard_map")


def _shard_map_aval(*avals, jaxpr, mesh, in_specs, out_specs, check_vma, newly_manual_axes):
    outer = frozenset().union(*(a.mat.varying for a in avals if isinstance(a, ShapedArray)))
    outs = [
        global_aval(v.aval, mesh, s, newly_manual_axes, check_vma, outer)
        for v, s in zip(jaxpr.outvars, out_specs)
    ]
    return outs, _effects.without_axes(jaxpr.effects, newly_manual_axes)


def body_of(params):
    """The context of the body of an equation."""
    return body_context(params["mesh"], params["newly_manual_axes"], params["check_vma"])


# Residuals: values of the known part that the unknown part needs. Each device keeps its own, so they leave with a dimension that
# is sharded over every axis they vary on.


def _residual_spec(aval, params) -> PartitionSpec:
    names = params["newly_manual_axes"]
    axes = tuple(
        n
        for n in params["mesh"].axis_names
        if n in names and (not params["check_vma"] or n in aval.mat.varying)
    )
    return PartitionSpec(
        *(axes,) if axes else (),
        unreduced=aval.mat.unreduced & names,
        reduced=aval.mat.reduced & names,
    )


def _split(closed, unknown, params):
    """Residuals that leave the known part get the dimension of their spec, which scalars have not."""
    known, rest, unknown_out, residuals, forwarded = split_call(closed, unknown, params)
    widened = [
        f is None and not a.shape and bool(len(_residual_spec(a, params)))
        for a, f in zip(residuals, forwarded)
    ]
    if not any(widened):
        return Split(known, rest, unknown_out, residuals, forwarded)
    n_known = len(unknown_out) - sum(unknown_out)
    leaving = [w for w, f in zip(widened, forwarded) if f is None]
    wide = [a.update(shape=(1,)) if w else a for a, w in zip(residuals, widened)]

    def run_known(*args):
        outs = eval_jaxpr(known.jaxpr, known.consts, *args)
        return [
            *outs[:n_known],
            *(broadcast_in_dim(x, (1,), ()) if w else x for x, w in zip(outs[n_known:], leaving)),
        ]

    def run_unknown(*args):
        narrow = [squeeze(x, (0,)) if w else x for x, w in zip(args, widened)]
        return eval_jaxpr(rest.jaxpr, rest.consts, *narrow, *args[len(wide) :])

    return Split(
        pe.trace_to_closed_jaxpr(run_known, known.in_avals, closed.debug_info),
        pe.trace_to_closed_jaxpr(
            run_unknown, [*wide, *rest.in_avals[len(wide) :]], closed.debug_info
        ),
        unknown_out,
        wide,
        forwarded,
    )


def _same_over(mesh, spec, names):
    """The axes over which a value of this spec and its cotangent are replicated."""
    return tuple(
        n
        for n in unmentioned(mesh, spec, names)
        if n not in spec.unreduced and n not in spec.reduced
    )


def _shared_out(ct, mesh, axes):
    n = int(np.prod([mesh.shape[a] for a in axes], dtype=np.int64))
    return ct if n == 1 else div(ct, np.asarray(n).astype(aval_of(ct).dtype)[()])


def _transposed(closed, linear, nonzero, refs, params):
    mesh, names, check = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    jaxpr, found = closed.jaxpr, {}
    values_in = [a for a, lin in zip(closed.in_avals, linear) if not lin]
    ct_types = [
        (a.to_tangent_aval(), s) for a, s, nz in zip(closed.out_avals, out_specs, nonzero) if nz
    ]
    cts_in = [
        a.update(mat=a.mat.transposed().update(varying=a.mat.varying | set(s.axes())))
        if check
        else a
        for a, s in ct_types
    ]

    def run(*args):
        values, cts = iter(args[: len(values_in)]), iter(args[len(values_in) :])
        primals = [
            ad.UndefinedPrimal(a) if lin else next(values)
            for a, lin in zip(closed.in_avals, linear)
        ]
        cotangents = [
            arriving(next(cts), a, s) if nz else ad.Zero(a.to_tangent_aval().to_ct_aval())
            for a, s, nz in zip(closed.out_avals, out_specs, nonzero)
        ]
        out = ad.backward_pass(jaxpr, (), ad.collecting(primals, refs), cotangents)
        leaving_cts = [
            leaving(ct, a, s)
            for ct, a, s, lin in zip(out, closed.in_avals, in_specs, linear)
            if lin
        ]
        found["nonzero"] = ad.nonzero_mask(leaving_cts)
        return ad.drop_zeros(leaving_cts)

    def arriving(ct, aval, spec):
        """The cotangent of a result that is replicated but was concatenated: the sum of the parts' cotangents."""
        if not check:  # every device receives the cotangent of a replicated result, and `leaving` adds them up again
            return _shared_out(ct, mesh, _same_over(mesh, spec, names))
        extra = tuple(n for n in mesh.axis_names if n in aval_of(ct).mat.varying - aval.mat.varying)
        return bind_psum_invariant(ct, extra) if extra else ct

    def leaving(ct, aval, spec):
        if type(ct) is ad.Zero:
            return ct
        if not check:
            over = _same_over(mesh, spec, names)
            return psum_p.bind(ct, axes=over, axis_index_groups=None) if over else ct
        want = aval.mat.transposed()
        extra = tuple(
            n
            for n in mesh.axis_names
            if n in (aval_of(ct).mat.varying - want.varying - want.unreduced) & names
        )
        return casts.match(bind_psum_invariant(ct, extra) if extra else ct, want)

    return pe.trace_to_closed_jaxpr(run, [*values_in, *cts_in], jaxpr.debug_info), found["nonzero"]


def _over(axis, params) -> tuple:
    """The mesh axes over which a batch is sharded and that become Manual in the body."""
    return tuple(a for a in axis.spmd if a in params["newly_manual_axes"])


def _batch_axis(axis, params):
    mesh, over = params["mesh"], _over(axis, params)
    taken = [
        a
        for a in (axis.explicit_mesh_axes[1] if axis.explicit_mesh_axes else ())
        if a in params["newly_manual_axes"]
    ]
    if taken:
        raise ShardingTypeError(
            f"vmap of a shard_map over the axes {sorted(map(str, params['newly_manual_axes']))}: the mapped dimension is "
            f"itself sharded along {taken}. Bring it to one piece with xlab.reshard, or name axis_names without it."
        )
    if not over:
        return axis
    if any(set(over) & set(s.axes()) for s in params["in_specs"]):
        raise ValueError(
            f"vmap spmd_axis_name cannot appear in shard_map in_specs: the examples are laid over {over}, and the specs "
            f"are {params['in_specs']}"
        )
    count = math.prod(mesh.shape[a] for a in over)
    if axis.size % count:
        raise ValueError(
            f"vmap with spmd_axis_name={over} of a shard_map needs a number of examples that {count} divides, the size of "
            f"those mesh axes, got {axis.size}"
        )
    return axis._replace(size=axis.size // count, spmd=over)


def _batched_spec(spec, axis, dim, params):
    over = _over(axis, params)
    if dim >= len(spec) and not over:
        return spec
    partitions = [*spec, *[None] * (dim - len(spec))]
    partitions.insert(dim, axis._replace(spmd=over).spmd_entry)
    return spec.update(partitions=tuple(partitions))


shard_map_call = define_call(
    shard_map_p,
    "jaxpr",
    AlignedParams(
        "in_specs",
        "out_specs",
        added=_WHOLE,
        residual=_residual_spec,
        batched=_batched_spec,
        cotangent=PartitionSpec.transposed,
    ),
    context=body_of,
    split=_split,
    transpose=_transposed,
    batch_axis=_batch_axis,
)
shard_map_p.def_effectful_abstract_eval(_shard_map_aval)
shard_map_p.def_impl(functools.partial(apply_primitive, shard_map_p))


def _shardings_text(ctx, mesh, specs, avals, partial) -> str:
    symbol = ctx.module.meshes.symbol(mesh)
    out = []
    for spec, aval in zip(specs, avals):
        if not isinstance(aval, ShapedArray):
            out.append(f"<@{symbol}, []>")
            continue
        dims = []
        for d in range(mlir.values.physical_aval(aval).ndim):
            axes = [f'"{a}"' for a in spec.axes_of(d)] + (["?"] if partial else [])
            dims.append("{" + ", ".join(axes) + "}")
        sums = ", ".join(f'"{a}"' for a in mesh.axis_names if a in spec.unreduced)
        out.append(f"<@{symbol}, [{', '.join(dims)}]{f', unreduced={{{sums}}}' if sums else ''}>")
    return "[" + ", ".join(out) + "]"


def _shard_map_lowering(ctx, *args, jaxpr, mesh, in_specs, out_specs, check_vma, newly_manual_axes):
    inner = ctx.with_axes(
        mesh,
        (
            *ctx.manual,
            *(n for n in mesh.axis_names if n in newly_manual_axes and n not in ctx.manual),
        ),
    )
    if mesh.size == 1:
        outs = inner.jaxpr(jaxpr, args)
        if not ctx.manual:
            warn_unreceived(ctx)
        return outs
    partial = len(inner.manual) < len(mesh.axis_names)
    tensor = mlir.tensor_type
    ordered = _effects.in_order(jaxpr.effects)
    tokens = [mlir.TOKEN_TYPE] * len(ordered)
    names = [ctx.fresh() for _ in (*ordered, *args)]
    local_in = [*tokens, *(tensor(v.aval) for v in jaxpr.invars)]
    types_in, types_out = (
        [*tokens, *(tensor(a) for a in ctx.avals_in)],
        [*tokens, *(tensor(a) for a in ctx.avals_out)],
    )
    args, ins = [*ctx.tokens(ordered), *args], (*[TOKEN] * len(ordered), *ctx.avals_in)
    outs, in_specs = (
        (*[TOKEN] * len(ordered), *ctx.avals_out),
        (*[_WHOLE] * len(ordered), *in_specs),
    )
    out_specs = (*[_WHOLE] * len(ordered), *out_specs)

    def run(region, given):
        return region.with_tokens(ordered, given, lambda rest: region.jaxpr(jaxpr, rest))

    body = inner.region(
        run, names, "sdy.return", types_out=[*tokens, *(tensor(v.aval) for v in jaxpr.outvars)]
    )
    if not ctx.manual:
        warn_unreceived(ctx)
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, local_in))
    manual = ", ".join(f'"{n}"' for n in mesh.axis_names if n in newly_manual_axes)
    return ctx.take_tokens(
        ordered,
        ctx.ops(
            f"sdy.manual_computation({', '.join(args)}) in_shardings={_shardings_text(ctx, mesh, in_specs, ins, partial)} "
            f"out_shardings={_shardings_text(ctx, mesh, out_specs, outs, partial)} manual_axes={{{manual}}} "
            f"({arguments}) {body} : ({', '.join(types_in)}) -> ({', '.join(types_out)})",
            len(types_out),
        ),
    )


mlir.register_text_lowering(shard_map_p, _shard_map_lowering)


def _shardings_of(eqn) -> list:
    """One sharding for each operand and each result; of a region that has none of these, that of its mesh."""
    mesh = eqn.params["mesh"]
    specs = (*eqn.params["in_specs"], *eqn.params["out_specs"]) or (_WHOLE,)
    return [NamedSharding(mesh, spec) for spec in specs] if isinstance(mesh, Mesh) else []


sharding_sources[shard_map_p] = _shardings_of
