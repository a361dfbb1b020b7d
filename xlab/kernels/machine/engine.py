"""The engine of the value interpreter: one turn of one core at a time.

A turn evaluates one equation of the core's innermost frame, and enters and leaves the programs around it. Equations on arrays run
through the same compiled one-operation programs as eager code, so their numbers are those of compiled kernels, and the same whether or
not anybody looks: no part of a kernel is compiled as a whole. Equations on references have rules in `machine_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.config import config
from xlab.core import dtypes
from xlab.core.jaxpr import Jaxpr
from xlab.core.rules import RuleTable
from xlab.core.trace import EVAL, set_trace
from xlab.interpreters.control_flow import BranchFlow, LoopFlow
from xlab.kernels.blocks import BlockMapping
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine.buffers import digest
from xlab.kernels.machine.events import Access, Event
from xlab.kernels.machine.failures import (
    DeadlockError,
    MemoryBudgetError,
    StepBudgetError,
    UninitializedReadError,
    with_place,
)
from xlab.kernels.machine.frames import (
    ENTER,
    FREE,
    PLAIN,
    KernelFrame,
    Op,
    ScanLoop,
    WhileLoop,
    plan_of,
    program_of,
)
from xlab.kernels.machine.placement import BlockPlacement
from xlab.kernels.machine.points import begin_point, finish_point
from xlab.kernels.machine.programs import KernelProgram
from xlab.kernels.machine.races import Detector
from xlab.kernels.machine.schedule import Schedule
from xlab.kernels.machine.state import MachineCore, State, inside, start

machine_rules = RuleTable(
    "machine.machine_rules",
    "run in the value interpreter",
    "rule(engine, core, op, values) -> results, or WAIT if the core has to wait",
    required=False,
)
"""For primitives on references. `values` are operands: arrays, and a `RefPlace` for a reference. A rule checks before it changes anything.
A rule with the attribute `takes_no_turn` runs on the way to the next equation; one with `enters` returns a frame to run."""

WAIT = object()
_HANG = 100_000  # rounds of a while loop without an equation, which take no turn


class Engine:
    """A program, its state, and what is watched."""

    def __init__(
        self,
        program: KernelProgram,
        params: InterpretParams,
        record: bool = True,
        schedule: Any = None,
    ):
        self.program, self.params = program, params
        zero = params.uninitialized_memory == "zero"
        self.zero = zero = zero or config.uninitialized_memory == "zero"
        self.now: State = start(program, zero, params.buffer_bounds == "padded")
        self.check_bytes(None)
        self.schedule = Schedule(
            params.schedule if schedule is None else schedule,
            quantum=params.quantum,
            seed=params.random_seed or 0,
        )
        numbers = [c.number for c in self.now.cores]
        if params.random_seed is not None and self.schedule.order is None:
            # Cores that run at the same time are visited in an order of their own.
            numbers = np.random.default_rng(params.random_seed).permutation(numbers).tolist()
            if len(numbers) > 1 and self.schedule.kind in ("sequential", "round_robin"):
                self.schedule.order = tuple(numbers)
        self.order = self.schedule.ordered(sorted(numbers))
        self.recording = record
        self.log: list[Event] = []
        self.log_t: list[int] = []  # the turn of each event
        self.left_out = 0  # events that were dropped
        self.log_limit = max(200_000, program.nbytes // 100)  # events take some hundred bytes each
        self.visits: dict[tuple[int, int], dict[tuple, list[int]]] = {}
        self.placements: dict[int, BlockPlacement] = {}
        self.effects: dict[tuple, list] = {}  # results of equations that must not run twice
        size = params.vector_clock_size
        self.detector = Detector(self.now.cores, size) if params.detect_races else None
        self.breakpoints: list[Any] = []
        self.hits: list[Any] = []
        self.replaying = False
        self.watch()

    def watch(self) -> None:
        """Sees whether accesses are told to anybody: to be called when breakpoints have changed."""
        modes = self.params.logging_mode
        self.printing = frozenset((modes,) if isinstance(modes, str) else modes or ())
        told = not self.replaying and bool(self.recording or self.breakpoints or self.printing)
        self.watching = told or self.detector is not None
        self.telling_blocks = not self.replaying and bool(self.recording or self.printing)

    def placement(self, mapping: BlockMapping) -> BlockPlacement:
        """The places of an operand's blocks."""
        found = self.placements.get(id(mapping))
        if found is None:
            found = self.placements[id(mapping)] = BlockPlacement(mapping)
        return found

    # -- turns ---------------------------------------------------------------------------------------------

    def runnable(self) -> list[int]:
        """Cores that can have a turn, in the schedule's order."""
        cores = self.now.cores
        return [
            n
            for n in self.order
            if not cores[n].done and (cores[n].waiting is None or self.can_pass(cores[n]))
        ]

    def can_pass(self, core: MachineCore) -> bool:
        """Whether what a core waits for is there by now, or in a copy that waits to be performed."""
        w = core.waiting
        if w is None:
            return True
        present = int(self.now.buffers[w.number].values.reshape(-1)[w.element])
        coming = sum(c.units for c in self.now.copies if c.semaphore == (w.number, w.element))
        return present + coming >= w.needed

    @property
    def finished(self) -> bool:
        return all(c.done for c in self.now.cores)

    def choose(self) -> MachineCore | None:
        """The core that has the next turn; None if all are done.

        Raises:
            DeadlockError: cores are left, and all of them wait.
        """
        st = self.now
        if len(st.cores) == 1:
            core = st.cores[0]
            if core.done:
                return None
            if core.waiting is None or self.can_pass(core):
                return core
            runnable = []
        else:
            runnable = self.runnable()
        if not runnable:
            if self.finished:
                return None
            raise self.deadlock()
        number, cursor = self.schedule.choose(st.t, st.cursor, st.last, st.used, runnable)
        st.cursor = cursor
        return None if number is None else st.cores[number]

    def turn(self, core: MachineCore) -> None:
        """Gives a core a turn."""
        st = self.now
        if st.t >= self.params.max_equations:
            raise self._over_budget()
        if not core.frames:
            self.begin(core)
        elif core.frames[-1].waits_to_settle:
            self.settle(core)  # what failed in the turn before fails again
        if core.frames:
            frame = core.frames[-1]
            op = frame.plan.ops[frame.pc]
            env = frame.env
            values = [x if v is None else env[v] for v, x in op.ins]
            outs: Any
            if op.kind == PLAIN:
                outs = self.evaluate(core, op, values)
            else:
                outs = op.rule(self, core, op, values)
            if outs is not WAIT:
                core.waiting = None
                for v, x in zip(op.outs, outs):
                    env[v] = x
                for v in op.dead:
                    env.pop(v, None)
                frame.pc = pc = frame.pc + 1
                ops = frame.plan.ops
                if pc == len(ops) or ops[pc].kind >= FREE:
                    try:
                        self.settle(core)
                    except Exception:
                        self._count(core)  # the equation has run
                        raise
        self._count(core)

    def _count(self, core: MachineCore) -> None:
        """Counts a turn."""
        st = self.now
        if not self.replaying:
            self.schedule.note(st.t, core.number)
        if st.last == core.number:
            st.used += 1
        else:
            st.last, st.used = core.number, 1
        st.t += 1

    def evaluate(self, core: MachineCore, op: Op, values: list) -> Sequence[Any]:
        """Runs an equation on arrays."""
        params = op.params
        if self.params.skip_floating_point_ops:
            skipped = _infinities(op)
            if skipped is not None:
                return skipped
        if op.eqn.effects:
            return self._once(core, op, values)
        out = op.prim.bind(*values, **params)
        return out if op.prim.multiple_results else (out,)

    def _once(self, core: MachineCore, op: Op, values: list) -> Sequence[Any]:
        """An equation with effects on the world: its results are kept, so that going back and on again does not repeat them."""
        key = (self.now.t, core.number, core.coords, core.path, tuple(map(digest, values)))
        if key not in self.effects:
            out = op.prim.bind(*values, **op.params)
            self.effects[key] = list(out) if op.prim.multiple_results else [out]
        return self.effects[key]

    def settle(self, core: MachineCore) -> None:
        """Leaves programs that have ended and enters those that begin, up to an equation that takes a turn."""
        frames, rounds = core.frames, 0
        while True:
            frame = frames[-1]
            ops = frame.plan.ops
            if frame.pc >= len(ops):
                loop = frame.loop
                if loop is not None:
                    following = loop.advance(frame.outputs())
                    if following is not None:
                        if not ops:
                            rounds += isinstance(loop, WhileLoop)
                            if rounds >= min(_HANG, self.params.max_equations):
                                raise self._over_budget(rounds)
                        self._round(frame, *following)
                        continue
                    outs = loop.results()
                else:
                    outs = frame.outputs()
                if len(frames) == 1:
                    frames.clear()
                    self.finish(core)
                    return
                frames.pop()
                if frame.leave is not None:
                    frame.leave(self, core)
                op, outer = frame.op, frames[-1]
                env = outer.env
                assert op is not None
                for v, x in zip(op.outs, outs):
                    env[v] = x
                for v in op.dead:
                    env.pop(v, None)
                outer.pc += 1
                continue
            op = ops[frame.pc]
            if op.kind < FREE:
                return
            env = frame.env
            values = [x if v is None else env[v] for v, x in op.ins]
            if op.kind == ENTER:
                frames.append(
                    self._enter(frame, op, values)
                    if op.rule is None
                    else op.rule(self, core, op, values)
                )
                continue
            for v, x in zip(op.outs, op.rule(self, core, op, values)):
                env[v] = x
            for v in op.dead:
                env.pop(v, None)
            frame.pc += 1

    def _enter(self, outer: KernelFrame, op: Op, values: list) -> KernelFrame:
        flow, name, path = op.flow, op.prim.name, outer.path
        if type(flow) is LoopFlow:
            loop: Any = ScanLoop(values, flow) if flow.cond is None else WhileLoop(values, flow)
            following = loop.advance(None)
            if following is None:
                return KernelFrame(_EMPTY, (), path, name, op, _Ended(loop))
            jaxpr, given = program_of(*following)
            section = loop.section
            plan = plan_of(jaxpr, machine_rules)
            return KernelFrame(plan, given, f"{path}/{section}", name, op, loop)
        if type(flow) is BranchFlow:
            which = min(max(int(values[0]), 0), len(flow.branches) - 1)
            jaxpr, given = program_of(flow.branches[which], values[1:])
            plan = plan_of(jaxpr, machine_rules)
            return KernelFrame(plan, given, f"{path}/branch {which}", f"{name} branch {which}", op)
        jaxpr, given = program_of(flow.jaxpr, values)
        label = f"jit {op.params['name']}" if name == "jit" and "name" in op.params else name
        return KernelFrame(plan_of(jaxpr, machine_rules), given, f"{path}/{name}", label, op)

    def _round(self, frame: KernelFrame, inner: Any, values: list) -> None:
        """Puts a frame to the next round of its loop."""
        jaxpr, given = program_of(inner, values)
        if jaxpr is not frame.plan.jaxpr:
            assert frame.loop is not None
            frame.plan = plan_of(jaxpr, machine_rules)
            frame.prefix = f"{frame.prefix.rpartition('/')[0]}/{frame.loop.section}"
        frame.env = dict(zip([*jaxpr.constvars, *jaxpr.invars], given))
        frame.pc = 0

    # -- grid points: see `points.py` ------------------------------------------------------------------------

    def begin(self, core: MachineCore) -> None:
        """Starts the core's next grid point: fetches its blocks and makes the kernel's frame."""
        begin_point(self, core)
        jaxpr = core.pair.jaxpr
        values = [*jaxpr.consts, *core.refs]
        core.frames.append(
            KernelFrame(plan_of(jaxpr.jaxpr, machine_rules), values, "body", core.pair.name)
        )
        self.settle(core)

    def finish(self, core: MachineCore) -> None:
        """Ends a grid point: puts its blocks back."""
        finish_point(self, core)
        core.at += 1
        core.waiting = None

    def results(self) -> list[np.ndarray]:
        """The results, without padding."""
        operands, buffers = self.program.operands, self.now.buffers
        return [
            buffers[i].values[inside(operands[i])] if operands[i].padding else buffers[i].values
            for i in self.program.results
        ]

    # -- what is told --------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Adds an event to the log."""
        if self.replaying:
            return
        if self.printing:
            self._print(event)
        if not self.recording:
            return
        log = self.log
        log.append(event)
        self.log_t.append(self.now.t)
        if len(log) > self.log_limit:
            drop = self.log_limit // 2
            del log[:drop], self.log_t[:drop]
            self.left_out += drop

    def stop_at(self, event: Access, value: Any) -> None:
        """Notes the breakpoints that an access meets."""
        if self.breakpoints and not self.replaying:
            self.hits += [b for b in self.breakpoints if b.hit_by_access(event, value)]

    def _print(self, event: Event) -> None:
        kind = (
            "grid"
            if not isinstance(event, Access)
            else "copy"
            if event.kind == "copy"
            else "semaphore"
            if event.kind in ("signal", "wait")
            else "access"
        )
        if kind in self.printing:
            print(f"core {event.core}, step {event.grid}: {event.text()}")

    def note_lint(self, kind: str, key: tuple, text: str, **more: Any) -> None:
        """Adds a remark, once per key; later ones only count."""
        lint = self.now.lint
        found = lint.get((kind, *key))
        if found is None:
            lint[(kind, *key)] = {"kind": kind, "text": text, "count": 1, **more}
        else:
            lint[(kind, *key)] = {**found, "count": found["count"] + 1}

    # -- what goes wrong -----------------------------------------------------------------------------------

    def place(self, core: MachineCore) -> dict[str, Any]:
        """Where a core is, for messages."""
        op = core.frames[-1].next if core.frames else None
        return {
            "pair": core.pair.number,
            "core": core.number,
            "grid": core.coords,
            "eqn": core.path,
            "text": repr(op.eqn) if op is not None else None,
            "line": str(op.eqn.source_info) if op is not None else None,
        }

    def check_bytes(self, core: MachineCore | None) -> None:
        """Raises where the buffers, those that a core has made too, take more than there is room for."""
        total = sum(b.nbytes for b in self.now.buffers.values())
        limit = self.params.max_bytes
        if total > limit:
            sizes = sorted(self.now.buffers.values(), key=lambda b: -b.nbytes)[:3]
            largest = ", ".join(f"{b.name} {b.nbytes:,}" for b in sizes)
            error = MemoryBudgetError(
                f"the buffers of {self.program.name} take {total:,} bytes, InterpretParams(max_bytes={limit}) allows {limit:,}. "
                f"The largest: {largest}."
            )
            raise error if core is None else with_place(error, self.place(core))

    def deadlock(self) -> DeadlockError:
        """The error for cores that all wait."""
        found = []
        for core in self.now.cores:
            if core.waiting is None:
                continue
            w = core.waiting
            present = int(self.now.buffers[w.number].values.reshape(-1)[w.element])
            found.append(
                {**self.place(core), "semaphore": w.name, "needed": w.needed, "present": present}
            )
        return DeadlockError.of(self.program.name, found, self.now.t)

    def _over_budget(self, rounds: int = 0) -> StepBudgetError:
        st = self.now
        core = st.cores[st.last if st.last is not None else 0]
        frames = [
            {"label": f.title, "line": str(f.op.eqn.source_info) if f.op is not None else None}
            for f in core.frames
        ]
        return StepBudgetError.of(self.program.name, st.t, self.place(core), frames, rounds)

    def uninitialized(self, core: MachineCore, name: str, box: tuple, count: int, why: str) -> None:
        """An access reads elements that nobody has written."""
        place = self.place(core)
        slices = ", ".join(f"{a}:{b}" for a, b in box)
        text = (
            f"{count} uninitialized element{'s' * (count != 1)} of {name}[{slices}] read by core {core.number} at grid point "
            f"{core.coords}, equation {place['eqn']}{why}"
        )
        if self.params.uninitialized_reads == "raise":
            raise with_place(
                UninitializedReadError(f"{text}, {place['line']}: {place['text']}"), place
            )
        self.note_lint(
            "uninitialized read",
            (name, place["eqn"]),
            text,
            ref=name,
            slice=[list(b) for b in box],
            **{k: place[k] for k in ("pair", "core", "eqn", "line")},
            grid=list(core.coords),
        )


def quiet_context():
    """Equations run at once, whatever the caller traces."""
    return set_trace(EVAL)


class _Ended:
    """A loop without rounds: its results are the first values."""

    section = "body"
    index = 0

    def __init__(self, loop: Any):
        self.loop = loop

    def title(self, label: str) -> str:
        return label

    def advance(self, outs: list | None) -> None:
        return None

    def results(self) -> list:
        return self.loop.results()

    def copy(self) -> _Ended:
        return self


_EMPTY = plan_of(Jaxpr([], [], [], []), machine_rules)


def _infinities(op: Op) -> list | None:
    """Infinity in place of floating-point results; None if the equation has others."""
    avals = [v.aval for v in op.outs]
    if not avals or not all(dtypes.issubdtype(a.dtype, np.floating) for a in avals):
        return None
    return [np.full(a.shape, np.inf, a.dtype) for a in avals]
