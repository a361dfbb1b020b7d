"""Continuous distributions that are functions of uniform numbers: one draw of bits, then arithmetic."""

from __future__ import annotations

from typing import Literal

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.lax.shape import canonical_shape
from xlab.random.drawing import (
    SQRT2,
    as_dtype,
    drawn,
    float_dtype,
    halves,
    joint_shape,
    keys_from,
    nextafter,
    to_rank,
    to_shape,
    where,
)
from xlab.random.keys import one_key
from xlab.random.uniforms import (
    uniform,
    unit_uniform,
)
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = ["cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic", "lognormal", "maxwell",
           "normal", "pareto", "rayleigh", "triangular", "truncated_normal", "uniform", "wald", "weibull_min"]  # fmt: skip


def normal(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Normal numbers with mean 0 and variance 1; complex ones have variance 1/2 in each part.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating or complex dtype, float32 by default.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        The inverse of the error function at uniform numbers (inverse transform sampling).

    Example:
        >>> import xlab
        >>> x = xlab.random.normal(xlab.random.key(0), (1000,))
        >>> bool(abs(x.mean()) < 0.1)
        True
    """
    key, _ = one_key("normal", key)
    dtype = float_dtype("normal", dtype, complexes=True)
    return _normal(key, canonical_shape(shape), dtype, out_sharding=out_sharding)


@drawn(2)
def _normal(key, shape, dtype):
    return standard_normal(key, shape, dtype)


def standard_normal(key, shape, dtype):
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = np.zeros((), dtype).real.dtype
        real, imag = (
            lax.convert_element_type(standard_normal(k, shape, part), dtype) for k in keys_from(key)
        )
        return lax.div(lax.add(real, lax.mul(dtype.type(1j), imag)), dtype.type(part.type(SQRT2)))
    lowest = np.nextafter(np.asarray(-1).astype(dtype), np.asarray(0).astype(dtype), dtype=dtype)[
        ()
    ]
    u = unit_uniform(key, shape, dtype, lowest, 1.0)
    return lax.mul(as_dtype(SQRT2, dtype), lax.erf_inv(u))


def truncated_normal(
    key: Array,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Normal numbers given that they lie between `lower` and `upper`.

    Args:
        key: a key, used up by the call.
        lower, upper: bounds, numbers or arrays that broadcast to `shape`.
        shape: shape of the result; by default that of the bounds together.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Inverse transform sampling between the bounds' values of the distribution function.

    Example:
        >>> import xlab
        >>> x = xlab.random.truncated_normal(xlab.random.key(0), -1.0, 2.0, (100,))
        >>> bool((x > -1).all() and (x < 2).all())
        True
    """
    key, _ = one_key("truncated_normal", key)
    dtype = float_dtype("truncated_normal", dtype)
    shape = joint_shape("truncated_normal", shape, lower=lower, upper=upper)
    return _truncated_normal(key, shape, dtype, lower, upper, out_sharding=out_sharding)


@drawn(2)
def _truncated_normal(key, shape, dtype, lower, upper):
    lower, upper = (as_dtype(x, dtype) for x in (lower, upper))
    root = as_dtype(SQRT2, dtype)
    a, b = (lax.erf(lax.div(x, root)) for x in (lower, upper))
    out = lax.mul(root, lax.erf_inv(unit_uniform(key, shape, dtype, a, b)))
    # Rounding can reach the bounds, which are outside of the open interval.
    low, high = (
        nextafter(lax.stop_gradient(lower), True),
        nextafter(lax.stop_gradient(upper), False),
    )
    return lax.min(to_rank(high, len(shape)), lax.max(to_rank(low, len(shape)), out))


def exponential(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Exponential numbers with mean 1.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Inverse transform sampling: `-log1p(-u)` of uniform `u`.
    """
    key, _ = one_key("exponential", key)
    return _exponential(
        key, canonical_shape(shape), float_dtype("exponential", dtype), out_sharding=out_sharding
    )


@drawn(2)
def _exponential(key, shape, dtype):
    return standard_exponential(key, shape, dtype)


def standard_exponential(key, shape, dtype):
    # log1p keeps u = 0 finite.
    return lax.neg(lax.log1p(lax.neg(unit_uniform(key, shape, dtype))))


def gumbel(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    mode: Literal["low", "high"] | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Gumbel numbers; `mode='high'` spends twice the bits on a finer upper tail.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        mode: 'low' (the default), or 'high' for twice the bits and a finer upper tail.
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Inverse transform sampling: `-log(-log(u))` of uniform `u`.
    """
    key, _ = one_key("gumbel", key)
    return _gumbel(
        key,
        canonical_shape(shape),
        float_dtype("gumbel", dtype),
        tail_mode("gumbel", mode),
        out_sharding=out_sharding,
    )


def tail_mode(name: str, mode) -> str:
    if mode not in (None, "low", "high"):
        raise ValueError(f"{name} has modes 'low' and 'high', got {mode!r}")
    return mode or "low"


@drawn(3)
def _gumbel(key, shape, dtype, mode):
    return standard_gumbel(key, shape, dtype, mode)


def standard_gumbel(key, shape, dtype, mode="low"):
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = unit_uniform(key, shape, dtype, info.tiny, 1.0)
        return lax.neg(lax.log(lax.neg(lax.log(u))))
    # Two draws: below one half, the second one fills in the bits that the first has not.
    high, low = halves(unit_uniform(key, (2, *shape), dtype))
    fine = lax.add(
        lax.add(high, lax.mul(as_dtype(info.eps, dtype), low)), as_dtype(info.tiny, dtype)
    )
    x = where(lax.ge(high, as_dtype(0.5, dtype)), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(x)))))


