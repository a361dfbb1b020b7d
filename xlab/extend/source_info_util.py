"""Where equations come from: the user's line, and the stack of named scopes around it.

Libraries exclude their own files, so that messages point to their caller, and give equations they make anew the place of those they
stand for.

Example:
    >>> register_exclusion("/a/library/wrappers.py")
    >>> with extend_name_stack("layer"):
    ...     print(current_name_stack())
    layer
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlab.core.source_info import SourceInfo
from xlab.core.source_info import current as _current
from xlab.core.source_info import exclude as register_exclusion
from xlab.core.source_info import extended as _extended
from xlab.core.source_info import joined as _joined
from xlab.core.trace import named_scope as extend_name_stack
from xlab.core.trace import state as _state
from xlab.core.trace import user_context as _user_context

__all__ = [
    "NameStack",
    "SourceInfo",
    "current",
    "current_name_stack",
    "extend_name_stack",
    "new_name_stack",
    "new_source_info",
    "register_exclusion",
    "reset_name_stack",
    "set_name_stack",
    "summarize",
    "user_context",
]


def current() -> SourceInfo:
    """The place that an equation made now would have."""
    given = _state.source_info
    return SourceInfo(*given) if given is not None else _current(_state.scope)


def new_source_info() -> SourceInfo:
    """A place that says nothing."""
    return SourceInfo(None, 0, "")


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """A place as text: file, line and function.

    Args:
        source_info: a place, such as an equation's `source_info`.
        num_frames: taken for the sake of callers; a place is one line of the user's.
    """
    return str(SourceInfo(*source_info))


class NameStack(str):
    """Named scopes, from the outside in, as `outer/inner`. The sum of two is the second within the first.

    Example:
        >>> (NameStack("model") + NameStack("layer")).extend("head")
        'model/layer/head'
    """

    __slots__ = ("scope",)
    scope: str

    def __new__(cls, scope: str = ""):
        made = super().__new__(cls, scope)
        made.scope = scope.scope if isinstance(scope, NameStack) else scope
        return made

    def __add__(self, other: str) -> NameStack:
        return NameStack(_joined(self.scope, NameStack(other).scope))

    def extend(self, name: str) -> NameStack:
        """The stack with one more scope inside."""
        return NameStack(_extended(self.scope, name))


def user_context(place: SourceInfo | None, *, name_stack: str | None = None):
    """Gives what is made in the block the place of an earlier equation.

    Args:
        place: the `source_info` of an equation, or its `traceback`; None for the line of the caller.
        name_stack: the named scopes to put it under, in place of those of `place`.

    Example:
        >>> import xlab
        >>> eqn, = xlab.make_jaxpr(lambda x: x + 1)(1.0).eqns
        >>> with user_context(eqn.source_info.traceback, name_stack=current_name_stack() + "again"):
        ...     current().name_stack, current().position() == eqn.source_info.position()
        ('again', True)
    """
    return _user_context(place, None if name_stack is None else NameStack(name_stack).scope)


def current_name_stack() -> NameStack:
    """The named scopes around what is made now."""
    return NameStack(_state.scope)


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one named scope, or of none."""
    return NameStack(name)


@contextmanager
def set_name_stack(name_stack: str) -> Iterator[None]:
    """Puts what is made in the block under these named scopes alone."""
    previous = _state.scope
    _state.scope = NameStack(name_stack).scope
    try:
        yield
    finally:
        _state.scope = previous


def reset_name_stack():
    """Puts what is made in the block under no named scope."""
    return set_name_stack("")
