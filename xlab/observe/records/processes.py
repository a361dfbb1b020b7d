"""Several processes that ran one program: who was where, what each started, and who waited for whom in which collective."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from xlab.observe.records.base import Record, record_type
from xlab.observe.records.phases import Phase
from xlab.observe.records.text import Options, add_form, limited
from xlab.observe.records.units import plural, size_text, table, time_text

LEAST_PART = 0.2
"""The part of a collective that must be waiting, for somebody to be called late."""
Presence = tuple[int, int, float, float]
"""A process, its device, when it came and when it went."""


@record_type
class ProcessInfo(Record):
    """One process of several: where it ran, by which clock, what it spent and what it holds.

    Args:
        index: its number in the group.
        host, pid: where it ran.
        devices: the ids of its devices.
        begun_us: when its recording began, in microseconds since 1970 by its own clock.
        duration_us: how long the recording was.
        clock_offset_us: what is added to its clock to have that of the first process; None where that is not known.
        clock_error_us: by how much the offset may be wrong.
        resident: bytes of memory that the process holds.
        live_bytes: bytes of its arrays.
        phases: what it spent its time on.
        compiles: `(function, microseconds, cache)` of each compile; `cache` is `disk hit`, `disk miss` or empty.
        error: what ended its recording.
    """

    index: int
    host: str = ""
    pid: int = 0
    devices: tuple[int, ...] = ()
    begun_us: float = 0.0
    duration_us: float = 0.0
    clock_offset_us: float | None = None
    clock_error_us: float = 0.0
    resident: int | None = None
    live_bytes: int | None = None
    phases: tuple[Phase, ...] = ()
    compiles: tuple[tuple[str, float, str], ...] = ()
    error: str = ""


@record_type
class Launch(Record):
    """A program over several processes, as one of them started it: the `number`-th of its recording. `gate_us` of the time were spent until all
    others were about to start the same program."""

    process: int
    number: int
    program: str
    fingerprint: str = ""
    where: str = ""
    begun_us: float = 0.0
    ended_us: float = 0.0
    gate_us: float = 0.0


@record_type
class Attendance(Record):
    """All measured executions of one collective among the devices of one group.

    Args:
        call: what the user wrote (`psum`), or the kind of collective, which is `kind`.
        instruction: its name in the compiled module.
        program, equation: where it stands; `where` is the user's line.
        members: the ids of the devices that meet.
        times: per execution `(process, device, came, went)` of each device that is known, in microseconds.
    """

    call: str
    instruction: str
    kind: str = ""
    program: int = 0
    equation: int = -1
    where: str = ""
    members: tuple[int, ...] = ()
    times: tuple[tuple[tuple[int, int, float, float], ...], ...] = ()

    def meetings(self) -> Iterator[tuple[Presence, ...]]:
        """The executions of which every member is known, and when it came."""
        for met in self.times:
            if len(met) > 1 and {m[1] for m in met} == set(self.members) and _finite(met):
                yield met


@record_type
class Processes(Record):
    """The processes of a report. `count` are all that there were; of those that are not in `members` nothing is known.

    In the report of one process times count from when its recording began. Merged they are on the clock of the first process, and count from when the first
    recording began.
    """

    count: int
    members: tuple[ProcessInfo, ...] = ()
    launches: tuple[Launch, ...] = ()
    attendance: tuple[Attendance, ...] = ()


class Late(NamedTuple):
    """A process that others wait for: in what, the line, how long of how long, how often of how often, and the program's index or -1."""

    process: int
    what: str
    where: str
    wait_us: float
    of_us: float
    times: int
    runs: int
    program: int = -1


def _finite(met: Iterable[Presence]) -> bool:
    return all(math.isfinite(t) for m in met for t in m[2:])


def waits(met: tuple[Presence, ...]) -> list[tuple[int, int, float, float]]:
    """Of one execution, per device: how long it waited for the last to come, and how long it took from then on.

    >>> waits(((0, 0, 10.0, 70.0), (1, 1, 60.0, 71.0)))
    [(0, 0, 50.0, 10.0), (1, 1, 0.0, 11.0)]
    """
    last = max(m[2] for m in met)
    return [
        (process, device, min(max(last, came), went) - came, max(went - max(last, came), 0.0))
        for process, device, came, went in met
    ]


def launched(p: Processes) -> list[tuple[Launch, ...]]:
    """Launches that belong together: those of one number, as long as all processes start the same programs."""
    by_number: dict[int, list[Launch]] = {}
    for launch in p.launches:
        by_number.setdefault(launch.number, []).append(launch)
    out = []
    for _, found in sorted(by_number.items()):
        if len({(x.program, x.fingerprint) for x in found}) > 1:
            break
        out.append(tuple(found))
    return out


