"""Results that nobody needs: the same twice, values of the same for all arguments, work that nothing reads."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlab.core.jaxpr import JaxprEqn, Literal, Var
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.interpreters.costs import bytes_of, cost_of
from xlab.interpreters.dead_code import dce_rules
from xlab.observe.overview.inspection import LEAST, EquationPlace, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, operations, peak
from xlab.observe.programs.signatures import same_compiled, without_equations, without_results
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Amount, Finding


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
                f"{called(n)}, {v.aval.str_short(short_dtypes=True)}, is the same for all arguments",
                at.makers.get(v),
                nbytes=nbytes,
                us=1e6 * nbytes / at.machine.bandwidth,
            )
            change = f"make {called(n)} once, outside of the program"
        else:
            first[v] = n
            continue
        yield from at.offered(
            found, change, functools.partial(without_results, at.stages, [n]), _less_returned
        )


def _less_returned(before: Measures, after: Measures) -> Proof | None:
    if after.nbytes >= before.nbytes:
        return None
    return Proof(
        "compiled without", (Amount("bytes read and written", before.nbytes, after.nbytes),)
    )


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
                f"the loop keeps {v.aval.str_short(short_dtypes=True)} of its rounds, and nothing reads it",
                place.eqn,
                nbytes=nbytes,
            )
            yield from at.offered(
                found,
                "let the body return None there",
                functools.partial(_without_rows, at, place.eqn, v),
                _fewer_rows,
                lowers=True,
                holds=True,
            )


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
        gone = _with_it(at, eqn, live)
        reported |= gone
        yield from at.offered(
            at.finding(
                "unused result",
                f"`{name}` is computed ({eqn.primitive.name}, {cost.work:.3g} operations) and nothing reads it",
                eqn,
            ),
            f"leave `{name}` out, or return it",
            functools.partial(without_equations, at.stages, gone),
            _fewer_equations,
            lowers=True,
            holds=True,
        )


def _with_it(at: Inspection, eqn: JaxprEqn, live: set[int]) -> set[int]:
    """What goes where an equation goes that nothing reads: what reads it, and what only these read."""
    gone, todo = {id(eqn)}, [eqn]
    while todo:
        e = todo.pop()
        readers = [r for v in e.outvars for r in at.readers.get(v, ())]
        makers = [at.makers[a] for a in e.invars if type(a) is Var and a in at.makers]
        spare = [
            m for m in makers if id(m) not in live and all(id(r) in gone for v in m.outvars for r in at.readers.get(v, ()))
        ]  # fmt: skip
        for other in (*readers, *spare):
            if id(other) not in gone:
                gone.add(id(other))
                todo.append(other)
    return gone


SAME = ", and the compiled program, which leaves out what nothing reads, is the same"


def _fewer_equations(before: Measures, after: Measures) -> Proof | None:
    traced = lambda m: len(m.stages.equations)
    return _less_traced(before, after, Amount("equations traced", traced(before), traced(after), ""))  # fmt: skip


def _without_rows(at: Inspection, loop: JaxprEqn, v: Var) -> ProgramStages:
    """The program whose loop does not keep one of its values of all rounds."""
    _, narrower = dce_rules[loop.primitive]([o is not v for o in loop.outvars], loop)
    return without_equations(at.stages, (), {id(loop): narrower})


def _fewer_rows(before: Measures, after: Measures) -> Proof | None:
    return _less_traced(before, after, Amount("kept by loops", _rows(before), _rows(after)))


def _rows(m: Measures) -> int:
    """Bytes of what loops keep of their rounds, as it was traced."""
    found = 0
    for e in m.stages.equations.values():
        flow = flow_of(e)
        if type(flow) is LoopFlow:
            found += bytes_of([v.aval for v in e.outvars[flow.num_carry :]])
    return found


def _less_traced(before: Measures, after: Measures, traced: Amount) -> Proof | None:
    if traced.after >= traced.before:
        return None
    if same_compiled(before.stages, after.stages):
        return Proof("compiled without", (traced,), SAME)
    if after.peak > before.peak or after.flops > before.flops:
        return None
    return Proof("compiled without", (traced, peak(before, after), operations(before, after)))


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
