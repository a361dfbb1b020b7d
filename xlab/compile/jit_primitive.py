"""The primitive of `jit`: a call of a traced program, and what every interpreter makes of it. It is run by `jit.py`."""

from __future__ import annotations

from xlab.compile import executable as _executable
from xlab.compile.arguments import check_outermost
from xlab.compile.devices import sharding_sources
from xlab.compile.mutation import forward_refs
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import closed_call, discharge_rules
from xlab.sharding import NamedSharding, PartitionSpec

jit_p = Primitive("jit", multiple_results=True, joins=False, context_dependent=True)
jit_p.takes_refs = True


@jit_p.def_effectful_abstract_eval
def _jit_aval(*avals, jaxpr, **_):
    return jaxpr.out_avals, jaxpr.effects


def _keep(values, flags):
    return tuple(v for v, f in zip(values, flags) if f)


def _jit_jvp(primals, tangents, *, jaxpr, in_shardings, out_shardings, donated_invars, **params):
    nonzero = [type(t) is not ad.Zero for t in tangents]
    new, nonzero_out = ad.jvp_jaxpr(jaxpr, nonzero, False)
    outs = jit_p.bind(
        *primals, *(t for t in tangents if type(t) is not ad.Zero), jaxpr=new,
        in_shardings=(*in_shardings, *_keep(in_shardings, nonzero)),
        out_shardings=(*out_shardings, *_keep(out_shardings, nonzero_out)),
        donated_invars=(*donated_invars, *_keep(donated_invars, nonzero)), **params)
    n = len(jaxpr.out_avals)
    given = iter(outs[n:])
    out_tangents = [next(given) if nz else ad.Zero(a.to_tangent_aval())
                    for nz, a in zip(nonzero_out, jaxpr.out_avals)]
    return outs[:n], out_tangents


ad.primitive_jvps[jit_p] = _jit_jvp


def _jit_transpose(cts, *operands, jaxpr, in_shardings, out_shardings, donated_invars, **params):
    linear = [ad.is_undefined_primal(x) for x in operands]
    refs, operands = ad.open_cotangents(operands)
    nonzero = [type(ct) is not ad.Zero for ct in cts]
    new, nonzero_out = ad.transpose_jaxpr(jaxpr, linear, nonzero, refs)
    values = [x for x, lin in zip(operands, linear) if not lin]
    n = len(values) + sum(nonzero)
    out_in = [s for s, lin in zip(in_shardings, linear) if lin]
    outs = jit_p.bind(
        *values, *(ct for ct, nz in zip(cts, nonzero) if nz), jaxpr=new,
        in_shardings=(*(s for s, lin in zip(in_shardings, linear) if not lin), *_keep(out_shardings, nonzero)),
        out_shardings=_keep(out_in, nonzero_out), donated_invars=(False,) * n, **params)
    given = iter(outs)
    linear_cts = iter([next(given) if nz else None for nz in nonzero_out])
    return [next(linear_cts) if lin else None for lin in linear]


ad.primitive_transposes[jit_p] = _jit_transpose


def _batched_sharding(sharding, batched, spmd_name):
    if sharding is None or not batched or not isinstance(sharding, NamedSharding):
        return None if not isinstance(sharding, NamedSharding) else sharding
    return NamedSharding(sharding.mesh, PartitionSpec(spmd_name, *sharding.spec), memory_kind=sharding.memory_kind)


def _jit_batch(axis, operands, dims, *, jaxpr, in_shardings, out_shardings, **params):
    operands, batched = batching.in_front(operands, dims)
    new, batched_out = batching.batch_jaxpr(jaxpr, axis, batched, False)
    outs = jit_p.bind(*operands, jaxpr=new,
                      in_shardings=tuple(_batched_sharding(s, b, None) for s, b in zip(in_shardings, batched)),
                      out_shardings=tuple(_batched_sharding(s, b, None) for s, b in zip(out_shardings, batched_out)),
                      **params)
    return outs, [0 if b else None for b in batched_out]


