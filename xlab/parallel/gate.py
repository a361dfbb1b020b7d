"""The gate before programs that span several processes, and the log of what each started.

A *gate* is where a process says which program it is about to start and hears what the others say, in the key-value store of the
coordination service. Different programs, a process that ended with an error or that does not come are then an error in Python before
anything runs: the collectives of the runtime would wait, or mix the values of different programs.

Every gate has one *verdict*: that all start, or why none does. It is a key that can be set once, by process 0 when it has seen that all are at
the same program, or by the first that finds that they are not, gives up waiting or is interrupted. All obey it, so that none starts a program
that another one has just given up. Waiting is done in short turns, so that an interrupt ends it.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Any

from xlab import events
from xlab.backend import processes as _processes
from xlab.compile import launching
from xlab.core.source_info import describe_caller
from xlab.errors import JaxRuntimeError, ProcessesApart, ProcessesLate

_TURN_MS = 50
_ALL_SAID_S = 0.3
"""Seconds in which the others may tell what they start, once two have told different programs."""

_SEPARATOR = "\x1f"
_GO = "go"
_VERDICT, _ENDED = "verdict", "ended"
_NOTHING_RAN = "Nothing was run and all names are as they were"


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
    limit_s = 60.0
    waiting: Started | None = None
    started: list[Started] = []


_cell = _Cell()
_lock = threading.Lock()


def begin(title: str, epoch: int, *, gate: str, limit: float) -> None:
    """Begins a cell, called `title` in errors: all processes count their programs from 0 again. `epoch` is a number that no cell had before.

    `gate` says before which programs they agree: `"launch"` for each, `"compile"` for each that they have not agreed on before, `"off"` for none.
    At a gate one that does not come is waited for `limit` seconds.
    """
    _cell.title, _cell.epoch, _cell.passed = title, epoch, 0
    _cell.waiting, _cell.started = None, []
    _cell.limit_s, _cell.once = limit, gate == "compile"
    launching.set_gate(None if gate == "off" else ask)


def end(error: str = "") -> None:
    """Ends the cell: the others, if they wait for this process, hear that it will not come, and why."""
    if launching.gate is None:
        return
    launching.set_gate(None)
    link, index, _ = _processes.coordination()
    count = len(_cell.started)
    said = f"ended the cell{f' with {error}' if error else ''} after {count} program{'s' * (count != 1)}"
    with contextlib.suppress(Exception):  # the group may be gone
        link.key_value_set(_key(index, _ENDED), said, allow_overwrite=True)
        if index == 0:
            link.key_value_delete(f"xlab/gate/{_cell.epoch - 2}/")


def started() -> list[Started]:
    """The programs over several processes that this one started in the cell."""
    return list(_cell.started)


def waiting() -> Started | None:
    """The program at whose gate this process is."""
    return _cell.waiting


def _key(name: int | str, gate: int | str | None = None) -> str:
    return f"xlab/gate/{_cell.epoch}/{_cell.passed if gate is None else gate}/{name}"


def ask(executable: Any) -> None:
    """Waits until every process of the group is about to start this very program.

    Raises:
        ProcessesApart: another process starts another program, or has ended its cell.
        ProcessesLate: one did not come within the time limit, or gave up.
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
            with events.span("gate", name=executable.name, line=line):
                pass_gate(Gate(link, index, count, here))
        finally:
            _cell.waiting = None
            # Also where nothing starts: all processes that come here are told so.
            _cell.passed += 1
        _cell.started.append(here)
        executable._agreed_on = True


def _line() -> str:
    """The user's line; the cell, where the cell is the program."""
    line = describe_caller()
    return _cell.title if line.startswith(("<string>", "an unknown")) else line


@dataclass
class Gate:
    """Where process `index` of `count` is about to start a program, and what it knows of the others by `link`."""

    link: Any
    index: int
    count: int
    here: Started

    def say(self) -> None:
        """Tells what is about to start here."""
        mine = _SEPARATOR.join((self.here.name, self.here.fingerprint, self.here.line))
        self.link.key_value_set(_key(self.index), mine, allow_overwrite=True)

    def said(self) -> dict[int, str]:
        """What the processes at this gate are about to start."""
        return _by_process(self.link.key_value_dir_get(_key("")))

    def ended(self) -> dict[int, str]:
        """How those left the cell that come to no gate any more."""
        return _by_process(self.link.key_value_dir_get(_key("", _ENDED)))

    def hears(self, name: int | str, wait_ms: int) -> str | None:
        """What a process says here, or the verdict; waited for so long."""
        with contextlib.suppress(JaxRuntimeError):  # nothing came in time
            return self.link.blocking_key_value_get(_key(name), wait_ms)
        return None

    def verdict(self, wait_ms: int) -> str | None:
        return self.hears(_VERDICT, wait_ms)

    def decide(self, verdict: str) -> str:
        """Sets the verdict where there is none; the one that holds."""
        with contextlib.suppress(JaxRuntimeError):
            self.link.key_value_set(_key(_VERDICT), verdict)
            return verdict
        return self.link.blocking_key_value_get(_key(_VERDICT), 5000)


