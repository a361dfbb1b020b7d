"""`with_sharding_constraint`: telling the compiler how a value in the middle of a program lies over the mesh."""

from __future__ import annotations

from xlab import tree as _tree
from xlab.compile.devices import sharding_sources
from xlab.compile.dispatch import apply_primitive
from xlab.compile.executable import physical_sharding
from xlab.compile.placement import place
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.cuts import cut_rules
from xlab.core.primitive import Primitive
from xlab.interpreters import ad, batching, mlir
from xlab.lax import cuts
from xlab.sharding import (
    UNCONSTRAINED,
    Format,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_abstract_mesh,
    get_mesh,
)

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x, shardings):
    """Fixes the sharding of values inside a jitted function; outside, moves them.

    Args:
        x: array or pytree.
        shardings: a sharding, or a `PartitionSpec` for the current mesh, or a pytree prefix of them. An entry
            `PartitionSpec.UNCONSTRAINED` leaves that dimension to the compiler.

    Example:
        >>> import xlab
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",)), P("i"))
        >>> xlab.jit(lambda x: xlab.lax.with_sharding_constraint(x, where))(xlab.lax.iota("float32", 4)).shape
        (4,)
    """
    leaves, treedef = _tree.flatten(x)
    given = _tree.flatten_prefix("with_sharding_constraint shardings", shardings, x, is_leaf=_is_destination)
    return _tree.unflatten(treedef, [_constrained(v, s) for v, s in zip(leaves, given)])


def _is_destination(x) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, Format))


def _constrained(x, sharding):
    if isinstance(sharding, Format):
        sharding = sharding.sharding
    if sharding is None:
        return x
    if isinstance(sharding, PartitionSpec):
        mesh = get_mesh()
        if mesh.empty:
            mesh = get_abstract_mesh()
        if not mesh.axis_names:
            raise RuntimeError(f"with_sharding_constraint requires a non-empty mesh in context if you are passing a PartitionSpec "
                               f"({sharding}). Set one with xlab.set_mesh(mesh), or pass NamedSharding(mesh, {sharding}).")
        sharding = NamedSharding(mesh, sharding)
    if not isinstance(sharding, Sharding):
        raise ValueError(f"with_sharding_constraint takes shardings, PartitionSpecs or None, got {sharding!r} of type "
                         f"{type(sharding).__name__}")
    aval = aval_of(x)
    _check(aval, sharding)
    free = frozenset(i for i, p in enumerate(sharding.spec) if p is UNCONSTRAINED) if isinstance(sharding, NamedSharding) \
        else frozenset()
    return sharding_constraint_p.bind(x, sharding=sharding, layout=None, context_mesh=get_abstract_mesh(), unconstrained_dims=free)


def _check(aval, sharding):
    try:
        sharding.shard_shape(aval.shape)
    except ValueError as e:
        raise type(e)(f"One of with_sharding_constraint arguments, of type {aval}, is incompatible with its sharding annotation "
                      f"{sharding}: {e}") from None


sharding_constraint_p = Primitive("sharding_constraint")
sharding_constraint_p.linear_in_unreduced = True


@sharding_constraint_p.def_impl
def _impl(x, *, sharding, unconstrained_dims, **params):
    """Eagerly the value is laid out as asked; one that is bound to other devices is refused by the compiled form."""
    aval = aval_of(x)
    elsewhere = getattr(x, "committed", False) and x.sharding.devices_in_order != sharding.devices_in_order
    if unconstrained_dims or elsewhere or dtypes.is_extended(aval.dtype):
        return apply_primitive(sharding_constraint_p, x, sharding=sharding, unconstrained_dims=unconstrained_dims, **params)
    return place(x, aval, sharding)


sharding_constraint_p.def_abstract_eval(lambda x, **_: x)
ad.deflinear2(sharding_constraint_p, lambda ct, x, **params: [sharding_constraint_p.bind(ct, **params)])


def _batch(operands, dims, *, sharding, layout, context_mesh, unconstrained_dims):
    d = dims[0]
    if isinstance(sharding, NamedSharding) and len(sharding.spec) >= d:
        entries = list(sharding.spec)
        entries.insert(d, UNCONSTRAINED)
        sharding = sharding.update(spec=sharding.spec.update(partitions=tuple(entries)))
    free = frozenset(i + (i >= d) for i in unconstrained_dims) | {d}
    return sharding_constraint_p.bind(operands[0], sharding=sharding, layout=layout, context_mesh=context_mesh,
                                      unconstrained_dims=free), d


cut_rules[sharding_constraint_p] = cuts.first_operand
batching.primitive_batchers[sharding_constraint_p] = _batch


def constraint_text(ctx, x, sharding, aval) -> str:
    """Emits a constraint where one means anything: several devices, and axes the compiler handles."""
    if not isinstance(sharding, NamedSharding) or not isinstance(aval, ShapedArray) or ctx.module.devices == 1:
        return x
    if ctx.mesh is not None:
        if set(ctx.mesh.axis_names) <= set(ctx.manual):
            return x
        by_hand = set(ctx.manual) & set(sharding.spec.axes())
        if by_hand:
            raise ValueError(f"with_sharding_constraint inside shard_map names the axes {sorted(map(str, by_hand))} of {sharding}, which "
                             f"are under manual control there; name only axes that are left to the compiler")
    sharding = physical_sharding(sharding, aval)
    text = sharding.sdy(mlir.values.physical_aval(aval).ndim, ctx.module.meshes.symbol(sharding.mesh))
    return ctx.op(f"sdy.sharding_constraint {x} {text.removeprefix('#sdy.sharding')} : {mlir.tensor_type(aval)}")


mlir.register_lowering(sharding_constraint_p,
                       lambda ctx, x, *, sharding, **_: constraint_text(ctx, x, sharding, ctx.avals_in[0]))
sharding_sources[sharding_constraint_p] = lambda eqn: concrete([eqn.params["sharding"]])


def concrete(shardings) -> list:
    """Those among them that name devices."""
    return [s for s in shardings if isinstance(s, Sharding) and (not isinstance(s, NamedSharding) or hasattr(s.mesh, "devices"))]
