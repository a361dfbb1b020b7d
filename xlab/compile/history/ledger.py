"""What was compiled in this process and why: a bounded list, written only on a cache miss."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from typing import Any, NamedTuple

from xlab.compile import disk_cache
from xlab.compile.history.parts import PlacementKey, TracingKey
from xlab.compile.history.provenance import provenance
from xlab.compile.history.unlisted import is_unlisted
from xlab.core import source_info

LIMIT = 1000

_counter = itertools.count()


class Entry(NamedTuple):
    """One compile. `position` is `file:line` of the function, only the file for a whole cell; `differences` are `(cause, what, was, now)`.

    `eager` are programs of the package's own functions, under the public name and the line that called it. `key` is what it was traced and
    compiled for, `disk` what the persistent cache said. `made_by` names the transformations that were given the function, outermost first.
    `shown` is what the file was called then: a cell that runs again gets another number. `shared` is the name of the equal program whose
    executable was used: then nothing was compiled.
    """

    name: str
    position: str
    start_ns: int
    duration_ns: int
    reason: str
    differences: tuple[tuple[str, str, str, str], ...] = ()
    eager: bool = False
    key: tuple[TracingKey | None, PlacementKey | None] = (None, None)
    disk: disk_cache.CacheLookup = disk_cache.NOTHING
    made_by: tuple[str, ...] = ()
    shown: str = ""
    shared: str = ""
    number: int = -1

    @property
    def function(self) -> tuple[Any, ...]:
        """Identifies the function: the same for all its compiles."""
        return self.name, self.position, self.made_by


entries: deque[Entry] = deque(maxlen=LIMIT)
"""The latest compiles, oldest first."""


def add(
    name: str,
    closed: Any,
    start_ns: int,
    end_ns: int,
    reason: str,
    differences: tuple,
    placed: PlacementKey | None = None,
    disk: disk_cache.CacheLookup = disk_cache.NOTHING,
    shared: str = "",
) -> None:
    """Records a compile of a program."""
    if is_unlisted():
        return
    eqns = closed.jaxpr.eqns
    position = closed.jaxpr.debug_info.position
    eager = len(eqns) == 1 and eqns[0].primitive.name == name
    notes = provenance(closed)
    if (
        position
        and not eager
        and (notes.made_by or source_info.is_own(position.rpartition(":")[0] or position))
    ):
        called = _library_call(name)
        if called is not None:
            eager, public, position = True, *called
            reason, name = reason.replace(f"`{name}`", f"`{public}`"), public
    key = None if eager else notes.traced
    entries.append(
        Entry(
            name,
            position,
            start_ns,
            end_ns - start_ns,
            reason,
            differences,
            eager,
            (key, placed),
            disk,
            notes.made_by,
            source_info.shown_name(
                position.rpartition(":")[0] if position.rpartition(":")[2].isdigit() else position
            )
            or "",
            shared,
            next(_counter),
        )
    )


def shown(name: str, position: str) -> str:
    """A function's name; of a cell, which is placed without a line, what the cell is called."""
    whole = bool(position) and not position.rpartition(":")[2].isdigit()
    return (source_info.shown_name(position) if whole else None) or name


# Functions between a caller and a compile: the native dispatcher's, and those of a jit.
_CALLS = (
    "miss",
    "cache_miss",
    "call_donating",
)


def _library_call(name: str) -> tuple[str, str] | None:
    """The package's function that compiles, and the user's line that called it; None for a user's `jit`."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != "cache_miss":
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name in _CALLS:
        frame = frame.f_back
    outer = frame
    if (
        outer is None
        or not source_info.is_own(outer.f_code.co_filename)
        or _shows(outer.f_globals.get("__name__", ""))
    ):
        return None
    while outer.f_back is not None and source_info.is_own(outer.f_back.f_code.co_filename):
        outer = outer.f_back
    user = outer.f_back
    code = outer.f_code
    # A decorator's wrapper has no name of its own.
    public = name if "<locals>" in code.co_qualname else code.co_name.strip("_<>")
    return public, f"{user.f_code.co_filename}:{user.f_lineno}" if user is not None else ""


def _shows(module: str) -> bool:
    return module.startswith(("xlab.notebook", "xlab.observe"))


def clear() -> None:
    """Empties the list."""
    entries.clear()
