"""Programs in memory: forgetting all of them, when asked to and before the process runs out of memory maps."""

from __future__ import annotations

import itertools
import threading
import warnings
import weakref

from xlab.backend import caches
from xlab.core import source

_BETWEEN_LOOKS = 512            # compiles
_FULL = 0.75
_compiles = itertools.count(1)
_holders: weakref.WeakSet = weakref.WeakSet()
_lock = threading.Lock()


def clear_caches() -> None:
    """Forgets every traced, lowered and compiled program of this process; functions in use compile again.

    Example:
        >>> import xlab
        >>> xlab.clear_caches()
    """
    caches.clear_all()


def holds_programs(jitted) -> None:
    """Registers, weakly, what keeps compiled programs and has a method `forget`."""
    with _lock:
        _holders.add(jitted)


@caches.register
def _forget() -> None:
    with _lock:
        known = list(_holders)
        _holders.clear()
    for jitted in known:
        jitted.forget()


def make_room() -> None:
    """Before a compile: forgets all programs when they have used up most of the memory maps that Linux grants a process.

    Every program takes some. When none is left, native code cannot allocate memory any more and ends the process.
    """
    if next(_compiles) % _BETWEEN_LOOKS:
        return
    used, granted = memory_maps()
    if used > _FULL * granted:
        clear_caches()
        warnings.warn(f"this process has {used} of the {granted} memory maps that it may have, most of them parts of compiled programs, so "
                      f"xlab.clear_caches() was called: functions compile again when they are called next. Does a loop around "
                      f"{source.describe_caller()} make a new jitted function, or a new shape, in every round?", RuntimeWarning, stacklevel=2)


def memory_maps() -> tuple[int, float]:
    """How many memory maps the process has, and how many it may have; `(0, inf)` where the system does not say."""
    try:
        with open("/proc/sys/vm/max_map_count") as limit, open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps), int(limit.read())
    except OSError:
        return 0, float("inf")
