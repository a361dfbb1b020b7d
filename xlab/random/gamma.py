"""The gamma distribution, and those derived from it.

Gamma numbers come from rejection (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000), every element
from its own key. They are differentiable in the shape parameter: keeping the probability F(a, x) fixed, dx/da = -F_a / F_x.
"""

from __future__ import annotations

import functools
import math

from xlab import lax
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.jaxpr import number_equations
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import elementwise_sharding, sharding_rules
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.lax.shape import canonical_shape
from xlab.random.bits import random_split_p
from xlab.random.continuous import random_signs, standard_exponential, standard_normal, unit_uniform
from xlab.random.drawing import (
    as_dtype,
    drawn,
    float_dtype,
    joint_shape,
    keys_from,
    to_rank,
    to_shape,
)
from xlab.random.keys import one_key
from xlab.sharding import NamedSharding, PartitionSpec
from xlab.transforms.vmap import vmap

__all__ = [
    "ball",
    "beta",
    "chisquare",
    "dirichlet",
    "f",
    "gamma",
    "generalized_normal",
    "loggamma",
    "t",
]


def gamma(
    key: Array,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Gamma numbers with shape parameter `a` and scale 1; differentiable in `a`.

    Args:
        key: a key, used up by the call.
        a: the shape parameter, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `a`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Marsaglia and Tsang (2000), A simple method for generating gamma variables.

    Example:
        >>> import xlab
        >>> x = xlab.random.gamma(xlab.random.key(0), 3.0, (1000,))
        >>> bool(abs(x.mean() - 3) < 0.3)
        True
    """
    return _gammas("gamma", key, a, shape, dtype, False, out_sharding)


def loggamma(
    key: Array,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Logarithms of gamma numbers, accurate for small `a` where the numbers themselves are 0.

    Args:
        key: a key, used up by the call.
        a: the shape parameter, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `a`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        As `gamma`, with the boost for `a < 1` added to the logarithm.
    """
    return _gammas("loggamma", key, a, shape, dtype, True, out_sharding)


def _gammas(name, key, a, shape, dtype, log_space, out_sharding):
    key, _ = one_key(name, key)
    dtype = float_dtype(name, dtype)
    return _gamma(
        key, joint_shape(name, shape, a=a), dtype, log_space, a, out_sharding=out_sharding
    )


@drawn(3)
def _gamma(key, shape, dtype, log_space, a):
    return gammas(key, shape, dtype, log_space, a)


def gammas(key, shape, dtype, log_space, a):
    return random_gamma_p.bind(key, to_shape(as_dtype(a, dtype), shape), log_space=log_space)


def _one_gamma(key, alpha, log_space):
    dtype = aval_of(alpha).dtype
    zero, one, third = (as_dtype(v, dtype) for v in (0, 1, 1 / 3))
    large = lax.ge(alpha, one)
    boosted = lax.select(large, alpha, lax.add(alpha, one))
    d = lax.sub(boosted, third)
    c = lax.div(third, lax.sqrt(d))

    def rejected(carry):
        _, x2, v, u = carry
        squeeze = lax.ge(u, lax.sub(one, lax.mul(as_dtype(0.0331, dtype), lax.mul(x2, x2))))
        exact = lax.add(
            lax.mul(x2, as_dtype(0.5, dtype)), lax.mul(d, lax.add(lax.sub(one, v), lax.log(v)))
        )
        return lax.bitwise_and(squeeze, lax.ge(lax.log(u), exact))

    def try_normal(carry):
        again, sub = keys_from(carry[0])
        x = standard_normal(sub, (), dtype)
        return again, x, lax.add(one, lax.mul(x, c))

    def attempt(carry):
        again, normal_key, uniform_key = keys_from(carry[0], 3)
        _, x, v = lax.while_loop(
            lambda s: lax.le(s[2], zero), try_normal, (normal_key, zero, lax.neg(one))
        )
        return again, lax.mul(x, x), lax.mul(lax.mul(v, v), v), unit_uniform(uniform_key, (), dtype)

    loop_key, boost_key = keys_from(key)
    _, _, v, _ = lax.while_loop(rejected, attempt, (loop_key, zero, one, as_dtype(2, dtype)))
    # A number for a + 1, times u^(1/a), is one for a.
    if log_space:
        logs = lax.neg(standard_exponential(boost_key, (), dtype))
        boost = lax.select(
            lax.bitwise_or(large, lax.eq(logs, zero)), zero, lax.mul(logs, lax.div(one, alpha))
        )
        return lax.add(lax.add(lax.log(d), lax.log(v)), boost)
    u = lax.sub(one, unit_uniform(boost_key, (), dtype))
    boost = lax.select(large, one, lax.pow(u, lax.div(one, alpha)))
    return lax.mul(lax.mul(d, v), boost)


def _all_gammas(keys, alpha, log_space):
    shape = aval_of(alpha).shape
    n = aval_of(keys).ndim
    each = random_split_p.bind(keys, shape=(math.prod(shape[n:]),))
    each = lax.reshape(each, (math.prod(shape),))
    out = vmap(lambda k, a: _one_gamma(k, a, log_space))(
        each, lax.reshape(alpha, (math.prod(shape),))
    )
    return lax.reshape(out, shape)


def _gamma_aval(keys, alpha, *, log_space):
    if keys.shape != alpha.shape[: keys.ndim]:
        raise TypeError(
            f"random_gamma takes one key per leading element of alpha, got {keys} and {alpha}"
        )
    return ShapedArray(alpha.shape, alpha.dtype)


def _gamma_jvp(primals, tangents, *, log_space):
    keys, alpha = primals
    out = random_gamma_p.bind(keys, alpha, log_space=log_space)
    t = tangents[1]
    if type(t) is ad.Zero:
        return out, ad.Zero.of(out)
    sample = lax.exp(out) if log_space else out
    slope = lax.random_gamma_grad(alpha, sample)
    return out, lax.mul(t, lax.div(slope, sample) if log_space else slope)


def _gamma_batch(xs, dims, *, log_space):
    size = next(aval_of(x).shape[d] for x, d in zip(xs, dims) if d is not None)
    keys, alpha = (batching.move_batch_dim_to(x, d, size, 0) for x, d in zip(xs, dims))
    return random_gamma_p.bind(keys, alpha, log_space=log_space), 0


@functools.lru_cache(maxsize=256)
def _program(keys, alpha, log_space):
    closed = pe.trace_to_closed_jaxpr(lambda k, a: [_all_gammas(k, a, log_space)], [keys, alpha])
    return closed, tuple(number_equations(closed.jaxpr))


def _gamma_lowering(ctx, keys, alpha, *, log_space):
    if not ctx.avals_out[0].size:
        return alpha
    closed, equations = _program(*ctx.avals_in, log_space)
    number = ctx.module.numbers[id(ctx.eqn)]
    ctx.module.keepalive.append(closed)
    # All that happens in there is this equation.
    ctx.module.numbers.update(dict.fromkeys(equations, number))
    return ctx.jaxpr(closed, [keys, alpha])[0]


random_gamma_p = Primitive("random_gamma")
random_gamma_p.def_abstract_eval(_gamma_aval)
ad.primitive_jvps[random_gamma_p] = _gamma_jvp
sharding_rules[random_gamma_p] = elementwise_sharding
batching.primitive_batchers[random_gamma_p] = _gamma_batch
mlir.register_text_lowering(random_gamma_p, _gamma_lowering)


# -- distributions made of gamma numbers -------------------------------------------------------------------------


def beta(
    key: Array,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Beta numbers with parameters `a` and `b`: x/(x+y) of two gamma numbers.

    Args:
        key: a key, used up by the call.
        a, b: shape parameters, positive; arrays that broadcast to `shape`.
        shape: shape of the result; by default that of `a` and `b` together.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("beta", key)
    dtype = float_dtype("beta", dtype)
    return _beta(key, joint_shape("beta", shape, a=a, b=b), dtype, a, b, out_sharding=out_sharding)


@drawn(2)
def _beta(key, shape, dtype, a, b):
    first, second = keys_from(key)
    x, y = gammas(first, shape, dtype, True, a), gammas(second, shape, dtype, True, b)
    top = lax.max(x, y)
    x, y = lax.exp(lax.sub(x, top)), lax.exp(lax.sub(y, top))
    return lax.div(x, lax.add(x, y))


def chisquare(
    key: Array,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Chi-square numbers with `df` degrees of freedom.

    Args:
        key: a key, used up by the call.
        df: degrees of freedom, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `df`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("chisquare", key)
    dtype = float_dtype("chisquare", dtype)
    return _chisquare(
        key, joint_shape("chisquare", shape, df=df), dtype, df, out_sharding=out_sharding
    )


@drawn(2)
def _chisquare(key, shape, dtype, df):
    return _chisquares(key, shape, dtype, df)


def _chisquares(key, shape, dtype, df):
    half = lax.div(to_shape(as_dtype(df, dtype), shape), as_dtype(2, dtype))
    return lax.mul(lax.exp(gammas(key, shape, dtype, True, half)), as_dtype(2, dtype))


def f(
    key: Array,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """F numbers with `dfnum` and `dfden` degrees of freedom.

    Args:
        key: a key, used up by the call.
        dfnum, dfden: degrees of freedom of numerator and denominator, positive; arrays that
            broadcast to `shape`.
        shape: shape of the result; by default that of both together.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("f", key)
    dtype = float_dtype("f", dtype)
    return _f(
        key,
        joint_shape("f", shape, dfnum=dfnum, dfden=dfden),
        dtype,
        dfnum,
        dfden,
        out_sharding=out_sharding,
    )


@drawn(2)
def _f(key, shape, dtype, dfnum, dfden):
    below, above = keys_from(key)
    dfnum, dfden = (to_shape(as_dtype(x, dtype), shape) for x in (dfnum, dfden))
    return lax.div(
        lax.div(_chisquares(above, shape, dtype, dfnum), dfnum),
        lax.div(_chisquares(below, shape, dtype, dfden), dfden),
    )


def t(
    key: Array,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Student's t numbers with `df` degrees of freedom.

    Args:
        key: a key, used up by the call.
        df: degrees of freedom, positive; an array that broadcasts to `shape`.
        shape: shape of the result; by default that of `df`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("t", key)
    dtype = float_dtype("t", dtype)
    return _t(key, joint_shape("t", shape, df=df), dtype, df, out_sharding=out_sharding)


@drawn(2)
def _t(key, shape, dtype, df):
    first, second = keys_from(key)
    half = lax.div(to_shape(as_dtype(df, dtype), shape), as_dtype(2, dtype))
    normals = standard_normal(first, shape, dtype)
    return lax.mul(normals, lax.sqrt(lax.div(half, gammas(second, shape, dtype, False, half))))


def dirichlet(
    key: Array,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Points of the simplex with concentrations `alpha`, whose last dimension is that of the points.

    Args:
        key: a key, used up by the call.
        alpha: concentrations, positive, of shape `(..., classes)`.
        shape: shape of the result without its last dimension; by default `alpha.shape[:-1]`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Example:
        >>> import numpy as np, xlab
        >>> xlab.random.dirichlet(xlab.random.key(0), np.ones(3, np.float32), (5,)).shape
        (5, 3)
    """
    key, _ = one_key("dirichlet", key)
    dtype = float_dtype("dirichlet", dtype)
    dims = aval_of(alpha).shape
    if not dims:
        raise ValueError(
            "dirichlet requires alpha.ndim >= 1, got a scalar: its last dimension lists the concentrations"
        )
    shape = dims[:-1] if shape is None else canonical_shape(shape)
    if lax.broadcast_shapes(shape, dims[:-1]) != shape:
        raise ValueError(
            f"dirichlet got shape {shape}, which the batch shape {dims[:-1]} of alpha does not broadcast to"
        )
    return _dirichlet(key, shape, dtype, alpha, out_sharding=out_sharding)


@drawn(2)
def _dirichlet(key, shape, dtype, alpha):
    whole = (*shape, aval_of(alpha).shape[-1])
    logs = gammas(key, whole, dtype, True, alpha)
    last, lead = (len(shape),), range(len(shape))
    top = lax.broadcast_in_dim(lax.reduce_max(logs, last), (*shape, 1), lead)
    parts = lax.exp(lax.sub(logs, lax.stop_gradient(top)))
    return lax.div(parts, lax.broadcast_in_dim(lax.reduce_sum(parts, last), (*shape, 1), lead))


def generalized_normal(
    key: Array,
    p: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Numbers with density proportional to exp(-|x|^p).

    Args:
        key: a key, used up by the call.
        p: the exponent, positive.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.
    """
    key, _ = one_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    shape = joint_shape("generalized_normal", shape, p=p)
    return _generalized_normal(key, shape, dtype, p, out_sharding=out_sharding)


@drawn(2)
def _generalized_normal(key, shape, dtype, p):
    return _generalized_normals(key, shape, dtype, p)


def _generalized_normals(key, shape, dtype, p):
    first, second = keys_from(key)
    power = lax.div(as_dtype(1, dtype), as_dtype(p, dtype))
    sizes = lax.pow(gammas(first, shape, dtype, False, power), to_rank(power, len(shape)))
    return lax.mul(random_signs(second, shape, dtype), sizes)


def ball(
    key: Array,
    d: int,
    p: ArrayLike = 2,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Points uniform in the unit ball of the p-norm in `d` dimensions; the last dimension is that of the points.

    Args:
        key: a key, used up by the call.
        d: dimension of the ball, a positive integer.
        p: exponent of the norm, positive.
        shape: shape of the result without its last dimension, which is `d`.
        dtype: a floating dtype, float32 by default (float64 with 64-bit types).
        out_sharding: where the result goes: a sharding, or a spec over the current mesh.

    Source:
        Barthe, Guedon, Mendelson and Naor (2005), A probabilistic approach to the geometry of the
            l_p^n ball.
    """
    key, _ = one_key("ball", key)
    dtype = float_dtype("ball", dtype)
    if aval_of(p).shape:
        raise TypeError(
            f"ball takes one exponent p, a number, got an array of shape {aval_of(p).shape}; use vmap for several"
        )
    return _ball(key, canonical_shape(shape), dtype, int(d), p, out_sharding=out_sharding)


@drawn(3)
def _ball(key, shape, dtype, d, p):
    first, second = keys_from(key)
    points = _generalized_normals(first, (*shape, d), dtype, p)
    extra = standard_exponential(second, shape, dtype)
    p = as_dtype(p, dtype)
    total = lax.add(
        lax.reduce_sum(lax.pow(lax.abs(points), to_rank(p, len(shape) + 1)), (len(shape),)), extra
    )
    norm = lax.pow(total, to_rank(lax.div(as_dtype(1, dtype), p), len(shape)))
    return lax.div(points, lax.broadcast_in_dim(norm, (*shape, 1), range(len(shape))))


def _cost(avals_in, avals_out, **_):
    # Marsaglia and Tsang: about one round, of two normals, a logarithm and some hashing.
    return costs.Cost(300 * avals_out[0].size, 6 * avals_out[0].size, unit="other")


costs.register(_cost, random_gamma_p)
