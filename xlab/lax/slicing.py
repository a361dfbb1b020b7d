"""Slices: static, and at positions known only at run time."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import SymbolicDim, dim_index, dim_indices, known_negative, max_dim
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from xlab.interpreters.key_reuse import key_movers, unknown_part
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import add, sub
from xlab.lax.comparison import lt, select
from xlab.lax.convert import convert, convert_element_type
from xlab.lax.creation import full, full_like, zeros_like_aval
from xlab.lax.reduce_sum import reduce_sum_p
from xlab.lax.shape import (
    broadcast_in_dim,
    canonical_axis,
    canonical_shape,
    concatenate,
    concatenate_p,
    pad,
    pad_p,
    squeeze,
)

__all__ = [
    "dynamic_slice",
    "dynamic_update_slice",
    "index_in_dim",
    "slice",
    "slice_in_dim",
    "split",
]


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Elements `start:limit:stride` along each dimension.

    Args:
        operand: an array.
        start_indices: where the slice begins, in each dimension.
        limit_indices: where it ends, not included.
        strides: its steps, 1 by default.
    """
    starts = dim_indices(start_indices)
    limits = dim_indices(limit_indices)
    steps = None if strides is None else dim_indices(strides)
    aval = aval_of(operand)
    if (
        starts == (0,) * aval.ndim
        and limits == aval.shape
        and (steps is None or set(steps) <= {1})
        and hasattr(operand, "aval")
    ):
        return operand
    if steps is not None and set(steps) <= {1}:
        steps = None
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def _slice_aval(x, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise TypeError(
            f"slice needs one start, limit and stride per dimension of {x}; got {start_indices}, "
            f"{limit_indices}, {strides}"
        )
    shape = []
    for d, a, b, s in zip(x.shape, start_indices, limit_indices, steps):
        if not (0 <= a <= b <= d if type(d) is int else _inside(a, b, d)):
            raise TypeError(f"slice {start_indices} to {limit_indices} is out of bounds for {x}")
        if s <= 0:
            raise TypeError(f"slice strides must be positive, got {strides}")
        shape.append(-(-(b - a) // s))
    return ShapedArray(shape, x.dtype, x.weak_type)


def _inside(a, b, d) -> bool:
    """Whether a slice may lie inside a symbolic dimension: there is no value for which it is known not to."""
    return not any(known_negative(x) for x in (a, b - a, d - b))


def _zero_like(x):
    """The zero of an array's dtype, where a library's own may say what that is."""
    aval = aval_of(x)
    return (
        zeros_like_aval(ShapedArray((), aval.dtype))
        if dtypes.is_extended(aval.dtype)
        else np.zeros((), aval.dtype)[()]
    )


def _slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    shape = x.aval.shape
    config = []
    for d, a, s, n in zip(shape, start_indices, strides or (1,) * len(shape), aval_of(ct).shape):
        covered = max_dim((n - 1) * s + 1, 0)
        config.append((a, d - a - covered, s - 1))
    return [pad(ct, _zero_like(ct), config)]


def _slice_batch(xs, dims, *, start_indices, limit_indices, strides):
    x, d = xs[0], dims[0]
    starts, limits = list(start_indices), list(limit_indices)
    starts.insert(d, 0)
    limits.insert(d, aval_of(x).shape[d])
    steps = None
    if strides is not None:
        steps = list(strides)
        steps.insert(d, 1)
    return slice(x, starts, limits, steps), d


def _slice_lowering(ctx, x, *, start_indices, limit_indices, strides):
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    steps = strides or (1,) * len(start_indices)
    ranges = [
        f"{a}:{b}" if s == 1 else f"{a}:{b}:{s}"
        for a, b, s in zip(start_indices, limit_indices, steps)
    ]
    ranges += [f"0:{d}" for d in src.shape[len(ranges) :]]
    return ctx.op(
        f"stablehlo.slice {x} [{', '.join(ranges)}] : ({mlir.tensor_type(src)}) -> {mlir.tensor_type(out)}"
    )


slice_p = Primitive("slice")
slice_p.linear_in_unreduced = True
slice_p.def_abstract_eval(_slice_aval)
ad.deflinear2(slice_p, _slice_transpose)
sharding_rules[slice_p] = sharding_in_types.resized("slicing")
batching.primitive_batchers[slice_p] = _slice_batch
key_movers[slice_p] = lambda params, keys: [
    np.asarray(keys[tuple(map(builtins.slice, *_bounds(params)))])
]
mlir.register_text_lowering(slice_p, _slice_lowering)


def _bounds(params):
    starts = params["start_indices"]
    return starts, params["limit_indices"], params["strides"] or [1] * len(starts)


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """A slice along one dimension; None and negative indices as in Python.

    Args:
        operand: an array.
        start_index: where the slice begins.
        limit_index: where it ends, not included.
        stride: its step.
        axis: the axis.
    """
    shape = aval_of(operand).shape
    axis = canonical_axis(axis, len(shape))
    n = shape[axis]
    start = 0 if start_index is None else dim_index(start_index)
    limit = n if limit_index is None else dim_index(limit_index)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = (
        (start + n if start < 0 else start),
        (limit + n if limit < 0 else limit),
        stride,
    )
    return slice(operand, starts, limits, steps)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One position along a dimension.

    Args:
        operand: an array.
        index: the position.
        axis: the axis.
        keepdims: whether the dimension stays, with size 1.
    """
    n = aval_of(operand).shape[canonical_axis(axis, aval_of(operand).ndim)]
    index = dim_index(index)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
    index %= n
    out = slice_in_dim(operand, index, index + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """The operand cut along a dimension into parts of the given sizes.

    Args:
        operand: an array.
        sizes: lengths of the parts.
        axis: the axis.
    """
    axis = canonical_axis(axis, aval_of(operand).ndim)
    if sum(sizes) != aval_of(operand).shape[axis]:
        raise ValueError(
            f"split sizes {tuple(sizes)} must add up to dimension {axis} of {aval_of(operand)}"
        )
    return list(split_p.bind(operand, sizes=dim_indices(sizes), axis=axis))


split_p = Primitive("split", multiple_results=True)
split_p.linear_in_unreduced = True
key_movers[split_p] = lambda params, keys: np.split(
    keys, np.cumsum(params["sizes"])[:-1], params["axis"]
)


@split_p.def_abstract_eval
def _split_aval(x, *, sizes, axis):
    return [
        ShapedArray((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for n in sizes
    ]


def _split_transpose(cts, x, *, sizes, axis):
    return [concatenate([instantiate_zeros(ct) for ct in cts], axis)]


def _split_lowering(ctx, x, *, sizes, axis):
    src = physical_aval(ctx.avals_in[0])
    outs, start = [], 0
    for n, aval in zip(sizes, map(physical_aval, ctx.avals_out)):
        ranges = [f"0:{d}" for d in src.shape]
        ranges[axis] = f"{start}:{start + n}"
        outs.append(
            ctx.op(
                f"stablehlo.slice {x} [{', '.join(ranges)}] : ({mlir.tensor_type(src)}) -> "
                f"{mlir.tensor_type(aval)}"
            )
        )
        start += n
    return outs


ad.deflinear2(split_p, _split_transpose)
sharding_rules[split_p] = sharding_in_types.resized("splitting")
batching.primitive_batchers[split_p] = lambda xs, ds, sizes, axis: (
    split_p.bind(xs[0], sizes=sizes, axis=axis + (axis >= ds[0])),
    [ds[0]] * len(sizes),
)
mlir.register_text_lowering(split_p, _split_lowering)


# -- rules of joining and padding, which need slices -------------------------------------------------------


def _concatenate_transpose(ct, *xs, dimension):
    out, start = [], 0
    for x in xs:
        size = (x.aval if is_undefined_primal(x) else aval_of(x)).shape[dimension]
        out.append(
            slice_in_dim(ct, start, start + size, axis=dimension)
            if is_undefined_primal(x)
            else None
        )
        start += size
    return out


def _pad_transpose(ct, x, value, *, padding_config):
    undone = [(-lo, -hi, 0) for lo, hi, _ in padding_config]
    zero = _zero_like(ct)
    trimmed = pad_p.bind(ct, zero, padding_config=tuple(undone))
    strides = [i + 1 for _, _, i in padding_config]
    inner = slice(trimmed, [0] * len(strides), aval_of(trimmed).shape, strides)
    axes = tuple(range(aval_of(ct).ndim))

    def total(a):
        return reduce_sum_p.bind(a, axes=axes, out_sharding=None)

    ct_value = None
    if is_undefined_primal(value):
        ct_value = sub(total(ct), total(inner))
    return [inner if is_undefined_primal(x) else None, ct_value]


def _pad_batch(xs, dims, *, padding_config):
    x, value = xs
    if dims[1] is None:
        config = list(padding_config)
        config.insert(dims[0], (0, 0, 0))
        return pad_p.bind(x, value, padding_config=tuple(config)), dims[0]
    # A padding value per example: pad with zeros and choose it where the mask says padding.
    n = aval_of(value).shape[0]
    x = batching.move_batch_dim_to(x, dims[0], n, 0)
    config = ((0, 0, 0), *padding_config)
    zero = _zero_like(x)
    padded = pad_p.bind(x, zero, padding_config=config)
    mask = pad_p.bind(
        full(aval_of(x).shape, True, np.dtype(bool)), np.False_, padding_config=config
    )
    return select(mask, padded, broadcast_in_dim(value, aval_of(padded).shape, (0,))), 0


ad.primitive_transposes[concatenate_p] = _concatenate_transpose
ad.primitive_transposes[pad_p] = _pad_transpose
sharding_rules[pad_p] = sharding_in_types.resized("padding")
batching.primitive_batchers[pad_p] = _pad_batch


# -- dynamic ----------------------------------------------------------------------------------------------


def _start_scalars(operand, start_indices, allow_negative_indices: bool | Sequence[bool] = True):
    """Start positions as integer scalars of one dtype, negative ones counted from the end of the dimensions that allow it."""
    shape = aval_of(operand).shape
    negative = (
        [bool(allow_negative_indices)] * len(shape)
        if isinstance(allow_negative_indices, (bool, np.bool_))
        else list(allow_negative_indices)
    )
    if len(negative) != len(shape):
        raise ValueError(
            f"allow_negative_indices={allow_negative_indices} has to be one bool, or one per dimension of shape {shape}"
        )
    aval = getattr(start_indices, "aval", None)
    if aval is not None or isinstance(start_indices, np.ndarray):
        array = start_indices
        shape_of = aval_of(array).shape
        if shape_of != (len(shape),):
            raise ValueError(
                f"start indices must be one number per dimension of shape {shape}, got {aval_of(array)}"
            )
        start_indices = (
            list(array)
            if isinstance(array, np.ndarray)
            else [squeeze(slice(array, (i,), (i + 1,)), (0,)) for i in range(len(shape))]
        )
    start_indices = list(start_indices)
    if len(start_indices) != len(shape):
        raise ValueError(
            f"{len(start_indices)} start indices were given for an operand of rank {len(shape)}"
        )
    out = []
    for i, n, from_end in zip(start_indices, shape, negative):
        if isinstance(i, (int, np.integer)) and not (i < 0 and isinstance(n, SymbolicDim)):
            i = operator.index(i)
            if i < 0 and not from_end:
                raise ValueError(
                    f"Index {i} is out of bounds for a dimension of size {n} if allow_negative_indices=False; "
                    f"leave that out to count from the end"
                )
            out.append(np.int32(i + n if i < 0 else i))
            continue
        a = aval_of(i)
        if isinstance(i, (int, SymbolicDim)):
            i = convert_element_type(add(i, n) if known_negative(i) else i, np.int32)
            out.append(i)
            continue
        if a.shape or not dtypes.issubdtype(a.dtype, np.integer):
            raise TypeError(f"dynamic slice indices must be integer scalars, got {a}")
        if from_end and dtypes.issubdtype(a.dtype, np.signedinteger):
            bound = (
                convert(n, a.dtype)
                if isinstance(n, SymbolicDim)
                else np.asarray(n).astype(a.dtype)[()]
            )
            i = select(lt(i, np.zeros((), a.dtype)[()]), add(i, bound), i)
        out.append(i)
    kinds = {aval_of(i).dtype for i in out if not isinstance(i, np.int32)}
    if len(kinds) == 1:
        dtype = kinds.pop()
        out = [np.asarray(i).astype(dtype)[()] if isinstance(i, np.int32) else i for i in out]
    elif kinds:
        out = [convert_element_type(i, np.int32) for i in out]
    return out


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of static size at a run-time position; positions are moved so that the slice lies inside.

    Args:
        allow_negative_indices: whether negative positions count from the end, for all dimensions or one by one. Without it
            positions known not to be negative need no comparison.
    """
    return dynamic_slice_p.bind(
        operand,
        *_start_scalars(operand, start_indices, allow_negative_indices),
        slice_sizes=canonical_shape(slice_sizes),
    )


def _dynamic_slice_aval(x, *starts, slice_sizes):
    if len(slice_sizes) != x.ndim or len(starts) != x.ndim:
        raise TypeError(
            f"dynamic_slice needs one start and size per dimension of {x}, got sizes {slice_sizes}"
        )
    if any(known_negative(d - s) for s, d in zip(slice_sizes, x.shape)):
        raise TypeError(f"slice sizes {slice_sizes} are larger than the operand {x}")
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _dynamic_slice_jvp(primals, tangents, *, slice_sizes):
    out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    if type(tangents[0]) is Zero:
        return out, Zero.of(out)
    return out, dynamic_slice_p.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)


def _dynamic_slice_transpose(ct, x, *starts, slice_sizes):
    return [
        dynamic_update_slice_p.bind(zeros_like_aval(x.aval.to_ct_aval()), ct, *starts),
        *[None] * len(starts),
    ]


# One slice, or one update, per example is a gather or a scatter: set in those files, which import this one.
slices_per_example = updates_per_example = None


def set_per_example(*, slices=None, updates=None):
    global slices_per_example, updates_per_example
    slices_per_example = slices or slices_per_example
    updates_per_example = updates or updates_per_example


def _dynamic_slice_batch(xs, dims, *, slice_sizes):
    x, *starts = xs
    d, *ds = dims
    if all(s is None for s in ds):
        sizes = list(slice_sizes)
        sizes.insert(d, aval_of(x).shape[d])
        starts.insert(d, np.zeros((), aval_of(starts[0]).dtype)[()] if starts else np.int32(0))
        return dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes)), d
    return slices_per_example(xs, dims, slice_sizes), 0


