"""Kernels in the stepper: a call is walked through grid step by grid step, by the value interpreter.

Where a compiled kernel moves an access inside, the walk does the same. When the walk has ended the call is run as a whole, as any
nested program is, so that what follows has the bits that it has without stepping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.core.effects import on_refs
from xlab.core.jaxpr import Jaxpr, JaxprEqn
from xlab.kernels.interpret import InterpretParams
from xlab.kernels.machine import BlockEvent, Machine
from xlab.kernels.machine.state import inside
from xlab.kernels.machine.traced import KERNELS, program_of_equation
from xlab.numpy import asarray
from xlab.observe.records.kernel_text import slice_text

MOST_POINTS = 2048
"""Grid steps of a call up to which it is walked through; of more it is one step."""
MOST_WORDS = 8
"""Accesses that one step names."""
EMPTY = Jaxpr([], [], [], [])


class AccessedPart(NamedTuple):
    """A block or a buffer that a step has read or written."""

    name: str
    where: str
    value: np.ndarray


class Point(NamedTuple):
    """One grid step: which call's, its number, what it read and wrote, and that in words."""

    call: int
    number: int
    inputs: list[AccessedPart]
    outputs: list[AccessedPart]
    text: str


class KernelPoints:
    """A kernel call between two of its grid steps. Copies share the machine, each with a turn of its own."""

    def __init__(self, eqn: JaxprEqn, machine: Machine, call: int):
        self.eqn, self.machine, self.call = eqn, machine, call
        self.turn, self.number = 0, 0
        self.error: Exception | None = None

    def copy(self) -> KernelPoints:
        new = object.__new__(KernelPoints)
        new.__dict__.update(self.__dict__)
        return new

    @property
    def total(self) -> int:
        """Grid steps in all, or programs of cores."""
        return sum(len(share) for pair in self.machine.program.pairs for share in pair.shares)

    def title(self, label: str) -> str:
        return f"{label} {min(self.number + 1, self.total)}/{self.total}"

    def advance(self) -> Point | None:
        """Runs one grid step; None if there is none, or if the run cannot go on."""
        machine = self.machine
        try:
            if machine.count != self.turn:
                machine.goto(self.turn)
            if machine.done:
                return None
            events = machine.step_grid()
        except Exception as error:  # raised when the call is left, where it has no results
            self.error = error
            return None
        self.turn, number = machine.count, self.number
        self.number += 1
        return self._point(number, events)

    def _point(self, number: int, events: Sequence[Any]) -> Point:
        core = events[-1].core if events else 0
        reads: dict[str, AccessedPart] = {}
        writes: dict[str, AccessedPart] = {}
        words: dict[str, list[str]] = {"reads": [], "writes": []}
        step = number
        blocks = {e.operand for e in events if isinstance(e, BlockEvent)}
        for e in events:
            if isinstance(e, BlockEvent):
                step = e.step
                box = [(a, a + n) for a, n in zip(e.start, e.shape)]
                name, verb = e.operand, "reads" if e.io == "read" else "writes"
            elif e.kind in ("read", "write", "accum") and e.ref not in blocks:
                box, name = list(e.box), e.ref
                verb = "reads" if e.kind == "read" else "writes"
            else:
                continue
            said = slice_text(name, [(max(0, a), b) for a, b in box])
            if said not in words[verb]:
                words[verb].append(said)
            part = self._part(name, box, core, isinstance(e, BlockEvent))
            if part is not None:
                (reads if verb == "reads" else writes)[name] = part
        text = ", ".join(
            f"{verb} {', '.join(found[:MOST_WORDS])}" + (" …" if len(found) > MOST_WORDS else "")
            for verb, found in words.items()
            if found
        )
        return Point(
            self.call, step, list(reads.values()), list(writes.values()), text or "nothing"
        )

    def _part(
        self, name: str, box: list[tuple[int, int]], core: int, block: bool
    ) -> AccessedPart | None:
        """The part of an array that lies in it; of scratch, and of what the kernel made, the whole."""
        program = self.machine.program
        for number, operand in enumerate(program.operands):
            if operand.name == name:
                buffer = self.machine.now.buffers[number]
                values, written = buffer.values, buffer.written
                if operand.padding:
                    at = inside(operand)
                    values, written = values[at], None if written is None else written[at]
                if not block:
                    return _known(name, "", values, written)
                held = tuple(
                    slice(min(max(0, a), n), max(0, min(b, n)))
                    for (a, b), n in zip(box, values.shape)
                )
                where = slice_text("", [(s.start, s.stop) for s in held])
                return _known(name, where, values[held], None if written is None else written[held])
        for buffer in self.machine.now.buffers.values():
            if buffer.name == name and buffer.owner in (None, core):
                return _known(name, "", buffer.values, buffer.written)
        return None

    # What a frame asks of a loop that has ended.

    def results(self, stack: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        return [asarray(x) for x in self.machine.outputs()]


def _known(
    name: str, where: str, values: np.ndarray, written: np.ndarray | None
) -> AccessedPart | None:
    """A part without the elements that nobody has written, which hold nothing; None where all are such."""
    if written is None or written.all():
        return AccessedPart(name, where, np.array(values))
    left = f"{where} {values.size - int(written.sum())} uninitialized".strip()
    return AccessedPart(name, left, np.array(values[written])) if written.any() else None


def points_of(eqn: JaxprEqn, values: Sequence[Any], call: int) -> KernelPoints | None:
    """The walk through a kernel call; None where it has to be one step: it touches references, or has too many grid steps."""
    # What writes references of others is run once, as a whole.
    if eqn.primitive not in KERNELS or on_refs(eqn.effects):
        return None
    own = eqn.params.get("interpret")
    params = (
        own
        if isinstance(own, InterpretParams)
        else InterpretParams(out_of_bounds_reads="raise" if own == "value" else "clamp")
    )
    try:
        machine = Machine(
            program_of_equation(eqn.primitive, eqn.params, values, params), params=params
        )
    except Exception:
        return None
    points = KernelPoints(eqn, machine, call)
    return points if 0 < points.total <= MOST_POINTS else None


def label_of(eqn: JaxprEqn) -> str:
    """What the path calls a kernel."""
    return f"kernel {eqn.params.get('name') or eqn.primitive.name}"
