"""What a program computes between the start of a collective and the wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Literal, open_jaxpr, subjaxprs_of_params
from xlab.core.pending import AbstractTodo
from xlab.interpreters.communication import collective_rules
from xlab.interpreters.costs import bytes_alone, cost_of, total
from xlab.observe.programs import names as _names
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.overlap import Between, Overlap

# Operations and bytes a second of one device beside each interconnect: round numbers, as those of the interconnects are.
MACHINES = {
    "cpu": (5e10, 2e10),
    "pcie": (2e13, 1e12),
    "nvlink": (6e13, 3e12),
    "ici": (2e14, 8e11),
}


def with_overlaps(
    transfers: Iterable[Transfer], stages: ProgramStages, link: Any
) -> list[Transfer]:
    """The transfers of a program, those that are started with what is computed until they are waited for."""
    found = list(transfers)
    spans = overlaps(stages, getattr(link, "name", link))
    return [
        t.replace(overlap=spans[t.equation].replace(sent_us=t.predicted_us or 0.0))
        if t.equation in spans and t.origin == "user"
        else t
        for t in found
    ]


def overlaps(stages: ProgramStages, machine: str = "cpu") -> dict[int, Overlap]:
    """Starts by the number of their equation."""
    out: dict[int, Overlap] = {}
    platform = (
        str(stages.lowered.devices[0].platform)
        if stages.is_lowered and len(stages.lowered.devices)
        else ""
    )

    def visit(jaxpr: Jaxpr) -> None:
        for at, eqn in enumerate(jaxpr.eqns):
            if eqn.outvars and type(eqn.outvars[0].aval) is AbstractTodo:
                out[stages.numbers[id(eqn)]] = _overlap(stages, jaxpr, at, machine, platform)
            for _, inner in subjaxprs_of_params(eqn.params):
                visit(open_jaxpr(inner))

    visit(stages.closed.jaxpr)
    return out


def _overlap(stages: ProgramStages, jaxpr: Jaxpr, at: int, machine: str, platform: str) -> Overlap:
    start = jaxpr.eqns[at]
    pending = start.outvars[0]
    done = next(
        (i for i in range(at + 1, len(jaxpr.eqns)) if pending in _variables(jaxpr.eqns[i])), None
    )
    flops, bandwidth = MACHINES.get(machine, MACHINES["cpu"])
    between = tuple(
        Between(stages.numbers[id(e)], e.primitive.name, _microseconds(e, flops, bandwidth))
        for e in jaxpr.eqns[at + 1 : done]
        if done is not None and not _sends(e)
    )
    awaited = jaxpr.eqns[done] if done is not None else None
    return Overlap(
        pending.aval.str_short(short_dtypes=True),
        stages.numbers[id(start)],
        stages.numbers[id(awaited)] if awaited is not None else -1,
        _names.source_of(start),
        _names.source_of(awaited) if awaited is not None else None,
        between,
        machine=f"computing is estimated with {flops / 1e9:,.0f} GFLOP/s and {bandwidth / 1e9:,.0f} GB/s, round numbers of a device beside {machine} links",
        overlapped_us=0.0 if platform == "cpu" else None,
        platform=platform,
    )


def _variables(eqn: JaxprEqn) -> list:
    return [v for v in eqn.invars if type(v) is not Literal]


def _sends(eqn: JaxprEqn) -> bool:
    """Whether an equation sends, starts or waits itself: it computes nothing."""
    return eqn.primitive in collective_rules or any(
        type(v.aval) is AbstractTodo for v in (*eqn.invars, *eqn.outvars)
    )


def _microseconds(eqn: JaxprEqn, flops: float, bandwidth: float) -> float:
    """The longer of computing and of reading and writing."""
    cost = cost_of(eqn) or total(Jaxpr((), (), (), [eqn]))
    return 1e6 * max(cost.work / flops, bytes_alone(eqn, cost) / bandwidth)
