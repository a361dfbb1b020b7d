"""Shape: broadcasting, reshaping, transposing, joining, padding."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dims import SymbolicDim, dim_indices, known_negative, max_dim
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.trace import Tracer, state
from xlab.core.typing import Array, ArrayLike, ShardingLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.ad import Zero, instantiate_zeros
from xlab.interpreters.key_reuse import key_movers
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax import sharding_in_types
from xlab.sharding.typed import out_sharding as canonical_out_sharding

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "collapse",
    "concatenate",
    "expand_dims",
    "pad",
    "reshape",
    "rev",
    "squeeze",
    "transpose",
]


def canonical_shape(shape) -> tuple[int, ...]:
    """A shape as a tuple of ints; a message for anything traced or negative."""
    if isinstance(shape, (int, np.integer, SymbolicDim)) or getattr(shape, "shape", None) == ():
        shape = (shape,)
    try:
        out = dim_indices(shape)
    except TypeError as e:
        raise TypeError(
            f"shapes must be sequences of integers known while tracing, got {shape!r}: {e}"
        ) from None
    if any(d < 0 if type(d) is int else known_negative(d) for d in out):
        raise ValueError(f"shapes cannot have negative dimensions, got {out}")
    return out


def canonical_axis(axis, ndim: int) -> int:
    """An axis as a number from 0 to ndim-1.

    Raises:
        AxisError: NumPy's, a ValueError and an IndexError, where the array has no such axis.
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis + ndim if axis < 0 else axis


def canonical_axes(axes, ndim: int) -> tuple[int, ...]:
    return tuple(canonical_axis(a, ndim) for a in axes)


# -- broadcast_in_dim -------------------------------------------------------------------------------------


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """The operand spread over `shape`; its dimension i becomes `broadcast_dimensions[i]`.

    The dimensions may come in any order, which permutes them; an operand that has the shape already is left as it is.

    Args:
        operand: array.
        shape: of the result; a dimension of the operand has the size of the one it becomes, or 1.
        broadcast_dimensions: one different dimension of the result per dimension of the operand.
        out_sharding: how the result is sharded, with a mesh of explicit axes.

    Raises:
        TypeError: a dimension is repeated, out of range or missing, or a size does not fit.

    Example:
        >>> from xlab import lax
        >>> import xlab.numpy as jnp
        >>> lax.broadcast_in_dim(jnp.array([[1, 2, 3]]), (3, 2), (1, 0))
        Array([[1, 1],
               [2, 2],
               [3, 3]], dtype=int32)
    """
    shape = canonical_shape(shape)
    dims = dim_indices(broadcast_dimensions)
    aval = aval_of(operand)
    if out_sharding is not None:
        out_sharding = canonical_out_sharding(out_sharding, "broadcast_in_dim", len(shape))
    elif aval.shape == shape and hasattr(operand, "aval"):
        if dims != tuple(range(len(shape))):
            _check_broadcast(aval, shape, dims)
        return operand
    return broadcast_in_dim_p.bind(
        operand, shape=shape, broadcast_dimensions=dims, sharding=out_sharding
    )


def broadcast(
    operand: ArrayLike, sizes: Sequence[int], *, out_sharding: ShardingLike | None = None
) -> Array:
    """The operand with new leading dimensions.

    Args:
        operand: an array.
        sizes: the new leading dimensions.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    ndim = aval_of(operand).ndim
    sizes = canonical_shape(sizes)
    return broadcast_in_dim(
        operand,
        (*sizes, *aval_of(operand).shape),
        range(len(sizes), len(sizes) + ndim),
        out_sharding=out_sharding,
    )


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all given shapes, or single sizes, broadcast to, by NumPy's rule."""
    if not shapes:
        return ()
    shapes = tuple(map(canonical_shape, shapes))
    ndim = max(map(len, shapes))
    out = []
    for column in zip(*((1,) * (ndim - len(s)) + s for s in shapes)):
        sizes = {d for d in column if d != 1}
        if len(sizes) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={list(shapes)}")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def _check_broadcast(x, shape, dims):
    if len(dims) != x.ndim:
        raise TypeError(
            f"broadcast_in_dim needs one dimension number per operand dimension: got {dims} for {x}"
        )
    if len(set(dims)) < len(dims):
        raise TypeError(
            f"broadcast_in_dim puts each dimension of the operand in a place of its own: broadcast_dimensions must not "
            f"repeat, got {dims}"
        )
    for d, target in zip(x.shape, dims):
        if not 0 <= target < len(shape):
            raise TypeError(
                f"broadcast_dimensions of broadcast_in_dim are dimensions of the result, 0 to {len(shape) - 1} for shape "
                f"{shape}; got {dims}"
            )
        if d not in (1, shape[target]):
            raise TypeError(
                f"cannot broadcast {x} to {shape} along dimensions {dims}: sizes must be equal or 1"
            )


