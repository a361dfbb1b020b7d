"""Poisson numbers, by two methods of rejection: one for small rates, one for large ones."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.random.continuous import unit_uniform
from xlab.random.drawing import as_dtype, drawn, int_dtype, joint_shape, keys_from, to_shape, where
from xlab.random.keys import clone, one_key
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = ["poisson"]

_MOST_ROUNDS = np.int32(2**31 - 1)


def poisson(
    key: Array,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Poisson numbers with rate `lam`.

    Args:
        key: a key, used up by the call.
        lam: the rate, not negative; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `lam`.
        dtype: an integer dtype, int32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Knuth's product of uniform numbers for rates below 10; Hoermann (1993), The transformed
            rejection method for generating Poisson random variables, above.

    Example:
        >>> import xlab
        >>> xlab.random.poisson(xlab.random.key(0), 3.0, (4,)).dtype
        dtype('int32')
    """
    key, _ = one_key("poisson", key)
    dtype = int_dtype("poisson", dtype)
    return _poisson(
        key, joint_shape("poisson", shape, lam=lam), dtype, lam, out_sharding=out_sharding
    )


@drawn(2)
def _poisson(key, shape, dtype, lam):
    # Whatever the rate comes in: counts are the same with and without 64-bit types.
    fdtype = np.dtype(np.float32)
    lam = to_shape(as_dtype(lam, fdtype), shape)
    small = lax.bitwise_or(lax.ne(lam, lam), lax.lt(lam, as_dtype(10, fdtype)))
    few = _by_products(clone(key), shape, dtype, where(small, lam, as_dtype(0, fdtype)))
    many = _by_ratios(key, shape, dtype, where(small, as_dtype(1e5, fdtype), lam))
    out = lax.select(small, few, many)
    return where(lax.eq(lam, as_dtype(0, fdtype)), as_dtype(0, dtype), out)


def _any(x):
    return lax.reduce_or(x, tuple(range(aval_of(x).ndim)))


def _by_products(key, shape, dtype, lam):
    """How many uniform numbers have a product above e^-lam (Knuth)."""
    limit = lax.neg(lam)

    def more(carry):
        rounds, _, _, log_product = carry
        return lax.bitwise_and(_any(lax.gt(log_product, limit)), lax.lt(rounds, _MOST_ROUNDS))

    def step(carry):
        rounds, count, key, log_product = carry
        key, sub = keys_from(key)
        count = lax.select(lax.gt(log_product, limit), lax.add(count, as_dtype(1, dtype)), count)
        u = unit_uniform(sub, shape, aval_of(lam).dtype)
        return lax.add(rounds, np.int32(1)), count, key, lax.add(log_product, lax.log(u))

    start = (np.int32(0), lax.full(shape, 0, dtype), key, lax.full_like(lam, 0))
    return lax.sub(lax.while_loop(more, step, start)[1], as_dtype(1, dtype))


def _by_ratios(key, shape, dtype, lam):
    """Transformed rejection with squeeze (Hormann, "The transformed rejection method for Poisson variables", 1993)."""
    fdtype = aval_of(lam).dtype

    def number(v):
        return as_dtype(v, fdtype)

    log_lam = lax.log(lam)
    b = lax.add(number(0.931), lax.mul(number(2.53), lax.sqrt(lam)))
    a = lax.add(number(-0.059), lax.mul(number(0.02483), b))
    inverse_alpha = lax.add(number(1.1239), lax.div(number(1.1328), lax.sub(b, number(3.4))))
    v_r = lax.sub(number(0.9277), lax.div(number(3.6224), lax.sub(b, number(2))))

    def more(carry):
        rounds, _, accepted, _ = carry
        return lax.bitwise_and(_any(lax.bitwise_not(accepted)), lax.lt(rounds, _MOST_ROUNDS))

    def step(carry):
        rounds, out, accepted, key = carry
        key, u_key, v_key = keys_from(key, 3)
        u = lax.sub(unit_uniform(u_key, shape, fdtype), number(0.5))
        v = unit_uniform(v_key, shape, fdtype)
        us = lax.sub(number(0.5), lax.abs(u))
        k = lax.add(lax.mul(lax.add(lax.div(lax.mul(number(2), a), us), b), u), lam)
        k = lax.floor(lax.add(k, number(0.43)))
        s = lax.log(lax.div(lax.mul(v, inverse_alpha), lax.add(lax.div(a, lax.mul(us, us)), b)))
        log_density = lax.sub(
            lax.add(lax.neg(lam), lax.mul(k, log_lam)), lax.lgamma(lax.add(k, number(1)))
        )
        inside = lax.bitwise_and(lax.ge(us, number(0.07)), lax.le(v, v_r))
        outside = lax.bitwise_or(
            lax.lt(k, number(0)), lax.bitwise_and(lax.lt(us, number(0.013)), lax.gt(v, us))
        )
        accept = lax.bitwise_or(
            inside, lax.bitwise_and(lax.bitwise_not(outside), lax.le(s, log_density))
        )
        return (
            lax.add(rounds, np.int32(1)),
            lax.select(accept, k, out),
            lax.bitwise_or(accepted, accept),
            key,
        )

    start = (np.int32(0), lax.full_like(lam, -1), lax.full(shape, False, np.dtype(bool)), key)
    return lax.convert_element_type(lax.while_loop(more, step, start)[1], dtype)