def late(p: Processes) -> list[Late]:
    """Who is waited for, the longest first: in collectives that were measured, and otherwise where programs are started.

    >>> met = ((0, 0, 0.0, 58.0), (1, 1, 55.0, 59.0))
    >>> [tuple(x) for x in late(Processes(2, attendance=(Attendance("psum", "all-reduce", where="cell:4", members=(0, 1), times=(met,)),)))]
    [(1, 'psum', 'cell:4', 55.0, 58.0, 1, 1, 0)]
    """
    error = max((m.clock_error_us for m in p.members), default=0.0)
    out: list[Late | None] = [
        _late(a.call, a.where, a.program, error, list(a.meetings())) for a in p.attendance
    ]
    measured = any(list(a.meetings()) for a in p.attendance)
    by_program: dict[tuple[str, str], list[tuple[Presence, ...]]] = {}
    for found in launched(p) if not measured else ():
        times = tuple((x.process, x.process, x.begun_us, x.ended_us) for x in found)
        if len(times) > 1 and _finite(times):
            by_program.setdefault((found[0].program, found[0].where), []).append(times)
    out += [_late(name, where, -1, error, met) for (name, where), met in by_program.items()]
    return sorted(filter(None, out), key=lambda x: -x.wait_us * x.times)


def _late(
    what: str, where: str, program: int, error: float, met: list[tuple[Presence, ...]]
) -> Late | None:
    found: dict[int, list[tuple[float, float]]] = {}
    runs = 0
    for one in met:
        if len({m[0] for m in one}) < 2:
            continue
        runs += 1
        who = max(one, key=lambda m: m[2])[0]
        # The longest wait among the others, and the time of which it is a part.
        wait, of = max((w, w + moved) for process, _, w, moved in waits(one) if process != who)
        if wait > error and wait >= LEAST_PART * of:
            found.setdefault(who, []).append((wait, of))
    if not found:
        return None
    who, times = max(found.items(), key=lambda item: len(item[1]))
    if 2 * len(times) < runs:
        return None
    wait, of = (statistics.median(part) for part in zip(*times, strict=True))
    return Late(who, what, where, wait, of, len(times), runs, program)


def late_sentence(found: Late, count: int = 2) -> str:
    """Who is late, and what it costs the others.

    >>> late_sentence(Late(1, "psum", "train.py:4", 55e3, 58e3, 20, 20, 0), 4)
    'process 1 is late: the others waited 55.0 of 58.0 ms for it in `psum` (line 4), 20 of 20 times'
    """
    wait, of = time_text(found.wait_us), time_text(found.of_us)
    if wait.rpartition(" ")[2] == of.rpartition(" ")[2]:
        wait = wait.rpartition(" ")[0]
    line = found.where.rpartition(":")[2]
    line = f" (line {line})" if line.isdigit() else f" ({found.where})" if found.where else ""
    others = "the other one" if count == 2 else "the others"
    place = "in" if found.program >= 0 else "at the start of"
    return (
        f"process {found.process} is late: {others} waited {wait} of {of} for it {place} `{found.what}`{line}, "
        f"{found.times} of {plural(found.runs, 'time')}"
    )


def compiles_sentence(p: Processes) -> str:
    """What was compiled where, in one line; empty where nothing was.

    >>> compiles_sentence(Processes(2, (ProcessInfo(0, compiles=(("f", 2e6, ""),)), ProcessInfo(1, compiles=(("f", 3e6, "disk hit"),)))))
    'compiled in 2 processes, 2.00 s to 3.00 s each; on disk already in 1 of them'
    """
    spent = [sum(c[1] for c in m.compiles) for m in p.members if m.compiles]
    if not spent:
        return ""
    hits = sum(any(c[2] == "disk hit" for c in m.compiles) for m in p.members)
    low, high = time_text(min(spent)), time_text(max(spent))
    return (
        f"compiled in {len(spent)} process{'es' * (len(spent) != 1)}, "
        + (f"{low} to {high} each" if low != high else low)
        + (f"; on disk already in {hits} of them" if hits else "")
    )


def clock_text(m: ProcessInfo) -> str:
    """How its clock stands to that of the first process.

    >>> clock_text(ProcessInfo(1, clock_offset_us=-3e6, clock_error_us=120.0)), clock_text(ProcessInfo(1))
    ('3.00 s ahead ± 120 µs', 'not known')
    """
    if m.clock_offset_us is None:
        return "not known"
    error = f" ± {time_text(m.clock_error_us)}" if m.clock_error_us else ""
    if not m.clock_offset_us:
        return f"the same{error}"
    side = "behind" if m.clock_offset_us > 0 else "ahead"
    return f"{time_text(abs(m.clock_offset_us))} {side}{error}"


