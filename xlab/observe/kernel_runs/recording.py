"""`kernel_run`: a kernel simulated by the value interpreter, recorded for looking at: every access, what buffers hold, what goes wrong."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine import KernelRunError, Machine, Schedule
from xlab.kernels.machine.failures import DeadlockError, OutOfBoundsError, UninitializedReadError
from xlab.kernels.machine.remarks import final_remarks
from xlab.observe.kernel_runs.contents import Contents
from xlab.observe.kernel_runs.log import Log
from xlab.observe.kernel_runs.program import Paths, describe
from xlab.observe.kernel_runs.schedules import schedule_text, shortest_schedules
from xlab.observe.records.kernel import KernelFault, KernelLint, KernelMoment, KernelRun, KernelTurn
from xlab.observe.records.units import plural

SIMULATED = "simulated by the value interpreter"
MOST_EVENTS = 20_000
"""Accesses and blocks that a record keeps."""
MOST_TURNS = 200_000
"""Equations that a recorded run may take: a loop without an end is left there."""
MOST_OF_OTHERS = 2_000
"""Events of a run up to which it is recorded under other schedules, too."""
OTHERS: tuple[Any, ...] = ("round_robin", 1, 2)
"""Other schedules that are recorded where several cores run; a number is a seed."""
FAULTS = {
    OutOfBoundsError: "bounds",
    DeadlockError: "deadlock",
    UninitializedReadError: "uninitialized",
}


def kernel_run(
    what: Any,
    *args: Any,
    params: InterpretParams | None = None,
    schedule: Any = None,
    target: str = "",
    others: Sequence[Any] | None = None,
    most: int = MOST_EVENTS,
) -> KernelRun:
    """A simulated run of a kernel as a record: every access, the blocks of each step, contents, schedule, races, cost.

    A run that goes wrong is recorded up to there; the last of `faults` says what happened. Races are looked for where there are
    several cores.

    Args:
        what: what `kernel_call` or `mpmd_map` gave (or a function that calls one kernel), or a `Machine`, of which the same run is
            recorded: as far as it went, or whole if it has not begun.
        args: the call's arguments.
        params: options of the interpreter; by default those of the call.
        schedule: the order of cores, as for `Machine`.
        target: the machine whose roofline is wanted, such as `tpu:v5e`; all that are known if empty.
        others: schedules to record too, names or seeds; by default round robin and two seeds where several cores run.
        most: accesses and blocks that are kept.

    Raises:
        ValueError: the function calls no kernel, or several; no such target is known.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.kernels import kernel_call
        >>> def total(x_ref, o_ref):
        ...     o_ref[0] = x_ref[0] + x_ref[1]
        >>> call = kernel_call(total, xlab.ShapeDtypeStruct((2,), "int32"))
        >>> run = kernel_run(call, np.asarray([3, 4], np.int32))
        >>> run.changes[-1].cells, [x.text for x in run.lints]
        ((7.0, None), ['1 of 2 elements of outputs[0] are never written: they are uninitialized'])
    """
    machine, turns = begin(what, args, params, schedule)
    run = record(machine, turns, most, target)
    if others is None:
        others = OTHERS if len(machine.now.cores) > 1 and len(run.events) <= MOST_OF_OTHERS else ()
    if not others:
        return run
    found = []
    for other in others:
        again = Machine(machine.program, params=machine.params, schedule=policy(other))
        found.append(record(again, None, most, target, brief=True))
    return run.replace(others=tuple(found))


def begin(
    what: Any, args: Sequence[Any] = (), params: InterpretParams | None = None, schedule: Any = None
) -> tuple[Machine, int | None]:
    """A fresh machine for a call or for what a machine runs, and how many turns are wanted (None: all)."""
    turns = None
    if isinstance(what, Machine):
        program, given = what.program, params or what.params
        if schedule is None:
            schedule = what.schedule
            if what.count:
                turns, schedule = what.count, what.schedule.recorded()
        what, args = program, ()
    else:
        made = Machine(what, *args, params=params, record=False)
        what, given, args = made.program, made.params, ()
    if given.grid_point_recorder is not None or given.logging_mode:
        given = replace(given, grid_point_recorder=None, logging_mode=None)
    if what.num_cores > 1 and not given.detect_races:
        given = replace(given, detect_races=True)
    return Machine(what, params=given, schedule=schedule), turns


def policy(how: Any, seed: int = 0) -> Any:
    """A schedule from its name, from a seed, or from core numbers."""
    if isinstance(how, int):
        return Schedule("random", seed=how)
    return Schedule(how, seed=seed) if isinstance(how, str) else how


def record(
    machine: Machine, turns: int | None, most: int, target: str, brief: bool = False
) -> KernelRun:
    """Runs a machine and records it. `brief` leaves out what another record of the same call has."""
    base = describe(machine.program, target)
    contents, log = Contents(machine), Log(machine)
    machine.breakpoints = [log]  # hears of every access, and stops at none
    machine.watch()
    faults: list[KernelFault] = []
    left: list[str] = []
    while not machine.done and (turns is None or machine.count < turns):
        if log.count >= most:
            left.append(f"what came after {plural(log.count, 'event')}, at t={machine.count}")
            break
        if machine.count >= MOST_TURNS:
            left.append(f"what came after {plural(machine.count, 'equation')}")
            break
        try:
            events = machine.step()
        except Exception as error:  # it ends the run, not the record
            faults.append(fault_of(error, machine, log.paths))
            break
        log.add(events)
        contents.look(events)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if machine.done:
            final_remarks(machine)
    if contents.cut is not None:
        left.append(f"contents after t={contents.cut}")
    visits, accesses, edges = log.records()
    races = shortest_schedules(machine, log.races(machine.races))
    run = base.replace(
        events=(*visits, *accesses),
        schedule=tuple(KernelTurn(*entry) for entry in machine.schedule.entries),
        edges=edges,
        races=races,
        buffers=contents.buffers(),
        changes=tuple(contents.changes),
        faults=(*log.faults, *faults),
        lints=tuple(
            KernelLint(x["text"], x.get("ref", ""))
            for x in machine.lint
            if x["kind"] != "uninitialized read"
        ),
        time=machine.count,
        scheduled_by=schedule_text(machine.schedule),
        made=SIMULATED,
        left_out=tuple(left),
    )
    if brief:
        return run.replace(operands=(), equations=(), cost=None)
    return run


def fault_of(error: Exception, machine: Machine, paths: Paths) -> KernelFault:
    """An error that ended a run: its words, where it was, and the user's line."""
    kind = next((word for cls, word in FAULTS.items() if isinstance(error, cls)), "error")
    place = getattr(error, "place", None) or {}
    pair = int(place.get("pair", 0))
    grid: tuple[int, ...] = tuple(machine.program.pairs[pair].grid)
    at = tuple(place.get("grid") or ())
    step = -1
    if machine.program.pairs[0].mesh is None and len(at) == len(grid) and all(grid):
        step = int(np.ravel_multi_index(at, grid)) if grid else 0
    source = paths.source(pair, place.get("eqn") or "")
    words = str(error) if isinstance(error, KernelRunError) else f"{type(error).__name__}: {error}"
    return KernelFault(kind, words, machine.count, step, int(place.get("core", 0)), "", source)