def _broadcast_aval(x, *, shape, broadcast_dimensions, sharding):
    _check_broadcast(x, shape, broadcast_dimensions)
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_batch(xs, dims, *, shape, broadcast_dimensions, sharding):
    x = batching.moveaxis(xs[0], dims[0], 0)
    n = aval_of(x).shape[0]
    return broadcast_in_dim_p.bind(
        x,
        shape=(n, *shape),
        broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions)),
        sharding=sharding_in_types.batched(sharding, aval_of(x)),
    ), 0


def _broadcast_lowering(ctx, x, *, shape, broadcast_dimensions, sharding):
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    extra = src.ndim - ctx.avals_in[0].ndim
    dims = (*broadcast_dimensions, *range(len(shape), len(shape) + extra))
    if src.shape == out.shape:
        return x
    return ctx.broadcast(x, src, out, dims)


def _broadcast_keys(params, keys, *sizes):
    shape = [1] * len(params["shape"])
    for d, size in zip(params["broadcast_dimensions"], keys.shape):
        shape[d] = size
    return [np.broadcast_to(keys.reshape(shape), params["shape"])]


broadcast_in_dim_p = Primitive("broadcast_in_dim")
broadcast_in_dim_p.linear_in_unreduced = True
broadcast_in_dim_p.def_abstract_eval(_broadcast_aval)
ad.deflinear2(broadcast_in_dim_p)  # its transpose, a sum, stands in reduce_sum.py
sharding_rules[broadcast_in_dim_p] = sharding_in_types.broadcast
batching.primitive_batchers[broadcast_in_dim_p] = _broadcast_batch
key_movers[broadcast_in_dim_p] = _broadcast_keys
mlir.register_text_lowering(broadcast_in_dim_p, _broadcast_lowering)


# -- reshape, squeeze, expand_dims ------------------------------------------------------------------------


