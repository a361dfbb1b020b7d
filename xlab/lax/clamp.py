"""`clamp`: values held between two bounds."""

from __future__ import annotations

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.lax import elementwise as _e
from xlab.lax import sharding_in_types
from xlab.lax.arithmetic import (
    spread_tangent,
)
from xlab.lax.bits import bitwise_and, bitwise_or
from xlab.lax.comparison import ge, gt, lt, select
from xlab.lax.creation import full_like
from xlab.lax.shape import broadcast_in_dim, broadcast_shapes

__all__ = ["clamp"]


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Elementwise `x` limited to `[min, max]`; the bounds have the shape of `x` or are scalars.

    Args:
        min, max: the bounds, of the shape of `x` or scalars.
        x: an array.
    """
    return clamp_p.bind(min, x, max)


def _clamp_aval(lo, x, hi):
    _e.check_dtypes("clamp", (lo, x, hi), _e.sortable)
    for bound in (lo, hi):
        if bound.shape not in ((), x.shape):
            raise TypeError(
                f"clamp bounds must be scalars or have the operand's shape {x.shape}, got {bound.shape}"
            )
    return ShapedArray(x.shape, x.dtype, lo.weak_type and x.weak_type and hi.weak_type)


def _clamp_jvp(t, lo, x, hi):
    return select(bitwise_and(gt(x, lo), lt(x, hi)), t, full_like(t, 0))


def _where_clamped(taken, t):
    """The tangent of a bound, at the elements that took its value."""
    shape = aval_of(taken).shape
    t = t if aval_of(t).shape == shape else broadcast_in_dim(t, shape, ())
    return select(taken, t, full_like(t, 0))


def _clamp_lo_jvp(t, lo, x, hi):
    return _where_clamped(bitwise_and(gt(lo, x), spread_tangent(lt(lo, hi), x)), t)


def _clamp_hi_jvp(t, lo, x, hi):
    # What is limited from above last is `hi`, also where the bounds cross or meet.
    return _where_clamped(bitwise_or(gt(x, hi), spread_tangent(ge(lo, hi), x)), t)


def _clamp_batch(xs, dims):
    lo, x, hi = xs
    if dims[0] is None and dims[2] is None and not aval_of(lo).shape and not aval_of(hi).shape:
        return clamp_p.bind(lo, x, hi), dims[1]
    return batching.broadcast_batcher(_ClampSpread, xs, dims)


class _ClampSpread:
    """`clamp` of an operand that is spread over the shape of bounds that were batched."""

    multiple_results = False

    @staticmethod
    def bind(lo, x, hi):
        shape = broadcast_shapes(*(aval_of(v).shape for v in (lo, x, hi)))
        return clamp_p.bind(lo, broadcast_in_dim(x, shape, range(aval_of(x).ndim)), hi)


clamp_p = Primitive("clamp")
clamp_p.def_abstract_eval(_clamp_aval)
sharding_rules[clamp_p] = sharding_in_types.clamp
batching.primitive_batchers[clamp_p] = _clamp_batch
ad.defjvp(clamp_p, _clamp_lo_jvp, _clamp_jvp, _clamp_hi_jvp)
mlir.register_text_lowering(
    clamp_p,
    lambda ctx, lo, x, hi: ctx.op(
        f"stablehlo.clamp {lo}, {x}, {hi} : ({ctx.types_in()}) -> {ctx.type_out()}"
    ),
)
costs.register(costs.each(), clamp_p)
