"""Code that a Python loop writes out, though each round is the same: `scan` compiles it once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlab.core.jaxpr import JaxprEqn, Literal, Var
from xlab.lax.control.scan import scan
from xlab.lax.shape import concatenate, expand_dims
from xlab.lax.slicing import index_in_dim
from xlab.observe.overview.inspection import (
    MOST_EQUATIONS,
    Inspection,
    kind,
)
from xlab.observe.overview.measures import Measures, Proof
from xlab.observe.programs.rewriting import read, retraced, run_equations
from xlab.observe.records.finding import Amount, Finding

ROUNDS, EQUATIONS = 4, 40
"""Rounds, and equations of all of them, from which it is worth a word."""


@dataclass(frozen=True)
class UnrolledLoop:
    """Equations `start` to `start + period * rounds` are the same `period` equations again and again."""

    start: int
    period: int
    rounds: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.rounds


@kind("unrolled loop")
def unrolled_loops(at: Inspection) -> Iterable[Finding]:
    """The longest repetition of the program, if its rounds hang together as those of a loop do."""
    eqns = at.stages.closed.jaxpr.eqns
    found = repetition(eqns)
    if found is None:
        return
    loop = _loop(at, found)
    if loop is None:
        return
    first = eqns[found.start]
    saved = found.period * (found.rounds - 1)
    finding = at.finding(
        "unrolled loop",
        f"{found.rounds} rounds of the same {found.period} equations are written out, {found.period * found.rounds} of the program's {len(eqns)}",
        first,
        us=0.0,
        nbytes=0,
    )
    yield from at.offered(
        finding,
        f"lax.scan over the {found.rounds} rounds"
        + (", with what differs between them stacked along a new first dimension" if loop.rows else ""),
        lambda: _scanned(at, found, loop),
        lambda b, a: _smaller(b, a, saved),
    )  # fmt: skip


def _smaller(before: Measures, after: Measures, saved: int) -> Proof | None:
    if after.instructions >= before.instructions:
        return None
    less = Amount("instructions", before.instructions, after.instructions, "")
    return Proof("compiled like that", (less,), f", and {saved:,} equations less to trace")


def repetition(eqns: Sequence[JaxprEqn]) -> UnrolledLoop | None:
    """The repetition that covers most of a program's equations."""
    n = len(eqns)
    if not EQUATIONS <= n <= MOST_EQUATIONS:
        return None
    numbers: dict[Any, int] = {}
    marks = np.array([numbers.setdefault(_mark(e), len(numbers)) for e in eqns])
    best: UnrolledLoop | None = None
    for period in range(2, n // ROUNDS + 1):
        same = np.concatenate(([False], marks[:-period] == marks[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2], edges[1::2]):
            rounds = int(end - begin) // period + 1
            covered = rounds * period
            if rounds < ROUNDS or covered < EQUATIONS:
                continue
            if best is None or covered > 1.1 * best.period * best.rounds:
                best = UnrolledLoop(int(begin), period, rounds)
    return best


def _mark(eqn: JaxprEqn) -> Any:
    """What equal equations of two rounds have in common."""
    types = tuple((v.aval, type(v) is Literal and str(v.val)) for v in eqn.invars)
    outs = tuple(v.aval for v in eqn.outvars)
    return eqn.primitive.name, types, outs, _text(eqn.params)


def _text(params: dict) -> str:
    parts = []
    for k, v in params.items():
        if hasattr(v, "jaxpr") or hasattr(v, "eqns"):
            inner = v.jaxpr if hasattr(v, "jaxpr") else v
            v = [_mark(e) for e in inner.eqns]
        parts.append(f"{k}={v}")
    return ";".join(parts)


@dataclass(frozen=True)
class _Loop:
    """How values go into a round: from the round before (by their place in it), as rows, or the same for all."""

    start: int
    carried: dict[Var, Var]
    rows: dict[Var, list[Any]]
    kept: list[Var]


def _loop(at: Inspection, found: UnrolledLoop) -> _Loop | None:
    """The rounds as a loop, beginning where this has least to carry; None where a round reads more than the one before."""
    eqns = at.stages.closed.jaxpr.eqns
    place = {v: (k, n) for k, e in enumerate(eqns) for n, v in enumerate(e.outvars)}
    start, p, rounds = found.start, found.period, found.rounds
    carried: dict[Var, Var] = {}
    rows: dict[Var, list[Any]] = {}
    second = eqns[start + p : start + 2 * p]
    for k, eqn in enumerate(second):
        for n, v in enumerate(eqn.invars):
            if type(v) is Literal:
                continue
            atoms: list[Any] = [eqns[start + r * p + k].invars[n] for r in range(rounds)]
            if any(type(a) is Literal for a in atoms):
                return None
            where = [place.get(a, (-1, 0)) for a in atoms]
            rounds_of = [(w - start) // p if start <= w < found.stop else None for w, _ in where]
            if rounds_of[1] == 1:
                if any(r != i for i, r in enumerate(rounds_of)):
                    return None
                continue
            if rounds_of[1] == 0:
                offsets = {w - start - (i - 1) * p for i, (w, _) in enumerate(where) if i}
                if len(offsets) != 1 or rounds_of[0] is not None:
                    return None
                if carried.get(atoms[0], atoms[1]) is not atoms[1]:
                    return None
                carried[atoms[0]] = atoms[1]
            elif any(r is not None for r in rounds_of):
                return None
            elif any(a is not atoms[0] for a in atoms):
                known = rows.setdefault(atoms[0], atoms)
                if any(a is not b for a, b in zip(known, atoms)):
                    return None
    kept = []
    inside = {v for e in eqns[start : start + p] for v in e.outvars}
    for e in eqns[start : start + p]:
        for v in e.invars:
            if type(v) is Var and v not in inside and v not in carried and v not in rows:
                kept.append(v)
    if set(carried) & set(rows):
        return None
    return _Loop(start, carried, rows, list(dict.fromkeys(kept)))


def _scanned(at: Inspection, found: UnrolledLoop, loop: _Loop) -> Any:
    """The program with one `scan` in the place of the rounds."""
    closed = at.stages.closed
    jaxpr = closed.jaxpr
    eqns, start, p = jaxpr.eqns, found.start, found.period
    one = eqns[start : start + p]
    later = {a for e in eqns[found.stop :] for a in e.invars if type(a) is Var}
    later |= {a for a in jaxpr.outvars if type(a) is Var}
    rounds = [eqns[start + r * p : start + (r + 1) * p] for r in range(found.rounds)]
    firsts = list(loop.carried)
    nexts = {v: _next(loop.carried[v], rounds[0]) for v in firsts}
    last = {v: n for n, v in enumerate(nexts.values())}
    # Of what a round makes, all rounds' values where a later equation reads one that is not carried out.
    wanted, carried_out = [], {}
    for k, e in enumerate(one):
        for n, v in enumerate(e.outvars):
            if v in last and not any(r[k].outvars[n] in later for r in rounds[:-1]):
                carried_out[rounds[-1][k].outvars[n]] = last[v]
            elif any(r[k].outvars[n] in later for r in rounds):
                wanted.append((k, n))

    def body(*args: Any) -> list:
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        values.update(zip(jaxpr.invars, args))
        run_equations(eqns[:start], values)
        # What the rounds take row by row may be made between them.
        between = [v for atoms in loop.rows.values() for v in atoms if v not in values]
        if between:
            raise ValueError("a round reads what is made after the first one began")
        stack = lambda atoms: concatenate([expand_dims(values[a], (0,)) for a in atoms], 0)
        xs = [stack(atoms) for atoms in loop.rows.values()]

        def turn(carry: list, rows: list) -> tuple[list, list]:
            inner = {v: values[v] for v in loop.kept}
            inner.update(zip(firsts, carry))
            inner.update(zip(loop.rows, rows))
            run_equations(one, inner)
            return [inner[nexts[v]] for v in firsts], [inner[one[k].outvars[n]] for k, n in wanted]

        carry, ys = scan(turn, [values[v] for v in firsts], xs, length=found.rounds)
        values.update({v: carry[n] for v, n in carried_out.items()})
        for (k, n), y in zip(wanted, ys):
            for r, some in enumerate(rounds):
                v = some[k].outvars[n]
                if v in later:
                    values[v] = index_in_dim(y, r, 0, keepdims=False)
        run_equations(eqns[found.stop :], values)
        return read(jaxpr.outvars, values)

    return retraced(at.stages, body)


def _next(v: Var, first_round: Sequence[JaxprEqn]) -> Var:
    """What a round gives the next one: the result of the first round that the second reads."""
    return next(o for e in first_round for o in e.outvars if o is v)
