"""`jit_when_eager`: NumPy-level functions that are one compiled program when called eagerly.

Called on concrete values, such a function is a jitted program as a whole, on the native call path; called while
something is being traced, it is plain Python, whose primitives go to the trace one by one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

from xlab.compile.jit import jit
from xlab.core.trace import EVAL, state


def jit_when_eager(fun: Callable | None = None, *, static: Sequence[str] = ()):
    """Decorates a function of arrays so that eager calls run one compiled program.

    Args:
        fun: a function of arrays (and lists of arrays); it must not look at their values.
        static: names of parameters that are Python values. One that has no hash (a list of axes) makes that
            call run primitive by primitive.

    Example:
        >>> from xlab import lax
        >>> @jit_when_eager(static=("axis",))
        ... def spread(x, axis=0):
        ...     return lax.sub(lax.reduce_max(x, (axis,)), lax.reduce_min(x, (axis,)))
    """
    if fun is None:
        return functools.partial(jit_when_eager, static=static)
    static = (static,) if isinstance(static, str) else tuple(static)
    fun._single_operation = True  # type: ignore[attr-defined]

    def made() -> Callable:
        nonlocal compiled
        if compiled is first:
            compiled = call.compiled = jit(fun, static_argnames=static or None, inline=True)
        return compiled

    def first(*args, **kwargs):  # jit waits for a call: a program calls few of these functions
        return made()(*args, **kwargs)

    compiled, first.made = first, made  # type: ignore[attr-defined]
    if _takes_two(fun) and not static:  # packing arguments costs a tenth of such a call

        @functools.wraps(fun)
        def call(x, y, /):
            if state.trace is EVAL:
                return compiled(x, y)
            return fun(x, y)
    elif not static:

        @functools.wraps(fun)
        def call(*args, **kwargs):
            if state.trace is EVAL:
                return compiled(*args, **kwargs)
            return fun(*args, **kwargs)
    else:

        @functools.wraps(fun)
        def call(*args, **kwargs):
            if state.trace is EVAL:
                try:
                    return compiled(*args, **kwargs)
                except ValueError:
                    if _hashable(inspect.signature(fun), static, args, kwargs):
                        raise
            return fun(*args, **kwargs)

    call.compiled = compiled
    return call


def _takes_two(fun: Callable) -> bool:
    """Whether a function takes two arguments, by position alone."""
    code = getattr(fun, "__code__", None)
    named = code and (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    stars = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return named == (2, 2, 0) and not code.co_flags & stars and not fun.__defaults__  # type: ignore[attr-defined, union-attr]


def _hashable(signature, static, args, kwargs) -> bool:
    bound = signature.bind(*args, **kwargs).arguments
    try:
        hash(tuple(bound.get(name) for name in static))
    except TypeError:
        return False
    return True
