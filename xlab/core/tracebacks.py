"""Filtered tracebacks: the user's own lines, without the package's frames.

Only what is printed is shortened, so debuggers and test runners still see everything; `config.traceback_filtering = "off"`
prints everything too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import TracebackType

from xlab.config import config
from xlab.core.source_info import is_internal

_HINT = "xlab left out frames of its own; XLAB_TRACEBACK_FILTERING=off shows them."


def entries(tb: TracebackType | None) -> Iterator[TracebackType]:
    """A traceback's entries, the outermost first."""
    while tb is not None:
        yield tb
        tb = tb.tb_next


def users(tb: TracebackType | None) -> list[TracebackType]:
    """The entries of the user's code."""
    return [each for each in entries(tb) if not is_internal(each.tb_frame.f_code.co_filename)]


def chain(kept: list[TracebackType]) -> TracebackType | None:
    """A traceback of these entries alone."""
    made = None
    for each in reversed(kept):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made


def causes(error: BaseException) -> list[BaseException]:
    """An error, its causes and contexts, and the errors of a group."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and not any(each is known for known in found):
            found.append(each)
            waiting += [each.__cause__, each.__context__]
            if isinstance(each, BaseExceptionGroup):
                waiting += each.exceptions
    return found


def shorten(
    error: BaseException, kept: Callable[[TracebackType | None], list[TracebackType]] = users
) -> BaseException:
    """Filters the tracebacks of an error and of its causes down to the entries that `kept` returns."""
    for each in causes(error):
        each.__traceback__ = chain(kept(each.__traceback__))
    return error


def concerns(error: BaseException) -> bool:
    """Whether the traceback of an error that is about to be printed leads from the user's code into the package's."""
    return (
        config.traceback_filtering != "off"
        and bool(users(error.__traceback__))
        and any(
            len(users(each.__traceback__)) < len(list(entries(each.__traceback__)))
            for each in causes(error)
        )
    )


def _excepthook(kind, error, tb):
    if not concerns(error):
        sys.__excepthook__(kind, error, tb)
        return
    shorten(error)
    sys.__excepthook__(kind, error, error.__traceback__)
    if config.traceback_filtering == "remove_frames":
        print(_HINT, file=sys.stderr)


def install() -> None:
    """Prints uncaught errors with filtered tracebacks, unless another exception hook is installed."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _excepthook
