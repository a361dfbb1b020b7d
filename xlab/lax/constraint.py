"""`with_sharding_constraint`: fixes the sharding of an intermediate value."""

from __future__ import annotations

from typing import Any

from xlab import tree as _tree
from xlab.backend import neighbors
from xlab.compile.devices import sharding_sources
from xlab.compile.dispatch import apply_primitive
from xlab.compile.placement import physical_sharding, place
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import Tracer, state
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.shardings import tiling_text
from xlab.lax import sharding_in_types
from xlab.sharding import (
    UNCONSTRAINED,
    AbstractMesh,
    Format,
    GSPMDSharding,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_abstract_mesh,
    get_mesh,
)
from xlab.sharding.indices import check_rank
from xlab.sharding.typed import entries, memory_space

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Fixes the sharding of values inside a jitted function; outside, moves them.

    Args:
        x: array or pytree.
        shardings: a sharding, or a `PartitionSpec` for the current mesh, or a pytree prefix of them. An entry
            `PartitionSpec.UNCONSTRAINED` leaves that dimension to the compiler.

    Example:
        >>> import xlab
        >>> from xlab.sharding import AxisType, NamedSharding, PartitionSpec as P
        >>> where = NamedSharding(xlab.make_mesh((1,), ("i",), axis_types=AxisType.Auto), P("i"))
        >>> xlab.jit(lambda x: xlab.lax.with_sharding_constraint(x, where))(xlab.lax.iota("float32", 4)).shape
        (4,)
    """
    leaves, treedef = _tree.flatten(x)
    given = _tree.flatten_prefix(
        "with_sharding_constraint shardings", shardings, x, is_leaf=_is_destination
    )
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
        if not mesh.axis_names and state.manual_mesh is not None:
            mesh = state.manual_mesh
        if not mesh.axis_names:
            raise RuntimeError(
                f"with_sharding_constraint requires a non-empty mesh in context if you are passing a PartitionSpec "
                f"({sharding}). Set one with xlab.set_mesh(mesh), or pass NamedSharding(mesh, {sharding})."
            )
        sharding = NamedSharding(_as_typed_here(mesh), sharding)
    if not isinstance(sharding, Sharding):
        raise ValueError(
            neighbors.refusal(sharding)
            or f"with_sharding_constraint takes shardings, PartitionSpecs or None, got {sharding!r} of type "
            f"{type(sharding).__name__}"
        )
    aval = aval_of(x)
    _check(x, aval, sharding)
    if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
        sharding = sharding.update(mesh=_as_typed_here(sharding.mesh))
        if sharding.mesh.are_all_axes_explicit and not get_abstract_mesh().empty:
            return _asserted(x, aval, sharding)
        sharding = _with_explicit_axes(aval, sharding)
    free = (
        frozenset(i for i, p in enumerate(sharding.spec) if p is UNCONSTRAINED)
        if isinstance(sharding, NamedSharding)
        else frozenset()
    )
    return sharding_constraint_p.bind(
        x, sharding=sharding, layout=None, context_mesh=get_abstract_mesh(), unconstrained_dims=free
    )


def _as_typed_here(mesh):
    """The mesh with the axis types of the current region."""
    here = get_abstract_mesh()
    return mesh.update(axis_types=here.axis_types) if here.shape_tuple == mesh.shape_tuple else mesh


def _asserted(x, aval, sharding):
    """Where all axes are Explicit the type has the sharding: the constraint is only checked."""
    asked = sharding.spec
    if any(
        asked[d] is not UNCONSTRAINED and asked.axes_of(d) != axes
        for d, axes in enumerate(entries(aval)[: len(asked)])
    ) or any(entries(aval)[len(asked) :]):
        raise AssertionError(
            f"`with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`. The array has type "
            f"{aval}, which did not match the sharding provided: {asked}. Please use `xlab.reshard` to bring it to the "
            f"sharding you want."
        )
    return x


def _with_explicit_axes(aval, sharding):
    """A constraint on Auto axes, combined with the type's sharding over the Explicit ones."""
    named = set(sharding.spec.axes()) & set(sharding.mesh.explicit_axes)
    if named:
        raise ValueError(
            f"The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh. Got "
            f"spec={sharding.spec} and mesh={sharding.mesh!s}, in which {sorted(map(str, named))} are not. You probably meant "
            f"to use `xlab.reshard`."
        )
    spec = list(sharding.spec) + [None] * (aval.ndim - len(sharding.spec))
    for d, axes in enumerate(entries(aval)):
        if axes and spec[d] is not UNCONSTRAINED:
            spec[d] = (*axes, *sharding.spec.axes_of(d))
    return sharding.update(spec=PartitionSpec(*spec))


def _check(x, aval, sharding):
    """The value must have enough dimensions; inside a program the compiler pads those that do not divide, and no constraint moves."""
    if isinstance(x, Tracer) and memory_space(sharding) == "host" != aval.memory_space:
        raise ValueError(
            f"with_sharding_constraint says how a value lies and does not move it between memories: got a value of type {aval}, and "
            f"{sharding}. Move it with xlab.device_put(x, sharding)."
        )
    try:
        if isinstance(x, Tracer) and isinstance(sharding, NamedSharding):
            check_rank(sharding.spec, aval.shape, str(sharding))
        else:
            sharding.shard_shape(aval.shape)
    except ValueError as e:
        raise type(e)(
            f"One of with_sharding_constraint arguments, of type {aval}, is incompatible with its sharding annotation "
            f"{sharding}: {e}"
        ) from None


