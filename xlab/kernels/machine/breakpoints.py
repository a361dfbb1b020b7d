"""Where a machine stops: at an access, an equation, a grid point, a core, or a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.kernels.machine.events import Access


class KernelBreakpoint:
    """Conditions that all have to hold. Those on an equation, a grid point or a core stop before it; those on an access after it."""

    def __init__(
        self,
        number: int,
        ref: str | None,
        slice: Sequence[Any] | None,
        kind: str | None,
        eqn: str | None,
        grid: Sequence[int] | None,
        core: int | None,
        when: Callable[[np.ndarray], Any] | None,
    ):
        self.number, self.ref, self.kind, self.eqn, self.core, self.when = (
            number,
            ref,
            kind,
            eqn,
            core,
            when,
        )
        self.box = None if slice is None else tuple(map(_range, slice))
        self.grid = None if grid is None else tuple(grid)
        if all(x is None for x in (ref, slice, kind, eqn, grid, core, when)):
            raise ValueError(
                "a breakpoint needs something to stop at: ref, slice, kind, eqn, grid, core or when"
            )

    @property
    def on_access(self) -> bool:
        return not (
            self.ref is None and self.box is None and self.kind is None and self.when is None
        )

    def hit_by_access(self, event: Access, value: Any) -> bool:
        """Whether an access meets the conditions."""
        if not self.on_access:
            return False
        if self.ref is not None and event.ref != self.ref:
            return False
        if self.kind is not None and event.kind != self.kind:
            return False
        if not self._at(event.core, event.grid, event.eqn):
            return False
        if self.box is not None and not _overlap(self.box, event.box):
            return False
        return self.when is None or bool(self.when(np.asarray(value)))

    def hit_before(self, core: Any) -> bool:
        """Whether a core is about to run what is asked for."""
        if self.on_access:
            return False
        if self.grid is not None and self.eqn is None and core.frames:
            return False  # the grid point has begun
        coords = core.coords if core.frames else core.next_coords()
        return self._at(core.number, coords, core.path)

    def _at(self, core, grid, eqn) -> bool:
        if self.core is not None and core != self.core:
            return False
        if self.grid is not None and grid != self.grid:
            return False
        return self.eqn is None or (eqn is not None and _same_equation(self.eqn, eqn))

    def __repr__(self):
        parts = {
            "ref": self.ref,
            "slice": self.box,
            "kind": self.kind,
            "eqn": self.eqn,
            "grid": self.grid,
            "core": self.core,
            "when": self.when,
        }
        shown = ", ".join(f"{k}={v!r}" for k, v in parts.items() if v is not None)
        return f"Breakpoint {self.number}({shown})"


def _same_equation(asked: str, eqn: str) -> bool:
    return eqn == asked or eqn == f"body/{asked}"


def _range(x: Any) -> tuple[int, int]:
    if isinstance(x, slice):
        if x.start is None or x.stop is None:
            raise ValueError(
                f"the slice of a breakpoint has a start and a stop per dimension, got {x}"
            )
        return int(x.start), int(x.stop)
    if isinstance(x, (tuple, list)):
        return int(x[0]), int(x[1])
    return int(x), int(x) + 1


def _overlap(a: tuple, b: tuple) -> bool:
    return len(a) == len(b) and all(x[0] < y[1] and y[0] < x[1] for x, y in zip(a, b))
