"""Stepping: a program run equation by equation, forwards and backwards, with every value to look at.

`Stepper` keeps a bounded number of snapshots; going back restores the nearest and runs forward again, so the same step shows
the same bits. Effects of repeated equations are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core.avals import aval_of
from xlab.core.jaxpr import Jaxpr, Literal, Var
from xlab.core.printing import Names, literal_text
from xlab.kernels.machine import KernelRunError
from xlab.kernels.machine import Machine as KernelMachine
from xlab.observe.beside.checking import compared
from xlab.observe.kernel_runs.recording import kernel_run
from xlab.observe.programs import names as _names
from xlab.observe.programs.program import equation_line, params_text
from xlab.observe.programs.program import program as _program
from xlab.observe.records import Program, Step, StepTrace, Value
from xlab.observe.records.kernel import KernelRun
from xlab.observe.stepping.breakpoints import Breakpoint, holds
from xlab.observe.stepping.devices import mesh_in_effect, mesh_of
from xlab.observe.stepping.kernels import Point
from xlab.observe.stepping.machine import Executed, JaxprMachine, can_run
from xlab.observe.stepping.snapshots import Snapshots
from xlab.observe.stepping.started import started
from xlab.observe.stepping.values import summarize
from xlab.sharding import set_mesh

BUDGET = 1 << 30
MOST_CALLS = 4
"""Calls of kernels whose runs a recorded trace has."""
MOST_CALL_EVENTS = 3000


class Stepper:
    """A position in the run of a program.

    Args:
        fun: a function, a `Traced`, or a `ClosedJaxpr`; with its arguments.
        into: walk through nested programs (`jit`, `scan`, `while`, `cond`, custom rules, `shard_map`) or over them.
        budget: bytes that snapshots may keep alive; with less, going back recomputes more.

    Example:
        >>> import numpy as np, xlab
        >>> s = Stepper(lambda x: xlab.lax.sin(xlab.lax.mul(x, x)), np.float32(2))
        >>> s.next().outputs[0].max, s.next().text.split()[2]
        (4.0, 'sin')
        >>> s.finished, s.back().index, s.finished
        (True, 0, False)
    """

    def __init__(
        self, fun: Any, *args: Any, into: bool = True, budget: int = BUDGET, **kwargs: Any
    ):
        if not can_run():
            raise TypeError(
                "stepping runs on concrete arrays; it cannot be used while a function is being traced"
            )
        self.stages, self._flat, self._out_tree = started(fun, args, kwargs)
        self.into, self.budget = into, budget
        closed = self.stages.closed
        self._machine = JaxprMachine(closed, self._flat, self.stages.name)
        self._over = mesh_in_effect(self.stages.equations.values(), self._flat)
        self._letters = Names(_names.letter_names(closed.jaxpr))
        self._notes: dict[int, dict[Var, str]] = {}
        self._summaries: dict[int, tuple[Any, Value]] = {}
        self._last: Executed | None = None
        self._snapshots = Snapshots(self._machine.snapshot(), budget)
        # By identity: another iteration's value of the variable is its own.
        self._replaced: dict[int, Any] = {}
        self._wholes: set[int] = set()
        self._edits: dict[int, tuple] = {}
        self.breakpoints: list[Breakpoint | Callable[[Stepper], bool]] = []

    @property
    def made_by(self) -> str:
        """Who traced and compiled the program, and who steps, where that was not this package alone."""
        by = self.stages.made_by
        return by and f"{by}, stepped by the rules of xlab"

    # -- where we are ----------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        """Steps taken."""
        return self._machine.count

    finished = property(lambda self: self._machine.finished, doc="Whether the program has ended.")

    @property
    def path(self) -> tuple[str, ...]:
        """The nested programs around the current position."""
        return tuple(f.title for f in self._machine.stack[1:])

    @property
    def program(self) -> Program:
        """The program as a record."""
        if (found := getattr(self, "_record", None)) is None:
            made = _program(self.stages)
            found = self._record = made.replace(
                mesh=made.mesh or mesh_of(self.stages.equations.values(), self._flat)
            )
        return found

    @property
    def next_equation(self) -> int:
        """Id of the equation that comes next, -1 at the end."""
        if self._machine.finished:
            return -1
        self._machine.settle(self.into)
        eqn = self._machine.next_equation
        return self.stages.numbers.get(id(eqn), -1) if eqn is not None else -1

    def inputs(self) -> tuple[Value, ...]:
        """The arguments, summarized."""
        names = self.stages.closed.jaxpr.debug_info.arg_names
        return tuple(
            self._value(x, self._letters(v), names[i] if i < len(names) else "")
            for i, (v, x) in enumerate(zip(self.stages.closed.jaxpr.invars, self._flat))
        )

    def live(self) -> tuple[Value, ...]:
        """The variables of the innermost program that are still needed, summarized."""
        frame = self._machine.stack[-1]
        local = self._machine.mode is not self._machine.plain
        return tuple(
            self._value(x, self._letters(v), self._note(frame.jaxpr, v), local)
            for v, x in frame.env.items()
            if isinstance(v, Var)
        )

    def value(self, name: str) -> Any:
        """The array that a variable (its letter, or the user's name) holds now, searched from the innermost program out.

        Inside `shard_map` its leading dimension counts devices.
        """
        frame, v = self._find(name)
        return frame.env[v]

    def compared(self) -> str:
        """How the results compare with those of JAX, which traced the program, in a sentence; empty for a program of ours.

        Runs to the end first. JAX runs the program once more as a whole, effects included.
        """
        program = self.stages.beside
        if program is None:
            return ""
        self.run()
        return compared(program, self._flat, self._machine.stack[0].outputs)

    def result(self) -> Any:
        """What the function returns; runs to the end first."""
        self.run()
        outs = self._machine.stack[0].outputs
        return _tree.unflatten(self._out_tree, outs) if self._out_tree is not None else outs

    # -- moving ----------------------------------------------------------------------------------------

    def next(self) -> Step | None:
        """One equation on; None at the end."""
        return self._record_of(self._choose(self.into))

    def over(self) -> Step | None:
        """One equation on, nested programs as a whole."""
        return self._record_of(self._choose(False))

    def out(self) -> Step | None:
        """To the end of the innermost nested program: the step that gives its equation's results."""
        depth = len(self._machine.stack)
        done = self._advance(self.into)
        while done is not None and len(self._machine.stack) >= depth > 1:
            done = self._advance(self.into)
        return self._record_of(done)

    def back(self, count: int = 1) -> Step | None:
        """Goes back; returns the step that was last before the new position, None at the start."""
        return self.goto(max(0, self.index - count))

    def goto(self, index: int) -> Step | None:
        """Goes to the position after `index` steps (or the end); returns the last step before it."""
        if index < 0:
            raise IndexError(f"step numbers count from 0, given {index}")
        start, last = self._snapshots.before(index)
        if (
            index < self.index or self._last is None or start[2] > self.index
        ):  # the nearest place kept
            self._last = last
            self._machine.restore(start)
            places = self._snapshots.on_the_way(start[2], index)
        else:
            places = ()
        while self.index < index and not self.finished:
            if self.index in places:
                self._snapshots.add_near(self._machine.snapshot(), self._last)
            self._advance(self.into)
        return self._record_of(self._last)

    def run(self) -> Step | None:
        """Runs to the next breakpoint (it stands behind the step that met it) or the end."""
        while (done := self._advance(self.into)) is not None:
            if self._stops(done):
                break
        return self._record_of(self._last)

    def break_at(self, **what: Any) -> Breakpoint:
        """Adds a breakpoint: `equation=`, `primitive=`, `line=`, `variable=`, `nan=`, `inf=`, `above=`, `shape=`, `where=`."""
        made = Breakpoint(**what)
        self.breakpoints.append(made)
        return made

    def names_of(self, jaxpr: Jaxpr, v: Var) -> tuple[str, str]:
        """A variable's letter, and what the user called it (empty where nothing)."""
        return self._letters(v), self._note(jaxpr, v)

    def run_to(
        self,
        *,
        equation: int | None = None,
        primitive: str | None = None,
        line: int | None = None,
        variable: str | None = None,
        where: Callable[[Step], bool] | None = None,
    ) -> Step | None:
        """Runs until the next equation is the one asked for, or until a step satisfies `where`.

        Args:
            equation: its id. primitive: its name. line: a line of the user's source.
            variable: stops after the equation that gives this variable (letter or the user's name) a value.
            where: a predicate on finished steps; the run stops behind the first that satisfies it.

        Returns:
            The last step taken, or None when nothing was found and the program ended.
        """
        if equation is primitive is line is variable is where is None:
            raise TypeError(
                "run_to needs something to stop at: equation=, primitive=, line=, variable= or where="
            )
        moved = False
        while not self.finished:
            self._machine.settle(self.into)
            eqn = self._machine.next_equation
            if moved and eqn is not None:
                source = _names.source_of(eqn)
                if (
                    (equation is not None and self.stages.numbers.get(id(eqn)) == equation)
                    or (primitive is not None and eqn.primitive.name == primitive)
                    or (line is not None and source is not None and source.line == line)
                ):
                    return self._record_of(self._last)
            done = self._advance(self.into)
            moved = True
            if done is None:
                break
            if variable is not None and any(
                variable in (self._letters(v), self._note(done.jaxpr, v)) for v in done.eqn.outvars
            ):
                return self._record_of(done)
            step = self._record_of(done)
            if where is not None and step is not None and where(step):
                return step
        return None

    def run_to_nonfinite(self) -> Step | None:
        """Runs to the first equation whose result has a NaN or an infinity that its operands had not; None if there is none."""
        while not self.finished:
            done = self._advance(self.into)
            if (
                done is not None
                and any(map(_infinite, done.outputs))
                and not any(map(_infinite, done.inputs))
            ):
                return self._record_of(done)
        return None

    def run_to_nan(self) -> Step | None:
        """Runs to the first equation whose result has a NaN that its operands had not; None if there is none."""
        while not self.finished:
            done = self._advance(self.into)
            if (
                done is not None
                and any(map(_nan, done.outputs))
                and not any(map(_nan, done.inputs))
            ):
                return self._record_of(done)
        return None

    def replace(self, name: str, value: Any) -> None:
        """What if: gives a live variable another value of the same type, and goes on from here."""
        frame, v = self._find(name)
        old: Any = aval_of(frame.env[v])
        new: Any = aval_of(value)
        if old.shape != new.shape or old.dtype != new.dtype:
            value = np.asarray(value).astype(old.dtype)
            if value.shape != old.shape:
                raise TypeError(
                    f"`{name}` is {old}; a value of shape {list(value.shape)} cannot replace it"
                )
        frame.env[v] = value
        for f in self._machine.stack[self._machine.stack.index(frame) :]:
            f.dirty = True
        self._replaced[id(value)] = value
        self._forget(self.index - 1)
        self._edits[self.index] = self._machine.snapshot()
        self._snapshots.add(self._edits[self.index], self._last)

    def forget_replacements(self) -> None:
        """Takes every replaced value back and stands at the start again."""
        self._snapshots.forget(0)
        self._edits = {}
        self._replaced.clear()
        self._wholes.clear()
        self._last = None
        self._machine.restore(self._snapshots.first)

    def trace(self, limit: int = 200) -> StepTrace:
        """A recorded run from the start: summaries of up to `limit` steps, for scrubbing without a kernel.

        A kernel that stops with an error ends the recording, which says so.
        """
        self.goto(0)
        steps: list[Step] = []
        calls: dict[int, KernelRun] = {}
        failure = ""
        while not self.finished:
            try:
                done = self._advance(self.into)
            except KernelRunError as error:
                failure = f"{type(error).__name__}: {error}"
                break
            if done is not None and done.point is not None:
                self._keep_call(done.point.call, calls)
            if len(steps) < limit and (step := self._record_of(done)) is not None:
                steps.append(step)
        kernels = tuple(calls[i] for i in range(len(calls)) if i in calls)
        found = self.program, self.inputs(), tuple(steps), self.index, kernels, failure
        return StepTrace(*found, self.made_by)

    def _keep_call(self, call: int, calls: dict[int, KernelRun]) -> None:
        """Records the run of a kernel that is being walked through, for the first few of them."""
        points = self._machine.stack[-1].points
        if call in calls or len(calls) >= MOST_CALLS or points is None:
            return
        machine = KernelMachine(points.machine.program, params=points.machine.params)
        run = kernel_run(machine, most=MOST_CALL_EVENTS)
        calls[call] = run.replace(
            equation=self.stages.numbers.get(id(points.eqn), -1),
            source=_names.source_of(points.eqn),
        )

    # -- within ----------------------------------------------------------------------------------------

    def _choose(self, into: Any) -> Executed | None:
        """A step taken into or over what comes next; going back and forth repeats the choice, another choice renumbers."""
        now = self.index
        if (into is False and self.into is not False) != (now in self._wholes):
            self._forget(now)
            self._wholes = {n for n in self._wholes if n < now} | (
                {now} if into is False else set()
            )
        return self._advance(into)

    def _forget(self, after: int) -> None:
        """Drops what was kept of the steps after one, since they will be others."""
        self._snapshots.forget(max(0, after))
        self._edits = {n: saved for n, saved in self._edits.items() if n <= after}

    def _stops(self, done: Executed) -> bool:
        # All count.
        return (
            sum(
                b.hit(self, done) if isinstance(b, Breakpoint) else b(self)
                for b in self.breakpoints
            )
            > 0
        )

    def _advance(self, into: Any) -> Executed | None:
        machine = self._machine
        into = False if machine.count in self._wholes else into
        machine.settle(into)
        if machine.finished:
            return None
        if self._snapshots.is_due(machine.count):
            self._snapshots.add(machine.snapshot(), self._last)
        # Outside of a trace only arrays and the mesh in effect have devices.
        with nullcontext() if self._over is None else set_mesh(self._over):
            self._last = machine.step(into)
        if machine.count in self._edits:  # what the user replaced here stays replaced
            machine.restore(self._edits[machine.count])
        return self._last

    def _find(self, name: str) -> Any:
        for frame in reversed(self._machine.stack):
            for v in reversed([v for v in frame.env if isinstance(v, Var)]):
                if name in (self._letters(v), self._note(frame.jaxpr, v)):
                    return frame, v
        live = ", ".join(
            self._letters(v) for f in self._machine.stack for v in f.env if isinstance(v, Var)
        )
        raise KeyError(f"no live variable {name!r} here; there are {live or 'none'}")

    def _note(self, jaxpr: Jaxpr, v: Var) -> str:
        notes = self._notes.get(id(jaxpr))
        if notes is None:
            notes = _names.user_names(
                jaxpr, next((f.eqn for f in self._machine.stack if f.jaxpr is jaxpr), None)
            )
            names = jaxpr.debug_info.arg_names
            if len(names) == len(jaxpr.invars):
                notes = {**dict(zip(jaxpr.invars, names)), **notes}
            self._notes[id(jaxpr)] = notes
        return notes.get(v, "")

    def _value(self, x: Any, name: str, note: str = "", local: bool = False) -> Value:
        found = self._summaries.get(id(x))
        if found is None or found[0] is not x:
            if len(self._summaries) > 256:
                self._summaries.clear()
            found = self._summaries[id(x)] = (x, summarize(x, local=local))
        if id(x) in self._replaced:
            note = f"{note} (replaced)".strip()
        return found[1].replace(name=name, note=note)

    def _record_of(self, done: Executed | None) -> Step | None:
        if done is None:
            return None
        eqn, jaxpr = done.eqn, done.jaxpr
        if done.point is not None:
            return self._point_of(done, done.point)
        inputs = tuple(
            self._value(x, literal_text(a))
            if isinstance(a, Literal)
            else self._value(x, self._letters(a), self._note(jaxpr, a), done.local)
            for a, x in zip(eqn.invars, done.inputs)
        )
        outputs = tuple(
            self._value(x, self._letters(v), self._note(jaxpr, v) or done.note, done.local)
            for v, x in zip(eqn.outvars, done.outputs)
        )
        return Step(
            self.index - 1,
            self.stages.numbers.get(id(eqn), -1),
            inputs,
            outputs,
            done.path,
            tuple(self._letters(v) for v in done.dead),
            _names.source_of(eqn),
            equation_line(eqn, self._letters, params_text(eqn, self._letters)),
        )

    def _point_of(self, done: Executed, point: Point) -> Step:
        """The record of a grid step of a kernel."""
        ins, outs = (
            tuple(self._value(part.value, part.name, part.where) for part in parts)
            for parts in (point.inputs, point.outputs)
        )
        return Step(
            self.index - 1,
            self.stages.numbers.get(id(done.eqn), -1),
            ins,
            outs,
            done.path,
            (),
            _names.source_of(done.eqn),
            point.text,
            point.call,
            point.number,
        )

    def __iter__(self) -> Iterator[Step]:
        while (found := self.next()) is not None:
            yield found

    def __repr__(self):
        where = " ▸ ".join((self.stages.name, *self.path))
        return f"Stepper({where}, after {self.index} steps{', finished' if self.finished else ''})"


def step(fun: Callable, *, into: bool = True, budget: int = BUDGET) -> Callable[..., Stepper]:
    """The function's stepper: `step(f)(*args)` stands before the first equation of `f(*args)`.

    Args:
        fun: the function.
        into: whether to step through the equations of inner programs too.
        budget: bytes that snapshots may keep alive; with less, going back recomputes more.

    Example:
        >>> import numpy as np, xlab
        >>> float(step(lambda x: xlab.lax.exp(x))(np.float32(0)).result())
        1.0
    """

    def start(*args: Any, **kwargs: Any) -> Stepper:
        return Stepper(fun, *args, into=into, budget=budget, **kwargs)

    return start


def steps(fun: Any, *args: Any, into: bool = True, **kwargs: Any) -> Iterator[Step]:
    """Runs a program equation by equation and yields what each did.

    Example:
        >>> import numpy as np, xlab
        >>> [s.outputs[0].max for s in steps(lambda x: xlab.lax.neg(xlab.lax.mul(x, x)), np.float32(3))]
        [9.0, -9.0]
    """
    return iter(Stepper(fun, *args, into=into, **kwargs))


def trace(fun: Any, *args: Any, limit: int = 200, into: bool = True, **kwargs: Any) -> StepTrace:
    """A recorded run for scrubbing: summaries of up to `limit` steps."""
    return Stepper(fun, *args, into=into, **kwargs).trace(limit)


def _nan(x: Any) -> bool:
    return holds(x, np.isnan)


def _infinite(x: Any) -> bool:
    return holds(x, lambda part: ~np.isfinite(part))
