"""Python's collector of cycles, kept waiting while something is made that stays alive as a whole. Ground floor."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(*, stays: bool = False) -> Iterator[None]:
    """Nothing is collected in the block: among what importing a room makes, or a report, there is no garbage to find.

    Args:
        stays: what the block made is old at once, as what has survived collections is. Otherwise the first allocation
            after the block walks over all of it, young as it is.

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
            if stays and not gc.get_freeze_count():  # what a program has frozen itself stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
