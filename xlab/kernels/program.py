"""The program that a kernel runs at one step of its grid: `program_id`, `num_programs`, and named grid axes.

While a kernel is traced its grid is `state.kernel`. Program ids are equations of the kernel's own jaxpr, also where loops and
branches inside use them: those get them as operands.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlab.core import source_info as _source_info
from xlab.core.avals import ShapedArray
from xlab.core.primitive import Primitive
from xlab.core.trace import Axis, bound_axes, set_trace, state
from xlab.core.typing import Array
from xlab.interpreters import ad, batching, costs, mlir

_INT32 = ShapedArray((), np.dtype(np.int32))


class KernelGrid:
    """The grid of the kernel being traced: a size per axis, None for one that is known only when the program runs."""

    __slots__ = ("_ids", "_sizes", "key", "sizes", "trace")

    def __init__(self, sizes: Sequence[int | None], names: Sequence[Any] | None, trace: Any):
        self.sizes, self.trace = tuple(sizes), trace
        self.key = (self.sizes, None if names is None else tuple(names))
        self._ids: dict[int, Any] = {}
        self._sizes: dict[int, Any] = {}

    def program_id(self, axis: int):
        return self._once(self._ids, program_id_p, axis)

    def num_programs(self, axis: int):
        size = self.sizes[axis]
        return size if size is not None else self._once(self._sizes, num_programs_p, axis)

    def _once(self, found, prim, axis):
        if axis not in found:
            with set_trace(self.trace):
                found[axis] = prim.bind(axis=axis)
        return found[axis]


@contextmanager
def kernel_grid(sizes: Sequence[int | None], names: Sequence[Any] | None = None) -> Iterator[None]:
    """Makes the current trace that of a kernel over a grid, whose named axes are bound, for a block."""
    previous, grid = (state.kernel, state.manual), KernelGrid(sizes, names, state.trace)
    axes = [
        Axis(name, size, "grid", index=lambda i=i: grid.program_id(i))
        for i, (name, size) in enumerate(zip(names or (), sizes))
        if name is not None
    ]
    # Over which mesh axes a value varies is the business of the call, not of what it does with blocks.
    state.kernel, state.manual = grid, None
    try:
        with bound_axes(axes):
            yield
    finally:
        state.kernel, state.manual = previous


def program_id(axis: int) -> Array:
    """The position of this program along an axis of the kernel's grid, an int32 scalar.

    Args:
        axis: the axis, a Python int from 0.

    Raises:
        ValueError: the grid has no such axis.
        RuntimeError: no kernel is being traced.

    Example:
        >>> import xlab
        >>> from xlab.kernels import BlockSpec, kernel_call, program_id
        >>> def kernel(o_ref):
        ...     o_ref[0] = program_id(0) * 10
        >>> out = xlab.ShapeDtypeStruct((3,), "int32")
        >>> kernel_call(kernel, out, grid=3, out_specs=BlockSpec((1,), lambda i: (i,)), interpret=True)().tolist()
        [0, 10, 20]
    """
    return _grid("program_id", axis).program_id(operator.index(axis))


def num_programs(axis: int) -> int | Array:
    """The size of an axis of the kernel's grid: a Python int, or an int32 scalar where it is known only at run time.

    Args:
        axis: the axis, a Python int from 0.

    Raises:
        ValueError: the grid has no such axis.
        RuntimeError: no kernel is being traced.
    """
    return _grid("num_programs", axis).num_programs(operator.index(axis))


def _grid(api: str, axis: int) -> KernelGrid:
    grid = state.kernel
    if grid is None:
        raise RuntimeError(
            f"{api}({axis}) at {_source_info.describe_caller()} is outside a kernel: only a function given to kernel_call (or "
            f"mpmd_map) runs over a grid"
        )
    if not 0 <= operator.index(axis) < len(grid.sizes):
        raise ValueError(
            f"{api}({axis}) at {_source_info.describe_caller()}: the grid {_text(grid.sizes)} has {len(grid.sizes)} axes, "
            f"numbered from 0"
        )
    return grid


def _text(sizes) -> str:
    return f"({', '.join('?' if n is None else str(n) for n in sizes)}{',' * (len(sizes) == 1)})"


def _position(name: str) -> Primitive:
    prim = Primitive(name)
    prim.def_abstract_eval(lambda *, axis: _INT32)
    mlir.lowerings.excuse(prim, "the step of the grid is put in its place before lowering")
    ad.defzero(prim)
    batching.primitive_batchers.excuse(prim, "it has no operands that could be batched")
    return prim


program_id_p = _position("program_id")
num_programs_p = _position("num_programs")

costs.register(costs.free, program_id_p, num_programs_p)
