"""Deferred reports: the cell's result is displayed first, its report shortly after.

Below its result a cell leaves a line that says a report follows; when the kernel is free, or at the latest before the next cell, the
report is made and takes the line's place, so that what stands above does not move. Where nobody would see the change (a saved run, a terminal), the report is made at once instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from xlab.collector import paused
from xlab.notebook import formatters

DELAY = 0.005
"""Seconds that a kernel may use to send the cell's result."""

_waiting: list[Callable[[], None]] = []


def can_wait(shell: Any) -> bool:
    """Whether an output can be put in its place after its cell: a front end that names its cells, at a kernel with an event loop."""
    if getattr(shell, "kernel", None) is None or "cellId" not in formatters.asked(shell):
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def show_later(shell: Any, title: str, make: Callable[[], Any], handlers: Any = None) -> None:
    """Displays a line at the end of the cell and in its place, shortly after, the record that `make` returns.

    `handlers` answer the requests of its live view.
    """
    from IPython.display import display

    asked, place = shell.get_parent(), formatters.place(shell)
    handle: Any = None

    def announce(_result: Any = None) -> None:
        nonlocal handle
        with contextlib.suppress(ValueError):
            shell.events.unregister("post_run_cell", announce)
        if handle is None:
            handle = display(
                {
                    "text/plain": f"{title}: the report follows",
                    "text/html": "<span style='opacity:.6;font-size:12px'>report …</span>",
                },
                raw=True,
                display_id=True,
            )
            with contextlib.suppress(
                RuntimeError
            ):  # no event loop: it is made before the next cell
                asyncio.get_running_loop().call_later(DELAY, finish_all)

    def finish() -> None:
        parented = _parented(shell, asked)
        try:
            announce()
            data, metadata = _made(shell, title, make, place, handlers)
            handle.update(data, metadata=metadata, raw=True)
        finally:
            parented()

    _waiting.append(finish)
    shell.events.register("post_run_cell", announce)


def finish_all(_info: Any = None) -> None:
    """Makes the pending reports. Called when the kernel is idle, before a cell runs, and on unloading."""
    if not _waiting:
        return
    with paused():  # a report is many small records that all live
        while _waiting:
            _waiting.pop(0)()


def _made(
    shell: Any, title: str, make: Callable[[], Any], place: Any, handlers: Any = None
) -> tuple[dict, dict]:
    from xlab.notebook.views import view_for

    try:
        record = make()
        return formatters.bundle(view_for(record), record, shell, handlers, place)
    except (Exception, KeyboardInterrupt) as error:
        what = (
            "interrupted; run the cell again for it"
            if isinstance(error, KeyboardInterrupt)
            else f"{type(error).__name__}: {error}"
        )
        return {"text/plain": f"xlab: no report of {title}: {what}"}, {}


def _parented(shell: Any, asked: Any) -> Callable[[], None]:
    """Sets the parent cell of messages; returns a function that restores the old one."""
    publisher = shell.display_pub
    if not hasattr(publisher, "set_thread_parent"):
        return lambda: None
    token = publisher.set_thread_parent(asked)
    return lambda: publisher.reset_thread_parent(token)
