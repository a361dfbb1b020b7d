"""Traced values that a cell leaves in what is no container: refused, put back, or said when they are used.

A program returns arrays in containers. What else a cell leaves stays as it was made while the cell was traced, and a traced value in it
means nothing afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from xlab import tree
from xlab.backend.dispatch import PjitFunction
from xlab.compile.tracing import attribute
from xlab.core.trace import is_tracer
from xlab.observe.beside.recognize import is_traced

_CALLED = (types.FunctionType, functools.partial, PjitFunction)


def flatten(value: Any, how: Callable[..., tuple] = tree.flatten) -> tuple:
    """A flattened value of a cell, in which a dict whose keys have no order is one leaf: no program can return it.

    >>> flatten([1, {2: 3, "a": 4}])[0]
    [1, {2: 3, 'a': 4}]
    """
    try:
        return how(value)
    except (TypeError, ValueError):
        return how(value, is_leaf=_has_no_order)


def _has_no_order(x: Any) -> bool:
    if isinstance(x, dict):
        try:
            sorted(x)
        except TypeError:
            return True
    return False


def without_hidden(changed: dict[str, tuple[str, Any]]) -> None:
    """Looks at what a cell assigned. A function that holds a traced value becomes one that says so when it is called: many are used in the cell only.

    Raises:
        TypeError: another object that is no container holds one.
    """
    for name, (how, value) in changed.items():
        leaves, structure = flatten(value, tree.flatten_with_path)
        found = [(leaf, tree.keystr(at) + path) for at, leaf in leaves for path in places(leaf)]
        unusable = {id(leaf): path for leaf, path in found if isinstance(leaf, _CALLED)}
        for leaf, path in found:
            if id(leaf) not in unusable:
                raise TypeError(_refusal(name + path, leaf))
        if unusable:
            usable = [
                _unusable(leaf, name + unusable[id(leaf)]) if id(leaf) in unusable else leaf
                for _, leaf in leaves
            ]
            changed[name] = how, tree.unflatten(structure, usable)


def places(leaf: Any, deep: int = 3) -> Iterator[str]:
    """Where in an object that is no container traced values are, as it is written in Python.

    >>> list(places(deque([1, 2])))
    []
    """
    for path, held in _held(leaf):
        yield from (path + further for further in _traced_in(held))
        if isinstance(leaf, _CALLED) and isinstance(held, _CALLED) and deep:
            yield from (path + further for further in places(held, deep - 1))


def _traced_in(held: Any) -> Iterator[str]:
    """Where traced values are in something that an object holds: itself, or in plain containers."""
    if is_tracer(held) or is_traced(held):
        yield ""
    elif type(held) in (tuple, list, dict):
        try:
            inside = tree.leaves_with_path(held)
        except Exception:  # what has no leaves holds none that are arrays
            return
        yield from (tree.keystr(at) for at, x in inside if is_tracer(x) or is_traced(x))


def _held(leaf: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, and how it is reached from it."""
    if isinstance(leaf, _CALLED) and (inner := attribute(leaf, "__wrapped__")) is not None:
        yield "", inner
    if isinstance(leaf, deque):
        yield from ((f"[{i}]", x) for i, x in enumerate(leaf))
    elif isinstance(leaf, dict):
        yield from ((f"[{key!r}]", x) for key, x in leaf.items())
    elif isinstance(leaf, functools.partial):
        yield from [(".func", leaf.func), (".args", leaf.args), (".keywords", leaf.keywords)]
    elif isinstance(leaf, types.FunctionType):
        code, defaults = leaf.__code__, leaf.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        yield from ((f"'s {name}", x) for name, x in zip(names, defaults))
        yield from ((f"'s {name}", x) for name, x in (leaf.__kwdefaults__ or {}).items())
        for name, cell in zip(code.co_freevars, leaf.__closure__ or ()):
            try:
                yield f"'s {name}", cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    if not isinstance(leaf, (types.ModuleType, PjitFunction)):
        yield from ((f".{name}", x) for name, x in _attributes(leaf).items())


def _attributes(x: Any) -> Mapping[str, Any]:
    found = vars(x) if isinstance(x, type) else attribute(x, "__dict__")
    return dict(found) if isinstance(found, dict | types.MappingProxyType) else {}


def _refusal(place: str, leaf: Any) -> str:
    what, instead = (
        f"{type(leaf).__name__} is no container that xlab knows",
        (
            "Register the class (xlab.tree_util.register_pytree_node_class, or register_dataclass), or assign"
        ),
    )
    if isinstance(leaf, deque):
        what, instead = "a deque is no container of arrays", "Make it a list, or assign"
    elif isinstance(leaf, dict):
        what = "the keys of this dict have no order, as a container of arrays needs them"
        instead = "Use keys of one type, or assign"
    elif isinstance(leaf, type):
        what, instead = f"the class {leaf.__name__} is no container of arrays", "Assign"
    return (
        f"the cell leaves a traced value in {place}: {what}, so its arrays cannot be brought out of the program. {instead} the array to a "
        "name of its own."
    )


def _unusable(leaf: Any, place: str) -> Any:
    def unusable(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"the cell of this function left a traced value in {place}: it stood for an array while the cell was traced, and can be used in "
            "that cell only. Give the function the array as an argument, or let it read the array by its name."
        )

    of = leaf.func if isinstance(leaf, functools.partial) else leaf
    unusable.__name__ = unusable.__qualname__ = getattr(of, "__name__", "unusable")
    return unusable


class Kept:
    """Objects as they were before a cell, for the traced values that it may store in them."""

    def __init__(self, objects: Iterable[tuple[str, Any]]):
        self.before = [
            (name, x, dict(_held(x)))
            for name, x in objects
            if not isinstance(x, (types.ModuleType, *_CALLED))
        ]

    def put_back(self) -> TypeError | None:
        """Takes traced values out of them again; the error that names the first."""
        error = None
        for name, x, before in self.before:
            for path, held in list(_held(x)):
                found = None if held is before.get(path) else next(_traced_in(held), None)
                if found is None:
                    continue
                error = error or TypeError(_refusal(name + path + found, x))
                if isinstance(x, deque):
                    x.clear()
                    x.extend(before.values())
                    break
                with contextlib.suppress(Exception):  # of a class that decides what is set
                    if path in before:
                        setattr(x, path[1:], before[path])
                    else:
                        delattr(x, path[1:])
        return error
