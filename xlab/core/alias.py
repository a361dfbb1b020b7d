"""`alias`: a function under another name, which its `__name__`, its signature and `help` show."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

__all__ = ["alias"]


def alias(fun: Callable, name: str, module: str | None = None) -> Callable:
    """The same function under another name: the same code, so that a call costs nothing more.

    Args:
        fun: a Python function.
        name: its other name.
        module: where the other name is defined, by default where the function is.

    Example:
        >>> def area(width, height=1):
        ...     return width * height
        >>> surface = alias(area, "surface")
        >>> surface.__name__, surface(2, height=3)
        ('surface', 6)
    """
    other = FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__)
    other.__dict__.update(fun.__dict__)
    other.__kwdefaults__, other.__annotations__ = fun.__kwdefaults__, fun.__annotations__
    other.__qualname__, other.__doc__ = name, fun.__doc__
    other.__module__ = fun.__module__ if module is None else module
    return other
