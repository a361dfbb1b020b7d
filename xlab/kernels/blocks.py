"""Blocks of arrays: which part of an operand each step of a grid sees.

A `BlockSpec` is what people write. With an array, a grid and the prefetched scalars it becomes a `BlockMapping`, whose index map
is a jaxpr.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import dtypes
from xlab.core import source_info as _source_info
from xlab.core.avals import INVARYING, ShapedArray, aval_of, value_and_type
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Literal, eval_jaxpr
from xlab.core.refs import AbstractRef
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.trace import check_arity
from xlab.lax.arithmetic import mul
from xlab.lax.convert import convert_element_type
from xlab.lax.indexers import Slice

_INT32 = ShapedArray((), np.dtype(np.int32))


@dataclass(frozen=True)
class Blocked:
    """A dimension in blocks of `block_size`; the index map gives the number of the block."""

    block_size: int


@dataclass(frozen=True)
class Squeezed:
    """A dimension of which each step sees one position, which the kernel's reference does not have."""

    block_size = 1

    def __repr__(self):
        return "Squeezed()"


@dataclass(frozen=True)
class Element:
    """A dimension in blocks of `block_size` whose start the index map gives as an element; `padding` is added at both ends."""

    block_size: int
    padding: tuple[int, int] = (0, 0)

    def __post_init__(self):
        given = self.padding
        pair = tuple(given) if isinstance(given, (tuple, list)) else ()
        if len(pair) != 2 or not all(isinstance(n, (int, np.integer)) and n >= 0 for n in pair):
            raise ValueError(
                f"the padding of Element is a pair of ints of at least 0, what is added before and after; got {given!r}"
            )
        object.__setattr__(self, "padding", pair)


@dataclass(frozen=True)
class BoundedSlice:
    """A dimension of which the index map gives a slice, `ds(start, size)` with a size of at most `block_size`."""

    block_size: int


@dataclass(frozen=True)
class Indirect:
    """A dimension of which the index map gives `block_size` positions as an array: gathered when read, scattered when written."""

    block_size: int


BlockDim = Blocked | Squeezed | Element | BoundedSlice | Indirect
squeezed = Squeezed()
KINDS = (Blocked, Squeezed, Element, BoundedSlice, Indirect)


