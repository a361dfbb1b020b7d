"""Where an equation comes from: the user's line that is being executed, and the lines that led there.

Asked once for every equation that is recorded, so the frames around one are looked for once for all that it makes.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType, MethodType
from typing import Any

from xlab.core import source_info
from xlab.core.trace import state

_getframe = sys._getframe
_internal_files = source_info._internal_files


class _Caller:
    """The user's frame that made the last equation: what is around it, and the locations of its instructions so far."""

    __slots__ = ("around", "found", "frame", "places", "scope")

    def __init__(self, frame: FrameType, around: Any, found: tuple, scope: str):
        self.frame, self.around, self.found, self.scope = frame, around, found, scope
        self.places: dict[int, tuple] = {}


def current_source_info(here: dict[str, Any] | None = None) -> tuple:
    """Location to give to an equation made now: `(code, instruction, scope, callers)`; one object for one place in one call.

    `here` is the thread's `state.__dict__`, given by what applies a primitive: its caller, `bind`, is not looked at.
    """
    frame: FrameType | None = _getframe(2 if here is None else 3)
    if here is None:
        here = state.__dict__
    given = here["source_info"]
    if given is not None:
        return given
    last: _Caller | None = here["called"]
    while frame is not None:
        # While a frame makes one equation after the other, those around it stand still.
        if last is not None and frame is last.frame and last.around is here["callers"]:
            scope = here["scope"]
            if last.scope is not scope:
                last = here["called"] = _Caller(frame, last.around, last.found, scope)
            at = frame.f_lasti
            where = last.places.get(at)
            if where is None:
                where = last.places[at] = (frame.f_code, at, scope, last.found)
            return where
        code = frame.f_code
        internal = _internal_files.get(code.co_filename)
        if internal is None:
            internal = source_info.is_internal(code.co_filename)
        if not internal:
            around, scope = here["callers"], here["scope"]
            where = (code, frame.f_lasti, scope, (_callers(frame.f_back), around))
            if around is not None and not code.co_flags & _RESUMED:
                here["called"] = last = _Caller(frame, around, where[3], scope)
                last.places[where[1]] = where
            return where
        if code is _began[0] and here["callers"] is not None:
            # Nothing of the user's stands between the equation and the beginning of its trace.
            inner, outer = here["callers"]
            looked_at = here["looked_at"]
            if outer is None and looked_at is not None and _in_vmap(_getframe(1), code):
                return (looked_at, 0, here["scope"], ((), here["callers"]))
            if inner:
                return (*inner[:2], here["scope"], (inner[2:], outer))
        frame = frame.f_back
    return (None, 0, here["scope"], ((), here["callers"]))


_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_began: list[Any] = [None]


def trace_began(code: Any) -> None:
    """Says which function's frames begin a trace: callers are looked for up to it, for those beyond are known."""
    _began[0] = code


def _callers(frame: FrameType | None) -> tuple:
    """The user's frames from here to where the trace begins, from the inside out: code and instruction of each, one after the other."""
    found: list[Any] = []
    began = _began[0]
    while frame is not None:
        code = frame.f_code
        internal = _internal_files.get(code.co_filename)
        if internal is None:
            internal = source_info.is_internal(code.co_filename)
        if not internal:
            found += (code, frame.f_lasti)
        elif code is began:
            break
        frame = frame.f_back
    return tuple(found)


@contextmanager
def looking_at(fun: Any) -> Iterator[None]:
    """While an observer traces a function, what no line of it makes (`vmap` moves an axis) is at its first line, not where it is looked at."""
    previous = state.looked_at
    seen = 0
    while seen < 100 and (inner := _made_of(fun)) is not None:
        fun, seen = inner, seen + 1
    code = fun.__code__ if isinstance(fun, FunctionType) else None
    internal = code is None or source_info.is_internal(code.co_filename)
    state.looked_at = None if internal else code
    try:
        yield
    finally:
        state.looked_at = previous


def _in_vmap(frame: FrameType | None, began: Any) -> bool:
    """Whether `vmap` is among the frames up to where the trace begins."""
    while frame is not None and frame.f_code is not began:
        if frame.f_code.co_name == "vmap_fun" and source_info.is_internal(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _made_of(fun: Any) -> Any:
    """The function that another is made of; None of one that is written."""
    if isinstance(fun, functools.partial):
        return fun.func
    if isinstance(fun, MethodType):
        return fun.__func__
    try:
        return getattr(fun, "__wrapped__", None)
    except Exception:  # an object of the user's, which may answer as it likes
        return None


def forget_frames() -> None:
    """Lets go of the frame of the last equation, whose variables are the user's."""
    state.called = None


def callers_of_trace() -> tuple:
    """The callers of a trace that begins in the function that asks: those within the trace around it, and those of that trace."""
    return (_callers(_getframe(2)), state.callers)
