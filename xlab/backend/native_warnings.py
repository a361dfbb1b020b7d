"""Suppresses native compile warnings in code that shows them in another way.

The native log has one level for the process, which is raised only during such a compile. Errors are always
written, and so is all output of Python: no file descriptor is redirected.

>>> with suppress_warnings():
...     asked()
True
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from xlab.backend import native

ERROR = 2

_here = threading.local()
_lock = threading.Lock()
_silent = 0


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Compiles of this thread write no native warnings in a block."""
    depth = getattr(_here, "depth", 0)
    _here.depth = depth + 1
    try:
        yield
    finally:
        _here.depth = depth


def asked() -> bool:
    """Whether this thread is inside `suppress_warnings`."""
    return getattr(_here, "depth", 0) > 0


@contextlib.contextmanager
def suppressed() -> Iterator[None]:
    """Around one native compile: raises the level where this thread asked for it, and puts it back when the last one ends."""
    global _silent
    before = _level()
    if not asked() or before >= ERROR or not native.owns_state():
        yield
        return
    from jaxlib import utils

    with _lock:
        _silent += 1
        utils.absl_set_min_log_level(ERROR)
    try:
        yield
    finally:
        with _lock:
            _silent -= 1
            if not _silent:
                utils.absl_set_min_log_level(before)


def _level() -> int:
    """The level the native log began with, which it reads from the environment."""
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "")
    return int(level) if level.isdigit() else 0