sharding_constraint_p = Primitive("sharding_constraint")
sharding_constraint_p.linear_in_unreduced = True


@sharding_constraint_p.def_impl
def _impl(x, *, sharding, unconstrained_dims, **params):
    """Eager rule: reshards the value; the compiled form raises if it is committed to other devices."""
    aval = aval_of(x)
    sharding = _with_devices(x, sharding)
    elsewhere = (
        getattr(x, "committed", False) and x.sharding.devices_in_order != sharding.devices_in_order
    )
    if unconstrained_dims or elsewhere or dtypes.is_extended(aval.dtype):
        return apply_primitive(
            sharding_constraint_p,
            x,
            sharding=sharding,
            unconstrained_dims=unconstrained_dims,
            **params,
        )
    return place(x, aval, sharding)


def _with_devices(x, sharding):
    """A sharding over an abstract mesh, with the devices of the mesh in effect or of the array's own."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, AbstractMesh):
        return sharding
    own = x.sharding.mesh if isinstance(getattr(x, "sharding", None), NamedSharding) else None
    for mesh in (get_mesh(), own):
        if mesh is not None and not mesh.empty and mesh.shape_tuple == sharding.mesh.shape_tuple:
            return sharding.update(mesh=mesh)
    raise TypeError(
        f"with_sharding_constraint got a sharding over an abstract mesh, {sharding}, for a value of type {aval_of(x)} that lies "
        f"on no such mesh: set the mesh with xlab.set_mesh(mesh), or give NamedSharding(mesh, {sharding.spec}) with devices"
    )


sharding_constraint_p.def_abstract_eval(lambda x, **_: x)
ad.deflinear2(
    sharding_constraint_p, lambda ct, x, **params: [sharding_constraint_p.bind(ct, **params)]
)


def _batch(axis, operands, dims, *, sharding, layout, context_mesh, unconstrained_dims):
    d = dims[0]
    if isinstance(sharding, NamedSharding) and (axis.spmd or len(sharding.spec) >= d):
        partitions = [*sharding.spec, *[None] * (d - len(sharding.spec))]
        if set(axis.spmd) & set(sharding.spec.axes()):
            raise ValueError(
                f"vmap spmd_axis_name {axis.spmd} cannot appear in with_sharding_constraint spec, but got spec {sharding.spec}"
            )
        partitions.insert(d, axis.spmd_entry or UNCONSTRAINED)
        sharding = sharding.update(spec=sharding.spec.update(partitions=tuple(partitions)))
    free = frozenset(i + (i >= d) for i in unconstrained_dims) | (frozenset() if axis.spmd else {d})
    return sharding_constraint_p.bind(
        operands[0],
        sharding=sharding,
        layout=layout,
        context_mesh=context_mesh,
        unconstrained_dims=free,
    ), d


sharding_rules[sharding_constraint_p] = sharding_in_types.first_operand
batching.axis_primitive_batchers[sharding_constraint_p] = _batch


def constraint_text(ctx, x, sharding, aval) -> str:
    """Emits a constraint where it has an effect: with several devices and Auto or Explicit axes."""
    if not isinstance(aval, ShapedArray) or ctx.module.devices == 1:
        return x
    if isinstance(sharding, GSPMDSharding) and ctx.mesh is None:
        ndim = mlir.values.physical_aval(aval).ndim
        text = tiling_text(
            sharding.to_hlo_sharding(ndim), ndim, ctx.module.devices, ctx.module.meshes
        )
        return _emit(ctx, x, text, aval)
    if not isinstance(sharding, NamedSharding):
        return x
    if ctx.mesh is not None:
        if set(ctx.mesh.axis_names) <= set(ctx.manual):
            return x
        by_hand = set(ctx.manual) & set(sharding.spec.axes())
        if by_hand:
            raise ValueError(
                f"with_sharding_constraint inside shard_map names the axes {sorted(map(str, by_hand))} of {sharding}, which "
                f"are under manual control there; name only axes that are left to the compiler"
            )
    sharding = physical_sharding(sharding, aval)
    if (
        sharding.spec.unreduced - aval.mat.unreduced
    ):  # one value first: the compiler would take what led here for summands too
        x = constraint_text(
            ctx, x, sharding.update(spec=sharding.spec.update(unreduced=aval.mat.unreduced)), aval
        )
    text = sharding.sdy(
        mlir.values.physical_aval(aval).ndim, ctx.module.meshes.symbol(sharding.mesh)
    )
    return _emit(ctx, x, text, aval)


def _emit(ctx, x: str, text: str, aval) -> str:
    return ctx.op(
        f"sdy.sharding_constraint {x} {text.removeprefix('#sdy.sharding')} : {mlir.tensor_type(aval)}"
    )


mlir.register_text_lowering(
    sharding_constraint_p,
    lambda ctx, x, *, sharding, **_: constraint_text(ctx, x, sharding, ctx.avals_in[0]),
)
sharding_sources[sharding_constraint_p] = lambda eqn: [eqn.params["sharding"]]

costs.register(costs.free, sharding_constraint_p)
