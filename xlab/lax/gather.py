"""`gather`: slices of one size from many run-time positions, and the dimension numbers it shares with `scatter`.

The last dimension of `start_indices` holds one position; the others become dimensions of the result.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import is_symbolic_shape, min_dim
from xlab.core.key_array import key_of_words
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import state
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import dims_text, i64_array, physical_aval
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import add, rem
from xlab.lax.bits import bitwise_and
from xlab.lax.clamp import clamp
from xlab.lax.comparison import ge, le, lt, select
from xlab.lax.convert import convert_element_type
from xlab.lax.device_put import in_memory
from xlab.lax.reductions import reduce_and
from xlab.lax.shape import broadcast_in_dim, canonical_shape, concatenate, reshape, squeeze
from xlab.lax.slicing import set_per_example

__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "gather", "index_take"]


class GatherScatterMode(enum.Enum):
    """What happens to positions outside the operand.

    CLIP moves them inside; FILL_OR_DROP reads a fill value and drops writes; PROMISE_IN_BOUNDS states that there are
    none; ONE_HOT reads zero and drops writes, as a product with rows of zeros and one 1 does
    (`numpy.take_along_axis` makes that product).
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(mode) -> GatherScatterMode:
        """A mode from its name ('clip', 'fill', 'drop', 'promise_in_bounds', 'one_hot'), a mode, or None (fill or drop)."""
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODE_NAMES.get(mode)
        if found is None:
            raise ValueError(
                f"unknown gather/scatter mode {mode!r}: use 'clip', 'fill', 'drop', "
                f"'promise_in_bounds' or 'one_hot'"
            )
        return found


_MODE_NAMES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """How the dimensions of operand, indices and result of a `gather` belong together.

    Attributes:
        offset_dims: dimensions of the result that run over the slice.
        collapsed_slice_dims: operand dimensions of slice size 1 that the result leaves out.
        start_index_map: the operand dimension of each component of a position.
        operand_batching_dims, start_indices_batching_dims: dimensions of operand and indices that go together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Slices of `operand` at run-time positions.

    Args:
        operand: the array to read.
        start_indices: integers; the last dimension holds one position.
        dimension_numbers: a `GatherDimensionNumbers`.
        slice_sizes: size of the slice along each operand dimension.
        unique_indices, indices_are_sorted: promises about the positions, used by the compiler.
        mode: what happens outside the operand, see `GatherScatterMode`; None promises that there is nothing.
        fill_value: read outside, with mode 'fill'; NaN, the lowest integer (the highest unsigned one) or True by default.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> print(lax.gather(np.float32([1, 2, 3]), np.int32([[2], [0]]), numbers, (1,)))
        [3. 1.]
    """
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:
        mode, fill_value = GatherScatterMode.FILL_OR_DROP, 0
    elif mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill(aval_of(operand).dtype)
    else:
        fill_value = _fill_number(fill_value, aval_of(operand).dtype)
    return gather_p.bind(
        operand,
        in_memory(start_indices, aval_of(operand)),
        dimension_numbers=GatherDimensionNumbers(*map(tuple, dimension_numbers)),
        slice_sizes=canonical_shape(slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=mode,
        fill_value=fill_value,
    )


def _fill_number(fill_value, dtype):
    """A fill value as a Python number, which becomes part of the program. Arrays have to be of the operand's kind."""
    if hasattr(fill_value, "shape"):
        if np.shape(fill_value):
            raise ValueError(f"fill_value has to be a scalar, got {aval_of(fill_value)}")
        if (
            hasattr(fill_value, "aval")
            and dtypes.issubdtype(dtype, np.integer)
            and dtypes.issubdtype(aval_of(fill_value).dtype, np.inexact)
        ):
            raise TypeError(
                f"fill_value is of type {aval_of(fill_value)}, and the array of {dtypes.name(dtype)}: convert it first"
            )
        fill_value = np.asarray(fill_value).item()
    if isinstance(fill_value, complex) and not (
        dtypes.is_extended(dtype) or dtypes.issubdtype(dtype, np.complexfloating)
    ):
        raise TypeError(
            f"fill_value is the complex number {fill_value}, and the array is of {dtypes.name(dtype)}: give its real part"
        )
    return fill_value


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """The slices of `src` at positions along some of its axes: `idxs` holds one vector of positions per axis, counted around the end.

    Args:
        src: an array.
        idxs: one array of positions for each axis.
        axes: the axes.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.index_take(np.float32([[1, 2], [3, 4]]), (np.int32([0, -1]), np.int32([1, 0])), (0, 1)))
        [2. 3.]
    """
    axes, shape = tuple(axes), aval_of(src).shape
    if len(idxs) != len(axes):
        raise TypeError(
            f"index_take needs one vector of positions per axis, got {len(idxs)} for the axes {axes}"
        )
    if not axes:
        raise ValueError("index_take needs at least one axis")
    for x in idxs:
        check_indices("index_take", aval_of(x))
        if aval_of(x).ndim != 1:
            raise TypeError(f"index_take takes vectors of positions, got one of type {aval_of(x)}")
    if any(not 0 <= a < len(shape) for a in axes):
        raise IndexError(f"index_take axes {axes} must lie between 0 and {len(shape) - 1}")
    dtype = aval_of(idxs[0]).dtype
    positions = concatenate([broadcast_in_dim(x, (*aval_of(x).shape, 1), (0,)) for x in idxs], 1)
    sizes = np.asarray([[max(shape[a], 1) for a in axes]], dtype)
    left = rem(positions, sizes)
    left = select(lt(left, np.zeros((), dtype)[()]), add(left, sizes), left)
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), axes, axes)
    return gather(src, left, numbers, [1 if d in axes else n for d, n in enumerate(shape)])


