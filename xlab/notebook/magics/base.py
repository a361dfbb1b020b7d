"""Shared by magics: parsing a Python call, and naming the running cell."""

from __future__ import annotations

import ast
import linecache
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import tree
from xlab.backend import caches
from xlab.compile.tracing import own
from xlab.core.source_info import shown_names
from xlab.notebook import options
from xlab.notebook.magics.arguments import Option
from xlab.observe.beside.calls import JaxFunction
from xlab.observe.beside.held import PYTHON_NUMBERS
from xlab.observe.beside.recognize import belongs_to_jax
from xlab.observe.programs.values_read import values_read
from xlab.observe.programs.view_jits import HoldingJit, for_view, function_of
from xlab.observe.programs.view_jits import jitted as _jitted


def evaluate(shell: Any, text: str, magic: str, what: str = "an expression") -> Any:
    """The value of a Python expression in the user's namespace."""
    text = text.strip()
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(
            f"{what} was expected, such as f(x, y); given {text!r}: {error.msg}"
        ) from None
    return _evaluator(shell, node, text, magic)(node)


def _evaluator(shell: Any, node: ast.expr, text: str, magic: str) -> Callable[[ast.expr], Any]:
    """What evaluates parts of an expression, whose text then is a file of its own: what it defines, such as a lambda, stands in this cell."""
    number, line = cell_line(shell)
    # A cell that runs again leaves no second file behind.
    file = f"<%{magic} {zlib.crc32(f'{line} {text}'.encode()):08x}>"
    shown_names[file] = f"In[{number}]"
    ast.increment_lineno(node, line - 1)
    # Of no length and time, it is in no file: tracebacks read its lines here.
    linecache.cache[file] = (0, None, [*"\n" * (line - 1), *text.splitlines(keepends=True)], file)
    return lambda of: eval(compile(ast.Expression(of), file, "eval"), shell.user_ns)


def call_of(shell: Any, text: str, magic: str) -> tuple[Any, tuple[Any, ...], dict[str, Any], str]:
    """Parses a call without running it: the function, its arguments, and its text."""
    text = text.strip()
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        node = None
    if not isinstance(node, ast.Call):
        raise ValueError(f"%{magic} takes a call, such as %{magic} f(x, y); given {text!r}")

    value = _evaluator(shell, node, text, magic)
    args: list[Any] = []
    for a in node.args:
        args.extend(value(a.value)) if isinstance(a, ast.Starred) else args.append(value(a))
    kwargs: dict[str, Any] = {}
    for k in node.keywords:
        kwargs.update(value(k.value) if k.arg is None else {k.arg: value(k.value)})
    fun = value(node.func)
    return _with_numbers(fun, tuple(args), kwargs), tuple(args), kwargs, text


def _with_numbers(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function, compiled with Python's numbers in a call as they are where it can be traced only so: the integers, or all.

    `sampler(key, 20)` and `jnp.zeros((3,))` run as they are written: what is shown of them takes no other number of steps, and no other shape.
    """
    if function_of(fun) is not fun or own(fun, "lower") is not None or not callable(fun):
        return fun
    numbers = [x for x in tree.leaves((args, kwargs)) if isinstance(x, PYTHON_NUMBERS)]
    if not numbers or belongs_to_jax(fun, args, kwargs) or _is_traced(fun, args, kwargs):
        return fun
    for held in ((bool, int), PYTHON_NUMBERS):
        if any(isinstance(x, held) for x in numbers):
            made = _holding_jit(fun, held)
            if _is_traced(made, args, kwargs):
                return made
    return fun  # its own error is the better one


def _holding_jit(fun: Any, held: tuple[type, ...]) -> HoldingJit:
    try:
        return _holding.get_or_make((fun, held), lambda: HoldingJit(fun, held))
    except TypeError:  # the method of an object without a hash
        return HoldingJit(fun, held)


def _is_traced(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        _jitted(fun, None, args, kwargs).trace(*args, **kwargs)
    except Exception:
        return False
    return True


STATIC = Option("static", "arguments that stay Python values, by name", "n,m")
"""For magics that compile a call."""

_of_static: caches.Latest[tuple, Any] = caches.Latest(64)
_holding: caches.Latest[tuple, HoldingJit] = caches.Latest(64)


def plain_function(fun: Any) -> Any:
    """The user's function, of which `--static` can name arguments; None if what was called is compiled by the user."""
    fun = fun.fun if isinstance(fun, HoldingJit) else fun
    return fun if own(fun, "lower") is None and function_of(fun) is fun else None


def jitted(
    shell: Any,
    fun: Any,
    static: str | None = None,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """The jitted form of a function: itself, the notebook's jit of it, or a cached one made here. `static` names arguments, as `--static` does.

    What JAX is to trace, as the function or its arguments say, JAX compiles.
    """
    names = options.names(static)
    if not names:
        return _jitted(fun, shell.user_ns, args, kwargs)
    plain = plain_function(fun)
    if plain is None:
        raise ValueError(
            f"--static {static} is for a function that is not compiled yet; {getattr(fun, '__name__', type(fun).__name__)!r} is jitted, with its "
            "own static_argnames"
        )
    fun = plain
    if belongs_to_jax(fun, args, kwargs):
        return _of_static.get_or_make((fun, names), lambda: JaxFunction.of(fun, names))
    key = fun, names, values_read(fun)
    return _of_static.get_or_make(key, lambda: for_view(fun, static_argnames=names))


def cell_number(shell: Any) -> int:
    """The number of the cell that is running, as its prompt shows it."""
    return cell_line(shell)[0]


def cell_line(shell: Any) -> tuple[int, int]:
    """The number of the cell that is running, and the line in it."""
    numbers = getattr(shell.compile, "_filename_map", {})
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is shell.user_ns and frame.f_code.co_filename in numbers:
            return numbers[frame.f_code.co_filename], frame.f_lineno
        frame = frame.f_back
    return shell.execution_count, 1


class CellFile(NamedTuple):
    """A cell as Python, its file name in tracebacks, the number of its first line there, and its own."""

    source: str
    file: str
    first: int
    number: int


def cell_file(shell: Any, magic: str, line: str, cell: str) -> CellFile:
    """Makes a file of a cell, as tracebacks and listings know it.

    Lines are numbered as the front end numbers them: the magic is line 1.
    """
    source = shell.transform_cell(cell)
    blank = len(cell) - len(cell.lstrip("\n"))
    whole = f"%%{magic} {line}".rstrip() + "\n" + cell
    number = cell_number(shell)
    name = shell.compile.cache(whole, number, raw_code=whole)
    shown_names[name] = f"In[{number}]"
    return CellFile(source, name, 2 + blank, number)
