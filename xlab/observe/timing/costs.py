"""Shares of the equations of a fused instruction in its time, estimated from what each of them computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlab.core.jaxpr import JaxprEqn
from xlab.interpreters.costs import bytes_alone, cost_of

BYTES = 1 / 16
"""Additions in the time of a byte that is only moved, about."""


def fused_shares(equations: Mapping[int, JaxprEqn], numbers: Sequence[int]) -> dict[int, float]:
    """The part of an instruction's work that each of some equations has; the parts add up to one.

    >>> import numpy as np, xlab
    >>> eqns = dict(enumerate(xlab.make_jaxpr(lambda a: -(a @ a))(np.ones((8, 8), np.float32)).eqns))
    >>> {i: round(part, 2) for i, part in fused_shares(eqns, (0, 1)).items()}
    {0: 0.94, 1: 0.06}
    """
    if len(numbers) < 2:
        return dict.fromkeys(numbers, 1.0)
    work = {n: _work(equations[n]) for n in numbers}
    whole = sum(work.values())
    return (
        {n: part / whole for n, part in work.items()}
        if whole
        else dict.fromkeys(numbers, 1.0 / len(numbers))
    )


def _work(eqn: JaxprEqn) -> float:
    """Additions in the time of one equation, about; of what only moves, some for its bytes."""
    cost = cost_of(eqn)
    if cost is None:
        return 0.0
    return cost.work or BYTES * bytes_alone(eqn, cost)
