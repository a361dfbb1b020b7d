"""Tracebacks of cells as the user should see them: from their own line, without internal frames."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import traceback
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

import xlab
from xlab.config import config
from xlab.core.source_info import (
    Position,
    SourceInfo,
    at_user,
    is_internal,
    position,
    shown_name,
)
from xlab.core.tracebacks import causes, chain, concerns, entries
from xlab.core.tracebacks import shorten as _shorten

if TYPE_CHECKING:
    from xlab.observe.records import Failure

_PACKAGE = os.path.dirname(os.path.abspath(xlab.__file__)) + os.sep
_OWN = os.path.join(os.path.dirname(os.path.abspath(xlab.__file__)), "notebook") + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def is_users(code: CodeType) -> bool:
    """Whether code is the user's or of a library they call, not of the package or the shell."""
    name = code.co_filename
    return not (
        is_internal(name)
        or (name.startswith(_OWN) and not name.endswith("tour_cells.py"))
        or f"{os.sep}IPython{os.sep}" in name
        or f"{os.sep}ipykernel{os.sep}" in name
        or name == "<string>"
    )


def _frames(tb: TracebackType | None) -> list[TracebackType]:
    """Entries of the user's frames; what the standard library did before the first of them is left out."""
    found: list[TracebackType] = []
    for each in entries(tb):
        code = each.tb_frame.f_code
        library = code.co_filename.startswith(_LIBRARY) and "site-packages" not in code.co_filename
        if is_users(code) and (found or not library):
            found.append(each)
    return found


def shorten(error: BaseException) -> BaseException:
    """Leaves only the user's frames in the traceback of an error and of those it came from."""
    return _shorten(error, _frames)


def register(shell: Any) -> None:
    """Filters the tracebacks of every cell."""
    unregister(shell)
    shown = shell.InteractiveTB.structured_traceback

    def structured(etype=None, value=None, tb=None, tb_offset=None, *args, **kwargs):
        # By `present`, with a traceback of its own.
        presented = hasattr(value, "_render_traceback_")
        if value is not None and not presented:
            if concerns(value) and _frames(tb):
                tb, tb_offset = shorten(value).__traceback__, 0
            elif tb is not None and not _frames(tb) and _by_showing(tb):
                tb, tb_offset = None, 0
        return shown(etype, value, tb, tb_offset, *args, **kwargs)

    structured.instead_of = shown  # type: ignore[attr-defined]
    shell.InteractiveTB.structured_traceback = structured
    whole = shell.showtraceback

    def show(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> Any:
        error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        # Groups are shown by Python, with the frames that they have.
        if error is not None and any(isinstance(e, BaseExceptionGroup) for e in causes(error)):
            presented = getattr(getattr(error, "_render_traceback_", None), "at", None)
            if presented is not None:
                error.__traceback__ = presented()
            elif concerns(error) and _frames(error.__traceback__):
                shorten(error)
        return whole(exc_tuple, *args, **kwargs)

    show.instead_of = whole  # type: ignore[attr-defined]
    shell.showtraceback = show


def _by_showing(tb: TracebackType | None) -> bool:
    """Whether the runtime raised an error while the shell displayed a result, with no user line in it."""
    last = list(entries(tb))[-1].tb_frame.f_code.co_filename
    return (
        config.traceback_filtering != "off"
        and last.startswith(_PACKAGE)
        and not last.startswith(_OWN)
    )


def unregister(shell: Any) -> None:
    """Shows internal frames again."""
    before = getattr(shell.InteractiveTB.structured_traceback, "instead_of", None)
    if before is not None:
        shell.InteractiveTB.structured_traceback = before
    before = getattr(shell.showtraceback, "instead_of", None)
    if before is not None:
        shell.showtraceback = before


def present(error: BaseException, shell: Any, file: str | None = None) -> BaseException:
    """Makes the shell show a shortened traceback, without the frames of the magic that ran.

    An error with no frame of the user's own points at the lines that led to its place in the program, where it has one; into `file`, a cell
    with its magic, where given: at the first line. Otherwise it points at the line that called the magic.
    """
    shorten(error)
    shown = error.__traceback__
    if shown is None:
        lines = [(p.file, p.line) for p in _led_to(error)]
        if file is not None and file not in [name for name, _ in lines]:
            lines = [(file, 1)]
        shown = error.__traceback__ = chain([tb for at in lines for tb in _at_line(*at)])

    def at() -> TracebackType | None:
        return shown or chain(_frames(error.__traceback__))

    def render() -> list[str]:
        return shell.InteractiveTB.structured_traceback(type(error), error, at(), tb_offset=0)

    render.at = at  # type: ignore[attr-defined]
    with contextlib.suppress(AttributeError):  # a class with slots shows as Python shows it
        error._render_traceback_ = render  # type: ignore[attr-defined]
    if isinstance(error, SyntaxError):
        _point_only(error, shell)
    return error


def _point_only(error: SyntaxError, shell: Any) -> None:
    """A syntax error shows its line and nothing of who read it; the shell would list the frames of the magic."""

    def once(
        filename: str | None = None, running_compiled_code: bool = False, **options: Any
    ) -> Any:
        del shell.showsyntaxerror
        own = sys.exc_info()[1] is error or getattr(sys, "last_value", None) is error
        return shell.showsyntaxerror(filename, running_compiled_code and not own, **options)

    shell.showsyntaxerror = once


def _led_to(error: BaseException) -> list[Position]:
    """The user's lines that led to the place in a program where an error happened, the outermost first; none where nobody knows it."""
    place = getattr(error, "place", None)
    if isinstance(place, Position):
        return [place]
    info = getattr(error, "source_info", None)
    if not isinstance(info, SourceInfo):
        return []
    traces = at_user(info).segments
    # What calls the outermost is the magic's line.
    return [
        position(*frame) for each in traces[1:] or traces for frame in each if is_users(frame[0])
    ]


def _at_line(file: str, line: int) -> list[TracebackType]:
    """A traceback entry at a line of a file, made by failing there."""
    try:
        exec(compile("\n" * (line - 1) + "raise LookupError", file, "exec"), {})
    except LookupError as found:
        return list(entries(found.__traceback__))[1:]
    return []


def interrupted(what: str) -> KeyboardInterrupt:
    """A keyboard interrupt that is shown as one sentence."""
    error = KeyboardInterrupt(what)
    in_words(error)
    return error


def in_words(error: BaseException) -> None:
    """The shell shows the error's name and message alone: its frames are those of the magic, and the message says where it happened."""
    words = f"{type(error).__name__}: {error}"
    error._render_traceback_ = lambda: [words]  # type: ignore[attr-defined]


def failure(error: BaseException) -> Failure:
    """The record of an error, with the user's line."""
    from xlab.observe.records import (  # records are loaded when there is one to make: loading the extension is quick
        Failure,
        Source,
    )

    last = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_users(frame.f_code):
            last = frame.f_code.co_filename, line, frame.f_code.co_name
    if led_to := _led_to(error):
        last = led_to[-1].file, led_to[-1].line, led_to[-1].function
    source = None
    if last is not None:
        file, line, function = last
        source = Source(
            shown_name(file) or file,
            line,
            function="" if function == "<module>" else function,
            text=linecache.getline(file, line).rstrip("\n"),
        )
    return Failure(
        type(error).__name__,
        str(error),
        source,
        "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        getattr(error, "sides", ()),
    )
