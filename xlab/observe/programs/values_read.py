"""What a function reads besides its arguments, and when two values are the same to a program traced with them.

Read from the compiled code, so that nested functions, comprehensions and f-strings need no cases of their own.
"""

from __future__ import annotations

import dis
import functools
import weakref
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from xlab.compile.tracing import attribute
from xlab.core import source_info

_READS = frozenset(
    {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_NAME", "DELETE_GLOBAL"}
)


@functools.lru_cache(maxsize=4096)
def global_reads(code: CodeType) -> tuple[str, ...]:
    """Global names that a code object or one nested in it reads, in order of first use.

    >>> global_reads(compile("y = f(x) + [a for a in z]", "<cell>", "exec"))
    ('f', 'x', 'z')
    """
    found = dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in _READS)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(dict.fromkeys(global_reads(constant)))
    return tuple(found)


def values_read(fun: Any) -> tuple:
    """What a function and those it calls find in global names, closures and defaults: equal as long as these are the same.

    Functions of installed libraries are not looked into. Contents count of lists, dicts and objects of the notebook, some levels deep.

    >>> scale = [2.0]
    >>> f = lambda x: x * scale[0]
    >>> before = values_read(f)
    >>> before == values_read(f), scale.append(1.0), before == values_read(f)
    (True, None, False)
    """
    found: dict[tuple, Any] = {}
    waiting = list(functions_in(fun))
    seen = set()
    if (owner := attribute(fun, "__self__")) is not None:
        found["self",] = token(owner)
    while waiting:
        function = waiting.pop()
        code = function.__code__
        if id(function) in seen or _is_installed(code.co_filename):
            continue
        seen.add(id(function))
        names = function.__globals__
        read = {(id(names), n): names[n] for n in global_reads(code) if n in names}
        for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                read[id(function), variable] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        read[id(function), ""] = (function.__defaults__, function.__kwdefaults__)
        for place, value in read.items():
            if place not in found:
                found[place] = token(value)
                waiting += functions_in(value)
    return tuple(found.items())


def _is_installed(file: str) -> bool:
    return source_info.is_internal(file) or source_info.is_library(file)


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The plain functions behind a value: itself, what it wraps, what it closes over, the methods of a class."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or value is None:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            yield value
            waiting += [c.cell_contents for c in value.__closure__ or () if _filled(c)]
        elif isinstance(value, type) and value.__module__ == "__main__":
            waiting += list(vars(value).values())
        elif isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        elif type(value).__module__ == "__main__":
            waiting.append(type(value))
        if callable(value):
            waiting += [
                attribute(value, "__wrapped__"),
                attribute(value, "func"),
                attribute(value, "__func__"),
            ]


def _filled(cell: Any) -> bool:
    try:
        return callable(cell.cell_contents)
    except ValueError:
        return False


class Same:
    """Stands for an object by identity, and keeps alive only one that cannot be referred to weakly."""

    __slots__ = ("address", "value")

    def __init__(self, value: Any):
        self.address = id(value)
        try:
            self.value: Any = weakref.ref(value)
        except TypeError:
            self.value = lambda: value

    def __eq__(self, other: object) -> bool:
        mine = self.value()
        return type(other) is Same and mine is not None and other.value() is mine

    def __hash__(self) -> int:
        return self.address


def token(value: Any, depth: int = 3) -> Any:
    """A hashable that is equal for two values when a program traced with one may be used with the other.

    >>> token(1) == token(1), token(1) == token(True), token([1, 2]) == token([1, 2])
    (True, False, True)
    """
    kind = type(value)
    if kind in (int, float, complex, bool, str, bytes, type(None)):
        return kind, repr(value) if kind is float else value
    if kind in (tuple, list) and depth and len(value) <= 1000:
        return kind, tuple(token(v, depth - 1) for v in value)
    if kind is dict and depth and len(value) <= 1000:
        return kind, tuple((token(k, depth - 1), token(v, depth - 1)) for k, v in value.items())
    if isinstance(value, np.ndarray) and value.nbytes <= 1 << 20 and value.dtype.kind != "O":
        return np.ndarray, value.shape, str(value.dtype), value.tobytes()
    if kind.__module__ == "__main__" and depth and isinstance(attribute(value, "__dict__"), dict):
        return Same(value), token(vars(value), depth - 1)
    return Same(value)
