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
from xlab.core.trace import named_scope as extend_name_stack
from xlab.core.trace import state as _state
from xlab.core.trace import user_context

__all__ = [
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


def current_name_stack() -> str:
    """The named scopes, from the outside in, as `outer/inner`."""
    return _state.scope


def new_name_stack(name: str = "") -> str:
    """A stack of one named scope, or of none."""
    return name


@contextmanager
def set_name_stack(name_stack: str) -> Iterator[None]:
    """Puts what is made in the block under these named scopes alone."""
    previous = _state.scope
    _state.scope = name_stack
    try:
        yield
    finally:
        _state.scope = previous


def reset_name_stack():
    """Puts what is made in the block under no named scope."""
    return set_name_stack("")
