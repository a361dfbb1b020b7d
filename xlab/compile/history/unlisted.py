"""Compiles that are not listed: those for inspection only. Apart from the ledger, so that asking loads nothing else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_here = threading.local()


@contextlib.contextmanager
def unlisted() -> Iterator[None]:
    """In this block, compiles of this thread are not recorded: their programs are only inspected."""
    before = is_unlisted()
    _here.unlisted = True
    try:
        yield
    finally:
        _here.unlisted = before


def is_unlisted() -> bool:
    """Whether this thread is inside `unlisted`."""
    return getattr(_here, "unlisted", False)
