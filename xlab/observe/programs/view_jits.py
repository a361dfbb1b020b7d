"""The jits that views make of a plain function: it is shown as a call would run it now, and no look decides what a later call runs."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

from xlab.backend import caches
from xlab.backend.dispatch import PjitFunction
from xlab.compile import memory_cache
from xlab.compile.jit import jit
from xlab.compile.stages import Compiled, Lowered, Traced
from xlab.compile.tracing import function_name, own
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, jaxpr_as_fun, open_jaxpr
from xlab.observe.beside.calls import JaxFunction
from xlab.observe.beside.held import our_held_of, without
from xlab.observe.beside.recognize import belongs_to_jax, held_stage
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.programs.values_read import values_read

# By the ids of the functions, which their jits keep alive, and what they read.
_jits: caches.Latest[tuple, Any] = caches.Latest(64)
_holding: caches.Latest[tuple, Any] = caches.Latest(64)
caches.register(_jits.clear)
caches.register(_holding.clear)


def jitted(
    fun: Any, names: dict[str, Any] | None = None, args: tuple = (), kwargs: dict | None = None
) -> Any:
    """The jitted form of a function: itself, an existing `jit` of it without options, or a new one for viewing.

    A function that JAX is to trace, as its names or the arguments say, is one whose calls JAX compiles. What the arguments hold that is no array
    stays as it is.

    A new one is cached per named function, so that a second view does not compile again while all that the function reads is the same. `names` are
    those of the function's module where none are given. A stage is called as it is, a jaxpr is compiled.
    """
    fun = function_of(fun)
    if isinstance(fun, StageFunction):
        return fun
    if belongs_to_jax(fun, args, kwargs):
        return fun if isinstance(fun, JaxFunction) else JaxFunction(fun)
    if own(fun, "lower") is not None:
        return fun
    if our_held_of(fun, args, kwargs or {}):
        return HoldingJit(fun)
    names = names if names is not None else getattr(fun, "__globals__", {})
    values = list(names.values())
    for value in values:
        if type(value) is not PjitFunction:  # others are not asked: what they answer with may run
            continue
        owner = own(value, "_xlab_jit")
        if owner is not None and owner.fun is fun and owner.is_plain():
            return value
    key = id(fun), values_read(fun)
    if any(value is fun for value in values):
        return _jits.get_or_make(key, lambda: for_view(fun))
    return _jits.pop(key, None) or for_view(fun)


class HoldingJit:
    """A function jitted for the arrays among its arguments; what else they hold is part of the program.

    Args:
        fun: the function.
        numbers_held: the kinds of Python's numbers that are part of the program too.

    Example:
        >>> import numpy as np
        >>> HoldingJit(lambda shape, value: np.full(shape, 2) * value, (int,)).trace((3,), np.float32(1)).jaxpr.in_avals
        [ShapedArray(float32[])]
    """

    def __init__(self, fun: Any, numbers_held: tuple[type, ...] = ()):
        self.fun = self.__wrapped__ = fun
        self.numbers_held = numbers_held
        self.__name__ = getattr(fun, "__name__", type(fun).__name__)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        made, args, kwargs = self.of_arrays(args, kwargs)
        return made.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        return self.trace(*args, **kwargs).lower()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made, args, kwargs = self.of_arrays(args, kwargs)
        return made(*args, **kwargs)

    def of_arrays(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
        """The jitted function of the arrays alone, and the arrays."""
        held = our_held_of(self, args, kwargs)
        key = held.key(self.fun), values_read(self.fun)
        made = _holding.get_or_make(key, lambda: for_view(without(self.fun, held)))
        return made, *held.dynamic(args, kwargs)


# By the ids of jaxprs, which their jits keep alive.
_of_jaxprs: caches.Latest[int, Any] = caches.Latest(64)
caches.register(_of_jaxprs.clear)


def function_of(what: Any) -> Any:
    """What a call of a stage of ours, or of a jaxpr of ours, calls; anything else is given back.

    >>> low = jit(lambda x: x + 1).lower(1.0)
    >>> float(function_of(low)(2.0)), float(function_of(low.traced.jaxpr)(2.0)[0]), function_of(len) is len
    (3.0, 3.0, True)
    """
    what = held_stage(what)
    if isinstance(what, Traced | Lowered | Compiled):
        return StageFunction(what)
    if isinstance(what, Jaxpr | ClosedJaxpr):
        closed = what if isinstance(what, ClosedJaxpr) else ClosedJaxpr(what, ())
        name = closed.jaxpr.debug_info.name
        return _of_jaxprs.get_or_make(
            id(open_jaxpr(what)), lambda: jit(jaxpr_as_fun(closed), name=name)
        )
    return what


def for_view(fun: Any, **options: Any) -> Any:
    """A `jit` of a function that is made to be looked at, with options of `jit`.

    Where the function has programs of the user's own, which may have been traced with other values, it is of a copy. Where not, a jit of the user's
    runs what was compiled for the view, as long as all that the function reads is the same.
    """
    if memory_cache.is_used(fun):
        copy = _copy(fun)
        copy._xlab_for_view = True
        made = jit(copy, name=function_name(fun), **options)
        made._xlab_jit.reason = (
            f"`{function_name(fun)}` is looked at as it is now, without the options of its own jit"
        )
    else:
        made = jit(
            fun, **options
        )  # which drops what was made for a view when other values were read
        read, weak = values_read(fun), _weak(fun)
        memory_cache.note_view(fun, lambda: values_read(weak()) == read)
    made._xlab_jit.for_view = True
    return made


def _weak(fun: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(fun)
    except TypeError:
        return lambda: fun


def fresh(jitted: Any) -> Any:
    """A new jit of a copy of a jitted function, with the same options and empty caches.

    >>> f = jit(lambda x: x + 1)
    >>> int(fresh(f)(1)), fresh(f) is f
    (2, False)
    """
    if isinstance(jitted, StageFunction):
        raise TypeError(
            f"{jitted.__name__} is a {type(jitted.stage).__name__}, whose function was traced before: for a cold call, measure that of the "
            "function itself"
        )
    if isinstance(jitted, JaxFunction):
        raise TypeError(
            f"{jitted.__name__} is compiled by JAX, which gives no fresh copy of a jitted function: for a cold call, run jax.clear_caches() "
            "first and measure what it then does"
        )
    if isinstance(jitted, HoldingJit):
        return HoldingJit(_copy(jitted.fun), jitted.numbers_held)
    of = jitted._xlab_jit
    made = jit(
        _copy(of.fun),
        in_shardings=of.in_shardings,
        out_shardings=of.out_shardings,
        static_argnums=of.static_argnums,
        static_argnames=of.static_argnames,
        donate_argnums=of.donate_argnums,
        donate_argnames=of.donate_argnames,
        keep_unused=of.keep_unused,
        inline=of.inline,
        name=of.name,
        compiler_options=of.compiler_options,
    )
    made._xlab_jit.for_view = True
    made._xlab_jit.reason = (
        f"a fresh copy of `{of.name}`, to measure a cold call; what is compiled of it stays"
    )
    return made


def _copy(fun: Any) -> Any:
    if type(fun) is not types.FunctionType:
        return functools.wraps(fun)(lambda *args, **kwargs: fun(*args, **kwargs))
    made = types.FunctionType(
        fun.__code__, fun.__globals__, fun.__name__, fun.__defaults__, fun.__closure__
    )
    made.__kwdefaults__ = fun.__kwdefaults__
    return functools.update_wrapper(made, fun)
