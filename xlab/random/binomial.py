"""Binomial and multinomial numbers, by two methods: adding up waits for small means, rejection for large ones."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.lax.shape import canonical_shape
from xlab.random.bits import random_split_p
from xlab.random.continuous import unit_uniform
from xlab.random.drawing import (
    as_dtype,
    drawn,
    float_dtype,
    joint_shape,
    keys_from,
    number_dtype,
    to_shape,
)
from xlab.random.keys import clone, one_key
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = ["binomial", "multinomial"]


def binomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """How many of `n` trials succeed, each with probability `p`; as floating point numbers.

    Args:
        key: a key, used up by the call.
        n: number of trials, not negative; an array that broadcasts to `shape`.
        p: probability of success, in [0, 1]; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `n` and `p` together.
        dtype: a floating dtype, float32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Devroye (1986), Non-Uniform Random Variate Generation, chapter X.4 (waiting times) for small
            means; Hoermann (1993), The generation of binomial random variates (BTRS), for large
            ones.

    Example:
        >>> import xlab
        >>> xlab.random.binomial(xlab.random.key(0), 10.0, 0.5, (4,)).shape
        (4,)
    """
    key, _ = one_key("binomial", key)
    dtype = float_dtype("binomial", dtype)
    return _binomial(
        key, joint_shape("binomial", shape, n=n, p=p), dtype, n, p, out_sharding=out_sharding
    )


@drawn(2)
def _binomial(key, shape, dtype, n, p):
    drawn_in = _drawn_in(p)
    return as_dtype(
        _binomials(key, shape, *(to_shape(as_dtype(v, drawn_in), shape) for v in (n, p))), dtype
    )


def _drawn_in(p):
    """The dtype to draw in, that of the probabilities; the one asked for is that of the result alone."""
    dtype = aval_of(p).dtype
    return dtype if dtypes.issubdtype(dtype, np.floating) else dtypes.canonicalize_dtype(float)


def _binomials(key, shape, n, p):
    dtype = aval_of(n).dtype
    likely = p < 0.5
    q = jnp.where(likely, p, 1 - p)  # successes or failures, whichever are rarer
    bad_n, bad_q = jnp.isnan(n) | (n < 0), jnp.isnan(q) | (q < 0)
    q = jnp.where(bad_q, as_dtype(0.01, dtype), q)
    few = bad_n | (n * q <= 10)
    whole = jnp.floor(n)
    small = _by_waits(clone(key), shape, jnp.where(few, whole, as_dtype(0, dtype)), q)
    endless = jnp.isinf(n)
    other = few | endless
    large = _by_rejection(
        key,
        shape,
        jnp.where(other, as_dtype(1e4, dtype), whole),
        jnp.where(other, as_dtype(0.5, dtype), q),
    )
    out = jnp.where(few, small, large)
    bad = bad_n | bad_q
    out = jnp.where(bad, as_dtype(np.nan, dtype), out)
    out = jnp.where(endless & ~bad, as_dtype(np.inf, dtype), out)
    return jnp.where(likely | bad | endless, out, whole - out)


def _most_rounds(i, dtype):
    return lax.convert_element_type(i, dtype) < as_dtype(dtypes.finfo(dtype).max, dtype)


def _by_waits(key, shape, n, q):
    """How many geometric waiting times fit into `n` trials."""
    dtype = aval_of(n).dtype
    log_miss = lax.log1p(-q)

    def more(carry):
        i, _, passed, _ = carry
        return jnp.any(passed <= n) & _most_rounds(i, dtype)

    def step(carry):
        i, count, passed, key = carry
        sub, key = keys_from(key)
        count = jnp.where(passed <= n, count + 1, count)
        wait = lax.ceil(lax.log(unit_uniform(sub, shape, dtype)) / log_miss)
        return i + np.int32(1), count, passed + wait, key

    zeros = lax.full_like(n, 0)
    return lax.while_loop(more, step, (np.int32(0), zeros, zeros, key))[1] - 1


# What Stirling's formula leaves of log k!, for k = 0 to 9.
_STIRLING = np.array(
    [
        math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
        for k in range(10)
    ]
)


def _stirling_rest(k):
    """The remainder of Stirling's formula; beyond the table it stays at its last value, as in JAX."""
    dtype = aval_of(k).dtype
    kept = lax.clamp(as_dtype(0, dtype), k, as_dtype(9, dtype))
    square = (kept + 1) * (kept + 1)
    series = (
        as_dtype(1 / 12, dtype)
        - (as_dtype(1 / 360, dtype) - as_dtype(1 / 1260, dtype) / square) / square
    ) / (kept + 1)
    table = jnp.asarray(_STIRLING.astype(dtype))
    return jnp.where(k <= 9, table[lax.convert_element_type(jnp.floor(kept), np.int32)], series)