class RevisitMode(enum.Enum):
    """When an output block may be visited again: in the next step only, or at any time."""

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclass(frozen=True)
class Buffered:
    """How a pipeline keeps the blocks of an operand. A hint: shown, without effect on results.

    Raises:
        ValueError: `buffer_count` is no positive integer, or `revisit` no `RevisitMode`.
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode = RevisitMode.IMMEDIATE

    def __post_init__(self):
        n = self.buffer_count
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"Buffered: buffer_count is an integer of at least 1, got {n!r}")
        if not isinstance(self.revisit, RevisitMode):
            raise ValueError(f"Buffered: revisit is a RevisitMode, got {self.revisit!r}")


@dataclass
class BlockSpec:
    """Which block of an array each step of the grid sees.

    Args:
        block_shape: per dimension an int (a block of that size), None (one position, not a dimension of the reference),
            or one of `Blocked`, `Squeezed`, `Element`, `BoundedSlice`, `Indirect`. None: the whole array.
        index_map: from the position in the grid (and references to prefetched scalars) to one index per dimension.
            None: zeros.
        pipeline_mode: a `Buffered` hint.
        memory_space: where the block lives.

    Example:
        >>> from xlab.kernels import BlockSpec
        >>> BlockSpec((8, None), lambda i, j: (i, j)).block_shape
        (8, None)
    """

    block_shape: Sequence[BlockDim | int | None] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = None
    _: KW_ONLY
    memory_space: Any = None

    def __post_init__(self):
        if self.block_shape is None:
            return
        if not isinstance(self.block_shape, Iterable) or not (
            self.index_map is None or callable(self.index_map)
        ):
            raise TypeError(
                f"BlockSpec takes a block shape, an entry per dimension, and then an index map, a function; got "
                f"block_shape={self.block_shape!r} and index_map={self.index_map!r}"
            )
        self.block_shape = tuple(self.block_shape)


class _NoBlockSpec:
    def __repr__(self):
        return "no_block_spec"


no_block_spec = _NoBlockSpec()


@dataclass(frozen=True, eq=False)
class BlockMapping:
    """A `BlockSpec` made definite for one operand.

    `index_map` takes one int32 per grid axis and the prefetched references. It gives per dimension one scalar, for
    `BoundedSlice` a start and a size, for `Indirect` a vector.
    """

    block_shape: tuple[BlockDim, ...]
    block_aval: AbstractRef
    index_map: ClosedJaxpr
    array_aval: ShapedArray
    origin: str
    pipeline_mode: Buffered | None = None

    def _key(self):
        return self.block_shape, self.block_aval, self.array_aval, self.origin, self.pipeline_mode

    def __eq__(self, other):
        return (
            isinstance(other, BlockMapping)
            and self.index_map is other.index_map
            and self._key() == other._key()
        )

    def __hash__(self):
        return hash((id(self.index_map), *self._key()))

    @property
    def memory_space(self) -> Any:
        return self.block_aval.memory_space

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of the block in each dimension of the array, squeezed dimensions too."""
        return tuple(d.block_size for d in self.block_shape)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Elements before and after the array, per dimension, so that every block lies inside."""
        return tuple(_padding(d, n) for d, n in zip(self.block_shape, self.array_aval.shape))

    @property
    def padded_shape(self) -> tuple[int, ...]:
        return tuple(lo + n + hi for n, (lo, hi) in zip(self.array_aval.shape, self.padding))

    def has_trivial_window(self) -> bool:
        """Whether every step sees the whole array."""
        outs = self.index_map.jaxpr.outvars
        return (
            all(type(d) is Blocked for d in self.block_shape)
            and self.sizes == self.array_aval.shape
            and all(type(v) is Literal and v.val == 0 for v in outs)
        )

    def results(self, outs: Sequence[Any]) -> list[Any]:
        """What the index map gave, one entry per dimension: a scalar, a pair (start, size), or a vector."""
        given = iter(outs)
        return [
            (next(given), next(given)) if type(d) is BoundedSlice else next(given)
            for d in self.block_shape
        ]

    def index(self, position: Sequence[Any], prefetch: Sequence[Any] = ()) -> list[Any]:
        """What the index map gives at a position of the grid, one entry per dimension as `results` says.

        Args:
            position: one integer per axis of the grid.
            prefetch: the values of the prefetched arguments.
        """
        takes = self.index_map.in_avals
        index_map, _ = discharge_jaxpr(self.index_map, [type(a) is AbstractRef for a in takes], ())
        outs = eval_jaxpr(index_map.jaxpr, index_map.consts, *position, *prefetch)
        return self.results(outs)

    def start_indices(self, position: Sequence[Any], *prefetch: Any) -> list[Any]:
        """Where the block at a position of the grid starts in the padded array.

        Per dimension an integer; for `BoundedSlice` a pair (start, size), for `Indirect` the vector of positions.

        Example:
            >>> import numpy as np
            >>> from xlab.kernels import BlockSpec
            >>> from xlab.core.avals import ShapedArray
            >>> from xlab.core.refs import AbstractRef
            >>> array = AbstractRef(ShapedArray((8, 8), np.dtype("float32")))
            >>> mapping = block_mapping(BlockSpec((4, None), lambda i: (i, i + 1)), array, "args[0]", (2,))
            >>> [int(start) for start in mapping.start_indices([1])]
            [4, 2]
        """
        starts = []
        for d, r in zip(self.block_shape, self.index(position, prefetch)):
            if type(d) is not Blocked:
                starts.append(r)
            elif isinstance(r, (int, np.integer)):
                starts.append(int(r) * d.block_size)
            else:
                starts.append(mul(r, np.int32(d.block_size)))
        return starts

    def to_block_spec(self) -> BlockSpec:
        """A spec that makes this mapping again."""
        jaxpr = self.index_map

        def index_map(*args):
            outs = eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *_tree.leaves(args))
            return tuple(
                Slice(r[0], r[1]) if isinstance(r, tuple) else r for r in self.results(outs)
            )

        return BlockSpec(
            self.block_shape,
            index_map,
            memory_space=self.memory_space,
            pipeline_mode=self.pipeline_mode,
        )


def _padding(dim: BlockDim, n: int) -> tuple[int, int]:
    lo = hi = 0
    if type(dim) is Element:
        lo, hi = dim.padding
    if type(dim) is BoundedSlice:
        hi = dim.block_size
    total = lo + n + hi
    if type(dim) in (Blocked, Element) and dim.block_size:
        hi += -total % dim.block_size
    # Of an array that is empty a block has padding alone.
    return lo, hi if lo + n + hi else dim.block_size


def as_block_dim(d: Any, origin: str) -> BlockDim:
    """An entry of a block shape as one of the five kinds."""
    if d is None:
        return squeezed
    if isinstance(d, (int, np.integer)) and not isinstance(d, bool):
        d = Blocked(int(d))
    if isinstance(d, KINDS):
        if not isinstance(d.block_size, (int, np.integer)) or isinstance(d.block_size, bool):
            raise ValueError(f"the block shape for {origin} has the entry {d}: sizes are integers")
        if d.block_size < 0:
            raise ValueError(
                f"the block shape for {origin} has the entry {d}: sizes are not negative"
            )
        return d
    raise ValueError(
        f"the block shape for {origin} has the entry {d!r} of type {type(d).__name__}. Entries are an int, None, or one of "
        f"{', '.join(k.__name__ for k in KINDS)}"
    )


def block_mapping(
    spec: Any,
    aval: AbstractRef,
    origin: str,
    grid: Sequence[Any],
    prefetch_avals: Sequence[AbstractRef] = (),
    prefetch_tree: Any = None,
) -> BlockMapping:
    """The mapping of one operand.

    Args:
        spec: a `BlockSpec`, or `no_block_spec` for the whole array.
        aval: the operand as a reference: its array's type, and its memory space if it names one.
        origin: the operand's path, for messages.
        grid: the sizes; their number counts.
        prefetch_avals, prefetch_tree: the references that index maps get after the position, and their structure.

    Raises:
        ValueError: the spec does not fit the array or the grid, or its index map returns something else than indices.
    """
    if spec is no_block_spec or spec is None:
        spec = BlockSpec()
    if not isinstance(spec, BlockSpec):
        raise ValueError(
            f"the spec for {origin} is a BlockSpec, got {spec!r} of type {type(spec).__name__}"
        )
    array = aval.inner_aval
    shape = array.shape if spec.block_shape is None else spec.block_shape
    if len(shape) != len(array.shape):
        raise ValueError(
            f"the block shape {tuple(shape)} for {origin} has {len(shape)} entries, but the array {array} has "
            f"{len(array.shape)} dimensions. The index map is {_place(spec.index_map)}."
        )
    dims = tuple(as_block_dim(d, origin) for d in shape)
    space = spec.memory_space if spec.memory_space is not None else aval.memory_space
    block = AbstractRef(
        array.update(
            shape=tuple(d.block_size for d in dims if type(d) is not Squeezed),
            weak_type=False,
            memory_space=None,
            mat=INVARYING,
        ),
        space,
    )
    index_map = _trace_index_map(
        spec.index_map, dims, origin, len(grid), prefetch_avals, prefetch_tree
    )
    return BlockMapping(dims, block, index_map, array, origin, spec.pipeline_mode)


def _place(fun) -> str:
    return "the default (all zeros)" if fun is None else _source_info.describe_function(fun)


def _trace_index_map(fun, dims, origin, rank, prefetch_avals, prefetch_tree) -> ClosedJaxpr:
    n_prefetch = len(prefetch_avals)

    def flat(*args):
        position, refs = args[:rank], args[rank:]
        if fun is None:
            result: Any = tuple(
                (0, d.block_size)
                if type(d) is BoundedSlice
                else np.zeros(d.block_size, np.int32)
                if type(d) is Indirect
                else 0
                for d in dims
            )
        else:
            tail = _tree.unflatten(prefetch_tree, refs) if n_prefetch else ()
            check_arity(
                fun, (*position, *tail), {}, lambda: _called_with(origin, fun, rank, len(tail))
            )
            result = fun(*position, *tail)
        return _indices(result, dims, origin, fun)

    name = getattr(fun, "__name__", "index_map") if fun is not None else "index_map"
    avals = [_INT32] * rank + list(prefetch_avals)
    jaxpr, consts = pe.trace_to_jaxpr(flat, avals, DebugInfo(name, (), ("index",)))
    if consts:
        raise ValueError(
            f"the index map for {origin}, {_place(fun)}, captures arrays of types "
            f"{', '.join(str(aval_of(c)) for c in consts)}. An index map computes with the position in the grid and with "
            f"prefetched scalars only: pass the array as a prefetched argument (PrefetchGridSpec)."
        )
    return ClosedJaxpr(pe.dce_jaxpr_eqns(jaxpr))


def _called_with(origin, fun, rank, n_prefetch) -> str:
    axes = f"an index for each of the grid's {rank} axes" if rank else "no index, as the grid is ()"
    prefetched = f" and {n_prefetch} prefetched arguments" if n_prefetch else ""
    return f"the index map for {origin}, {_place(fun)}, is called with {axes}{prefetched}"


def _indices(result, dims, origin, fun) -> list:
    if isinstance(result, list):
        result = tuple(result)
    if not isinstance(result, tuple):
        result = (result,)
    if len(result) != len(dims):
        raise ValueError(
            f"the index map for {origin}, {_place(fun)}, returns {len(result)} indices for a block shape of {len(dims)} "
            f"entries: it has to return one per dimension"
        )
    out: list = []
    for i, (r, d) in enumerate(zip(result, dims)):
        if type(d) is BoundedSlice:
            if isinstance(r, tuple) and len(r) == 2:
                r = Slice(*r)
            if not isinstance(r, Slice):
                raise ValueError(
                    f"index {i} of the index map for {origin}, {_place(fun)}, belongs to a BoundedSlice and has to be a "
                    f"slice, ds(start, size); got {r!r}"
                )
            if isinstance(r.size, int) and r.size > d.block_size:
                raise ValueError(
                    f"index {i} of the index map for {origin}, {_place(fun)}, has size {r.size}, more than the block's "
                    f"{d.block_size}"
                )
            out += [_integer(r.start, i, origin, fun, 0), _integer(r.size, i, origin, fun, 0)]
        elif type(d) is Indirect:
            out.append(_integer(r, i, origin, fun, 1, (d.block_size,)))
        else:
            out.append(_integer(r, i, origin, fun, 0))
    return out


def _integer(x, i, origin, fun, ndim, shape=()):
    try:
        aval = aval_of(x)
        fits = (
            aval.ndim == ndim and aval.shape == shape and dtypes.issubdtype(aval.dtype, np.integer)
        )
    except TypeError:
        aval, fits = value_and_type(x), False
    if not fits or not (aval.weak_type or aval.dtype in (np.dtype(np.int32), np.dtype(np.int64))):
        wanted = (
            f"an int32 array of shape {shape}" if ndim else "an integer scalar (int32 or int64)"
        )
        raise ValueError(
            f"index {i} of the index map for {origin}, {_place(fun)}, has to be {wanted}, got {aval}"
        )
    if isinstance(x, (int, np.integer, np.ndarray)):
        return np.asarray(x, np.int32) if ndim else np.int32(x)
    return convert_element_type(x, np.int32)
