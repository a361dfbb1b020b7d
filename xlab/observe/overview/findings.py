"""`findings`: what a program does that costs something and need not be so; and the patterns that are known by a name.

A change is offered only where the program was compiled with it. What belongs to a known way of dividing work (the gradient
sum of data parallelism, the sum of a row-parallel product) is a `Pattern` and no finding.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xlab.observe.overview import kinds as _folder
from xlab.observe.overview.inspection import Inspection, kinds, looks
from xlab.observe.overview.patterns import known_patterns, patterns_of
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Transfer
from xlab.observe.records.finding import (
    Finding,
    Pattern,
    finding_line,
    pattern_text,
    surprise_text,
)
from xlab.observe.records.text import OneProgram, Options, add_form, signed, text
from xlab.observe.sharding.transfers import TRIES, transfers_of

for _module in pkgutil.iter_modules(_folder.__path__):
    importlib.import_module(f"{_folder.__name__}.{_module.name}")

CHANGES = 12
"""Programs compiled to see whether changes hold."""

NOTHING_LESS = "compiled with what was tried: nothing becomes less"
"""What stands in the place of the proof of a change that does not help."""

IN_REPORTS = 400
"""Equations up to which a report compiles a change."""


class Findings(OneProgram):
    """Findings of a program, the most expensive first.

    Attributes:
        patterns: the known patterns that the program's other collectives belong to.
        collectives, surprises: how many collectives it has, and how many of them belong to no pattern and were written by nobody.
        known: the pattern of a collective, by its place among those of the program.
    """

    patterns: tuple[Pattern, ...] = ()
    collectives = 0
    surprises = 0
    known: Mapping[int, str] = {}

    def __repr__(self) -> str:
        """The findings, what is known by a name, and how many collectives surprise.

        >>> Findings([Finding("unused argument", "`s` is given and not used")]), Findings()
        (unused argument: `s` is given and not used, no findings)
        """
        return signed(self._with([finding_line(f) for f in self]), self)

    def _with(self, lines: Sequence[str]) -> str:
        """Lines of the findings, and of what is no finding."""
        known = [f"known: {pattern_text(p)}" for p in self.patterns]
        known += [surprise_text(self.collectives, self.surprises)] * bool(self.collectives)
        return "\n".join([*(lines or ["no findings"]), *known])


def _text(found: Findings, o: Options) -> str:
    return found._with([text(f, times=o.times, limit=o.limit) for f in found])


add_form(Findings, _text)


def findings(
    what: Any, *args: Any, tries: int = CHANGES, measure: bool = False, **kwargs: Any
) -> Findings:
    """What a program does that costs something and need not be so.

    Args:
        what: a function with its arguments, a stage of `jit`, or a jaxpr.
        tries: how many programs may be compiled to see which changes do what they say; what was not tried is told without a change.
        measure: run the program as it is and with each change that was compiled, and tell both times. On the arguments where they fit the
            changed program, else on ones.

    Returns:
        A tuple of findings, the most expensive first; its attribute `patterns` has what is known by a name.

    Example:
        >>> import numpy as np
        >>> found = findings(lambda x, scale: x * 2, np.ones(4, np.float32), np.ones(1000, np.float32))
        >>> [(f.kind, f.text, f.nbytes) for f in found]
        [('unused argument', '`scale` is given and not used', 4000)]
    """
    stages = program_stages(what, args, kwargs)
    stages.executable  # noqa: B018  (collectives are those of what is compiled)
    found = transfers_of(stages, tries=min(tries, TRIES))
    return inspected(stages, found, tries=tries, measure=measure)


def inspected(
    stages: ProgramStages,
    transfers: Sequence[Transfer],
    program: int = 0,
    tries: int = 0,
    measure: bool = False,
) -> Findings:
    """The findings of a program whose collectives are known."""
    at, known = inspection(stages, transfers, program, tries, measure)
    mine, surprises = at.transfers, at.surprises
    found: dict[tuple, Finding] = {}
    for look in looks():
        for f in look(at):
            found.setdefault((f.kind, f.text, f.equation), f)
    ordered = sorted(_joined(found.values()), key=lambda f: (-f.us, -f.nbytes, f.kind))
    made = Findings(ordered, stages.made_by)
    made.patterns = patterns_of(mine, known, program)
    made.known = known
    made.collectives, made.surprises = len(mine), len(surprises)
    return made


def _joined(found: Iterable[Finding]) -> list[Finding]:
    """What is the case at many equations of a line, as in a loop that Python unrolled, is one finding: it stands where a change is known, else where it is first."""
    groups: dict[tuple, list[Finding]] = {}
    for f in found:
        place = (f.source.file, f.source.line) if f.source else None
        groups.setdefault((f.kind, f.text, f.call, place), []).append(f)
    return [
        next((f for f in of if f.change), of[0]).replace(
            nbytes=sum(f.nbytes for f in of),
            us=sum(f.us for f in of),
            collectives=sum(f.collectives for f in of),
            times=len(of),
        )
        for of in groups.values()
    ]


def inspection(
    stages: ProgramStages,
    transfers: Sequence[Transfer],
    program: int = 0,
    tries: int = 0,
    measure: bool = False,
) -> tuple[Inspection, Mapping[int, str]]:
    """A program as the kinds look at it, and the patterns of its collectives by their place."""
    mine = [t for t in transfers if t.program == program]
    known = known_patterns(mine, stages)
    surprises = [t for n, t in enumerate(mine) if n not in known and t.origin == "partitioner"]
    return Inspection(stages, mine, surprises, program, tries, measure), known


def findings_of(
    stages: ProgramStages, transfers: Sequence[Transfer], program: int = 0, prove: bool = False
) -> Findings:
    """The findings and patterns of a program in a report; with `prove` as many changes are compiled as `findings` compiles, and run."""
    tries = CHANGES if prove else 2 if len(stages.equations) <= IN_REPORTS else 0
    return inspected(stages, transfers, program, tries, measure=prove)


def proved(stages: ProgramStages, asked: Finding) -> Finding:
    """A finding of a program, with its change compiled and run; where no change makes anything less it says so, and has none.

    Args:
        stages: the program, of any size.
        asked: what `findings` or a report found in it.

    Example:
        >>> import numpy as np, xlab
        >>> stages = program_stages(xlab.jit(lambda x: (y := x * 2, y)), (np.ones((256, 256), np.float32),))
        >>> (found,) = [f for f in findings(stages, tries=0) if f.kind == "repeated result"]
        >>> found.change, proved(stages, found).change
        ('', 'return it once, without result[1]')
    """
    at, _ = inspection(
        stages, transfers_of(stages, program=asked.program), asked.program, CHANGES, measure=True
    )
    at.only = asked.kind, asked.equation
    same = [f for f in kinds[asked.kind](at) if f.equation == asked.equation]
    alike = [f for f in same if f.kind == asked.kind]
    if not any(f.change for f in alike):  # what it was told as, while no change was known
        alike = [f for f in same if f.change and f.collectives and asked.collectives] or alike
    found = next((f for f in alike if f.text == asked.text), alike[0] if len(alike) == 1 else None)
    if found is not None and not found.change:
        found = None
    if found is None:
        return asked.replace(change="", proof=NOTHING_LESS)
    whole = {name: getattr(asked, name) for name in ("nbytes", "us", "collectives", "times")}
    return found.replace(**whole)  # of all its equations


def assert_no_findings(
    what: Any, *args: Any, allow: Iterable[str] = (), tries: int = CHANGES, **kwargs: Any
) -> None:
    """Raises where a program has a finding: a test that it stays without.

    Args:
        what, args: as for `findings`.
        allow: kinds that may occur.

    Raises:
        AssertionError: names each finding with what it costs, its line, and a change.
        ValueError: `allow` names a kind that there is not.

    Example:
        >>> import numpy as np
        >>> assert_no_findings(lambda x: x * 2, np.ones(4, np.float32))
    """
    allowed = {allow} if isinstance(allow, str) else set(allow)
    if unknown := allowed - set(kinds):
        raise ValueError(
            f"allow names unknown kinds {sorted(unknown)}; there are {', '.join(sorted(kinds))}"
        )
    found = [f for f in findings(what, *args, tries=tries, **kwargs) if f.kind not in allowed]
    if found:
        raise AssertionError(
            f"{len(found)} finding{'s' * (len(found) > 1)}, allowed were {', '.join(sorted(allowed)) or 'none'}:\n"
            + "\n".join(f"  {finding_line(f)}" for f in found)
        )
