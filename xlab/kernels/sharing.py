"""When two kernel calls are one program: calls that are made anew in a loop are then traced and compiled once.

Python makes a new function each time that a `def` or `lambda` runs. Two of them do the same if they have the same code and see the
same values: numbers, strings, dtypes, modules and classes of NumPy and this package, and functions of which that is true.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.kernels.blocks import BlockSpec

_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_BY_IDENTITY = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)
# Modules and classes whose attributes nobody changes.
_FIXED = ("builtins", "functools", "itertools", "math", "ml_dtypes", "numpy", "operator", "xlab")


class NotComparable(Exception):
    """A function sees something of which nobody can say whether it has changed."""


def value_key(x: Any, seen: tuple = ()) -> Hashable:
    """Stands for a value: equal keys, equal values.

    Raises:
        NotComparable: it may change without notice.
    """
    if isinstance(x, _NUMBERS):
        return type(x), repr(x) if isinstance(x, (float, complex)) else x
    if isinstance(x, (np.dtype, np.generic)):
        return type(x), str(x) if isinstance(x, np.dtype) else (x.dtype, x.tobytes())
    if isinstance(x, _BY_IDENTITY):
        home = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
        if isinstance(x, np.ufunc) or str(home).partition(".")[0] in _FIXED:
            return x
    if isinstance(x, tuple):
        return type(x), *(value_key(item, seen) for item in x)
    if isinstance(x, (types.FunctionType, functools.partial)):
        return function_key(x, seen)
    raise NotComparable


def function_key(fun: Callable[..., Any] | None, seen: tuple = ()) -> Hashable:
    """Stands for a function: equal keys, equal doings.

    Raises:
        NotComparable: it sees something that may change without notice.

    Example:
        >>> def shifted(n):
        ...     return lambda i: (i + n,)
        >>> function_key(shifted(1)) == function_key(shifted(1)), function_key(shifted(1)) == function_key(shifted(2))
        (True, False)
    """
    if fun is None:
        return None
    if isinstance(fun, functools.partial):
        keywords = tuple(sorted(fun.keywords.items()))
        return "partial", function_key(fun.func, seen), value_key((fun.args, keywords), seen)
    if not isinstance(fun, types.FunctionType):
        raise NotComparable
    if fun in seen:  # it calls itself
        return "again", len(seen) - seen.index(fun)
    seen = (*seen, fun)
    code, scope = fun.__code__, fun.__globals__
    try:
        inside = tuple([cell.cell_contents for cell in fun.__closure__ or ()])
    except ValueError:  # a variable that is not set yet
        raise NotComparable from None
    outside = tuple([(n, scope[n]) for n in sorted(set(_names(code))) if n in scope])
    unknown = [n for n in _names(code) if n not in scope and not hasattr(builtins, n)]
    return (
        code,
        id(scope),
        tuple(unknown),
        value_key(
            (inside, outside, fun.__defaults__, tuple((fun.__kwdefaults__ or {}).items())), seen
        ),
    )


def _names(code: types.CodeType) -> Iterator[str]:
    """Names that code reads from its module, and those of attributes."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def spec_key(specs: Any) -> Hashable:
    """Stands for a tree of block specs.

    Raises:
        NotComparable: an index map is not comparable.
    """
    leaves, tree = _tree.flatten(specs, is_leaf=lambda x: x is None)
    return tree, *map(_leaf_key, leaves)


def _leaf_key(spec: Any) -> Hashable:
    if type(spec) is not BlockSpec:
        return spec
    shape = spec.block_shape
    dims = None if shape is None else tuple((type(d), d) for d in shape)
    return dims, function_key(spec.index_map), spec.memory_space, spec.pipeline_mode


def base_and_key(kernel: Callable[..., Any]) -> tuple[Callable[..., Any], Hashable]:
    """The function that a kernel is made of, and what `functools.partial` was given with it.

    Raises:
        NotComparable: that may change without notice.
    """
    given: list[Hashable] = []
    while isinstance(kernel, functools.partial):
        given.append(value_key((kernel.args, tuple(sorted(kernel.keywords.items())))))
        kernel = kernel.func
    return kernel, tuple(given)
