"""`Snapshots`: the places of a run that going back starts from, a bounded number over the whole run and a few close behind the present place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST = 64
"""Places over the whole run."""
NEAR = (8, 16, 32, 64, 128, 256)
"""How many steps before the present place the close ones are: who goes back once goes back again."""

Saved = tuple[Any, Any]
"""A snapshot of the machine (`JaxprMachine.snapshot`), and what it ran last before."""


def _count(saved: Saved) -> int:
    return saved[0][2]


class Snapshots:
    """Places of a run, the first with the arguments only.

    Args:
        first: a snapshot of the start.
        budget: bytes that the places may keep alive; with less, going back runs more again.

    Attributes:
        every: steps from one place to the next, more after each time that the places were too many.
    """

    def __init__(self, first: Any, budget: int):
        self.budget = budget
        self.every = 16
        self._kept: list[Saved] = [(first, None)]
        self._near: list[Saved] = []

    @property
    def first(self) -> Any:
        """The start."""
        return self._kept[0][0]

    def before(self, index: int) -> Saved:
        """The last place at or before a step."""
        return max(
            (s for s in (*self._kept, *self._near) if _count(s) <= index),
            key=_count,
        )

    def is_due(self, count: int) -> bool:
        """Whether a run that has come this far leaves a place."""
        return bool(count) and count % self.every == 0 and count > _count(self._kept[-1])

    def add(self, snapshot: Any, last: Any) -> None:
        """Keeps a place further on than all before."""
        self._kept.append((snapshot, last))
        while len(self._kept) > 2 and (len(self._kept) > MOST or self.nbytes() > self.budget):
            # Every other one goes; the first, with the arguments only, always stays.
            self._kept = self._kept[::2]
            self.every *= 2

    def on_the_way(self, start: int, index: int) -> Sequence[int]:
        """Where a run from `start` to `index` leaves close places; of those of before it drops what lies further on than it started."""
        if index - start <= 2 * NEAR[0]:
            return ()
        self._near = [s for s in self._near if _count(s) <= start][-len(NEAR) :]
        return [index - back for back in NEAR if start < index - back]

    def add_near(self, snapshot: Any, last: Any) -> None:
        """Keeps a close place, if the bytes allow it."""
        self._near.append((snapshot, last))
        if self.nbytes() > self.budget:
            self._near.pop()

    def forget(self, after: int) -> None:
        """Drops the places after a step, since what follows will be another."""
        self._kept = [s for s in self._kept if _count(s) <= after]
        self._near = []

    def nbytes(self) -> int:
        """Bytes that all places keep alive."""
        seen: dict[int, int] = {}
        for (frames, _, _), _ in (*self._kept, *self._near):
            for frame in frames:
                for x in frame.env.values():
                    seen[id(x)] = int(getattr(x, "nbytes", 0) or 0)
        return sum(seen.values())
