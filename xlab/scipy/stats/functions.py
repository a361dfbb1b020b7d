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

__all__ = ["density", "log_mass", "numbers", "scaled"]


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
