"""`merge`: the reports that several processes made of one run, as one report.

It reads records alone, so that the files of a batch job are joined anywhere. Processes of one machine have one clock. Of another machine's clock the
meetings tell: all leave a collective within the time that it takes whoever comes last, so each gives the difference of two clocks, and that time is
its error (as in Cristian's algorithm, with collectives for messages); the median of many stands against those where one was kept from leaving.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from xlab.observe.records import Notice, Report, Transfer
from xlab.observe.records.processes import (
    Attendance,
    Launch,
    Processes,
    ProcessInfo,
    launched,
    moved_by,
    waits,
)
from xlab.observe.records.units import processes_text

_NO_BARRIER = ("collective_permute",)
"""Collectives that a device may leave before all others have come."""


def merge(reports: Iterable[Report]) -> Report:
    """One report of a run in several processes: the first process's, with all of them on one clock, and what differs as notices.

    Args:
        reports: what `report` gave in each process, or `Record.from_json` of the files; in any order.

    Raises:
        ValueError: for no reports, one that was made by a process alone, or two of one process.

    Example:
        >>> from xlab.observe.records.processes import Processes, ProcessInfo
        >>> parts = [Report("step", processes=Processes(2, (ProcessInfo(k, "host", devices=(k,)),))) for k in range(2)]
        >>> print(merge(parts).processes)
        2 processes with 2 devices on 1 host
          process   devices   programs started
                0   0                        0
                1   1                        0
    """
    found = sorted(map(_checked, reports), key=lambda r: r.processes.members[0].index)
    if not found:
        raise ValueError("merge takes the reports of several processes; none were given")
    parts = [r.processes for r in found]
    infos = [m for p in parts for m in p.members]
    _check_indices(infos)
    base, count = found[0], max(p.count for p in parts)
    notices = list(base.notices)
    missing = sorted(set(range(count)) - {m.index for m in infos})
    if missing:
        notices.append(_warning(f"there is no report of {processes_text(missing)} of {count}"))
    for report in found[1:]:
        notices += _differences(base, report)
    attendance, more = _joined(parts)
    notices += more
    launches = tuple(x for p in parts for x in p.launches)
    whole = Processes(count, tuple(infos), launches, attendance)
    notices += _apart(whole)
    offsets = _clocks(whole)
    notices += [
        _warning(
            f"the clock of process {m.index}, on {m.host}, is not known: measure collectives (profile) to place it beside the others"
        )
        for m in infos
        if offsets[m.index] is None
    ]
    begun = {m.index: m.begun_us + (offsets[m.index] or (0.0, 0.0))[0] for m in infos}
    origin = min(begun.values())
    whole = moved_by(whole, lambda k: begun[k] - origin)
    whole = whole.replace(
        members=tuple(
            m.replace(
                clock_offset_us=clock[0] if clock else None,
                clock_error_us=clock[1] if clock else 0.0,
            )
            for m in whole.members
            for clock in (offsets[m.index],)
        )
    )
    errors = [r.error for r in found if r.error is not None]
    return base.replace(
        processes=whole,
        transfers=tuple(_with_waits(t, whole.attendance) for t in base.transfers),
        notices=tuple(notices),
        error=base.error or (errors[0] if errors else None),
    )


def _checked(report: Report) -> Any:
    if not isinstance(report, Report):
        raise ValueError(f"merge takes reports; given a {type(report).__name__}")
    if report.processes is None or not report.processes.members:
        raise ValueError(
            f"the report {report.title!r} was made by a process that works alone: reports of several processes come from programs that "
            f"call xlab.distributed.initialize"
        )
    return report


def _check_indices(infos: Sequence[ProcessInfo]) -> None:
    seen: set[int] = set()
    for m in infos:
        if m.index in seen:
            raise ValueError(
                f"two reports are of process {m.index}; give one of each process, of one run"
            )
        seen.add(m.index)


def _warning(words: str) -> Notice:
    return Notice("warning", words, "processes")


def _differences(base: Report, other: Report) -> list[Notice]:
    """What the first process has otherwise than another."""
    name = f"process {other.processes.members[0].index}" if other.processes else "another process"
    said = []
    if [_written(p) for p in base.programs] != [_written(p) for p in other.programs]:
        said.append(_warning(f"{name} has another program here"))
    elif [_unmeasured(t) for t in base.transfers] != [_unmeasured(t) for t in other.transfers]:
        said.append(_warning(f"{name} has other collectives here"))
    if dict(base.versions) != dict(other.versions):
        theirs = dict(other.versions)
        words = [
            f"{k} {v} and {theirs.get(k, 'none')}"
            for k, v in base.versions
            if theirs.get(k, "none") != v
        ]
        said.append(_warning(f"process 0 and {name} have other versions: {', '.join(words)}"))
    return said


def _written(program: Any) -> Any:
    return program.replace(heat=(), shared=(), levels=(), sources=())


def _unmeasured(t: Transfer) -> Transfer:
    return t.replace(measured_us=None, wait_us=None, runs=None, overlap=None)


def _joined(parts: Sequence[Processes]) -> tuple[tuple[Attendance, ...], list[Notice]]:
    """The k-th execution in one process meets the k-th in the others."""
    by_key: dict[tuple, list[Attendance]] = defaultdict(list)
    for p in parts:
        for a in p.attendance:
            by_key[a.program, a.instruction, a.members].append(a)
    out, said = [], []
    for found in by_key.values():
        numbers = sorted({len(a.times) for a in found})
        if len(numbers) > 1:
            said.append(
                _warning(
                    f"`{found[0].call}` was measured {numbers[0]} times in one process and {numbers[-1]} times in another: who waited for whom "
                    f"cannot be told"
                )
            )
            continue
        out.append(
            found[0].replace(
                times=tuple(
                    tuple(one for met in together for one in met)
                    for together in zip(*(a.times for a in found), strict=True)
                )
            )
        )
    return tuple(out), said


def _apart(whole: Processes) -> list[Notice]:
    """Where the processes began to start other programs."""
    agreed = len(launched(whole))
    at: dict[str, list[int]] = defaultdict(list)
    for x in whole.launches:
        if x.number == agreed:
            at[x.program].append(x.process)
    if not at or (len(at) == 1 and len({x.fingerprint for x in _number(whole, agreed)}) < 2):
        return []
    words = "; ".join(
        f"{processes_text(who)} start{'s' * (len(who) == 1)} `{name}`" for name, who in at.items()
    )
    return [_warning(f"the processes are apart from their program number {agreed} on: {words}")]


def _number(whole: Processes, number: int) -> list[Launch]:
    return [x for x in whole.launches if x.number == number]


def _clocks(whole: Processes) -> dict[int, tuple[float, float] | None]:
    """What is added to the clock of each process to have that of the first, and by how much it may be wrong; None where nothing tells."""
    first = whole.members[0]
    begun = {m.index: m.begun_us for m in whole.members}
    on_host: dict[str, tuple[float, float]] = {first.host: (0.0, 0.0)}
    out: dict[int, tuple[float, float] | None] = {}
    for m in whole.members:
        if m.clock_offset_us is not None:
            out[m.index] = m.clock_offset_us, m.clock_error_us
            continue
        told = on_host.get(m.host) or _offset(whole, first.index, m.index, begun)
        if told is not None:
            on_host[m.host] = told
        out[m.index] = told
    return out


def _offset(
    whole: Processes, first: int, other: int, begun: dict[int, float]
) -> tuple[float, float] | None:
    """How far one process's clock is behind another's, told by the collectives in which they meet, which both leave together.

    The offset is the median of what the meetings tell. It may be wrong by what three quarters of them differ from it, and beside that
    by how long who came last stays: on a busy machine the same process may be kept from leaving every time, and then they agree and
    are wrong.
    """
    told, stays = [], []
    for a in whole.attendance:
        for met in a.meetings() if a.kind not in _NO_BARRIER else ():
            went = {k: min(m[3] for m in met if m[0] == k) for k in (m[0] for m in met)}
            if first in went and other in went:
                told.append(went[first] + begun[first] - went[other] - begun[other])
                stays.append(min(m[3] - m[2] for m in met))
    if not told:
        return None
    offset = statistics.median(told)
    apart = sorted(abs(one - offset) for one in told)
    return offset, statistics.median(stays) + apart[3 * (len(apart) - 1) // 4]


def _with_waits(t: Transfer, attendance: Sequence[Attendance]) -> Transfer:
    """A collective with what all processes measured: per device how long it waited and moved, the median of its executions."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for a in attendance:
        if a.program == t.program and a.instruction == t.instruction:
            for met in a.meetings():
                for process, device, waited, moved in waits(met):
                    found[process, device].append((waited, moved))
    if not found:
        return t
    arrivals = tuple(
        (process, device, *(round(statistics.median(part), 3) for part in zip(*each, strict=True)))
        for (process, device), each in sorted(found.items())
    )
    worst = max(arrivals, key=lambda x: x[2])
    return t.replace(
        arrivals=arrivals,
        wait_us=worst[2],
        measured_us=max(x[2] + x[3] for x in arrivals),
    )
