"""The in-memory cache of programs, shared by all jits of one function, and clearing it.

It is cleared on request, and before the process runs out of memory maps.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from xlab.backend import caches
from xlab.compile.dispatch_cache import PythonDispatchCache
from xlab.compile.tracing import forget_tracings, identity
from xlab.core import source_info
from xlab.core.source_info import warn
from xlab.sharding import NamedSharding

_BETWEEN_LOOKS = 512  # compiles
_FULL = 0.75
_LIMIT = 4096
_compiles = itertools.count(1)
_numbers = itertools.count()
_of_functions: weakref.WeakKeyDictionary[Callable, dict[Hashable, Programs]] = (
    weakref.WeakKeyDictionary()
)
_holders: weakref.WeakSet[Programs] = weakref.WeakSet()
_lock = threading.RLock()  # hashing a function may run code of the user, which may make another jit


class Programs:
    """Lowered and compiled programs shared by all jits of one function with equal options, by cache key.

    `number` is their key in the native cache. That cache keeps its keys alive, and a number keeps nothing else alive.
    """

    __slots__ = ("__weakref__", "dispatch_cache", "executables", "lowered", "number")

    def __init__(self):
        self.number = next(_numbers)
        self.lowered: dict[tuple, Any] = {}
        self.executables: dict[tuple, Any] = {}
        self.dispatch_cache = PythonDispatchCache()

    def keep(self, programs: dict[tuple, Any], key: tuple, made: Any) -> None:
        """Stores a program in one of the two tables."""
        if len(programs) > _LIMIT:
            programs.clear()
        with _lock:
            _holders.add(self)
        programs[key] = made

    def forget(self) -> None:
        """Drops all of them."""
        self.lowered.clear()
        self.executables.clear()
        self.dispatch_cache.clear()


def program_key(closed: Any, placements: tuple, mesh: Any) -> tuple:
    """The cache key of one executable of a jitted function. Trailing Nones of specs are ignored."""
    return id(closed), tuple(map(shortest, placements)), mesh


def shortest(sharding: Any) -> Any:
    """The same sharding under its shortest spec.

    >>> from xlab.sharding import PartitionSpec, make_mesh
    >>> shortest(NamedSharding(make_mesh((1,), ("x",)), PartitionSpec("x", None))).spec
    P('x',)
    """
    if (
        type(sharding) is not NamedSharding
        or not len(sharding.spec)
        or sharding.spec[-1] is not None
    ):
        return sharding
    used = len(sharding.spec)
    while used and sharding.spec[used - 1] is None:
        used -= 1
    return NamedSharding(
        sharding.mesh,
        sharding.spec.update(partitions=sharding.spec[:used]),
        memory_kind=sharding.memory_kind,
    )


# Functions whose programs were all made to be looked at: whether what they read is still as it was.
_looked_at: weakref.WeakKeyDictionary[Callable, Callable[[], bool]] = weakref.WeakKeyDictionary()


def is_used(fun: Callable) -> bool:
    """Whether a function has executables that were not made to be looked at; so too where nobody can know."""
    fun, _ = identity(fun)
    try:
        return fun not in _looked_at and any(
            programs.executables for programs in _of_functions.get(fun, {}).values()
        )
    except TypeError:
        return True


def note_view(fun: Callable, still: Callable[[], bool]) -> None:
    """Says that what a function will have was made to be looked at: the next jit of it finds that only if `still()`.

    What it was traced to and not compiled is dropped: it may have read other values.
    """
    fun, _ = identity(fun)
    with suppress(TypeError):
        if fun not in _looked_at:
            forget_tracings(fun)
        _looked_at[fun] = still


def _forget_looks(fun: Callable) -> None:
    still = _looked_at.pop(fun, None)
    if still is None or still():
        return
    forget_tracings(fun)
    with _lock:
        _of_functions.pop(fun, None)


def programs_of(fun: Callable, options: tuple) -> Programs:
    """The programs of a function under these options of `jit`; new ones where one of the two has no hash."""
    fun, path = identity(fun)
    try:
        if _looked_at:
            _forget_looks(fun)
        with _lock:
            return _of_functions.setdefault(fun, {}).setdefault((path, options), Programs())
    except TypeError:
        return Programs()


def clear_caches() -> None:
    """Forgets every traced, lowered and compiled program of this process; functions in use compile again.

    Example:
        >>> import xlab
        >>> xlab.clear_caches()
    """
    caches.clear_all()


@caches.register
def _forget() -> None:
    with _lock:
        known = list(_holders)
        _holders.clear()
    for programs in known:
        programs.forget()


def make_room() -> None:
    """Before a compile: forgets all programs when they have used up most of the memory maps that Linux grants a process.

    Every program takes some. When none is left, native code cannot allocate memory any more and ends the process.
    """
    if next(_compiles) % _BETWEEN_LOOKS:
        return
    used, granted = memory_maps()
    if used > _FULL * granted:
        clear_caches()
        warn(
            f"this process has {used} of the {granted} memory maps that it may have, most of them parts of compiled programs, so "
            f"xlab.clear_caches() was called: functions compile again when they are called next. Does a loop around "
            f"{source_info.describe_caller()} make a new jitted function, or a new shape, in every round?",
            RuntimeWarning,
        )


def memory_maps() -> tuple[int, float]:
    """How many memory maps the process has, and how many it may have; `(0, inf)` where the system does not say."""
    try:
        with open("/proc/sys/vm/max_map_count") as limit, open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps), int(limit.read())
    except OSError:
        return 0, float("inf")
