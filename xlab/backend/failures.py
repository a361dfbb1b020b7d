"""Exceptions of host callbacks, kept so that the error raised later has them as its cause.

Native code turns an exception of a callback into text and raises it again where a result is read, perhaps in another
thread. The exception itself is kept here until then, and becomes the cause of what the user sees.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import NoReturn

from xlab.backend.native import XlaRuntimeError as RuntimeFailure

__all__ = ["RuntimeFailure", "fail", "note", "reraise"]

# Few: each keeps the callback's frames, and so its arrays, alive.
_recent: deque[tuple[str, BaseException]] = deque(maxlen=4)
_MARK = "CpuCallback error"


def note(message: str, error: BaseException) -> None:
    """Remembers the exception of a callback under the message it leaves with."""
    _recent.append((message, error))


def reraise(error: RuntimeFailure) -> NoReturn:
    """Raises the error again, caused by the callback's exception where that is known; an interrupt stays an interrupt."""
    text = str(error)
    if _MARK in text:
        for entry in tuple(reversed(_recent)):
            message, cause = entry
            if message in text:
                with contextlib.suppress(ValueError):
                    _recent.remove(entry)
                fail(message, cause)
    raise error from None


def fail(message: str, cause: BaseException) -> NoReturn:
    """Raises the error of a callback that raised `cause`."""
    if not isinstance(cause, Exception):
        raise cause from None
    raise RuntimeFailure(f"INTERNAL: {message}") from cause
