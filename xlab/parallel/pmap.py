"""`pmap`: one call per device, along one mapped axis; a `shard_map` over a mesh of one axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend import client as _client
from xlab.compile.jit import jit
from xlab.compile.tracing import function_name
from xlab.core.avals import aval_of
from xlab.lax.shape import expand_dims, squeeze
from xlab.parallel.shard_map import Mapped
from xlab.sharding import Mesh, PartitionSpec

__all__ = ["pmap"]

_PRIVATE = "_internal_pmap_axis_name"


def pmap(fun: Callable, axis_name=None, *, in_axes=0, out_axes=0, static_broadcasted_argnums: int | Sequence[int] = (),
         devices=None, backend=None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
         global_arg_shapes=None):
    """Runs a function on several devices at once, one example of the mapped axis on each.

    Args:
        fun: function of one example.
        axis_name: name of the mapped axis, for collectives.
        in_axes, out_axes: position of the mapped axis in arguments and results, as for `vmap`; None for values that are the same.
        static_broadcasted_argnums: arguments that are Python values, part of the program.
        devices: where to run; by default the first devices.
        axis_size: size of the mapped axis, normally read off the arguments.
        donate_argnums: arguments whose buffers results may take over.

    Example:
        >>> import numpy as np, xlab
        >>> print(xlab.pmap(lambda x: xlab.lax.sin(x))(np.zeros((1, 2), np.float32)))
        [[0. 0.]]
    """
    if not callable(fun):
        raise TypeError(f"pmap takes a function, got {fun!r} of type {type(fun).__name__}")
    static = (static_broadcasted_argnums,) if isinstance(static_broadcasted_argnums, int) else tuple(static_broadcasted_argnums)
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
    both = sorted(set(static) & set(donated))
    if both:
        raise ValueError(f"pmap of {function_name(fun)}: arguments {both} are both static and donated; a static argument has no "
                         f"buffer to donate")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for leaf in _tree.leaves(axes, is_leaf=lambda a: a is None):
            if leaf is not None and type(leaf) is not int:
                raise TypeError(f"pmap {what} leaves must be int or None, got {leaf!r} of type {type(leaf).__name__}")
    name = _PRIVATE if axis_name is None else axis_name
    mapped = _Pmapped(fun, name, in_axes, out_axes, static, devices, backend, axis_size)

    def run(*args, **kwargs):
        return mapped.call(args, kwargs)
    compiled = jit(run, static_argnums=static or None, donate_argnums=donated or None, name=function_name(fun))

    @functools.wraps(fun)
    def pmap_fun(*args, **kwargs):
        if static and max(static) >= len(args):
            raise ValueError(f"pmapped function {function_name(fun)} has static_broadcasted_argnums={static} but was called with only "
                             f"{len(args)} positional argument{'s' if len(args) != 1 else ''}. All static broadcasted arguments must "
                             f"be passed positionally.")
        return compiled(*args, **kwargs)
    pmap_fun.lower = compiled.lower
    pmap_fun.trace = compiled.trace
    return pmap_fun


class _Pmapped:
    """A pmapped function: reads the axis size off the arguments and runs a `shard_map`."""

    def __init__(self, fun, name, in_axes, out_axes, static, devices, backend, axis_size):
        self.fun, self.name, self.in_axes, self.out_axes, self.static = fun, name, in_axes, out_axes, static
        self.devices = tuple(devices) if devices is not None else None
        self.backend, self.axis_size = backend, axis_size

    def call(self, args, kwargs):
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.static)
        in_axes = self.in_axes
        if isinstance(in_axes, (tuple, list)):
            if len(in_axes) != len(args):
                raise ValueError(f"pmap in_axes must have one entry per positional argument of {function_name(self.fun)}: got "
                                 f"{len(in_axes)} entries for {len(args)} arguments")
            in_axes = tuple(a for i, a in enumerate(in_axes) if i not in self.static)
        else:
            in_axes = (in_axes,) * len(dynamic)
        flat, in_tree = _tree.flatten((dynamic, kwargs))
        axes = _tree.flatten_prefix("pmap in_axes", (in_axes, dict.fromkeys(kwargs, 0)), (dynamic, kwargs),
                                    is_leaf=lambda a: a is None)
        axes = [_canonical(a, aval_of(x).ndim, "in_axes", self.fun) for x, a in zip(flat, axes)]
        size = self.size_of(flat, axes)
        mesh = Mesh(np.array(self.chosen(size), dtype=object), (self.name,))
        out: dict[str, Any] = {}

        def body(*blocks):
            examples = [x if a is None else squeeze(x, (a,)) for x, a in zip(blocks, axes)]
            a, k = _tree.unflatten(in_tree, examples)
            a = list(a)
            for i in sorted(self.static):
                a.insert(i, args[i])
            results, out["tree"] = _tree.flatten(self.fun(*a, **k))
            skeleton = _tree.unflatten(out["tree"], list(range(len(results))))
            wanted = _tree.flatten_prefix("pmap out_axes", self.out_axes, skeleton, is_leaf=lambda v: v is None)
            out["axes"] = [_canonical(w, aval_of(x).ndim + 1, "out_axes", self.fun) for x, w in zip(results, wanted)]
            return tuple(x if w is None else expand_dims(x, (w,)) for x, w in zip(results, out["axes"]))

        specs = tuple(self.spec(a) for a in axes)
        results = Mapped(body, mesh, specs, lambda: tuple(self.spec(w) for w in out["axes"]), frozenset(), False).stage(tuple(flat))
        return _tree.unflatten(out["tree"], results)

    def spec(self, axis) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, self.name)

    def size_of(self, flat, axes) -> int:
        sizes = sorted({aval_of(x).shape[a] for x, a in zip(flat, axes) if a is not None})
        if not sizes:
            if self.axis_size is None:
                raise ValueError(f"pmap of {function_name(self.fun)} requires at least one mapped argument: every argument has in_axes=None")
            return self.axis_size
        if len(sizes) > 1 or (self.axis_size is not None and self.axis_size != sizes[0]):
            listed = [f"{aval_of(x)} along axis {a}" for x, a in zip(flat, axes) if a is not None]
            raise ValueError(f"pmap of {function_name(self.fun)} got inconsistent sizes for array axes to be mapped: {'; '.join(listed)}"
                             + (f"; axis_size={self.axis_size}" if self.axis_size is not None else ""))
        return sizes[0]

    def chosen(self, size):
        available = self.devices if self.devices is not None else _client.local_devices(backend=self.backend)
        if size > len(available):
            raise ValueError(f"compiling pmap of {function_name(self.fun)} requires {size} devices, one for each example, but only "
                             f"{len(available)} are available: set config.num_cpu_devices before the first use of a device, or map "
                             f"fewer examples (vmap the rest)")
        if self.devices is not None and size != len(available):
            raise ValueError(f"Leading axis size that is pmapped over is {size} and devices has {len(available)} entries: they must be "
                             f"equal")
        return available[:size]


def _canonical(axis, ndim, what, fun):
    if axis is None:
        return None
    if not -ndim <= axis < ndim:
        raise ValueError(f"pmap of {function_name(fun)}: {what} entry {axis} is out of range for a value with {ndim} dimensions")
    return axis % ndim
