"""Ends the wait for a program whose devices are deadlocked in collectives.

A collective holds a thread per device until all devices of its group have come. If some never do, the runtime waits, and after a minute
ends the process. A program that may deadlock is *watched*: every wait while it runs polls, and raises an exception when the
native threads have been idle for long enough. The threads stay occupied: a started program cannot be cancelled.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlab.backend import parts as _parts
from xlab.config import config
from xlab.errors import CollectiveTimeoutError

GRACE = 3600
"""Seconds after which the runtime ends a process of which a collective is stuck; its own choice of 40 would leave nothing to save."""

_flags_lock = threading.RLock()


class flags:
    """Context manager: native code that reads its flags inside finds these in `XLA_FLAGS`, unless the user set others."""

    def __init__(self, **given: int):
        self.given = given

    def __enter__(self):
        _flags_lock.acquire()
        self.before = os.environ.get("XLA_FLAGS")
        added = [f"--{k}={v}" for k, v in self.given.items() if k not in (self.before or "")]
        os.environ["XLA_FLAGS"] = " ".join(filter(None, (self.before, *added)))

    def __exit__(self, *exc_info):
        if self.before is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = self.before
        _flags_lock.release()


def long_collective_timeout() -> flags:
    """Native code that reads its flags inside waits `GRACE` seconds for a stuck collective, unless told otherwise."""
    return flags(xla_cpu_collective_call_terminate_timeout_seconds=GRACE)


class Watched:
    """A running program that may deadlock: its results, and a function that describes the deadlock.

    `describe(ended, waiting)` is given numbers of devices in the program's order.
    """

    def __init__(
        self, results: Sequence[Any], describe: Callable[[list[int], list[int], float], str]
    ):
        self.results, self.describe = list(results), describe
        self.given_up = False

    def over(self) -> bool:
        """Whether the program has ended on all devices."""
        return all(map(_ready, self.results))

    def error(self, seconds: float) -> CollectiveTimeoutError:
        parts = [
            [_ready(part) for part in _parts.split(x)] for x in self.results if not x.is_deleted()
        ]
        count = max(map(len, parts), default=0)
        waiting = [i for i in range(count) if not all(p[i] for p in parts)]
        return CollectiveTimeoutError(
            self.describe([i for i in range(count) if i not in waiting], waiting, seconds)
        )


def _ready(x) -> bool:
    return x.is_deleted() or x.is_ready()


_current: Watched | None = None
calling: set[int] = set()
"""Native threads that are inside a host callback and do not wait: while there is one, waiting is no sign of anything."""
_waiting: set[int] = set()  # their ids in the system, while they do


class waiting:
    """Context manager: the current thread waits, even if it is inside a host callback."""

    def __enter__(self):
        self.me = threading.get_ident()
        self.in_callback = self.me in calling
        if self.in_callback:
            calling.discard(self.me)
            _waiting.add(threading.get_native_id())

    def __exit__(self, *exc_info):
        if self.in_callback:
            _waiting.discard(threading.get_native_id())
            calling.add(self.me)


def watch(run: Watched) -> None:
    """Watches a program: until it has ended, waits have a timeout."""
    global _current
    _current = run


def wait(ready: Callable[[], bool] | None = None) -> None:
    """Waits until `ready()`, or the watched program has ended; at once where none runs.

    Raises:
        CollectiveTimeoutError: its devices wait for one another, and have for `config.collective_timeout` seconds.
    """
    global _current
    run = _current
    if run is None:
        return
    if ready is None or run.over():
        ready = run.over
    pause = 2e-5
    with waiting():
        stood_still = Stillness()
        while not ready():
            if run.given_up or stood_still():
                run.given_up = True
                raise run.error(config.collective_timeout)
            time.sleep(pause)
            pause = min(1.5 * pause, 0.005)
    if run.over() and _current is run:
        _current = None


def current() -> Watched | None:
    return _current


class Stillness:
    """Called now and then, says whether the native threads of the process have been idle for `config.collective_timeout` seconds."""

    def __init__(self):
        self.looked = self.since = time.monotonic()
        self.used = _processor_seconds()

    def __call__(self) -> bool:
        limit = config.collective_timeout
        return 0 < limit <= self._idle()

    def _idle(self) -> float:
        now = time.monotonic()
        step = max(0.02, min(0.5, config.collective_timeout / 8))
        if now - self.looked < step:
            return self.looked - self.since
        if now - self.looked > 10 * step:  # the whole process stood still
            self.since += now - self.looked - step
        used, busy = _processor_seconds(), bool(calling)
        if (
            busy
            or used is None
            or self.used is None
            or used - self.used > 0.05 * (now - self.looked) + 0.011
        ):
            self.since = now
        self.looked, self.used = now, used
        return now - self.since


def _processor_seconds() -> float | None:
    """Processor time of all threads that are not Python's and do not wait; None when one of them runs at this moment."""
    ours = {str(t.native_id) for t in threading.enumerate()} | set(map(str, _waiting))
    try:
        threads = os.listdir("/proc/self/task")
    except (
        OSError
    ):  # other systems do not count per thread: all threads, of which the waiting one does little
        return time.process_time()
    ticks = 0
    for thread in threads:
        if thread in ours:
            continue
        try:
            with open(f"/proc/self/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if fields[0] in "RD":
            return None
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
