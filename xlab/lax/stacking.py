"""Stacking and unstacking arrays along a new axis; broadcasts to another array's shape or to a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.key_reuse import key_movers
from xlab.lax import sharding_in_types
from xlab.lax.shape import (
    broadcast_in_dim,
    canonical_axis,
    canonical_shape,
    concatenate,
    expand_dims,
    squeeze,
)
from xlab.lax.slicing import slice_in_dim

__all__ = [
    "broadcast_like",
    "broadcast_to_rank",
    "dtype",
    "shape_as_value",
    "stack",
    "stack_p",
    "unstack",
    "unstack_p",
]


def stack(operands: Sequence, axis: int = 0) -> Array:
    """Joins arrays of one shape along a new axis.

    Example:
        >>> import numpy as np
        >>> stack([np.ones(3), np.zeros(3)], axis=1).shape
        (3, 2)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("stack needs at least one array, got none")
    return stack_p.bind(*operands, axis=canonical_axis(axis, aval_of(operands[0]).ndim + 1))


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, as a tuple.

    Example:
        >>> import numpy as np
        >>> len(unstack(np.ones((2, 3)), axis=1))
        3
    """
    aval = aval_of(x)
    if not aval.ndim:
        raise ValueError("unstack takes an array with at least one dimension, got a scalar")
    return tuple(unstack_p.bind(x, axis=canonical_axis(axis, aval.ndim)))


def _stack_aval(*xs, axis):
    first = xs[0]
    for x in xs[1:]:
        if x.shape != first.shape:
            raise ValueError(
                f"All input arrays to stack must have the same shape, got {', '.join(str(a.shape) for a in xs)}"
            )
        if x.dtype != first.dtype:
            raise TypeError(
                f"stack requires arguments to have the same dtypes, got "
                f"{', '.join(dtypes.name(a.dtype) for a in xs)}; convert with lax.convert_element_type"
            )
    return ShapedArray(
        (*first.shape[:axis], len(xs), *first.shape[axis:]),
        first.dtype,
        all(x.weak_type for x in xs),
    )


def _unstack_aval(x, *, axis):
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [ShapedArray(shape, x.dtype, x.weak_type)] * x.shape[axis]


def _stack(*xs, axis):
    return concatenate([expand_dims(x, (axis,)) for x in xs], axis)


def _unstack(x, *, axis):
    return [
        squeeze(slice_in_dim(x, i, i + 1, axis=axis), (axis,))
        for i in range(aval_of(x).shape[axis])
    ]


def _stack_jvp(primals, tangents, *, axis):
    out = stack_p.bind(*primals, axis=axis)
    if all(type(t) is ad.Zero for t in tangents):
        return out, ad.Zero.of(out)
    return out, stack_p.bind(*(ad.instantiate_zeros(t) for t in tangents), axis=axis)


def _stack_transpose(ct, *xs, axis):
    parts = unstack_p.bind(ct, axis=axis)
    return [p if ad.is_undefined_primal(x) else None for p, x in zip(parts, xs)]


def _stack_batch(xs, dims, *, axis):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    return stack_p.bind(
        *(batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims)), axis=axis + 1
    ), 0


def _unstack_jvp(primals, tangents, *, axis):
    outs = unstack_p.bind(*primals, axis=axis)
    (t,) = tangents
    if type(t) is ad.Zero:
        return outs, [ad.Zero.of(o) for o in outs]
    return outs, unstack_p.bind(t, axis=axis)


def _unstack_transpose(cts, x, *, axis):
    return [stack_p.bind(*map(ad.instantiate_zeros, cts), axis=axis)]


def _unstack_batch(xs, dims, *, axis):
    (x,), (d,) = xs, dims
    outs = unstack_p.bind(x, axis=axis + (axis >= d))
    return outs, [d - (axis < d)] * len(outs)


stack_p = Primitive("stack")
stack_p.linear_in_unreduced = True
stack_p.casts_to_reduced = True
stack_p.def_abstract_eval(_stack_aval)
sharding_rules[stack_p] = sharding_in_types.stack
ad.primitive_jvps[stack_p] = _stack_jvp
ad.primitive_transposes[stack_p] = _stack_transpose
batching.primitive_batchers[stack_p] = _stack_batch
key_movers[stack_p] = lambda params, *keys: [
    None if any(k is None for k in keys) else np.stack(keys, params["axis"])
]
mlir.register_text_lowering(stack_p, mlir.lower_fun(_stack, multiple_results=False))

unstack_p = Primitive("unstack", multiple_results=True)
unstack_p.linear_in_unreduced = True
unstack_p.def_abstract_eval(_unstack_aval)
sharding_rules[unstack_p] = sharding_in_types.unstack
ad.primitive_jvps[unstack_p] = _unstack_jvp
ad.primitive_transposes[unstack_p] = _unstack_transpose
batching.primitive_batchers[unstack_p] = _unstack_batch
key_movers[unstack_p] = lambda params, keys: [
    np.asarray(part) for part in np.moveaxis(keys, params["axis"], 0)
]
mlir.register_text_lowering(unstack_p, mlir.lower_fun(_unstack, multiple_results=True))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """An array spread to the shape of another, new dimensions first."""
    shape, own = aval_of(like_arr).shape, aval_of(arr).shape
    return broadcast_in_dim(arr, shape, range(len(shape) - len(own), len(shape)))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """An array with leading dimensions of size 1 up to a rank."""
    shape = aval_of(x).shape
    if len(shape) >= rank:
        return x
    return broadcast_in_dim(
        x, (*(1,) * (rank - len(shape)), *shape), range(rank - len(shape), rank)
    )


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an array of integers."""
    return np.asarray(canonical_shape(shape), np.int32)


def dtype(x: Any) -> np.dtype:
    """The canonical dtype of a value or type."""
    return dtypes.dtype_and_weak(x)[0]


costs.register(costs.fused_moves, stack_p, unstack_p)
