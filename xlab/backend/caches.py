"""The registry of the package's caches, which `clear_all` empties, and `Latest`, a cache with a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from threading import RLock
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_clearers: list[Callable[[], Any]] = []


def register(clear: Callable[[], Any]) -> Callable[[], Any]:
    """Calls `clear()` whenever all caches are cleared."""
    _clearers.append(clear)
    return clear


def clear_all() -> None:
    """Empties every registered cache."""
    for clear in tuple(_clearers):
        clear()


class Latest(dict[Key, Value]):
    """The latest entries: of more than `limit`, those that were set longest ago are dropped. Reading is a dictionary's own.

    Example:
        >>> known = Latest(2)
        >>> known["a"], known["b"], known["a"], known["c"] = 1, 2, 3, 4
        >>> known
        {'a': 3, 'c': 4}
        >>> known.get_or_make("a", list), known.get_or_make("d", list), known
        (3, [], {'a': 3, 'd': []})
    """

    __slots__ = ("_lock", "limit")

    def __init__(self, limit: int):
        self.limit = limit
        self._lock = RLock()  # hashing a key may run code of the user, which may come here again

    def __setitem__(self, key: Key, value: Value) -> None:
        with self._lock:
            self.pop(key, None)
            super().__setitem__(key, value)
            drop_oldest(self, self.limit)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """What is known of `key`, else what `make()` returns: the same for all threads, and now the latest entry."""
        with self._lock:
            if key in self:
                self[key] = found = self[key]
                return found
        made = make()
        with self._lock:
            self[key] = found = self.get(key, made)
        return found


def drop_oldest(entries: dict, limit: int) -> None:
    """Drops the first entries of a dictionary until `limit` are left."""
    for key in list(islice(entries, max(0, len(entries) - limit))):
        entries.pop(key, None)
