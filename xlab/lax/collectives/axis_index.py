"""`axis_index` and `axis_size`: the rank of a device (or example) along named axes, and their size."""

from __future__ import annotations

import math

import numpy as np

from xlab.core.avals import INVARYING, ManualAxisType, ShapedArray
from xlab.core.primitive import Primitive
from xlab.core.trace import find_axis, state
from xlab.core.typing import Array, AxisName
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax.arithmetic import add, mul
from xlab.lax.collectives.common import axis_names, effects_of
from xlab.lax.creation import full, iota

__all__ = ["axis_index", "axis_size"]


def axis_index(axis_name: AxisName) -> Array:
    """This device's rank along a named axis, an int32 scalar; along a tuple of axes the last one counts fastest.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: xlab.lax.axis_index("i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [0 1 2]
    """
    if not isinstance(axis_name, (tuple, list)):
        return _index(axis_name)
    names = axis_names(axis_name, "axis_index")
    if not names:
        return full((), 0, np.int32)
    index = _index(names[0])
    for name in names[1:]:
        index = add(mul(index, np.int32(find_axis(name).size)), _index(name))
    return index


def _index(name):
    axis = find_axis(name, "axis_index")
    return axis_index_p.bind(axis_name=name) if axis.index is None else axis.index()


def axis_size(axis_name: AxisName) -> int:
    """Number of devices (or examples) along named axes, a Python int.

    Example:
        >>> import xlab
        >>> print(xlab.vmap(lambda x: x * xlab.lax.axis_size("i"), axis_name="i")(xlab.lax.iota("float32", 3)))
        [0. 3. 6.]
    """
    names = axis_names(axis_name, "axis_size")
    sizes = [find_axis(n, "axis_size").size for n in names]
    if None in sizes:
        raise ValueError(
            f"the size of the axis {names[sizes.index(None)]!r} of a kernel's grid is known only when the program runs: use "
            f"xlab.kernels.num_programs, which gives it as an array"
        )
    return math.prod(sizes)


def _single(axis_name):
    """The name that the primitive was bound with, perhaps alone in a tuple."""
    if not isinstance(axis_name, tuple) or axis_name in state.axes:
        return axis_name
    if len(axis_name) != 1:
        raise NotImplementedError(
            f"the primitive axis_index takes one axis name, got {axis_name}: call lax.axis_index, which adds up the ranks along several"
        )
    return axis_name[0]


def _aval(*, axis_name):
    axis_name = _single(axis_name)
    axis = find_axis(axis_name, "axis_index")
    varies = state.manual is not None and axis.kind == "mesh" and axis_name in state.manual
    return (
        ShapedArray(
            (), np.dtype(np.int32), mat=ManualAxisType((axis_name,)) if varies else INVARYING
        ),
        effects_of((axis_name,)),
    )


def _batch(axis, operands, dims, *, axis_name):
    if _single(axis_name) != axis.name:
        return axis_index_p.bind(axis_name=axis_name), None
    return iota(np.int32, axis.size), 0


def _lowering(ctx, *, axis_name):
    mesh = ctx.mesh
    if isinstance(axis_name, tuple) and len(axis_name) == 1:
        (axis_name,) = axis_name
    if mesh is None or axis_name not in mesh.axis_names:
        raise NameError(
            f"axis_index: the axis {axis_name!r} is not an axis of the mesh the program runs on"
        )
    size = mesh.shape[axis_name]
    if size == 1:
        return ctx.constant(np.zeros((), np.int32), ShapedArray((), np.dtype(np.int32)))
    left = [n for n in mesh.axis_names if n not in ctx.manual]
    if not left:
        return _rank(ctx, mesh, axis_name, size)
    # partition_id is legal only where every axis is manual.
    outer, ctx.lines = ctx.lines, []
    ctx._fn.constants.append({})
    try:
        rank = _rank(ctx, mesh, axis_name, size)
        ctx.lines.append(f"    sdy.return {rank} : tensor<i32>")
        body = "\n".join(ctx.lines)
    finally:
        ctx._fn.constants.pop()
        ctx.lines = outer
    names = ", ".join(f'"{n}"' for n in left)
    symbol = ctx.module.meshes.symbol(mesh)
    return ctx.op(
        f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{symbol}, []>] manual_axes={{{names}}} () {{\n"
        f"{body}\n    }} : () -> tensor<i32>"
    )


def _rank(ctx, mesh, axis_name, size):
    after = mesh.axis_names[mesh.axis_names.index(axis_name) + 1 :]
    unsigned = ShapedArray((), np.dtype(np.uint32))
    step = ctx.constant(np.asarray(math.prod([mesh.shape[n] for n in after]), np.uint32), unsigned)
    modulus = ctx.constant(np.asarray(size, np.uint32), unsigned)
    here = ctx.op("stablehlo.partition_id : tensor<ui32>")
    block = ctx.op(f"stablehlo.divide {here}, {step} : tensor<ui32>")
    rank = ctx.op(f"stablehlo.remainder {block}, {modulus} : tensor<ui32>")
    return ctx.op(f"stablehlo.convert {rank} : (tensor<ui32>) -> tensor<i32>")


axis_index_p = Primitive("axis_index", auto_pvary=False, context_dependent=True)
axis_index_p.def_effectful_abstract_eval(_aval)
ad.defzero(axis_index_p)
batching.axis_primitive_batchers[axis_index_p] = _batch
mlir.register_text_lowering(axis_index_p, _lowering)

costs.register(costs.free, axis_index_p)
