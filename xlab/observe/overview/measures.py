"""What is read from a compiled program to hold it against the same with a change, and the proof of the change: amounts before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlab.backend import compiling as _compiling
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.programs.memoize import memoize
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Memory, Transfer
from xlab.observe.records.finding import Amount, amount_text
from xlab.observe.sharding.collectives import collectives


@dataclass(frozen=True)
class Measures:
    """What is read from a compiled program, to hold it against another."""

    stages: ProgramStages
    memory: Memory
    peak: int
    flops: float
    nbytes: float
    instructions: int
    transfers: tuple[Transfer, ...]

    @property
    def sent(self) -> int:
        """Bytes that a device sends in one run."""
        return sum(t.sent_in_run for t in self.transfers)


def measured(stages: ProgramStages) -> Measures:
    """The measures of a program, which is compiled for it."""

    def make() -> tuple:
        counts = _compiling.cost_analysis(stages.executable.native)
        found = collectives(stages)[0] if len(stages.lowered.devices) > 1 else []
        held = _memory(stages)
        return (
            held,
            held.peak,
            float(counts.get("flops", 0.0)),
            float(counts.get("bytes accessed", 0.0)),
            sum(len(c.instructions) for c in stages.hlo.computations.values()),
            tuple(t for t in found if t.instruction),
        )

    stages.executable  # noqa: B018  (what is compiled is what is kept for)
    # What is kept as long as the executable lives cannot hold the stages, which hold the executable.
    return Measures(stages, *memoize(stages, "measures", make))


@dataclass(frozen=True)
class Proof:
    """What a change does, as the program was compiled with it.

    Attributes:
        how: what was compiled.
        outcome: amounts of both programs.
        more: what is to be said behind them.
        instead: words in the place of the amounts.
    """

    how: str
    outcome: tuple[Amount, ...]
    more: str = ""
    instead: str = ""

    @property
    def text(self) -> str:
        """A line of it.

        >>> Proof("compiled like that", (Amount("peak per device", 2048, 1024),), ", and no more").text
        'compiled like that: peak per device 2.05 KB → 1.02 KB, and no more'
        """
        said = self.instead or ", ".join(map(amount_text, self.outcome))
        return f"{self.how}: {said}{self.more}"


Prover = Callable[[Measures, Measures], Proof | None]
"""Of a program before and after a change, what has become less; None where nothing has."""


def peak(before: Measures, after: Measures) -> Amount:
    """The most that a device holds at once."""
    return Amount("peak per device", before.peak, after.peak)


def sent(before: Measures, after: Measures) -> Amount:
    """What a device sends in one run."""
    return Amount("sent per device", before.sent, after.sent)


def operations(before: Measures, after: Measures) -> Amount:
    """What a device computes in one run."""
    return Amount("operations per device", before.flops, after.flops, "operations")


def grown_peak(before: Measures, after: Measures, by: float = 1.0) -> tuple[Amount, ...]:
    """The peak, where it is larger than before."""
    return (peak(before, after),) if after.peak > by * before.peak else ()


def one_program(how: str, times: int, before: Measures, after: Measures) -> Proof:
    """That one program does what several did, and what it costs beside the present one."""
    more = f", {after.flops:.3g} operations a call where this one has {before.flops:.3g}" if after.flops > before.flops else ""  # fmt: skip
    return kept_one(how, times, more)


def kept_one(how: str, times: int, more: str = "") -> Proof:
    """That there is one program in the place of several."""
    instead = f"one program in the place of {times}"
    return Proof(f"compiled {how}", (Amount("programs", times, 1, ""),), more, instead)
