"""Weights that a loop brings together in every round, though they are the same in each."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from xlab.core.jaxpr import JaxprEqn, Var
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.lax.constraint import with_sharding_constraint
from xlab.observe.overview.inspection import EquationPlace, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, grown_peak, sent
from xlab.observe.programs.rewriting import changed
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Finding
from xlab.sharding import NamedSharding, PartitionSpec


@kind("gather in a loop")
def gathers_in_loops(at: Inspection) -> Iterable[Finding]:
    """Collectives of a loop that move what is the same in each round."""
    for t in at.transfers:
        if t.kind != "all_gather" or t.origin != "partitioner" or t.times == 1 or not t.instruction:
            continue
        place = next((p for p in at.places if at.stages.numbers[id(p.eqn)] == t.equation), None)
        if place is None or not place.loops:
            continue
        for v in place.eqn.invars:
            loop, number = constant_of(at, v, place)
            if loop is None or not _gathered(at, t, v):
                continue
            outer = loop.invars[number]
            times = "each round" if t.times is None else f"all {t.times} rounds"
            found = at.finding(
                "gather in a loop",
                f"{at.called(outer)} is the same in {times} of the loop, and every round brings it together from {', '.join(t.axes) or 'all devices'}",
                place.eqn,
                nbytes=t.sent_in_run,
                us=(t.predicted_us or 0.0) * (t.times or 1),
                tab="collectives",
                source=t.source,
            )
            name = at.called(outer).strip("`")
            yield from at.offered(
                found,
                f"bring it together once, before the loop: {name} = xlab.lax.with_sharding_constraint({name}, P())",
                functools.partial(_whole_before, at, loop, number),
                _less_sent,
            )
            break


def constant_of(at: Inspection, v: Any, place: EquationPlace) -> tuple[JaxprEqn | None, int]:
    """The outermost loop that takes a value as a constant, and which of its operands that is."""
    found: tuple[JaxprEqn | None, int] = (None, -1)
    loops = {id(e): e for e in place.loops}
    for _ in range(32):
        made = at.makers.get(v)
        if made is not None and made.primitive.name in ("transpose", "convert_element_type", "reshape"):  # fmt: skip
            v = made.invars[0]
            continue
        if type(v) is not Var or made is not None or v not in at.outside:
            break
        for e in loops.values():
            flow = flow_of(e)
            assert type(flow) is LoopFlow
            body = list(flow.body.jaxpr.invars if hasattr(flow.body, "jaxpr") else flow.body.invars)
            if v in body[: flow.num_consts]:
                found = e, flow.cond_consts + body.index(v)
            elif v in body[flow.num_consts : flow.num_consts + flow.num_carry]:
                return found
        v = at.outside[v]
    return found


def _gathered(at: Inspection, t: Transfer, v: Any) -> bool:
    """Whether a collective gives the whole of a value, or the part that its other axes leave."""
    number = at.argument_of(v)
    spec = getattr(at.shardings[number], "spec", None) if number >= 0 else None
    axes = {a for d in range(len(spec)) for a in (spec.axes_of(d) or ())} if spec is not None else set()  # fmt: skip
    others = at.ways([[a for a in axes if a not in t.axes]])
    return bool(t.bytes_out) and getattr(v.aval, "nbytes", 0) == others * t.bytes_out


def _whole_before(at: Inspection, loop: JaxprEqn, number: int) -> Any:
    sharding = NamedSharding(at.stages.mesh, PartitionSpec())

    def instead(eqn: JaxprEqn, given: list) -> Any:
        given = list(given)
        given[number] = with_sharding_constraint(given[number], sharding)
        return eqn.primitive.bind(*given, **eqn.params)

    return changed(at.stages, instead, [loop])


def _less_sent(before: Measures, after: Measures) -> Proof | None:
    if after.sent >= before.sent:
        return None
    return Proof("compiled like that", (sent(before, after), *grown_peak(before, after)))
