"""How the results of a primitive are sharded, from how its operands are.

`Primitive` asks here when an operand is sharded along Explicit mesh axes, or when a sharding of the result was asked for. Where
the table has no rule, operands must not be sharded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xlab.core.avals import AbstractValue, ShapedArray
from xlab.core.effects import Effect
from xlab.core.rules import RuleTable
from xlab.errors import ShardingTypeError
from xlab.sharding.named import NamedSharding
from xlab.sharding.typed import Entries, dimension, entries, of_entries

if TYPE_CHECKING:
    from xlab.core.primitive import Primitive

sharding_rules = RuleTable(
    "core.sharding_rules",
    "type the sharding of",
    "rule(operand types, result types, **params) -> per result the mesh axes of each dimension",
    required=False,
)
"""Worked example, for `transpose`: `lambda ins, outs, permutation: [[entries(ins[0])[i] for i in permutation]]`. Result types
come without sharding. A rule raises `ShardingTypeError` where the answer is ambiguous or would need communication."""


def propagate_sharding(
    prim: Primitive,
    avals: Sequence,
    params: dict,
    evaluate: Callable[..., tuple[Any, frozenset[Effect]]],
) -> tuple[Any, frozenset[Effect]]:
    """The result types from `evaluate(prim, avals, params)`, with the results' shardings added."""
    mesh = None
    for a in avals:
        explicit = getattr(a, "explicit_sharding", None)
        if explicit is None:
            continue
        if mesh is None:
            mesh = explicit.mesh
        elif mesh is not explicit.mesh and (mesh.shape_tuple, mesh.axis_types) != (
            explicit.mesh.shape_tuple,
            explicit.mesh.axis_types,
        ):
            raise ValueError(
                f"Mesh for all inputs should be equal. {prim.name} got one mesh: {mesh} and another mesh: {explicit.mesh}. "
                f"Bring the operands to one mesh with xlab.device_put or xlab.reshard."
            )
    plain = tuple(
        [
            a if getattr(a, "explicit_sharding", None) is None else a.update(sharding=None)
            for a in avals
        ]
    )
    crossed = _crossed(avals)
    if crossed:
        plain = tuple([_varying(a, x, crossed) for a, x in zip(avals, plain)])
    out, effects = evaluate(prim, plain, params)
    outs = out if prim.multiple_results else (out,)
    if crossed:
        outs = tuple([o.update(mat=o.mat.update(varying=o.mat.varying - crossed)) for o in outs])
        out = outs if prim.multiple_results else outs[0]
    asked = requested_sharding(params)
    if not outs or (mesh is None and asked is None):
        return out, effects
    rule = sharding_rules.get(prim)
    if rule is None:
        raise ShardingTypeError(
            f"{prim.name} has no rule for operands that are sharded over Explicit mesh axes; it got {described(avals)}. Bring them "
            f"to one piece first with xlab.reshard(x, P()), or leave this part to the compiler with xlab.sharding.auto_axes."
        )
    all_axes = rule(avals, outs, **params)
    if asked is not None and asked.spec.unreduced:
        outs = tuple([_unreduced(prim, avals, o, asked.spec.unreduced) for o in outs])
    mesh = mesh if mesh is not None else asked.mesh  # type: ignore[union-attr]  # one of them is there
    results = tuple(
        [
            _with_sharding(prim, avals, a, tuple(map(tuple, c)), mesh)
            for a, c in zip(outs, all_axes, strict=True)
        ]
    )
    return (results if prim.multiple_results else results[0]), effects


def _crossed(avals: Sequence) -> frozenset:
    """Mesh axes over which one operand is reduced and along which another is sharded."""
    reduced: frozenset = frozenset().union(
        *(a.mat.reduced for a in avals if isinstance(a, ShapedArray))
    )
    return (
        reduced
        & {axis for a in avals if isinstance(a, ShapedArray) for dim in entries(a) for axis in dim}
        if reduced
        else reduced
    )


def _varying(aval, plain, axes):
    """The operand's type without its sharding; along `axes` each device has its own part."""
    own = (
        axes & {axis for dim in entries(aval) for axis in dim}
        if isinstance(aval, ShapedArray)
        else ()
    )
    return plain.update(mat=plain.mat.update(varying=plain.mat.varying | own)) if own else plain


def _unreduced(prim, avals, out, axes):
    """The unreduced type: a pending sum over the devices along mesh axes."""
    dim_axes = {axis for a in avals for dim in entries(a) for axis in dim}
    if not axes <= dim_axes or prim.name not in ("dot_general", "reduce_sum"):
        raise ShardingTypeError(
            f"{prim.name} was asked for a result that is unreduced over {sorted(map(str, axes))}, but it got "
            f"{described(avals)}: a result can stay a sum of parts only over axes that shard what is summed over"
        )
    return out.update(mat=out.mat.update(unreduced=out.mat.unreduced | axes))


def requested_sharding(params: dict) -> NamedSharding | None:
    """The sharding requested for a primitive's result (`out_sharding`), or None."""
    asked = params.get("out_sharding")
    asked = asked if asked is not None else params.get("sharding")
    return asked if isinstance(asked, NamedSharding) else None


def _with_sharding(prim: Primitive, avals: Sequence, out: Any, dim_axes: Entries, mesh: Any) -> Any:
    if not any(dim_axes) or not isinstance(out, ShapedArray):
        return out
    named = [axis for axes in dim_axes for axis in axes]
    if len(set(named)) != len(named):
        dims = ",".join(map(dimension, out.shape, dim_axes))
        raise ShardingTypeError(
            f"{prim.name} operation with inputs: {described(avals)} produces an illegally sharded result: {out.str_short(short_dtypes=True)[:-1].split('[')[0]}"
            f"[{dims}], in which a mesh axis shards two dimensions. Reshard an operand first (xlab.reshard)"
            + (
                ", or say what you want with out_sharding=."
                if "out_sharding" in prim_parameters(prim)
                else "."
            )
        )
    return out.update(sharding=of_entries(mesh, dim_axes))


def prim_parameters(prim: Primitive) -> tuple[str, ...]:
    """Names of the parameters of a primitive, as its type rule declares them."""
    code = getattr(prim._abstract, "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()


def described(avals: Iterable[AbstractValue]) -> str:
    return ", ".join(
        a.str_short(short_dtypes=True) if isinstance(a, ShapedArray) else str(a) for a in avals
    )


def elementwise_sharding(ins, outs, **_):
    """Dimension by dimension the operands' sharding; an operand that is not sharded there follows the others."""
    ndim = outs[0].ndim
    dim_axes = [()] * ndim
    for a in ins:
        if a.explicit_sharding is None or a.ndim != ndim:
            continue
        for d, axes in enumerate(entries(a)):
            if not axes or (a.shape[d] == 1 and outs[0].shape[d] != 1) or dim_axes[d] == axes:
                continue
            if dim_axes[d]:
                specs = ", ".join(str(entries(x)) for x in ins if x.ndim == ndim)
                raise ShardingTypeError(
                    f"operands of types {described(ins)} have incompatible shardings for broadcasting: dimension {d} is sharded along "
                    f"{dim_axes[d]} and along {axes} ({specs}). Bring one to the sharding of the other with xlab.reshard."
                )
            dim_axes[d] = axes
    return [dim_axes] * len(outs)
