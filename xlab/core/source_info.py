"""Source locations: the user's line that an equation comes from.

A location is the innermost frame outside the package: a code object and the instruction it was at, kept
as they are and turned into line and columns only when needed.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_internal_files: dict[str, bool] = {}
_library_files: dict[str, bool] = {}
_excluded: list[str] = []
shown_names: dict[str, str] = {}
"""What to call a file in messages: notebook cells are `In[3]`, not a path."""
namers: list[Callable[[str], str | None]] = []
"""Functions from a file to such a name, or None; a notebook adds one."""


class Position(NamedTuple):
    """A place in a file: 1-based lines, 0-based columns, as Python counts them."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str

    def text(self) -> str:
        """The line of source, without its indentation; empty when it cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self):
        function = f" ({self.function})" if self.function and self.function != "<module>" else ""
        cell = shown_name(self.file)
        return (f"line {self.line} of {cell}" if cell else f"{self.file}:{self.line}") + function


class SourceInfo(NamedTuple):
    """Location of an equation: the user's code object and instruction, the stack of named scopes, and who called that code.

    `callers` are the user's frames within the trace that the equation was made in, from the inside out (code and instruction of each, one
    after the other), and the callers of that trace: None where nobody knows them.
    """

    code: CodeType | None
    lasti: int
    scope: str
    callers: Any = None

    @property
    def segments(self) -> tuple[tuple[tuple[CodeType, int], ...], ...]:
        """The frames that lead to the equation, from the outside in: those of each trace, the last with the equation's own."""
        if self.code is None:
            return ()
        own: tuple = (self.code, self.lasti)
        if self.callers is None:
            return ((own,),)
        found = []
        at = self.callers
        while at is not None:
            frames, at = at
            flat = (*own, *frames)
            found.append(tuple(zip(flat[-2::-2], flat[-1::-2])))
            own = ()
        return tuple(found[::-1])

    def position(self) -> Position | None:
        return position(self.code, self.lasti) if self.code is not None else None

    @property
    def traceback(self) -> SourceInfo:
        """What `user_context` takes, for equations that are made anew to have this place."""
        return self

    @property
    def name_stack(self) -> str:
        """The named scopes around the equation, from the outside in, as `outer/inner`."""
        return self.scope

    def __str__(self):
        place = self.position()
        return str(place) if place else "an unknown place"


class Scope(str):
    """A stack of named scopes that has more than its text.

    Attributes:
        annotations: for the compiler, `(name, text)` pairs.
        opened, closers: how it is shown to compilers and profilers, around what is named inside: with the transformations that
            the equations are made under, as `jvp(outer/` and `)`.
    """

    __slots__ = ("annotations", "closers", "opened")
    annotations: tuple[tuple[str, str], ...]
    opened: str
    closers: str

    @classmethod
    def of(
        cls,
        text: str,
        annotations: tuple[tuple[str, str], ...] = (),
        opened: str | None = None,
        closers: str = "",
    ) -> str:
        """The scope with these annotations, shown in this way; a plain string where there is nothing but its text."""
        if not annotations and not closers:
            return text
        made = cls(text)
        made.annotations, made.closers = annotations, closers
        made.opened = text if opened is None else opened
        return made


def annotations_of(scope: str) -> tuple[tuple[str, str], ...]:
    """The annotations of a scope."""
    return scope.annotations if type(scope) is Scope else ()


def annotated_scope(scope: str, annotations: tuple[tuple[str, str], ...]) -> str:
    """The same scope with these annotations and no others."""
    return Scope.of(str(scope), annotations, *_opened(scope))


def _opened(scope: str) -> tuple[str, str]:
    return (scope.opened, scope.closers) if type(scope) is Scope else (scope, "")


def _then(opened: str, name: str) -> str:
    return f"{opened}/{name}" if opened and not opened.endswith("(") else opened + name


def extended(scope: str, name: str) -> str:
    """A scope within another one."""
    text = f"{scope}/{name}" if scope else name
    if type(scope) is not Scope:
        return text
    return Scope.of(text, scope.annotations, _then(scope.opened, name), scope.closers)


