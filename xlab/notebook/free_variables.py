"""Which names a cell reads, directly and through the functions it calls."""

from __future__ import annotations

import ast
import dis
from types import CodeType
from typing import Any

from xlab.observe.programs.values_read import functions_in, global_reads

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
        for function in functions_in(namespace.get(waiting.pop(0))):
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
