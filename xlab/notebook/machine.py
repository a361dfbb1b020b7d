"""The operating system's part of a group of processes: which there are, how they fare, and that none outlives the kernel."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_REAPER = """
import os, shutil, signal, sys
pids = []
for line in sys.stdin:
    pids = line.split()
for pid in pids:
    try:
        said = open(f"/proc/{pid}/cmdline").read()
        if "ipyparallel" in said or "ipcontroller" in said or "ipengine" in said:
            os.kill(int(pid), signal.SIGKILL)
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
"""Runs beside the kernel and ends the processes when the kernel ends, however it does: then its standard input ends."""


class Reaper:
    """A process beside the kernel that ends the group's processes and removes its folder when the kernel ends."""

    def __init__(self, folder: str):
        self._process: Any = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _REAPER, folder],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid: int = self._process.pid

    def watch(self, pids: Sequence[int]) -> None:
        """From now on these are the processes that end with the kernel."""
        with contextlib.suppress(OSError):
            self._process.stdin.write(" ".join(map(str, pids)) + "\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Ends them now."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def package_root() -> str:
    import xlab

    return os.path.dirname(os.path.dirname(os.path.abspath(xlab.__file__)))


def own_name() -> str:
    return socket.gethostname()


def own_host() -> str:
    """The address of this machine by which others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks for the way there
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def state(pid: int) -> str:
    """`"running"`, `"stopped"` or `"gone"`."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
    return {"Z": "gone", "X": "gone", "T": "stopped", "t": "stopped"}.get(letter, "running")


def endings(engines: Any) -> dict[int, tuple[int | None, list[str]]]:
    """How engines ended that one of ipyparallel's launchers started here: by their pid the exit code, negative for a signal, and the end of the log."""
    found = {}
    for launcher in launchers(engines):
        if state(launcher.pid) == "gone":
            code = None
            with contextlib.suppress(Exception):  # still waited for
                code = launcher.process.wait(timeout=0.5)
            found[launcher.pid] = code, last_lines(launcher.get_output())
    # Where an event loop runs, as in a kernel, the launcher is gone already and has left what it knew.
    for key, told in (getattr(engines, "stop_data", None) or {}).get("engines", {}).items():
        found[told["pid"]] = told["exit_code"], last_lines(engines.outputs.get(key, ""))
    return found


def launchers(engines: Any) -> list[Any]:
    """Of ipyparallel's launcher of engines, those that started a process here."""
    found = list(getattr(engines, "launchers", {}).values())
    return [x for x in found if getattr(x, "process", None) is not None]


_CHATTER = re.compile(r"\[Gloo\]|\d{4}-\d\d-\d\d \S+ \[(IPEngine|KernelNanny)")


def last_lines(text: str, lines: int = 6) -> list[str]:
    """The last lines of a log that a program wrote, not what carries its cells and blocks.

    >>> last_lines("out of luck\\n2026-01-02 03:04:05.6 [IPEngine.1] Handling apply_request: 1\\n[Gloo] Rank 3 is connected\\n")
    ['out of luck']
    """
    told = [x.rstrip() for x in text.splitlines() if x.strip() and not _CHATTER.match(x)]
    return told[-lines:]


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and that those started."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(
                    int(name)
                )
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


@contextlib.contextmanager
def environment(given: dict[str, str]) -> Iterator[None]:
    """Processes started in the block have these variables."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
