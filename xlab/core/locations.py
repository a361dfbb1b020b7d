"""Where an equation comes from: the user's line that is being executed, and the lines that led there.

Asked once for every equation that is recorded, so the frames around one are looked for once for all that it makes.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

from xlab.core import source_info
from xlab.core.trace import state

_getframe = sys._getframe
_internal_files = source_info._internal_files


def current_source_info() -> tuple:
    """Location to give to an equation made now: `(code, instruction, scope, callers)`."""
    given = state.source_info
    if given is not None:
        return given
    frame: FrameType | None = _getframe(2)
    while frame is not None:
        code = frame.f_code
        internal = _internal_files.get(code.co_filename)
        if internal is None:
            internal = source_info.is_internal(code.co_filename)
        if not internal:
            around = state.callers
            last, known, found = state.called
            # While a frame makes one equation after the other, those around it stand still.
            if last is not frame or known is not around:
                found = (_callers(frame.f_back), around)
                if around is not None and not code.co_flags & _RESUMED:
                    state.called = (frame, around, found)
            return (code, frame.f_lasti, state.scope, found)
        if code is _began[0] and state.callers is not None:
            # Nothing of the user's stands between the equation and the beginning of its trace.
            inner, outer = state.callers
            if inner:
                return (*inner[:2], state.scope, (inner[2:], outer))
        frame = frame.f_back
    return (None, 0, state.scope, ((), state.callers))


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


def forget_frames() -> None:
    """Lets go of the frame of the last equation, whose variables are the user's."""
    state.called = (None, None, None)


def callers_of_trace() -> tuple:
    """The callers of a trace that begins in the function that asks: those within the trace around it, and those of that trace."""
    return (_callers(_getframe(2)), state.callers)