def _dynamic_slice_lowering(ctx, x, *starts, slice_sizes):
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    starts, types = list(starts), [mlir.tensor_type(a) for a in ctx.avals_in[1:]]
    for _ in range(src.ndim - len(starts)):
        index = ctx.avals_in[1] if len(ctx.avals_in) > 1 else ShapedArray((), np.int32)
        starts.append(ctx.constant(np.zeros((), index.dtype), index))
        types.append(mlir.tensor_type(index))
    return ctx.op(
        f"stablehlo.dynamic_slice {', '.join([x, *starts])}, sizes = [{', '.join(map(str, out.shape))}] : "
        f"({', '.join([mlir.tensor_type(src), *types])}) -> {mlir.tensor_type(out)}"
    )


dynamic_slice_p = Primitive("dynamic_slice")
dynamic_slice_p.linear_in_unreduced = ((0,),)
dynamic_slice_p.def_abstract_eval(_dynamic_slice_aval)
ad.primitive_jvps[dynamic_slice_p] = _dynamic_slice_jvp
ad.primitive_transposes[dynamic_slice_p] = _dynamic_slice_transpose
sharding_rules[dynamic_slice_p] = sharding_in_types.resized("dynamic slicing")
batching.primitive_batchers[dynamic_slice_p] = _dynamic_slice_batch
key_movers[dynamic_slice_p] = lambda params, keys, *starts: [
    unknown_part(keys, params["slice_sizes"])
]
mlir.register_text_lowering(dynamic_slice_p, _dynamic_slice_lowering)


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The operand with a block replaced at a run-time position, moved so that the block lies inside.

    Args:
        operand: an array.
        update: the array to put there.
        start_indices: where it goes, in each dimension; moved inside where it would leave the
            array.
        allow_negative_indices: whether negative indices count from the end.
    """
    return dynamic_update_slice_p.bind(
        operand, update, *_start_scalars(operand, start_indices, allow_negative_indices)
    )


def _dynamic_update_aval(x, update, *starts):
    if x.dtype != update.dtype:
        raise TypeError(
            f"dynamic_update_slice needs operand and update of one dtype, got {x} and {update}"
        )
    if x.ndim != update.ndim or any(u > d for u, d in zip(update.shape, x.shape)):
        raise TypeError(f"the update {update} does not fit into the operand {x}")
    return ShapedArray(x.shape, x.dtype)


def _dynamic_update_jvp(primals, tangents):
    out = dynamic_update_slice_p.bind(*primals)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return out, Zero.of(out)
    return out, dynamic_update_slice_p.bind(*map(instantiate_zeros, tangents[:2]), *primals[2:])


def _dynamic_update_transpose(ct, x, update, *starts):
    aval = update.aval if is_undefined_primal(update) else aval_of(update)
    shape = aval.shape
    ct_x = (
        dynamic_update_slice_p.bind(
            ct, full_like(ct, 0, shape=shape, sharding=aval.explicit_sharding), *starts
        )
        if is_undefined_primal(x)
        else None
    )
    ct_u = (
        dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
        if is_undefined_primal(update)
        else None
    )
    return [ct_x, ct_u, *[None] * len(starts)]


def _dynamic_update_batch(xs, dims):
    x, update, *starts = xs
    d, du, *ds = dims
    size = next(aval_of(v).shape[e] for v, e in zip(xs, dims) if e is not None)
    if all(s is None for s in ds):
        x, update = (
            batching.move_batch_dim_to(x, d, size, 0),
            batching.move_batch_dim_to(update, du, size, 0),
        )
        zero = np.zeros((), aval_of(starts[0]).dtype)[()] if starts else np.int32(0)
        return dynamic_update_slice_p.bind(x, update, zero, *starts), 0
    return updates_per_example(xs, dims), 0


def _dynamic_update_lowering(ctx, x, update, *starts):
    src, up = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_in[1])
    starts, types = list(starts), [mlir.tensor_type(a) for a in ctx.avals_in[2:]]
    for _ in range(src.ndim - len(starts)):
        index = ctx.avals_in[2] if len(ctx.avals_in) > 2 else ShapedArray((), np.int32)
        starts.append(ctx.constant(np.zeros((), index.dtype), index))
        types.append(mlir.tensor_type(index))
    t = mlir.tensor_type(src)
    return ctx.op(
        f"stablehlo.dynamic_update_slice {', '.join([x, update, *starts])} : "
        f"({', '.join([t, mlir.tensor_type(up), *types])}) -> {t}"
    )


dynamic_update_slice_p = Primitive("dynamic_update_slice")
dynamic_update_slice_p.linear_in_unreduced = ((0, 1),)
dynamic_update_slice_p.def_abstract_eval(_dynamic_update_aval)
ad.primitive_jvps[dynamic_update_slice_p] = _dynamic_update_jvp
ad.primitive_transposes[dynamic_update_slice_p] = _dynamic_update_transpose
sharding_rules[dynamic_update_slice_p] = sharding_in_types.update
batching.primitive_batchers[dynamic_update_slice_p] = _dynamic_update_batch
mlir.register_text_lowering(dynamic_update_slice_p, _dynamic_update_lowering)


costs.register(costs.reads_result, slice_p, dynamic_slice_p)
costs.register(costs.fused_moves, split_p)
costs.register(costs.writes_update, dynamic_update_slice_p)
