"""Which module of a model an equation is in, where the model's library opens no named scope for it.

Linen and haiku name a scope after every module. flax.nnx opens none, and equinox one that says the class of a layer and not which layer it
is. There the frames that led to the equation tell: a module is called through `__call__`, by the name that the line around it says.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator
from typing import Any

from xlab.core.jaxpr import JaxprEqn
from xlab.core.source_info import is_library, position
from xlab.observe.programs.names import source_tree

_LAYERS = tuple(
    os.sep + os.path.join(*folder, "") for folder in (("flax", "nnx", "nn"), ("equinox", "nn"))
)
"""Folders of libraries whose callable classes are layers of a model; those of other files may be anything."""
_LONGEST = 40


def scope_of(eqn: JaxprEqn, around: tuple[str, ...] = ()) -> str:
    """The scopes that an equation was named under; without any that tell modules apart, the modules whose calls led to it.

    Such a scope is `Net/encoder/attention`: the class of the outermost module, then what each is called by: an attribute of the module
    around it, or a variable. Where the source does not say, it is the class. Of an equation of a nested program it is what `around`, the
    modules of the equation that the program is of, does not say already.

    >>> import xlab
    >>> class Square:
    ...     def __call__(self, x):
    ...         return x * x
    >>> scope_of(xlab.make_jaxpr(Square())(2.0).eqns[0])
    'Square'
    """
    given = str(eqn.source_info.scope)
    parts = given.split("/") if given else []
    if not all(map(_tells_no_module, parts)):
        return given
    found = modules_of(eqn)
    found = found[len(around) :] if found[: len(around)] == around else found
    return "/".join((*found, *(p for p in parts if "->" in p))) if found else given


def _tells_no_module(part: str) -> bool:
    """Whether a scope says only the class of a layer, as equinox's do, or the formula of an `einsum`, as JAX's do."""
    return part.startswith("eqx.nn.") or "->" in part


def modules_of(eqn: JaxprEqn) -> tuple[str, ...]:
    """The modules whose calls led to an equation, from the outside in.

    >>> import xlab
    >>> modules_of(xlab.make_jaxpr(lambda x: x * x)(2.0).eqns[0])
    ()
    """
    return _modules(eqn.raw_source_info)


_known: dict[tuple[int, int, int], tuple[Any, tuple[str, ...]]] = {}
"""By code, instruction and callers, which the equations of a line share; with these, so that their ids stay their own."""


def _modules(place: tuple) -> tuple[str, ...]:
    code, lasti, _, callers = place
    if code is None:
        return ()
    key = id(code), lasti, id(callers)
    found = _known.get(key)
    if found is None:
        if len(_known) >= 4096:
            _known.clear()
        found = _known[key] = (code, callers), tuple(_called(_frames(code, lasti, callers)))
    return found[1]


def _frames(code: Any, lasti: int, callers: Any) -> Iterator[tuple[Any, int]]:
    """The frames within the trace of an equation, from the outside in."""
    flat = (code, lasti, *(callers[0] if callers is not None else ()))
    return zip(flat[-2::-2], flat[-1::-2])


def _called(frames: Iterator[tuple[Any, int]]) -> Iterator[str]:
    around: tuple[Any, int] | None = None
    outermost = True
    for code, lasti in frames:
        library = is_library(code.co_filename)
        if library and not any(folder in code.co_filename for folder in _LAYERS):
            continue  # what stands between a module and one that it calls
        if code.co_name == "__call__" and "." in code.co_qualname:
            kind = code.co_qualname.split(".")[-2]
            name = "" if outermost or around is None else _name_of_call(*around)
            yield name or kind
            outermost = False
        around = code, lasti


@functools.lru_cache(maxsize=4096)
def _name_of_call(code: Any, lasti: int) -> str:
    """What is called at an instruction: `linear` in `self.linear(x)`; empty where it is nothing that has a name."""
    p = position(code, lasti)
    return _names_of_calls(source_tree(p.file)).get(
        (p.line, p.end_line, p.column, p.end_column), ""
    )


@functools.lru_cache(maxsize=64)
def _names_of_calls(tree: ast.Module | None) -> dict[tuple[int, int | None, int, int | None], str]:
    found = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and _is_name(node.func):
            text = ast.unparse(node.func).removeprefix("self.").replace("/", "|")
            if len(text) <= _LONGEST:
                found[node.lineno, node.end_lineno, node.col_offset, node.end_col_offset] = text
    return found


def _is_name(node: ast.expr) -> bool:
    """Whether an expression is a variable, or an attribute or an item of one."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name)
