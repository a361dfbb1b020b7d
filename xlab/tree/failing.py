"""Flattening that fails: what native code leaves behind is mended, and a tree that has no end is named.

An error that passes through a native flattening leaves each container around the place counted as a call that still runs. After enough of them,
or one in a deep tree, Python has no recursion depth left, and nothing runs in the process any more.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from xlab.backend.pytree import registry

_MISSING = object()
Asked = Callable[..., bool] | None


def guarded(flatten: Callable[..., Any], *, paths: bool = False) -> Callable[..., Any]:
    """A native flattening as a function that leaves the process as it was where it fails.

    Args:
        paths: whether it gives paths, and `is_leaf` takes them.

    Example:
        >>> tree = [1]
        >>> tree.append(tree)
        >>> guarded(registry.flatten)(tree)
        Traceback (most recent call last):
        RecursionError: a list holds itself: x[1] is x, where x is the list, so flattening it has no end. Take the reference out, or hold it in an object that is no container, which is one leaf
    """

    def flattened(tree: Any, is_leaf: Asked = None) -> Any:
        if is_leaf is not None:
            return _asking(flatten, tree, is_leaf, paths)
        try:
            return flatten(tree, None)
        except Exception as error:
            _mend(tree, None, False, error)
            raise

    return flattened


def _asking(flatten: Callable[..., Any], tree: Any, is_leaf: Callable[..., bool], paths: bool) -> Any:  # fmt: skip
    """What a flattening gives that asks `is_leaf`. What that raises is raised after it: in a tree without end there is no room left to mend."""
    failed: BaseException | None = None

    def asked(at: Any, x: Any = _MISSING) -> bool:
        nonlocal failed
        if failed is not None:
            return True
        try:
            found = is_leaf(at) if x is _MISSING else is_leaf(at, x)
            if found is not True and found is not False:
                raise ValueError(
                    f"is_leaf predicate returned a non-boolean value {found!r}; expected True or False"
                )
        except BaseException as error:
            failed = error
            return True
        return found

    try:
        made = flatten(tree, asked)
    except Exception as error:
        _mend(tree, is_leaf, paths, error)
        raise
    if isinstance(failed, RecursionError):
        _mend(tree, is_leaf, paths, failed)
    if failed is not None:
        raise failed
    return made


def _mend(tree: Any, is_leaf: Asked, paths: bool, error: BaseException) -> None:
    """Gives back the recursion depth that a failed flattening has kept, and raises the better error of a tree without end."""
    walk = _Walk(tree, is_leaf, paths)
    if not isinstance(error, SystemError | RecursionError):
        for _ in range(walk.around):
            ctypes.pythonapi.Py_LeaveRecursiveCall()
        return
    if walk.again is not None:
        kind, way = walk.again
        raise RecursionError(
            f"a {kind} holds itself: x{''.join(map(str, way))} is x, where x is the {kind}, so flattening it has no end. Take the reference out, "
            "or hold it in an object that is no container, which is one leaf"
        ) from None
    if walk.deepest > sys.getrecursionlimit() // 2:
        raise RecursionError(
            f"a {type(tree).__name__} is {walk.deepest:,} containers deep, and Python's recursion limit is {sys.getrecursionlimit():,}: make "
            "it shallower, such as one list, or raise the limit with sys.setrecursionlimit"
        ) from None


class _Walk:
    """A tree walked as native code does, without recursion, up to where its flattening fails.

    `around` is how many containers are around that place, `deepest` how many there were at most; `again` is the class of a container that holds
    itself, and the keys that lead to it there.
    """

    def __init__(self, tree: Any, is_leaf: Asked, paths: bool):
        self.around = self.deepest = 0
        self.again: tuple[str, tuple[Any, ...]] | None = None
        open_: dict[int, tuple[Any, ...]] = {}
        waiting: list[tuple[Any, tuple[Any, ...] | None]] = [(tree, ())]
        while waiting:
            value, path = waiting.pop()
            if path is None:  # all inside of it was walked
                del open_[id(value)]
                continue
            if id(value) in open_:
                self.again = type(value).__name__, path[len(open_[id(value)]) :]
                return
            self.around = len(open_)
            try:
                if is_leaf is not None and (is_leaf(path, value) if paths else is_leaf(value)):
                    continue
                found = registry.flatten_one_level_with_keys(value)
            except Exception:
                return
            if found is None:
                continue
            open_[id(value)] = path
            self.deepest = max(self.deepest, len(open_))
            waiting.append((value, None))
            waiting += [(child, (*path, key)) for key, child in found[0]][::-1]
        self.around = 0
