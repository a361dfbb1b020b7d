"""A Python dispatch cache, for programs that the native fast path must not start.

Programs with collectives run one at a time, and the native fast path does not wait before it starts one. So Python
starts them, and this cache maps a call's signature (types and placements) to its executable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab.backend import arrays as _arrays
from xlab.backend import caches
from xlab.config import config
from xlab.core.array import KeyArray

_LIMIT = 1024


class _Entry(NamedTuple):
    executable: Any
    out_tree: Any
    kept_alive: list  # what the key knows by its id


class PythonDispatchCache:
    """The call signatures of one jitted function, each with its executable."""

    __slots__ = ("_entries",)

    def __init__(self):
        self._entries: caches.Latest[tuple, _Entry] = caches.Latest(_LIMIT)

    def __bool__(self):
        return bool(self._entries)

    def find(self, flat: Sequence, in_tree, static) -> _Entry | None:
        """The program for these arguments, if a call with the same signature was added before."""
        parts = _parts(flat)
        if parts is None:
            return None
        found = self._entries.get((in_tree, static, config.trace_context(), *map(id, parts)))
        if found is None:
            return None
        for x in flat:
            if x.is_deleted():
                return None  # the full path says which argument it was
        return found

    def add(self, flat: Sequence, in_tree, static, executable, out_tree) -> None:
        """Adds the signature of a call that has just run."""
        parts = _parts(flat)
        if parts is None:
            return
        key = (in_tree, static, config.trace_context(), *map(id, parts))
        self._entries[key] = _Entry(executable, out_tree, parts)

    def clear(self) -> None:
        self._entries.clear()


def _parts(flat: Sequence) -> list | None:
    """Types, shardings and commitment of native arrays and keys; None if any argument is something else."""
    out: list = []
    for x in flat:
        if type(x) is KeyArray:
            out.append(x.aval.dtype)
            x = x.base
        if type(x) is not _arrays.ArrayImpl:
            return None
        out += (x.aval, x._sharding, x._committed)
    return out
