"""Exceptions of host callbacks, kept so that the error raised later has them as its cause.

Native code turns an exception of a callback into text and raises it again where a result is read, perhaps in another
thread. The exception itself is kept here until then, and becomes the cause of what the user sees.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NoReturn

from xlab.backend.native import XlaRuntimeError as RuntimeFailure

__all__ = ["RuntimeFailure", "fail", "note", "reraise"]

# Few: each keeps the callback's frames, and so its arrays, alive.
_recent: deque[tuple[str, BaseException, Any]] = deque(maxlen=4)
_MARK = "CpuCallback error"


def note(message: str, error: BaseException, place: Any = None) -> None:
    """Remembers the exception of a callback under the message it leaves with, and the place in the program of its call."""
    _recent.append((message, error, place))


def reraise(error: RuntimeFailure) -> NoReturn:
    """Raises the error again, caused by the callback's exception where that is known; an interrupt stays an interrupt."""
    text = str(error)
    if _MARK in text:
        for entry in tuple(reversed(_recent)):
            message, cause, place = entry
            if message in text:
                with contextlib.suppress(ValueError):
                    _recent.remove(entry)
                fail(message, cause, place)
    raise error from None


def fail(message: str, cause: BaseException, place: Any = None) -> NoReturn:
    """Raises the error of a callback that raised `cause`, called at a place of the program."""
    if not isinstance(cause, Exception):
        raise cause from None
    made = RuntimeFailure(f"INTERNAL: {message}")
    if place is not None:
        made.source_info = place
    raise made from cause
