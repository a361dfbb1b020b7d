"""Progress of long compiles: the function, the phase, and the seconds so far.

Nothing is shown before `FIRST` seconds and nothing is measured on calls of compiled programs: only the stages of compilation report,
by `events.watch_stages`, and a thread looks at them now and then. The line is replaced by one sentence when the compile is over.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Protocol

from xlab import events
from xlab.compile.history.unlisted import is_unlisted

FIRST = 2.0
"""Seconds of one compile before a line appears."""
EVERY = 0.5
GRACE = 0.3
"""Seconds between two stages of one function, at most."""

WORDS = {"trace": "tracing", "lower": "lowering", "compile": "compiling"}


class Line(Protocol):
    """A line of output that is updated until it is finished."""

    def show(self, text: str) -> None: ...

    def end(self, text: str) -> None: ...


class _Compile:
    """Stages of one function that follow one another: one compile, as people see it."""

    def __init__(self, name: str, place: Any, now: float):
        self.name, self.place, self.start, self.end = name, place, now, 0.0
        self.spent: dict[str, float] = {}
        self.open: list[tuple[str, float]] = []

    def words(self, now: float) -> str:
        kind, since = self.open[-1] if self.open else ("", now)
        done = " · ".join(
            f"{kind} {seconds:.1f} s" for kind, seconds in self.spent.items() if seconds >= 0.05
        )
        doing = f"{WORDS.get(kind, kind)} {self.name} … {now - self.start:.1f} s"
        return doing + (f" ({done} · {kind} {now - since:.1f} s so far)" if done else "")

    def summary(self) -> str:
        return f"{self.name} took {self.end - self.start:.1f} s to compile: " + ", ".join(
            f"{kind} {seconds:.1f} s" for kind, seconds in self.spent.items()
        )


class CompileProgress:
    """Watches the stages of compilation and keeps a line up to date while one takes long.

    Args:
        place: called where a compile begins; what the line belongs to (a cell), or None where nobody would see it.
        line: makes the line of a place.
    """

    def __init__(
        self,
        place: Callable[[], Any],
        line: Callable[[Any], Line],
        *,
        first: float = FIRST,
        every: float = EVERY,
    ):
        self._place, self._line, self.first, self.every = place, line, first, every
        self._lock = threading.Lock()
        self._now: _Compile | None = None
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._on = False

    def start(self) -> None:
        """Begins to watch."""
        self._on = True
        events.watch_stages(self.begin)

    def stop(self) -> None:
        """Stops watching; a line that stands is ended."""
        events.unwatch_stages(self.begin)
        self._on = False
        self.settle()

    def settle(self) -> None:
        """Finishes a visible line at once, without the grace period: the cell has ended."""
        self._wake.set()
        thread = self._thread
        if (
            thread is not None
            and thread is not threading.current_thread()
            and self._now is not None
            and self._now.place is not None
        ):
            thread.join(0.2)

    # -- where something compiles ------------------------------------------------------------------------

    def begin(self, kind: str, name: str) -> Callable[[], None]:
        """Called when a stage begins; returns a function for its end. Compiles for inspection only are not shown."""
        if is_unlisted():
            return _nothing
        now = time.monotonic()
        with self._lock:
            at = self._now
            if at is None or not at.open:
                place = self._place()
                same = at is not None and at.name == name and at.place == place
                if at is None or not same or now - at.end >= GRACE:
                    at = self._now = _Compile(name, place, now)
            at.open.append((kind, now))
            if self._thread is None and at.place is not None:
                self._wake.clear()
                self._thread = threading.Thread(
                    target=self._watch, name="xlab progress", daemon=True
                )
                self._thread.start()

        def ended() -> None:
            after = time.monotonic()
            with self._lock:
                at.spent[kind] = at.spent.get(kind, 0.0) + after - now
                at.end = after
                with contextlib.suppress(ValueError):
                    at.open.remove((kind, now))

        return ended

    # -- the thread that looks ---------------------------------------------------------------------------

    def _watch(self) -> None:
        shown: tuple[_Compile, Line] | None = None
        try:
            while True:
                now = time.monotonic()
                with self._lock:
                    at = self._now
                    over = (
                        at is None
                        or not (at.open or now - at.end < GRACE)
                        or (not at.open and self._wake.is_set())
                    )
                    words = at.words(now) if at is not None and at.open else ""
                    if over:
                        self._thread = None
                if shown is not None and (over or shown[0] is not at):
                    shown[1].end(shown[0].summary())
                    shown = None
                if over or at is None:
                    return
                if words and at.place is not None and now - at.start >= self.first:
                    if shown is None:
                        shown = at, self._line(at.place)
                    shown[1].show(words)
                left = self.first - (now - at.start)
                self._wake.wait(max(left, 0.05) if left > 0 else self.every)
                if self._wake.is_set() and at.open:
                    self._wake.clear()
        except Exception:  # progress must never cause an error
            self._thread = None


def _nothing() -> None:
    """The end of a stage that is not shown."""


class TerminalLine:
    """One line of a terminal, written over, and gone at the end."""

    def __init__(self, out: Any):
        self.out = out

    def show(self, text: str) -> None:
        self.out.write(f"\r\x1b[2K{text[:100]}")
        self.out.flush()

    def end(self, text: str) -> None:
        self.out.write("\r\x1b[2K")
        self.out.flush()


class CellLine:
    """A line in the output of the cell that compiles, with that cell as parent even if another runs by now."""

    def __init__(self, shell: Any, parent: Any):
        self.publisher, self.parent, self.id, self.sent = (
            shell.display_pub,
            parent,
            uuid.uuid4().hex,
            False,
        )

    def show(self, text: str) -> None:
        self._send(text)

    def end(self, text: str) -> None:
        self._send(text)

    def _send(self, text: str) -> None:
        style = "font:12px var(--jp-ui-font-family,sans-serif);font-variant-numeric:tabular-nums;color:var(--jp-ui-font-color2,#666)"
        content = {
            "data": {
                "text/plain": text,
                "text/html": f"<div role='status' style='{style}'>{escape(text)}</div>",
            },
            "metadata": {},
            "transient": {"display_id": self.id},
        }
        kind = "update_display_data" if self.sent else "display_data"
        self.sent = True
        self.publisher.session.send(
            self.publisher.pub_socket, kind, content, parent=self.parent, ident=self.publisher.topic
        )


def of_shell(shell: Any) -> CompileProgress | None:
    """The progress of a shell: in the cell of an open notebook, or on a terminal."""
    if getattr(shell, "kernel", None) is not None:
        from xlab.notebook.formatters import _somebody_looks

        return CompileProgress(
            lambda: shell.get_parent() if _somebody_looks(shell) else None,
            lambda parent: CellLine(shell, parent),
        )
    return of_terminal()


def of_terminal() -> CompileProgress | None:
    """The progress of a program in a terminal; None where its messages go to a file."""
    if not sys.stderr.isatty():
        return None
    return CompileProgress(lambda: sys.stderr, TerminalLine)


@contextlib.contextmanager
def progress_shown(progress: CompileProgress | None) -> Iterator[None]:
    """Shows the progress of long compiles during a block."""
    if progress is None:
        yield
        return
    progress.start()
    try:
        yield
    finally:
        progress.stop()


_of: dict[int, CompileProgress] = {}


def register(shell: Any) -> None:
    """Begins to watch for a shell; a second time replaces the first."""
    unregister(shell)
    made = of_shell(shell)
    if made is not None:
        _of[id(shell)] = made
        made.start()
        shell.events.register("post_run_cell", _settle)


def unregister(shell: Any) -> None:
    """Stops watching."""
    made = _of.pop(id(shell), None)
    if made is not None:
        made.stop()
        with contextlib.suppress(ValueError):
            shell.events.unregister("post_run_cell", _settle)


def _settle(_result: Any = None) -> None:
    for progress in list(_of.values()):
        progress.settle()
