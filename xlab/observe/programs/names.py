"""Names of values: letters as in the printed jaxpr, and the user's variable names from the source."""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr, subjaxprs_of_params
from xlab.core.printing import HOIST_FROM, Names
from xlab.core.source_info import TransposedLocation, shown_name
from xlab.observe.records import Listing, Source

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


def letter_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """The letter of every variable, nested programs included, in the order the printed program gives them."""
    names = Names()
    done: set[int] = set()
    for inner in _hoisted(jaxpr, {}).values():
        _name_body(inner, names, done)
    _name_body(jaxpr, names, done)
    return names.given


def _hoisted(jaxpr: Jaxpr, found: dict[int, Jaxpr]) -> dict[int, Jaxpr]:
    """Bodies of long `jit` equations, which are printed in front and so are named first."""
    for eqn in jaxpr.eqns:
        for _, inner in subjaxprs_of_params(eqn.params):
            body = open_jaxpr(inner)
            if id(body) not in found:
                _hoisted(body, found)
                if eqn.primitive.name == "jit" and len(body.eqns) >= HOIST_FROM:
                    found[id(body)] = body
    return found


def _name_body(jaxpr: Jaxpr, names: Names, done: set[int]) -> None:
    if id(jaxpr) in done:
        return
    done.add(id(jaxpr))
    for v in (*jaxpr.constvars, *jaxpr.invars):
        names(v)
    for eqn in jaxpr.eqns:
        for v in eqn.outvars:
            names(v)
        for _, inner in subjaxprs_of_params(eqn.params):
            body = open_jaxpr(inner)
            if eqn.primitive.name == "jit" and id(body) not in done:
                # A short jit body shows the names of the values around it.
                for v, atom in zip(body.invars, eqn.invars):
                    if isinstance(atom, Var):
                        names.given.setdefault(v, names(atom))
                for inside, out in zip(body.outvars, eqn.outvars):
                    if isinstance(inside, Var) and inside not in body.invars:
                        names.given.setdefault(inside, names(out))
            _name_body(body, names, done)
    for atom in jaxpr.outvars:
        if isinstance(atom, Var):
            names(atom)


@functools.lru_cache(maxsize=2048)
def _assigned(code: Any) -> dict[int, str]:
    """For each instruction of a code object whose value goes straight into a variable: that variable's name."""
    out: dict[int, str] = {}
    previous = None
    for instruction in dis.get_instructions(code):
        if previous is not None and instruction.opname.startswith(_STORES):
            value = instruction.argval
            # While a call runs, its frame may point anywhere in the instruction and the cache behind it.
            for offset in range(previous, instruction.offset, 2):
                out[offset] = value[0] if isinstance(value, tuple) else str(value)
        previous = instruction.offset
    return out


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def source_tree(file: str) -> ast.Module | None:
    """The parsed source of a file; None where there is none."""
    return _parsed("".join(linecache.getlines(file)))


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Each value of an assignment that goes to one variable, also by its place: `u, v = f(x), g(x)`."""
    if isinstance(target, ast.Name):
        yield value, target.id
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        if len(target.elts) == len(value.elts) and not any(
            isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)
        ):
            for t, v in zip(target.elts, value.elts):
                yield from _paired(t, v)


@functools.lru_cache(maxsize=2048)
def _assigned_by_place(code: Any, file: str) -> dict[int, str]:
    """As `_assigned`, for values that go into variables by their place in a tuple: read from the source, for the instructions differ."""
    tree = source_tree(file)
    places = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for value, name in _paired(target, node.value):
                    places[
                        value.lineno, value.end_lineno, value.col_offset, value.end_col_offset
                    ] = name
    return (
        {2 * i: places[at] for i, at in enumerate(code.co_positions()) if at in places}
        if places
        else {}
    )


@functools.lru_cache(maxsize=2048)
def _unpacked(code: Any, file: str) -> dict[int, tuple[tuple[str, ...], bool]]:
    """For the instructions of calls whose results go into several variables, `(u, v), w = f(x)`, these, and whether it is a `fori_loop`,
    which has results of its own in front; its only result may go into one variable."""
    tree = source_tree(file)
    places = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            at, called = node.value, node.value.func
            counted = (getattr(called, "attr", None) or getattr(called, "id", None)) == "fori_loop"
            names = _leaves(node.targets[0])
            if all(names) and (len(names) > 1 or counted):
                place = at.lineno, at.end_lineno, at.col_offset, at.end_col_offset
                places[place] = names, counted
    return (
        {2 * i: places[at] for i, at in enumerate(code.co_positions()) if at in places}
        if places
        else {}
    )


def _leaves(target: ast.expr) -> tuple[str, ...]:
    """The variables of a target in order; one without a name for what is no variable."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(name for e in target.elts for name in _leaves(e))
    return (target.id if isinstance(target, ast.Name) else "",)


