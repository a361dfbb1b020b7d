"""Other schedules: what they give, and the shortest one that shows a race or another output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.failures import DeadlockError, KernelRunError
from xlab.kernels.machine.machine import Machine
from xlab.kernels.machine.programs import KernelProgram
from xlab.kernels.machine.races import Race
from xlab.kernels.machine.schedule import Schedule
from xlab.kernels.machine.traced import captured_program

DEFAULT = ("sequential", "round_robin", *(Schedule("random", seed=i) for i in range(4)))


@dataclass(frozen=True)
class ScheduleOutcome:
    """What one schedule gives: outputs, or the error that ended the run."""

    schedule: Schedule
    outputs: list[np.ndarray] | None
    races: list[Race]
    error: str | None
    turns: int

    def __repr__(self):
        what = self.error if self.outputs is None else str([x.tolist() for x in self.outputs])
        return f"{self.schedule}: {what}" + (f", {len(self.races)} races" if self.races else "")


@dataclass(frozen=True)
class Comparison:
    """Outcomes of several schedules, side by side."""

    outcomes: list[ScheduleOutcome]

    @property
    def agree(self) -> bool:
        """Whether all schedules give the same outputs."""
        return all(_same(o, self.outcomes[0]) for o in self.outcomes)

    def groups(self) -> list[list[ScheduleOutcome]]:
        """Outcomes with the same outputs together."""
        found: list[list[ScheduleOutcome]] = []
        for o in self.outcomes:
            for group in found:
                if _same(group[0], o):
                    group.append(o)
                    break
            else:
                found.append([o])
        return found

    def __repr__(self):
        return "\n".join(map(repr, self.outcomes))


def _same(a: ScheduleOutcome, b: ScheduleOutcome) -> bool:
    if a.outputs is None or b.outputs is None:
        return a.error == b.error
    return all(
        x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a.outputs, b.outputs)
    )


def compare_schedules(
    call: Callable[..., Any] | KernelProgram,
    *args: Any,
    schedules: Sequence[Any] = DEFAULT,
    params: InterpretParams | None = None,
) -> Comparison:
    """What a call gives under several schedules.

    Args:
        call: what `kernel_call` or `mpmd_map` gave, or a function that calls one kernel.
        args: its arguments.
        schedules: what `Schedule` takes; by default "sequential", "round_robin" and four random ones.
        params: further options; races are looked for in any case.

    Example:
        >>> import xlab
        >>> from xlab.kernels import CoreMesh, mpmd_map
        >>> from xlab.kernels.machine import Schedule, compare_schedules
        >>> def write(o):
        ...     o[0] = xlab.lax.axis_index("core")
        >>> call = mpmd_map([(CoreMesh("core", 2), write)], xlab.ShapeDtypeStruct((1,), "int32"))
        >>> compare_schedules(call, schedules=["sequential", Schedule("sequential", order=(1, 0))])
        Schedule(sequential): [[1]], 1 races
        Schedule(sequential, order=(1, 0)): [[0]], 1 races
    """
    program, params = _program(call, args, params)
    return Comparison([_outcome(program, params, s) for s in schedules])


def _program(call, args, params) -> tuple[KernelProgram, InterpretParams]:
    if isinstance(call, KernelProgram):
        program, own = call, InterpretParams()
    else:
        program, own = captured_program(call, args, params)
    return program, replace(params or own, detect_races=True, on_race="record")


def _machine(program: KernelProgram, params: InterpretParams, schedule: Any) -> Machine:
    return Machine(program, params=params, schedule=schedule, record=False, undo=False)


def _outcome(program: KernelProgram, params: InterpretParams, schedule: Any) -> ScheduleOutcome:
    machine = _machine(program, params, schedule)
    outputs, error = None, None
    try:
        outputs = machine.finish_quietly()
    except KernelRunError as e:
        error = f"{type(e).__name__}: {e}"
    return ScheduleOutcome(machine.schedule, outputs, machine.races, error, machine.count)


@dataclass(frozen=True)
class ShortestRace:
    """A schedule that shows something wrong, and as few turns of it as the search found.

    `kind` is "race", "output" (outputs that differ from those of `reference`) or "deadlock". Running `schedule` up to its last turn
    shows a race or deadlock; for an output, it has to be run to the end.
    """

    kind: str
    schedule: Schedule
    turns: int
    switches: int
    race: Race | None
    outputs: list[np.ndarray] | None
    reference: list[np.ndarray] | None
    tried: int

    def machine(self, call: Any, *args: Any, params: InterpretParams | None = None) -> Machine:
        """A machine that takes these turns."""
        program, params = _program(call, args, params)
        return Machine(program, params=params, schedule=self.schedule)

    def __repr__(self):
        what = {"race": str(self.race), "output": "another output", "deadlock": "a deadlock"}[
            self.kind
        ]
        return f"{what}, after {self.turns} turns with {self.switches} switches: {list(self.schedule.turns)}"


def shortest_race(
    call: Callable[..., Any] | KernelProgram,
    *args: Any,
    params: InterpretParams | None = None,
    tries: int = 300,
    seconds: float = 10.0,
) -> ShortestRace | None:
    """The shortest schedule found that shows a race, a deadlock, or an output that depends on the order of cores.

    It looks at some schedules for something wrong, leaves out turns as long as that stays, and brings turns of one core together. The
    search is bounded; what it finds may not be the shortest there is.

    Args:
        call: what `mpmd_map` or `kernel_call` gave, or a function that calls one kernel.
        args: its arguments.
        params: further options.
        tries: how many runs it may take.
        seconds: how long.

    Returns:
        None if it finds nothing wrong.

    Example:
        >>> import xlab
        >>> from xlab.kernels import CoreMesh, mpmd_map
        >>> from xlab.kernels.machine import shortest_race
        >>> def write(o):
        ...     o[0] = xlab.lax.axis_index("core")
        >>> found = shortest_race(mpmd_map([(CoreMesh("core", 2), write)], xlab.ShapeDtypeStruct((1,), "int32")))
        >>> found.schedule.turns
        (0, 1)
    """
    program, params = _program(call, args, params)
    search = _Search(program, params, tries, time.monotonic() + seconds)
    reference = None
    for schedule in _candidates(program.num_cores):
        if search.over:
            return None
        search.tried += 1
        machine = _machine(program, params, schedule)
        shown, outputs = None, None
        try:
            while not machine.done and not machine.races:
                machine.step()
            if machine.races:
                shown = "race"
            else:
                outputs = machine.finish_quietly()
        except DeadlockError:
            shown = "deadlock"
        if shown is not None:
            turns = search.simplify(machine.schedule.cores(), search.shows(shown))
            return search.found(shown, turns, reference)
        if reference is None:
            reference = outputs
        elif any(a.tobytes() != b.tobytes() for a, b in zip(reference, outputs or [])):
            turns = search.simplify(machine.schedule.cores(), search.differs(reference))
            return search.found("output", turns, reference)
    return None


def _candidates(cores: int) -> Iterator[Schedule]:
    yield Schedule("sequential")
    if cores == 1:
        return
    yield Schedule("sequential", order=tuple(reversed(range(cores))))
    yield Schedule("round_robin")
    for seed in range(100):
        yield Schedule("random", seed=seed)


class _Search:
    """Runs of explicit schedules, counted."""

    def __init__(self, program, params, tries: int, end: float):
        self.program, self.params, self.tries, self.end = program, params, tries, end
        self.tried = 0

    @property
    def over(self) -> bool:
        return self.tried >= self.tries or time.monotonic() > self.end

    def run(self, turns: Sequence[int], to_end: bool) -> tuple[Machine, str | None]:
        """The turns, and what they show before they end."""
        self.tried += 1
        schedule = Schedule(turns)
        schedule.stop = not to_end
        machine = _machine(self.program, self.params, schedule)
        try:
            while machine.step_if_any():
                if machine.races:
                    return machine, "race"
        except DeadlockError:
            return machine, "deadlock"
        except KernelRunError:
            return machine, "error"
        return machine, None

    def shows(self, kind: str) -> Callable[[Sequence[int]], list[int] | None]:
        """A test of turns: those that were taken until it showed, or None."""

        def test(turns):
            machine, shown = self.run(turns, False)
            return machine.schedule.cores() if shown == kind else None

        return test

    def differs(self, reference) -> Callable[[Sequence[int]], list[int] | None]:
        def test(turns):
            machine, shown = self.run(turns, True)
            if shown is not None or not machine.done:
                return None
            outs = machine.results()
            same = all(a.tobytes() == b.tobytes() for a, b in zip(reference, outs))
            return None if same else list(turns)

        return test

    def simplify(self, turns: list[int], test) -> list[int]:
        """Fewer turns, then fewer switches, that still pass the test."""
        turns = test(turns) or turns
        size = max(1, len(turns) // 2)
        while size and not self.over:
            at, shorter = 0, False
            while at < len(turns) and not self.over:
                kept = test(turns[:at] + turns[at + size :])
                if kept is not None and len(kept) < len(turns):
                    turns, shorter = kept, True
                else:
                    at += size
            if not shorter or size > 1:
                size = size // 2 if size > 1 else (1 if shorter else 0)
        return self._joined(turns, test)

    def _joined(self, turns: list[int], test) -> list[int]:
        """Turns of one core moved together, where that changes nothing."""
        at = 1
        while at < len(turns) and not self.over:
            if turns[at] == turns[at - 1] or turns[at] not in turns[:at]:
                at += 1
                continue
            last = max(i for i in range(at) if turns[i] == turns[at])
            moved = [*turns[: last + 1], turns[at], *turns[last + 1 : at], *turns[at + 1 :]]
            kept = test(moved)
            if kept is not None and len(kept) <= len(turns) and _switches(kept) < _switches(turns):
                turns = kept
            else:
                at += 1
        return turns

    def found(self, kind: str, turns: list[int], reference) -> ShortestRace:
        machine, _ = self.run(turns, kind == "output")
        schedule = Schedule(turns)
        return ShortestRace(
            kind,
            schedule,
            len(turns),
            schedule.switches(),
            machine.races[0] if machine.races else None,
            [np.array(x) for x in machine.results()] if machine.done else None,
            reference,
            self.tried,
        )


def _switches(turns: Sequence[int]) -> int:
    return Schedule(turns).switches()