def laplace(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Laplace numbers: exponential ones with a random sign.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("laplace", key)
    return _laplace(
        key, canonical_shape(shape), float_dtype("laplace", dtype), out_sharding=out_sharding
    )


@drawn(2)
def _laplace(key, shape, dtype):
    u = unit_uniform(
        key, shape, dtype, as_dtype(-1.0, dtype) + as_dtype(dtypes.finfo(dtype).epsneg, dtype), 1.0
    )
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Numbers whose distribution function is the logistic one.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Inverse transform sampling: the log-odds of uniform numbers.
    """
    key, _ = one_key("logistic", key)
    return _logistic(
        key, canonical_shape(shape), float_dtype("logistic", dtype), out_sharding=out_sharding
    )


@drawn(2)
def _logistic(key, shape, dtype):
    u = unit_uniform(key, shape, dtype, dtypes.finfo(dtype).tiny, 1.0)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def cauchy(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Cauchy numbers.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Inverse transform sampling: `tan(pi * (u - 1/2))` of uniform `u`.
    """
    key, _ = one_key("cauchy", key)
    return _cauchy(
        key, canonical_shape(shape), float_dtype("cauchy", dtype), out_sharding=out_sharding
    )


@drawn(2)
def _cauchy(key, shape, dtype):
    u = unit_uniform(key, shape, dtype, dtypes.finfo(dtype).eps, 1.0)
    return lax.tan(lax.mul(as_dtype(np.pi, dtype), lax.sub(u, as_dtype(0.5, dtype))))


def lognormal(
    key: Array,
    sigma: ArrayLike = np.float32(1.0),
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Numbers whose logarithm is normal with deviation `sigma`.

    Args:
        key: a key, used up by the call.
        sigma: deviation of the logarithm, an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `sigma`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("lognormal", key)
    dtype = float_dtype("lognormal", dtype)
    return _lognormal(
        key, joint_shape("lognormal", shape, sigma=sigma), dtype, sigma, out_sharding=out_sharding
    )


@drawn(2)
def _lognormal(key, shape, dtype, sigma):
    sigma = (
        to_shape(as_dtype(sigma, dtype), shape) if aval_of(sigma).shape else as_dtype(sigma, dtype)
    )
    return lax.exp(lax.mul(standard_normal(key, shape, dtype), sigma))


def pareto(
    key: Array,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Pareto numbers with exponent `b`.

    Args:
        key: a key, used up by the call.
        b: the exponent, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `b`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("pareto", key)
    dtype = float_dtype("pareto", dtype)
    return _pareto(key, joint_shape("pareto", shape, b=b), dtype, b, out_sharding=out_sharding)


@drawn(2)
def _pareto(key, shape, dtype, b):
    b = to_shape(as_dtype(b, dtype), shape)
    return lax.exp(lax.div(standard_exponential(key, shape, dtype), b))


def rayleigh(
    key: Array,
    scale: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Rayleigh numbers of the given scale.

    Args:
        key: a key, used up by the call.
        scale: the scale, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `scale`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("rayleigh", key)
    dtype = float_dtype("rayleigh", dtype)
    return _rayleigh(
        key, joint_shape("rayleigh", shape, scale=scale), dtype, scale, out_sharding=out_sharding
    )


@drawn(2)
def _rayleigh(key, shape, dtype, scale):
    scale = to_shape(as_dtype(scale, dtype), shape)
    return lax.mul(
        scale, lax.sqrt(lax.mul(lax.log(unit_uniform(key, shape, dtype)), as_dtype(-2, dtype)))
    )


def weibull_min(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Weibull numbers of the given scale and concentration.

    Args:
        key: a key, used up by the call.
        scale: the scale, positive; an array that broadcasts to `shape`.
        concentration: the exponent inside the distribution function, positive; an array that
            broadcasts to `shape`.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
    """
    key, _ = one_key("weibull_min", key)
    return _weibull_min(
        key, canonical_shape(shape), float_dtype("weibull_min", dtype), scale, concentration
    )


@drawn(2)
def _weibull_min(key, shape, dtype, scale, concentration):
    power = lax.div(np.ones((), dtype)[()], as_dtype(concentration, dtype))
    # Parameters with dimensions beyond `shape` share the draws.
    whole = lax.broadcast_shapes(shape, aval_of(scale).shape, aval_of(concentration).shape)
    draws, power, scale = (
        to_shape(x, whole)
        for x in (standard_exponential(key, shape, dtype), power, as_dtype(scale, dtype))
    )
    return lax.mul(lax.pow(draws, power), scale)


def maxwell(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Lengths of normal vectors in three dimensions.

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("maxwell", key)
    return _maxwell(
        key, canonical_shape(shape), float_dtype("maxwell", dtype), out_sharding=out_sharding
    )


@drawn(2)
def _maxwell(key, shape, dtype):
    return _lengths(key, shape, dtype)


def _lengths(key, shape, dtype):
    x = standard_normal(key, (*shape, 3), dtype)
    return lax.sqrt(lax.reduce_sum(lax.mul(x, x), (len(shape),)))


def double_sided_maxwell(
    key: Array,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Maxwell numbers with a random sign, times `scale`, plus `loc`.

    Args:
        key: a key, used up by the call.
        loc: where the distribution is centered.
        scale: what the numbers are multiplied by.
        shape: the dimensions of the result in front of those of `loc` and `scale`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
    """
    key, _ = one_key("double_sided_maxwell", key)
    dtype = float_dtype("double_sided_maxwell", dtype)
    shape = canonical_shape(shape)
    batch = lax.broadcast_shapes(aval_of(loc).shape, aval_of(scale).shape)
    return _double_sided_maxwell(key, (*shape, *batch), dtype, loc, scale)


@drawn(2)
def _double_sided_maxwell(key, shape, dtype, loc, scale):
    first, second = keys_from(key)
    lengths = _lengths(first, shape, dtype)
    signs = random_signs(second, shape, dtype)
    loc, scale = (to_rank(as_dtype(x, dtype), len(shape)) for x in (loc, scale))
    return lax.add(lax.mul(lax.mul(signs, lengths), scale), loc)


def random_signs(key, shape, dtype):
    """-1 or 1, each with probability one half."""
    heads = lax.lt(unit_uniform(key, shape, dtypes.canonicalize_dtype(float)), 0.5)
    return lax.sub(
        lax.mul(as_dtype(2, dtype), lax.convert_element_type(heads, dtype)), as_dtype(1, dtype)
    )


def triangular(
    key: Array,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Numbers between `left` and `right` whose density is a triangle with its peak at `mode`.

    Args:
        key: a key, used up by the call.
        left, mode, right: the ends of the interval and the place of the peak, arrays that broadcast
            to `shape`.
        shape: shape of the result; by default that of the parameters together.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("triangular", key)
    dtype = float_dtype("triangular", dtype)
    shape = joint_shape("triangular", shape, left=left, mode=mode, right=right)
    return _triangular(key, shape, dtype, left, mode, right, out_sharding=out_sharding)


@drawn(2)
def _triangular(key, shape, dtype, left, mode, right):
    left, mode, right = (to_shape(as_dtype(x, dtype), shape) for x in (left, mode, right))
    width = lax.sub(right, left)
    u = unit_uniform(key, shape, dtype)
    rising = lax.add(left, lax.sqrt(lax.mul(lax.mul(u, width), lax.sub(mode, left))))
    falling = lax.sub(
        right,
        lax.sqrt(lax.mul(lax.mul(lax.sub(as_dtype(1, dtype), u), width), lax.sub(right, mode))),
    )
    return lax.select(lax.lt(u, lax.div(lax.sub(mode, left), width)), rising, falling)


def wald(
    key: Array,
    mean: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Inverse Gaussian numbers with the given mean and shape parameter 1.

    Args:
        key: a key, used up by the call.
        mean: the mean, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `mean`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Michael, Schucany and Haas (1976), Generating random variates using transformations with
            multiple roots.
    """
    key, _ = one_key("wald", key)
    dtype = float_dtype("wald", dtype)
    return _wald(key, joint_shape("wald", shape, mean=mean), dtype, mean, out_sharding=out_sharding)


@drawn(2)
def _wald(key, shape, dtype, mean):
    first, second = keys_from(key)
    mean = to_shape(as_dtype(mean, dtype), shape)
    v = standard_normal(first, shape, dtype)
    z = unit_uniform(second, shape, dtype)
    y = lax.integer_pow(v, 2)
    m2, two = lax.integer_pow(mean, 2), as_dtype(2, dtype)
    root = lax.sqrt(
        lax.add(lax.mul(lax.mul(as_dtype(4, dtype), mean), y), lax.mul(m2, lax.integer_pow(y, 2)))
    )
    x = lax.sub(lax.add(mean, lax.div(lax.mul(m2, y), two)), lax.mul(lax.div(mean, two), root))
    return lax.select(lax.le(z, lax.div(mean, lax.add(mean, x))), x, lax.div(m2, x))
