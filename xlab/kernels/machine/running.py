"""Running a program: forwards to the end or to a breakpoint, backwards, and another way from here on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from xlab.kernels.failures import warn
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.engine import Engine, quiet_context
from xlab.kernels.machine.events import Event
from xlab.kernels.machine.failures import (
    KernelRunError,
    RaceError,
    described,
)
from xlab.kernels.machine.history import History
from xlab.kernels.machine.programs import KernelProgram
from xlab.kernels.machine.races import Race
from xlab.kernels.machine.remarks import final_remarks
from xlab.kernels.machine.schedule import Schedule
from xlab.kernels.machine.state import MachineCore
from xlab.kernels.machine.threads import run_threads

_KNOWN = 100_000  # accesses that the race detector keeps, before it looks which it needs
_CHECK_EVERY = 64  # turns between looks at the clock of a run with a time limit


class Runner(Engine):
    """An engine that is driven: by steps, by grid points, to the end, and back.

    Args:
        program: what to run.
        params: options.
        schedule: the order of cores, in place of the one in `params`.
        record: whether to log events.
        undo: whether to keep what going back needs.
    """

    def __init__(
        self,
        program: KernelProgram,
        params: InterpretParams,
        schedule: Any = None,
        record: bool = True,
        undo: bool = True,
    ):
        super().__init__(program, params, record, schedule)
        self.history = History(program.nbytes) if undo else None
        self.stopped: str | None = None
        self._resumed: int | None = None  # the turn before which a breakpoint has stopped the run
        self._remarked = False
        self._known_limit = _KNOWN

    # -- running -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Turns taken so far."""
        return self.now.t

    @property
    def done(self) -> bool:
        """Whether every core has ended."""
        return self.finished

    def step(self) -> list[Event]:
        """One equation of the core whose turn it is; returns its events.

        A core that finds it has to wait has had its turn.

        Raises:
            RuntimeError: the run has ended.
            DeadlockError: all cores wait.
        """
        with self._running():
            core = self.choose()
            if core is None:
                raise RuntimeError(
                    f"{self.program.name} has ended: there is no further step. Go back with .back()"
                )
            return self._one(core)

    def step_if_any(self) -> bool:
        """One equation, if the schedule has a core that can run; tells whether it had."""
        with self._running():
            core = self.choose()
            if core is not None:
                self._one(core)
            return core is not None

    def finish_quietly(self) -> list[np.ndarray]:
        """Runs to the end without remarks; returns the outputs."""
        with self._running():
            self._loop(None, None)
        return self.outputs()

    def step_core(self, core: int) -> list[Event]:
        """One equation of a core, whatever the schedule says; returns its events.

        Raises:
            RuntimeError: the core has ended, or waits; the message says for what.
        """
        with self._running():
            it = self._core(core)
            if it.done:
                raise RuntimeError(f"core {core} has ended")
            if it.waiting is not None and not self.can_pass(it):
                w = it.waiting
                present = int(self.now.buffers[w.number].values.reshape(-1)[w.element])
                raise RuntimeError(
                    f"core {core} waits for {w.name}: it needs {w.needed}, {present} are there. Step a core that signals it."
                )
            return self._one(it)

    def step_grid(self) -> list[Event]:
        """Until the core whose turn it is has ended its grid point, write-back included; returns the events.

        Other cores have their turns in between where the schedule says so, or where the core has to wait.
        """
        with self._running():
            core = self.choose()
            if core is None:
                raise RuntimeError(
                    f"{self.program.name} has ended: there is no further step. Go back with .back()"
                )
            at, found = core.at, []
            following: MachineCore | None = core
            while following is not None:
                found += self._one(following)
                if core.at != at or core.done:
                    break
                following = self.choose()
            return found

    def run(
        self, until: int | Callable[[Any], bool] | None = None, seconds: float | None = None
    ) -> list[np.ndarray] | None:
        """Runs to the end, to a breakpoint, or until a condition holds.

        Args:
            until: a number of turns, or a function of the machine that is asked before each.
            seconds: a time limit.

        Returns:
            The outputs at the end. None where it stopped before: `stopped` says why.

        Raises:
            DeadlockError, StepBudgetError, OutOfBoundsError, ...: `place` in the error says where; the machine can be looked at.
        """
        self.stopped = None
        self.hits.clear()
        with self._running():
            if self.schedule.kind == "threads" and until is None and not self.breakpoints:
                run_threads(self)
            else:
                self._loop(until, seconds)
        if not self.finished:
            return None
        self._remark()
        return self.outputs()

    def _loop(self, until, seconds) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        target = until if isinstance(until, int) else None
        condition = until if callable(until) else None
        history = self.history
        while True:
            st = self.now
            if target is not None and st.t >= target:
                self.stopped = f"{st.t} turns"
                return
            if condition is not None and condition(self):
                self.stopped = "the condition holds"
                return
            core = self.choose()
            if core is None:
                return
            if self.breakpoints and st.t != self._resumed:
                hit = next((b for b in self.breakpoints if b.hit_before(core)), None)
                if hit is not None:
                    self.stopped, self._resumed = repr(hit), st.t
                    return
            if history is not None and history.due(st.t):
                history.save(st, self.detector)
            if self.detector is not None and len(self.detector.known) > self._known_limit:
                self._forget()
            self.take(core)
            if self.hits:
                self.stopped = repr(self.hits[0])
                self.hits.clear()
                return
            if end is not None and st.t % _CHECK_EVERY == 0 and time.monotonic() > end:
                self.stopped = f"{seconds} seconds are over"
                return

    def _one(self, core: MachineCore) -> list[Event]:
        self.keep()
        before = len(self.log) + self.left_out
        self.take(core)
        self.hits.clear()
        return self.log[before - self.left_out :]

    def _forget(self) -> None:
        assert self.detector is not None
        saved = [] if self.history is None else self.history.saved
        self.detector.forget([d for _, _, d, _ in saved if d is not None])
        self._known_limit = 2 * len(self.detector.known) + _KNOWN

    def keep(self) -> None:
        """Keeps a checkpoint, if one is due."""
        history = self.history
        if history is not None and history.due(self.now.t):
            history.save(self.now, self.detector)

    def take(self, core: MachineCore) -> None:
        """Gives a core a turn; an error says where it happened."""
        t = self.now.t
        try:
            self.turn(core)
        except KernelRunError:
            raise
        except KeyboardInterrupt:
            # The turn may be half done: the state before it comes back.
            if self.history is not None:
                self._restore(t)
            self.stopped = f"interrupted at {described(self.place(self.now.cores[core.number]))}"
            raise
        except Exception as error:
            place = self.place(core)
            error.place = place  # type: ignore[attr-defined]
            error.add_note(f"in the kernel {self.program.name}: {described(place)}")
            raise

    @contextmanager
    def _running(self) -> Iterator[None]:
        with quiet_context():
            yield

    def _core(self, number: int) -> MachineCore:
        cores = self.now.cores
        if not 0 <= number < len(cores):
            raise ValueError(f"there is no core {number}: they are numbered 0 to {len(cores) - 1}")
        return cores[number]

    # -- going back ----------------------------------------------------------------------------------------

    def back(self, k: int = 1) -> None:
        """Takes back k turns: buffers, frames, schedule and log are as they were.

        Raises:
            ValueError: fewer turns were taken, or k is negative.
        """
        if k < 0:
            raise ValueError(
                f"back takes a number of turns from 0, got {k}: use goto(t) to go forward"
            )
        self.goto(self.now.t - k)

    def goto(self, t: int) -> None:
        """Goes to the state before turn t: back, or forward as the schedule says."""
        if t < 0:
            raise ValueError(
                f"{self.now.t} turns were taken: there is nothing {-t} turns before the first"
            )
        if t > self.now.t:
            breakpoints, self.breakpoints = self.breakpoints, []
            try:
                with self._running():
                    self._loop(t, None)
            finally:
                self.breakpoints = breakpoints
            return
        with self._running():
            self._restore(t)
        self.stopped = None

    def _restore(self, t: int) -> None:
        """The state before turn t, from the nearest checkpoint."""
        if self.history is None:
            raise RuntimeError("this machine was made with undo=False: it cannot go back")
        if t == self.now.t and not self.history.saved:
            return
        _, state, detector = self.history.at(t)
        self.history.forget(t)
        turns = self.schedule
        self.now = state
        # Clocks are followed again where races are looked for; nothing else is told twice.
        self.detector, self.replaying = detector, True
        self.watch()
        try:
            while state.t < t:
                if turns.kind == "explicit":
                    self.choose()  # moves on in the sequence
                self.turn(state.cores[turns.core_at(state.t)])
        finally:
            self.replaying = False
            self.watch()
        turns.forget(t)
        keep = len(self.log)
        while keep and self.log_t[keep - 1] >= t:
            keep -= 1
        del self.log[keep:], self.log_t[keep:]
        self._remarked, self._resumed = False, None

    def fork(self, schedule: Any = None) -> Self:
        """An independent copy, to try another schedule from here on.

        Args:
            schedule: its order of cores.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.now = self.now.copy()
        new.detector = None if self.detector is None else self.detector.copy(apart=True)
        new.log, new.log_t = list(self.log), list(self.log_t)
        new.visits = {k: {b: list(v) for b, v in d.items()} for k, d in self.visits.items()}
        new.effects, new.hits = dict(self.effects), []
        new.breakpoints = list(self.breakpoints)
        new.history = None if self.history is None else self.history.copy(new.detector)
        new.schedule = Schedule(self.schedule if schedule is None else schedule)
        new.schedule.entries = list(self.schedule.entries)
        new.order = new.schedule.ordered([c.number for c in new.now.cores])
        if schedule is not None:
            new.now.cursor = 0
        return new

    # -- what came of it -----------------------------------------------------------------------------------

    @property
    def races(self) -> list[Race]:
        """Races found so far (`InterpretParams(detect_races=True)`)."""
        return [] if self.detector is None else self.detector.races

    @property
    def races_found(self) -> bool:
        return bool(self.races)

    @property
    def lint(self) -> list[dict[str, Any]]:
        """Remarks: uninitialized reads, writes to inputs, leftover signals, outputs that are not written or visited again."""
        return list(self.now.lint.values())

    def outputs(self) -> list[np.ndarray]:
        """The results, flat.

        Raises:
            RuntimeError: the run has not ended.
        """
        if not self.finished:
            left = [c.number for c in self.now.cores if not c.done]
            raise RuntimeError(
                f"{self.program.name} has no outputs yet: cores {left} have not ended. Use run(), or look at state()['buffers']"
            )
        return [np.array(x) for x in self.results()]

    def _remark(self) -> None:
        """What is said at the end of a run, once."""
        if self._remarked:
            return
        self._remarked = True
        for text in final_remarks(self):
            warn(text)
        if self.races and self.params.on_race == "raise":
            error = RaceError(
                f"{len(self.races)} race{'s' * (len(self.races) != 1)} in {self.program.name}:\n"
                + "\n".join(f"  {r}" for r in self.races)
            )
            error.races = self.races
            raise error