def _by_rejection(key, shape, n, q):
    """Transformed rejection with squeeze (Hormann, "The generation of binomial random variates", 1993)."""
    dtype = aval_of(n).dtype

    def number(v):
        return as_dtype(v, dtype)

    spread = lax.sqrt(n * q * (1 - q))
    b = number(1.15) + number(2.53) * spread
    a = number(-0.0873) + number(0.0248) * b + number(0.01) * q
    c = n * q + number(0.5)
    v_r = number(0.92) - number(4.2) / b
    odds = q / (1 - q)
    alpha = (number(2.83) + number(5.1) / b) * spread
    mode = jnp.floor((n + 1) * q)

    def more(carry):
        i, _, accepted, _ = carry
        return jnp.any(~accepted) & _most_rounds(i, dtype)

    def step(carry):
        i, out, accepted, key = carry
        key, u_key, v_key = keys_from(key, 3)
        u = unit_uniform(u_key, shape, dtype) - number(0.5)
        v = unit_uniform(v_key, shape, dtype)
        us = number(0.5) - lax.abs(u)
        inside = (us >= number(0.07)) & (v <= v_r)
        k = jnp.floor((2 * a / us + b) * u + c)
        outside = (k < 0) | (k > n)
        height = lax.log(v * alpha / (a / (us * us) + b))
        bound = (
            (mode + number(0.5)) * lax.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * lax.log((n - mode + 1) / (n - k + 1))
            + (k + number(0.5)) * lax.log(odds * (n - k + 1) / (k + 1))
            + _stirling_rest(mode)
            + _stirling_rest(n - mode)
            - _stirling_rest(k)
            - _stirling_rest(n - k)
        )
        accept = inside | (~outside & (height <= bound))
        return i + np.int32(1), jnp.where(accept, k, out), accepted | accept, key

    start = (np.int32(0), lax.full_like(n, -1), lax.full(shape, False, np.dtype(bool)), key)
    return lax.while_loop(more, step, start)[1]


def multinomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """How `n` trials fall into classes of probabilities `p`, whose last dimension lists the classes.

    Args:
        key: a key, used up by the call.
        n: number of trials, of shape `p.shape[:-1]` or what broadcasts to it.
        p: weights of the classes, of shape `(..., classes)`; they need not add up to 1.
        shape: shape of the result, `(..., classes)`; by default that of `n` and `p` together.
        dtype: the dtype of the counts, float32 by default (float64 with 64-bit types).
        unroll: as for `lax.scan`, over the classes.

    Raises:
        ValueError: `p` has no dimension, or does not broadcast to `shape`.

    Example:
        >>> import numpy as np, xlab
        >>> float(xlab.random.multinomial(xlab.random.key(0), 10.0, np.float32([0.2, 0.3, 0.5])).sum())
        10.0
    """
    key, _ = one_key("multinomial", key)
    dtype = number_dtype("multinomial", dtype, float)
    dims = aval_of(p).shape
    if not dims:
        raise ValueError(
            "multinomial needs probabilities with at least one dimension, the last of which lists the classes"
        )
    whole = lax.broadcast_shapes((*aval_of(n).shape, dims[-1]), dims)
    if shape is not None:
        asked = canonical_shape(shape)
        if lax.broadcast_shapes(asked, whole) != asked:
            raise ValueError(
                f"multinomial got shape {asked}, which its parameters of shape {whole} do not broadcast to; the "
                f"last dimension lists the classes"
            )
        whole = asked
    return _multinomial(key, whole, dtype, unroll, n, p)


@drawn(3)
def _multinomial(key, shape, dtype, unroll, n, p):
    """Class by class: a binomial share of what is left."""
    lead, classes = shape[:-1], shape[-1]
    drawn_in = _drawn_in(p)
    n = to_shape(as_dtype(n, drawn_in), lead)
    p = to_shape(as_dtype(p, drawn_in), shape)
    left = lax.cumsum(p, axis=len(lead), reverse=True)
    share = p / jnp.where(left == 0, as_dtype(1, drawn_in), left)
    keys = random_split_p.bind(key, shape=(classes,))

    def step(remaining, x):
        share, key = x
        count = _binomials(
            key, lead, remaining, lax.clamp(as_dtype(0, drawn_in), share, as_dtype(1, drawn_in))
        )
        return remaining - count, count

    _, counts = lax.scan(step, n, (jnp.moveaxis(share, -1, 0), keys), unroll=unroll)
    return as_dtype(jnp.moveaxis(counts, 0, -1), dtype)
