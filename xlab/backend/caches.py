"""Caches that `clear_all` finds: every memo of the package is made here or registered here."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from xlab.backend.native import weakref_lru_cache as _weakref_lru_cache
from xlab.config import config

_clearers: list[Callable[[], Any]] = []


def register(clear: Callable[[], Any]) -> None:
    """Calls `clear()` whenever all caches are cleared."""
    _clearers.append(clear)


def clear_all() -> None:
    """Empties every registered cache."""
    for clear in tuple(_clearers):
        clear()


def _no_context() -> None:
    return None


def lru(maxsize: int | None = 4096, *, context: bool = False) -> Callable[[Callable], Callable]:
    """Decorator: remembers results by arguments, and by the trace context if `context` is set."""

    def decorate(fn: Callable) -> Callable:
        if not context:
            cached = functools.lru_cache(maxsize)(fn)
            register(cached.cache_clear)
            return cached

        @functools.lru_cache(maxsize)
        def keyed(_context, *args, **kwargs):
            return fn(*args, **kwargs)

        trace_context = config.trace_context

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return keyed(trace_context(), *args, **kwargs)

        wrapper.cache_clear = keyed.cache_clear  # type: ignore[attr-defined]
        wrapper.cache_info = keyed.cache_info  # type: ignore[attr-defined]
        register(keyed.cache_clear)
        return wrapper

    return decorate


def weakref_lru_cache(
    fn: Callable, maxsize: int = 2048, *, context: bool = True, explain: Callable | None = None
) -> Any:
    """Remembers results by a weakly held first argument, the others, and the trace context.

    The result has `cache_info`, `cache_clear`, `cache_keys` and `evict_weakref`.
    """
    key = config.trace_context if context else _no_context
    cached = _weakref_lru_cache.weakref_lru_cache(key, fn, maxsize, explain)
    ref = weakref.ref(cached)

    def clear():
        alive = ref()
        if alive is not None:
            alive.cache_clear()

    register(clear)
    return cached
