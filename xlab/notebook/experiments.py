"""Handlers of a live report's requests for other placements and for proofs of changes: programs are compiled as traced, and run only to time what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab import observe
from xlab.notebook.views.whatif import SECONDS, TURN, read_options, read_placement
from xlab.observe.overview.findings import proved
from xlab.observe.placing.patterns import call_of
from xlab.observe.placing.search import Search
from xlab.observe.programs.analysis_only import analysis_only
from xlab.observe.programs.stages import program_stages
from xlab.observe.records.finding import Finding
from xlab.observe.records.whatif import Ranking, WhatIf, count_of


def handlers(
    subjects: Sequence[Any], findings: Callable[[], Sequence[Finding]] = tuple, title: str = ""
) -> dict[str, Callable[..., Any]]:
    """Answers to `what_if` and `search`, by number of the program in the report, and to `prove`, by number of the finding.

    Args:
        subjects: the programs.
        findings: gives those of the report, once there is one.
        title: the call or the cell that was looked at; its names are those of code to paste.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.sharding.experiment import mesh_of
        >>> from xlab.sharding import NamedSharding, PartitionSpec as P
        >>> x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh_of({"i": 1}), P("i")))
        >>> ask = handlers([xlab.jit(lambda x: x + 1).lower(x)])
        >>> ask["what_if"](program=0, placement='{"mesh": [["i", 64]], "specs": {"0": [[], []]}}').after.mesh.text
        'i=64'
    """
    made: dict[int, observe.Experiment] = {}

    def experiment(program: int) -> Any:
        if program >= len(subjects):
            raise ValueError(
                f"this report has {len(subjects)} programs; asked for number {program}"
            )
        if program not in made:
            made[program] = observe.Experiment(subjects[program])
            trying = made[program]
            trying.call = call_of(title, trying.stages.name, trying.every, len(subjects) == 1)
        return made[program]

    def numbered(trying: Any, numbers: Any) -> None:
        wrong = [n for n in numbers if n >= len(trying.arguments)]
        if wrong:
            raise ValueError(
                f"{trying.stages.name} has {len(trying.arguments)} arguments on devices; asked for number {wrong[0]}"
            )

    searches: dict[int, Search] = {}

    def what_if(program: int, placement: str) -> WhatIf:
        specs, axes, _ = read_placement(placement)
        machine, *_ = read_options(placement)
        trying = experiment(program)
        numbered(trying, specs)
        return trying.prove(specs, axes or None, machine, measure=True)

    def search(program: int, placement: str) -> Ranking:
        _, axes, vary = read_placement(placement)
        machine, shapes, on = read_options(placement)
        trying = experiment(program)
        numbered(trying, vary)
        if not on or program not in searches:
            searches[program] = Search(
                trying, vary, axes or None, machine=machine, shapes=shapes, seconds=SECONDS
            )
        searches[program].advance(TURN)
        return brief(searches[program].ranking())

    def prove(finding: int) -> Finding:
        known = findings()
        if finding >= len(known) or known[finding].program >= len(subjects):
            raise ValueError(f"this report has {len(known)} findings; asked for number {finding}")
        with analysis_only():
            return proved(program_stages(subjects[known[finding].program]), known[finding])

    return {"what_if": what_if, "search": search, "prove": prove}


def brief(found: Ranking) -> Ranking:
    """A ranking without what a page can do without: every argument's type, and the collectives of all but the best."""
    return found.replace(
        found=tuple(p.replace(arguments=(), transfers=(), count=count_of(p)) for p in found.found)
    )
