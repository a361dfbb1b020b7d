"""What was compiled in this process and why: a bounded list, written on the miss path only."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any

LIMIT = 1000

_counter = itertools.count()


@dataclass(frozen=True)
class Entry:
    """One compile. `position` is `file:line` of the function, `differences` are `(cause, what, was, now)`."""

    name: str
    position: str
    start_ns: int
    duration_ns: int
    reason: str
    differences: tuple[tuple[str, str, str, str], ...] = ()
    eager: bool = False
    number: int = field(default_factory=lambda: next(_counter))


entries: deque[Entry] = deque(maxlen=LIMIT)
"""The latest compiles, oldest first."""


def add(name: str, closed: Any, start_ns: int, end_ns: int, reason: str, differences: tuple) -> None:
    """Notes a compile of a program."""
    eqns = closed.jaxpr.eqns
    eager = len(eqns) == 1 and eqns[0].primitive.name == name
    entries.append(Entry(name, closed.jaxpr.debug_info.position, start_ns, end_ns - start_ns, reason, differences, eager))


def clear() -> None:
    """Forgets what was noted."""
    entries.clear()
