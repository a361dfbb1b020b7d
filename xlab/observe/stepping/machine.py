"""A machine that runs a jaxpr equation by equation on the real devices, into nested programs, with snapshots.

Every leaf equation runs through its primitive's own eager rule. When a nested program has been walked through, its equation
is run once more as a whole and that result is used, so that what follows is bit for bit what eager evaluation gives; where
that cannot be repeated (effects, or a value the user replaced) the walked-through results are used instead.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xlab.core.hi_states import is_mutable
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, last_uses, open_jaxpr
from xlab.core.trace import EVAL, state, user_context
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.lax.slicing_in_dim import dynamic_index_in_dim
from xlab.observe.stepping.devices import Devices
from xlab.observe.stepping.frames import Frame, Loop, Scan, While, in_other_places
from xlab.observe.stepping.kernels import EMPTY, KERNELS, KernelPoints, Point, label_of, points_of


class Plain:
    """How values behave in an ordinary program."""

    def run(self, eqn: JaxprEqn, values: list) -> list:
        params = eqn.params
        if "donated_invars" in params:  # earlier steps still need the operands
            params = {**params, "donated_invars": (False,) * len(values)}
        with user_context(eqn.source_info):
            try:
                out = eqn.primitive.bind(*values, **params)
            except Exception as error:
                with contextlib.suppress(AttributeError):  # of a class with slots
                    error.source_info = eqn.source_info  # type: ignore[attr-defined]
                raise
        return list(out) if eqn.primitive.multiple_results else [out]

    def take(self, x, i):
        return dynamic_index_in_dim(x, np.int32(i), 0, keepdims=False)

    def stack(self, values):
        return np.stack([np.asarray(v) for v in values])

    def truth(self, x: Any) -> bool:
        return bool(x)

    def index(self, x: Any) -> int | None:
        return int(x)

    def constants(self, values):
        return list(values)


ENTERED = frozenset(
    {
        "scan",
        "while",
        "cond",
        "jit",
        "custom_jvp_call",
        "custom_vjp_call",
        "remat2",
        "checkpoint",
        "shard_map",
    }
)
"""Primitives whose programs are walked through; any other equation is one step."""


class Executed(NamedTuple):
    """What one step did."""

    eqn: JaxprEqn
    inputs: list
    outputs: list
    path: tuple[str, ...]
    dead: list[Var]
    jaxpr: Jaxpr  # the program it belongs to
    note: str
    local: bool  # each device has its own values
    point: Point | None = None  # a grid step of a kernel


class JaxprMachine:
    """Runs a closed jaxpr on values. `count` steps were taken; `stack` is the state."""

    def __init__(self, closed: ClosedJaxpr, values: list, name: str):
        self.plain = Plain()
        self.stack = [Frame(closed.jaxpr, in_other_places([*closed.consts, *values], {}), name)]
        self.modes: list[Any] = [self.plain]
        self.count = 0
        self.calls: dict[int, int] = {}

    @property
    def mode(self) -> Any:
        return self.modes[-1]

    def snapshot(self):
        places: dict[int, Any] = {}
        return [f.copy(places) for f in self.stack], list(self.modes), self.count

    def restore(self, saved: Any) -> None:
        frames, modes, self.count = saved
        places: dict[int, Any] = {}
        self.stack, self.modes = [f.copy(places) for f in frames], list(modes)

    @property
    def finished(self) -> bool:
        return len(self.stack) == 1 and self.stack[0].pc >= len(self.stack[0].jaxpr.eqns)

    @property
    def next_equation(self) -> JaxprEqn | None:
        """The equation that the next step runs, or whose nested program it finishes."""
        frame = self.stack[-1]
        if frame.pc < len(frame.jaxpr.eqns):
            return frame.jaxpr.eqns[frame.pc]
        return frame.eqn

    def settle(self, into: bool | Callable[[JaxprEqn], bool] = True) -> None:
        """Enters nested programs until the next equation is one that runs at once."""
        while True:
            frame = self.stack[-1]
            if frame.points is not None:
                return
            if frame.pc >= len(frame.jaxpr.eqns):
                if frame.loop is not None and self._continue(frame):
                    continue
                return
            eqn = frame.jaxpr.eqns[frame.pc]
            if not (into(eqn) if callable(into) else into) or not self._enter(frame, eqn):
                return

    def step(self, into: bool | Callable[[JaxprEqn], bool] = True) -> Executed:
        """Runs one equation, or leaves a nested program whose last equation has run."""
        self.settle(into)
        if self.finished:
            raise StopIteration("the program has ended")
        frame = self.stack[-1]
        if frame.points is not None and (done := self._point(frame, frame.points)) is not None:
            return done
        if frame.pc >= len(frame.jaxpr.eqns):
            return self._leave(frame)
        eqn = frame.jaxpr.eqns[frame.pc]
        values = [frame.read(a) for a in eqn.invars]
        return self._done(frame, eqn, values, self.mode.run(eqn, values), "")

    def _done(self, frame: Any, eqn: Any, values: Any, outs: Any, note: Any) -> Executed:
        local = self.mode is not self.plain
        path = tuple(f.title for f in self.stack[1:])
        frame.env.update(zip(eqn.outvars, outs))
        dead = frame.last[frame.pc]
        for v in dead:
            frame.env.pop(v, None)
        frame.pc += 1
        self.count += 1
        return Executed(eqn, values, outs, path, dead, frame.jaxpr, note, local)

    def _point(self, frame: Frame, points: KernelPoints) -> Executed | None:
        """One grid step of a kernel; None behind the last, when the frame is ready to be left."""
        path = tuple(f.title for f in self.stack[1:])
        done = points.advance()
        if done is None:
            frame.points, frame.env = None, {"results": points}
            return None
        self.count += 1
        ins, outs = ([p.value for p in parts] for parts in (done.inputs, done.outputs))
        return Executed(points.eqn, ins, outs, path, [], frame.jaxpr, "", False, done)

    def _continue(self, frame: Any) -> bool:
        """Starts the next iteration of the loop this frame belongs to."""
        found = frame.loop.next(self._outputs(frame))
        if found is None:
            frame.loop.index = max(0, frame.loop.index - isinstance(frame.loop, Scan))
            results, dirty = frame.loop, frame.dirty
            frame.loop = None
            frame.label = results.title(frame.label)
            frame.env = {"results": results}
            frame.dirty = dirty
            return False
        closed, values = found
        frame.jaxpr = closed.jaxpr
        frame.last = last_uses(frame.jaxpr)
        frame.start([*self.mode.constants(closed.consts), *values])
        return True

    def _leave(self, frame: Any) -> Executed:
        """Ends a nested program: the outer equation gets its results."""
        outer = self.stack[-2]
        eqn = frame.eqn
        mode = self.modes[-2]
        values = [outer.read(a) for a in eqn.invars]
        repeat = not frame.dirty and not eqn.effects and not any(map(is_mutable, values))
        loop = frame.env.get("results")
        note = loop.note if isinstance(loop, Loop) else ""
        if repeat:
            outs = mode.run(eqn, values)
        else:
            outs = loop.results(self.mode.stack) if loop is not None else self._outputs(frame)
            outs = self.mode.leave(eqn, outs) if self.mode is not mode else outs
            note = "results as stepped inside"
            outer.dirty = outer.dirty or frame.dirty
        self.stack.pop()
        self.modes.pop()
        return self._done(outer, eqn, values, outs, note)

    def _values(self, frame: Frame, atoms: Any) -> list:
        """Values as the programs of the current mode take them: where each device has its own, a literal is one on each."""
        return [
            self.mode.constants([a.val])[0] if type(a) is Literal else frame.read(a) for a in atoms
        ]

    def _outputs(self, frame: Frame) -> list:
        return self._values(frame, frame.jaxpr.outvars)

    def _enter(self, frame: Frame, eqn: JaxprEqn) -> bool:
        found = self._nested(frame, eqn)
        if found is None:
            return False
        made, mode = found
        self.stack.append(made)
        self.modes.append(mode)
        return True

    def _nested(self, frame: Frame, eqn: JaxprEqn) -> tuple[Frame, Any] | None:
        name, mode = eqn.primitive.name, self.mode
        if eqn.primitive in KERNELS and mode is self.plain:
            return self._kernel(eqn, [frame.read(a) for a in eqn.invars])
        if name not in ENTERED:
            return None
        values, flow = self._values(frame, eqn.invars), flow_of(eqn)
        if type(flow) is LoopFlow:
            if flow.length == 0:
                return None
            return self._loop(
                Scan(values, flow, mode.take)
                if flow.cond is None
                else While(values, flow, mode.truth, functools.partial(_run_as, mode, eqn)),
                name,
                eqn,
                mode,
            )
        if type(flow) is BranchFlow:
            which = mode.index(values[0])
            if which is None:
                return None
            which = min(max(which, 0), len(flow.branches) - 1)
            return self._call(flow.branches[which], values[1:], f"{name} branch {which}", eqn, mode)
        if name == "shard_map":
            return Devices.enter(eqn, values, None if mode is self.plain else mode)
        if type(flow) is not CallFlow:
            return None
        label = f"jit {eqn.params['name']}" if name == "jit" else name
        return self._call(flow.jaxpr, values, label, eqn, mode)

    def _kernel(self, eqn: JaxprEqn, values: list) -> tuple[Frame, Any] | None:
        # Calls are numbered by where they stand in the run, so that one that is walked again keeps its number.
        points = points_of(eqn, values, self.calls.setdefault(self.count, len(self.calls)))
        if points is None:
            return None
        made = Frame(EMPTY, [], label_of(eqn), eqn)
        made.points = points
        return made, self.plain

    def _call(self, inner, values, label, eqn, mode):
        consts = inner.consts if isinstance(inner, ClosedJaxpr) else []
        jaxpr = open_jaxpr(inner)
        if not jaxpr.eqns:
            return None
        return Frame(jaxpr, [*mode.constants(consts), *values], label, eqn), mode

    def _loop(self, loop, label, eqn, mode):
        found = loop.next(None)
        if found is None:
            return None
        closed, values = found
        return Frame(
            closed.jaxpr, [*mode.constants(closed.consts), *values], label, eqn, loop
        ), mode


def _run_as(mode: Any, eqn: JaxprEqn, operands: list) -> list:
    """Runs an equation on operands of its types."""
    return mode.run(eqn.replace(invars=[Var(a.aval) for a in eqn.invars]), operands)


def can_run() -> bool:
    """Whether nothing is being traced, so that equations run at once."""
    return state.trace is EVAL
