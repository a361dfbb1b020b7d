"""Types of `shard_map`: local and global shapes, the axes bound in the body, checks of its specs."""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext

from xlab import tree as _tree
from xlab.backend import neighbors
from xlab.core.avals import INVARYING, ManualAxisType, ShapedArray, aval_of
from xlab.core.refs import AbstractRef
from xlab.core.trace import Axis, state
from xlab.lax.reshard import bind_reshard
from xlab.sharding import (
    UNCONSTRAINED,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)
from xlab.sharding.typed import entries, of_entries


@contextmanager
def body_context(mesh, newly_manual, check_vma: bool):
    """Binds mesh axes for a `shard_map` body."""
    previous = state.axes, state.manual, state.manual_mesh
    state.axes = {
        **previous[0],
        **{n: Axis(n, mesh.shape[n], "mesh") for n in mesh.axis_names if n in newly_manual},
    }
    state.manual = (previous[1] or frozenset()) | newly_manual if check_vma else None
    state.manual_mesh = mesh
    typed = (
        use_abstract_mesh(inner_mesh(mesh, newly_manual)) if mesh.explicit_axes else nullcontext()
    )
    try:
        with typed:
            yield
    finally:
        state.axes, state.manual, state.manual_mesh = previous


def inner_mesh(mesh, newly_manual):
    """The mesh of types in the body, where the mapped axes are Manual."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(newly_manual, AxisType.Manual))


def manual_already() -> frozenset:
    """Mesh axes that surrounding shard_maps made Manual."""
    if state.manual_mesh is None:
        return frozenset()
    return frozenset(
        n for n, a in state.axes.items() if a.kind == "mesh" and n in state.manual_mesh.axis_names
    )


def local_aval(aval, mesh, spec, check_vma: bool, newly_manual=frozenset()):
    """Type of one device's shard of an operand; along Explicit axes that are not Manual it stays sharded."""
    if type(aval) is AbstractRef:
        return AbstractRef(
            local_aval(aval.inner_aval, mesh, spec, check_vma, newly_manual),
            aval.memory_space,
            aval.kind,
        )
    if not isinstance(aval, ShapedArray):
        return aval
    shape = tuple(s // parts(mesh, spec, d) for d, s in enumerate(aval.shape))
    mat = aval.mat.update(varying=aval.mat.varying | set(spec.axes())) if check_vma else INVARYING
    explicit = aval.explicit_sharding
    if explicit is not None:
        left = [tuple(a for a in axes if a not in newly_manual) for axes in entries(aval)]
        explicit = NamedSharding(inner_mesh(mesh, newly_manual), PartitionSpec(*left))
    return ShapedArray(
        shape,
        aval.dtype,
        aval.weak_type,
        sharding=explicit,
        mat=mat,
        memory_space=aval.memory_space,
    )


def global_aval(aval, mesh, spec, newly_manual, check_vma: bool, outer_varying=frozenset()):
    """Type of the whole result of which `aval` is one device's part."""
    if not isinstance(aval, ShapedArray):
        return aval
    shape = tuple(s * parts(mesh, spec, d) for d, s in enumerate(aval.shape))
    mat = (
        aval.mat.update(varying=aval.mat.varying - newly_manual)
        if check_vma
        else ManualAxisType(outer_varying, spec.unreduced, spec.reduced)
    )
    explicit = None
    if mesh.explicit_axes:
        explicit = NamedSharding(
            mesh.abstract_mesh,
            PartitionSpec(*((*spec.axes_of(d), *axes) for d, axes in enumerate(entries(aval)))),
        )
    return ShapedArray(
        shape,
        aval.dtype,
        aval.weak_type,
        sharding=explicit,
        mat=mat,
        memory_space=aval.memory_space,
    )


def parts(mesh, spec, d: int) -> int:
    """Into how many parts dimension `d` is sharded."""
    return math.prod([mesh.shape[a] for a in spec.axes_of(d)])


def unmentioned(mesh, spec, newly_manual) -> tuple:
    """Axes under manual control that a spec does not use, in mesh order."""
    used = set(spec.axes())
    return tuple(n for n in mesh.axis_names if n in newly_manual and n not in used)


# -- checks -----------------------------------------------------------------------------------------------


def resolve_mesh(mesh, axis_names):
    """The mesh of a call and the axes it makes Manual; checks nesting."""
    surrounding, taken = state.manual_mesh, manual_already()
    if mesh is None:
        mesh = surrounding if surrounding is not None else get_mesh()
        if mesh.empty:
            mesh = get_abstract_mesh()
        if not mesh.axis_names:
            raise ValueError(
                "shard_map got no mesh and the context mesh cannot be empty: pass mesh=..., or set one with "
                "xlab.set_mesh(mesh)"
            )
    elif surrounding is not None and mesh.shape_tuple != surrounding.shape_tuple:
        raise ValueError(
            f"The context mesh {surrounding} should match the mesh passed to shard_map {mesh}: inside a shard_map, "
            f"a nested one runs over other axes of the same mesh; leave out `mesh`"
        )
    elif surrounding is not None:
        mesh = surrounding
    here = get_abstract_mesh()
    if here.shape_tuple == mesh.shape_tuple and here.axis_types != mesh.axis_types:
        mesh = mesh.update(axis_types=here.axis_types)
    if isinstance(axis_names, str):
        raise TypeError(
            f"axis_names of shard_map should be a set of mesh axes, such as {{{axis_names!r}}}, got the string {axis_names!r}"
        )
    names = frozenset(axis_names) if axis_names else frozenset(mesh.axis_names) - taken
    if not names <= set(mesh.axis_names):
        raise ValueError(
            f"shard_map requires axis_names={set(names)} to be a subset of the mesh's axes {mesh.axis_names}"
        )
    if names & taken or not names:
        raise ValueError(
            f"The context mesh {surrounding} has the axes {sorted(map(str, taken))} under manual control already, so a "
            f"nested shard_map cannot take {sorted(map(str, names & taken)) or 'any of them'} again: give axis_names "
            f"the axes that are left"
        )
    return mesh, names


def check_mesh(mesh) -> None:
    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            neighbors.refusal(mesh)
            or f"shard_map requires a Mesh or AbstractMesh for its second argument, got {mesh!r} of type "
            f"{type(mesh).__name__}"
        )


