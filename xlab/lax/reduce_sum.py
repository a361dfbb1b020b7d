"""`reduce_sum`, apart from the other reductions because arithmetic needs it for its transposes."""

from __future__ import annotations

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax import sharding_in_types
from xlab.lax.shape import (
    broadcast_at,
    broadcast_in_dim,
    broadcast_in_dim_p,
    moveaxis,
    reshape,
    transpose,
)


def reduced_shape(x, axes) -> tuple[int, ...]:
    """The shape without the reduced axes, after checking them."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate axis in {tuple(axes)}")
    for a in axes:
        if not 0 <= a < x.ndim:
            raise ValueError(f"axis {a} is out of bounds for an array of type {x}")
    return tuple(d for i, d in enumerate(x.shape) if i not in axes)


def _reduce_sum_aval(x, *, axes, out_sharding):
    if not dtypes.issubdtype(x.dtype, np.number):
        raise TypeError(
            f"reduce_sum does not accept dtype {dtypes.name(x.dtype)}: it takes numeric arrays"
        )
    return ShapedArray(reduced_shape(x, axes), x.dtype, x.weak_type)


def _reduce_sum_transpose(ct, x, *, axes, out_sharding):
    kept = [i for i in range(x.aval.ndim) if i not in axes]
    return [broadcast_in_dim(ct, x.aval.shape, kept, out_sharding=x.aval.explicit_sharding)]


def reduction_text(ctx, op: str, x: str, init: str, axes, aval_in, aval_out) -> str:
    """Emits `stablehlo.reduce` with a one-operation body."""
    scalar = mlir.tensor_type(aval_in.update(shape=()))
    return ctx.op(
        f"stablehlo.reduce({x} init: {init}) applies {op} across dimensions = [{', '.join(map(str, axes))}] : "
        f"({mlir.tensor_type(aval_in)}, {scalar}) -> {mlir.tensor_type(aval_out)}"
    )


def _reduce_sum_lowering(ctx, x, *, axes, out_sharding):
    aval = ctx.avals_in[0]
    if not axes:
        return x
    init = ctx.constant(np.zeros((), aval.dtype), aval.update(shape=(), weak_type=False))
    return reduction_text(ctx, "stablehlo.add", x, init, axes, aval, ctx.avals_out[0])


class _ReduceSum(Primitive):
    __slots__ = ()

    def bind(self, x, **params):
        if not config.allow_f16_reductions and aval_of(x).dtype in (np.float16, dtypes.bfloat16):
            raise ValueError(
                f"reduce_sum on operand {aval_of(x)} is not allowed when allow_f16_reductions=False: convert it to "
                f"float32 first"
            )
        return Primitive.bind(self, x, **params)


reduce_sum_p = _ReduceSum("reduce_sum")
reduce_sum_p.linear_in_unreduced = True
reduce_sum_p.def_abstract_eval(_reduce_sum_aval)
ad.deflinear2(reduce_sum_p, _reduce_sum_transpose)
sharding_rules[reduce_sum_p] = sharding_in_types.reduction
batching.defreducer(reduce_sum_p)
mlir.register_text_lowering(reduce_sum_p, _reduce_sum_lowering)


def _broadcast_transpose(ct, x, *, shape, broadcast_dimensions, sharding):
    aval = x.aval
    kept = [t for d, t in zip(aval.shape, broadcast_dimensions) if d != 1 or shape[t] == 1]
    gone = tuple([i for i in range(len(shape)) if i not in kept])
    ct = reduce_sum_p.bind(ct, axes=gone, out_sharding=None) if gone else ct
    order = sorted(kept)
    ct = transpose(ct, [order.index(t) for t in kept])
    return [
        reshape(
            ct,
            aval.shape,
            out_sharding=None
            if aval_of(ct).shape == aval.shape
            else sharding_in_types.like(aval, aval_of(ct)),
        )
    ]


ad.primitive_transposes[broadcast_in_dim_p] = _broadcast_transpose

batching.set_array_operations(
    moveaxis, broadcast_at, lambda x, axis: reduce_sum_p.bind(x, axes=(axis,), out_sharding=None)
)
batching.set_broadcast_leading(lambda x, shape: broadcast_in_dim(x, shape, (0,)))

costs.register(costs.reduction, reduce_sum_p)
