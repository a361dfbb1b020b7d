"""What all collectives share: names of axes, groups of devices, types over the mesh, and the text of channels.

A collective runs over named axes. The devices that agree on every other axis form a *group*, and a device's place in its group
is its *rank*, row-major in the order the axes are given.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import INVARYING, ManualAxisType, ShapedArray, aval_of
from xlab.core.effects import NamedAxisEffect
from xlab.core.primitive import Primitive
from xlab.core.trace import Axis, EvalTrace, find_axis, state
from xlab.interpreters import batching
from xlab.interpreters.divergence import Arrival
from xlab.interpreters.mlir import tensor_type
from xlab.lax.shape import concatenate, reshape
from xlab.lax.slicing import slice_in_dim
from xlab.sharding import get_abstract_mesh

CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def axis_names(axis_name: Any, api: str, *, lists: bool = True, ints: bool = False) -> tuple:
    """The axes of a collective as a tuple; every named one must be bound, and none may come twice. `ints` are axes of the array."""
    if isinstance(axis_name, list):
        if not lists:
            raise TypeError(
                f"{api} takes one axis name or a tuple of them, got the list {axis_name}; a list has no hash, so "
                f"it cannot be part of the program: write {tuple(axis_name)}"
            )
        axis_name = tuple(axis_name)
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(
            f"{api} takes one axis name or a tuple of them, got the set {axis_name}: a set has no order, and the "
            f"order of the axes decides the ranks"
        )
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    if len(set(names)) != len(names):
        raise ValueError(f"{api} got a repeated axis in {names}: each axis may be named once")
    for name in names:
        if type(name) is not int:
            if find_axis(name, api).kind == "grid" and api not in ("axis_index", "axis_size"):
                raise NotImplementedError(
                    f"{api} over {name!r}: the axis is of a kernel's grid or of a mesh of cores, whose programs do not send values "
                    f"to one another. They share references, and wait for one another with semaphores."
                )
        elif not ints:
            raise TypeError(
                f"{api} works over named axes, got {name}: an int is an axis of the array, over which psum, pmean, pmax and pmin "
                f"reduce. Give the name that shard_map, pmap or vmap(axis_name=...) binds"
            )
    return names


def as_names(axis_name: Any) -> tuple:
    """The parameter of a primitive that keeps its axes as they were given, as a tuple."""
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def whole(api: str, what: str, number: Any) -> int:
    """A rank, as a Python int."""
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(
            f"{api}: {what} are whole numbers, the ranks along the axis; got {number!r} of type "
            f"{type(number).__name__}"
        ) from None


def unmapped(*_: Any, **params: Any) -> Any:
    """Rule for a primitive that is bound where nothing binds its axes."""
    names = params.get("axis_name", params.get("axes"))
    raise RuntimeError(
        f"a collective over {names!r} must be used within a mapped context like vmap or shard_map, which binds the axis"
    )


class AxisPrimitive(Primitive):
    """A primitive over named axes, which have to be bound wherever it is applied: types are remembered, and do not say whether they are."""

    def bind(self, *args, **params):
        """Applies the primitive; NameError where an axis is not bound."""
        given = params["axes"] if "axes" in params else params["axis_name"]
        names = given if isinstance(given, tuple) and given not in state.axes else (given,)
        for name in names:
            if type(name) is not int and name not in state.axes:
                self.unbound(name)
        return super().bind(*args, **params)

    def unbound(self, name: Any) -> None:
        """What happens where an axis is not bound."""
        if self.impl is not unmapped or type(state.trace) is not EvalTrace:
            find_axis(name, self.name)


def same_mesh(api: str, aval) -> None:
    """Raises where the type of an operand refers to another mesh than the types around it."""
    mesh, found = get_abstract_mesh(), getattr(aval, "explicit_sharding", None)
    if found is None or mesh.empty:
        return
    if (found.mesh.axis_names, found.mesh.axis_sizes) != (mesh.axis_names, mesh.axis_sizes):
        raise ValueError(
            f"{api} got an operand of type {aval}, whose type refers to the mesh {_mesh_text(found.mesh)}, where types refer to "
            f"{_mesh_text(mesh)}: bring it there first, with xlab.reshard, or call {api} where its own mesh is set"
        )


def _mesh_text(mesh) -> str:
    return ", ".join(f"{n!r}: {size}" for n, size in zip(mesh.axis_names, mesh.axis_sizes))


def no_keys(api: str, aval) -> None:
    """Random keys have no sum and no order."""
    if dtypes.is_extended(aval.dtype):
        raise TypeError(
            f"{api} needs numbers, got {aval}: of random keys there is no sum and no order. all_gather, all_to_all, ppermute and "
            f"pbroadcast move them"
        )


def without_single(names) -> tuple:
    """The axes without mesh axes of size one, where the configuration drops those from types."""
    if not config.remove_size_one_mesh_axis_from_type:
        return names
    return tuple(
        n for n in names if type(n) is int or find_axis(n).kind != "mesh" or find_axis(n).size > 1
    )


def size_of(names) -> int:
    """Number of devices (or examples) along named axes together."""
    return math.prod([find_axis(n).size for n in names])


def canonical_groups(groups, names, api: str, *, equal: bool = False):
    """`axis_index_groups` as a tuple of tuples that covers every index of the axes once."""
    if groups is None:
        return None
    if any(type(n) is int for n in names):
        raise ValueError(f"{api}: axis_index_groups only goes with named axes, got axes {names}")
    try:
        groups = tuple(map(tuple, groups))
    except TypeError:
        raise TypeError(
            f"{api}: axis_index_groups is a sequence of groups of ranks, such as [[0, 1], [2, 3]]; got {groups!r}"
        ) from None
    groups = tuple(
        tuple(whole(api, "the members of axis_index_groups", i) for i in g) for g in groups
    )
    size = size_of(names)
    if sorted(i for g in groups for i in g) != list(range(size)):
        raise ValueError(
            f"{api}: axis_index_groups must cover all indices exactly once: the axes {names} have the indices 0 to "
            f"{size - 1}, got {groups}"
        )
    if equal and len({len(g) for g in groups}) > 1:
        raise ValueError(
            f"{api}: replica groups must be equally sized, got groups of sizes {[len(g) for g in groups]} in "
            f"{groups}"
        )
    return groups


def group_size(names, groups) -> int:
    """Devices in one group (the first, where groups differ)."""
    return len(groups[0]) if groups is not None else size_of(names)


def effects_of(names) -> frozenset:
    return frozenset(NamedAxisEffect(n) for n in names if type(n) is not int)


# -- types over the mesh ----------------------------------------------------------------------------------


def mat_of(x) -> ManualAxisType:
    aval = aval_of(x)
    return aval.mat if type(aval) is ShapedArray else INVARYING


def mesh_names(names) -> tuple:
    """The names among them that are mesh axes with types to keep; none where types do not vary."""
    if state.manual is None:
        return ()
    return tuple(
        n for n in names if type(n) is not int and find_axis(n).kind == "mesh" and n in state.manual
    )


def refuse_unfinished(api: str, aval, names) -> None:
    """Raises for unreduced or reduced operands, which most collectives do not accept."""
    bad = (aval.mat.unreduced | aval.mat.reduced) & set(names)
    if bad:
        sums = aval.mat.unreduced & bad
        axes = tuple(sorted(map(str, sums or bad)))
        advice = (
            f"carry out the sum first, with psum(x, {axes})"
            if sums
            else (
                f"cast it with pcast(x, {axes}, to='varying') if each device is to use the value on its own"
            )
        )
        raise ValueError(
            f"{api} cannot accept args which are unreduced/reduced over the axes it runs on: got {aval}, which is "
            f"{'unreduced' if sums else 'reduced'} over {axes}; {advice}"
        )


def require_varying(api: str, x, names):
    """The operand of a collective: varying over the mesh axes it runs on."""
    over = mesh_names(names)
    if not over:
        return x
    mat = mat_of(x)
    refuse_unfinished(api, aval_of(x), over)
    missing = tuple(n for n in over if n not in mat.varying)
    if missing and not config.auto_pcast:
        raise ValueError(
            f"{api} must be applied to a device-varying type, got {aval_of(x)}, which is the same along {missing}, and auto_pcast is "
            f"off: cast it with lax.pcast(x, {missing[0] if len(missing) == 1 else missing!r}, to='varying')"
        )
    return state.vary(x, missing) if missing else x


def collective_vma_rule(prim_name: str, axis_name, aval) -> frozenset:
    """The axes over which the result of a collective varies whose operand has to vary over all the named ones: those of the operand.

    Empty where types do not vary. Its callers are primitives of one's own.

    Raises:
        ValueError: the operand is the same along a named axis.
    """
    over = mesh_names(axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,))
    if state.manual is None:
        return frozenset()
    refuse_unfinished(prim_name, aval, over)
    missing = tuple(n for n in over if n not in aval.mat.varying)
    if missing:
        raise ValueError(
            f"{prim_name} must be applied to a device-varying type, got {aval}, which is the same along {missing}: cast it with "
            f"lax.pcast(x, {missing[0] if len(missing) == 1 else missing!r}, to='varying')"
        )
    return aval.mat.varying


def vma_state(api: str, x, names) -> str | None:
    """The state of a value (varying, unreduced, ...) over all the named mesh axes; None without `check_vma`."""
    over = mesh_names(names)
    if not over:
        return None
    mat = mat_of(x)
    states = {
        "varying"
        if n in mat.varying
        else "unreduced"
        if n in mat.unreduced
        else "reduced"
        if n in mat.reduced
        else "invarying"
        for n in over
    }
    if len(states) > 1:
        raise ValueError(
            f"{api} got a value of type {aval_of(x)} that is not in one state over the axes {over}: it is "
            f"{' and '.join(sorted(states))}. Use one call per axis."
        )
    return states.pop()


def need(api: str, aval, names, state_name: str) -> None:
    """Raises unless the value is varying, unreduced, ... over all the axes; names those over which it is not."""
    wrong = tuple(n for n in names if n not in getattr(aval.mat, state_name))
    if wrong:
        raise ValueError(
            f"{api} over {tuple(names)} needs a value that is {state_name} over them, got {aval}, which is not {state_name} over "
            f"{wrong}"
        )


# -- lowering ---------------------------------------------------------------------------------------------


def replica_groups(mesh, names, groups=None) -> list[list[int]]:
    """Positions of the devices of each group in the program's device order.

    Example:
        >>> from xlab.sharding import AbstractMesh
        >>> replica_groups(AbstractMesh((2, 2), ("i", "j")), ("i",))
        [[0, 2], [1, 3]]
    """
    order = [i for i, n in enumerate(mesh.axis_names) if n not in names] + [
        mesh.axis_names.index(n) for n in names
    ]
    n = math.prod([mesh.shape[a] for a in names])
    rows = np.arange(mesh.size).reshape(mesh.axis_sizes).transpose(order).reshape(-1, n).tolist()
    if groups is None:
        return rows
    return [[row[i] for i in group] for row in rows for group in groups]


def groups_of(ctx, names, groups=None) -> list[list[int]]:
    if ctx.mesh is None:
        raise NameError(
            f"the axes {names} of {ctx.eqn.primitive.name} are not bound to a mesh: run the program under shard_map"
        )
    unknown = [n for n in names if n not in ctx.mesh.axis_names]
    if unknown:
        raise NameError(
            f"unbound axis name {unknown[0]!r} in {ctx.eqn.primitive.name}: the mesh of the program has the axes "
            f"{tuple(ctx.mesh.axis_names)}"
        )
    if ctx.platform == "tpu" and groups is not None and len(set(map(len, groups))) > 1:
        raise ValueError(
            f"{ctx.eqn.primitive.name}: axis_index_groups must have equal sizes on TPU, got groups of sizes {list(map(len, groups))}"
        )
    return replica_groups(ctx.mesh, names, groups)


def groups_text(rows) -> str:
    """The groups as a matrix attribute; shorter rows are filled with -1."""
    width = max(map(len, rows))
    body = ", ".join("[" + ", ".join(map(str, [*r, *[-1] * (width - len(r))])) + "]" for r in rows)
    return f"dense<[{body}]> : tensor<{len(rows)}x{width}xi64>"


def combining_op(ctx, op: str, x: str, combine: str, attributes: str, aval_in, aval_out) -> str:
    """A collective whose region combines two scalars."""
    scalar = tensor_type(aval_in.update(shape=(), mat=INVARYING))
    a, b, c = ctx.fresh(), ctx.fresh(), ctx.fresh()
    return ctx.op(
        f'"stablehlo.{op}"({x}) <{{{attributes}}}> ({{\n    ^bb0({a}: {scalar}, {b}: {scalar}):\n'
        f"      {c} = stablehlo.{combine} {a}, {b} : {scalar}\n      stablehlo.return {c} : {scalar}\n    }}) : "
        f"({tensor_type(aval_in)}) -> {tensor_type(aval_out)}"
    )


def reshaped(ctx, x: str, aval_in, aval_out) -> str:
    return ctx.op(f"stablehlo.reshape {x} : ({tensor_type(aval_in)}) -> {tensor_type(aval_out)}")


def inserted(shape, at: int, size: int) -> tuple:
    return (*shape[:at], size, *shape[at:])


def without(shape, at: int) -> tuple:
    return (*shape[:at], *shape[at + 1 :])


def resized(shape, at: int, size: int) -> tuple:
    return (*shape[:at], size, *shape[at + 1 :])


def single_name(names, name, api: str):
    """Rules for the mapped axis itself that handle one name only."""
    if names != (name,):
        raise NotImplementedError(
            f"{api} over several axes {names} of which vmap maps {name!r}: call {api} once per axis"
        )


def batch_in_groups(bind, axis, x, d, names, groups, api: str):
    """Batching over the mapped axis where its examples form groups: `bind(x)` over each group as if it were the whole axis.

    Examples are put in the order of the groups, so that groups and ranks become two dimensions, and back afterwards. Groups of unequal
    size go one by one.
    """
    single_name(names, axis.name, f"{api} with axis_index_groups")
    x = batching.move_batch_dim_to(x, d, axis.size, 0)
    order = [i for g in groups for i in g]
    x = _reordered(x, order)
    if len({len(g) for g in groups}) == 1:
        k = len(groups[0])
        shape = aval_of(x).shape
        one = Axis(None, len(groups), "vmap")
        run, dims = batching.batch_flat(lambda v: [_over_all(bind, axis, k, v)], one, [0])
        (out,) = run(reshape(x, (len(groups), k, *shape[1:])))
        out = batching.move_batch_dim_to(out, dims.dims[0], len(groups), 0)
        shape = aval_of(out).shape
        out = reshape(out, (axis.size, *shape[2:]))
    else:
        parts, first = [], 0
        for g in groups:
            part = slice_in_dim(x, first, first + len(g), axis=0)
            parts.append(_over_all(bind, axis, len(g), part))
            first += len(g)
        out = concatenate(parts, 0)
    return _reordered(out, [order.index(i) for i in range(axis.size)]), 0


def _over_all(bind, axis, size, x):
    """A collective over an axis of another size, the result batched in front."""
    run, dims = batching.batch_flat(lambda v: [bind(v)], Axis(axis.name, size, axis.kind), [0])
    (out,) = run(x)
    return batching.move_batch_dim_to(out, dims.dims[0], size, 0)


def _reordered(x, order):
    """Rows in another order; neighbors stay together."""
    if order == list(range(len(order))):
        return x
    parts, i = [], 0
    while i < len(order):
        j = i + 1
        while j < len(order) and order[j] == order[i] + j - i:
            j += 1
        parts.append(slice_in_dim(x, order[i], order[i] + j - i, axis=0))
        i = j
    return concatenate(parts, 0)


# -- who has to arrive -----------------------------------------------------------------------------------------------


def everyone_alike(p: dict[str, Any]) -> Arrival:
    """Arrival rule: all devices along the axes take part, and get the same value unless there are several groups."""
    axes = p["axes"] if "axes" in p else as_names(p["axis_name"])
    return Arrival(axes, same=len(p.get("axis_index_groups") or ((),)) == 1)


def everyone_in_groups(p: dict[str, Any]) -> Arrival:
    """Arrival rule: all devices along the axes take part, and each gets its own value."""
    return Arrival(as_names(p["axis_name"]))


def everybody(p: dict[str, Any]) -> Arrival:
    """Arrival rule: on CPU all devices of the mesh have to arrive, whatever the pairs are."""
    return Arrival(p["axis_name"], everybody=True)