def _returned(jaxpr: Jaxpr) -> dict[Var, str]:
    """The names of results in `return u, v`, of a function whose program is its own and not that of its gradient."""
    info = jaxpr.debug_info
    file, _, line = info.position.rpartition(":")
    tree = (
        source_tree(file)
        if line.isdigit() and info.around is not None and set(info.around) <= _KEEP_RESULTS
        else None
    )
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and min(
            [node.lineno, *(d.lineno for d in node.decorator_list)]
        ) == int(line):
            found = [r.value for r in _returns(node.body)]
            values = found[0].elts if len(found) == 1 and isinstance(found[0], ast.Tuple) else found
            if len(found) == 1 and len(values) == len(jaxpr.outvars):
                pairs = zip(reversed(jaxpr.outvars), reversed(values))
                return {
                    v: value.id
                    for v, value in pairs
                    if isinstance(v, Var) and isinstance(value, ast.Name)
                }
    return {}


_KEEP_RESULTS = frozenset(("jit", "vmap"))
"""Transformations of a function whose results are called what its own are."""


def _returns(body: Any) -> Iterator[ast.Return]:
    """The returns of a function, without those of functions in it."""
    for node in body:
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        ):
            yield from _returns(ast.iter_child_nodes(node))


def user_names(jaxpr: Jaxpr, outer: JaxprEqn | None = None) -> dict[Var, str]:
    """The user's name of variables that were assigned to one: of the last equation of `y = f(x)`, its result is `y`; results are called what
    the outermost function returns.

    `outer` is the equation that a nested program is of: what stands at its own place is a part of it, such as a loop's counter.
    """
    last: dict[tuple, JaxprEqn] = {}
    for eqn in jaxpr.eqns:
        info = eqn.source_info
        if info.code is not None:
            last[info[:2]] = eqn
    if outer is not None:
        last.pop((outer.source_info.code, outer.source_info.lasti), None)
    inputs = {*jaxpr.constvars, *jaxpr.invars}
    out = {
        v: name
        for v, name in (_returned(jaxpr) if outer is None else {}).items()
        if v not in inputs and not name.startswith("_")
    }
    for (code, lasti), eqn in last.items():
        name = _assigned(code).get(lasti) or _assigned_by_place(code, code.co_filename).get(lasti)
        pairs = (
            [(eqn.outvars[0], name)] if name and len(eqn.outvars) == 1 else _names_of_results(eqn)
        )
        out.update((v, n) for v, n in pairs if v not in inputs and not n.startswith("_"))
    return out


def _names_of_results(eqn: JaxprEqn) -> Iterator[tuple[Var, str]]:
    """The results of an equation with the variables that they are unpacked into."""
    code = eqn.source_info.code
    if code is None:
        return
    names, counted = _unpacked(code, code.co_filename).get(eqn.source_info.lasti, ((), False))
    # The counter of a loop stands in front of its results; that of a while loop has the end beside it.
    extra = len(eqn.outvars) - len(names)
    own = {"scan": 1, "while": 2}.get(eqn.primitive.name, 0) if counted else 0
    if names and extra == own:
        yield from zip(eqn.outvars[extra:], names)


