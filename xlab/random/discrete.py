"""Bits, integers, choices and permutations."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import dim_index
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.lax.shape import canonical_axis, canonical_shape
from xlab.random.bits import random_bits_p
from xlab.random.continuous import random_signs, standard_gumbel, tail_mode, unit_uniform
from xlab.random.drawing import (
    as_dtype,
    drawn,
    halves,
    int_dtype,
    joint_shape,
    keys_from,
    number_dtype,
    to_rank,
    to_shape,
    where,
)
from xlab.random.keys import one_key
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "geometric",
    "permutation",
    "rademacher",
    "randint",
]


def bits(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Random bits as unsigned integers, uint32 by default.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: an unsigned integer dtype, uint32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Raises:
        ValueError: the dtype is no unsigned integer.

    Example:
        >>> import xlab
        >>> xlab.random.bits(xlab.random.key(0), (3,), "uint8").dtype
        dtype('uint8')
    """
    key, _ = one_key("bits", key)
    dtype = number_dtype("bits", dtype, np.uint64)
    if not dtypes.issubdtype(dtype, np.unsignedinteger):
        raise ValueError(
            f"dtype argument to `bits` must be an unsigned int dtype, got {dtypes.name(dtype)}"
        )
    return _bits(key, canonical_shape(shape), dtype, out_sharding=out_sharding)


@drawn(2)
def _bits(key, shape, dtype):
    return random_bits_p.bind(key, bit_width=dtypes.itemsize_bits(dtype), shape=shape)


