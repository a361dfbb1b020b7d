"""Magics and cells in the processes of a group: sent there, and what they showed displayed here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from xlab.notebook import formatters, recording
from xlab.notebook.processes import current
from xlab.notebook.tracebacks import present
from xlab.observe.merging import merge
from xlab.observe.records import Record, Report


def run(
    source: str,
    magic: tuple[str, str] | None,
    number: int,
    processes: Sequence[int] | None = None,
) -> None:
    """Runs a cell in the processes and displays what it wrote and showed there; raises the group's errors."""
    group = current()
    if group is None:
        raise ValueError("there are no processes: %xprocesses 2 starts two")
    try:
        answers = group.run(source, magic=magic, number=number, processes=processes)
    except Exception as error:
        shell = formatters.kernel_shell()
        if shell is not None:
            present(error, shell)
        raise
    display(answers)


def display(answers: list[dict[str, Any]]) -> None:
    """What the processes wrote, once where it is the same, and what they showed."""
    for stream, file in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        said = [a[stream] for a in answers]
        if len(set(said)) == 1:
            file.write(said[0])
            continue
        for answer in answers:
            lines = answer[stream].splitlines()
            file.write("".join(f"[{answer['index']}] {line}\n" for line in lines))
    from IPython.display import display as show

    for data, metadata in answers[0]["outputs"]:
        show(data, metadata=metadata, raw=True)
    for answer in answers[1:]:
        others = [d for d, _ in answer["outputs"]]
        if [d.get("text/plain") for d in others] != [
            d.get("text/plain") for d, _ in answers[0]["outputs"]
        ]:
            for data in others:
                print(f"[{answer['index']}] {data.get('text/plain', '')}")
    for record in records(answers):
        if isinstance(record, Report):
            recording.last = record
        formatters.show(record)


def records(answers: list[dict[str, Any]]) -> list[Any]:
    """The records that the first process showed; the reports of all processes as one."""
    found = [[Record.from_json(r) for r in a["records"]] for a in answers]
    out = []
    for position, record in enumerate(found[0]):
        if isinstance(record, Report):
            others = [theirs[position] for theirs in found if position < len(theirs)]
            theirs = [r for r in others if isinstance(r, Report) and r.processes is not None]
            record = merge(theirs) if len(theirs) > 1 else record
        out.append(record)
    return out
