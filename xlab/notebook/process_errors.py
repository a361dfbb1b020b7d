"""The errors of a group of processes: one that names who, how, and what to do, from what all of them say."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from xlab.errors import ProcessesApart, ProcessesLate, ProcessFailed, ProcessLost
from xlab.observe.records.units import processes_text

Ending = tuple[int | None, list[str]]
"""Exit code, and the last lines of the log."""


def lost(
    gone: Sequence[int], endings: Sequence[Ending], others: Sequence[str], count: int, when: str
) -> ProcessLost:
    """Processes ended; `others` says where the rest is."""
    ways = {ended(code) for code, _ in endings}
    logs = [
        f"\nprocess {k} wrote last:\n" + "\n".join(f"  {line}" for line in lines)
        for k, (_, lines) in zip(gone, endings, strict=True)
        if lines
    ]
    rest = f" {'; '.join(others)}." if others else ""
    return ProcessLost(
        f"{processes_text(gone)} of {count} ended {when}: {', '.join(sorted(ways))}.{rest} "
        f"No process can take its place: %xprocesses restart starts the group anew{''.join(logs)}"
    )


def ended(code: int | None) -> str:
    """What an exit code means.

    >>> ended(3), ended(-11)
    ('exit code 3', 'signal SIGSEGV')
    """
    if code is None:
        return "killed, out of memory, or by an exit of its own"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    return f"signal {name}{', which is also what the system sends where memory is short' * (name == 'SIGKILL')}"


def raise_errors(answers: list[dict[str, Any]], number: int, count: int) -> None:
    """Raises what the processes' errors come to; nothing where there are none."""
    failed = [a for a in answers if a["error"]]
    if not failed:
        return
    own = [a for a in failed if a["error"]["kind"] not in ("ProcessesApart", "ProcessesLate")]
    if not own:
        late = [a for a in failed if a["error"]["kind"] == "ProcessesLate"]
        first = (late or failed)[0]["error"]
        kind = ProcessesApart if first["kind"] == "ProcessesApart" else ProcessesLate
        raise kind(f"In[{number}]: {first['text']}")
    if all(a["error"]["kind"] == "KeyboardInterrupt" for a in own):
        raise KeyboardInterrupt(f"In[{number}] was interrupted")
    first = own[0]["error"]
    same = [a["index"] for a in own if a["error"]["text"] == first["text"]]
    others = [f"\n{_said(a)}" for a in answers if a["index"] not in same]
    raise ProcessFailed(
        f"In[{number}], {processes_text(same)} of {count}: {first['kind']}: {first['text']}\n{first['traceback']}{''.join(others)}"
    )


def _said(answer: dict[str, Any]) -> str:
    error = answer["error"]
    if not error:
        return f"process {answer['index']}: ended the cell"
    line = error["text"].splitlines()[0][:200] if error["text"] else ""
    return f"process {answer['index']}: {error['kind']}: {line}"
