"""Errors that leave a library's function, their tracebacks filtered as `config.traceback_filtering` asks.

What is printed is shortened elsewhere. A program that sets the option to one of its words for the traceback itself gets that, at the functions that
libraries mark with `api_boundary`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from xlab.config import config
from xlab.core import tracebacks

__all__ = ["UnfilteredStackTrace", "api_boundary"]


class _Running(threading.local):
    inside = (
        False  # of one of these functions: an error is filtered once, where it leaves the outermost
    )


_running = _Running()
_REMOVED = "remove_frames", "quiet_remove_frames"


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was filtered, with the whole traceback."""


def api_boundary(fun: Callable, **_: Any) -> Callable:
    """The function, whose errors have frames of xlab and of what libraries call internal taken out, or marked as hidden, where an option asks for it."""

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if _running.inside:
            return fun(*args, **kwargs)
        _running.inside = True
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            filtered(error)
            raise  # as it is by then: raised by name, this frame would be in front again
        finally:
            _running.inside = False

    return call


def filtered(error: BaseException) -> None:
    """Filters the traceback of an error in the place of the error, if that is asked for."""
    asked = config.traceback_filtering
    if asked == "tracebackhide":
        kept = {id(each) for each in tracebacks.users(error.__traceback__)}
        for each in tracebacks.entries(error.__traceback__):
            if id(each) not in kept:
                each.tb_frame.f_locals["__tracebackhide__"] = True
    elif asked in _REMOVED:
        whole = error.__traceback__
        error.__traceback__ = tracebacks.chain(tracebacks.users(whole))
        if asked == "remove_frames":
            cause = UnfilteredStackTrace(
                "The error above without the frames that were left out of its traceback; here they are."
            )
            cause.__cause__, cause.__context__ = error.__cause__, error.__context__
            cause.__suppress_context__ = error.__suppress_context__
            error.__cause__ = cause.with_traceback(whole)
