"""The `jit` primitive, a call of a traced program, and its rules. `jit.py` runs it."""

from __future__ import annotations

from xlab.compile.arguments import check_outermost
from xlab.compile.devices import sharding_sources
from xlab.compile.placement import physical_sharding
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.primitive import Primitive
from xlab.interpreters import mlir
from xlab.interpreters.calls import AlignedParams, define_call
from xlab.interpreters.jet import inlined, jet_rules
from xlab.sharding import NamedSharding, SingleDeviceSharding

jit_p = Primitive("jit")


def _batched(sharding, axis, dim, params):
    """The sharding of a batch: the mapped dimension lies over the axes that `vmap` was given for it."""
    if not isinstance(sharding, NamedSharding):
        return sharding if isinstance(sharding, SingleDeviceSharding) else None
    if set(axis.spmd) & set(sharding.spec.axes()):
        raise ValueError(
            f"vmap spmd_axis_name {axis.spmd} cannot appear in the shardings of {params['name']}, which is jitted inside, but got "
            f"{sharding.spec}: one mesh axis cannot lie along two dimensions"
        )
    partitions = [*sharding.spec, *[None] * (dim - len(sharding.spec))]
    partitions.insert(dim, axis.spmd_entry)
    return sharding.update(spec=sharding.spec.update(partitions=tuple(partitions)))


class _Donation(AlignedParams):
    """Clears donation where a call is split or transposed: its parts may still need the argument."""

    def known(self, params, unknown, split):
        return {"donated_invars": (False,) * (len(unknown) - sum(unknown))}

    def unknown(self, params, unknown, split):
        return {"donated_invars": (False,) * (len(split.residuals) + sum(unknown))}

    def transpose(self, params, linear, nonzero, nonzero_out):
        return {"donated_invars": (False,) * (len(linear) - sum(linear) + sum(nonzero))}


define_call(
    jit_p,
    "jaxpr",
    AlignedParams("in_shardings", "out_shardings", batched=_batched),
    _Donation("donated_invars", added=False),
)


jet_rules[jit_p] = inlined(lambda *args, jaxpr, **_: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args))


def _jit_lowering(
    ctx, *args, jaxpr, in_shardings, out_shardings, name, compiler_options_kvs=(), **_
):
    check_outermost(compiler_options_kvs, name, ctx.eqn.source_info)
    args = [_constrain(ctx, x, s, a) for x, s, a in zip(args, in_shardings, ctx.avals_in)]
    outs = ctx.call(id(jaxpr), name, jaxpr, args)
    return [_constrain(ctx, x, s, a) for x, s, a in zip(outs, out_shardings, ctx.avals_out)]


def _constrain(ctx, x, sharding, aval):
    if not isinstance(sharding, NamedSharding) or ctx.module.devices == 1 or ctx.manual:
        return x  # one device, or all axes are Manual
    sharding = physical_sharding(sharding, aval)
    physical = mlir.values.physical_aval(aval)
    text = sharding.sdy(physical.ndim, ctx.module.meshes.symbol(sharding.mesh)).removeprefix(
        "#sdy.sharding"
    )
    return ctx.op(f"sdy.sharding_constraint {x} {text} : {mlir.tensor_type(aval)}")


mlir.register_text_lowering(jit_p, _jit_lowering)
sharding_sources[jit_p] = lambda eqn: [
    s for s in (*eqn.params["in_shardings"], *eqn.params["out_shardings"]) if s is not None
]
