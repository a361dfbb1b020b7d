"""A worker process for native passes that may crash: started at first use, restarted when it dies.

A task is a generator function of this room. It runs in the worker, which sends back what it yields; where the worker ends, or
has to be ended after too long a time, the reason comes back as a sentence. The two speak over a pair of sockets that have no name, so
no other process can; the worker ends with the process that started it, and no interrupt of that process reaches it.

Example:
    >>> run(divisors, 12)
    ([1, 2, 3, 4, 6, 12], '')
    >>> run(divisors, 10**12, limit=0.1)[1]
    'it took longer than 0.1 s and was ended'
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

LIMIT = 60.0
"""Seconds that a task may take."""

_HEAD = struct.Struct(">Q")
_START = "import sys; sys.path[:] = sys.argv[1:]; from xlab.backend import worker; worker.serve()"


class TaskError(RuntimeError):
    """A task raised an error, which is the message."""


_lock = threading.Lock()
_kept: _Worker | None = None


def run(
    task: Callable[..., Iterator[Any]], *args: Any, limit: float | None = None
) -> tuple[list[Any], str]:
    """The values a task yields, and why it stopped early (empty if it finished); raises the task's errors."""
    global _kept
    with _lock:
        try:
            if _kept is not None and not _kept.alive():
                _kept.end()
                _kept = None
            if _kept is None:
                _kept = _Worker()
            worker = _kept
        except OSError as error:
            return [], f"its process did not start: {error}"
        try:
            pieces, why = worker.run(task, args, LIMIT if limit is None else limit)
        except TaskError:
            raise
        except (
            BaseException
        ):  # an interrupt: the answer would come after the caller stopped waiting
            _kept = None
            worker.end()
            raise
        if why and not worker.alive():
            with contextlib.suppress(OSError):  # while the caller goes on
                _kept = _Worker()
        return pieces, why


def process_id() -> int | None:
    """The id of the worker's process, None where there is none."""
    return _kept.process.pid if _kept is not None and _kept.alive() else None


class _Worker:
    """The worker process and the parent's end of the connection."""

    def __init__(self) -> None:
        if not sys.executable:
            raise FileNotFoundError("sys.executable names no Python to run")
        self.link, theirs = socket.socketpair()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        try:
            # Isolated from the caller's folder and environment, importing from where this process does; out of reach of its interrupts.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, _root(), *filter(None, sys.path)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=self.said,
                start_new_session=True,
            )
        except BaseException:
            self.link.close()
            self.said.close()
            raise
        finally:
            theirs.close()

    def alive(self) -> bool:
        return self.process.poll() is None

    def run(
        self, task: Callable[..., Iterator[Any]], args: tuple, limit: float
    ) -> tuple[list[Any], str]:
        pieces: list[Any] = []
        over = time.monotonic() + limit
        try:
            _send(self.link, (task.__module__, task.__name__, args, limit), over)
            while True:
                kind, piece = _receive(self.link, over)
                if kind == "end":
                    break
                pieces.append(piece)
        except TimeoutError:
            self.end()
            return pieces, f"it took longer than {limit:g} s and was ended"
        except OSError:  # it closed its end
            return pieces, self._crash_report(limit)
        if piece is not None:
            raise piece
        return pieces, ""

    def _crash_report(self, limit: float) -> str:
        """How the process ended, as text."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        status = self.process.poll()
        said = self._stderr_tail(erred=status is not None and status > 0)
        self.end()
        if status == -signal.SIGALRM:
            return f"it took longer than {limit:g} s and was ended"
        name = (
            signal.Signals(-status).name
            if status is not None and -status in set(signal.Signals)
            else f"status {status}"
        )
        return f"its process ended with {name}" + (f": {said}" if said else "")

    def _stderr_tail(self, erred: bool) -> str:
        """The failed check in the worker's stderr, without time and thread; after an error, the last line."""
        size = os.fstat(self.said.fileno()).st_size
        lines = (
            os.pread(self.said.fileno(), 4000, max(0, size - 4000))
            .decode(errors="replace")
            .splitlines()
        )
        told = [
            line
            for line in lines
            if "Check failed" in line or "LLVM ERROR" in line or "Assertion" in line
        ]
        last = (
            told[-1].rpartition("] ")[2].removeprefix("LLVM ERROR: ")
            if told
            else lines[-1]
            if erred and lines
            else ""
        )
        return last[:300]

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.link.close()
        if self.alive():
            self.process.kill()
        self.process.wait()
        self.said.close()

    def forget(self) -> None:
        """Forgets the worker in a forked process: it belongs to the parent."""
        self.link.close()
        self.said.close()
        self.process.returncode = 0


def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _send(link: socket.socket, message: Any, over: float | None = None) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    link.settimeout(None if over is None else max(0.001, over - time.monotonic()))
    link.sendall(_HEAD.pack(len(data)) + data, getattr(socket, "MSG_NOSIGNAL", 0))


def _receive(link: socket.socket, over: float | None = None) -> Any:
    def read(count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            link.settimeout(None if over is None else max(0.001, over - time.monotonic()))
            part = link.recv(min(count - len(found), 1 << 20))
            if not part:
                raise ConnectionResetError
            found += part
        return bytes(found)

    return pickle.loads(read(_HEAD.unpack(read(_HEAD.size))[0]))


def _forget() -> None:
    global _kept, _lock
    _lock = threading.Lock()
    if _kept is not None:
        _kept.forget()
        _kept = None


def _end() -> None:
    global _kept
    if _kept is not None:
        _kept.end()
        _kept = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(_end)


# ---------------------------------------------------------------------------------------------------- in the worker


def serve() -> None:
    """Carries out tasks until the other end of the connection is closed."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(fileno=os.dup(0))
    try:
        while True:
            module, name, args, limit = _receive(link)
            # Native code that never returns is ended by the system, even if no caller waits any more.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, limit + 1)
            failed = None
            try:
                for piece in getattr(importlib.import_module(module), name)(*args):
                    _send(link, ("piece", piece))
            except OSError:
                raise
            except Exception as error:
                failed = TaskError(f"{type(error).__name__}: {error}")
            signal.setitimer(signal.ITIMER_REAL, 0)
            _send(link, ("end", failed))
    except OSError:
        os._exit(0)


def divisors(n: int) -> Iterator[int]:
    """A task to show how tasks work.

    >>> list(divisors(6))
    [1, 2, 3, 6]
    """
    return (d for d in range(1, n + 1) if n % d == 0)
