"""Schedules of a simulated run: in words, and the shortest one that shows a race."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xlab.kernels.machine import Access, KernelRunError, Machine, Schedule
from xlab.observe.records.kernel import KernelRace
from xlab.observe.records.units import plural

MOST_RACES = 20
"""Races whose shortest schedule is looked for."""


def schedule_text(schedule: Any) -> str:
    """`round robin`, `random, seed 3`, `given, 12 equations`."""
    if schedule.kind == "round_robin":
        each = f", {schedule.quantum} at a time" if schedule.quantum > 1 else ""
        return f"round robin{each}"
    if schedule.kind == "random":
        return f"random, seed {schedule.seed}"
    if schedule.kind == "explicit":
        return f"given, {plural(len(schedule.turns), 'equation')}"
    return schedule.kind


def shortest_schedules(machine: Machine, races: Sequence[KernelRace]) -> tuple[KernelRace, ...]:
    """The races, each with the shortest schedule that makes its two accesses one right after the other, where one is found."""
    if not races:
        return ()
    before = _predecessors(machine)
    return tuple(
        race.replace(shortest=_shortest(machine, race, before)) if i < MOST_RACES else race
        for i, race in enumerate(races)
    )


def _predecessors(machine: Machine) -> tuple[list[int], dict[int, tuple[int, ...]], set[int]]:
    """The core of each turn, the signals that a turn's wait goes on with, and turns in which a core only found that it has to wait."""
    signals: dict[int, tuple[int, ...]] = {}
    idle: set[int] = set()
    for e in machine.log:
        if isinstance(e, Access) and e.kind == "wait":
            more = dict(e.more)
            if more.get("blocked"):
                idle.add(e.t)
            else:
                signals[e.t] = tuple(int(t) for t in more.get("signals", ()))
    return machine.schedule.cores(), signals, idle


def _shortest(machine: Machine, race: KernelRace, before: Any) -> tuple[int, ...]:
    """All that has to come before either access: what its core did, and, for each wait in that, what the signaling core did.

    The two accesses come last. Whether they still race is then tried.
    """
    cores, signals, idle = before
    a, b = race.times
    needed: set[int] = set()
    ends: dict[int, int] = {}
    todo = [a, b]
    while todo:
        t = todo.pop()
        if not 0 <= t < len(cores):
            return ()
        core = cores[t]
        low = ends.get(core, -1)
        if t <= low:
            continue
        ends[core] = t
        for turn in range(low + 1, t + 1):
            if cores[turn] == core:
                needed.add(turn)
                todo += signals.get(turn, ())
    first = [t for t in sorted(needed - idle) if t not in (a, b)]
    order = tuple(cores[t] for t in (*first, a, b))
    return order if _races(machine, race, order) else ()


def _races(machine: Machine, race: KernelRace, order: Sequence[int]) -> bool:
    schedule = Schedule(order)
    schedule.stop = True
    again = Machine(
        machine.program, params=replace(machine.params, on_race="record"), schedule=schedule
    )
    try:
        while again.count < len(order) and not again.done:
            again.step()
    except (KernelRunError, RuntimeError):
        return False
    return any(set(r.eqns) == set(race.equations) and r.ref == race.ref for r in again.races)
