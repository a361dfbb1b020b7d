"""`emit_pipeline`: a grid of steps inside of a kernel, on blocks of references that the kernel has as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import source_info as _source_info
from xlab.core.avals import aval_of
from xlab.core.trace import state
from xlab.kernels.access import load, store
from xlab.kernels.blocks import Blocked, BlockSpec, Element, Squeezed, as_block_dim, no_block_spec
from xlab.kernels.helpers import loop
from xlab.kernels.memory import MemoryRef, MemorySpace
from xlab.kernels.scoped import run_scoped
from xlab.lax.indexers import Slice, ds


def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: int | Sequence[Any],
    in_specs: Any = (),
    out_specs: Any = (),
    explicit_indices: bool = False,
) -> Callable[..., None]:
    """A loop over a grid inside of a kernel: each step brings blocks of references into local memory and calls `body` on them.

    What was written to blocks of outputs is brought back after each step; they start as what the references hold, so that they may be
    accumulated. Steps run one after the other, and results do not depend on how hardware would overlap them.

    Args:
        body: called with references to the blocks of inputs and outputs, then with `scratches`. In it `program_id` and `num_programs` are
            those of this grid.
        grid: sizes of the grid's axes, which may be values of the program.
        in_specs: a `BlockSpec` per input. Block shapes have ints, None, `Blocked`, `Squeezed` and `Element`; index maps may use values of
            the kernel.
        out_specs: a `BlockSpec` per output.
        explicit_indices: give `body` the position in the grid as its first argument.

    Returns:
        `pipeline(*refs, scratches=())`, called with the references of inputs and outputs.

    Raises:
        ValueError: as many references as specs are not given, or a spec does not fit its reference.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import BlockSpec, emit_pipeline, kernel_call
        >>> def kernel(x_ref, o_ref):
        ...     def double(x_block, o_block):
        ...         o_block[...] = x_block[...] * 2
        ...     block = BlockSpec((2,), lambda i: (i,))
        ...     emit_pipeline(double, grid=3, in_specs=[block], out_specs=[block])(x_ref, o_ref)
        >>> kernel_call(kernel, xlab.ShapeDtypeStruct((6,), "int32"), interpret=True)(jnp.arange(6)).tolist()
        [0, 2, 4, 6, 8, 10]
    """
    sizes = tuple(grid) if isinstance(grid, Sequence) else (grid,)
    inputs, outputs = _as_list(in_specs), _as_list(out_specs)

    def pipeline(*refs: Any, scratches: Sequence[Any] = ()) -> None:
        specs = [*inputs, *outputs]
        if len(refs) != len(specs):
            raise ValueError(
                f"the pipeline of {_source_info.describe_function(body)} has {len(inputs)} in_specs and {len(outputs)} out_specs, and was "
                f"called with {len(refs)} references"
            )
        blocks = [_Block(spec, ref, k) for k, (spec, ref) in enumerate(zip(specs, refs))]

        def step(k):
            position, count = [], 1
            for n in reversed(sizes):
                position.insert(0, k // count % n)
                count = count * n
            places = [b.place(position) for b in blocks]

            def with_buffers(*buffers):
                for buffer, ref, (at, mask) in zip(buffers, refs, places):
                    buffer[...] = load(ref, at, mask=mask)
                with _grid(sizes, position):
                    body(*([tuple(position)] if explicit_indices else []), *buffers, *scratches)
                n = len(inputs)
                for buffer, ref, (at, mask) in zip(buffers[n:], refs[n:], places[n:]):
                    store(ref, at, buffer[...], mask=mask)

            run_scoped(with_buffers, *(b.type for b in blocks))

        total: Any = 1
        for n in sizes:
            total = total * n
        loop(0, total)(step)

    return pipeline


def _as_list(specs) -> list:
    return list(specs) if isinstance(specs, (list, tuple)) else [specs]


class _Block:
    """The blocks of one reference."""

    def __init__(self, spec, ref, k):
        self.name = f"reference {k} of a pipeline"
        self.shape = ref.shape
        spec = BlockSpec() if spec is None or spec is no_block_spec else spec
        shape = self.shape if spec.block_shape is None else spec.block_shape
        if len(shape) != len(self.shape):
            raise ValueError(
                f"the block shape {tuple(shape)} for {self.name} has {len(shape)} entries, the reference has the shape {self.shape}"
            )
        self.dims = [as_block_dim(d, self.name) for d in shape]
        for d in self.dims:
            if type(d) not in (Blocked, Squeezed, Element) or getattr(d, "padding", (0, 0)) != (
                0,
                0,
            ):
                raise ValueError(
                    f"the block shape for {self.name} has the entry {d!r}: blocks of a pipeline have ints, None, Blocked, Squeezed, and "
                    f"Element without padding"
                )
        self.index_map = spec.index_map
        own = tuple(d.block_size for d in self.dims if type(d) is not Squeezed)
        space = MemorySpace.LOCAL if spec.memory_space is None else spec.memory_space
        self.type = MemoryRef(aval_of_ref(ref).update(shape=own, weak_type=False), space)

    def place(self, position) -> tuple[tuple, Any]:
        """The index of the block at a position of the grid, and which of its elements are inside (None: all)."""
        result: Any = [0] * len(self.dims) if self.index_map is None else self.index_map(*position)
        indices = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(indices) != len(self.dims):
            raise ValueError(
                f"the index map for {self.name} gives {len(indices)} indices for a block of {len(self.dims)} dimensions"
            )
        place: list = []
        mask = None
        for i, d, n in zip(indices, self.dims, self.shape):
            if type(d) is Squeezed:
                place.append(i)
                continue
            start = i * d.block_size if type(d) is Blocked else i
            if type(d) is Blocked and n % d.block_size:
                start = jnp.asarray(start, np.int32)
                own = len([p for p in place if isinstance(p, Slice)])
                lanes = lax.broadcasted_iota(np.int32, self.type.shape, own)
                inside = start + lanes < n
                mask = inside if mask is None else mask & inside
            place.append(ds(start, d.block_size))
        return tuple(place), mask


def aval_of_ref(ref: Any) -> Any:
    """The type of the array that a reference or a view refers to."""
    aval = getattr(ref, "aval", None) or aval_of(ref)
    return aval.inner_aval


class _PipelineGrid:
    """The grid of a pipeline, in place of the kernel's own while its body is traced."""

    def __init__(self, sizes, position):
        self.sizes, self.position = tuple(sizes), tuple(position)
        self.key = object()  # the position is that of one trace

    def program_id(self, axis):
        return self.position[axis]

    def num_programs(self, axis):
        return self.sizes[axis]


@contextmanager
def _grid(sizes, position) -> Iterator[None]:
    previous, state.kernel = state.kernel, _PipelineGrid(sizes, position)
    try:
        yield
    finally:
        state.kernel = previous
