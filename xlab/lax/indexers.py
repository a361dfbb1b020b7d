"""Indices into mutable references: `NDIndexer`, made of integers, integer arrays and `Slice`s.

An indexer is a pytree stored with an equation: static parts are in its structure, positions that are values are its
leaves. It reads from an array, and writes or adds to one, so views of views are chains of indexers.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.trace import is_tracer
from xlab.core.typing import ArrayLike
from xlab.errors import NonConcreteBooleanIndexError
from xlab.lax.arithmetic import add, mul
from xlab.lax.comparison import lt, select
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like, iota
from xlab.lax.gather import GatherDimensionNumbers, gather
from xlab.lax.scatter import ScatterDimensionNumbers, scatter, scatter_add
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes, concatenate, reshape
from xlab.lax.slicing import dynamic_slice, dynamic_update_slice
from xlab.lax.slicing import slice as lax_slice


@dataclass(frozen=True, slots=True)
class Slice:
    """`size` positions from `start` on, `stride` apart; the start may be a value of the program."""

    start: Any
    size: int
    stride: int = 1

    @property
    def is_static(self) -> bool:
        return isinstance(self.start, int)


_tree.register_pytree_node(
    Slice,
    lambda s: (
        ((), (s.start, s.size, s.stride)) if s.is_static else ((s.start,), (None, s.size, s.stride))
    ),
    lambda aux, children: Slice(children[0] if children else aux[0], *aux[1:]),
)


def ds(start: ArrayLike, size: int | None = None, stride: int | None = None) -> Slice | slice:
    """An index for `size` positions from `start` on, which may be a value of the program.

    `ds(n)` is `:n`, `ds(None)` is `:`, and with a stride every `stride`-th position is taken.

    Args:
        start: the first position, a Python int or an integer of the program.
        size: how many positions, a Python int.
        stride: the distance of positions, 1 by default.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> xlab.new_ref(jnp.arange(6))[xlab.ds(1, 3)].tolist()
        [1, 2, 3]
    """
    if isinstance(start, slice):
        raise TypeError(f"ds takes a start and a size, got {start}: a slice is an index already")
    if start is None:
        if size is not None or stride is not None:
            raise ValueError("ds(None) takes the whole dimension: a size or stride needs a start")
        return slice(None)
    if size is None:
        if not isinstance(start, (int, np.integer)):
            raise ValueError(
                "ds(n) takes the first n positions, where n is a Python int; for a start that is a value give a size"
            )
        start, size = 0, start
    if is_tracer(size):
        raise TypeError(
            "the size of ds must be a Python int: shapes are known while tracing. The start may be traced."
        )
    size, stride = operator.index(size), 1 if stride is None else operator.index(stride)
    if size < 0 or stride < 1:
        raise ValueError(
            f"ds takes a size of at least 0 and a stride of at least 1, got size {size} and stride {stride}"
        )
    if not isinstance(start, (int, np.integer)):
        aval = aval_of(start)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(f"the start of ds must be an integer scalar, got {aval}")
        return Slice(start, size, stride)
    return Slice(operator.index(start), size, stride)


dslice = ds


class NDIndexer:
    """One entry per dimension of `shape`: a `Slice`, an integer, or an integer array.

    Arrays (and integers) are broadcast together to `int_indexer_shape`; they select points, as in NumPy, and their
    dimensions stand in the result where the first of them stands if they are neighbors, else in front.
    """

    __slots__ = ("indices", "int_indexer_shape", "shape")

    def __init__(self, indices, shape, int_indexer_shape=()):
        self.indices, self.shape, self.int_indexer_shape = (
            tuple(indices),
            tuple(shape),
            tuple(int_indexer_shape),
        )

    def __repr__(self):
        return f"NDIndexer({self.text()}, shape={self.shape})"

    def layout(self) -> list[tuple[str, int]]:
        """The source of each result dimension: ('int', k) of the integer arrays, or ('slice', d) for dimension `d`."""
        points = [d for d, i in enumerate(self.indices) if not isinstance(i, Slice)]
        slices = [("slice", d) for d, i in enumerate(self.indices) if isinstance(i, Slice)]
        ints = [("int", k) for k in range(len(self.int_indexer_shape))]
        together = points == list(range(points[0], points[-1] + 1)) if points else True
        at = points[0] if points and together else 0
        return [*slices[:at], *ints, *slices[at:]]

    def result_shape(self) -> tuple[int, ...]:
        return tuple(
            self.int_indexer_shape[k] if kind == "int" else self.indices[k].size
            for kind, k in self.layout()
        )

    def text(self, show=str) -> str:
        """As it stands between brackets."""
        return ",".join(
            _slice_text(i, n, show) if isinstance(i, Slice) else show(i)
            for i, n in zip(self.indices, self.shape)
        )

    # -- on arrays -----------------------------------------------------------------------------------------

    def steps(self):
        """The indexer as simpler ones, each on the result of the one before: a window, strides, then points."""
        n = self.shape
        window = [
            i
            if not isinstance(i, Slice)
            else Slice(i.start, max((i.size - 1) * i.stride + 1, 0))
            if i.size
            else Slice(0, 0)
            for i in self.indices
        ]
        points = [d for d, i in enumerate(self.indices) if not isinstance(i, Slice)]
        arrays = any(aval_of(self.indices[d]).shape for d in points)
        starts = [w.start if isinstance(w, Slice) else 0 if arrays else w for w in window]
        sizes = tuple(
            w.size if isinstance(w, Slice) else n[d] if arrays else 1 for d, w in enumerate(window)
        )
        out: list[Any] = []
        if sizes != n or any(not (isinstance(s, int) and s == 0) for s in starts):
            out.append(_Window(starts, sizes))
        for d, i in enumerate(self.indices):
            if isinstance(i, Slice) and i.stride > 1 and i.size > 1:
                out.append(_Strided(d, i.size, i.stride))
        if arrays:
            out.append(
                _Points(
                    points,
                    [self.indices[d] for d in points],
                    self.int_indexer_shape,
                    [k for k, (kind, _) in enumerate(self.layout()) if kind == "slice"],
                )
            )
        elif points:
            out.append(_Shaped(self.result_shape()))
        return out

    def read(self, x):
        for step in self.steps():
            x = step.read(x)
        return x

    def write(self, x, value, update: str = "set"):
        return _write(x, self.steps(), value, update)


_tree.register_pytree_node(
    NDIndexer,
    lambda i: ((i.indices,), (i.shape, i.int_indexer_shape)),
    lambda aux, children: NDIndexer(children[0], *aux),
)


def _slice_text(s: Slice, n: int, show) -> str:
    step = f":{s.stride}" if s.stride != 1 else ""
    if not s.is_static:
        return f"{show(s.start)}:{show(s.start)}+{s.size}{step}"
    stop = s.start + (s.size - 1) * s.stride + 1 if s.size else s.start
    return f"{s.start or ''}:{'' if stop == n else stop}{step}"


def _write(x, steps, value, update):
    if not steps:
        return value if update == "set" else add(x, value)
    step, rest = steps[0], steps[1:]
    if isinstance(step, _Points):
        return step.write(x, value, update)
    return step.write(
        x, _write(step.read(x), rest, value, update) if rest or update != "set" else value
    )


class _Window(NamedTuple):
    """A block without strides."""

    starts: Any
    sizes: tuple

    def read(self, x):
        if all(isinstance(s, int) for s in self.starts):
            return lax_slice(x, self.starts, [s + n for s, n in zip(self.starts, self.sizes)])
        return dynamic_slice(x, self.starts, self.sizes)

    def write(self, x, value):
        return dynamic_update_slice(x, value, self.starts) if 0 not in self.sizes else x


class _Strided(NamedTuple):
    """Every `stride`-th position of one dimension."""

    dim: int
    size: int
    stride: int

    def read(self, x):
        shape = aval_of(x).shape
        return lax_slice(
            x,
            [0] * len(shape),
            shape,
            [self.stride if d == self.dim else 1 for d in range(len(shape))],
        )

    def write(self, x, value):
        ndim = aval_of(x).ndim
        places = mul(iota(np.int32, self.size), np.int32(self.stride))
        others = tuple(d for d in range(ndim) if d != self.dim)
        numbers = ScatterDimensionNumbers(others, (self.dim,), (self.dim,))
        return scatter(
            x,
            reshape(places, (self.size, 1)),
            value,
            numbers,
            indices_are_sorted=True,
            unique_indices=True,
        )


class _Shaped(NamedTuple):
    """The dimensions of size one that integers left behind are gone."""

    shape: tuple

    def read(self, x):
        return reshape(x, self.shape)

    def write(self, x, value):
        return reshape(value, aval_of(x).shape)


class _Points(NamedTuple):
    """Positions given by integer arrays, along some dimensions; `windows` are the result's dimensions for the others."""

    dims: list
    indices: list
    shape: tuple
    windows: list

    def places(self, x):
        columns = []
        for d, i in zip(self.dims, self.indices):
            i = np.int32(i) if isinstance(i, int) else convert_element_type(i, np.int32)
            if not isinstance(i, np.generic):
                i = select(lt(i, full_like(i, 0)), add(i, full_like(i, aval_of(x).shape[d])), i)
            ndim = aval_of(i).ndim
            i = broadcast_in_dim(i, self.shape, range(len(self.shape) - ndim, len(self.shape)))
            columns.append(reshape(i, (*self.shape, 1)))
        return concatenate(columns, len(self.shape)) if len(columns) > 1 else columns[0]

    def read(self, x):
        sizes = [1 if d in self.dims else n for d, n in enumerate(aval_of(x).shape)]
        numbers = GatherDimensionNumbers(tuple(self.windows), tuple(self.dims), tuple(self.dims))
        return gather(x, self.places(x), numbers, sizes, mode="clip")

    def write(self, x, value, update):
        numbers = ScatterDimensionNumbers(tuple(self.windows), tuple(self.dims), tuple(self.dims))
        return (scatter if update == "set" else scatter_add)(x, self.places(x), value, numbers)


