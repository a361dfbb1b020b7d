"""Results that nobody needs: the same twice, values of the same for all arguments, work that nothing reads."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from xlab.core.jaxpr import Literal, Var, eval_jaxpr
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.interpreters.costs import bytes_of, cost_of
from xlab.observe.overview.inspection import LEAST, EquationPlace, Inspection, Measures, kind
from xlab.observe.programs.rewriting import asked_of, retraced
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import size_text


@kind("repeated result", "constant result", "unused result")
def results(at: Inspection) -> Iterable[Finding]:
    """Results of the program and of its loops."""
    yield from _returned(at)
    yield from _stacked(at)
    yield from _dead(at)


def _returned(at: Inspection) -> Iterable[Finding]:
    jaxpr = at.stages.closed.jaxpr
    called = jaxpr.debug_info.result_name
    depends = set(jaxpr.invars) | set(jaxpr.constvars)
    for eqn in jaxpr.eqns:
        if eqn.effects or any(type(a) is Var and a in depends for a in eqn.invars):
            depends.update(eqn.outvars)
    first: dict[Var, int] = {}
    for n, v in enumerate(jaxpr.outvars):
        nbytes = bytes_of([v.aval])
        if nbytes < LEAST or type(v) is Literal:
            continue
        if v in first:
            found = at.finding(
                "repeated result",
                f"{called(n)} is {called(first[v])} once more, copied",
                at.makers.get(v),
                nbytes=nbytes,
                us=2e6 * nbytes / at.machine.bandwidth,
            )
            change = f"return it once, without {called(n)}"
        elif v not in depends:
            found = at.finding(
                "constant result",
                f"{called(n)}, {v.aval.str_short()}, is the same for all arguments",
                at.makers.get(v),
                nbytes=nbytes,
                us=1e6 * nbytes / at.machine.bandwidth,
            )
            change = f"make {called(n)} once, outside of the program"
        else:
            first[v] = n
            continue
        yield from at.offered(
            found, change, functools.partial(without_result, at, n), _less_returned
        )


def without_result(at: Inspection, n: int) -> ProgramStages:
    """The program without one of its results."""
    closed = at.stages.closed

    def body(*args: Any) -> list:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        return [o for k, o in enumerate(outs) if k != n]

    outs = [s for k, s in enumerate(asked_of(at.stages)) if k != n]
    return retraced(at.stages, body, outs=outs)


def _less_returned(before: Measures, after: Measures) -> str:
    if after.nbytes >= before.nbytes:
        return ""
    return f"compiled without: bytes read and written {size_text(round(before.nbytes))} → {size_text(round(after.nbytes))}"


def _stacked(at: Inspection) -> Iterable[Finding]:
    """What a loop keeps of every round, and nobody reads."""
    for place in at.places:
        flow = flow_of(place.eqn)
        if type(flow) is not LoopFlow or flow.length is None:
            continue
        returned = {a for a in place.jaxpr.outvars if type(a) is Var}
        for v in place.eqn.outvars[flow.num_carry :]:
            nbytes = bytes_of([v.aval])
            if nbytes < LEAST or v in returned or at.readers.get(v):
                continue
            found = at.finding(
                "unused result",
                f"the loop keeps {v.aval.str_short()} of its rounds, and nothing reads it",
                place.eqn,
                nbytes=nbytes,
                change="let the body return None there; the compiler leaves it out already, as everything that nothing reads",
            )
            yield found


def _dead(at: Inspection) -> Iterable[Finding]:
    """Work that nothing reads: it is traced, and not compiled."""
    live = _live(at)
    reported: set[int] = set()
    for place in reversed(at.places):
        eqn = place.eqn
        if id(eqn) in live or eqn.effects or id(eqn) in reported or place.loops:
            continue
        name = next((at.names[v] for v in eqn.outvars if v in at.names), "")
        cost = cost_of(eqn)
        if not name or cost is None or cost.work < LEAST:
            continue
        yield at.finding(
            "unused result",
            f"`{name}` is computed ({eqn.primitive.name}, {cost.work:.3g} operations) and nothing reads it",
            eqn,
            change=f"leave `{name}` out, or return it; the compiler leaves it out already: it costs tracing, and no time of a step",
        )
        # What only it reads is a part of it.
        todo = [eqn]
        while todo:
            e = todo.pop()
            reported.add(id(e))
            todo += [
                at.makers[a] for a in e.invars if type(a) is Var and a in at.makers and id(at.makers[a]) not in reported
            ]  # fmt: skip


def _live(at: Inspection) -> set[int]:
    """Equations that a result or an effect of their own program needs."""
    found: set[int] = set()
    programs: dict[int, list[EquationPlace]] = {}
    for place in at.places:
        programs.setdefault(id(place.jaxpr), []).append(place)
    for places in programs.values():
        needed = {a for a in places[0].jaxpr.outvars if type(a) is Var}
        for place in reversed(places):
            if place.eqn.effects or any(v in needed for v in place.eqn.outvars):
                found.add(id(place.eqn))
                needed.update(a for a in place.eqn.invars if type(a) is Var)
    return found
