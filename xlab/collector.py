"""Python's collector of cycles, kept waiting, or at work less often, while something is made that stays alive as a whole. Ground floor."""

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


_STRIDE = 20_000
"""New objects before the youngest are looked through, while a program is traced: it has ten an equation, and all stay."""


@contextmanager
def in_strides() -> Iterator[None]:
    """The collector comes less often in the block, and so walks over the old objects less often still; cycles do not pile up.

    Where a program has turned it off, or lets it come less often by itself, nothing changes.

    Example:
        >>> with in_strides():
        ...     gc.get_threshold()[0]
        20000
    """
    given = gc.get_threshold()
    if not 0 < given[0] < _STRIDE:
        yield
        return
    gc.set_threshold(_STRIDE, *given[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _STRIDE:  # else the block has set its own
            gc.set_threshold(*given)