def is_spec(x) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def check_spec_types(which: str, specs) -> None:
    for path, spec in _tree.flatten_with_path(specs, is_leaf=is_spec)[0]:
        if not is_spec(spec):
            raise TypeError(
                neighbors.refusal(spec)
                or f"shard_map {which} argument must be a pytree of PartitionSpec instances, but "
                f"{which}{_tree.keystr(path)} is {spec!r} of type {type(spec).__name__}. Write P({spec!r})."
            )


def check_specs(which: str, specs, mesh, names) -> None:
    """Every spec uses manual axes only, each for one dimension."""
    for spec in _tree.leaves(specs, is_leaf=is_spec):
        if spec is None:
            continue
        if UNCONSTRAINED in spec.partitions:
            raise ValueError(
                f"shard_map {which} argument must refer to an axis marked as manual ({set(names)}), but {which} leaves a dimension "
                f"UNCONSTRAINED in {spec}: a body that runs per device needs to know its part. Name an axis, or None."
            )
        for axis in spec.axes():
            if axis not in names:
                raise ValueError(
                    f"shard_map {which} argument must refer to an axis marked as manual ({set(names)}), but {which} "
                    f"refers to {axis!r} in {spec}. The mesh has the axes {mesh.axis_names}."
                )
        NamedSharding(mesh, PartitionSpec(*spec))  # raises where one axis shards two dimensions
        if (spec.unreduced or spec.reduced) and not mesh.are_all_axes_explicit:
            auto = [
                n for n, t in zip(mesh.axis_names, mesh.axis_types) if t is not AxisType.Explicit
            ]
            raise ValueError(
                f"unreduced/reduced axes in the shard_map {which} entry {spec} need values whose type says so outside "
                f"of shard_map, which takes a mesh of Explicit axes only (axes {auto} are not): psum inside instead"
            )


def inferred_specs(avals, mesh, names):
    """The `in_specs` that the types of the arguments imply, where all Manual axes were Explicit."""
    auto = [n for n in mesh.axis_names if n in names and n not in mesh.explicit_axes]
    if auto:
        raise TypeError(
            f"shard_map in_specs argument must be a pytree of PartitionSpec instances, but it was None: the axes {auto} are not "
            f"Explicit, so the types of the arguments do not say how these lie over them. Give in_specs."
        )
    return tuple(
        PartitionSpec(
            *(tuple(a for a in axes if a in names) for axes in entries(aval)),
            unreduced=aval.mat.unreduced,
            reduced=aval.mat.reduced,
        )
        if isinstance(aval, ShapedArray)
        else PartitionSpec()
        for aval in avals
    )


