"""The elementwise functions that have a ufunc's methods: `add.reduce`, `maximum.accumulate`, `multiply.outer`, `logical_or.at`, ...

They stay plain functions, whose calls cost nothing more; what their methods need is made when one is used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from xlab import lax
from xlab.numpy.arithmetic import as_array, logaddexp, logaddexp2
from xlab.numpy.cumulative import cumprod, cumsum
from xlab.numpy.logic import logical_and, logical_or, logical_xor
from xlab.numpy.operands import check
from xlab.numpy.reductions import max, min, prod, sum
from xlab.numpy.ufunc import ufunc
from xlab.numpy.ufuncs import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
)

METHODS = {
    name: inspect.signature(functools.partial(getattr(ufunc, name), None))
    for name in ("reduce", "accumulate", "at", "outer", "reduceat")
}
"""The methods, and what they take."""


class _Known(ufunc):
    """A ufunc some of whose methods are functions of their own."""

    def __init__(self, func, nin, identity, scattered, methods):
        super().__init__(func, nin, 1, name=func.__name__, identity=identity)
        self._apply, self._scattered = func, scattered
        vars(self).update(methods)

    def at(self, a, indices, b=None, /, *, inplace: bool = True):
        """As `ufunc.at`, in one scatter where there is one."""
        if self._scattered is None or inplace or b is None:
            return super().at(a, indices, b, inplace=inplace)
        (a,) = check(f"{self.__name__}.at", a)
        return getattr(as_array(a).at[indices], self._scattered)(b)


def _running(run: Callable) -> Callable:
    def accumulate(a, axis=0, dtype=None, out=None):
        return run(a, axis=axis, dtype=dtype, out=out)

    return accumulate


def _total(run: Callable) -> Callable:
    def reduce(a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
        return run(
            a, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where
        )

    return reduce


def _extreme(run: Callable) -> Callable:
    def reduce(a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
        if dtype is not None:
            a = lax.convert_element_type(a, dtype)
        return run(a, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _has_methods(
    fun: Callable, identity=None, nin: int = 2, scattered: str | None = None, **methods: Callable
) -> None:
    made = functools.cache(lambda: _Known(fun, nin, identity, scattered, methods))
    fun.nin, fun.nout, fun.nargs, fun.identity, fun.is_ufunc = nin, 1, nin, identity, True

    def method(name: str) -> Callable:
        @functools.wraps(getattr(ufunc, name))
        def call(*args, **kwargs):
            return getattr(made(), name)(*args, **kwargs)

        call.__signature__ = METHODS[name]
        call.__qualname__ = f"{fun.__name__}.{name}"
        return call

    for name in METHODS:
        setattr(fun, name, method(name))


_has_methods(add, 0, scattered="add", reduce=_total(sum), accumulate=_running(cumsum))
_has_methods(multiply, 1, scattered="multiply", reduce=_total(prod), accumulate=_running(cumprod))
_has_methods(maximum, reduce=_extreme(max))
_has_methods(minimum, reduce=_extreme(min))
_has_methods(bitwise_and, -1)
_has_methods(bitwise_or, 0)
_has_methods(bitwise_xor, 0)
_has_methods(logical_and, True)
_has_methods(logical_or, False)
_has_methods(logical_xor, False)
_has_methods(logaddexp, -np.inf)
_has_methods(logaddexp2, -np.inf)
_has_methods(subtract, scattered="subtract")
_has_methods(negative, nin=1)
