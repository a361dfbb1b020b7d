"""Interrupts that Python would drop: one that arrives in a callback of the collector or at the end of an object is for the cell around it."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any

AGAIN = 0.01
"""Seconds after which a dropped interrupt comes again: by then the callback has ended."""

_before: list[Any] = []


def register() -> None:
    """Has an interrupt come again where Python says that it was ignored; a second time changes nothing.

    A collection of many objects takes long, so an interrupt often arrives in one, and is raised in what the collector calls at its end.
    """
    if _before:
        return
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            again = threading.Timer(AGAIN, _thread.interrupt_main)
            again.daemon = True
            again.start()
        else:
            before(dropped)

    _before[:] = [before, hook]
    sys.unraisablehook = hook


def unregister() -> None:
    """Leaves it to Python again, unless somebody else has taken over since."""
    if _before and sys.unraisablehook is _before[1]:
        sys.unraisablehook = _before[0]
    _before.clear()