def default_fill(dtype):
    """What a read outside the operand gives, as a Python number."""
    if dtypes.is_extended(dtype):  # of keys: in each of their words
        return default_fill(dtype.base_dtype)
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(dtypes.iinfo(dtype).max)
    return True


def _gather_aval(x, indices, *, dimension_numbers, slice_sizes, **_):
    n = dimension_numbers
    check_indices("gather", indices)
    if len(slice_sizes) != x.ndim:
        raise TypeError(f"gather needs one slice size per dimension of {x}, got {slice_sizes}")
    for size, d in zip(slice_sizes, x.shape):
        if not 0 <= size <= d:
            raise TypeError(
                f"gather slice sizes {slice_sizes} must lie between 0 and the shape {x.shape}"
            )
    check_positions(
        "gather",
        x,
        indices,
        n.start_index_map,
        n.collapsed_slice_dims,
        n.operand_batching_dims,
        n.start_indices_batching_dims,
    )
    gone = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    if any(slice_sizes[d] > 1 for d in gone):
        raise TypeError(
            f"collapsed and batching dimensions {sorted(gone)} of a gather must have slice size 1 (or 0), got "
            f"{slice_sizes}"
        )
    offsets = iter([s for d, s in enumerate(slice_sizes) if d not in gone])
    rank = indices.ndim - 1 + len(n.offset_dims)
    if len(n.offset_dims) + len(gone) != x.ndim:
        raise TypeError(
            f"gather has {len(n.offset_dims)} offset dimensions and leaves out {len(gone)} dimensions of an "
            f"operand with {x.ndim}: offset_dims={n.offset_dims}, collapsed_slice_dims="
            f"{n.collapsed_slice_dims}, operand_batching_dims={n.operand_batching_dims}"
        )
    if tuple(sorted(set(n.offset_dims))) != n.offset_dims or any(
        not 0 <= d < rank for d in n.offset_dims
    ):
        raise TypeError(
            f"gather offset_dims must be sorted, unique and below {rank}, got {n.offset_dims}"
        )
    batch = iter(indices.shape[:-1])
    shape = [next(offsets) if i in n.offset_dims else next(batch) for i in range(rank)]
    return ShapedArray(shape, x.dtype, x.weak_type)


def check_indices(name: str, indices) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{name} needs integer indices, got {indices}")
    if indices.ndim < 1:
        raise TypeError(
            f"{name} needs indices with a last dimension that holds one position, got {indices}"
        )


def check_positions(
    name, x, indices, index_map, left_out, operand_batching, indices_batching
) -> None:
    """Checks dimension numbers: the conditions common to gather and scatter."""
    if indices.shape[-1] != len(index_map):
        raise TypeError(
            f"{name} positions have {indices.shape[-1]} components (the last dimension of {indices}), but the "
            f"dimension numbers map {len(index_map)}: {index_map}"
        )
    if len(set(index_map)) != len(index_map) or any(not 0 <= d < x.ndim for d in index_map):
        raise TypeError(f"{name} positions must map to distinct dimensions of {x}, got {index_map}")
    if set(left_out) & set(operand_batching) or set(index_map) & set(operand_batching):
        raise TypeError(
            f"batching dimensions {operand_batching} of a {name} can be neither indexed nor left out otherwise"
        )
    if len(operand_batching) != len(indices_batching):
        raise TypeError(
            f"{name} needs as many batching dimensions of the operand as of the indices, got "
            f"{operand_batching} and {indices_batching}"
        )
    for a, b in zip(operand_batching, indices_batching):
        if x.shape[a] != indices.shape[b]:
            raise TypeError(
                f"{name} batching dimensions differ in size: dimension {a} of {x}, dimension {b} of {indices}"
            )


