"""A program with one of its equations in a `shard_map`, whose devices have their own rows."""

from __future__ import annotations

import functools
from typing import Any

from xlab.core.jaxpr import JaxprEqn, results_of
from xlab.observe.programs.rewriting import changed
from xlab.observe.programs.stages import ProgramStages
from xlab.parallel.shard_map import shard_map
from xlab.sharding import PartitionSpec


def done_apart(stages: ProgramStages, number: int, spec: tuple) -> ProgramStages:
    """The program with one equation in a `shard_map` whose devices have the rows that a spec gives them."""
    lies = PartitionSpec(*(axes or None for axes in spec))

    def instead(eqn: JaxprEqn, given: list) -> list:
        body = functools.partial(_results, eqn)
        return list(shard_map(body, mesh=stages.mesh, in_specs=lies, out_specs=lies)(*given))

    return changed(stages, instead, [stages.equations[number]])


def _results(eqn: JaxprEqn, *given: Any) -> tuple:
    return tuple(results_of(eqn, list(given)))
