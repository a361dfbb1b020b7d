"""Threads that are inside host callbacks, and which programs of several devices they may start.

Where devices wait for one another, a program needs a native thread per device, in each of the runtime's two pools. A callback may hold one of these: it
runs on the thread that started its program only where that program was small and ready to run. So the client is made with `SPARE`
threads more than it has devices, and while more callbacks than that hold one, none of them may start such a program.

A device runs its part of a program of several devices when the one before has ended. So a callback *of* a program of several devices may start none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from xlab.backend import native, scheduling, watchdog

SPARE = 8
"""Native threads that the runtime gets besides one per device."""
_SIZES = ("PJRT_NPROC", "NPROC")  # where the runtime looks up how many threads it may have

spare = 0
"""How many callbacks may hold a native thread while devices wait for one another."""


@contextlib.contextmanager
def room_for_callbacks(devices: int) -> Iterator[None]:
    """A client of that many devices that is made inside has spare threads, unless the user said how many it may have."""
    global spare
    given = [int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdigit()]
    if given or devices == 1:
        spare = max(0, min(given, default=1) - devices)
        yield
        return
    threads = max(scheduling.processors(), devices + SPARE)
    spare = threads - devices
    os.environ[_SIZES[0]] = str(threads)
    try:
        yield
    finally:
        os.environ.pop(_SIZES[0], None)


class _Here(threading.local):
    """Of the current thread: callbacks it is inside of, those of them that programs of several devices called, programs it is starting."""

    callbacks = joint = starting = 0


_here = _Here()
_held: set[int] = set()  # native threads that are inside a callback
_admitted: set[int] = set()  # those of them that wait for devices that wait for one another


@contextlib.contextmanager
def inside(joint: bool = False) -> Iterator[None]:
    """The block is a host callback; `joint` says that its program has several devices."""
    me = threading.get_ident()
    holds = not _here.callbacks and not _here.starting
    _here.callbacks += 1
    if joint:
        _here.joint += 1
        native.CALLED_BACK.set_local(True)
    if holds:
        _held.add(me)
        watchdog.calling.add(me)
    try:
        yield
    finally:
        _here.callbacks -= 1
        if joint:
            _here.joint -= 1
            if not _here.joint:
                native.CALLED_BACK.set_local(native.UNSET)
        if holds:
            _held.discard(me)
            _admitted.discard(me)
            watchdog.calling.discard(me)


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """A callback inside the block runs on the thread that started it, and holds none of the runtime's."""
    _here.starting += 1
    try:
        yield
    finally:
        _here.starting -= 1


def is_inside() -> bool:
    """Whether the current thread is inside a host callback."""
    return _here.callbacks > 0


def check(devices: int) -> None:
    """Raises where a program of that many devices would wait for the callback that starts it."""
    if devices > 1 and _here.joint:
        raise RuntimeError(
            "A program of several devices was started inside a host callback of another one. These devices run it when the program "
            "that calls back has ended, and both would wait forever: compute on one device there, or start that program before "
            "and pass its result."
        )


def admit() -> None:
    """Raises where devices that wait for one another would wait for the callback that starts their program."""
    check(2)
    me = threading.get_ident()
    if me not in _held or me in _admitted:
        return
    if len(_held) > spare:
        raise RuntimeError(
            f"A program in which devices wait for one another was started inside a host callback, while {len(_held)} callback(s) hold "
            f"threads of the runtime, which has {spare} more than these devices need. Start that program before and pass its result, "
            "let fewer callbacks run at a time, or set the environment variable PJRT_NPROC to more threads before the first use of a device."
        )
    _admitted.add(me)


def wait_patiently(step: Callable[[float], bool]) -> None:
    """Repeats `step(seconds)`, which waits that long and says whether the wait is over, inside a callback.

    Raises:
        RuntimeError: nothing has moved for `config.collective_timeout` seconds, as where what is waited for waits for this callback.
    """
    with watchdog.waiting():
        stood_still = watchdog.Stillness()
        while not step(0.02):
            if stood_still():
                raise RuntimeError(
                    "A program in which devices wait for one another was started inside a host callback and waits for the one before to "
                    "end, which has not moved: it may itself wait for this callback. Start one of them earlier and pass its result. "
                    "config.collective_timeout sets how long to wait."
                )


def wait_for_token(token: Any) -> None:
    """Waits inside a callback until a program has ended, whatever its end."""
    over = threading.Event()

    def wait() -> None:
        with contextlib.suppress(Exception):  # the caller of that program gets its error
            token.block_until_ready()
        over.set()

    threading.Thread(target=wait, name="xlab-turn", daemon=True).start()
    wait_patiently(over.wait)
