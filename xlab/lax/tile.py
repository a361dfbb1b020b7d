"""`tile`: an array repeated along its dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.values import physical_aval
from xlab.lax import sharding_in_types
from xlab.lax.reduce_sum import reduce_sum_p
from xlab.lax.shape import canonical_shape, reshape

__all__ = ["tile"]


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """The operand repeated `reps[i]` times along dimension i.

    Example:
        >>> import numpy as np
        >>> tile(np.ones((2, 3)), (2, 1)).shape
        (4, 3)
    """
    reps = canonical_shape(reps)
    if len(reps) != aval_of(operand).ndim:
        raise TypeError(
            f"tile needs one number of repeats per dimension: reps length must be equal to the ndim of x, got {reps} for "
            f"{aval_of(operand)}"
        )
    return tile_p.bind(operand, reps=reps)


def _tile_lowering(ctx, x, *, reps):
    aval = physical_aval(ctx.avals_in[0])
    reps = (*reps, *(1,) * (aval.ndim - len(reps)))
    spread = aval.update(
        shape=tuple(d for r, n in zip(reps, aval.shape) for d in (r, n)), sharding=None
    )
    x = ctx.broadcast(x, aval, spread, tuple(range(1, spread.ndim, 2)))
    return (
        ctx.op(f"stablehlo.reshape {x} : ({mlir.tensor_type(spread)}) -> {ctx.type_out()}")
        if spread.ndim
        else x
    )


def _tile_batch(xs, dims, *, reps):
    (x,), (d,) = xs, dims
    return tile_p.bind(x, reps=(*reps[:d], 1, *reps[d:])), d


def _tile_transpose(ct, x, *, reps):
    parts = reshape(ct, [d for r, n in zip(reps, x.aval.shape) for d in (r, n)])
    return [reduce_sum_p.bind(parts, axes=tuple(range(0, 2 * len(reps), 2)), out_sharding=None)]


tile_p = Primitive("tile")
tile_p.linear_in_unreduced = True
tile_p.def_abstract_eval(
    lambda x, *, reps: ShapedArray(
        tuple(r * n for r, n in zip(reps, x.shape)), x.dtype, x.weak_type
    )
)
ad.deflinear2(tile_p, _tile_transpose)
sharding_rules[tile_p] = sharding_in_types.tile
batching.primitive_batchers[tile_p] = _tile_batch
mlir.register_text_lowering(tile_p, _tile_lowering)

costs.register(costs.fused_moves, tile_p)
