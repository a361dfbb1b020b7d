"""Groups of processes for tests: what runs in them, and what has to be true after whatever happened."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.descriptors import descriptors
from tests.waiting import becomes
from xlab.notebook import machine

MARKS = [
    pytest.mark.slow,
    pytest.mark.xdist_group("processes"),
    # What ipyparallel and the event loops it starts do when a group ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
"""Of the tests that start groups of processes."""

SETUP = """
import os, signal, threading, time
import numpy as np
import xlab, xlab.numpy as jnp
from xlab.sharding import NamedSharding, P
me = xlab.process_index()
mesh = xlab.make_mesh((4,), ("x",))
x = xlab.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda at: np.arange(8, dtype=np.float32)[at])
kept = 7
"""


def computes(group) -> bool:
    """Whether the names are there and programs over both processes run."""
    answers = group.run("print(float(x.sum()), kept)")
    return [a["stdout"] for a in answers] == ["28.0 7\n"] * 2


def gone(pids: Iterable[int], seconds: float = 10) -> bool:
    """Whether these processes end in so many seconds."""
    return becomes(lambda: not any(alive(p) for p in pids), seconds)


def closed(ports: set[int], seconds: float = 10) -> bool:
    """Whether nobody listens at these ports in so many seconds."""
    return becomes(lambda: not ports & set(_listening().values()), seconds)


def alive(pid: int) -> bool:
    return machine.state(pid) != "gone"


def silent(address: str, seconds: float = 10) -> bool:
    """Whether nobody answers at `host:port` in so many seconds; a coordination service waits some for members that are gone."""
    return becomes(lambda: not _answers(address), seconds)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def _listening() -> dict[str, int]:
    """Ports that somebody of this machine listens at, by the socket's number."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def ports(pids: Iterable[int]) -> set[int]:
    """Ports that these processes listen at."""
    by_socket, found = _listening(), set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    kind, _, number = os.readlink(file).partition("[")
                    if kind == "socket:" and number[:-1] in by_socket:
                        found.add(by_socket[number[:-1]])
    return found


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails where the block waits longer."""

    def late(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Before:
    """A group as it was before a fault, and what has to hold after it."""

    def __init__(self, group):
        self.group, self.address = group, group.address
        self.pids = [*group._pids, group._reaper.pid]
        self.all = machine.descendants(os.getpid())
        self.ports = ports([os.getpid(), *self.pids])

    def unharmed(self) -> None:
        """The kernel computes, the same processes live, with the names that they had, and compute together, and no other process came."""
        assert machine.state(os.getpid()) == "running" and float(np.ones(3).sum()) == 3
        with within(30):
            assert computes(self.group)
        assert all(map(alive, self.pids))
        assert not [p for p in machine.descendants(os.getpid()) if p not in self.all and alive(p)]

    def lost(self, who: int) -> None:
        """The others compute, each by itself, with the names that they had; started anew, nothing is left of the group that was."""
        from xlab.notebook import engine

        for member in self.group.members:
            if member["index"] != who:
                one = self.group._client[member["engine"]]
                cell = "print(float(xlab.jit(jnp.sum)(jnp.arange(4.0))), kept)"
                answer = one.apply_async(engine.run, cell, None, 1, 10**6, "off", 1).get(timeout=20)
                assert answer["stdout"] == "6.0 7\n", answer
        with within(60):
            self.group.restart()
        assert gone(self.pids) and silent(self.address)
        assert closed(self.ports - ports([os.getpid(), *self.group._pids]))
        assert not [file for file in descriptors().values() if "xlab-processes" in file and "(deleted)" in file]  # fmt: skip
        self.group.run(SETUP)
        assert computes(self.group)
