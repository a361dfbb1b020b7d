"""Values that the forward pass keeps for the backward pass, though they are cheap to compute again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlab.core.jaxpr import JaxprEqn, Var, results_of
from xlab.interpreters.costs import bytes_of, cost_of
from xlab.lax.creation import optimization_barrier
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, peak
from xlab.observe.programs import names as _names
from xlab.observe.programs.rewriting import read, retraced, run_equations
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import plural

LONGEST = 12
"""Equations that may be computed again for one value."""

PART = 0.95
"""The part of the peak that may be left for a word on it."""


@kind("cheap residual")
def cheap_residuals(at: Inspection) -> Iterable[Finding]:
    """Elementwise values of the forward pass that the backward pass reads, each with what it is computed from."""
    eqns = at.stages.closed.jaxpr.eqns
    if at.tries < 1 or not any(map(_names.is_transposed, eqns)):
        return  # whether the compiler keeps them is known from what is compiled
    backward = next(k for k, e in enumerate(eqns) if _names.is_transposed(e))
    # The function that keeps most is the one to be checkpointed; what it takes and what it returns stays.
    every = recomputed(at, eqns, backward)
    if not every:
        return
    function = _function(at.makers[max(every, key=lambda v: bytes_of([v.aval]))])
    ways = recomputed(at, eqns, backward, function)
    held = sum(bytes_of([v.aval]) for v in ways)
    if held < LEAST or held < 0.05 * at.before.peak:
        return
    largest = max(ways, key=lambda v: bytes_of([v.aval]))
    work = sum(cost.work for chain in ways.values() for e in chain if (cost := cost_of(e)))
    whole = sum(cost.work for e in eqns if (cost := cost_of(e))) or 1
    where = at.makers[largest]
    source = _names.source_of(where)
    called = source.function if source is not None and source.function.isidentifier() else "f"
    found = at.finding(
        "cheap residual",
        f"{plural(len(ways), 'value')} of the forward pass {'is' if len(ways) == 1 else 'are'} kept for the backward pass, and {100 * work / whole:.1f} % more "
        f"operations compute {'it' if len(ways) == 1 else 'them'} again; the largest is {at.called(largest)} {largest.aval.str_short(short_dtypes=True)}",
        where,
        nbytes=held,
        tab="memory",
    )
    yield from at.offered(
        found,
        f"xlab.checkpoint({called}, policy=xlab.checkpoint_policies.dots_saveable)",
        lambda: _again(at, ways, backward),
        _less_memory,
    )


def _less_memory(before: Measures, after: Measures) -> Proof | None:
    if after.peak > PART * before.peak:
        return None
    return Proof("compiled with them computed again", (peak(before, after),))


def _function(eqn: JaxprEqn) -> str:
    source = _names.source_of(eqn)
    return source.function if source is not None else ""


def recomputed(
    at: Inspection, eqns: Sequence[JaxprEqn], backward: int, function: str | None = None
) -> dict[Var, list[JaxprEqn]]:
    """The large values that the backward pass reads and cheap operations make of others it has anyway: those of products, and arguments.

    Args:
        function: only values within this function, of what comes into it; what others read of it is no such value.
    """
    within = eqns[:backward]
    leaves: set[Var] = set()
    if function is not None:
        leaves = {a for e in within if _function(e) != function for a in e.invars if type(a) is Var}
        within = [e for e in within if _function(e) == function]
    forward = {v: e for e in within for v in e.outvars}
    read = {a for e in eqns[backward:] for a in e.invars if type(a) is Var and a in forward}
    results = {a for a in at.stages.closed.jaxpr.outvars if type(a) is Var}
    found: dict[Var, list[JaxprEqn]] = {}
    roots_added: dict[Var, set[Var]] = {}
    for v in sorted(read, key=lambda v: -bytes_of([v.aval])):
        if bytes_of([v.aval]) < LEAST // 4 or v in results or v in leaves:
            continue
        chain = _chain(forward, v)
        if chain is None:
            continue
        inside = {o for e in chain for o in e.outvars}
        roots = {a for e in chain for a in e.invars if type(a) is Var and a not in inside}
        found[v] = chain
        roots_added[v] = roots
    # A value whose roots are larger than what they save, and are held for nothing else, saves nothing.
    given = set(at.stages.closed.jaxpr.invars)
    expensive = {a for a in read if a not in found}
    new = {a for rs in roots_added.values() for a in rs if a not in given and a not in expensive}
    saved = sum(bytes_of([v.aval]) for v in found)
    if saved <= 1.2 * sum(bytes_of([a.aval]) for a in new):
        return {}
    return found


def _chain(forward: dict[Var, JaxprEqn], v: Var) -> list[JaxprEqn] | None:
    """The cheap equations from what is expensive, or given, to a value, in their order; None where it is expensive itself."""
    order: list[JaxprEqn] = []

    def visit(a: Any) -> bool:
        made = forward.get(a) if type(a) is Var else None
        if made is None or not _cheap(made):
            return False
        if any(made is e for e in order):
            return True
        if len(order) >= LONGEST:
            return False
        for b in made.invars:
            visit(b)
        order.append(made)
        return True

    return order if visit(v) and len(order) <= LONGEST else None


def _cheap(eqn: JaxprEqn) -> bool:
    cost = cost_of(eqn)
    return (
        cost is not None
        and cost.unit in ("elementwise", "free")
        and not eqn.effects
        and not eqn.primitive.name.startswith(("random_", "rng_", "threefry"))
    )


def _again(at: Inspection, ways: dict[Var, list[JaxprEqn]], backward: int) -> Any:
    """The program in which the backward pass computes the values once more, from what it has."""
    closed = at.stages.closed
    jaxpr = closed.jaxpr

    def body(*args: Any) -> list:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        values.update(zip(jaxpr.invars, args))

        run_equations(jaxpr.eqns[:backward], values)
        again: dict[Var, Any] = {}

        def instead(eqn: JaxprEqn, given: list) -> list:
            for v in eqn.invars:
                if type(v) is Var and v in ways and v not in again:
                    # Behind a barrier with what is newest, so that it is computed when it is needed.
                    chain = ways[v]
                    inside = {o for e in chain for o in e.outvars}
                    roots = list(dict.fromkeys(
                        a for e in chain for a in e.invars if type(a) is Var and a not in inside
                    ))  # fmt: skip
                    newest = [
                        values[a]
                        for a in eqn.invars
                        if type(a) is Var and a not in ways and _names_backward(at, a)
                    ]
                    passed = optimization_barrier([*(values[a] for a in roots), *newest])
                    inner = dict(zip(roots, passed))
                    run_equations(chain, inner)
                    again[v] = inner[v]
            return results_of(
                eqn, [again.get(a, x) if type(a) is Var else x for a, x in zip(eqn.invars, given)]
            )

        run_equations(jaxpr.eqns[backward:], values, instead)
        return read(jaxpr.outvars, values)

    return retraced(at.stages, body)


def _names_backward(at: Inspection, v: Var) -> bool:
    made = at.makers.get(v)
    return made is not None and _names.is_transposed(made)