def reshape(
    operand: ArrayLike,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """The elements in row-major order under another shape.

    Args:
        operand: an array.
        new_sizes: the new shape.
        dimensions: the order to read the dimensions in.
        out_sharding: how the result lies over the Explicit axes of the current mesh: a spec or a
            sharding.
    """
    shape = canonical_shape(new_sizes)
    aval = aval_of(operand)
    if dimensions is not None and tuple(dimensions) != tuple(range(aval.ndim)):
        operand = transpose(operand, dimensions)
        aval = aval_of(operand)
    if out_sharding is not None:
        out_sharding = canonical_out_sharding(out_sharding, "reshape", len(shape))
    elif aval.shape == shape and hasattr(operand, "aval"):
        return operand
    return reshape_p.bind(operand, new_sizes=shape, dimensions=None, sharding=out_sharding)


def _reshape_aval(x, *, new_sizes, dimensions, sharding):
    size = 1
    for d in new_sizes:
        size *= d
    if size != x.size:
        raise TypeError(
            f"cannot reshape array of shape {x.shape} (size {x.size}) into shape {new_sizes} (size {size})"
        )
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_batch(xs, dims, *, new_sizes, dimensions, sharding):
    x = batching.moveaxis(xs[0], dims[0], 0)
    return reshape(
        x,
        (aval_of(x).shape[0], *new_sizes),
        out_sharding=sharding_in_types.batched(sharding, aval_of(x)),
    ), 0


def _reshape_lowering(ctx, x, **_):
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    if src.shape == out.shape:
        return x
    return ctx.op(f"stablehlo.reshape {x} : ({mlir.tensor_type(src)}) -> {mlir.tensor_type(out)}")


reshape_p = Primitive("reshape")
reshape_p.linear_in_unreduced = True
reshape_p.def_abstract_eval(_reshape_aval)
ad.deflinear2(
    reshape_p,
    lambda ct, x, **_: [
        reshape(ct, x.aval.shape, out_sharding=sharding_in_types.like(x.aval, aval_of(ct)))
    ],
)
sharding_rules[reshape_p] = sharding_in_types.reshape
batching.primitive_batchers[reshape_p] = _reshape_batch
key_movers[reshape_p] = lambda params, keys, *sizes: [keys.reshape(params["new_sizes"])]
mlir.register_text_lowering(reshape_p, _reshape_lowering)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array without the given dimensions of size 1."""
    dims = tuple(sorted(canonical_axes(dimensions, aval_of(array).ndim)))
    if not dims and hasattr(array, "aval"):
        return array
    return squeeze_p.bind(array, dimensions=dims)


def _squeeze_aval(x, *, dimensions):
    for d in dimensions:
        if x.shape[d] != 1:
            raise ValueError(
                f"cannot select an axis to squeeze out which has size not equal to one, got shape={x.shape} "
                f"and dimensions={dimensions}"
            )
    return ShapedArray(
        [s for i, s in enumerate(x.shape) if i not in dimensions], x.dtype, x.weak_type
    )


def _squeeze_batch(xs, dims, *, dimensions):
    x = batching.moveaxis(xs[0], dims[0], 0)
    return squeeze_p.bind(x, dimensions=tuple(d + 1 for d in dimensions)), 0


squeeze_p = Primitive("squeeze")
squeeze_p.linear_in_unreduced = True
squeeze_p.def_abstract_eval(_squeeze_aval)
ad.deflinear2(
    squeeze_p,
    lambda ct, x, **_: [
        reshape(ct, x.aval.shape, out_sharding=sharding_in_types.like(x.aval, aval_of(ct)))
    ],
)
sharding_rules[squeeze_p] = sharding_in_types.squeeze
batching.primitive_batchers[squeeze_p] = _squeeze_batch
key_movers[squeeze_p] = lambda params, keys: [keys.squeeze(tuple(params["dimensions"]))]
mlir.register_text_lowering(squeeze_p, _reshape_lowering)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array with new dimensions of size 1 at the given places of the result."""
    aval = aval_of(array)
    ndim = aval.ndim + len(tuple(dimensions))
    new = set(canonical_axes(dimensions, ndim))
    if len(new) != len(tuple(dimensions)):
        raise ValueError(f"repeated axis in expand_dims: {dimensions}")
    old = iter(aval.shape)
    shape = [1 if i in new else next(old) for i in range(ndim)]
    return broadcast_in_dim(array, shape, [i for i in range(ndim) if i not in new])


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Dimensions from start to stop (exclusive) as one.

    Args:
        operand: an array.
        start_dimension: the first dimension that is joined.
        stop_dimension: the one after the last.
    """
    shape = aval_of(operand).shape
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if hi < lo:
        raise ValueError(
            f"invalid dimension range [{start_dimension}, {stop_dimension}) for shape {shape}"
        )
    return reshape(operand, (*shape[:lo], math.prod(shape[lo:hi]), *shape[hi:]))


# -- transpose, rev ---------------------------------------------------------------------------------------


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """The operand with its dimensions in another order: result dimension i is operand dimension permutation[i]."""
    perm = dim_indices(permutation)
    if (
        perm == tuple(range(len(perm)))
        and hasattr(operand, "aval")
        and len(perm) == operand.aval.ndim
    ):
        return operand
    return transpose_p.bind(operand, permutation=perm)


def _transpose_aval(x, *, permutation):
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            f"transpose needs a permutation of {tuple(range(x.ndim))}, got {permutation}"
        )
    return ShapedArray([x.shape[i] for i in permutation], x.dtype, x.weak_type)


def _transpose_batch(xs, dims, *, permutation):
    d = dims[0]
    return transpose_p.bind(xs[0], permutation=(d, *(i + (i >= d) for i in permutation))), 0


def _transpose_lowering(ctx, x, *, permutation):
    src, out = physical_aval(ctx.avals_in[0]), physical_aval(ctx.avals_out[0])
    perm = (*permutation, *range(len(permutation), src.ndim))
    return ctx.op(
        f"stablehlo.transpose {x}, dims = [{', '.join(map(str, perm))}] : "
        f"({mlir.tensor_type(src)}) -> {mlir.tensor_type(out)}"
    )


transpose_p = Primitive("transpose")
transpose_p.linear_in_unreduced = True
transpose_p.def_abstract_eval(_transpose_aval)
ad.deflinear2(
    transpose_p, lambda ct, x, permutation: [transpose(ct, tuple(np.argsort(permutation).tolist()))]
)
sharding_rules[transpose_p] = sharding_in_types.transpose
batching.primitive_batchers[transpose_p] = _transpose_batch
key_movers[transpose_p] = lambda params, keys: [keys.transpose(params["permutation"])]
mlir.register_text_lowering(transpose_p, _transpose_lowering)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The operand with the given dimensions reversed."""
    dims = canonical_axes(dimensions, aval_of(operand).ndim)
    return rev_p.bind(operand, dimensions=dims)


def _rev_aval(x, *, dimensions):
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}")
    return x


