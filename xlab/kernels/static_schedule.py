"""Several programs that wait for one another, as one straight program: the schedule is found while it is written down.

All cores take turns, one equation at a time. What a core knows before the program runs, such as its position, loop counters and
the counts of semaphores, is computed; everything else is recorded. So a wait is over or not, a branch is taken or not, and what is left is
the equations of all cores in an order that they could have run in.

That needs control flow around semaphores which does not depend on data. Otherwise only the value interpreter can run the program.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from xlab import tree as _tree
from xlab.core import effects as _effects
from xlab.core.avals import aval_of
from xlab.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    eval_jaxpr,
    open_jaxpr,
    results_of,
)
from xlab.core.refs import AbstractRef
from xlab.core.trace import EVAL, set_trace, state
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of
from xlab.interpreters.discharge import discharge_rules
from xlab.kernels.copies import dma_wait_p
from xlab.kernels.failures import DeadlockError
from xlab.kernels.mesh import mesh_of
from xlab.kernels.pairs import CALL, MpmdFunction
from xlab.kernels.program import num_programs_p, program_id_p
from xlab.kernels.scoped import first_value, run_scoped_p
from xlab.kernels.semaphores import (
    MAX_COUNT,
    counted,
    is_semaphore,
    semaphore_signal_p,
    semaphore_wait_p,
)
from xlab.lax.creation import full
from xlab.lax.refs import part_of, read
from xlab.numpy.joining import stack

Turns = Generator[dict[str, Any] | None, None, list]
MAX_EQUATIONS = 100_000
"""How long a straight program may become."""
_KNOWN_ELEMENTS = 1024  # larger arrays are recorded, although they could be computed


class RefState:
    """What a reference refers to: its value now, and for a semaphore that several cores use, the name and who else has one."""

    __slots__ = ("aval", "family", "name", "synchronizes", "value")

    def __init__(self, aval: AbstractRef, value: Any, name: str = "", synchronizes: bool = False):
        self.aval, self.value, self.name, self.synchronizes = aval, value, name, synchronizes
        self.family: list[RefState] = []


class Core:
    """One core of a pair, and how far it is."""

    def __init__(self, number: int, pair: int, coordinates: tuple[int, ...], sizes: tuple):
        self.number, self.pair, self.coordinates, self.sizes = number, pair, coordinates, sizes
        self.waiting: dict[str, Any] | None = None
        self.turns: Turns


class _PartlyKnown(pe.JaxprTrace):
    """Records what depends on data, what has effects, and large arrays."""

    __slots__ = ()

    def process_primitive(self, prim, args, params):
        if not any(map(self.is_unknown, args)):
            outs, effects = prim.abstract(tuple(map(aval_of, args)), params)
            outs = outs if prim.multiple_results else (outs,)
            if effects or any(a.size > _KNOWN_ELEMENTS for a in outs):
                return self.record_unknown(prim, args, params)
        return super().process_primitive(prim, args, params)


def synchronizes(pairs: Sequence[MpmdFunction]) -> bool:
    """Whether cores of these pairs may wait for one another: there are several, and they use semaphores that all can reach."""
    return sum(len(p.cores) for p in pairs) > 1 and any(
        is_semaphore(p.ref_avals[e.input])
        for p in pairs
        for e in p.jaxpr.effects
        if isinstance(e, _effects.RefEffect)
    )


def straight_line(name: str, pairs: Sequence[MpmdFunction], values: Sequence[Any]) -> list:
    """Runs pairs whose cores wait for one another; returns the last values of the references.

    Args:
        name: of the call, for messages.
        values: the first values of the references.

    Raises:
        ValueError: control flow around semaphores depends on data, or a semaphore counts too far.
        DeadlockError: all cores wait.
    """
    schedule = _Schedule(name, pairs, values)
    schedule.round_robin()
    return schedule.finish(values)


def one_by_one(name: str, pair: MpmdFunction, values: Sequence[Any]) -> list | None:
    """Checks that the cores of a pair can run one after the other, as a loop does.

    Returns:
        None; where cores signal semaphores of one another, which a loop cannot do, the last values of the references.

    Raises:
        ValueError: a core waits for a later one, or control flow around semaphores depends on data.
    """
    schedule = _Schedule(name, [pair], values)
    schedule.one_after_the_other()
    return schedule.finish(values) if schedule.reaches_others else None


class _Schedule:
    """The cores of all pairs, and the program that is written down while they take turns."""

    def __init__(self, name: str, pairs: Sequence[MpmdFunction], values: Sequence[Any]):
        self.name, self.pairs, self.turn = name, pairs, 0
        self.trace = _PartlyKnown(EVAL, name)
        self.reaches_others = False  # a core signals a semaphore of another core's own
        refs = pairs[0].ref_avals
        self.names = pairs[0].jaxpr.jaxpr.debug_info.arg_names
        self.shared = [
            self._semaphore(ref, k)
            if is_semaphore(ref)
            else RefState(ref, self.trace.new_input(aval_of(x)))
            if pairs[0].owners[k] == CALL
            else None
            for k, (ref, x) in enumerate(zip(refs, values))
        ]
        self.cores: list[Core] = []
        for number, pair in enumerate(pairs):
            sizes = tuple(np.int32(n) for n in pair.mesh.shape.values())
            for index, coordinates in enumerate(pair.cores):
                core = Core(len(self.cores), number, coordinates, sizes)
                core.turns = self._program(core, pair, index)
                self.cores.append(core)

    def _semaphore(self, ref: AbstractRef, k: int) -> RefState:
        """The semaphore of the call, or those of the cores of a mesh."""
        home = mesh_of(ref.memory_space)
        if k < self.pairs[0].grid_mapping.scratch_refs.start:
            raise ValueError(
                f"{self.name} needs the value interpreter: {self.names[k]} is a semaphore from outside, whose count is data. Run it with "
                f"interpret='value', or make it scratch."
            )
        cell = RefState(ref, np.zeros(ref.shape, ref.dtype), self.names[k], True)
        if home is not None and self.pairs[0].owners[k] != CALL:
            cell.family = [
                RefState(ref, cell.value, f"{cell.name} of core {i}", True)
                for i in range(math.prod(home.shape.values()))
            ]
            for member in cell.family:
                member.family = cell.family
        return cell

    def _program(self, core: Core, pair: MpmdFunction, index: int) -> Turns:
        """The turns of a core, from its first equation to its last."""
        cells: list[Any] = []
        for ref, cell in zip(pair.ref_avals, self.shared):
            if cell is None:
                cell = RefState(ref, first_value(ref))
            elif cell.family and mesh_of(ref.memory_space) == pair.mesh:
                cell = cell.family[index]
            cells.append(cell)
        return (yield from self._equations(core, pair.jaxpr, cells))

    # -- turns ---------------------------------------------------------------------------------------------

    def round_robin(self) -> None:
        """Each core that does not wait has a turn, then the next one, until all have ended."""
        running = list(self.cores)
        while running:
            before, still = self.turn, []
            for core in running:
                if self._step(core):
                    still.append(core)
            running = still
            if running and before == self.turn:
                raise DeadlockError.of(
                    self.name, [c.waiting for c in running if c.waiting], self.turn
                )

    def one_after_the_other(self) -> None:
        """Each core runs to its end before the next one begins."""
        for core in self.cores:
            while self._step(core):
                if core.waiting is not None:
                    w = core.waiting
                    raise ValueError(
                        f"the cores of {self.name} cannot run one after the other, as a compiled program does: core {core.number} waits at "
                        f"{w['line']} for {w['semaphore']}, which has {w['present']} of {w['needed']}, until a later core signals it. Run it "
                        f"with interpret='value'."
                    )

    def _step(self, core: Core) -> bool:
        """Gives a core a turn; whether it has not ended."""
        if core.waiting is None:
            self.turn += 1
        elif not core.waiting["ready"]():
            return True
        else:
            core.waiting = None
            self.turn += 1
        source = state.source_info
        try:
            with set_trace(self.trace):
                core.waiting = next(core.turns)
            return True
        except StopIteration:
            return False
        finally:
            state.source_info = source

    # -- equations -----------------------------------------------------------------------------------------

    def _equations(self, core: Core, program: Jaxpr | ClosedJaxpr, args: Sequence[Any]) -> Turns:
        """Runs a program of the core: yields after each equation None, or what it waits for."""
        consts = program.consts if isinstance(program, ClosedJaxpr) else ()
        jaxpr = open_jaxpr(program)
        env: dict = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))

        def value(a):
            return a.val if type(a) is Literal else env[a]

        for number, eqn in enumerate(jaxpr.eqns):
            operands = [value(a) for a in eqn.invars]
            state.source_info = eqn.raw_source_info
            if any(type(x) is RefState and x.synchronizes for x in operands):
                if eqn.primitive in (semaphore_signal_p, semaphore_wait_p, dma_wait_p):
                    outs = yield from self._synchronize(core, number, eqn, operands)
                elif flow_of(eqn) is not None or eqn.primitive is run_scoped_p:
                    outs = yield from self._enter(core, eqn, operands)
                else:
                    outs = self._apply(eqn, operands)
            elif eqn.primitive is program_id_p:
                outs = [np.int32(core.coordinates[eqn.params["axis"]])]
            elif eqn.primitive is num_programs_p:
                outs = [core.sizes[eqn.params["axis"]]]
            else:
                outs = self._apply(eqn, operands)
            env.update(zip(eqn.outvars, outs))
            if len(self.trace.eqns) > MAX_EQUATIONS:
                raise _needs_values(
                    self.name,
                    eqn,
                    f"written down for all cores it has more than {MAX_EQUATIONS} equations",
                )
            yield None
        return [value(a) for a in jaxpr.outvars]

    def _apply(self, eqn: JaxprEqn, operands: Sequence[Any]) -> list:
        """The results of an equation; what it leaves in references is stored."""
        touched = [type(x) is RefState for x in operands]
        if not any(touched) and _effects.INTERNAL_REF not in eqn.effects:
            return results_of(eqn, operands)
        values = [x.value if type(x) is RefState else x for x in operands]
        rule = discharge_rules.get(eqn.primitive)
        if rule is None:
            raise discharge_rules.missing(eqn.primitive)
        updates, outs = rule(eqn, touched, values)
        for i, new in updates.items():
            if operands[i].synchronizes and self.trace.is_unknown(new):
                raise _needs_values(
                    self.name, eqn, f"the count of {operands[i].name} depends on data"
                )
            operands[i].value = new
        return [
            RefState(v.aval, x) if type(v.aval) is AbstractRef else x
            for v, x in zip(eqn.outvars, outs)
        ]

    def _known(self, eqn: JaxprEqn, x: Any, what: str) -> int:
        if self.trace.is_unknown(x):
            raise _needs_values(self.name, eqn, f"{what} depends on data")
        return int(x)

    # -- semaphores ----------------------------------------------------------------------------------------

    def _synchronize(self, core: Core, number: int, eqn: JaxprEqn, operands: list) -> Turns:
        """A signal, or a wait, which ends when its semaphore has reached what it waits for."""
        if eqn.primitive is dma_wait_p:
            src, _, sem, *leaves = operands
            src_at, _, transforms = _tree.unflatten(eqn.params["tree"], leaves)
            amount = part_of(src.aval.inner_aval, src_at).size
            if (
                amount > MAX_COUNT
            ):  # it has begun and ended at once; the count of its elements does not fit
                return self._apply(eqn, operands)
        else:
            sem, amount, *leaves = operands
            transforms, *whose = _tree.unflatten(eqn.params["tree"], leaves)
            amount = self._known(eqn, amount, f"how much is counted in {sem.name}")
            if whose and whose[0] is not None:
                sem = self._other(eqn, sem, self._known(eqn, whose[0], "the core that is signaled"))
        if sem.family and sem not in sem.family:
            raise ValueError(
                f"{sem.name} belongs to the cores of another mesh: say whose is meant, as semaphore_signal(sem, core=0). It is used "
                f"at {eqn.source_info}"
            )

        def count() -> int:
            state.source_info = eqn.raw_source_info
            with set_trace(self.trace):
                return self._known(eqn, read(sem.value, transforms), f"the part of {sem.name}")

        if eqn.primitive is semaphore_signal_p:
            if count() + amount > MAX_COUNT:
                raise ValueError(
                    f"{sem.name} would count to {count() + amount} at {eqn.source_info}, more than the {MAX_COUNT} that a semaphore "
                    f"holds"
                )
            sem.value = counted(sem.value, transforms, np.int32(amount))
            return []
        while count() < amount:
            yield {
                "ready": lambda: count() >= amount,
                "core": core.number,
                "pair": core.pair,
                "grid": core.coordinates,
                "eqn": number,
                "line": str(eqn.source_info),
                "semaphore": sem.name + "".join(t.text() for t in transforms),
                "needed": amount,
                "present": count(),
            }
            state.source_info = eqn.raw_source_info
        if eqn.primitive is dma_wait_p or eqn.params["decrement"]:
            sem.value = counted(sem.value, transforms, np.int32(-amount))
        return []

    def _other(self, eqn: JaxprEqn, sem: RefState, number: int) -> RefState:
        """The semaphore of another core. One of the call is the same for all."""
        if not sem.family:
            return sem
        if not 0 <= number < len(sem.family):
            raise ValueError(
                f"{sem.name} belongs to {len(sem.family)} cores, none is core {number}, which is signaled at {eqn.source_info}"
            )
        self.reaches_others = True
        return sem.family[number]

    # -- control flow --------------------------------------------------------------------------------------

    def _enter(self, core: Core, eqn: JaxprEqn, operands: list) -> Turns:
        """Runs what is inside an equation with semaphores, one equation per turn."""
        if eqn.primitive is run_scoped_p:
            if any(a != () for a in eqn.params["collective_axes"]):
                return self._apply(eqn, operands)  # which refuses
            closed = eqn.params["jaxpr"]
            made = [RefState(a, first_value(a)) for a in closed.in_avals[len(operands) :]]
            return (yield from self._equations(core, closed, [*operands, *made]))
        flow = flow_of(eqn)
        if isinstance(flow, CallFlow):
            return (yield from self._equations(core, flow.jaxpr, operands))
        if isinstance(flow, BranchFlow):
            which = self._known(eqn, operands[0], "a branch with semaphores inside")
            branch = flow.branches[min(max(which, 0), len(flow.branches) - 1)]
            return (yield from self._equations(core, branch, operands[1:]))
        if isinstance(flow, LoopFlow):
            return (yield from self._loop(core, eqn, flow, operands))
        raise _needs_values(self.name, eqn, "there are semaphores inside")

    def _loop(self, core: Core, eqn: JaxprEqn, flow: LoopFlow, operands: list) -> Turns:
        cond_consts, consts, carry, xs = flow.split(operands)
        if flow.cond is not None:
            while True:
                (more,) = yield from self._equations(core, flow.cond, [*cond_consts, *carry])
                if not self._known(eqn, more, "how often a loop with semaphores runs"):
                    return carry
                carry = yield from self._equations(core, flow.body, [*consts, *carry])
        if any(type(x) is RefState for x in xs):
            raise _needs_values(
                self.name, eqn, "a loop with semaphores takes references row by row"
            )
        rows: list[list] = []
        for i in reversed(range(flow.length)) if flow.reverse else range(flow.length):
            outs = yield from self._equations(
                core, flow.body, [*consts, *carry, *(x[i] for x in xs)]
            )
            carry = outs[: flow.num_carry]
            rows.append(outs[flow.num_carry :])
        if flow.reverse:
            rows.reverse()
        if not rows:
            return [
                *carry,
                *(full(v.aval.shape, 0, v.aval.dtype) for v in eqn.outvars[len(carry) :]),
            ]
        return [*carry, *(stack(column) for column in zip(*rows))]

    # -- the program ---------------------------------------------------------------------------------------

    def finish(self, values: Sequence[Any]) -> list:
        """Runs what was written down; the last values of the references."""
        moving = [
            k for k, cell in enumerate(self.shared) if cell is not None and not cell.synchronizes
        ]
        found = [self.shared[k] for k in moving]
        with set_trace(self.trace):
            jaxpr, consts = self.trace.finish(
                [c.value for c in found if c is not None], self.pairs[0].jaxpr.jaxpr.debug_info
            )
        closed = pe.prune_closed_consts(ClosedJaxpr(pe.dce_jaxpr_eqns(jaxpr), consts))
        finals = eval_jaxpr(closed.jaxpr, closed.consts, *(values[k] for k in moving))
        out = list(values)
        for k, x in zip(moving, finals):
            out[k] = x
        return out


def _needs_values(name: str, eqn: JaxprEqn, why: str) -> ValueError:
    return ValueError(
        f"{name} needs the value interpreter: {why}, at {eqn.source_info}, so in what order its cores run is not known before the "
        f"program does. Run it with interpret='value'."
    )