def joined(outer: str, inner: str) -> str:
    """One stack of scopes within another, with the annotations of both.

    >>> joined("model", "layer"), joined("", "layer")
    ('model/layer', 'layer')
    """
    if not outer or not inner:
        return outer or inner
    kept = {**dict(annotations_of(outer)), **dict(annotations_of(inner))}
    (before, after), (opened, closers) = _opened(outer), _opened(inner)
    return Scope.of(
        f"{outer}/{inner}", tuple(sorted(kept.items())), _then(before, opened), closers + after
    )


def rescoped(place: tuple, scope: str) -> tuple:
    """A place under other named scopes."""
    return (*place[:2], scope, *place[3:])


def transformed(scope: str, word: str) -> str:
    """The scope of equations that a transformation makes: the same names, shown as `jvp(...)`.

    >>> shown_scope(extended(transformed(extended("", "model"), "jvp"), "layer"))
    'model/jvp(layer)'
    """
    opened, closers = _opened(scope)
    return Scope.of(scope, annotations_of(scope), _then(opened, f"{word}("), f"){closers}")


def shown_scope(scope: str) -> str:
    """A scope with the transformations around its names."""
    return "".join(_opened(scope))


def innermost(scope: str) -> str:
    """The empty scope in which an inner program is traced: its equations have the same annotations."""
    return Scope.of("", scope.annotations) if type(scope) is Scope else ""


class TransposedLocation(tuple):
    """The location of an equation of a backward pass: still `(code, instruction, scope, callers)`."""

    __slots__ = ()


UNKNOWN = SourceInfo(None, 0, "")


def shown_name(file: str) -> str | None:
    """What to call a file in messages, where it has a name besides its path."""
    known = shown_names.get(file)
    if known is None:
        for namer in namers:
            known = namer(file)
            if known is not None:
                break
    return known


def position(code: CodeType, lasti: int) -> Position:
    """Resolves an instruction of a code object to file, lines and columns."""
    line = end_line = code.co_firstlineno
    column = end_column = 0
    for first, last, start, stop in itertools.islice(
        code.co_positions(), lasti // 2, lasti // 2 + 1
    ):
        line = first or line
        end_line, column, end_column = last or line, start or 0, stop or 0
    return Position(code.co_filename, line, end_line, column, end_column, code.co_qualname)


def is_internal(filename: str) -> bool:
    """Whether a file belongs to the package, or is left out as a library asked, so that its frames are not the user's."""
    known = _internal_files.get(filename)
    if known is None:
        name = os.path.abspath(filename) if not filename.startswith("<") else filename
        known = is_own(name) or any(
            name == path or name.startswith(path + os.sep) for path in _excluded
        )
        _internal_files[filename] = known
    return known


def is_own(filename: str) -> bool:
    """Whether a file belongs to the package, or to the few of Python's that call for it."""
    return (
        (
            filename.startswith(_PACKAGE)
            and not filename.startswith(_PACKAGE + "notebook" + os.sep + "tour")
        )
        or filename.startswith("<frozen")
        or (os.path.basename(filename) in ("functools.py", "contextlib.py") and "lib" in filename)
    )


def is_library(filename: str) -> bool:
    """Whether a file is one of an installed library, not of the user's program.

    >>> is_library("/usr/lib/python3/site-packages/flax/core.py"), is_library("train.py")
    (True, False)
    """
    known = _library_files.get(filename)
    if known is None:
        # An installed copy of this package shows its tour as a user's program.
        known = any(
            f"{os.sep}{folder}{os.sep}" in filename for folder in ("site-packages", "dist-packages")
        ) and not filename.startswith(_PACKAGE)
        _library_files[filename] = known
    return known


