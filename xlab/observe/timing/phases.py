"""Time: the phases of a recording, cold and warm timings."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from xlab import events
from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.compile import launching
from xlab.compile.history import ledger as _ledger
from xlab.compile.stages import Compiled
from xlab.compile.tracing import own
from xlab.core.array import KeyArray, is_native_array
from xlab.observe.beside.calls import JaxFunction
from xlab.observe.beside.recognize import belongs_to_jax
from xlab.observe.figures.plots import plot_phases
from xlab.observe.programs.recorder import Session, active, check_recorded, is_eager, paused
from xlab.observe.programs.stage_function import StageFunction
from xlab.observe.records import Phase, Report, Timing
from xlab.observe.records.processes import Processes
from xlab.observe.records.timeline import Timeline
from xlab.observe.timing.process_tracks import process_tracks
from xlab.observe.timing.runnable import Spared, callable_of
from xlab.observe.timing.trace_events import trace_events, write_trace


class Phases(tuple):
    """Phases of a recording, which can be drawn and exported as one."""

    __slots__ = ()

    def plot(self, ax: Any = None) -> Any:
        """Draws them along time, one row per depth; returns the Axes."""
        return plot_phases(self, ax)

    def chrome_trace(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The trace that Perfetto opens; written to `path` when given."""
        return chrome_trace(self, path)


def phases(session: Session) -> Phases:
    """What the recording spent its time on, in order of start; nesting is in `parent` and `depth`.

    A run counts as steady when the same program ran before in the recording. Single eager operations are included.
    The result is a tuple with `plot(ax=None)` and `chrome_trace(path=None)`.
    """
    check_recorded(session, "phases")
    order = in_order(session)
    out: list[Phase] = []
    open_: dict[int, list[tuple[int, int]]] = {}  # thread: (index, end) of enclosing spans
    ran: set[int] = set()
    for event in order:
        stack = open_.setdefault(event.thread, [])
        while stack and (
            stack[-1][1] < event.end_ns
            or (stack[-1][1] <= event.start_ns and event.end_ns > event.start_ns)
        ):
            stack.pop()
        steady = False
        if event.kind == "execute":
            key = id(event.attrs.get("executable"))
            steady = key in ran
            ran.add(key)
        is_cache = event.kind in ("cache_hit", "cache_miss")
        out.append(
            Phase(
                event.kind,
                str(event.attrs.get("name", "")),
                (event.start_ns - session.start_ns) / 1e3,
                event.duration_ns / 1e3,
                len(stack),
                stack[-1][0] if stack else -1,
                event.kind.removeprefix("cache_") if is_cache else str(event.attrs.get("disk", "")),
                str(event.attrs.get("cache", ""))
                if is_cache
                else "disk"
                if "disk" in event.attrs
                else "",
                str(event.attrs.get("reason", "")),
                steady,
                type(event.error).__name__ if event.error is not None else "",
                list(open_).index(event.thread),
            )
        )
        if event.end_ns > event.start_ns:
            stack.append((len(out) - 1, event.end_ns))
    return Phases(out)


def in_order(session: Session) -> list[events.Event]:
    """The events of a recording in the order of their phases."""
    return sorted(session.events, key=lambda e: (e.start_ns, -e.end_ns, e.depth))


def self_times(found: Sequence[Phase]) -> list[float]:
    """What each phase spent itself, without those inside it, in microseconds.

    >>> self_times((Phase("trace", "f", 0.0, 9.0), Phase("trace", "g", 1.0, 4.0, 1, 0)))
    [5.0, 4.0]
    """
    own = [p.duration_us for p in found]
    for p in found:
        if 0 <= p.parent < len(own):
            own[p.parent] -= p.duration_us
    return [max(us, 0.0) for us in own]


def timings(session: Session, measured: tuple[Timing, ...] = ()) -> tuple[Timing, ...]:
    """Cold time per function of the recording (trace, lower, compile and first run); warm times come from `time`."""
    check_recorded(session, "timings")
    cold: dict[str, float] = {}
    eager = {e.name for e in session.executables if is_eager(e)} - {
        s.name for s in session.subjects
    }
    ran: set[int] = set()
    nested: list[tuple[int, int, int]] = []
    for event in sorted(session.events, key=lambda e: (e.start_ns, -e.end_ns)):
        name = str(event.attrs.get("name", ""))
        if (
            name in eager
            or event.error is not None
            or event.kind not in ("trace", "lower", "compile", "execute")
        ):
            continue
        if any(
            t == event.thread and s <= event.start_ns and event.end_ns <= e for t, s, e in nested
        ):
            continue
        if event.kind == "execute":
            key = id(event.attrs.get("executable"))
            if key in ran:
                continue
            ran.add(key)
            if name not in cold:  # compiled before the recording began: not a cold run
                continue
        nested.append((event.thread, event.start_ns, event.end_ns))
        cold[name] = cold.get(name, 0.0) + event.duration_ns / 1e3
    warm = {t.function: t for t in measured}
    out = []
    for name, us in cold.items():
        found = warm.pop(name, None)
        out.append(
            found.replace(cold_us=us, note="")
            if found is not None and found.cold_us is None
            else found
            if found is not None
            else Timing(name, us)
        )
    return (*out, *warm.values())