def _by_process(found: list[tuple[str, str]]) -> dict[int, str]:
    named = ((key.rpartition("/")[2], said) for key, said in found)
    return {int(name): said for name, said in named if name != _VERDICT}


def pass_gate(gate: Gate) -> None:
    """Returns where all start the program; raises what the verdict says otherwise."""
    here = gate.here
    try:
        verdict = _at_once(gate) or _verdict(gate)
    except KeyboardInterrupt:
        told = (
            f"process {gate.index} was interrupted at `{here.name}` ({here.line}). {_NOTHING_RAN}"
        )
        if gate.decide(f"{ProcessesLate.__name__}{_SEPARATOR}{told}") != _GO:
            raise
        # The others start it and would wait for this one.
        threading.Timer(0.1, _thread.interrupt_main).start()
        return
    if verdict != _GO:
        kind, _, told = verdict.partition(_SEPARATOR)
        raise (ProcessesApart if kind == ProcessesApart.__name__ else ProcessesLate)(told)


def _at_once(gate: Gate) -> str | None:
    """The verdict where all come within a turn, with as few questions as there can be: what process 0 starts, the others need not read then."""
    if gate.index != 0:
        gate.say()
        return gate.verdict(_TURN_MS)
    if gate.count > 1:
        other = gate.hears(1, _TURN_MS)
        if gate.count > 2 or other is None or other.split(_SEPARATOR)[1] != gate.here.fingerprint:
            gate.say()
            return None
    return gate.decide(_GO)


def _verdict(gate: Gate) -> str:
    """Waits for the verdict, or comes to it."""
    limit, apart_since = time.monotonic() + _cell.limit_s, None
    gone: dict[int, str] = {}
    while True:
        said = gate.said()
        missing = [i for i in range(gate.count) if i not in said]
        apart = bool(gone) or len({x.split(_SEPARATOR)[1] for x in said.values()}) > 1
        if apart:
            apart_since = apart_since or time.monotonic()
            if set(missing) <= set(gone) or time.monotonic() - apart_since > _ALL_SAID_S:
                return gate.decide(f"{ProcessesApart.__name__}{_SEPARATOR}{_apart(said, gone)}")
        elif not missing and gate.index == 0:
            return gate.decide(_GO)
        # Process 0 waits for the others, they for what it says.
        if came := gate.hears(missing[0] if gate.index == 0 else _VERDICT, _TURN_MS):
            if gate.index != 0:
                return came
            continue
        if verdict := gate.verdict(1):
            return verdict
        gone = {i: told for i, told in gate.ended().items() if i in missing}
        if not gone and time.monotonic() > limit:
            # Where all have been here, process 0 ended before it said so.
            return gate.decide(f"{ProcessesLate.__name__}{_SEPARATOR}{_late(missing or [0], gate.here)}")  # fmt: skip


def _late(missing: list[int], here: Started) -> str:
    return (
        f"process{'es' * (len(missing) > 1)} {_numbers(missing)} did not come to `{here.name}` ({here.line}) within {_cell.limit_s:g} s "
        f"(gate_timeout). {_NOTHING_RAN}"
    )


def _apart(said: dict[int, str], ended: dict[int, str]) -> str:
    saying: dict[str, list[int]] = {}
    for process, told in sorted((said | ended).items()):
        if process not in ended:
            name, mark, line = told.split(_SEPARATOR)
            told = f"start `{name}` ({line}, program {mark})"
        saying.setdefault(told, []).append(process)
    told = "; ".join(
        f"process{'es' * (len(who) > 1)} {_numbers(who)} {_verb(what, who)}"
        for what, who in saying.items()
    )
    return (
        f"the processes are not at the same program: {told}. {_NOTHING_RAN}. Python that depends on "
        f"process_index, the clock, the order of a set or a local file must not choose the program"
    )


def _verb(what: str, who: list[int]) -> str:
    return f"starts{what[5:]}" if what.startswith("start ") and len(who) == 1 else what


def _numbers(found: list[int]) -> str:
    return ", ".join(map(str, found))
