"""Equal programs share an executable while somebody looks at them: in a notebook one function is compiled under several names.

Two programs are equal where their modules differ in names and lines alone and their equations have the same numbers, so that what is read of one
executable is true of the other. Calls outside of `sharing` compile as always.
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from xlab.backend import caches
from xlab.compile.history.unlisted import is_unlisted

_here = threading.local()
_known: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()

_PLACES = r"(?m)^#f\d+ = loc\(.*\n"
_PLACE = r"\(#f\d+\)"
_RESULT = r'jax\.result_info = "(?:[^"\\]|\\.)*"'


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """In this block, what this thread compiles uses the executable of an equal program that is alive."""
    before = getattr(_here, "sharing", False)
    _here.sharing = True
    try:
        yield
    finally:
        _here.sharing = before


def remember(executable: Any) -> None:
    """Lets an executable be found by equal programs, as long as it lives."""
    with _lock:
        _known.add(executable)


def equal_to(made: Any, settings: tuple) -> Any:
    """An executable that is equal to one that is being made, in a block of `sharing`; else None.

    `settings` are what decides besides the program: its devices, and what the compiler may choose.
    """
    made.compiled_for = settings
    if not getattr(_here, "sharing", False) or is_unlisted():
        return None
    with _lock:
        others = list(_known)
    shape = _shape(made)
    text = None
    for other in others:
        if other.compiled_for == settings and _shape(other) == shape:
            text = text or plain(made.lowered)
            if plain(other.lowered) == text:
                return other
    return None


def plain(lowered: Any) -> str:
    """The text of a module without its name, its lines, and how its results are called; numbers of equations and scopes stay."""
    name = re.search(r"module @([\w.$-]+)", lowered.module.text)
    text = re.sub(_RESULT, "", re.sub(_PLACE, "", re.sub(_PLACES, "", lowered.module.text)))
    if name:
        text = text.replace(f"@{name[1]} ", "@ ", 1)
        text = text.replace(f"jit({name[1].removeprefix('jit_')})/", "/")
    return text


def _shape(executable: Any) -> tuple:
    lowered = executable.lowered
    return (
        executable.devices,
        len(lowered.closed.jaxpr.eqns),
        lowered.kept,
        tuple(map(str, lowered.closed.in_avals)),
        tuple(map(str, lowered.closed.out_avals)),
    )


@caches.register
def _forget() -> None:
    with _lock:
        _known.clear()
