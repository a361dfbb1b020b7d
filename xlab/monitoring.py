"""Monitoring: named events, durations, time spans and scalars, for tools that watch from outside.

Anything may be recorded. The runtime itself records the stages of compilation, each as a scalar when it begins and a
duration and a time span when it ends, and what the persistent cache does, under the names that tools for JAX know.

Example:
    >>> import xlab
    >>> seen = []
    >>> listener = lambda event, seconds, **kw: seen.append((event.rsplit("/", 1)[1], kw["fun_name"]))
    >>> register_event_duration_secs_listener(listener)
    >>> y = xlab.jit(lambda x: x + 1, name="f")(1.0)
    >>> unregister_event_duration_listener(listener)
    >>> seen[0]
    ('jaxpr_trace_duration', 'f')
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from xlab import events as _events
from xlab.config import config

_logger = logging.getLogger("xlab")

__all__ = [
    "BACKEND_COMPILE_EVENT", "JAXPR_TO_MLIR_MODULE_EVENT", "JAXPR_TRACE_EVENT", "clear_event_listeners", "get_event_duration_listeners",
    "get_event_listeners", "get_event_time_span_listeners", "get_scalar_listeners", "log_elapsed_time", "record_event", "record_event_duration_secs",
    "record_event_time_span", "record_scalar", "register_event_duration_secs_listener", "register_event_listener",
    "register_event_time_span_listener", "register_scalar_listener", "unregister_event_duration_listener",
    "unregister_event_listener", "unregister_event_time_span_listener", "unregister_scalar_listener"]  # fmt: skip

JAXPR_TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
JAXPR_TO_MLIR_MODULE_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BACKEND_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


class _Channel:
    """Listeners of one kind of record, called in the order they were registered."""

    def __init__(self, what: str):
        self.what = what
        self.listeners: tuple[Callable, ...] = ()

    def add(self, callback: Callable) -> None:
        if not callable(callback):
            raise TypeError(
                f"a listener is called with each {self.what}; got {callback!r} of type {type(callback).__name__}"
            )
        with _events.lock:
            self.listeners = (*self.listeners, callback)
        _watch()

    def remove(self, callback: Callable) -> None:
        with _events.lock:
            if callback not in self.listeners:
                raise ValueError(
                    f"{callback!r} is not registered as a listener of {self.what}s; registered are {list(self.listeners)}"
                )
            at = self.listeners.index(callback)
            self.listeners = (*self.listeners[:at], *self.listeners[at + 1 :])
        _watch()

    def clear(self) -> None:
        self.listeners = ()

    def send(self, *args, **kwargs) -> None:
        for listener in self.listeners:
            listener(*args, **kwargs)


_EVENTS, _DURATIONS, _SPANS, _SCALARS = (
    _Channel(w) for w in ("event", "duration", "time span", "scalar")
)
_CHANNELS = (_EVENTS, _DURATIONS, _SPANS, _SCALARS)


def record_event(event: str, **kwargs: str | int) -> None:
    """Tells listeners that something happened."""
    _EVENTS.send(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tells listeners how long something took."""
    _DURATIONS.send(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tells listeners when something began and ended, in seconds since the epoch."""
    _SPANS.send(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tells listeners a number."""
    _SCALARS.send(event, value, **kwargs)


def register_event_listener(callback: Callable) -> None:
    """Calls `callback(event, **kwargs)` for each event."""
    _EVENTS.add(callback)


def register_event_duration_secs_listener(callback: Callable) -> None:
    """Calls `callback(event, seconds, **kwargs)` for each duration."""
    _DURATIONS.add(callback)


def register_event_time_span_listener(callback: Callable) -> None:
    """Calls `callback(event, start, end, **kwargs)` for each time span."""
    _SPANS.add(callback)


def register_scalar_listener(callback: Callable) -> None:
    """Calls `callback(event, value, **kwargs)` for each scalar."""
    _SCALARS.add(callback)


def unregister_event_listener(callback: Callable) -> None:
    """Stops calling a listener of events."""
    _EVENTS.remove(callback)


def unregister_event_duration_listener(callback: Callable) -> None:
    """Stops calling a listener of durations."""
    _DURATIONS.remove(callback)


def unregister_event_time_span_listener(callback: Callable) -> None:
    """Stops calling a listener of time spans."""
    _SPANS.remove(callback)


def unregister_scalar_listener(callback: Callable) -> None:
    """Stops calling a listener of scalars."""
    _SCALARS.remove(callback)


def get_event_listeners() -> list[Callable]:
    """The listeners of events."""
    return list(_EVENTS.listeners)


def get_event_duration_listeners() -> list[Callable]:
    """The listeners of durations."""
    return list(_DURATIONS.listeners)


def get_event_time_span_listeners() -> list[Callable]:
    """The listeners of time spans."""
    return list(_SPANS.listeners)


def get_scalar_listeners() -> list[Callable]:
    """The listeners of scalars."""
    return list(_SCALARS.listeners)


def clear_event_listeners() -> None:
    """Removes every listener of all four kinds."""
    for channel in _CHANNELS:
        channel.clear()
    _watch()


# -- what the runtime records ----------------------------------------------------------------------------

_STAGES = {
    "trace": (JAXPR_TRACE_EVENT, "{}"),
    "lower": (JAXPR_TO_MLIR_MODULE_EVENT, "jit({})"),
    "compile": (BACKEND_COMPILE_EVENT, "jit({})"),
}


def _watch() -> None:
    """Watches the runtime's stages while there are listeners."""
    listening = any(c.listeners for c in _CHANNELS)
    (_events.watch_stages if listening else _events.unwatch_stages)(_stage)
    (_events.watch_notes if listening else _events.unwatch_notes)(_note)


def _stage(kind: str, name: str) -> Callable[[], None]:
    """Called when a stage begins; returns a function for its end."""
    event, form = _STAGES[kind]
    fun_name = form.format(name)
    start = time.time()
    record_scalar(event, start, fun_name=fun_name)

    def ended() -> None:
        if _events.exiting:
            return
        end = time.time()
        record_event_duration_secs(event, max(end - start, 0.0), fun_name=fun_name)
        record_event_time_span(event, start, max(end, start), fun_name=fun_name)

    return ended


class log_elapsed_time:
    """Context manager: times a block for the log and, under the name of an event, for listeners.

    When the block begins the time is published as a scalar of the event; when it ends, also with an exception, there is a line in the
    log (a warning under `log_compiles`, else for debugging), then the duration and the time span of the event.

    Args:
        fmt: the line, in which `{fun_name}` and `{elapsed_time}` stand for the name and the seconds.
        fun_name: what is timed.
        event: name of the event; None only logs.

    Example:
        >>> with log_elapsed_time("Loaded {fun_name} in {elapsed_time:.1f} sec", "weights", event="/my/load"):
        ...     pass
    """

    __slots__ = ("event", "fmt", "fun_name", "start_time")

    def __init__(self, fmt: str, fun_name: str, event: str | None = None):
        self.fmt, self.fun_name, self.event = fmt, fun_name, event

    def __enter__(self) -> None:
        self.start_time = time.time()
        if self.event is not None:
            record_scalar(self.event, self.start_time, fun_name=self.fun_name)

    def __exit__(self, *exc_info: object) -> None:
        if _events.exiting:
            return
        end = max(time.time(), self.start_time)
        level = logging.WARNING if config.log_compiles else logging.DEBUG
        if _logger.isEnabledFor(level):
            _logger.log(
                level, self.fmt.format(fun_name=self.fun_name, elapsed_time=end - self.start_time)
            )
        if self.event is not None:
            record_event_duration_secs(self.event, end - self.start_time, fun_name=self.fun_name)
            record_event_time_span(self.event, self.start_time, end, fun_name=self.fun_name)


def _note(name: str, seconds: float | None) -> None:
    """Reports a note of the runtime, an event or a duration, such as `compilation_cache/cache_hits`."""
    if seconds is None:
        record_event(f"/jax/{name}")
    else:
        record_event_duration_secs(f"/jax/{name}", seconds)
