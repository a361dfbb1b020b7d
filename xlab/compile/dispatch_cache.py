"""Calls that were answered before, for programs whose every run Python has to start.

Programs in which devices wait for one another run one at a time, so the native fast path, which starts whatever it is
given, is not for them. What it would have known stands here instead: a signature of types and placements, and the
program that answers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.config import config

_LIMIT = 1024


class _Entry(NamedTuple):
    executable: Any
    out_tree: Any
    kept_alive: list    # what the key knows by its id


class PythonDispatchCache:
    """The signatures of one jitted function."""

    __slots__ = ("_entries",)

    def __init__(self):
        self._entries: caches.Latest[tuple, _Entry] = caches.Latest(_LIMIT)

    def __bool__(self):
        return bool(self._entries)

    def find(self, flat: Sequence, in_tree, static) -> _Entry | None:
        """The program for these arguments, if a call like this one was answered before."""
        parts = _parts(flat)
        if parts is None:
            return None
        found = self._entries.get((in_tree, static, config.trace_context(), *map(id, parts)))
        if found is None:
            return None
        for x in flat:
            if x.is_deleted():
                return None     # the full path says which argument it was
        return found

    def add(self, flat: Sequence, in_tree, static, executable, out_tree) -> None:
        """Remembers a call that has just been answered."""
        parts = _parts(flat)
        if parts is None:
            return
        key = (in_tree, static, config.trace_context(), *map(id, parts))
        self._entries[key] = _Entry(executable, out_tree, parts)

    def clear(self) -> None:
        self._entries.clear()


def _parts(flat: Sequence) -> list | None:
    """Types, shardings and commitment of native arrays; None where there is anything else."""
    out: list = []
    for x in flat:
        if type(x) is not _arrays.ArrayImpl:
            return None
        out += (x.aval, x._sharding, x._committed)
    return out