def _gather_jvp(t, x, indices, *, fill_value, **params):
    return gather_p.bind(t, indices, fill_value=None if fill_value is None else 0, **params)


def _up(dims):
    return tuple(d + 1 for d in dims)


def _gather_batch(xs, dims, *, dimension_numbers, slice_sizes, **params):
    (x, indices), (dx, di), n = xs, dims, dimension_numbers
    if dx is not None:
        x = batching.moveaxis(x, dx, 0)
    if di is not None:
        indices = batching.moveaxis(indices, di, 0)
    if dx is None:
        numbers = n._replace(
            offset_dims=_up(n.offset_dims),
            start_indices_batching_dims=_up(n.start_indices_batching_dims),
        )
        return gather_p.bind(
            x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params
        ), 0
    shifted = n._replace(
        offset_dims=_up(n.offset_dims),
        collapsed_slice_dims=_up(n.collapsed_slice_dims),
        start_index_map=_up(n.start_index_map),
        operand_batching_dims=_up(n.operand_batching_dims),
    )
    if di is None:
        numbers = shifted._replace(offset_dims=(0, *shifted.offset_dims))
        return gather_p.bind(
            x,
            indices,
            dimension_numbers=numbers,
            slice_sizes=(aval_of(x).shape[0], *slice_sizes),
            **params,
        ), 0
    numbers = shifted._replace(
        operand_batching_dims=(0, *shifted.operand_batching_dims),
        start_indices_batching_dims=(0, *_up(n.start_indices_batching_dims)),
    )
    size = 1 if aval_of(x).shape[0] else 0
    return gather_p.bind(
        x, indices, dimension_numbers=numbers, slice_sizes=(size, *slice_sizes), **params
    ), 0


def last_positions(shape, sizes, index_map, dtype):
    """The largest valid position along each indexed dimension, in the dtype of the indices."""
    top = int(dtypes.iinfo(dtype).max)
    if is_symbolic_shape([shape[d] for d in index_map]):
        ends = [convert_element_type(shape[d] - sizes[d], dtype) for d in index_map]
        return concatenate([reshape(e, (1,)) for e in ends], 0)
    return np.array([min(shape[d] - sizes[d], top) for d in index_map], dtype)


def clip_positions(indices, shape, sizes, index_map):
    """Indices moved so that every slice lies inside."""
    aval = aval_of(indices)
    last = last_positions(shape, sizes, index_map, aval.dtype)
    last = broadcast_in_dim(last, aval.shape, (aval.ndim - 1,))
    return clamp(np.zeros((), aval.dtype)[()], indices, last)


def _filled(x, indices, *, dimension_numbers, slice_sizes, fill_value, **params):
    """`gather` with clipped positions, overwritten where the position was outside."""
    n, aval = dimension_numbers, aval_of(indices)
    if aval.ndim == 1 and aval_of(x).mat.unreduced:
        # As one of several positions: where a single mask decides for all elements, the compiler loses sight of which sums are kept apart.
        several = n._replace(offset_dims=tuple(d + 1 for d in n.offset_dims))
        return squeeze(
            _filled(
                x,
                reshape(indices, (1, *aval.shape)),
                dimension_numbers=several,
                slice_sizes=slice_sizes,
                fill_value=fill_value,
                **params,
            ),
            (0,),
        )
    last = broadcast_in_dim(
        last_positions(aval_of(x).shape, slice_sizes, n.start_index_map, aval.dtype),
        aval.shape,
        (aval.ndim - 1,),
    )
    inside = le(indices, last)
    if not dtypes.issubdtype(aval.dtype, np.unsignedinteger):
        inside = bitwise_and(
            ge(indices, broadcast_in_dim(np.zeros((), aval.dtype)[()], aval.shape, ())), inside
        )
    inside = reduce_and(inside, (aval.ndim - 1,))
    out = gather_p.bind(
        x,
        indices,
        dimension_numbers=n,
        slice_sizes=slice_sizes,
        fill_value=None,
        **{**params, "mode": GatherScatterMode.CLIP},
    )
    shape = aval_of(out).shape
    inside = broadcast_in_dim(
        inside,
        shape,
        [i for i in range(len(shape)) if i not in n.offset_dims],
        out_sharding=aval_of(out).explicit_sharding,
    )
    dtype = aval_of(out).dtype
    fill = (
        key_of_words(fill_value, dtype)
        if dtypes.is_extended(dtype)
        else np.asarray(fill_value).astype(dtype)[()]
    )
    filled = broadcast_in_dim(fill, shape, ())
    return select(inside, out, state.match(filled, aval_of(out)))


