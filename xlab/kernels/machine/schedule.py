"""In what order cores take turns: the policies, and the record of a run, which is a policy itself.

A policy says which core is next from the turn's number, the core that had the turn before and how long, and the cores that can run.
It keeps no state of its own, so that a run can be taken up anywhere.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

KINDS = ("sequential", "round_robin", "random", "threads", "explicit")


class Turns(NamedTuple):
    """Turns that one core took in a row: from turn `t`, `count` of them."""

    t: int
    core: int
    count: int


class Schedule:
    """An order of cores.

    Args:
        kind: "sequential" (a core runs until it has to wait or ends, then the first that can), "round_robin", "random", "threads"
            (one thread of the operating system per core), or a sequence of core numbers, one per turn. Cores that wait are skipped;
            where a sequence ends, the rest runs in order.
        quantum: turns that a core has at a time under "round_robin".
        seed: of "random".
        order: the order of cores, by default that of their numbers.

    Example:
        >>> from xlab.kernels.machine import Schedule
        >>> Schedule([0, 0, 1]).turns
        (0, 0, 1)
        >>> Schedule("round_robin", quantum=2)
        Schedule(round_robin, quantum=2)
    """

    __slots__ = ("_runs", "kind", "order", "quantum", "seed", "stop", "turns")

    def __init__(
        self,
        kind: str | Sequence[int] | Schedule = "sequential",
        *,
        quantum: int = 1,
        seed: int = 0,
        order: Sequence[int] | None = None,
    ):
        self._runs: list[list[int]] = []  # turn, core, turns in a row
        self.turns: tuple[int, ...] = ()
        self.stop = False
        if isinstance(kind, Schedule):
            self.kind, self.turns, self.stop = kind.kind, kind.turns, kind.stop
            quantum, seed, order = kind.quantum, kind.seed, kind.order
        elif isinstance(kind, str):
            if kind not in KINDS[:-1]:
                raise ValueError(
                    f"a schedule is one of {', '.join(KINDS[:-1])}, or a sequence of core numbers; got {kind!r}"
                )
            self.kind = kind
        else:
            self.kind, self.turns = "explicit", tuple(int(c) for c in kind)
        if quantum < 1:
            raise ValueError(f"the quantum of a schedule is at least 1, got {quantum}")
        self.quantum, self.seed = quantum, seed
        self.order = None if order is None else tuple(order)

    # -- the policy ----------------------------------------------------------------------------------------

    def choose(
        self, t: int, cursor: int, last: int | None, used: int, runnable: Sequence[int]
    ) -> tuple[int | None, int]:
        """The core that has turn `t`, and the next place in the explicit sequence.

        Args:
            cursor: the place in the explicit sequence.
            last, used: the core before, and its turns in a row.
            runnable: cores that can run, in order.
        """
        if self.kind == "explicit":
            while cursor < len(self.turns):
                core = self.turns[cursor]
                cursor += 1
                if core in runnable:
                    return core, cursor
            if self.stop:
                return None, cursor
        if self.kind == "random":
            return runnable[_mix(self.seed, t) % len(runnable)], cursor
        limit = self.quantum if self.kind == "round_robin" else None
        if last in runnable and (limit is None or used < limit):
            return last, cursor
        if limit is None or last is None:
            return runnable[0], cursor
        order = self.order
        if order is None:
            return next((c for c in runnable if c > last), runnable[0]), cursor
        at = order.index(last)
        return min(runnable, key=lambda c: (order.index(c) - at - 1) % len(order)), cursor

    def ordered(self, cores: Sequence[int]) -> list[int]:
        """Cores in this schedule's order."""
        unknown = {*self.turns}.difference(cores)
        if unknown:
            raise ValueError(
                f"the schedule has turns of core {min(unknown)}, but the cores are numbered 0 to {len(cores) - 1}"
            )
        if self.order is None:
            return list(cores)
        if sorted(self.order) != sorted(cores):
            raise ValueError(
                f"the order {self.order} of a schedule has to name the cores {list(cores)}, each once"
            )
        return list(self.order)

    # -- the record ----------------------------------------------------------------------------------------

    @property
    def entries(self) -> list[Turns]:
        """The turns recorded, those of one core in a row together."""
        return [Turns(*r) for r in self._runs]

    @entries.setter
    def entries(self, entries: Sequence[Sequence[int]]) -> None:
        self._runs = [list(e) for e in entries]

    def note(self, t: int, core: int) -> None:
        """Records that a core has had turn `t`."""
        runs = self._runs
        if runs and runs[-1][1] == core:
            runs[-1][2] += 1
        else:
            runs.append([t, core, 1])

    def forget(self, t: int) -> None:
        """Takes back the record from turn `t` on."""
        runs = self._runs
        while runs and runs[-1][0] >= t:
            runs.pop()
        if runs:
            runs[-1][2] = min(runs[-1][2], t - runs[-1][0])

    def core_at(self, t: int) -> int:
        """The core that had a turn."""
        return self._runs[bisect.bisect_right(self._runs, t, key=lambda r: r[0]) - 1][1]

    def cores(self) -> list[int]:
        """The core of each turn recorded."""
        return [e.core for e in self.entries for _ in range(e.count)]

    def recorded(self) -> Schedule:
        """The turns recorded, as a schedule that repeats them."""
        return Schedule(self.cores(), order=self.order)

    def edit(self, at: int, *cores: int, remove: int = 0) -> Schedule:
        """The recorded (or explicit) turns with some replaced.

        Args:
            at: the first turn to change.
            cores: what to put there.
            remove: how many turns to take out.

        Example:
            >>> from xlab.kernels.machine import Schedule
            >>> Schedule([0, 0, 1]).edit(1, 1, 1, remove=1).turns
            (0, 1, 1, 1)
        """
        turns = list(self.turns or self.cores())
        turns[at : at + remove] = cores
        return Schedule(turns, order=self.order)

    def switches(self) -> int:
        """How often another core takes over."""
        turns = self.turns or self.cores()
        return sum(a != b for a, b in itertools.pairwise(turns))

    def to_json(self) -> dict[str, Any]:
        """The policy, and the turns recorded as [t, core, count]."""
        out: dict[str, Any] = {"kind": self.kind, "entries": [list(e) for e in self.entries]}
        if self.kind == "round_robin":
            out["quantum"] = self.quantum
        if self.kind == "random":
            out["seed"] = self.seed
        if self.order is not None:
            out["order"] = list(self.order)
        if self.kind == "explicit":
            out["turns"] = list(self.turns)
        return out

    def __eq__(self, other):
        return isinstance(other, Schedule) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def _key(self):
        return self.kind, self.turns, self.quantum, self.seed, self.order, self.stop

    def __repr__(self):
        parts = [str(list(self.turns)) if self.kind == "explicit" else self.kind]
        if self.kind == "round_robin":
            parts.append(f"quantum={self.quantum}")
        if self.kind == "random":
            parts.append(f"seed={self.seed}")
        if self.order is not None:
            parts.append(f"order={self.order}")
        return f"Schedule({', '.join(parts)})"


_MASK = (1 << 64) - 1


def _mix(seed: int, t: int) -> int:
    """A number that looks random, from a seed and a turn (the finalizer of SplitMix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + (t + 1) * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 11