def check_divisible(avals, specs, mesh, names, arg_names) -> None:
    """Along Explicit axes arguments must lie already as their specs say: a shard_map over all axes moves no data."""
    explicit = names & set(mesh.explicit_axes)
    whole = names == set(mesh.axis_names)
    for aval, spec, arg in zip(avals, specs, arg_names):
        if not explicit or not isinstance(aval, ShapedArray):
            continue
        have = [tuple(a for a in axes if a in explicit) for axes in entries(aval)]
        want = [tuple(a for a in spec.axes_of(d) if a in explicit) for d in range(aval.ndim)]
        sums = (aval.mat.unreduced, aval.mat.reduced) == (spec.unreduced, spec.reduced)
        if (whole and have != want) or not sums:
            raise ValueError(
                f"in_specs passed to shard_map: {spec} does not match the specs of the input: {aval.sharding.spec} for argument `{arg}` of "
                f"type {aval}. `in_specs` is an optional argument so you can omit specifying it and shard_map will infer the in_specs from "
                f"the arguments. If you want to reshard your inputs, you can use `xlab.reshard` on the arguments and then pass those to "
                f"shard_map; or make the mesh with axis_types=AxisType.Auto."
            )


def rearranged(x, aval, spec, mesh, names):
    """An argument as its spec says, for a shard_map over some axes of a mesh: along the others it stays as it lies."""
    manual = names & set(mesh.explicit_axes)
    if not manual or names == set(mesh.axis_names) or not isinstance(aval, ShapedArray):
        return x
    have = entries(aval)
    want = tuple(
        (*(a for a in spec.axes_of(d) if a in manual), *(a for a in have[d] if a not in names))
        for d in range(aval.ndim)
    )
    if want == have:
        return x
    return bind_reshard(
        x, of_entries(mesh.abstract_mesh, want), mesh if isinstance(mesh, Mesh) else None
    )


def check_closed_over(consts) -> None:
    for c in consts:
        aval = aval_of(c)
        if getattr(aval, "explicit_sharding", None) is not None:
            raise NotImplementedError(
                f"Closing over inputs to shard_map where the input is sharded on `Explicit` axes is not implemented: got a "
                f"value of type {aval}. Pass it to the function as an argument."
            )


def check_inputs(name: str, avals, specs, mesh, arg_names) -> None:
    for aval, spec, arg in zip(avals, specs, arg_names):
        if not isinstance(aval, ShapedArray):
            continue
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function '{name}' was given an in_specs entry which is too long to be compatible with "
                f"the corresponding input value: in_specs is {spec}, which has length {len(spec)}, but the argument `{arg}` has "
                f"type {aval}, of rank {aval.ndim}. Give at most one entry per dimension."
            )
        for d in range(len(spec)):
            n = parts(mesh, spec, d)
            if n and aval.shape[d] % n:
                raise ValueError(
                    f"shard_map applied to the function '{name}' was given argument arrays with axis sizes that are not evenly "
                    f"divisible by the corresponding mesh axis sizes: the argument `{arg}` of type {aval} corresponds to in_specs "
                    f"of value {spec}, which maps array axis {d} (of size {aval.shape[d]}) to mesh axis "
                    f"{' and '.join(map(repr, spec.axes_of(d)))} (of size {n}), but {n} does not evenly divide {aval.shape[d]}. "
                    f"Pad the array to {-(-aval.shape[d] // n) * n}, or choose another spec or mesh."
                )


def check_output(name: str, aval, spec, path: str, mesh, names, check_vma: bool) -> None:
    if len(spec) > aval.ndim:
        raise ValueError(
            f"shard_map applied to the function '{name}' was given an out_specs entry which is too long to be compatible with the "
            f"corresponding output value: out_specs{path} is {spec}, which has length {len(spec)}, but the output has type {aval}, "
            f"of rank {aval.ndim}. For scalars use P() if they are the same everywhere, else give them an axis (x[None])."
        )
    if not check_vma:
        return
    left = [a for a in unmentioned(mesh, spec, names) if a in aval.mat.varying]
    if left:
        same = [a for a in unmentioned(mesh, spec, names) if a not in aval.mat.varying]
        raise ValueError(
            f"shard_map applied to the function '{name}' was given out_specs which require replication which can't be statically "
            f"inferred given the mesh {mesh}: out_specs{path} is {spec}, which implies that the corresponding output value is "
            f"replicated across mesh axis {', '.join(map(repr, left))}, but it has type {aval}"
            f"{f' and is the same only over {same}' if same else ''}. Name the axis in out_specs, reduce over it (psum, pmean), or, "
            f"if the values are equal for a reason the types cannot see, pass check_vma=False."
        )
    unfinished = (aval.mat.unreduced | aval.mat.reduced) & names
    if mesh.are_all_axes_explicit and (aval.mat.unreduced, aval.mat.reduced) == (
        spec.unreduced,
        spec.reduced,
    ):
        return
    if unfinished or spec.unreduced or spec.reduced:
        raise ValueError(
            f"shard_map applied to the function '{name}' returns a value of type {aval} for out_specs{path}={spec}: it is unreduced or "
            f"reduced over {sorted(map(str, unfinished))}, which a result outside cannot be. psum an unreduced value; cast a reduced "
            f"one with pcast(..., to='varying')."
        )
