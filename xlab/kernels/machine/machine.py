"""`Machine`: a kernel that is run step by step, forwards and backwards."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlab.core.jaxpr import Var
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.breakpoints import Breakpoint
from xlab.kernels.machine.engine import Engine, quiet_context
from xlab.kernels.machine.events import Access, Event
from xlab.kernels.machine.failures import (
    KernelRunError,
    KernelWarning,
    RaceError,
    described,
)
from xlab.kernels.machine.history import History
from xlab.kernels.machine.nested import inner_program
from xlab.kernels.machine.programs import Program
from xlab.kernels.machine.races import Race
from xlab.kernels.machine.recording import Recording, record_of
from xlab.kernels.machine.remarks import final_remarks
from xlab.kernels.machine.schedule import Schedule
from xlab.kernels.machine.state import NOTHING, Core
from xlab.kernels.machine.text import variable_names
from xlab.kernels.machine.threads import run_threads
from xlab.kernels.machine.traced import captured_program

_CHECK_EVERY = 64  # turns between looks at the clock of a run with a time limit


class Machine(Engine):
    """Runs a kernel one equation of one core at a time. It can stop, go back, and go another way.

    Args:
        call: what `kernel_call` or `mpmd_map` gave, or any function that calls one kernel; what stands before the kernel is evaluated.
        args: its arguments. They do not change.
        params: options; by default those of the call.
        schedule: the order of cores, in place of the one in `params`.
        record: whether to log events.
        undo: whether to keep what going back needs.

    Raises:
        ValueError: the function calls no kernel, or several.

    Example:
        >>> import xlab
        >>> import xlab.numpy as jnp
        >>> from xlab.kernels import BlockSpec, kernel_call
        >>> from xlab.kernels.machine import Machine
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = x_ref[...] * 2
        >>> block = BlockSpec((2,), lambda i: (i,))
        >>> call = kernel_call(double, xlab.ShapeDtypeStruct((4,), "int32"), grid=2, in_specs=[block], out_specs=block)
        >>> machine = Machine(call, jnp.arange(4))
        >>> for event in machine.step():
        ...     print(event.text())
        reads args[0][0:2]
        reads args[0][0:2]
        >>> machine.run()[0].tolist(), machine.count
        ([0, 2, 4, 6], 6)
        >>> machine.back(2)
        >>> machine.state()["buffers"]["outputs[0]"]["values"].tolist()[:2]
        [0, 2]
    """

    def __init__(
        self,
        call: Callable[..., Any] | Program,
        *args: Any,
        params: InterpretParams | None = None,
        schedule: Any = None,
        record: bool = True,
        undo: bool = True,
    ):
        if not (params is None or isinstance(params, InterpretParams)):
            raise TypeError(f"the params of a Machine are InterpretParams, got {params!r}")
        if isinstance(call, Program):
            program, given = call, InterpretParams()
        else:
            program, given = captured_program(call, args, params)
        super().__init__(program, params or given, record)
        if schedule is not None:
            self.schedule = Schedule(
                schedule, quantum=self.params.quantum, seed=self.params.random_seed or 0
            )
            self.order = self.schedule.ordered([c.number for c in self.now.cores])
        self.history = History(program.nbytes) if undo else None
        self.stopped: str | None = None
        self._numbers = 0
        self._resumed: int | None = None  # the turn before which a breakpoint has stopped the run
        self._remarked = False

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
            following: Core | None = core
            while following is not None:
                found += self._one(following)
                if core.at != at or core.done:
                    break
                following = self.choose()
            return found

    def run(
        self, until: int | Callable[[Machine], bool] | None = None, seconds: float | None = None
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
            self.take(core)
            if self.hits:
                self.stopped = repr(self.hits[0])
                self.hits.clear()
                return
            if end is not None and st.t % _CHECK_EVERY == 0 and time.monotonic() > end:
                self.stopped = f"{seconds} seconds are over"
                return

    def _one(self, core: Core) -> list[Event]:
        self.keep()
        before = len(self.log) + self.left_out
        self.take(core)
        self.hits.clear()
        return self.log[before - self.left_out :]

    def keep(self) -> None:
        """Keeps a checkpoint, if one is due."""
        history = self.history
        if history is not None and history.due(self.now.t):
            history.save(self.now, self.detector)

    def take(self, core: Core) -> None:
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

    def _core(self, number: int) -> Core:
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
        self._watch()
        try:
            while state.t < t:
                if turns.kind == "explicit":
                    self.choose()  # moves on in the sequence
                self.turn(state.cores[turns.core_at(state.t)])
        finally:
            self.replaying = False
            self._watch()
        turns.forget(t)
        keep = len(self.log)
        while keep and self.log_t[keep - 1] >= t:
            keep -= 1
        del self.log[keep:], self.log_t[keep:]
        self._remarked, self._resumed = False, None

    def fork(self, schedule: Any = None) -> Machine:
        """An independent copy, to try another schedule from here on.

        Args:
            schedule: its order of cores.
        """
        new = object.__new__(Machine)
        new.__dict__.update(self.__dict__)
        new.now = self.now.copy()
        new.detector = None if self.detector is None else self.detector.copy()
        new.log, new.log_t = list(self.log), list(self.log_t)
        new.visits = {k: {b: list(v) for b, v in d.items()} for k, d in self.visits.items()}
        new.effects, new.hits = dict(self.effects), []
        new.breakpoints = list(self.breakpoints)
        new.history = None if self.history is None else self.history.copy()
        new.schedule = Schedule(self.schedule if schedule is None else schedule)
        new.schedule.entries = list(self.schedule.entries)
        new.order = new.schedule.ordered([c.number for c in new.now.cores])
        if schedule is not None:
            new.now.cursor = 0
        return new

    # -- breakpoints ---------------------------------------------------------------------------------------

    def breakpoint(
        self,
        ref: str | None = None,
        *,
        slice: Sequence[Any] | None = None,
        kind: str | None = None,
        eqn: str | None = None,
        grid: Sequence[int] | None = None,
        core: int | None = None,
        when: Callable[[np.ndarray], Any] | None = None,
    ) -> Breakpoint:
        """Lets `run` stop where all of these hold.

        Args:
            ref: a reference, by its name in events ("args[0]").
            slice: a part of its array, per dimension a slice, a pair or a position; accesses that overlap it count.
            kind: "read", "write", "accum", "signal", "wait", "copy".
            eqn: the path of an equation; stops before it.
            grid: a grid point; stops before its first equation.
            core: a core's number.
            when: a condition on the value that is read or written, such as `lambda v: np.isnan(v).any()`.
        """
        self._numbers += 1
        made = Breakpoint(self._numbers, ref, slice, kind, eqn, grid, core, when)
        self.breakpoints = [*self.breakpoints, made]
        self._watch()
        return made

    def clear(self, breakpoint: Breakpoint | int | None = None) -> None:
        """Takes a breakpoint away, or all of them."""
        number = breakpoint.number if isinstance(breakpoint, Breakpoint) else breakpoint
        self.breakpoints = [
            b for b in self.breakpoints if number is not None and b.number != number
        ]
        self._watch()

    # -- looking -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything there is, as plain data: cores, buffers (NumPy copies), turns taken, the schedule so far.

        Of buffers with one name, a core's own stand under "name@core".
        """
        cores = {}
        for c in self.now.cores:
            w = c.waiting
            cores[c.number] = {
                "pair": c.pair.number,
                "grid": c.next_coords(),
                "pc": c.path,
                "depth": len(c.frames),
                "frames": [f.title for f in c.frames],
                "done": c.done,
                "waiting_on": None if w is None else {"semaphore": w.name, "needed": w.needed},
            }
        buffers = {}
        for b in self.now.buffers.values():
            if b.values is NOTHING:
                continue
            name = b.name if b.owner is None else f"{b.name}@{b.owner}"
            buffers[name] = {
                "values": np.array(b.values),
                "written": np.ones(b.shape, bool) if b.written is None else b.written.copy(),
                "owner": b.owner,
                "space": b.space,
            }
        return {
            "cores": cores,
            "buffers": buffers,
            "steps": self.now.t,
            "schedule": [tuple(e) for e in self.schedule.entries],
        }

    def events(self, start: int = 0, stop: int | None = None) -> list[Event]:
        """The log of the run so far, or a part of it. `left_out` counts events that it had no room for."""
        return self.log[
            max(0, start - self.left_out) : None if stop is None else max(0, stop - self.left_out)
        ]

    def accesses(self, ref: str | None = None) -> list[Access]:
        """Accesses alone, of one reference or of all."""
        return [e for e in self.log if isinstance(e, Access) and ref in (None, e.ref)]

    def record(self, start: int = 0, stop: int | None = None) -> Recording:
        """The run so far as plain data for views; `.to_json()` of it is their contract (`recording.py`).

        Args:
            start, stop: a part of the events.
        """
        return record_of(self, start, stop)

    def to_json(self) -> str:
        """The record as JSON."""
        return self.record().to_json()

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

    def eval(self, var: Any, core: int | None = None, depth: int = -1) -> Any:
        """The value of a variable of a jaxpr that a core is running.

        Args:
            var: the variable, or its name as `next_equation` prints it.
            core: by default the core of the last turn.
            depth: which frame, the innermost by default; frames around it are looked through, too.

        Raises:
            KeyError: it has no value: not yet, or not any more.
        """
        it = self._core(self.now.last or 0 if core is None else core)
        frames = it.frames[: len(it.frames) + 1 + depth if depth < 0 else depth + 1]
        for frame in reversed(frames):
            if isinstance(var, Var):
                if var in frame.env:
                    return self._value(frame.env[var])
                continue
            for v, name in variable_names(frame.plan.jaxpr).items():
                if name == var and v in frame.env:
                    return self._value(frame.env[v])
        raise KeyError(
            f"{var!r} has no value in core {it.number}: it is not computed yet, or not used any more"
        )

    def _value(self, x: Any) -> Any:
        number = getattr(x, "number", None)
        return np.array(self.now.buffers[number].values) if number is not None else np.asarray(x)

    def next_equation(self, core: int | None = None) -> dict[str, Any]:
        """Where a core is: its next equation with path, text and line."""
        if core is None:
            chosen = None if self.finished else self.choose()
            core = chosen.number if chosen is not None else 0
        it = self._core(core)
        if not it.frames and not it.done:
            return {**self.place(it), "grid": it.next_coords(), "text": "(fetches its blocks)"}
        return self.place(it)

    def inner(self, core: int | None = None) -> Machine:
        """A machine for the kernel that a core is about to call, to step through it; this machine runs it as one equation.

        Raises:
            ValueError: the next equation calls no kernel.
        """
        it = self.choose() if core is None else self._core(core)
        return Machine(inner_program(self, it), params=self.params)

    def _remark(self) -> None:
        """What is said at the end of a run, once."""
        if self._remarked:
            return
        self._remarked = True
        for text in final_remarks(self):
            warnings.warn(text, KernelWarning, stacklevel=4)
        if self.races and self.params.on_race == "raise":
            error = RaceError(
                f"{len(self.races)} race{'s' * (len(self.races) != 1)} in {self.program.name}:\n"
                + "\n".join(f"  {r}" for r in self.races)
            )
            error.races = self.races
            raise error