_filled_lowering = mlir.lower_fun(_filled)


def _gather_lowering(
    ctx, x, indices, *, dimension_numbers, slice_sizes, indices_are_sorted, mode, **params
):
    if mode is GatherScatterMode.FILL_OR_DROP:
        return _filled_lowering(
            ctx,
            x,
            indices,
            dimension_numbers=dimension_numbers,
            slice_sizes=slice_sizes,
            indices_are_sorted=indices_are_sorted,
            mode=mode,
            **params,
        )[0]
    n = dimension_numbers
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    offsets = (*n.offset_dims, *range(ctx.avals_out[0].ndim, out.ndim))
    sizes = (*slice_sizes, *src.shape[len(slice_sizes) :])
    numbers = (
        f"#stablehlo.gather<offset_dims = {dims_text(offsets)}, "
        f"collapsed_slice_dims = {dims_text(n.collapsed_slice_dims)}, "
        f"operand_batching_dims = {dims_text(n.operand_batching_dims)}, "
        f"start_indices_batching_dims = {dims_text(n.start_indices_batching_dims)}, "
        f"start_index_map = {dims_text(n.start_index_map)}, index_vector_dim = {ctx.avals_in[1].ndim - 1}>"
    )
    return ctx.op(
        f'"stablehlo.gather"({x}, {indices}) <{{dimension_numbers = {numbers}, '
        f"slice_sizes = {i64_array(sizes)}, indices_are_sorted = {str(indices_are_sorted).lower()}}}> : "
        f"({mlir.tensor_type(src)}, {ctx.type_in(1)}) -> {mlir.tensor_type(out)}"
    )


def _fills_as_a_sum(x, mode, fill_value) -> bool:
    """Whether the fill value equals its own sum over devices (zero or NaN), as unreduced operands need."""
    if mode != GatherScatterMode.FILL_OR_DROP:
        return True
    return (
        dtypes.issubdtype(x.dtype, np.inexact)
        if fill_value is None
        else bool(fill_value == 0 or fill_value != fill_value)
    )


gather_p = Primitive("gather")
gather_p.linear_in_unreduced = lambda x, *_, mode, fill_value, **__: (
    _fills_as_a_sum(x, mode, fill_value) and ((0,),)
)
gather_p.def_abstract_eval(_gather_aval)
ad.defjvp(gather_p, _gather_jvp, None)
# Its transpose, a scatter-add, stands in scatter.py.
sharding_rules[gather_p] = sharding_in_types.gather
batching.primitive_batchers[gather_p] = _gather_batch
mlir.register_text_lowering(gather_p, _gather_lowering)


def _slices_per_example(xs, dims, slice_sizes):
    """One slice per example, as a gather."""
    x, *starts = xs
    d, *ds = dims
    size = next(aval_of(v).shape[e] for v, e in zip(xs, dims) if e is not None)
    starts = [
        convert_element_type(batching.move_batch_dim_to(s, e, size, 0), np.int32)
        for s, e in zip(starts, ds)
    ]
    index = concatenate([reshape(s, (size, 1)) for s in starts], 1)
    n = len(slice_sizes)
    if d is None:
        numbers = GatherDimensionNumbers(
            offset_dims=tuple(range(1, n + 1)),
            collapsed_slice_dims=(),
            start_index_map=tuple(range(n)),
        )
        sizes = slice_sizes
    else:
        x = batching.moveaxis(x, d, 0)
        numbers = GatherDimensionNumbers(
            offset_dims=tuple(range(1, n + 1)),
            collapsed_slice_dims=(),
            start_index_map=tuple(range(1, n + 1)),
            operand_batching_dims=(0,),
            start_indices_batching_dims=(0,),
        )
        sizes = (min_dim(size, 1), *slice_sizes)
    return gather(x, index, numbers, sizes, mode=GatherScatterMode.CLIP)


set_per_example(slices=_slices_per_example)

costs.register(costs.reads_result, gather_p)