batching.axis_primitive_batchers[jit_p] = _jit_batch


def _jit_partial_eval(trace, args, *, jaxpr, in_shardings, out_shardings, donated_invars, **params):
    unknown = [trace.is_unknown(x) for x in args]
    known_jaxpr, unknown_jaxpr, unknown_out, residual_avals = pe.split_jaxpr(jaxpr, unknown)
    known_args = [x for x, u in zip(args, unknown) if not u]
    known_jaxpr, forwarded = forward_refs(known_jaxpr, len(residual_avals))
    n_res = len(residual_avals) - len(forwarded)
    known_outs = trace.run_known(
        jit_p.bind, *known_args, jaxpr=known_jaxpr,
        in_shardings=tuple(s for s, u in zip(in_shardings, unknown) if not u),
        out_shardings=(*(s for s, u in zip(out_shardings, unknown_out) if not u), *(None,) * n_res),
        donated_invars=(False,) * len(known_args), **params)
    n_known = len(known_outs) - n_res
    residuals = known_outs[n_known:]
    for i, source in sorted(forwarded.items()):
        residuals.insert(i, known_args[source])
    n_res = len(residuals)
    unknown_args = [x for x, u in zip(args, unknown) if u]
    outs = pe.JaxprTrace.process(trace, jit_p, [*residuals, *unknown_args], dict(
        jaxpr=unknown_jaxpr, in_shardings=(*(None,) * n_res, *_keep(in_shardings, unknown)),
        out_shardings=_keep(out_shardings, unknown_out),
        donated_invars=(False,) * (n_res + len(unknown_args)), **params))
    known_iter, unknown_iter = iter(known_outs[:n_known]), iter(outs)
    return [next(unknown_iter) if u else next(known_iter) for u in unknown_out]


pe.partial_eval_rules[jit_p] = _jit_partial_eval
discharge_rules[jit_p] = closed_call("jaxpr", lambda eqn, finals: {
    "out_shardings": (*eqn.params["out_shardings"], *(None,) * len(finals))})


def _jit_dce(used_outputs, eqn):
    used_in, new = pe.dce_closed_call("jaxpr")(used_outputs, eqn)
    if new is None:
        return used_in, None
    params = {**new.params, "in_shardings": _keep(eqn.params["in_shardings"], used_in),
              "out_shardings": _keep(eqn.params["out_shardings"], used_outputs),
              "donated_invars": _keep(eqn.params["donated_invars"], used_in)}
    return used_in, new.replace(params=params)


pe.dce_rules[jit_p] = _jit_dce


def _jit_lowering(ctx, *args, jaxpr, in_shardings, out_shardings, name, compiler_options_kvs=(), **_):
    check_outermost(compiler_options_kvs, name, ctx.eqn.source)
    args = [_constrain(ctx, x, s, a) for x, s, a in zip(args, in_shardings, ctx.avals_in)]
    outs = ctx.call(id(jaxpr), name, jaxpr, args)
    return [_constrain(ctx, x, s, a) for x, s, a in zip(outs, out_shardings, ctx.avals_out)]


def _constrain(ctx, x, sharding, aval):
    if not isinstance(sharding, NamedSharding) or ctx.module.devices == 1 or ctx.manual:
        return x  # one device, or code that each device runs by hand
    sharding = _executable.physical_sharding(sharding, aval)
    physical = mlir.values.physical_aval(aval)
    text = sharding.sdy(physical.ndim, ctx.module.meshes.symbol(sharding.mesh)).removeprefix("#sdy.sharding")
    return ctx.op(f"sdy.sharding_constraint {x} {text} : {mlir.tensor_type(aval)}")


mlir.register_text_lowering(jit_p, _jit_lowering)
sharding_sources[jit_p] = lambda eqn: [s for s in (*eqn.params["in_shardings"], *eqn.params["out_shardings"])
                                       if s is not None]