# -- from what users write --------------------------------------------------------------------------------


def indexer(index, shape) -> NDIndexer | None:
    """The indexer for an index in brackets; None where it means the whole array."""
    if index is None or index is Ellipsis or (isinstance(index, tuple) and not index):
        return None
    entries = list(index) if isinstance(index, tuple) else [index]
    dots = [k for k, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise ValueError("Only one ellipsis is supported.")
    if any(e is None for e in entries):
        raise ValueError(
            "a reference cannot get new dimensions by indexing with None: index first, then use "
            "xlab.numpy.expand_dims on the value"
        )
    if len(entries) - len(dots) > len(shape):
        raise ValueError(
            f"`indices` must not be longer than `shape`: {len(entries) - len(dots)} indices for a reference of "
            f"shape {tuple(shape)}"
        )
    missing = [slice(None)] * (len(shape) - len(entries) + len(dots))
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots)] = missing
    indices = [_entry(e, n, d) for d, (e, n) in enumerate(zip(entries, shape))]
    shapes = [aval_of(i).shape for i in indices if not isinstance(i, Slice)]
    try:
        ints = broadcast_shapes(*shapes) if shapes else ()
    except (TypeError, ValueError):
        raise ValueError(
            f"the integer arrays of an index must broadcast together, got shapes {shapes}"
        ) from None
    return NDIndexer(indices, shape, ints)


