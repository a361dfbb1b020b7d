"""Events, spans and listeners: how the runtime reports what it does.

Ground floor, standard library only. With no listener a span costs one truth test. Durations come from
`clock`, which tests replace.

Example:
    >>> seen = []
    >>> add(seen.append)
    >>> with span("lower", name="f") as attrs:
    ...     attrs["lines"] = 3
    >>> remove(seen.append)
    >>> seen[0].kind, seen[0].attrs
    ('lower', {'name': 'f', 'lines': 3})
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

KINDS = ("trace", "lower", "compile", "cache_hit", "cache_miss", "execute", "gate", "transfer")

clock: Callable[[], int] = time.perf_counter_ns
"""Nanoseconds now; replaceable."""


class Event(NamedTuple):
    """One thing the runtime did. `error` is the exception that ended it, `depth` counts enclosing spans."""

    kind: str
    start_ns: int
    end_ns: int
    attrs: dict[str, Any]
    thread: int
    depth: int
    error: BaseException | None = None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


Listener = Callable[[Event], Any]

listeners: list[Listener] = []
"""Functions called with each finished event. Replaced as a whole, never mutated while being read."""

_depth = threading.local()
lock = threading.Lock()

STAGES = frozenset(("trace", "lower", "compile"))
StageWatcher = Callable[[str, str], Callable[[], Any]]

_stage_watchers: tuple[StageWatcher, ...] = ()


def watch_stages(watcher: StageWatcher) -> None:
    """Calls `watcher(kind, name)` when a stage of compilation begins and what it returns when the stage ends.

    Unlike a listener it leaves the calls of compiled programs alone, so that they stay on the native path.
    """
    global _stage_watchers
    with lock:
        _stage_watchers = (*(w for w in _stage_watchers if w != watcher), watcher)


def unwatch_stages(watcher: StageWatcher) -> None:
    """Stops calling `watcher`; unknown ones are ignored."""
    global _stage_watchers
    with lock:
        _stage_watchers = tuple(w for w in _stage_watchers if w != watcher)


NoteWatcher = Callable[[str, float | None], Any]

_note_watchers: tuple[NoteWatcher, ...] = ()


def watch_notes(watcher: NoteWatcher) -> None:
    """Calls `watcher(name, seconds)` for every note from now on; `seconds` is None for what only happened."""
    global _note_watchers
    with lock:
        _note_watchers = (*(w for w in _note_watchers if w != watcher), watcher)


def unwatch_notes(watcher: NoteWatcher) -> None:
    """Stops calling `watcher`; unknown ones are ignored."""
    global _note_watchers
    with lock:
        _note_watchers = tuple(w for w in _note_watchers if w != watcher)


def note(name: str, seconds: float | None = None) -> None:
    """Tells watchers that something happened, or how long something took."""
    for watcher in _note_watchers:
        watcher(name, seconds)


_tallies: tuple[Counter[str], ...] = ()


@contextmanager
def tally() -> Iterator[Counter[str]]:
    """Counts, while the block runs, how often what `count` names happened in any thread.

    The runtime counts `eager_cache_miss` (a primitive was called with parameters that are new), `trace_cache_miss` and
    `compile_after_disk_cache_miss`.
    """
    global _tallies
    mine: Counter[str] = Counter()
    with lock:
        _tallies = (*_tallies, mine)
    try:
        yield mine
    finally:
        with lock:
            _tallies = tuple(t for t in _tallies if t is not mine)


def count(name: str) -> None:
    """Tells the blocks of `tally` that something happened; for what is too frequent, or too internal, for an event."""
    for mine in _tallies:
        with lock:
            mine[name] += 1


exiting = False
"""True from the end of the interpreter on. What ends then is not reported: those who would listen may be gone."""


@atexit.register
def _exit() -> None:
    global exiting
    exiting = True


def add(listener: Listener) -> None:
    """Calls `listener(event)` for every event from now on."""
    with lock:
        listeners[:] = [*listeners, listener]


def remove(listener: Listener) -> None:
    """Stops calling `listener`; unknown listeners are ignored."""
    with lock:
        listeners[:] = [seen for seen in listeners if seen != listener]


def span(kind: str, **attrs: Any):
    """Context manager around one piece of work; yields the event's attributes, which may be added to."""
    if not listeners and (not _stage_watchers or kind not in STAGES):
        return _OFF
    return _Span(kind, attrs)


def emit(kind: str, *, start_ns: int | None = None, **attrs: Any) -> None:
    """Tells listeners of something that takes no time, or that began at `start_ns` and has ended."""
    if not listeners:
        return
    now = clock()
    start = now if start_ns is None else start_ns
    _send(
        Event(_checked(kind), start, now, attrs, threading.get_ident(), getattr(_depth, "now", 0))
    )


class _Sink(dict):
    """The attributes of a span without listeners: a mapping that drops what is stored."""

    def __setitem__(self, key, value):
        pass

    def update(self, *args, **kwargs):
        pass

    def setdefault(self, key, default=None):
        return default


class _Off:
    __slots__ = ()

    def __enter__(self):
        return _SINK

    def __exit__(self, *exc_info):
        return False


_SINK = _Sink()
_OFF = _Off()


class _Span:
    __slots__ = ("attrs", "depth", "ended", "kind", "start")

    def __init__(self, kind: str, attrs: dict[str, Any]):
        self.kind = _checked(kind)
        self.attrs = attrs

    def __enter__(self):
        self.depth = getattr(_depth, "now", 0)
        _depth.now = self.depth + 1
        self.ended = None
        if _stage_watchers and self.kind in STAGES:
            self._begin_stage()
        self.start = clock()
        return self.attrs

    def __exit__(self, exc_type, exc, tb):
        end = clock()
        _depth.now = self.depth
        if self.ended is not None:
            _depth.tracing = getattr(_depth, "tracing", 0) - (self.kind == "trace")
            for ended in self.ended:
                ended()
        _send(Event(self.kind, self.start, end, self.attrs, threading.get_ident(), self.depth, exc))
        return False

    def _begin_stage(self):
        """Begins a stage; a function traced inside another is part of the outer tracing, not a stage of its own."""
        inside = getattr(_depth, "tracing", 0)
        if self.kind == "trace":
            if inside:
                return
            _depth.tracing = inside + 1
        self.ended = [
            watcher(self.kind, str(self.attrs.get("name", ""))) for watcher in _stage_watchers
        ]


def _checked(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"Unknown event kind {kind!r}; the kinds are {', '.join(KINDS)}.")
    return kind


def _send(event: Event) -> None:
    if exiting:
        return
    for listener in tuple(listeners):
        listener(event)