rev_p = Primitive("rev")
rev_p.linear_in_unreduced = True
rev_p.def_abstract_eval(_rev_aval)
ad.deflinear2(rev_p, lambda ct, x, dimensions: [rev(ct, dimensions)])
sharding_rules[rev_p] = sharding_in_types.first_operand
key_movers[rev_p] = lambda params, keys: [np.flip(keys, tuple(params["dimensions"]))]
batching.primitive_batchers[rev_p] = lambda xs, ds, dimensions: (
    rev_p.bind(xs[0], dimensions=tuple(d + (d >= ds[0]) for d in dimensions)),
    ds[0],
)
mlir.register_text_lowering(
    rev_p,
    lambda ctx, x, dimensions: ctx.op(
        f"stablehlo.reverse {x}, dims = [{', '.join(map(str, dimensions))}] : {ctx.type_out()}"
    ),
)


# -- concatenate, pad -------------------------------------------------------------------------------------


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Arrays of one dtype joined along a dimension."""
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1 and hasattr(operands[0], "aval"):
        return operands[0]
    ndim = aval_of(operands[0]).ndim
    if dimension < 0:
        raise TypeError(
            f"lax.concatenate counts dimensions from the front, got dimension={dimension}; xlab.numpy.concatenate takes "
            f"negative axes too"
        )
    return concatenate_p.bind(*operands, dimension=canonical_axis(dimension, ndim) if ndim else 0)


def _concatenate_aval(*xs, dimension):
    first = xs[0]
    for x in xs:
        if not x.ndim:
            raise TypeError(
                f"concatenate joins along a dimension, and scalars have none: got {', '.join(map(str, xs))}"
            )
        if x.dtype != first.dtype:
            raise TypeError(f"concatenate requires equal dtypes, got {', '.join(map(str, xs))}")
        if x.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(x.shape, first.shape)) if i != dimension
        ):
            raise TypeError(
                f"cannot concatenate arrays with shapes that differ in dimensions other than {dimension}: "
                f"{', '.join(str(x.shape) for x in xs)}"
            )
    shape = list(first.shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(shape, first.dtype, all(x.weak_type for x in xs))


def _concatenate_batch(xs, dims, *, dimension):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    xs = [batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)]
    return concatenate_p.bind(*xs, dimension=dimension + 1), 0


concatenate_p = Primitive("concatenate")
concatenate_p.linear_in_unreduced = True
concatenate_p.casts_to_reduced = True
concatenate_p.def_abstract_eval(_concatenate_aval)
ad.deflinear2(concatenate_p)  # its transpose, slices, stands in slicing.py
sharding_rules[concatenate_p] = sharding_in_types.concatenate
batching.primitive_batchers[concatenate_p] = _concatenate_batch
key_movers[concatenate_p] = lambda params, *keys: [
    None if any(k is None for k in keys) else np.concatenate(keys, params["dimension"])
]
mlir.register_text_lowering(
    concatenate_p,
    lambda ctx, *xs, dimension: ctx.op(
        f"stablehlo.concatenate {', '.join(xs)}, dim = {dimension} : ({ctx.types_in()}) -> {ctx.type_out()}"
    ),
)


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """The operand with (low, high, interior) padding per dimension; negative amounts cut.

    Args:
        operand: an array.
        padding_value: the scalar to pad with.
        padding_config: for each dimension, how many go before, after, and between elements;
            negative numbers take away.
    """
    config = tuple(dim_indices(c) for c in padding_config)
    aval = aval_of(operand)
    if (
        aval.mat.unreduced
        and state.manual is None
        and not isinstance(padding_value, Tracer)
        and not padding_value
    ):
        # A sum of zeros.
        padding_value = state.match(padding_value, ShapedArray((), aval.dtype, mat=aval.mat))
    return pad_p.bind(operand, padding_value, padding_config=config)


def _pad_aval(x, value, *, padding_config):
    if value.shape or len(padding_config) != x.ndim:
        raise ValueError(
            f"pad takes a scalar value and one (low, high, interior) per dimension of {x}; got {value} and "
            f"{padding_config}"
        )
    if dtypes.is_extended(x.dtype) and x.dtype.base_shape:
        raise TypeError(
            f"pad does not take random keys such as {x}: join keys with xlab.numpy.concatenate"
        )
    if x.dtype != value.dtype:
        raise TypeError(f"pad needs operand and padding value of one dtype, got {x} and {value}")
    shape = []
    for d, (lo, hi, interior) in zip(x.shape, padding_config):
        if interior < 0:
            raise ValueError(f"interior padding must be non-negative, got {padding_config}")
        size = lo + hi + d + (max_dim(0, d - 1) * interior if interior else 0)
        if known_negative(size):
            raise ValueError(f"padding {padding_config} leaves a negative size for {x}")
        shape.append(size)
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


def _pad_jvp(primals, tangents, *, padding_config):
    out = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return out, Zero.of(out)
    return out, pad_p.bind(*map(instantiate_zeros, tangents), padding_config=padding_config)


pad_p = Primitive("pad")
pad_p.linear_in_unreduced = True
pad_p.casts_to_reduced = True
pad_p.def_abstract_eval(_pad_aval)
ad.primitive_jvps[pad_p] = _pad_jvp
# Its transpose and batching, which slice and select, stand in slicing.py.
mlir.register_text_lowering(
    pad_p,
    lambda ctx, x, v, padding_config: ctx.op(
        f"stablehlo.pad {x}, {v}, low = {mlir.values.dims_text(c[0] for c in padding_config)}, "
        f"high = {mlir.values.dims_text(c[1] for c in padding_config)}, "
        f"interior = {mlir.values.dims_text(c[2] for c in padding_config)} : ({ctx.types_in()}) -> {ctx.type_out()}"
    ),
)


def moveaxis(x, source: int, target: int):
    """One dimension moved, the others in order."""
    ndim = aval_of(x).ndim
    perm = [i for i in range(ndim) if i != source]
    perm.insert(target, source)
    return transpose(x, perm)


def broadcast_at(x, size: int, axis: int):
    """The value repeated along a new dimension."""
    shape = list(aval_of(x).shape)
    shape.insert(axis, size)
    return broadcast_in_dim(
        x,
        shape,
        [i for i in range(len(shape)) if i != axis],
        out_sharding=sharding_in_types.with_batch(aval_of(x), axis)
        if state.batch_sharding is not None
        else None,
    )


costs.register(costs.fused_moves, broadcast_in_dim_p, transpose_p, rev_p, concatenate_p, pad_p)
costs.register(costs.free, reshape_p, squeeze_p)
