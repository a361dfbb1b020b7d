"""The events of a run as records: waits from where they block to where they go on, copies from start to end, signals to who waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab.core import dtypes
from xlab.kernels.machine.events import Access, BlockEvent, Event
from xlab.kernels.machine.races import Race
from xlab.observe.kernel_runs.program import Paths
from xlab.observe.records.kernel import BlockVisit, KernelFault, KernelRace, RefAccess
from xlab.observe.records.kernel_text import slice_text
from xlab.observe.records.units import plural

MOST_FAULTS = 20
"""Faults of one kind that are kept."""


class Log:
    """Takes in events; as a breakpoint that never stops, it sees the values of accesses too."""

    on_access = True

    def __init__(self, machine: Any):
        self.machine, self.program = machine, machine.program
        self.paths = Paths(machine.program)
        self.count = 0
        self.faults: list[KernelFault] = []
        self._visits: dict[tuple[int, str, int], BlockVisit] = {}
        self._accesses: list[RefAccess] = []
        self._waiting: dict[int, int] = {}
        self._copies: dict[tuple, int] = {}
        self._edges: list[tuple[int, int, int, int, str]] = []
        self._seen: set[tuple] = set()
        self._shapes = {o.name: o.aval.shape for o in machine.program.operands}
        self._reads = {
            (p.number, s.name): "both"
            for p in machine.program.pairs
            for s, io in zip(p.sources, self.paths.io[p.number])
            if io == "both"
        }

    # -- what a breakpoint does --------------------------------------------------------------------------------

    def hit_by_access(self, event: Access, value: Any) -> bool:
        """Looks at the value of an access: the first NaN that an equation writes."""
        if event.kind in ("write", "accum"):
            value = np.asarray(value)
            if dtypes.issubdtype(value.dtype, np.inexact) and np.isnan(value).any():
                count = int(np.isnan(value).sum())
                self._fault(
                    "nan", event, f"{count} NaN written to {slice_text(event.ref, event.box)}"
                )
        return False

    def hit_before(self, core: Any) -> bool:
        """Never."""
        return False

    # -- events ------------------------------------------------------------------------------------------------

    def add(self, events: Sequence[Event]) -> None:
        """The events of one turn."""
        t = self.machine.count - 1
        for e in events:
            self.count += 1
            if isinstance(e, BlockEvent):
                self._block(e, t)
            else:
                self._access(e)

    def _block(self, e: BlockEvent, t: int) -> None:
        key = (e.step, e.operand, e.core)
        found = self._visits.get(key)
        if found is not None:  # read before the kernel ran, written after it
            self._visits[key] = found.replace(io="both" if found.io != e.io else e.io)
            return
        index: list[int] = []
        start, shape = list(e.start), list(e.shape)
        for d, part in enumerate(e.index):
            if not isinstance(part, (tuple, list)):
                index.append(int(part))
                continue
            index += map(int, part)
            if self._gathers(e, d):
                start[d], shape[d] = min(part), max(part) - min(part) + 1
            else:
                shape[d] = int(part[1])
        io = self._reads.get((e.pair, e.operand), e.io)
        self._visits[key] = BlockVisit(
            e.step,
            tuple(e.grid),
            e.operand,
            io,
            tuple(index),
            tuple(start),
            tuple(shape),
            tuple(e.squeezed),
            tuple(e.pad),
            bool(e.clamped),
            e.visit,
            e.core,
            e.pair,
            t,
        )
        if e.clamped and len([f for f in self.faults if f.kind == "bounds"]) < MOST_FAULTS:
            words = f"the block {tuple(e.index)} of {e.operand} begins outside of the array and is moved inside"
            self.faults.append(KernelFault("bounds", words, t, e.step, e.core, e.operand))

    def _gathers(self, e: BlockEvent, d: int) -> bool:
        return self.paths.gathers.get((e.operand, d), False)

    def _access(self, e: Access) -> None:
        more = dict(e.more)
        if more.get("unwritten"):
            count, where = int(more["unwritten"]), slice_text(e.ref, e.box)
            words = (
                f"{plural(count, 'element')} of padding in {where} read: what padding holds is undefined"
                if count == self._outside(e)
                else f"{plural(count, 'element')} of {where} read before anybody wrote there"
            )
            self._fault("uninitialized", e, words)
        box = tuple((int(a), int(b)) for a, b in e.box)
        count, until, of, ref, t = int(more.get("count", 0)), -1, "", e.ref, e.t
        if e.kind == "wait":
            self._wait(e, more, box, count)
            return
        if e.kind == "copy":
            t = int(more.get("started", e.t))
            of, ref = slice_text(e.ref, box), str(more["to"])
            box = tuple((int(a), int(b)) for a, b in more["to_slice"])
            key = (e.core, t, ref, box)
            if more.get("done"):
                until = e.t
                if key in self._copies:
                    at = self._copies.pop(key)
                    self._accesses[at] = self._accesses[at].replace(until=until)
                    return
            else:
                self._copies[key] = len(self._accesses)
        if e.kind == "signal" and more.get("owner") is not None:
            of = str(more["owner"])
        self._accesses.append(self._made(e, t, ref, box, count, until, of))

    def _outside(self, e: Access) -> int:
        """How many elements of an access lie outside of its array, in padding."""
        shape = self._shapes.get(e.ref, ())
        if len(shape) != len(e.box):
            return 0
        size = math.prod(b - a for a, b in e.box)
        return size - math.prod(max(0, min(b, n) - max(a, 0)) for (a, b), n in zip(e.box, shape))

    def _wait(self, e: Access, more: dict[str, Any], box: tuple, count: int) -> None:
        if more.get("blocked"):
            self._waiting[e.core] = len(self._accesses)
            self._accesses.append(self._made(e, e.t, e.ref, box, count, -1, ""))
            return
        at = self._waiting.pop(e.core, None)
        if at is None:
            self._accesses.append(self._made(e, e.t, e.ref, box, count, e.t, ""))
        else:
            self._accesses[at] = self._accesses[at].replace(until=e.t)
        for t in tuple(more.get("signals", ()))[-1:]:  # the last lets it go on
            self._edges.append((int(t), self.machine.schedule.core_at(int(t)), e.t, e.core, e.ref))

    def _made(
        self, e: Access, t: int, ref: str, box: tuple, count: int, until: int, of: str
    ) -> RefAccess:
        return RefAccess(
            t,
            e.core,
            ref,
            e.kind,
            box,
            e.pair,
            tuple(e.grid),
            e.eqn,
            e.masked,
            f"{e.digest:08x}" if e.digest else "",
            count,
            until,
            of,
            self._step(e),
        )

    def _step(self, e: Access) -> int:
        pair = self.program.pairs[e.pair]
        if pair.mesh is not None or not math.prod(pair.grid):
            return -1
        return int(np.ravel_multi_index(e.grid, pair.grid)) if pair.grid else 0

    def _fault(self, kind: str, e: Access, words: str) -> None:
        key = (kind, e.ref, e.pair, e.eqn)
        if key in self._seen or sum(f.kind == kind for f in self.faults) >= MOST_FAULTS:
            return
        self._seen.add(key)
        source = self.paths.source(e.pair, e.eqn)
        self.faults.append(KernelFault(kind, words, e.t, self._step(e), e.core, e.ref, source))

    # -- as records --------------------------------------------------------------------------------------------

    def records(self) -> tuple[tuple[BlockVisit, ...], tuple[RefAccess, ...], tuple]:
        """Blocks in the order of the steps, accesses in the order of time, and edges from signals to waits."""
        return (
            tuple(sorted(self._visits.values(), key=lambda e: e.step)),
            tuple(sorted(self._accesses, key=lambda e: e.t)),
            tuple(self._edges),
        )

    def races(self, found: Sequence[Race]) -> tuple[KernelRace, ...]:
        """Races as records."""
        return tuple(
            KernelRace(
                r.ref,
                (r.kinds[0], r.kinds[1]),
                (r.cores[0], r.cores[1]),
                (_box(r.slices[0]), _box(r.slices[1])),
                (r.eqns[0], r.eqns[1]),
                (r.turns[0], r.turns[1]),
                (
                    self.paths.source(r.pairs[0], r.eqns[0]),
                    self.paths.source(r.pairs[1], r.eqns[1]),
                ),
            )
            for r in found
        )


def _box(box: Any) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in box)
