"""Handlers of a live report's placement requests: programs are compiled as traced, never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlab import observe
from xlab.notebook.views.whatif import SECONDS, read_placement
from xlab.observe.records.whatif import Ranking, WhatIf


def handlers(subjects: Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """Answers to `what_if` and `search`, by number of the program in the report.

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
        return made[program]

    def numbered(trying: Any, numbers: Any) -> None:
        wrong = [n for n in numbers if n >= len(trying.arguments)]
        if wrong:
            raise ValueError(
                f"{trying.stages.name} has {len(trying.arguments)} arguments on devices; asked for number {wrong[0]}"
            )

    def what_if(program: int, placement: str) -> WhatIf:
        specs, axes, _ = read_placement(placement)
        trying = experiment(program)
        numbered(trying, specs)
        return trying.weigh(specs, axes or None)

    def search(program: int, placement: str) -> Ranking:
        _, axes, vary = read_placement(placement)
        trying = experiment(program)
        numbered(trying, vary)
        return trying.search(vary, axes or None, seconds=SECONDS)

    return {"what_if": what_if, "search": search}
