"""Indices into mutable references: `NDIndexer`, made of integers, integer arrays and `Slice`s.

An indexer is a pytree stored with an equation: static parts are in its structure, positions that are values are its
leaves. It reads from an array, and writes or adds to one, so views of views are chains of indexers.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.backend.values import value_class
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.trace import is_tracer
from xlab.core.typing import ArrayLike
from xlab.errors import NonConcreteBooleanIndexError
from xlab.lax.creation import zeros_like_aval
from xlab.lax.index_steps import Points, Shaped, Strided, Window, window_of, write_steps
from xlab.lax.shape import broadcast_shapes


@value_class
class Slice:
    """`size` positions from `start` on, `stride` apart; the start may be a value of the program.

    Where an index map returns it, the size may be one too.
    """

    start: Any
    size: Any
    stride: int = 1

    @property
    def is_static(self) -> bool:
        return isinstance(self.start, int)


def _flatten_slice(s):
    children = tuple(v for v in (s.start, s.size) if not isinstance(v, int))
    fixed = tuple(v if isinstance(v, int) else None for v in (s.start, s.size))
    return children, (*fixed, s.stride)


def _unflatten_slice(aux, children):
    given = iter(children)
    start, size = (next(given) if v is None else v for v in aux[:2])
    return Slice(start, size, aux[2])


_tree.register_pytree_node(Slice, _flatten_slice, _unflatten_slice)


def ds(
    start: ArrayLike | slice, size: int | None = None, stride: int | None = None
) -> Slice | slice:
    """An index for `size` positions from `start` on, which may be a value of the program.

    `ds(n)` is `:n`, `ds(None)` is `:`, and with a stride every `stride`-th position is taken. `ds` of a Python slice that says
    where it stops is the same positions: `ds(slice(1, 6, 2))` is `ds(1, 3, 2)`. Without a stop it stays a Python slice, since where
    it ends depends on what is indexed.

    Args:
        start: the first position, a Python int or an integer of the program, or a slice.
        size: how many positions: a Python int, or in what an index map returns an integer of the program.
        stride: the distance of positions, 1 by default.

    Raises:
        ValueError: a negative size or a stride below 1.
        TypeError: a start or size that is no integer.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> xlab.new_ref(jnp.arange(6))[xlab.ds(1, 3)].tolist()
        [1, 2, 3]
    """
    if isinstance(start, slice):
        if size is not None or stride is not None:
            raise TypeError(f"ds takes a start and a size, or a slice, got both: {start}")
        return _normalized(start)
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
    stride = 1 if stride is None else operator.index(stride)
    size = _integer_scalar("size", size) if is_tracer(size) else operator.index(size)
    if (isinstance(size, int) and size < 0) or stride < 1:
        raise ValueError(
            f"ds takes a size of at least 0 and a stride of at least 1, got size {size} and stride {stride}"
        )
    if not isinstance(start, (int, np.integer)):
        return Slice(_integer_scalar("start", start), size, stride)
    return Slice(operator.index(start), size, stride)


dslice = ds


def check_size(s: Slice, d: int, indexed: str) -> None:
    """Raises TypeError if the size of a slice that indexes dimension `d` is a value of the program."""
    if not isinstance(s.size, int):
        raise TypeError(
            f"the size of ds must be a Python int where {indexed} is indexed, got {aval_of(s.size)} in dimension {d}: "
            f"shapes are known while tracing. The start may be traced."
        )


def _integer_scalar(what, x):
    aval = aval_of(x)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"the {what} of ds must be an integer scalar, got {aval}")
    return x


def _normalized(s: slice) -> Slice | slice:
    """A slice with known ends as positions; others depend on the size of the dimension."""
    start, step = s.start or 0, 1 if s.step is None else s.step
    if is_tracer(start) or is_tracer(s.stop) or is_tracer(step):
        raise TypeError(
            f"the bounds of a slice must be Python ints, got {s}: write ds(start, size), whose start may be traced"
        )
    if step < 1:
        raise ValueError(f"slice must have a step >= 1 (found: {step})")
    if s.stop is None or s.stop < 0 or start < 0:
        return s
    return Slice(operator.index(start), max(0, -(-(s.stop - start) // step)), operator.index(step))


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
        return f"NDIndexer({self.text()[1:-1]}, shape={self.shape})"

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

    def result_dtype(self, dtype):
        return dtype

    def text(self, show=str) -> str:
        """As it stands right of a reference."""
        entries = (
            _slice_text(i, n, show) if isinstance(i, Slice) else show(i)
            for i, n in zip(self.indices, self.shape)
        )
        return f"[{','.join(entries)}]"

    # -- on NumPy arrays: the positions are numbers ----------------------------------------------------------

    def outside(self) -> list[str]:
        """What is said of each index that reaches outside the array; negative ones count from the end."""
        return [
            text
            for d, (i, n) in enumerate(zip(self.indices, self.shape))
            if (text := _reach(i, n, d))
        ]

    def places(self, outside: str = "clamp", writing: bool = False) -> list[np.ndarray]:
        """Positions along each dimension of the array, those of integers in their own shape; -1 where they are missing."""
        arrays = any(np.ndim(i) for i in self.indices if not isinstance(i, Slice))
        out = []
        for i, n in zip(self.indices, self.shape):
            if not isinstance(i, Slice):
                places = _from_end(np.asarray(i, np.int64), n)
                out.append(_inside(places, n, outside == "missing" or (writing and arrays)))
                continue
            start, steps = np.int64(i.start), np.arange(i.size) * i.stride
            if outside == "missing":
                out.append(_inside(_from_end(start, n) + steps, n, True))
            elif i.stride > 1 and i.size > 1 and not i.is_static:
                out.append(_inside(_from_end(start + steps, n), n, writing))
            else:
                first = _window_start(i, n)
                out.append(first + steps)
        return out

    def region(self) -> tuple[tuple[int, int], ...]:
        """Per dimension of the array the half-open range around every position that compiled programs read."""
        places = self.places()
        return tuple((int(p.min()), int(p.max()) + 1) if p.size else (0, 0) for p in places)

    def is_basic(self, outside: str) -> bool:
        """Whether NumPy gives a view of the array, without a copy."""
        return outside == "clamp" and all(map(_is_basic, self.indices))

    def touched(self, x, outside="clamp", fill=-1, writing=False):
        if self.is_basic(outside):
            basic = zip(self.indices, self.shape)
            return x[tuple(_basic(i, n) for i, n in basic)]
        layout, shape = self.layout(), self.result_shape()
        first = next((r for r, (kind, _) in enumerate(layout) if kind == "int"), 0)
        columns = []
        for d, (i, places) in enumerate(zip(self.indices, self.places(outside, writing))):
            column = [1] * len(layout)
            if isinstance(i, Slice):
                column[layout.index(("slice", d))] = i.size
            else:
                n = len(self.int_indexer_shape)
                column[first : first + n] = [1] * (n - places.ndim) + list(places.shape)
            columns.append(places.reshape(column))
        missing = np.zeros(shape, bool)
        for c in columns:
            missing |= c < 0
        if missing.all():
            return np.full((*shape, x.shape[-1]), fill, x.dtype)
        found = np.broadcast_to(x[tuple(np.maximum(c, 0) for c in columns)], (*shape, x.shape[-1]))
        return np.where(missing[..., None], np.asarray(fill, x.dtype), found)

    # -- on arrays -----------------------------------------------------------------------------------------

    def steps(self):
        """The indexer as simpler ones, each on the result of the one before: a window, strides, then points."""
        n = self.shape
        points = [d for d, i in enumerate(self.indices) if not isinstance(i, Slice)]
        arrays = any(aval_of(self.indices[d]).shape for d in points)
        whole = [(0, size) if arrays else (i, 1) for i, size in zip(self.indices, n)]
        windows = [
            window_of(i, size) if isinstance(i, Slice) else w
            for i, size, w in zip(self.indices, n, whole)
        ]
        starts, sizes = [w[0] for w in windows], tuple(w[1] for w in windows)
        out: list[Any] = []
        if sizes != n or any(not (isinstance(s, int) and s == 0) for s in starts):
            out.append(Window(starts, sizes))
        for d, i in enumerate(self.indices):
            if isinstance(i, Slice) and i.stride > 1 and i.size > 1:
                out.append(Strided(d, i.size, i.stride, None if i.is_static else i.start))
        if arrays:
            out.append(
                Points(
                    points,
                    [self.indices[d] for d in points],
                    self.int_indexer_shape,
                    [k for k, (kind, _) in enumerate(self.layout()) if kind == "slice"],
                )
            )
        elif points:
            out.append(Shaped(self.result_shape()))
        return out

    def read(self, x):
        shape = self.result_shape()
        if 0 in shape:  # also of dimensions without elements, from which nothing can be gathered
            return zeros_like_aval(aval_of(x).update(shape=shape))
        for step in self.steps():
            x = step.read(x)
        return x

    def write(self, x, value, update: str = "set"):
        if 0 in self.result_shape():
            return x
        return write_steps(x, self.steps(), value, update)


_tree.register_pytree_node(
    NDIndexer,
    lambda i: ((i.indices,), (i.shape, i.int_indexer_shape)),
    lambda aux, children: NDIndexer(children[0], *aux),
)


def _from_end(places, n: int):
    """Positions, of which negative ones count from the end."""
    return np.where(places < 0, places + n, places)


def _inside(places, n: int, dropped: bool):
    """Positions moved inside a dimension; those outside become -1 if they are dropped."""
    if dropped:
        return np.where((places < 0) | (places >= n), -1, places)
    return np.clip(places, 0, max(n - 1, 0))


def _window_start(s: Slice, n: int) -> int:
    """Where a window starts that is moved inside a dimension."""
    start = int(s.start)
    span = (s.size - 1) * s.stride + 1 if s.size else 0
    return min(max(start + n if start < 0 else start, 0), n - span)


def _is_basic(i) -> bool:
    """Whether NumPy has such an index."""
    return (i.stride == 1 or i.is_static) if isinstance(i, Slice) else np.ndim(i) == 0


def _basic(i, n: int):
    if isinstance(i, Slice):
        start = _window_start(i, n)
        return slice(start, start + i.size * i.stride, i.stride)
    i = int(i)
    return min(max(i + n if i < 0 else i, 0), n - 1)


def _reach(i, n: int, d: int) -> str | None:
    if isinstance(i, Slice):
        start = int(i.start) + (n if i.start < 0 else 0)
        if i.size and not 0 <= start <= n - ((i.size - 1) * i.stride + 1):
            return f"start={int(i.start)}, size={i.size}, stride={i.stride} in dimension {d} of size {n}"
        return None
    places = np.asarray(i)
    bad = places[(places < -n) | (places >= n)]
    return f"index {bad.ravel()[0]} in dimension {d} of size {n}" if bad.size else None


def _slice_text(s: Slice, n: int, show) -> str:
    step = f":{s.stride}" if s.stride != 1 else ""
    if not s.is_static:
        return f"{show(s.start)}:{show(s.start)}+{s.size}{step}"
    stop = s.start + (s.size - 1) * s.stride + 1 if s.size else s.start
    return f"{s.start or ''}:{'' if stop == n else stop}{step}"


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
        check_size(e, d, "a reference")
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
    if n == 0 and aval.size:
        raise ValueError(
            f"Out of bound indexer: {aval} in dimension {d}, dim=0: there is nothing to index."
        )
    if isinstance(e, np.ndarray) and e.size:
        _in_bounds(int(e.min()), n)
        _in_bounds(int(e.max()), n)
    return e


def _in_bounds(i: int, n: int) -> int:
    if not -n <= i < n:
        raise ValueError(f"Out of bound indexer: idx={i}, dim={n}.")
    return i + n if i < 0 else i
