"""`debug.inspect_array_sharding`: the sharding that the compiler chose for a value.

In a program over several devices the operation is a custom call without results, which the partitioner asks Python to split: what it
says of the operand is noted, nothing remains of the call. The executable hands what was noted to the callbacks once it is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import partitioners
from xlab.compile.placement import default_sharding
from xlab.core import effects as _effects
from xlab.core.array import KeyArray, is_native_array
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.trace import is_tracer
from xlab.errors import InvalidInputException
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.shardings import left_to_compiler, part_type
from xlab.interpreters.mlir.values import physical_aval
from xlab.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec, from_hlo_sharding

__all__ = ["ShardingInspection", "inspect_array_sharding", "inspect_sharding", "inspect_sharding_p"]


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Calls `callback(sharding)` with the sharding of an array, or of each array of a tree.

    Outside of a program it is called at once. Inside, the compiler decides: `callback` is called when the program has been compiled,
    once for every place where the value is computed, and not again when the program runs. Under `vmap` the sharding is that of the array
    with all examples; in a `shard_map`, that of a device's part.

    Args:
        value: an array, or a tree of them.
        callback: takes a `Sharding`: a `NamedSharding` over the mesh of the program where the mesh can say it. What it returns is
            ignored, what it raises is raised by the call that compiles.

    Raises:
        TypeError: for what is no array, or a `callback` that is no function.

    Example:
        >>> import xlab, xlab.numpy as jnp
        >>> inspect_array_sharding(jnp.ones(2), callback=lambda s: print(len(s.device_set)))
        1
        >>> mesh = xlab.make_mesh((2,), ("i",))
        >>> @xlab.jit
        ... def f(x):
        ...     inspect_array_sharding(jnp.sin(x).T, callback=lambda s: print(s.spec))
        ...     return x
        >>> _ = f(xlab.device_put(jnp.ones((2, 4)), NamedSharding(mesh, PartitionSpec("i"))))
        P(None, 'i')
    """
    if not callable(callback):
        raise TypeError(
            f"inspect_array_sharding takes a function as its callback, got {callback!r}"
        )
    inspect_sharding(value, lambda sharding, aval: callback(sharding), "inspect_array_sharding")


def inspect_sharding(value: Any, callback: Callable[[Any, Any], Any], name: str) -> None:
    """`inspect_array_sharding` for callbacks that also get the type of the value; `name` is for messages."""
    for x in _tree.leaves(value):
        if not (is_tracer(x) or is_native_array(x) or isinstance(x, KeyArray)):
            try:
                aval = aval_of(x).str_short(short_dtypes=True)
            except InvalidInputException:
                aval = repr(x)
            raise TypeError(
                f"{name} takes an array of xlab; given {type(x).__name__}, {aval}, which is on no device. "
                f"For a shape and a sharding there is visualize_sharding(shape, sharding)."
            )
        inspect_sharding_p.bind(x, callback=callback)


inspect_sharding_p = Primitive(
    "inspect_sharding", multiple_results=True, auto_pvary=False, context_dependent=True
)
inspect_sharding_p.def_effectful_abstract_eval(lambda x, **_: ((), {_effects.debug_effect}))


@inspect_sharding_p.def_impl
def _impl(x, *, callback):
    callback(x.sharding if hasattr(x, "sharding") else default_sharding(), aval_of(x))
    return []


@functools.partial(ad.primitive_jvps.__setitem__, inspect_sharding_p)
def _jvp(primals, tangents, **params):
    return inspect_sharding_p.bind(*primals, **params), []


@functools.partial(ad.primitive_transposes.__setitem__, inspect_sharding_p)
def _transpose(cts, *args, **params):
    return [None]  # a linear value exists only when the function runs forwards


@functools.partial(batching.primitive_batchers.__setitem__, inspect_sharding_p)
def _batch(args, dims, **params):
    return inspect_sharding_p.bind(*args, **params), []


class ShardingInspection:
    """One equation of a program: what its callback is told when the program has been compiled.

    Attributes:
        aval: type of the value.
        region: the mesh of the `shard_map` around it, or None.
        found: the tilings that the compiler chose for the value, where it is asked; it notes them here in each compile.
    """

    def __init__(self, callback: Callable[[Any, Any], Any], aval: Any, region: Any, asked: bool):
        self.callback, self.aval, self.region, self.asked = callback, aval, region, asked
        self.found: list[Any] = []

    def __call__(self, operands: Sequence, results: Sequence) -> tuple[str, Sequence, Sequence]:
        """What the compiler calls to split the operation: nothing is left of it."""
        (tiling,) = operands
        self.found.append(tiling)
        part = part_type(self.aval, tiling)
        return f"module {{ func.func @main(%x: {part}) {{ return }} }}", operands, results

    def report(self, one: Any, chosen: Callable[[Any, Any], Any]) -> None:
        """Calls the callback with every sharding that was found.

        Args:
            one: the sharding of values in a program for one device, or None.
            chosen: `(tiling, type)` to the sharding that has this tiling.
        """
        if one is not None:
            shardings = [one]
        elif not self.asked:
            shardings = [NamedSharding(self.region, PartitionSpec())]
        elif self.region is not None:
            shardings = list(map(self._in_region, self.found))
        else:
            shardings = [chosen(tiling, physical_aval(self.aval)) for tiling in self.found]
        self.found = []
        for sharding in dict.fromkeys(shardings):  # the compiler may ask again
            self.callback(sharding, self.aval)

    def _in_region(self, tiling: Any) -> NamedSharding:
        """The sharding of a device's part, which is tiled over the axes that are left to the compiler."""
        mesh = self.region
        left = [(n, size) for n, size in mesh.shape.items() if n not in mesh.manual_axes]
        free = AbstractMesh(tuple(size for _, size in left), tuple(n for n, _ in left))
        spec = from_hlo_sharding(tiling, free, physical_aval(self.aval).ndim)
        return NamedSharding(mesh, PartitionSpec() if spec is None else spec)


def _lowering(ctx, x, *, callback):
    region = None
    if ctx.manual:
        names = ctx.mesh.axis_names
        kinds = zip(names, ctx.mesh.axis_types)
        region = ctx.mesh.update(
            axis_types=tuple(AxisType.Manual if n in ctx.manual else t for n, t in kinds)
        )
    # Where every axis is manual, no compiler has a choice: a device has the whole of its part.
    asked = left_to_compiler(ctx)
    inspection = ShardingInspection(callback, ctx.avals_in[0], region, asked)
    ctx.module.inspections.append(inspection)
    if asked:
        ctx.op0(
            f"stablehlo.custom_call @{partitioners.TARGET}({x}) {{api_version = 2 : i32, has_side_effect = true, "
            f'backend_config = "{partitioners.add(inspection)}"}} : ({ctx.types_in()}) -> ()'
        )
    return []


mlir.register_text_lowering(inspect_sharding_p, _lowering)

costs.register(costs.host, inspect_sharding_p)
