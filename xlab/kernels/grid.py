"""Grids: how often a kernel runs, and what each of its runs sees."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.refs import AbstractRef
from xlab.core.trace import is_tracer
from xlab.kernels.blocks import BlockMapping, block_mapping, no_block_spec


class _DynamicGridDim:
    def __repr__(self):
        return "?"


dynamic_grid_dim = _DynamicGridDim()


@dataclass
class GridSpec:
    """A grid, and which blocks of the operands its steps see.

    Args:
        grid: the size of each axis: an int, or a tuple of ints, of traced int scalars, or of pairs (name, size).
            The last axis runs fastest. The empty grid is one step.
        in_specs: a `BlockSpec` per argument, structured as the arguments.
        out_specs: a `BlockSpec` per output, structured as the outputs.
        scratch_shapes: types of memory that lives from step to step, a sequence or (passed by keyword) a dictionary.

    Raises:
        ValueError: a size is no integer, or two axes have one name.

    Example:
        >>> from xlab.kernels import BlockSpec, GridSpec
        >>> GridSpec(4, in_specs=[BlockSpec((2,), lambda i: (i,))]).grid
        (4,)
    """

    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()
    grid_names: tuple | None = field(init=False, default=None)
    num_scalar_prefetch = 0

    def __post_init__(self):
        self.grid, self.grid_names = _sizes(self.grid)


class PrefetchGridSpec(GridSpec):
    """A grid whose first arguments are scalars that index maps and the kernel get as references.

    Args:
        num_scalar_prefetch: how many of the arguments these are.
        grid, in_specs, out_specs, scratch_shapes: as of `GridSpec`; `in_specs` are for the other arguments.

    Raises:
        ValueError: `num_scalar_prefetch` is no count, or a size of the grid no integer.

    Example:
        >>> from xlab.kernels import BlockSpec, PrefetchGridSpec
        >>> spec = PrefetchGridSpec(1, grid=2, in_specs=[BlockSpec((4,), lambda i, order: (order[i],))])
        >>> spec.num_scalar_prefetch
        1
    """

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        is_count = isinstance(num_scalar_prefetch, int) and not isinstance(
            num_scalar_prefetch, bool
        )
        if not is_count or num_scalar_prefetch < 0:
            raise ValueError(
                f"num_scalar_prefetch says how many of the first arguments are prefetched, an int of at least 0; got "
                f"{num_scalar_prefetch!r} of type {type(num_scalar_prefetch).__name__}"
            )
        self.num_scalar_prefetch = num_scalar_prefetch


def _sizes(grid) -> tuple[tuple, tuple | None]:
    """The sizes of the axes, and their names if any has one."""
    entries = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    names, sizes = [], []
    for entry in entries:
        named = isinstance(entry, (tuple, list)) and len(entry) == 2
        names.append(entry[0] if named else None)
        sizes.append(_size(entry[1] if named else entry, grid))
    given = [n for n in names if n is not None]
    for n in given:
        if given.count(n) > 1:
            raise ValueError(
                f"the grid {grid} has several axes of the name {n!r}: names are distinct"
            )
    return tuple(sizes), tuple(names) if any(n is not None for n in names) else None


def _size(n, grid):
    if is_tracer(n) or hasattr(n, "aval"):
        aval = aval_of(n)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise ValueError(
                f"the grid {grid} has a size of type {aval}: sizes are integer scalars"
            )
        return n
    try:
        if isinstance(n, (bool, str)):
            raise TypeError
        n = operator.index(n)
    except TypeError:
        raise ValueError(
            f"the grid {grid} has the size {n!r} of type {type(n).__name__}: sizes are integers (or traced integer scalars), "
            f"or pairs (name, size)"
        ) from None
    if n < 0:
        raise ValueError(f"the grid {grid} has the size {n}: sizes are not negative")
    return n


@dataclass(frozen=True, eq=False)
class GridMapping:
    """A grid made definite: its sizes, and the block mappings of a kernel's inputs, then its outputs.

    Operands of the primitive stand in the order captured references, dynamic sizes, prefetched scalars, inputs; references of the
    kernel in the order captured, prefetched, inputs, outputs, scratch.
    """

    grid: tuple
    grid_names: tuple | None
    block_mappings: tuple[BlockMapping, ...]
    scratch_avals: tuple[AbstractRef, ...]
    num_prefetch: int
    num_inputs: int
    num_outputs: int
    num_captured: int = 0
    vmapped_dims: tuple[int, ...] = ()

    def _key(self):
        return tuple(getattr(self, f) for f in self.__dataclass_fields__)

    def __eq__(self, other):
        return isinstance(other, GridMapping) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    @property
    def num_dynamic(self) -> int:
        """How many sizes are known only when the program runs."""
        return sum(n is dynamic_grid_dim for n in self.grid)

    @property
    def num_scratch(self) -> int:
        return len(self.scratch_avals)

    @property
    def static_grid(self) -> tuple[int, ...]:
        """The sizes.

        Raises:
            ValueError: one is known only when the program runs.
        """
        if self.num_dynamic:
            raise ValueError(
                f"the grid {self.grid} has sizes (?) that are known only when the program runs"
            )
        return self.grid

    @property
    def num_steps(self) -> int:
        return math.prod(self.static_grid)

    @property
    def seen_axes(self) -> tuple[int, ...]:
        """The axes of the grid that the kernel knows of: all but those that `vmap` added."""
        return tuple(i for i in range(len(self.grid)) if i not in self.vmapped_dims)

    @property
    def index_map_avals(self) -> tuple:
        """What index maps take: one int32 per axis, then the prefetched references."""
        return tuple(self.block_mappings[0].index_map.in_avals) if self.block_mappings else ()

    # Operands of the primitive.

    @property
    def captured_operands(self) -> slice:
        return slice(0, self.num_captured)

    @property
    def dynamic_operands(self) -> slice:
        return slice(self.num_captured, self.num_captured + self.num_dynamic)

    @property
    def prefetch_operands(self) -> slice:
        return slice(self.dynamic_operands.stop, self.dynamic_operands.stop + self.num_prefetch)

    @property
    def input_operands(self) -> slice:
        return slice(self.prefetch_operands.stop, self.prefetch_operands.stop + self.num_inputs)

    # References of the kernel.

    @property
    def captured_refs(self) -> slice:
        return slice(0, self.num_captured)

    @property
    def prefetch_refs(self) -> slice:
        return slice(self.num_captured, self.num_captured + self.num_prefetch)

    @property
    def input_refs(self) -> slice:
        return slice(self.prefetch_refs.stop, self.prefetch_refs.stop + self.num_inputs)

    @property
    def output_refs(self) -> slice:
        return slice(self.input_refs.stop, self.input_refs.stop + self.num_outputs)

    @property
    def scratch_refs(self) -> slice:
        return slice(self.output_refs.stop, self.output_refs.stop + self.num_scratch)

    @property
    def input_mappings(self) -> tuple[BlockMapping, ...]:
        return self.block_mappings[: self.num_inputs]

    @property
    def output_mappings(self) -> tuple[BlockMapping, ...]:
        return self.block_mappings[self.num_inputs :]

    def describe(self) -> str:
        """The grid and the block mappings as lines of text."""
        lines = [f"grid={self.grid}, names={self.grid_names}, vmapped_dims={self.vmapped_dims}"]
        for m in self.block_mappings:
            dims = ", ".join(map(str, m.block_shape))
            lines.append(f"{m.origin}: {m.array_aval} in blocks ({dims}), {m.block_aval}")
            lines.append(f"  index map {m.index_map}")
        lines += [f"scratch: {a}" for a in self.scratch_avals]
        return "\n".join(lines)

    def __repr__(self):
        return (
            f"GridMapping(grid={self.grid}, inputs={self.num_inputs}, outputs={self.num_outputs}, "
            f"scratch={self.num_scratch})"
        )


def grid_mapping(
    spec: GridSpec,
    in_avals: Sequence[AbstractRef],
    in_tree: Any,
    in_origins: Sequence[str],
    out_avals: Sequence[AbstractRef],
    out_tree: Any,
    out_origins: Sequence[str],
    scratch_avals: Sequence[AbstractRef],
) -> GridMapping:
    """The grid mapping of a call.

    Args:
        in_avals, in_tree, in_origins: the arguments, prefetched ones first: types, structure `(arg, ...)`, paths.
        out_avals, out_tree, out_origins: the outputs.
        scratch_avals: types of scratch.

    Raises:
        ValueError: a spec does not fit.
    """
    children = in_tree.children() if in_tree.num_leaves or in_tree.num_nodes > 1 else []
    k = spec.num_scalar_prefetch
    if k > len(children):
        raise ValueError(
            f"num_scalar_prefetch is {k}, but the kernel is called with {len(children)} arguments"
        )
    n = sum(c.num_leaves for c in children[:k])
    prefetch_tree = _tree.structure(
        tuple(_tree.unflatten(c, [0] * c.num_leaves) for c in children[:k])
    )
    rest_tree = _tree.structure(tuple(_tree.unflatten(c, [0] * c.num_leaves) for c in children[k:]))
    in_specs = _specs("in_specs", spec.in_specs, rest_tree, "the arguments")
    out_specs = _specs("out_specs", spec.out_specs, out_tree, "out_shape")
    mappings = [
        block_mapping(s, a, origin, spec.grid, in_avals[:n], prefetch_tree)
        for s, a, origin in zip(
            [*in_specs, *out_specs], [*in_avals[n:], *out_avals], [*in_origins[n:], *out_origins]
        )
    ]
    static = [s for s in spec.grid if isinstance(s, int)]
    if math.prod(static) > np.iinfo(np.int32).max:
        raise ValueError(
            f"the grid {spec.grid} has {math.prod(static)} steps, more than an int32 counts: make its blocks larger"
        )
    grid = tuple(s if isinstance(s, int) else dynamic_grid_dim for s in spec.grid)
    return GridMapping(
        grid,
        spec.grid_names,
        tuple(mappings),
        tuple(scratch_avals),
        n,
        len(in_avals) - n,
        len(out_avals),
    )


def _specs(name, specs, tree, what) -> list:
    if specs is no_block_spec or specs is None:
        return [no_block_spec] * tree.num_leaves
    if isinstance(specs, list):
        specs = tuple(specs)
    leaves, given = _tree.flatten(specs, is_leaf=lambda x: x is no_block_spec or x is None)
    wanted = tree
    if given == wanted:
        return leaves
    if name == "in_specs" and not isinstance(specs, tuple):
        raise ValueError(f"in_specs is a sequence with a spec per argument, got {specs!r}")
    raise ValueError(
        f"{name} has to be structured as {what} ({name}: {_length(given)}, {what}: {_length(wanted)}).\n  "
        f"{name}: {given}\n  {what}: {wanted}"
    )


def _length(tree) -> str:
    children = tree.children() if tree.num_nodes > 1 else None
    return "one leaf" if children is None else f"length {len(children)}"
