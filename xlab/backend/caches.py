"""The registry of the package's caches, which `clear_all` empties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_clearers: list[Callable[[], Any]] = []


def register(clear: Callable[[], Any]) -> Callable[[], Any]:
    """Calls `clear()` whenever all caches are cleared."""
    _clearers.append(clear)
    return clear


def clear_all() -> None:
    """Empties every registered cache."""
    for clear in tuple(_clearers):
        clear()
