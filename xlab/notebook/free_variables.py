"""Which names a piece of Python reads, directly and through the functions it calls; and when two values are the same.

Read from the compiled code, so that nested functions, comprehensions and f-strings need no cases of their own.
"""

from __future__ import annotations

import ast
import dis
import functools
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from xlab.compile.tracing import attribute

_READS = frozenset(
    {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_NAME", "DELETE_GLOBAL"}
)
_WRITES = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_SURE = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.ClassDef,
    ast.Expr,
    ast.With,
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


def writes(code: CodeType) -> frozenset[str]:
    """Names that a module's code assigns, imports or defines at its top."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in _WRITES)


def reads_of(module: ast.Module, filename: str, namespace: dict[str, Any]) -> tuple[str, ...]:
    """Names whose value at the start may matter: read before surely assigned, here or in a function that is called.

    >>> reads_of(ast.parse("a = x\\nb = a + y"), "<cell>", {})
    ('x', 'y')
    """
    found: dict[str, None] = {}
    assigned: set[str] = set()
    for statement in module.body:
        code = compile(ast.Module([statement], []), filename, "exec")
        found.update(
            dict.fromkeys(
                n for n in global_reads(code) if n not in assigned | _loop_names(statement)
            )
        )
        if isinstance(statement, _SURE):
            assigned |= writes(code)
    waiting = list(found)
    while waiting:
        for function in _functions_in(namespace.get(waiting.pop(0))):
            if function.__globals__ is namespace:
                new = [
                    n
                    for n in global_reads(function.__code__)
                    if n not in found and n not in assigned
                ]
                found.update(dict.fromkeys(new))
                waiting += new
    return tuple(found)


def _loop_names(statement: ast.stmt) -> set[str]:
    """Names that a loop assigns before its body reads them."""
    if not isinstance(statement, ast.For):
        return set()
    names = {
        n.id
        for n in ast.walk(statement.target)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return names - {n.id for n in ast.walk(statement.iter) if isinstance(n, ast.Name)}


def _functions_in(value: Any) -> Iterator[FunctionType]:
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
    """Stands for an object by identity, and keeps it, so that its address is not used again."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


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
    if (
        kind.__module__ == "__main__"
        and depth
        and isinstance(getattr(value, "__dict__", None), dict)
    ):
        return Same(value), token(vars(value), depth - 1)
    return Same(value)
