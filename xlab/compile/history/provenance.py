"""Notes of a program on its origin, from its tracing to the jits that compiled it."""

from __future__ import annotations

import weakref
from typing import Any

from xlab.compile.history.parts import TracingKey
from xlab.core.jaxpr import ClosedJaxpr


class Provenance:
    """Notes on one traced program.

    Attributes:
        reason, differences: why it was traced: a sentence, and `(cause, what, was, now)`.
        position: `file:line` of its function, only the file for a whole cell, empty where it is nobody's.
        made_by: names of the transformations that were given its function, outermost first.
        traced: what it was traced for, where a call of the user traced it.
        owners: the programs of each jit that compiled it, with the options of that jit and whether only a view asked.
        ended: the programs of jits whose compile an error ended.
    """

    __slots__ = ("differences", "ended", "made_by", "owners", "position", "reason", "traced")

    def __init__(self) -> None:
        self.reason = ""
        self.differences: tuple = ()
        self.position = ""
        self.made_by: tuple[str, ...] = ()
        self.traced: TracingKey | None = None
        self.owners: list[tuple[weakref.ref, dict[str, Any], bool]] = []
        self.ended: set[weakref.ref] = set()


def provenance(closed: ClosedJaxpr) -> Provenance:
    """The notes on a program."""
    return closed.memo(Provenance, Provenance)