def _entry(e, n: int, d: int):
    if isinstance(e, slice):
        if is_tracer(e.start) or is_tracer(e.stop):
            raise TypeError(
                f"the bounds of a slice must be Python ints, got a traced value in dimension {d}: write "
                f"xlab.ds(start, size), whose start may be traced"
            )
        start, stop, step = e.start, e.stop, 1 if e.step is None else operator.index(e.step)
        if step < 1:
            raise ValueError(f"slice must have a step >= 1 (found: {step})")
        start, stop, _ = slice(start, stop, step).indices(n)
        return Slice(start, max(0, -(-(stop - start) // step)), step)
    if isinstance(e, Slice):
        if e.is_static:
            last = e.start + (e.size - 1) * e.stride
            if e.start < 0 or (e.size and last >= n) or e.start > n:
                raise ValueError(
                    f"Out of bound slice: start={e.start}, size={e.size}, stride={e.stride}, dim={n}."
                )
        elif e.size and (e.size - 1) * e.stride >= n:
            raise ValueError(f"Out of bound slice: size={e.size}, stride={e.stride}, dim={n}.")
        return e
    if isinstance(e, (list, str, float, bytes)):
        raise TypeError(
            f"a reference is indexed by integers, slices, xlab.ds and integer arrays; got {e!r} of type "
            f"{type(e).__name__} in dimension {d}"
        )
    if isinstance(e, (int, np.integer)) and not isinstance(e, bool):
        return _in_bounds(operator.index(e), n)
    aval = aval_of(e)
    if aval.dtype == np.bool_:
        raise NonConcreteBooleanIndexError(
            f"a reference cannot be indexed by booleans, got {aval} in dimension {d}: how many elements they select is not "
            f"known while tracing. Use integers, or write xlab.numpy.where(mask, new, ref[...]) to the whole reference."
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"a reference is indexed by integers, got {aval} in dimension {d}")
    if not aval.shape and not is_tracer(e):
        return _in_bounds(operator.index(e), n)
    return e


def _in_bounds(i: int, n: int) -> int:
    if not -n <= i < n:
        raise ValueError(f"Out of bound indexer: idx={i}, dim={n}.")
    return i + n if i < 0 else i
