"""`transfers_of`: the collectives of a program: origin, bytes, predicted cost, and advice that was tried."""

from __future__ import annotations

from typing import Any

from xlab.interpreters.communication_costs import Interconnect
from xlab.observe.figures.placements import plot_transfers
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.text import OneProgram
from xlab.observe.sharding.advice import followed
from xlab.observe.sharding.collectives import collectives
from xlab.observe.sharding.overlap import with_overlaps

TRIES = 4
"""Programs compiled to see whether advice holds."""


class Transfers(OneProgram):
    """The collectives of a program, which can be drawn as one."""

    def plot(self, ax: Any = None) -> Any:
        """Draws the bytes each device sends in each of them, loop trips multiplied; returns the Axes."""
        return plot_transfers(self, ax)


def transfers_of(
    stages: ProgramStages,
    link: str | Interconnect = "cpu",
    algorithm: str = "ring",
    compile: bool = True,
    program: int = 0,
    tries: int = TRIES,
) -> Transfers:
    """The collectives of a program in the order they run, without names for what they belong to; arguments as of `observe.transfers`."""
    found, tries_of = collectives(stages, link, algorithm, compile, program)
    found = with_overlaps(found, stages, link)
    found = followed(stages, found, tries_of, link, tries) if tries_of else found
    return Transfers(found, stages.made_by)


def totals(found: tuple[Transfer, ...]) -> dict[str, int]:
    """Bytes each device sends per mesh axis (joined by `+`), in a bandwidth-optimal algorithm and as the mean over devices; loop trips
    multiplied, unknown trips count once."""
    out: dict[str, int] = {}
    for t in found:
        key = "+".join(t.axes) or "other"
        out[key] = out.get(key, 0) + t.sent_in_run
    return out
