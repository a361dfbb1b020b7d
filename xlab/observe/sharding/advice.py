"""Checks advice before giving it: compiles the program as advised and looks for the collective."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlab.backend import JaxRuntimeError
from xlab.backend import compiling as _compiling
from xlab.observe.buffers.memory import memory as _memory
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.memoize import memoize
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.units import plural, size_text
from xlab.observe.sharding.collectives import collectives
from xlab.observe.sharding.experiment import BaseExperiment
from xlab.observe.sharding.per_device import done_apart
from xlab.observe.sharding.reasons import Try, advice
from xlab.observe.sharding.remedies import reasonable

MOST_EQUATIONS = 400
"""A program with more is not compiled again unasked."""


def followed(
    stages: ProgramStages,
    found: Sequence[Transfer],
    tries: dict[int, tuple[Try, ...]],
    link: Any,
    most: int,
) -> list[Transfer]:
    """The collectives, each with the first advice that removes it: after it the collective is gone, nothing new sends as much,
    less is sent in all, and no device computes more.

    Args:
        tries: what to try, by position in `found`.
        most: programs to compile at most; what was not tried is given as advice that was not.
    """
    out = list(found)
    if not tries or most < 1 or len(stages.equations) > MOST_EQUATIONS:
        return [_untried(stages, t, tries.get(n)) for n, t in enumerate(out)]
    try:
        trying = BaseExperiment(stages, link=link)
    except ValueError:
        return out
    if not trying.mesh.are_all_axes_auto:
        return [_untried(stages, t, tries.get(n)) for n, t in enumerate(out)]
    known: dict[Try, CompiledAdvice | None] = {}
    kept = _advised(stages)
    before = _flops(stages), _memory(stages).peak
    # The heaviest first: what is left when the programs are used up costs least.
    for n in sorted(tries, key=lambda n: -out[n].sent_in_run):
        t = out[n]
        for given in tries[n]:
            if given not in known:
                if len(known) >= most:
                    out[n] = _untried(stages, t, tries[n])
                    break
                known[given] = _compiled(trying, given, link)
            made = known[given]
            if (
                made is not None
                and (note := _gone(t, found, before, made, given.apart is None)) is not None
            ):
                out[n] = t.replace(fix=advice(stages, given) + note, tried=True)
                kept[out[n].fix] = made
                break
    return out


def compiled_as_advised(stages: ProgramStages, fix: str) -> CompiledAdvice | None:
    """What is known of the program with a change that was compiled for advice; None where it was not."""
    return _advised(stages).get(fix)


def _advised(stages: ProgramStages) -> dict[str, CompiledAdvice]:
    return memoize(stages, "advised", dict)


class CompiledAdvice(NamedTuple):
    """What is known of a program that was compiled as advised."""

    transfers: Sequence[Transfer]
    flops: float
    peak: int
    stages: ProgramStages

    @property
    def sent(self) -> int:
        """Bytes that a device sends in one run."""
        return sum(t.sent_in_run for t in self.transfers)


def _untried(stages: ProgramStages, t: Transfer, ways: tuple[Try, ...] | None) -> Transfer:
    """The collective with the first advice that is worth giving although nobody has tried it."""
    given = reasonable(stages, ways) if ways else None
    return t if given is None else t.replace(fix=advice(stages, given))


def _compiled(trying: BaseExperiment, given: Try, link: Any) -> CompiledAdvice | None:
    """The collectives, flops and peak of the program with what is tried; None where it cannot be compiled so."""
    with (
        contextlib.suppress(ValueError, NotImplementedError, TypeError, JaxRuntimeError),
        analysis_only(),
    ):
        made = (
            done_apart(trying.stages, *given.apart)
            if given.apart is not None
            else trying.placed(
                {trying.arguments.index(n): spec for n, spec in given.specs}, free=given.free
            )
        )
        found = [t for t in collectives(made, link)[0] if t.instruction]
        return CompiledAdvice(found, _flops(made), _memory(made).peak, made)
    return None


def _flops(stages: ProgramStages) -> float:
    return float(_compiling.cost_analysis(stages.executable.native).get("flops", 0.0))


def _gone(
    t: Transfer,
    found: Sequence[Transfer],
    before: tuple[float, int],
    made: CompiledAdvice,
    numbered: bool = True,
) -> str | None:
    """What the advised program still sends, as text; None if the collective stays or something worse appears.

    Args:
        numbered: equations have the same numbers in both.
    """
    after, flops, peak, _ = made
    what = _what if numbered else _what_anywhere
    there = [x for x in found if x.instruction]
    old, now = (Counter(map(what, some)) for some in (there, after))
    new = list((now - old).elements())
    added = [x for x in after if what(x) in new]
    if (
        now[what(t)] >= old[what(t)]
        or made.sent >= sum(x.sent_in_run for x in there)
        or flops > 1.02 * before[0] + 64
    ):
        return None
    if any(x.sent_in_run >= t.sent_in_run for x in added):
        return None
    parts = []
    if added:
        parts.append(
            f"{', '.join(dict.fromkeys(x.kind for x in added))} of {size_text(sum(x.sent_in_run for x in added))} sent per device "
            f"{'takes' if len(added) == 1 else 'take'} its place"
            if len(added) < 4
            else f"{plural(len(added), 'smaller collective')} take its place"
        )
    if peak > 1.02 * before[1]:
        parts.append(f"the peak goes from {size_text(before[1])} to {size_text(peak)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _what(t: Transfer) -> tuple[Any, ...]:
    return t.kind, t.equation, t.axes


def _what_anywhere(t: Transfer) -> tuple[Any, ...]:
    return t.kind, t.axes