@functools.lru_cache(maxsize=65536)
def _place(code: Any, lasti: int, file: str, shown: str | None) -> Source:
    # The file and what it is called now are parts of the key: code objects of one text are equal wherever they were compiled,
    # and a cell that is run again has another number.
    from xlab.core.source_info import position

    p = position(code, lasti)
    end = p.end_column if p.end_line == p.line else 0
    raw = linecache.getline(p.file, p.line).rstrip("\n")
    text = as_typed(raw)
    # Columns are those of what ran.
    columns = (p.column, end) if text == raw else (0, 0)
    return Source(shown or file, p.line, *columns, p.function, text)


_MAGIC = re.compile(r"(.*)\bget_ipython\(\)\.run_line_magic\((.*)\)\s*$")


def as_typed(line: str) -> str:
    r"""A line of Python as its user typed it: IPython makes calls of magics.

    >>> as_typed("y = get_ipython().run_line_magic('xjit', 'f(x, \\'a\\')')"), as_typed("y = f(x)")
    ("y = %xjit f(x, 'a')", 'y = f(x)')
    """
    found = _MAGIC.match(line)
    if found is None:
        return line
    try:
        name, rest = ast.literal_eval(f"({found[2]})")
    except (ValueError, SyntaxError):
        return line
    return f"{found[1]}%{name} {rest}".rstrip()


def is_transposed(eqn: JaxprEqn) -> bool:
    """Whether an equation belongs to the backward pass of its line."""
    return type(eqn.raw_source_info) is TransposedLocation


def source_of(eqn: JaxprEqn) -> Source | None:
    """The user's line that made an equation."""
    info = eqn.source_info
    return None if info.code is None else place(info[:2])


def function_around(eqns: Sequence[JaxprEqn]) -> str:
    """The innermost of the user's functions that nearly all of some equations stand in; empty where there is none."""
    inside: Counter[Any] = Counter()
    depth: dict[Any, int] = {}
    for eqn in eqns:
        codes = [code for frames in eqn.source_info.segments for code, _ in frames]
        inside.update(set(codes))
        depth.update({code: n for n, code in enumerate(codes)})
    least = len(eqns) - max(1, len(eqns) // 20)
    common = [c for c, n in inside.items() if n >= least and c.co_name[:1] != "<"]
    return max(common, key=depth.__getitem__).co_name if common else ""


def place(frame: tuple[Any, int]) -> Source:
    """The user's line that a frame is at: a code object and the offset of an instruction."""
    code, lasti = frame
    return _place(code, lasti, code.co_filename, shown_name(code.co_filename))


def listings(equations: Any) -> tuple[Listing, ...]:
    """The source of every function that made one of the equations: consecutive lines per file."""
    spans: dict[str, set[tuple[int, int]]] = {}
    for eqn in equations:
        code = eqn.source_info.code
        if code is not None:
            spans.setdefault(code.co_filename, set()).add(_extent(code))
    out = []
    for file, parts in spans.items():
        merged: list[list[int]] = []
        for first, last in sorted(parts):
            if merged and first <= merged[-1][1] + 3:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        for first, last in merged:
            lines = tuple(
                as_typed(linecache.getline(file, n).rstrip("\n")) for n in range(first, last + 1)
            )
            if any(lines):
                name = shown_name(file)
                out.append(Listing(name or file, first, lines, name or os.path.basename(file)))
    return tuple(out)


@functools.lru_cache(maxsize=2048)
def _extent(code: Any) -> tuple[int, int]:
    """First and last line of a function; of a module, the lines its own instructions cover."""
    lines = [line for line in (p[0] for p in code.co_positions()) if line]
    ends = [line for line in (p[1] for p in code.co_positions()) if line]
    first = code.co_firstlineno if code.co_name != "<module>" else min(lines, default=1)
    return max(first, 1), max(ends, default=max(first, 1))
