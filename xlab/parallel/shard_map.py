"""`shard_map`: a function written for one device, run on every device of a mesh.

Arguments are sharded by their specs, the body sees one part and the mesh axes by name, and results are put together again. With
`check_vma` the types of the body say over which axes a value varies, which catches wrong `out_specs` and makes gradients exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.compile import divergence
from xlab.compile.devices import sharding_sources
from xlab.compile.dispatch import apply_primitive
from xlab.compile.jit import jit
from xlab.compile.tracing import argument_names, context_key, function_name, made_of
from xlab.core import effects as _effects
from xlab.core.avals import TOKEN, ShapedArray, aval_of
from xlab.core.jaxpr import DebugInfo, eval_jaxpr
from xlab.core.pending import AbstractTodo, at_boundary
from xlab.core.primitive import Primitive
from xlab.core.trace import EVAL, Tracer, state
from xlab.core.typing import MeshLike
from xlab.errors import ShardingTypeError
from xlab.interpreters import ad, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.calls import AlignedParams, Split, define_call, split_call
from xlab.lax.arithmetic import div
from xlab.lax.collectives import casts
from xlab.lax.collectives.one_sided import warn_unreceived
from xlab.lax.collectives.psum import bind_psum_invariant, psum_p
from xlab.lax.collectives.starting import check_awaited
from xlab.lax.shape import broadcast_in_dim, squeeze
from xlab.parallel.manual import (
    body_context,
    check_closed_over,
    check_divisible,
    check_inputs,
    check_mesh,
    check_output,
    check_spec_types,
    check_specs,
    global_aval,
    inferred_specs,
    is_spec,
    local_aval,
    resolve_mesh,
    unmentioned,
)
from xlab.sharding import Mesh, NamedSharding, PartitionSpec

_WHOLE = PartitionSpec()


def shard_map(
    f: Callable | None = None,
    /,
    *,
    mesh: MeshLike | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Callable:
    """Maps a function over the devices of a mesh: `f` sees one device's part of each argument.

    Args:
        f: the function of one device; inside, `lax.psum` and the other collectives speak of mesh axes by name.
        mesh: the devices; by default the one set by `set_mesh`, or inside another `shard_map` its mesh.
        in_specs, out_specs: a `PartitionSpec` per argument and result, or a pytree prefix of them; dimension `d` is sharded (or
            concatenated) along the mesh axes `spec[d]`, and along axes a spec does not name the value is the same everywhere.
        axis_names: the mesh axes that are under manual control, by default all; the compiler handles the others.
        check_vma: follow in the types over which axes a value varies. Without it `out_specs` are taken on trust.

    Returns:
        A function of whole arrays. Without `f`, a decorator.

    Example:
        >>> import xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=xlab.sharding.AxisType.Auto)
        >>> total = xlab.shard_map(lambda x: xlab.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        >>> float(total(xlab.lax.iota("float32", 4)))
        6.0
    """
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(
            f"shard_map requires a callable for its first argument, but got {f!r} of type {type(f).__name__}."
        )
    check_mesh(mesh)
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    check_spec_types("in_specs", in_specs)
    check_spec_types("out_specs", out_specs)
    mapped = Mapped(f, mesh, in_specs, out_specs, axis_names, bool(check_vma))

    how = mesh, in_specs, out_specs, axis_names, bool(check_vma)

    @made_of(f, "staged shard_map", *how)
    @functools.wraps(f)
    def staged(*args):
        return mapped.stage(args)

    whole = jit(staged, name=function_name(f))

    @made_of(f, "shard_map", *how)
    @functools.wraps(f)
    def wrapper(*args):
        if state.trace is EVAL and not state.axes:
            return whole(*args)
        return mapped.stage(args)

    return wrapper


class Mapped:
    """A function, its specs, and the bodies traced so far. `out_specs` may be a function, called when the body has run."""

    def __init__(self, f, mesh, in_specs, out_specs, axis_names, check_vma):
        self.f, self.mesh, self.in_specs, self.out_specs = f, mesh, in_specs, out_specs
        self.axis_names, self.check_vma = axis_names, check_vma
        self.bodies: dict[tuple, Any] = {}

    def stage(self, args):
        flat, in_tree = _tree.flatten((args, {}))
        avals = tuple(map(aval_of, flat))
        key = (in_tree, avals, context_key())
        body = self.bodies.get(key)
        if body is None:
            body = self.trace(args, in_tree, avals)
            if not any(isinstance(c, Tracer) for c in body[1]):
                self.bodies[key] = body
        params, consts, out_tree = body
        return _tree.unflatten(out_tree, shard_map_p.bind(*consts, *flat, **params))

    def trace(self, args, in_tree, avals):
        name = function_name(self.f)
        mesh, names = resolve_mesh(self.mesh, self.axis_names)
        check_specs("in_specs", self.in_specs, mesh, names)
        if not callable(self.out_specs):
            check_specs("out_specs", self.out_specs, mesh, names)
        in_specs = (
            inferred_specs(avals, mesh, names)
            if self.in_specs is None and args
            else _broadcast_specs("shard_map in_specs", self.in_specs, args)
        )
        arg_names = argument_names(self.f, in_tree, len(avals))
        check_inputs(name, avals, in_specs, mesh, arg_names)
        check_divisible(avals, in_specs, mesh, names, arg_names)
        out: dict[str, Any] = {}

        def flat_body(*leaves):
            a, _ = _tree.unflatten(in_tree, leaves)
            result = self.f(*a)
            results, out["tree"] = _tree.flatten(result)
            specs = self.out_specs() if callable(self.out_specs) else self.out_specs
            out["specs"] = _broadcast_specs("shard_map out_specs", specs, result)
            paths = [_tree.keystr(p) for p, _ in _tree.flatten_with_path(result)[0]]
            return [leave(x, s, p) for x, s, p in zip(results, out["specs"], paths)]

        def leave(x, spec, path):
            aval = aval_of(x)
            if type(aval) is AbstractTodo:
                raise at_boundary(aval, x, f"is a result of {name}, which shard_map traces")
            check_output(name, aval, spec, path, mesh, names, self.check_vma)
            return casts.vary(x, tuple(spec.axes())) if self.check_vma else x

        local = [local_aval(a, mesh, s, self.check_vma, names) for a, s in zip(avals, in_specs)]
        with body_context(mesh, names, self.check_vma):
            jaxpr, consts = pe.trace_to_jaxpr(flat_body, local, DebugInfo(name, arg_names))
        check_closed_over(consts)
        divergence.check_body(jaxpr, mesh, in_specs, self.check_vma)
        check_awaited(jaxpr)
        params = {
            "jaxpr": pe.convert_constvars_jaxpr(jaxpr),
            "mesh": mesh,
            "in_specs": (_WHOLE,) * len(consts) + in_specs,
            "out_specs": out["specs"],
            "check_vma": self.check_vma,
            "newly_manual_axes": names,
        }
        return params, consts, out["tree"]


def _broadcast_specs(what, specs, tree) -> tuple:
    flat = _tree.flatten_prefix(what, specs, tree, is_leaf=is_spec)
    values = _tree.leaves(tree, is_leaf=lambda x: x is None)
    if len(values) == len(flat):  # None holds no value, so it has no spec
        flat = [s for s, v in zip(flat, values) if v is not None]
    return tuple(_WHOLE if s is None else s for s in flat)


# -- the primitive ----------------------------------------------------------------------------------------

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
