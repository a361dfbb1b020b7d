"""`vmap`: turns a function of one example into a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from xlab import tree as _tree
from xlab.compile.arguments import stand_ins
from xlab.compile.ref_discharge import check_arguments
from xlab.compile.tracing import argument_names, function_name, made_of
from xlab.config import idle_argument
from xlab.core.avals import aval_of, explicit_types
from xlab.core.hi_types import HiType, MappingSpec, StackedType, is_high
from xlab.core.refs import is_ref
from xlab.core.trace import Axis, check_axis_name, state
from xlab.interpreters import batching, vmappable
from xlab.transforms.arguments import check_callable, wraps


def vmap(
    fun: Callable,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable:
    """Maps a function over array axes, all examples at once.

    Args:
        fun: function of one example.
        in_axes: per argument, which axis holds the examples: an int, None for "the same for all", or a pytree prefix.
        out_axes: where the examples' axis goes in the results, likewise.
        axis_name: name for collectives inside `fun`.
        spmd_axis_name: mesh axis, or tuple of them, that the examples are laid over: sharding constraints inside `fun` say so, and
            `shard_map`s inside shard the examples along it.
        axis_size: number of examples, needed only when no argument is mapped.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> print(xlab.vmap(jnp.dot)(jnp.ones((3, 2)), jnp.ones((3, 2))))
        [2. 2. 2.]
    """
    idle_argument("vmap", "sum_match", sum_match, "results are matched by out_axes")
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if in_axes is not None and type(in_axes) not in (int, tuple) and not _is_axis(in_axes):
        raise TypeError(
            f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
            f"passed to the function, but got {in_axes}."
        )

    check_axis_name(axis_name, "vmap")
    spmd = (
        ()
        if spmd_axis_name is None
        else spmd_axis_name
        if isinstance(spmd_axis_name, tuple)
        else (spmd_axis_name,)
    )

    @made_of(fun, "vmap", in_axes, out_axes, axis_name, axis_size, spmd)
    @wraps(fun)
    def vmap_fun(*args, **kwargs):
        name = function_name(fun)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional "
                f"arguments passed to {name}, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        flat, in_tree = _tree.flatten((args, kwargs))
        axes = _tree.broadcast_prefix(
            (
                in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args),
                dict.fromkeys(kwargs, 0),
            ),
            (args, kwargs),
            is_leaf=lambda x: x is None,
        )
        if vmappable.batched_in_front and any(a not in (0, None) for a in axes):
            places = _tree.unflatten(in_tree, list(range(len(flat))))
            vmappable.check_in_front(name, places, axes, "in_axes")
        # Classes that say themselves what an example of them is.
        own = [vmappable.is_vmappable(x) for x in flat]
        dims = [None if o else _dim(x, a, name) for x, a, o in zip(flat, axes, own)]
        size = _size(flat, dims, axis_size, name, in_tree)
        if any(map(is_ref, flat)):
            check_arguments(name, flat, lambda: argument_names(fun, in_tree, len(flat)))
        out_tree = trace = None

        def flat_fun(*leaves):
            nonlocal out_tree, trace
            trace = state.trace
            if any(own):
                leaves = [
                    vmappable.to_example(trace, x, a) if o else x
                    for x, a, o in zip(leaves, axes, own)
                ]
            a, k = _tree.unflatten(in_tree, leaves)
            leaves, out_tree = _tree.flatten(fun(*a, **k))
            return leaves

        flat_fun.__name__ = name
        axis = Axis(
            axis_name,
            size,
            "vmap",
            spmd=spmd,
            explicit_mesh_axes=_explicit_mesh_axes(flat, dims, name)
            if explicit_types.in_use
            else None,
        )
        batched, out_dims = batching.batch_flat(flat_fun, axis, dims)
        outs = batched(*flat)
        if out_axes is None or isinstance(out_axes, int):
            wanted = [out_axes] * len(outs)
        else:
            skeleton = _tree.unflatten(out_tree, stand_ins(out_tree))
            wanted = _tree.broadcast_prefix(out_axes, skeleton, is_leaf=lambda x: x is None)
        if vmappable.batched_in_front and any(w not in (0, None) for w in wanted):
            places = _tree.unflatten(out_tree, list(range(len(outs))))
            vmappable.check_in_front(name, places, wanted, "out_axes")
        results = []
        for x, d, want in zip(outs, out_dims.dims, wanted):
            if vmappable.is_vmappable(x):
                results.append(
                    vmappable.from_example(trace, batching.move_batch_dim_to, size, x, want)
                )
            elif want is None:
                if d is not None:
                    raise ValueError(
                        f"vmap of {name} has out_axes=None for a result that depends on the mapped arguments: its "
                        f"values differ between examples. Give it an axis, or reduce over the examples."
                    )
                results.append(x)
            elif is_high(aval_of(x)):
                results.append(batching.move_batch_dim_to(x, d, size, want))
            else:
                ndim = aval_of(x).ndim + (d is None)
                if not -ndim <= want < ndim:
                    raise ValueError(
                        f"vmap of {name}: out_axes {want} is out of bounds for a batched result with {ndim} "
                        f"dimensions"
                    )
                with batching.batch_sharding_context(axis):
                    results.append(batching.move_batch_dim_to(x, d, size, want % ndim))
        return _tree.unflatten(out_tree, results)

    return vmap_fun


def _explicit_mesh_axes(flat, dims, name):
    """The Explicit sharding of the mapped dimension as `(mesh, axes)`; None where it is not sharded."""
    found = {}
    for x, d in zip(flat, dims):
        if d is not None and not is_high(aval := aval_of(x)):
            found.setdefault(
                aval.explicit_sharding.spec.axes_of(d)
                if aval.explicit_sharding is not None
                else (),
                aval,
            )
    if len(found) > 1:
        raise ValueError(
            f"Mapped away dimension of inputs passed to vmap should be sharded the same. Got inconsistent axis specs for "
            f"{name}: {' vs '.join(str(axes[0] if len(axes) == 1 else axes or None) for axes in found)}, in arguments of types "
            f"{', '.join(map(str, found.values()))}. Bring them to one sharding with xlab.reshard."
        )
    return next(((aval.explicit_sharding.mesh, axes) for axes, aval in found.items() if axes), None)


def _is_axis(x) -> bool:
    return all(
        a is None or isinstance(a, int | MappingSpec) or vmappable.is_spec(a)
        for a in _tree.leaves(x, is_leaf=lambda v: v is None)
    )


def _dim(x, axis, name):
    if axis is None:
        return None
    aval = aval_of(x)
    if isinstance(aval, HiType):
        return aval.leading_axis_spec() if axis == 0 else axis
    if isinstance(axis, MappingSpec):
        raise ValueError(
            f"vmap of {name} got {axis} among its axes for an argument of type {aval}: a MappingSpec is for values of hi types, arrays take the number "
            f"of an axis"
        )
    ndim = aval.ndim
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise ValueError(
            f"vmap of {name} was asked to map axis {axis} of an argument of type {aval_of(x)}, which has {ndim} "
            f"dimension{'s' if ndim != 1 else ''}. Use in_axes=None for arguments that are the same for all."
        )
    return axis % ndim


def _size(flat, dims, axis_size, name, in_tree) -> int:
    sizes = {}
    for i, (x, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        if isinstance(aval := aval_of(x), StackedType):
            sizes.setdefault(aval.size_of(d), []).append(i)
        elif not is_high(aval):
            sizes.setdefault(aval.shape[d], []).append(i)
    if axis_size is not None:
        sizes.setdefault(axis_size, []).append(None)
    if not sizes and any(d is not None for d in dims):
        raise ValueError(
            f"vmap of {name} maps values of hi types only, such as {aval_of(next(x for x, d in zip(flat, dims) if d is not None))}, which do not "
            f"say how many examples they have: give axis_size"
        )
    if not sizes:
        raise ValueError(
            f"vmap of {name} must have at least one non-None value in in_axes, or an axis_size"
        )
    if len(sizes) > 1:
        paths = [*map(_tree.keystr, _tree.leaf_paths(in_tree))]
        parts = [
            f"{paths[i] if i is not None else 'axis_size'} has size {n}"
            for n, where in sizes.items()
            for i in where[:3]
        ]
        raise ValueError(
            f"vmap got inconsistent sizes for array axes to be mapped by {name}: {'; '.join(parts)}"
        )
    return next(iter(sizes))
