"""In-memory caches, all known to `clear_caches`."""

from __future__ import annotations

from collections.abc import Callable

from xlab.backend import dispatch as _native
from xlab.core import primitive as _primitive

_clearers: list[Callable[[], None]] = []


def on_clear(clear: Callable[[], None]) -> Callable[[], None]:
    """Registers a function that empties a cache."""
    _clearers.append(clear)
    return clear


def clear_caches() -> None:
    """Forgets every traced, lowered and compiled program of this process.

    Example:
        >>> import xlab
        >>> xlab.clear_caches()
    """
    for clear in _clearers:
        clear()
    _native.clear_native_caches()
    for prim in _primitive.all_primitives():
        prim.clear_cache()
