"""Python's collector of cycles, kept waiting while something is made that stays alive as a whole. Ground floor."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is collected in the block: among what importing a room makes, or a report, there is no garbage to find.

    Example:
        >>> import gc
        >>> with paused():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
