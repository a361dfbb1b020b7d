"""`Machine`: a kernel that is run step by step, forwards and backwards, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.core.jaxpr import Var
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.breakpoints import KernelBreakpoint
from xlab.kernels.machine.events import VERBS, Access, Event
from xlab.kernels.machine.nested import inner_program
from xlab.kernels.machine.programs import KernelProgram
from xlab.kernels.machine.recording import MachineRecording, record_of
from xlab.kernels.machine.running import Runner
from xlab.kernels.machine.state import NOTHING
from xlab.kernels.machine.text import variable_names
from xlab.kernels.machine.traced import captured_program


class Machine(Runner):
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
        call: Callable[..., Any] | KernelProgram,
        *args: Any,
        params: InterpretParams | None = None,
        schedule: Any = None,
        record: bool = True,
        undo: bool = True,
    ):
        if not (params is None or isinstance(params, InterpretParams)):
            raise TypeError(f"the params of a Machine are InterpretParams, got {params!r}")
        if isinstance(call, KernelProgram):
            program, given = call, InterpretParams()
        else:
            program, given = captured_program(call, args, params)
        super().__init__(program, params or given, schedule, record, undo)
        self._numbers = 0  # of breakpoints

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
    ) -> KernelBreakpoint:
        """Lets `run` stop where all of these hold.

        Args:
            ref: a reference, by its name in events ("args[0]").
            slice: a part of its array, per dimension a slice, a pair or a position; accesses that overlap it count.
            kind: "read", "write", "accum", "signal", "wait", "copy".
            eqn: the path of an equation; stops before it.
            grid: a grid point; stops before its first equation.
            core: a core's number.
            when: a condition on the value that is read or written, such as `lambda v: np.isnan(v).any()`.

        Raises:
            ValueError: nothing is asked for, or what no run of this kernel comes to.
        """
        names = self.program.ref_names
        if ref is not None and ref not in names and not ref.startswith("scoped["):
            raise ValueError(
                f"{self.program.name} has no reference {ref!r} to stop at, but {', '.join(names)}; references that the kernel "
                f"makes are scoped[0], scoped[1], ..."
            )
        if kind is not None and kind not in VERBS:
            raise ValueError(f"a breakpoint's kind is one of {', '.join(VERBS)}; got {kind!r}")
        if core is not None and not 0 <= core < self.program.num_cores:
            raise ValueError(
                f"{self.program.name} has no core {core}: its {self.program.num_cores} cores are numbered from 0"
            )
        self._numbers += 1
        made = KernelBreakpoint(self._numbers, ref, slice, kind, eqn, grid, core, when)
        self.breakpoints = [*self.breakpoints, made]
        self.watch()
        return made

    def clear(self, breakpoint: KernelBreakpoint | int | None = None) -> None:
        """Takes a breakpoint away, or all of them."""
        number = breakpoint.number if isinstance(breakpoint, KernelBreakpoint) else breakpoint
        self.breakpoints = [
            b for b in self.breakpoints if number is not None and b.number != number
        ]
        self.watch()

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

    def record(self, start: int = 0, stop: int | None = None) -> MachineRecording:
        """The run so far as plain data for views; `.to_json()` of it is their contract (`recording.py`).

        Args:
            start, stop: a part of the events.
        """
        return record_of(self, start, stop)

    def to_json(self) -> str:
        """The record as JSON."""
        return self.record().to_json()

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

    def __repr__(self):
        cores = [
            f"core {c.number} waits for {c.waiting.name}"
            if c.waiting is not None
            else f"core {c.number} {'has ended' if c.done else 'is at ' + (c.path or 'its blocks')}"
            for c in self.now.cores[:4]
        ]
        more = ["..."] if len(self.now.cores) > 4 else []
        words = ["ended"] if self.done else [*cores, *more]
        return f"<Machine of {self.program.name}: {self.now.t} turns, {', '.join(words)}>"

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