def at_user(info: tuple) -> SourceInfo:
    """A location with the frames of installed libraries left out, where a frame of the user's led to them.

    It is the innermost line of the user's own within the traces around the equation. What calls the outermost of them, such as `jit(f)(x)`,
    does not count: a library's function that is looked at by itself keeps its lines.
    """
    code, lasti, scope, callers = info
    if code is None or callers is None or not _meets_library(code, callers):
        return SourceInfo(*info)
    traces: list[tuple] = []
    own: tuple = (code, lasti)
    at = callers
    while at is not None:
        frames, at = at
        traces.append((*own, *frames))
        own = ()
    outside = traces.pop() if len(traces) > 1 else None
    kept = [_without_libraries(frames) for frames in traces]
    first = next((i for i, frames in enumerate(kept) if frames), None)
    if first is None or all(a is b for a, b in zip(kept, traces)):
        return SourceInfo(*info)
    inner, *around = kept[first:]
    found: Any = (outside, None) if outside is not None else None
    for frames in reversed(around):
        found = (frames, found)
    return SourceInfo(inner[0], inner[1], scope, (inner[2:], found))


def _meets_library(code: CodeType, callers: Any) -> bool:
    """Whether a library's frame is among those of a location. Most have none, and every view asks for the lines of all equations."""
    if is_library(code.co_filename):
        return True
    known = _around.get(id(callers))
    if known is None:
        if len(_around) >= 4096:
            _around.clear()
        files, at = set(), callers
        while at is not None:
            frames, at = at
            files.update([c.co_filename for c in frames[::2]])
        # The callers too: while they are kept, their id is their own.
        known = _around[id(callers)] = callers, any(map(is_library, files))
    return known[1]


_around: dict[int, tuple[Any, bool]] = {}
"""Of the frames around equations, which the equations of one line share, whether a library's is among them."""


def _without_libraries(frames: tuple) -> tuple:
    """Code and instruction of each frame, one after the other: the same object where no library is among them."""
    files = [code.co_filename for code in frames[::2]]
    if not any(map(is_library, files)):
        return frames
    pairs = zip(files, frames[::2], frames[1::2])
    return tuple(x for file, *pair in pairs if not is_library(file) for x in pair)


def exclude(path: str) -> None:
    """Treats a file, or all files of a folder, as internal instead of the user's."""
    path = os.path.abspath(path)
    if path in _excluded:
        return
    _excluded.append(path)
    for filename in [name for name, internal in _internal_files.items() if not internal]:
        del _internal_files[filename]


def include(path: str) -> None:
    """Treats as the user's again what `exclude` was told of; ValueError for another path."""
    _excluded.remove(os.path.abspath(path))
    _internal_files.clear()


def excluded() -> tuple[str, ...]:
    """The files and folders that `exclude` was told of."""
    return tuple(_excluded)


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside the package, or None."""
    frame: FrameType | None = sys._getframe(depth)
    known = _internal_files
    while frame is not None:
        filename = frame.f_code.co_filename
        internal = known.get(filename)
        if internal is None:
            internal = is_internal(filename)
        if not internal:
            return frame
        frame = frame.f_back
    return None


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the user's line, however deep in the package the reason was found."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def outside_libraries(frame: FrameType | None) -> FrameType | None:
    """The nearest frame that called this one and is the user's own; the frame itself where there is none."""
    at = frame
    while at is not None:
        file = at.f_code.co_filename
        if not is_internal(file) and not is_library(file):
            return at
        at = at.f_back
    return frame


def current(scope: str = "") -> SourceInfo:
    """The caller's location in user code, under the given scope."""
    frame = user_frame(2)
    return (
        SourceInfo(None, 0, scope)
        if frame is None
        else SourceInfo(frame.f_code, frame.f_lasti, scope)
    )


def describe_function(fun: Any) -> str:
    """A function's name and where it is written: `f at model.py:12`."""
    inner = fun
    while hasattr(inner, "func"):
        inner = inner.func
    inner = getattr(inner, "__wrapped__", inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__name__
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    name = name.rpartition("<locals>.")[2]
    if code is None:
        return name
    return f"{name} at {shown_name(code.co_filename) or code.co_filename}:{code.co_firstlineno}"


def describe_caller() -> str:
    """`file:line (function)` of the user's current line, for error messages."""
    frame = user_frame(2)
    if frame is None:
        return "an unknown place"
    return str(position(frame.f_code, frame.f_lasti))
