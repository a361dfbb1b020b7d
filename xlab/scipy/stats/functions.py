"""What the distributions share."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable

from xlab import lax
from xlab import numpy as jnp
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import aligned, promoted_inexact
from xlab.scipy import special
from xlab.scipy.special.entropies import quotient
from xlab.scipy.special.functions import with_slopes

__all__ = ["density", "log_mass", "log_of", "numbers", "on_support", "scaled", "weighted_log"]


def density(
    fun: Callable | None = None, *, strong: bool = False, defined: Callable | None = None
) -> Callable:
    """Decorates a function of values and parameters: brought to floats of one dtype and rank, and one program when eager.

    `strong` results are of a weak type as scalars only. Where `defined(*arguments)` does not hold, they are NaN.
    """
    if fun is None:
        return functools.partial(density, strong=strong, defined=defined)
    signature = inspect.signature(fun)
    name = fun.__name__

    def whole(*args):
        args = aligned(name, *(as_array(x) for x in promoted_inexact(name, *args)))
        out = fun(*args)
        if defined is not None:
            out = jnp.where(defined(*args), out, jnp.nan)
        return lax.convert_element_type(out, out.dtype) if strong and out.ndim else out

    run = jit_when_eager(functools.update_wrapper(whole, fun, updated=()))

    @functools.wraps(fun)
    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return run(*bound.args)

    return call


def numbers(*args: Array) -> Array:
    """Where no argument is NaN, which comparisons would take for a value outside."""
    return functools.reduce(operator.and_, (x == x for x in args))


def scaled(*args: Array) -> Array:
    """Where the last argument, a scale, is positive, and none is NaN."""
    return numbers(*args) & (args[-1] > 0)


def on_support(
    fun: Callable,
    inside: Array,
    outside: ArrayLike,
    x: Array,
    loc: ArrayLike = 0,
    scale: Array | None = None,
    at: ArrayLike = 0.5,
) -> Array:
    """`fun(x - loc, scale)` on the support of a distribution, or `fun(x - loc)` of one without a scale; `outside` elsewhere.

    There `fun` is computed at `fun(at, 1)`: a derivative that has no bound where it is not taken would come back as 0 times
    infinity. So slopes outside are 0, by every argument. At an end that `inside` counts in, slopes are those of its inner side.

    Args:
        fun: a function of the distance from the place, and of the scale.
        inside: where to compute it.
        outside: what there is elsewhere.
        x, loc, scale: where to evaluate, the place and the scale.
        at: a point inside of the support, of the standard distribution.
    """
    gap = jnp.where(inside, x - loc, at)
    rest = () if scale is None else (jnp.where(inside, scale, 1),)
    return jnp.where(inside, fun(gap, *rest), outside)


@with_slopes(
    lambda ans, weight, gap, scale: jnp.log(gap / scale),
    lambda ans, weight, gap, scale: quotient(weight, gap),
    lambda ans, weight, gap, scale: -weight / scale,
)
def _weighted_log(weight, gap, scale):
    return special.xlogy(weight, gap / scale)


def weighted_log(weight: Array, gap: Array, scale: Array) -> Array:
    """`weight log(gap / scale)`, whose slope by the scale has a bound also at the end of a support, where the gap is 0."""
    return _weighted_log(*jnp.broadcast_arrays(weight, gap, scale))


def log_of(probability: Array) -> Array:
    """The logarithm of a probability; where that is 0, or too small for its type, of slope 0 rather than 0 / 0."""
    none = probability == 0
    return jnp.where(none, -jnp.inf, jnp.log(jnp.where(none, 1, probability)))


def log_mass(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the normal distribution's mass between two points, from the tail where it is accurate."""

    def left(a, b):
        return _log_difference(special.log_ndtr(b), special.log_ndtr(a))

    straddles = (a <= 0) & (b > 0)
    low, high = jnp.where(a > 0, -b, a), jnp.where(a > 0, -a, b)
    # Each branch is computed everywhere, at harmless points where it is not taken, so that no derivative is nan.
    tail = left(jnp.where(straddles, -1.0, low), jnp.where(straddles, 0.0, high))
    middle = jnp.log1p(
        -special.ndtr(jnp.where(straddles, a, 0.0)) - special.ndtr(-jnp.where(straddles, b, 1.0))
    )
    return lax.select(*jnp.broadcast_arrays(straddles, middle, tail))


def _log_difference(larger, smaller):
    """`log(exp(larger) - exp(smaller))`."""
    return larger + jnp.log1p(-jnp.exp(smaller - larger))
