"""Time: the phases of a recording, cold and warm timings, and the ledger of compiles."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from xlab import events
from xlab import tree as _tree
from xlab.backend import arrays as _arrays
from xlab.compile import ledger as _ledger
from xlab.core.array import KeyArray, is_native_array
from xlab.core.source import shown_name
from xlab.observe.figures import Phases
from xlab.observe.recorder import Session, active, is_eager, paused
from xlab.observe.records import Compilation, Difference, Ledger, Phase, Source, Timing


def phases(session: Session) -> Phases:
    """What the recording spent its time on, in order of start; nesting is in `parent` and `depth`.

    A run counts as steady when the same program ran before in the recording. Single eager operations are included.
    The result is a tuple with `plot(ax=None)` and `chrome_trace(path=None)`.
    """
    order = sorted(session.events, key=lambda e: (e.start_ns, -e.end_ns, e.depth))
    out: list[Phase] = []
    open_: dict[int, list[tuple[int, int]]] = {}     # thread: (index, end) of enclosing spans
    ran: set[int] = set()
    for event in order:
        stack = open_.setdefault(event.thread, [])
        while stack and (stack[-1][1] < event.end_ns or (stack[-1][1] <= event.start_ns and event.end_ns > event.start_ns)):
            stack.pop()
        steady = False
        if event.kind == "execute":
            key = id(event.attrs.get("executable"))
            steady = key in ran
            ran.add(key)
        is_cache = event.kind in ("cache_hit", "cache_miss")
        out.append(Phase(
            event.kind, str(event.attrs.get("name", "")), (event.start_ns - session.start_ns) / 1e3, event.duration_ns / 1e3,
            len(stack), stack[-1][0] if stack else -1, event.kind.removeprefix("cache_") if is_cache else "",
            str(event.attrs.get("cache", "")) if is_cache else "", str(event.attrs.get("reason", "")), steady,
            type(event.error).__name__ if event.error is not None else ""))
        if event.end_ns > event.start_ns:
            stack.append((len(out) - 1, event.end_ns))
    return Phases(out)


def timings(session: Session, measured: tuple[Timing, ...] = ()) -> tuple[Timing, ...]:
    """Cold time per function of the recording (trace, lower, compile and first run); warm times come from `time`."""
    cold: dict[str, float] = {}
    eager = {e.name for e in session.executables if is_eager(e)} - {s.name for s in session.subjects}
    ran: set[int] = set()
    nested: list[tuple[int, int, int]] = []
    for event in sorted(session.events, key=lambda e: (e.start_ns, -e.end_ns)):
        name = str(event.attrs.get("name", ""))
        if name in eager or event.kind not in ("trace", "lower", "compile", "execute"):
            continue
        if any(t == event.thread and s <= event.start_ns and event.end_ns <= e for t, s, e in nested):
            continue
        if event.kind == "execute":
            key = id(event.attrs.get("executable"))
            if key in ran:
                continue
            ran.add(key)
            if name not in cold:      # compiled before the recording began: not a cold run
                continue
        nested.append((event.thread, event.start_ns, event.end_ns))
        cold[name] = cold.get(name, 0.0) + event.duration_ns / 1e3
    warm = {t.function: t for t in measured}
    out = []
    for name, us in cold.items():
        found = warm.pop(name, None)
        out.append(found.replace(cold_us=us) if found is not None and found.cold_us is None else found if found is not None else Timing(name, us))
    return (*out, *warm.values())


def time(fun: Callable, *args: Any, repeat: int = 20, **kwargs: Any) -> Timing:
    """Measures a function: one cold call when it is not compiled yet, then `repeat` steady calls on the native path.

    A recording around it gets the result into its report, not the calls. Each call waits for its result. Donated arguments are not supported, since they are gone after one call.

    Example:
        >>> import numpy as np, xlab
        >>> t = time(xlab.jit(lambda x: x), np.ones(3, np.float32), repeat=5)
        >>> t.runs, t.warm_us > 0
        (5, True)
    """
    if repeat < 1:
        raise ValueError(f"repeat must be at least 1, given {repeat}")
    fun = fun if callable(fun) else _uncallable(fun)
    with paused():
        before = len(_ledger.entries), _ledger.entries[-1].number if _ledger.entries else -1
        start = events.clock()
        wait(fun(*args, **kwargs))
        first = (events.clock() - start) / 1e3
        compiled = bool(_ledger.entries) and (_ledger.entries[-1].number if before[0] else 0) > before[1]
        wait(fun(*args, **kwargs))        # the call that fills the native cache is not steady yet
        spent = []
        for _ in range(repeat):
            start = events.clock()
            wait(fun(*args, **kwargs))
            spent.append((events.clock() - start) / 1e3)
    low, high = (statistics.quantiles(spent, n=4)[::2] if repeat > 1 else (spent[0], spent[0]))
    name = str(getattr(fun, "__name__", None) or getattr(getattr(fun, "_lowered", None), "name", "function"))
    made = Timing(name, first if compiled else None, statistics.median(spent), high - low, repeat)
    for session in active():
        session.measured.append(made)
    return made


def _uncallable(fun):
    raise TypeError(f"time takes a function and its arguments, given {fun!r} of type {type(fun).__name__}")


def wait(result: Any) -> Any:
    """Waits until every array in a result is there; returns it."""
    leaves = [x.base if isinstance(x, KeyArray) else x for x in _tree.leaves(result)]
    _arrays.block_until_ready([x for x in leaves if is_native_array(x)])
    return result


# ------------------------------------------------------------------------------------------------------- ledger


_FIXES = {
    "shape": "pad {what} to a fixed size, or compile the sizes you need once: f.lower(...).compile()",
    "dtype": "convert once before the call: {what} = xlab.numpy.asarray({what}, dtype)",
    "weak type": "pass an array instead of a Python number: xlab.numpy.asarray({what})",
    "structure": "pass arguments with the same keys and lengths at every call",
    "static value": "make the value an ordinary argument if the program does not depend on it",
    "sharding": "place {what} once: {what} = xlab.device_put({what}, sharding), or give jit in_shardings",
    "committed": "place {what} at every call in the same way, or give jit in_shardings",
    "mesh": "call under the same mesh: with xlab.set_mesh(mesh)",
    "context": "set {what} once, before the first call: xlab.config.update({what!r}, value)",
    "backend": "put {what} on one kind of device: {what} = xlab.device_put({what}, sharding)",
    "closure": "pass {what} as an argument: an array if its value may vary, or with static_argnames={what!r}",
    "donated set": "give every jit of the function the same {what}, or call jit once and keep what it returns",
    "option": "give every jit of the function the same {what}, or call jit once and keep what it returns",
    "jit": "call jit once and keep what it returns: {what} = xlab.jit({what})",
    "function": "define the function once, outside the loop or the function that makes it",
}


def ledger(session: Session | None = None, *, eager: bool = False) -> Ledger:
    """Every compile of the process that is still in the list, or those of one recording; oldest first.

    Args:
        session: only compiles inside this recording.
        eager: include the one-operation programs of eager calls.
    """
    seen: dict[tuple[str, str], int] = {}
    out = []
    for entry in list(_ledger.entries):
        key = entry.name, entry.position
        nth = seen[key] = seen.get(key, 0) + 1
        if entry.eager and not eager:
            continue
        if session is not None and not session.start_ns <= entry.start_ns <= (session.end_ns or events.clock()):
            continue
        name, reason, place = _shown(entry)
        out.append(Compilation(
            name, nth, entry.duration_ns / 1e3, reason, _fix(entry), tuple(Difference(*d) for d in entry.differences), place))
    return Ledger(tuple(out))


def _shown(entry: _ledger.Entry) -> tuple[str, str, Source | None]:
    """Name, sentence and place of a compile as the user knows them: a cell is called by its prompt."""
    file, _, line = entry.position.rpartition(":")
    if line.isdigit():
        cell = shown_name(file)
        return entry.name, entry.reason, Source(cell or file, int(line), function=entry.name)
    cell = shown_name(entry.position) if entry.position else None
    if cell is None:
        return entry.name, entry.reason, None
    return cell, entry.reason.replace(f"`{entry.name}`", f"`{cell}`"), Source(cell, 1, function=cell)


def _fix(entry: _ledger.Entry) -> str:
    if not entry.differences:
        return ""
    cause, what = entry.differences[0][:2]
    if cause == "closure" and not entry.position.rpartition(":")[2].isdigit():
        return f"{what} = xlab.numpy.asarray({what}) makes it an input of the cell"
    return _FIXES.get("option" if cause == "sharding" and what.endswith("_shardings") else cause, "").format(what=what)
