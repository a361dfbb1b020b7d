"""Processes that run one notebook: the gate before programs that span them, and the log of what each started.

A *gate* is where a process says which program it is about to start and reads what the others say, in the key-value store of the
coordination service. Different programs, a process that ended with an error or that does not come are then an error in Python before
anything runs: the collectives of the runtime would wait, or mix the values of different programs. Waiting is done in short turns, so that an
interrupt ends it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from xlab import events
from xlab.backend import processes as _processes
from xlab.compile import launching
from xlab.core.source_info import describe_caller
from xlab.errors import ProcessesApart, ProcessesLate
from xlab.parallel import across as _across  # noqa: F401  # says how arrays move between processes

_TURN_MS = 50
_ENDED = "!"
_SEPARATOR = "\x1f"


@dataclass
class Started:
    """One program that this process started, or is about to start."""

    number: int
    name: str
    fingerprint: str
    line: str
    begun: float


class _Cell:
    """The cell that this process is in: its number of gates passed, and the programs started."""

    title = "the cell"
    epoch = 0
    passed = 0
    once = False
    waiting: Started | None = None
    started: list[Started] = []


_cell = _Cell()
_limit_s: float = 60.0
_lock = threading.Lock()


def free_address(host: str = "127.0.0.1") -> str:
    """`host:port` with a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def serve(address: str, count: int, *, heartbeat: int, start: int = 60) -> Any:
    """Starts the coordination service of a group in a process that is no member of it, so that any member may die."""
    return _processes.serve(address, count, start_s=start, heartbeat_s=heartbeat, shutdown_s=5)


def join(address: str, count: int, index: int, *, heartbeat: int, collective_timeout: int) -> None:
    """Makes this process a member of a group whose service is elsewhere."""
    _processes.join(
        address,
        count,
        index,
        start_s=60,
        heartbeat_s=heartbeat,
        shutdown_s=5,
        collective_s=collective_timeout,
    )


def begin(title: str, epoch: int, *, gate: str, limit: float) -> None:
    """Begins a cell, called `title` in errors: all processes count their programs from 0 again. `epoch` is a number that no cell had before.

    `gate` says before which programs they agree: `"launch"` for each, `"compile"` for each that they have not agreed on before, `"off"` for none.
    """
    global _limit_s
    _cell.title, _cell.epoch, _cell.passed = title, epoch, 0
    _cell.waiting, _cell.started = None, []
    _limit_s = limit
    _cell.once = gate == "compile"
    launching.set_gate(None if gate == "off" else ask)


def end(error: str = "") -> None:
    """Ends the cell: the others, if they wait for this process, hear that it will not come, and why."""
    if launching.gate is None:
        return
    launching.set_gate(None)
    link, index, _ = _processes.coordination()
    said = f"ended the cell{f' with {error}' if error else ''} after {_cell.passed} program{'s' * (_cell.passed != 1)}"
    with contextlib.suppress(Exception):  # the group may be gone
        link.key_value_set(_key(index), _ENDED + said, allow_overwrite=True)
        if index == 0:
            link.key_value_delete(f"xlab/gate/{_cell.epoch - 2}/")


def started() -> list[Started]:
    """The programs over several processes that this one started in the cell."""
    return list(_cell.started)


def waiting() -> Started | None:
    """The program at whose gate this process is."""
    return _cell.waiting


def resident_bytes() -> int | None:
    """Bytes of memory that this process holds; None where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _key(index: int | str) -> str:
    return f"xlab/gate/{_cell.epoch}/{_cell.passed}/{index}"


def ask(executable: Any) -> None:
    """Waits until every process of the group is about to start this very program.

    Raises:
        ProcessesApart: another process starts another program, or has ended its cell.
        ProcessesLate: one did not come within the time limit.
    """
    link, index, count = _processes.coordination()
    if link is None or {d.process_index for d in executable.devices} != set(range(count)):
        return  # a program over some of the processes, which the others know nothing of
    if _cell.once and "_agreed_on" in executable.__dict__:
        return
    with _lock:
        mark = launching.fingerprint(executable)
        line = _line()
        here = Started(_cell.passed, executable.name, mark, line, time.time())
        _cell.waiting = here
        try:
            mine = _SEPARATOR.join((executable.name, mark, line))
            with events.span("gate", name=executable.name, line=line):
                link.key_value_set(_key(index), mine, allow_overwrite=True)
                _await(link, count, here)
        finally:
            _cell.waiting = None
        _cell.passed += 1
        _cell.started.append(here)
        executable._agreed_on = True


def _line() -> str:
    """The user's line; the cell, where the cell is the program."""
    line = describe_caller()
    return _cell.title if line.startswith(("<string>", "an unknown")) else line


def _await(link: Any, count: int, here: Started) -> None:
    limit = time.monotonic() + _limit_s
    while True:
        found = {int(k.rpartition("/")[2]): v for k, v in link.key_value_dir_get(_key(""))}
        if (
            any(v.startswith(_ENDED) for v in found.values())
            or len({v.split(_SEPARATOR)[1] for v in found.values()}) > 1
        ):
            raise ProcessesApart(_apart(found))
        missing = [i for i in range(count) if i not in found]
        if not missing:
            return
        if time.monotonic() > limit:
            raise ProcessesLate(
                f"process{'es' * (len(missing) > 1)} {_numbers(missing)} did not come to `{here.name}` ({here.line}) within {_limit_s:g} s "
                f"(gate_timeout). Nothing was run and all names are as they were"
            )
        with contextlib.suppress(Exception):  # nobody came in this turn
            link.blocking_key_value_get(_key(missing[0]), _TURN_MS)


def _apart(found: dict[int, str]) -> str:
    saying: dict[str, list[int]] = {}
    for process, said in sorted(found.items()):
        if said.startswith(_ENDED):
            saying.setdefault(said[1:], []).append(process)
        else:
            name, mark, line = said.split(_SEPARATOR)
            saying.setdefault(f"start `{name}` ({line}, program {mark})", []).append(process)
    told = "; ".join(
        f"process{'es' * (len(who) > 1)} {_numbers(who)} {_verb(what, who)}"
        for what, who in saying.items()
    )
    return (
        f"the processes are not at the same program: {told}. Nothing was run and all names are as they were. Python that depends on "
        f"process_index, the clock, the order of a set or a local file must not choose the program"
    )


def _verb(what: str, who: list[int]) -> str:
    return f"starts{what[5:]}" if what.startswith("start ") and len(who) == 1 else what


def _numbers(found: list[int]) -> str:
    return ", ".join(map(str, found))