def randint(
    key: Array,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Integers from `minval` up to but not including `maxval`.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        minval, maxval: bounds, integers or arrays that broadcast to `shape`; `maxval` itself is
            never drawn.
        dtype: an integer dtype, int32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Raises:
        TypeError: the dtype is no integer.

    Example:
        >>> import xlab
        >>> xlab.random.randint(xlab.random.key(0), (2,), 0, 10).shape
        (2,)
    """
    key, _ = one_key("randint", key)
    dtype = int_dtype("randint", dtype, error=TypeError)
    minval, maxval = _bound(minval), _bound(maxval)
    return _randint(
        key,
        joint_shape("randint", shape, minval=minval, maxval=maxval),
        dtype,
        minval,
        maxval,
        out_sharding=out_sharding,
    )


def _bound(x):
    """A bound as an integer."""
    aval = aval_of(x)
    return (
        x
        if dtypes.issubdtype(aval.dtype, np.integer)
        else as_dtype(x, dtypes.canonicalize_dtype(int))
    )


@drawn(2)
def _randint(key, shape, dtype, minval, maxval):
    return uniform_integers(key, shape, dtype, minval, maxval)


def _clipped(x, low: int, high: int):
    """An integer array with its values brought into a range, as far as its dtype reaches beyond."""
    dtype = aval_of(x).dtype
    info = dtypes.iinfo(dtype)
    low, high = (dtype.type(min(max(v, info.min), info.max)) for v in (low, high))
    return lax.min(high, lax.max(low, x))


def uniform_integers(key, shape, dtype, minval, maxval):
    """Two draws, so that the remainder of a division by the span is nearly uniform.

    With h, l the two words and s the span: (h * 2^n + l) mod s, with 2^n mod s found as the square of 2^(n/2) mod s.
    """
    info = dtypes.iinfo(dtype)
    if dtypes.itemsize_bits(dtype) < 32:
        minval = lax.convert_element_type(_clipped(minval, info.min, info.max), np.int32)
        maxval = lax.convert_element_type(_clipped(maxval, info.min, info.max + 1), np.int32)
        return lax.convert_element_type(
            uniform_integers(key, shape, np.dtype(np.int32), minval, maxval), dtype
        )
    above = aval_of(maxval).dtype
    reaches_beyond = dtypes.iinfo(above).max > info.max
    beyond = lax.gt(maxval, above.type(info.max)) if reaches_beyond else None
    minval, maxval = (
        to_rank(lax.convert_element_type(_clipped(x, info.min, info.max), dtype), len(shape))
        for x in (minval, maxval)
    )
    width = dtypes.itemsize_bits(dtype)
    word = np.dtype(f"uint{width}")
    high, low = (random_bits_p.bind(k, bit_width=width, shape=shape) for k in keys_from(key))
    span = lax.convert_element_type(lax.sub(maxval, minval), word)
    span = where(lax.le(maxval, minval), word.type(1), span)
    if reaches_beyond:
        # The clipped bound itself is wanted too. A span of 0 now means every number there is.
        grown = lax.bitwise_and(to_rank(beyond, len(shape)), lax.gt(maxval, minval))
        span = where(grown, lax.add(span, word.type(1)), span)
        whole = lax.eq(span, word.type(0))
        span = lax.max(span, word.type(1))
    factor = lax.rem(word.type(2 ** (width // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.add(lax.mul(lax.rem(high, span), factor), lax.rem(low, span))
    offset = lax.rem(offset, span)
    if reaches_beyond:
        offset = lax.select(to_shape(whole, shape), low, offset)
    return lax.add(minval, lax.convert_element_type(offset, dtype))


def bernoulli(
    key: Array,
    p: ArrayLike = 0.5,
    shape: ShapeLike | None = None,
    mode: Literal["low", "high"] = "low",
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """True with probability `p`; `mode='high'` spends twice the bits, for very small probabilities.

    Args:
        key: a key, used up by the call.
        p: the probability of True, an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `p`.
        mode: 'low', or 'high' for probabilities below 2^-23, which 'low' cannot tell from 0.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Raises:
        TypeError: `p` is not floating-point.
        ValueError: another mode.

    Example:
        >>> import xlab
        >>> xlab.random.bernoulli(xlab.random.key(0), 0.3, (4,)).dtype
        dtype('bool')
    """
    key, _ = one_key("bernoulli", key)
    if mode not in ("low", "high"):
        raise ValueError(f"bernoulli has modes 'low' and 'high', got {mode!r}")
    dtype = aval_of(p).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"bernoulli probability `p` must have a floating dtype, got {dtypes.name(dtype)}"
        )
    return _bernoulli(key, joint_shape("bernoulli", shape, p=p), mode, p, out_sharding=out_sharding)


@drawn(2)
def _bernoulli(key, shape, mode, p):
    dtype = aval_of(p).dtype
    p = to_rank(p, len(shape)) if aval_of(p).shape else as_dtype(p, dtype)
    if mode == "low":
        return lax.lt(unit_uniform(key, shape, dtype), p)
    high, low = halves(unit_uniform(key, (2, *shape), dtype))
    return lax.lt(lax.mul(low, as_dtype(dtypes.finfo(dtype).eps, dtype)), lax.sub(p, high))


def rademacher(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """-1 or 1, each with probability one half.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a numeric dtype, int32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("rademacher", key)
    dtype = number_dtype("rademacher", dtype, int)
    return _rademacher(key, canonical_shape(shape), dtype, out_sharding=out_sharding)


@drawn(2)
def _rademacher(key, shape, dtype):
    return random_signs(key, shape, dtype)


def geometric(
    key: Array,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Number of trials up to and including the first success, where each succeeds with probability `p`.

    Args:
        key: a key, used up by the call.
        p: the probability of success, an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `p`.
        dtype: an integer dtype, int32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("geometric", key)
    dtype = int_dtype("geometric", dtype)
    return _geometric(
        key, joint_shape("geometric", shape, p=p), dtype, p, out_sharding=out_sharding
    )


@drawn(2)
def _geometric(key, shape, dtype, p):
    fdtype = (
        aval_of(p).dtype
        if dtypes.issubdtype(aval_of(p).dtype, np.floating)
        else dtypes.canonicalize_dtype(float)
    )
    p = to_shape(as_dtype(p, fdtype), shape)
    u = unit_uniform(key, shape, fdtype)
    u = where(lax.eq(u, as_dtype(0, fdtype)), as_dtype(1, fdtype), u)
    trials = lax.floor(lax.div(lax.log(u), lax.log1p(lax.neg(p))))
    return lax.convert_element_type(lax.add(trials, as_dtype(1, fdtype)), dtype)


def categorical(
    key: Array,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: Literal["low", "high"] | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Indices along `axis`, drawn with log-probabilities `logits` (which need not be normalized).

    Args:
        key: a key, used up by the call.
        logits: log-probabilities; every dimension but `axis` is a batch dimension.
        axis: the dimension of categories.
        shape: shape of the result, ending with the batch shape; the batch shape by default.
        replace: whether one category can be drawn several times for one batch element.
        mode: 'high' spends twice the bits, for very unlikely categories.

    Example:
        >>> import numpy as np, xlab
        >>> int(xlab.random.categorical(xlab.random.key(0), np.log([1e-9, 1.0, 1e-9])))
        1
    """
    key, _ = one_key("categorical", key)
    dims = aval_of(logits).shape
    axis = canonical_axis(axis, len(dims))
    batch = (*dims[:axis], *dims[axis + 1 :])
    shape = batch if shape is None else canonical_shape(shape)
    if lax.broadcast_shapes(shape, batch) != shape:
        raise ValueError(
            f"categorical got shape {shape}, but logits of shape {dims} have batch shape {batch} (without "
            f"axis {axis}); the shape must end with it"
        )
    prefix = shape[: len(shape) - len(batch)]
    if not replace and math.prod(prefix) > dims[axis]:
        raise ValueError(
            f"categorical cannot draw {math.prod(prefix)} different ones of {dims[axis]} categories; use "
            f"replace=True"
        )
    return _categorical(
        key,
        axis,
        shape,
        bool(replace),
        tail_mode("categorical", mode),
        logits,
        out_sharding=out_sharding,
    )


@drawn(4)
def _categorical(key, axis, shape, replace, mode, logits):
    # The position of the largest logit + Gumbel noise is distributed as wanted.
    aval = aval_of(logits)
    n = aval.ndim - 1
    prefix, batch = shape[: len(shape) - n], list(shape[len(shape) - n :])
    if replace:
        batch.insert(axis, aval.shape[axis])
        noise = standard_gumbel(key, (*prefix, *batch), aval.dtype, mode)
        noisy = lax.add(noise, to_rank(logits, len(shape) + 1))
        return lax.argmax(noisy, axis + len(prefix), dtypes.canonicalize_dtype(int))
    noisy = lax.add(logits, standard_gumbel(key, aval.shape, aval.dtype, mode))
    _, found = lax.top_k(noisy, math.prod(prefix), axis=axis)
    order = (axis, *(i for i in range(n + 1) if i != axis))
    return lax.reshape(lax.transpose(found, order), shape)


def permutation(
    key: Array,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """A random order of `range(x)` for an integer, of an array along an axis otherwise.

    Args:
        key: a key, used up by the call.
        x: an integer or an array.
        axis: the dimension to reorder.
        independent: whether every line along the axis gets its own order.

    Example:
        >>> import xlab
        >>> sorted(xlab.random.permutation(xlab.random.key(0), 4).tolist())
        [0, 1, 2, 3]
    """
    key, _ = one_key("permutation", key)
    aval = aval_of(x)
    if not aval.shape:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(
                f"permutation takes an integer or an array with at least one dimension, got {x!r}"
            )
        return _permuted_range(key, dim_index(x), out_sharding=out_sharding)
    return _permuted(
        key, canonical_axis(axis, aval.ndim), bool(independent), x, out_sharding=out_sharding
    )


@drawn(1)
def _permuted_range(key, n):
    return _shuffle(key, lax.iota(dtypes.canonicalize_dtype(int), n), 0)


@drawn(2)
def _permuted(key, axis, independent, x):
    return permuted(key, x, axis, independent)


def permuted(key, x, axis, independent=False):
    aval = aval_of(x)
    if independent or aval.ndim == 1:
        return _shuffle(key, x, axis)
    order = _shuffle(key, lax.iota(dtypes.canonicalize_dtype(int), aval.shape[axis]), 0)
    return take(x, order, axis)


def _shuffle(key, x, axis):
    """Sorts by random keys, often enough that equal keys in one round hardly matter."""
    size = aval_of(x).size
    rounds = math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, sub = keys_from(key)
        order = random_bits_p.bind(sub, bit_width=32, shape=aval_of(x).shape)
        _, x = lax.sort((order, x), dimension=axis, is_stable=True, num_keys=1)
    return x


def take(x, indices, axis):
    """The parts of `x` at non-negative indices along an axis."""
    shape, inner = aval_of(x).shape, aval_of(indices).ndim
    before, after = range(axis), range(axis + inner, len(shape) - 1 + inner)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*before, *after), collapsed_slice_dims=(axis,), start_index_map=(axis,)
    )
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    return lax.gather(x, lax.expand_dims(indices, (inner,)), numbers, sizes, mode="clip")


def choice(
    key: Array,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: Literal["low", "high"] | None = None,
) -> Array:
    """Elements of an array, or of `range(a)`, drawn with or without replacement.

    Args:
        key: a key, used up by the call.
        a: an array, or an integer.
        shape: how many to draw.
        replace: whether one element can be drawn several times.
        p: probabilities, equal ones by default.
        axis: the dimension along which elements are drawn.
        mode: 'high' spends twice the bits, for very small probabilities without replacement.

    Example:
        >>> import xlab
        >>> xlab.random.choice(xlab.random.key(0), 5, (3,), replace=False).shape
        (3,)
    """
    key, _ = one_key("choice", key)
    shape = canonical_shape(shape)
    aval = aval_of(a)
    if not aval.shape:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise ValueError(
                f"choice takes an integer or an array with at least one dimension, got {a!r}"
            )
        n, a = dim_index(a), None
    else:
        axis = canonical_axis(axis, aval.ndim)
        n = aval.shape[axis]
    draws = math.prod(shape)
    if draws and n <= 0:
        raise ValueError(
            "choice needs something to choose from: a must be greater than 0 unless no samples are taken"
        )
    if not replace and draws > n:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {n}) when 'replace=False'"
        )
    if p is not None:
        if aval_of(p).shape != (n,):
            raise ValueError(
                f"p must have one probability for each of the {n} elements: shape ({n},), got "
                f"{aval_of(p).shape}"
            )
        if not dtypes.issubdtype(aval_of(p).dtype, np.inexact):
            p = as_dtype(p, dtypes.canonicalize_dtype(float))
    return _choice(key, n, shape, bool(replace), axis, tail_mode("choice", mode), a, p)


@drawn(5)
def _choice(key, n, shape, replace, axis, mode, a, p):
    draws = math.prod(shape)
    if draws == 0:
        return lax.full(shape, 0, dtypes.canonicalize_dtype(int) if a is None else aval_of(a).dtype)
    if p is None and replace:
        index = dtypes.canonicalize_dtype(int)
        found = uniform_integers(key, shape, index, index.type(0), index.type(n))
    elif p is None:
        whole = lax.iota(dtypes.canonicalize_dtype(int), n) if a is None else a
        along = 0 if a is None else axis
        dims = aval_of(whole).shape
        kept = lax.slice_in_dim(permuted(key, whole, along), 0, draws, axis=along)
        return lax.reshape(kept, (*dims[:along], *shape, *dims[along + 1 :]))
    elif replace:
        totals = lax.cumsum(p)
        dtype = aval_of(p).dtype
        last = lax.squeeze(lax.slice(totals, (n - 1,), (n,)), (0,))
        r = lax.mul(last, lax.sub(as_dtype(1, dtype), unit_uniform(key, shape, dtype)))
        found = _first_at_least(totals, r)
    else:
        noisy = lax.add(standard_gumbel(key, (n,), aval_of(p).dtype, mode), lax.log(p))
        found = lax.reshape(lax.top_k(noisy, draws)[1], shape)
    return found if a is None else take(a, found, axis)


def _first_at_least(totals, r):
    """Position of the first of the ascending totals that is at least `r`, by bisection."""
    n = aval_of(totals).shape[0]
    index = dtypes.canonicalize_dtype(int)
    shape = aval_of(r).shape

    def halve(_, bounds):
        low, high = bounds
        middle = lax.add(low, lax.div(lax.sub(high, low), index.type(2)))
        left = lax.le(r, take(totals, middle, 0))
        return lax.select(left, low, middle), lax.select(left, middle, high)

    low, high = lax.full(shape, 0, index), lax.full(shape, n, index)
    steps = max(1, math.ceil(math.log2(n + 1)))
    return lax.fori_loop(0, steps, halve, (low, high))[1]