def processes_sentence(p: Processes) -> str:
    """How many processes, devices and hosts.

    >>> processes_sentence(Processes(2, (ProcessInfo(0, "a", devices=(0, 1)), ProcessInfo(1, "b", devices=(2, 3)))))
    '2 processes with 4 devices on 2 hosts'
    """
    hosts = len({m.host for m in p.members}) or 1
    devices = sum(len(m.devices) for m in p.members)
    many = f"{p.count} process{'es' * (p.count != 1)}"
    known = f" ({len(p.members)} of them known)" if len(p.members) != p.count else ""
    return f"{many}{known} with {plural(devices, 'device')} on {plural(hosts, 'host')}"


def presence_rows(p: Processes) -> list[tuple[Attendance, int, float, float, int]]:
    """Per collective: the process that waits longest, its median wait, the median time that moving takes, and how many executions are whole."""
    out = []
    for a in p.attendance:
        waited: dict[int, list[float]] = {}
        moved: list[float] = []
        whole = 0
        for met in a.meetings():
            whole += 1
            longest: dict[int, float] = {}
            for process, _, w, m in waits(met):
                longest[process] = max(longest.get(process, 0.0), w)
                moved.append(m)
            for process, w in longest.items():
                waited.setdefault(process, []).append(w)
        if whole:
            medians = {process: statistics.median(w) for process, w in waited.items()}
            worst = max(medians, key=lambda k: medians[k])
            out.append((a, worst, medians[worst], statistics.median(moved), whole))
    return out


def _processes(p: Processes, o: Options) -> str:
    lines = [processes_sentence(p)]
    if o.times:
        lines += [f"  {late_sentence(x, p.count)}" for x in late(p)[:3]]
    head: tuple[str, ...] = ("process", "devices", "programs started")
    rows = [
        (
            str(m.index),
            ", ".join(map(str, m.devices)) or "–",
            str(sum(x.process == m.index for x in p.launches)),
            *(
                (m.host, str(m.pid), size_text(m.resident), size_text(m.live_bytes), clock_text(m))
                if o.times
                else ()
            ),
        )
        for m in p.members
    ]
    if o.times:
        head += ("host", "pid", "resident", "arrays", "clock")
    lines.append(table([head, *rows], "rlrlrrrl"[: len(head)]))
    lines += [
        f"  process {m.index} ended with {m.error.splitlines()[0]}" for m in p.members if m.error
    ]
    if o.times:
        lines += [f"  {said}" for said in (compiles_sentence(p),) if said]
        shown, more = limited(presence_rows(p), o, "collective")
        names = ("collective", "line", "times", "waits longest", "waiting", "moving")
        body = [
            (a.call, a.where, str(n), f"process {who}", time_text(w), time_text(m))
            for a, who, w, m, n in shown
        ]
        lines += [table([names, *body], "llrlrr")] if body else []
        lines += more
    return "\n".join(lines)


def _attendance(a: Attendance, o: Options) -> str:
    processes = len({m[0] for met in a.times for m in met})
    return f"{a.call} ({a.instruction}): {plural(len(a.times), 'execution')}, {plural(len(a.members), 'device')} of {processes} process{'es' * (processes != 1)} known"


def _launch(x: Launch, o: Options) -> str:
    time = f", {time_text(x.ended_us - x.begun_us)}" if o.times else ""
    at = f" ({x.where})" if x.where else ""
    return f"process {x.process} starts `{x.program}`{at}, number {x.number}{time}"


def _info(m: ProcessInfo, o: Options) -> str:
    where = f" (pid {m.pid} on {m.host}), clock {clock_text(m)}" if o.times else ""
    return f"process {m.index} with {plural(len(m.devices), 'device')}{where}"


def moved_by(p: Processes, by: Callable[[int], float]) -> Processes:
    """The same with the times of each process moved by so many microseconds."""

    def of(record: Any, shift: float, *fields: str) -> Any:
        return record.replace(**{f: round(getattr(record, f) + shift, 3) for f in fields})

    return p.replace(
        members=tuple(
            m.replace(phases=tuple(of(x, by(m.index), "start_us") for x in m.phases))
            for m in p.members
        ),
        launches=tuple(of(x, by(x.process), "begun_us", "ended_us") for x in p.launches),
        attendance=tuple(
            a.replace(
                times=tuple(
                    tuple(
                        (k, d, round(came + by(k), 3), round(went + by(k), 3))
                        for k, d, came, went in met
                    )
                    for met in a.times
                )
            )
            for a in p.attendance
        ),
    )


add_form(ProcessInfo, _info)
add_form(Launch, _launch)
add_form(Attendance, _attendance)
add_form(Processes, _processes)
