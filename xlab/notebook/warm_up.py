"""What the first report needs, loaded while nobody waits: a piece at a time, where the kernel is idle after `%load_ext xlab`.

A cell that is run meanwhile waits for one piece at most, which it would need itself. Nothing here asks for devices, so that settings which
come before the first array still count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from xlab.notebook import formatters

DELAY, PAUSE = 0.1, 0.01
"""Seconds until the first piece, and between two, in which the kernel looks for cells."""

_waiting: list[Callable[[], Any]] = []
_next: asyncio.TimerHandle | None = None


def _magics() -> None:
    from xlab.notebook.magics import xjit  # noqa: F401


def _reports() -> None:
    from xlab.observe import reports  # noqa: F401


def _views() -> None:
    from xlab.notebook import views  # noqa: F401


def _widgets() -> None:
    import ipywidgets  # noqa: F401


def _live() -> None:
    from xlab.notebook.views import widget  # noqa: F401


def _script() -> None:
    from xlab.notebook.views import saved

    saved.prepare()


def register(shell: Any) -> None:
    """Begins, in a kernel with an event loop; elsewhere things are loaded when they are used."""
    unregister(shell)
    if getattr(shell, "kernel", None) is None:
        return
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        live = [_widgets, _live] if formatters.has_widgets() else []
        _waiting[:] = [_magics, _reports, _views, *live, _script]
        _later(loop, DELAY)


def unregister(_shell: Any) -> None:
    """Leaves the rest until it is used."""
    _waiting.clear()
    if _next is not None:
        _next.cancel()


def _later(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    global _next
    _next = loop.call_later(seconds, _load, loop)


def _load(loop: asyncio.AbstractEventLoop) -> None:
    # What is wrong with a piece is said where it is used.
    with contextlib.suppress(Exception, KeyboardInterrupt):
        _waiting.pop(0)()
    if _waiting:
        _later(loop, PAUSE)
