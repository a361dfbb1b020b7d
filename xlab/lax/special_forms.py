"""Lowering of special functions through our own series and continued fractions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlab.core.avals import aval_of
from xlab.interpreters import mlir
from xlab.lax.arithmetic import add
from xlab.lax.bits import bitwise_and
from xlab.lax.comparison import lt, select
from xlab.lax.control.while_loop import while_loop
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full_like
from xlab.lax.elementwise import beside, joint_shape
from xlab.lax.reductions import reduce_or
from xlab.lax.shape import broadcast_in_dim


def widened(fun: Callable):
    """Lowering rule for an elementwise primitive that is `fun` of operands of one shape, in at least 32 bits."""

    def whole(*xs):
        return convert_element_type(fun(*brought(xs)), aval_of(xs[0]).dtype)

    return mlir.lower_fun(whole, multiple_results=False)


def brought(xs):
    """Operands of one shape and of at least 32 bits."""
    dtype = aval_of(xs[0]).dtype
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    return together(*(convert_element_type(x, wide) for x in xs))


def together(*xs):
    """Operands of one shape."""
    shape = joint_shape("special function", [aval_of(x) for x in xs])
    return [_spread(x, shape) for x in xs]


def _spread(x, shape):
    own = aval_of(x).shape
    return x if own == shape else broadcast_in_dim(x, shape, range(len(own)))


def number(value, like):
    """A scalar of the dtype of another value."""
    return beside(value, like)


def anywhere(x):
    return reduce_or(x, tuple(range(aval_of(x).ndim)))


def until_settled(step: Callable, start: tuple, limit: int) -> tuple:
    """Repeats `step(i, *values) -> (unsettled, *values)`, i = 1, 2, ..., until every element has settled.

    An element that has settled stays as it is: further steps would only add their rounding.
    """

    def more(carry):
        i, going, *_ = carry
        return bitwise_and(anywhere(going), lt(i, np.int32(limit)))

    def body(carry):
        i, going, *old = carry
        unsettled, *new = step(convert_element_type(i, aval_of(old[0]).dtype), *old)
        return (
            add(i, np.int32(1)),
            bitwise_and(going, unsettled),
            *(select(going, n, o) for n, o in zip(new, old)),
        )

    return while_loop(more, body, (np.int32(1), full_like(start[0], True, bool), *start))[2:]