class KernelSession:
    """A machine behind a live view: it answers what the record has not.

    Args:
        what, args, params: as for `kernel_run`.
    """

    def __init__(
        self, what: Any, *args: Any, params: InterpretParams | None = None, target: str = ""
    ):
        self.machine, self.turns = begin(what, args, params)
        self.target = target
        self.run = kernel_run(self.machine, target=target)
        self._walker: Machine | None = None

    def schedule(self, how: str, seed: int = 0) -> KernelRun:
        """The same call under another schedule: "round_robin", "random" by a seed, "sequential", or the "shortest" that shows a race.

        Raises:
            ValueError: there is no race to show.
        """
        chosen: Any
        if how == "shortest":
            found = [r.shortest for r in self.run.races if r.shortest]
            if not found:
                raise ValueError(
                    "no race was found whose two accesses can be made one after the other"
                )
            chosen = Schedule(min(found, key=len))
            chosen.stop = True
        else:
            chosen = policy(how, seed)
        again = Machine(self.machine.program, params=self.machine.params, schedule=chosen)
        turns = len(chosen.turns) if how == "shortest" else None
        made = record(again, turns, MOST_EVENTS, self.target, brief=True)
        words = f"the shortest that shows a race, {plural(len(chosen.turns), 'equation')}"
        return made.replace(scheduled_by=words) if how == "shortest" else made

    def contents(self, t: int) -> KernelMoment:
        """What every buffer holds after time `t` of the run that is recorded."""
        walker = self._walker
        if walker is None:
            walker = self._walker = Machine(
                self.machine.program, params=replace(self.machine.params, detect_races=False)
            )
            turns = [turn.core for turn in self.run.schedule for _ in range(turn.equations)]
            walker.schedule = Schedule(turns)
            walker.schedule.stop = True
        with contextlib.suppress(Exception):  # the fault that the record ends with
            walker.goto(min(t + 1, self.run.time))
        now = Contents(walker)
        return KernelMoment(t, now.buffers())

    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Answers to the view's requests."""
        return {"schedule": self.schedule, "contents": self.contents}
