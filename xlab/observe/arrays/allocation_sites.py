"""Where live arrays were made: by the cell that left them, and by line while lines are recorded.

There are two ways. `note_cell` looks once after a cell for new arrays, and adds no cost to calls of compiled programs. With
`track_arrays()` the native path calls back after every call, and Python code that makes arrays reports them; then each array
has the line that made it. Arrays are weakly referenced either way.
"""

from __future__ import annotations

import ast
import weakref
from types import CodeType
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.backend import caches as _caches
from xlab.backend import client as _client
from xlab.backend import dispatch as _dispatch
from xlab.core.array import is_native_array
from xlab.core.source_info import outside_libraries, position, shown_name, user_frame
from xlab.observe.records import Source

MOST = 100_000
"""Arrays known at most; of more, the dead are forgotten first."""


class _Known(NamedTuple):
    array: weakref.ref
    code: CodeType | None  # and the instruction in it, where lines were recorded
    lasti: int
    cell: str = ""
    line: int = 0


_known: dict[int, _Known] = {}
_sweep_at = 10_000
_tracking = False


def track_arrays(on: bool = True) -> bool:
    """Starts or stops recording the line of every new array; recorded lines are kept. Returns whether it is on.

    Example:
        >>> import xlab.numpy as jnp
        >>> track_arrays()
        True
        >>> x = jnp.ones(3) + 1
        >>> origin(x).line > 0
        True
        >>> track_arrays(False)
        False
    """
    global _tracking
    wanted = bool(on) and _dispatch.set_post_hook(_after_call if on else None)
    if not on:
        _dispatch.set_post_hook(None)
    _arrays.watch_made(_note_all if wanted else None)
    _tracking = wanted
    return wanted


def tracking() -> bool:
    """Whether lines are recorded."""
    return _tracking


def _after_call(_fun: Any, _args: Any, _kwargs: Any, result: Any) -> None:
    _note_all(
        (result,)
        if type(result) is _arrays.ArrayImpl
        else result
        if type(result) in (tuple, list)
        else _tree.leaves(result)
    )


def _note_all(made: Any) -> None:
    frame = outside_libraries(user_frame(2))
    if frame is None:
        return
    code, lasti = frame.f_code, frame.f_lasti
    for x in made:
        if type(x) is _arrays.ArrayImpl:
            _known[id(x)] = _Known(weakref.ref(x), code, lasti)
        elif type(x) in (tuple, list, dict):
            for leaf in _tree.leaves(x):
                if type(leaf) is _arrays.ArrayImpl:
                    _known[id(leaf)] = _Known(weakref.ref(leaf), code, lasti)
    if len(_known) > _sweep_at:
        _sweep()


def _sweep() -> None:
    global _sweep_at
    for key in [k for k, found in _known.items() if found.array() is None]:
        del _known[key]
    _sweep_at = max(10_000, 2 * len(_known))
    _caches.drop_oldest(_known, MOST)


def note_cell(cell: str, source: str = "", names: dict[str, Any] | None = None) -> int:
    """Records that the new arrays were made in a cell; those with a name, at the line that assigned it.

    Returns how many were new.
    """
    if not _client.started():
        return 0
    fresh = {
        id(x): x
        for x in _client.live_arrays()
        if (found := _known.get(id(x))) is None or found.array() is not x
    }
    if not fresh:
        return 0
    lines = _assigned(source)
    where: dict[int, int] = {}
    for name, line in lines.items():
        for leaf in _leaves((names or {}).get(name)):
            where.setdefault(id(leaf), line)
    for key, x in fresh.items():
        _known[key] = _Known(weakref.ref(x), None, 0, cell, where.get(key, 0))
    if len(_known) > _sweep_at:
        _sweep()
    return len(fresh)


def _assigned(source: str) -> dict[str, int]:
    """The line at which the top level of a cell last assigns each name.

    >>> _assigned("x = 1\\nx, y = 2, 3\\nfor z in x: pass")
    {'x': 2, 'y': 2, 'z': 3}
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, int] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = node.lineno
    return found


def _leaves(value: Any) -> list[Any]:
    try:
        return _tree.leaves(value)
    except Exception:  # what is no tree, or a class fails to flatten, has no leaves to name
        return []


def origin(x: Any) -> Source | None:
    """Where an array was made, if known; line 0 means that only the cell is known."""
    found = _known.get(id(x))
    if found is None or found.array() is not x or not is_native_array(x):
        return None
    if found.code is None:
        return Source(found.cell, found.line)
    place = position(found.code, found.lasti)
    function = "" if place.function == "<module>" else place.function
    return Source(
        shown_name(place.file) or place.file, place.line, function=function, text=place.text()
    )


def forget() -> None:
    """Forgets where arrays were made."""
    _known.clear()
