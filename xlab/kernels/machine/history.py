"""Going back: checkpoints of a run at intervals, and running again from the nearest, without telling anybody.

A run is determined by its program and the turns recorded, so that running again gives the same state. Checkpoints share what has
not changed since; together they hold at most ten times the operands' bytes (or 64 MiB, if that is more): then every other one goes and
the interval doubles.
"""

from __future__ import annotations

from typing import Any

from xlab.kernels.machine.state import State

_FLOOR = 64 << 20
_MOST = 256


class History:
    """Checkpoints of one run, in order of their turns."""

    def __init__(self, nbytes: int, interval: int = 128):
        self.limit = max(10 * nbytes, _FLOOR)
        self.interval = interval
        self.saved: list[tuple[int, State, Any, int]] = []
        self.thinned = 0  # checkpoints that went

    def due(self, t: int) -> bool:
        """Whether a checkpoint is wanted before turn `t`."""
        return not self.saved or t >= self.saved[-1][0] + self.interval

    def save(self, state: State, detector: Any) -> None:
        """Keeps the state before a turn."""
        cost = sum({id(b.values): b.nbytes for b in state.buffers.values() if not b.kept}.values())
        cost += 2000 + 500 * len(state.cores)
        cost += 0 if detector is None else detector.fresh_bytes
        self.saved.append(
            (state.t, state.copy(), None if detector is None else detector.copy(), cost)
        )
        while len(self.saved) > 2 and (
            len(self.saved) > _MOST or sum(s[3] for s in self.saved) > self.limit
        ):
            before = len(self.saved)
            self.saved = [s for i, s in enumerate(self.saved) if i % 2 == 0]
            self.thinned += before - len(self.saved)
            self.interval *= 2

    def at(self, t: int) -> tuple[int, State, Any]:
        """The last checkpoint at or before a turn."""
        found = [s for s in self.saved if s[0] <= t][-1]
        return found[0], found[1].copy(), None if found[2] is None else found[2].copy()

    def forget(self, t: int) -> None:
        """Drops checkpoints after a turn: another future begins."""
        self.saved = [s for s in self.saved if s[0] <= t]

    def copy(self, detector: Any = None) -> History:
        """Checkpoints for a copy of the machine, whose detector is given."""
        new = object.__new__(History)
        new.__dict__.update(self.__dict__)
        new.saved = []
        for t, state, saved, cost in self.saved:
            found = None
            if saved is not None:
                found = saved.copy()
                found.known = detector.known
            new.saved.append((t, state.copy(), found, cost))
        return new
