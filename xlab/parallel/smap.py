"""`smap`: a `shard_map` over one mesh axis, with array axes in place of specs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name
from xlab.core.avals import aval_of
from xlab.parallel.shard_map import Mapped
from xlab.sharding import PartitionSpec, get_abstract_mesh


class _Infer:
    def __repr__(self):
        return "Infer"


Infer = _Infer()


def smap(
    f: Callable | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Hashable
) -> Callable:
    """Maps a function over one axis of the current mesh: each device sees a part of the mapped arguments.

    Args:
        f: the function of one device; collectives inside speak of the mesh axis by its name.
        in_axes: which array axis is sharded: an int or None for all arguments, or a tuple with an entry (or pytree of them) each. May
            be left out where the mesh axis is Explicit: then the types of the arguments say it.
        out_axes: where the parts are put together in the results, likewise.
        axis_name: the mesh axis.

    Returns:
        A function of whole arrays, to be called under `set_mesh`. Without `f`, a decorator.

    Example:
        >>> import xlab
        >>> with xlab.set_mesh(xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))):
        ...     float(xlab.smap(lambda x: xlab.lax.psum(x.sum(), "i"), in_axes=0, out_axes=None, axis_name="i")(xlab.numpy.ones(4)))
        4.0
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if isinstance(axis_name, (tuple, list, set, frozenset)):
        raise TypeError(
            f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}: it maps over one mesh axis; use "
            f"shard_map for several"
        )
    if not (in_axes is Infer or in_axes is None or isinstance(in_axes, (int, tuple))):
        raise TypeError(
            f"smap in_axes must be an int, None, left out, or a tuple of entries corresponding to the positional "
            f"arguments passed to the function, but got {in_axes}."
        )

    known: dict[tuple, _OneAxis] = {}

    @functools.wraps(f)
    def mapped(*args):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(
                "The context mesh cannot be empty. Use `xlab.set_mesh(mesh)` to enter into a mesh context"
            )
        leaves, structure = _tree.flatten(args)
        if in_axes is Infer:
            if axis_name in mesh.axis_names and axis_name not in mesh.explicit_axes:
                raise TypeError(
                    f"in_axes was not specified when axis_name={axis_name!r} was of type Auto: only types over Explicit mesh "
                    f"axes say how an argument is sharded"
                )
            specs = None
        else:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            flat = _tree.flatten_prefix("smap in_axes", axes, args, is_leaf=_is_axis)
            specs = tuple(_spec(a, aval_of(x).ndim, axis_name) for a, x in zip(flat, leaves))
        key = (structure, specs, mesh)
        if key not in known:
            known[key] = _OneAxis(
                f, None if specs is None else _tree.unflatten(structure, specs), out_axes, axis_name
            )
        return known[key](*args)

    return mapped


class _OneAxis:
    """A `shard_map` whose specs of results are found when the body has run."""

    def __init__(self, f, in_specs, out_axes, axis_name):
        self.out_axes, self.axis_name, self.out = out_axes, axis_name, None

        @functools.wraps(f)
        def run(*parts):
            self.out = f(*parts)
            return self.out

        self.mapped = Mapped(run, None, in_specs, self.out_specs, {axis_name}, True)
        self.whole = jit(lambda *args: self.mapped.stage(args), name=function_name(f))

    def __call__(self, *args):
        return self.mapped(args, self.whole)

    def out_specs(self):
        leaves, structure = _tree.flatten(self.out)
        flat = _tree.flatten_prefix("smap out_axes", self.out_axes, self.out, is_leaf=_is_axis)
        specs = [_spec(a, aval_of(x).ndim, self.axis_name) for a, x in zip(flat, leaves)]
        self.out = None
        return _tree.unflatten(structure, specs)


def _is_axis(x) -> bool:
    return x is None or isinstance(x, int)


def _spec(axis, ndim: int, name) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    if not isinstance(axis, int):
        raise TypeError(f"smap axes are ints or None, got {axis!r} of type {type(axis).__name__}")
    if not -ndim <= axis < ndim:
        raise ValueError(f"smap was asked to shard axis {axis} of a value with {ndim} dimensions")
    return PartitionSpec(*[None] * (axis % ndim), name)