def time(fun: Callable, *args: Any, repeat: int = 20, **kwargs: Any) -> Timing:
    """Measures a function: one cold call when it is not compiled yet, then `repeat` steady calls on the native path.

    A recording around it gets the result into its report, not the calls. Each call waits for its result. What a call takes for itself (donation) is a copy, made
    between the calls: the arguments are alive afterwards.

    Example:
        >>> import numpy as np, xlab
        >>> t = time(xlab.jit(lambda x: x), np.ones(3, np.float32), repeat=5)
        >>> t.runs, t.warm_us > 0
        (5, True)
    """
    if repeat < 1:
        raise ValueError(f"repeat must be at least 1, given {repeat}")
    fun, theirs = callable_of(fun, "time"), None
    if belongs_to_jax(fun, args, kwargs):
        theirs = fun if isinstance(fun, JaxFunction) else JaxFunction(fun)
        fun = theirs.prepared(args, kwargs)
    with paused():
        spared = Spared(fun if theirs is None else theirs, args, kwargs)
        args, kwargs = spared()
        before = len(_ledger.entries), _ledger.entries[-1].number if _ledger.entries else -1
        start = events.clock()
        wait(fun(*args, **kwargs))
        first = (events.clock() - start) / 1e3
        compiled = (
            bool(_ledger.entries) and (_ledger.entries[-1].number if before[0] else 0) > before[1]
        )
        args, kwargs = spared()
        wait(fun(*args, **kwargs))  # the call that fills the native cache is not steady yet
        spent = []
        with launching.ungated():
            for _ in range(repeat):
                args, kwargs = spared()
                start = events.clock()
                wait(fun(*args, **kwargs))
                spent.append((events.clock() - start) / 1e3)
    low, high = statistics.quantiles(spent, n=4)[::2] if repeat > 1 else (spent[0], spent[0])
    name = str(
        getattr(fun, "__name__", None)
        or getattr(getattr(fun, "_lowered", None), "name", "function")
    )
    known = own(fun, "lower") is not None or isinstance(fun, Compiled | StageFunction)
    note = "compiled before" if not compiled and known else ""
    made = Timing(
        name,
        first if compiled else None,
        statistics.median(spent),
        high - low,
        repeat,
        note,
        theirs.made_by if theirs is not None else "",
    )
    for session in active():
        session.measured.append(made)
    return made


def chrome_trace(what: Any, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """The phases of a recording, a report, or phases themselves, as a trace; written to a file when `path` is given.

    Phases that overlap without one being inside the other get rows of their own. Measured steady runs are in `otherData`. A `Timeline`, and each
    of a report, is a process with a row per device: its operations, their waits, arrows from the device that came last to a collective to those that
    waited for it, and the planned memory as counters. Of several processes (`merge`) each is a process of the trace: its phases, and per device the
    collectives, with the waiting apart from the moving.

    Example:
        >>> found = chrome_trace((Phase("compile", "f", 0.0, 20.0), Phase("execute", "f", 20.0, 5.0)))
        >>> [(e["name"], e["ts"], e["dur"]) for e in found["traceEvents"] if e["ph"] == "X"]
        [('compile f', 0.0, 20.0), ('run f', 20.0, 5.0)]
    """
    if isinstance(what, Session):
        return trace_events(
            what.title or "xlab", phases(what), timings(what, tuple(what.measured)), path
        )
    if isinstance(what, Report):
        if what.processes is not None and len(what.processes.members) > 1:
            return write_trace(
                process_tracks(what.processes), {"title": what.title or "xlab"}, path
            )
        return trace_events(what.title or "xlab", what.phases, what.timings, path, what.timelines)
    if isinstance(what, Processes):
        return write_trace(process_tracks(what), {"title": "xlab"}, path)
    if isinstance(what, Timeline):
        return trace_events(what.function, (), (), path, (what,))
    if isinstance(what, tuple) and all(isinstance(p, Phase) for p in what):
        return trace_events("xlab", what, (), path)
    raise TypeError(
        f"chrome_trace takes a recording, a report, or the phases of one; given {type(what).__name__}"
    )


def wait(result: Any) -> Any:
    """Waits until every array in a result is computed; returns it."""
    leaves = [x.base if isinstance(x, KeyArray) else x for x in _tree.leaves(result)]
    _arrays.block_until_ready([x for x in leaves if is_native_array(x)])
    return result
