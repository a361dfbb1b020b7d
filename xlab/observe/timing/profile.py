"""Measured times: a run under the profiler, joined to instructions, equations and collectives."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xlab.backend import profiling as _profiling
from xlab.compile import launching
from xlab.observe.programs.recorder import Session, paused
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Program, Transfer
from xlab.observe.records.text import signed
from xlab.observe.timing.costs import fused_shares
from xlab.observe.timing.phases import wait
from xlab.observe.timing.runnable import Spared, measured_call


@dataclass(frozen=True)
class Measured:
    """One instruction: median over runs of the slowest device, and of the part a collective spent waiting. In a loop it is executed
    `times` times per run, and times are those of all of them."""

    name: str
    us: float
    wait_us: float
    runs: int
    times: int = 1


@dataclass
class Times:
    """Measured times of one program. Of several equations in one instruction each has a part of its time, by what it computes; these are
    `shared`, and estimates. `made_by` says who traced and compiled the program, where that was not this package."""

    instructions: dict[str, Measured] = field(default_factory=dict)
    equations: dict[int, float] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    module: str = field(default="", repr=False)
    taken: Any = field(default=None, repr=False)
    made_by: str = field(default="", repr=False)

    def __repr__(self) -> str:
        shown = (f"{k}={getattr(self, k)!r}" for k in ("instructions", "equations", "shared"))
        return signed(f"Times({', '.join(shown)})", self)


def profile(what: Any, *args: Any, repeat: int = 5, **kwargs: Any) -> Times:
    """Runs a program under the profiler and joins what it measured to instructions and equations.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr; of the latter two without arguments it runs on those that it was
            traced with where they are kept, else on ones.
        repeat: runs to measure.

    Raises:
        TypeError: nothing of `what` can run.

    Example:
        >>> import numpy as np, xlab
        >>> times = profile(lambda x: xlab.lax.sin(x), np.ones(1000, np.float32), repeat=2)
        >>> list(times.equations)
        [0]
    """
    with paused():
        return times_of(*runs_of(what, args, kwargs, repeat, "profile"))


def runs_of(
    what: Any, args: tuple, kwargs: dict, repeat: int, asker: str
) -> tuple[Any, ProgramStages]:
    """What the profiler saw of some runs of a program that is compiled and warm, and its stages.

    What a run takes for itself (donation) is a copy.
    """
    what, args, kwargs, stages = measured_call(what, args, kwargs, asker)
    stages.executable  # noqa: B018  (compiled before the profile begins)
    spared = Spared(what, args, kwargs)

    def run() -> None:
        given, named = spared()
        wait(what(*given, **named))

    for _ in range(2):
        run()
    # The first runs were agreed on; the measured ones wait for one another only where the program does.
    with launching.ungated(), _profiling.profile() as taken:
        for _ in range(repeat):
            run()
    return taken, stages


@contextlib.contextmanager
def profiled(session: Session) -> Iterator[Session]:
    """Profiles a block for a session, so that its report has measured times."""
    with _profiling.profile() as taken:
        try:
            yield session
        finally:
            session.profile = taken


def times_of(taken: Any, stages: ProgramStages) -> Times:
    """The part of a profile that belongs to a program."""
    module = stages.hlo
    by_name = {i.name: i for i in module.instructions()}
    spans: dict[str, dict[tuple[int, int], list]] = {}
    for event in taken.instructions:
        if event.hlo_op in by_name and event.hlo_module in (module.name, ""):
            # Every execution inside a loop counts: a run is the sum over its executions on one device.
            here = spans.setdefault(event.hlo_op, {}).setdefault(
                (event.run, event.device), [0.0, 0.0, 0]
            )
            here[0] += event.duration_ns / 1e3
            here[1] += event.wait_ns / 1e3
            here[2] += 1
    out = Times(module=module.text, taken=taken, made_by=stages.made_by)
    for name, found in spans.items():
        runs: dict[int, tuple[float, float, int]] = {}
        for (run, _), (us, waited, times) in found.items():
            runs[run] = max(runs.get(run, (0.0, 0.0, 0)), (us, waited, times))
        us, waited, times = (statistics.median(part) for part in zip(*runs.values()))
        out.instructions[name] = Measured(name, us, waited, len(runs), max(1, round(times)))
    for name, measured in out.instructions.items():
        if by_name[name].opcode in ("while", "conditional", "call"):
            continue  # the instructions inside are measured themselves
        ids = stages.innermost(module.equations_of(by_name[name]))
        parts = fused_shares(stages.equations, ids)
        for i, part in parts.items():
            out.equations[i] = out.equations.get(i, 0.0) + measured.us * part
        if len(parts) > 1:
            out.shared.update(parts)
    return out


def heat(
    taken: Any,
    subjects: Sequence[ProgramStages],
    programs: Sequence[Program],
    transfers: Sequence[Transfer],
) -> tuple[list[Program], list[Transfer]]:
    """Programs and transfers with what a profile measured of them."""
    made, moved = list(programs), list(transfers)
    for index, stages in enumerate(subjects):
        found = taken if isinstance(taken, Times) else times_of(taken, stages)
        if isinstance(taken, Times) and taken.module != stages.hlo.text:
            continue
        if not found.instructions:
            continue
        lines = {i.name: i.line for i in _optimized(stages).instructions()}
        levels = tuple(
            level.replace(
                heat=tuple(
                    sorted((lines[n], m.us) for n, m in found.instructions.items() if n in lines)
                )
            )
            if level.name == "optimized"
            else level
            for level in made[index].levels
        )
        made[index] = made[index].replace(
            heat=tuple(sorted(found.equations.items())),
            levels=levels,
            shared=tuple(sorted(found.shared)),
        )
        moved = [
            _with_times(t, m, found.equations)
            if t.program == index and (m := found.instructions.get(t.instruction)) is not None
            else t
            for t in moved
        ]
    return made, moved


def _with_times(t: Transfer, m: Measured, equations: dict[int, float]) -> Transfer:
    us = m.us / m.times
    overlap = t.overlap.measured(us, equations) if t.overlap is not None else None
    # One process sees the waits for its own devices only; `merge` knows those for the others.
    alone = t.mesh is None or len(set(t.mesh.hosts)) < 2
    waited = m.wait_us / m.times if alone else None
    return t.replace(measured_us=us, wait_us=waited, runs=m.times, overlap=overlap)


def _optimized(stages: ProgramStages) -> Any:
    """The module as the level shows it, so that line numbers agree."""
    from xlab.observe.programs import hlo

    return hlo.parse(hlo.readable(stages.hlo.text))
