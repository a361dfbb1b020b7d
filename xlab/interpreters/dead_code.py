"""Dead code: which equations, inputs and constants of a program its used results need.

An interpreter that runs backwards over a program and computes nothing. Rules say what becomes of primitives with jaxprs inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

from xlab.core import effects as _effects
from xlab.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Var, inner_jaxprs, open_jaxpr
from xlab.core.primitive import Primitive
from xlab.core.rules import RuleTable
from xlab.interpreters.control_flow import LoopFlow, flow_of

dce_rules = RuleTable(
    "partial_eval.dce_rules",
    "drop unused results of",
    "rule(used_outputs: list[bool], eqn) -> (used_inputs: list[bool], new equation or None)",
    required=False,
)
"""For primitives with inner jaxprs: prunes results (and the inputs only they needed)."""

kept_primitives: set[Primitive] = set()
"""Primitives whose equations are kept although no result is used and no effect says so."""


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
):
    """Removes equations (and inner ones) that no used output needs; effects are kept.

    Returns the smaller jaxpr and which inputs it still has. Inputs marked in `instantiate` are kept.
    """
    live: set[Var] = {v for v, used in zip(jaxpr.outvars, used_outputs) if used and type(v) is Var}
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        outvars = eqn.outvars
        if (
            live.isdisjoint(outvars)
            and not (eqn.effects and _effects.prevents_dce(eqn.effects))
            and eqn.primitive not in kept_primitives
        ):
            continue
        rule = dce_rules.get(eqn.primitive)
        # Nearly all: nothing in it can go.
        if rule is None or (
            live.issuperset(outvars) and not _passes_over(eqn, inner_jaxprs(eqn.params), set())
        ):
            eqns.append(eqn)
            for v in eqn.invars:
                if type(v) is Var:
                    live.add(v)
            continue
        used_in, new_eqn = rule([v in live for v in outvars], eqn)
        if new_eqn is None:
            continue
        if new_eqn is not eqn and _effects.on_refs(eqn.effects):
            new_eqn.effects = _effects.moved(
                eqn.effects, lambda i, u=used_in: sum(u[:i]) if u[i] else None
            )
        eqns.append(new_eqn)
        live.update(v for v, u in zip(eqn.invars, used_in) if u and type(v) is Var)
    eqns.reverse()
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else instantiate
    used_inputs = [v in live or k for v, k in zip(jaxpr.invars, keep)]
    names = jaxpr.debug_info.arg_names
    info = DebugInfo(
        jaxpr.debug_info.name,
        [n for n, u in zip(names, used_inputs) if u] if len(names) == len(used_inputs) else (),
        (),
        jaxpr.debug_info.position,
    )
    new = Jaxpr(
        list(jaxpr.constvars),
        [v for v, u in zip(jaxpr.invars, used_inputs) if u],
        [v for v, u in zip(jaxpr.outvars, used_outputs) if u],
        eqns,
        debug_info=info,
    )
    return new, used_inputs


def reads_everything(jaxpr: Jaxpr, read: set) -> bool:
    """Whether nothing in a program and in those inside it goes unread: no constant, no result of an equation, no operand of a call.

    `read` are the `variables_read` of the program itself.
    """
    return _reads_everything(jaxpr, read, set())


def _reads_everything(jaxpr: Jaxpr, read: set, seen: set[int]) -> bool:
    return (
        read.issuperset(jaxpr.constvars)
        and read.issuperset(chain.from_iterable(map(_outvars, jaxpr.eqns)))
        and not any(_passes_over(eqn, inner, seen) for eqn, inner in jaxpr.calls)
    )


def _passes_over(eqn: JaxprEqn, inner: Sequence[Jaxpr], seen: set[int]) -> bool:
    """Whether the programs inside an equation do not read an operand, or leave something unread themselves."""
    if not inner:
        return False
    flow = flow_of(eqn)
    if type(flow) is LoopFlow:  # the condition passes over what only the body needs
        given = [open_jaxpr(flow.body)]
    else:
        given = [j for j in inner if len(j.invars) == len(inner[0].invars)]
    # What one branch passes over another may read.
    unread = [set(map(id, j.invars)) - set(map(id, variables_read(j))) for j in given]
    if all(unread) and any(
        all(id(v) in u for v, u in zip(vs, unread)) for vs in zip(*(j.invars for j in given))
    ):
        return True
    for one in inner:
        if id(one) not in seen:
            seen.add(id(one))
            if not _reads_everything(one, variables_read(one), seen):
                return True
    return False


def variables_read(jaxpr: Jaxpr) -> set:
    """The variables that equations and results use."""
    return {*chain.from_iterable(map(_invars, jaxpr.eqns)), *jaxpr.outvars}


_invars, _outvars = attrgetter("invars"), attrgetter("outvars")


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
):
    """Like `dce_jaxpr`, and drops constants that nothing reads: `(jaxpr, used constants, used inputs)`."""
    new, used_inputs = dce_jaxpr(jaxpr, used_outputs, instantiate)
    read = {v for e in new.eqns for v in e.invars if type(v) is Var} | {
        v for v in new.outvars if type(v) is Var
    }
    used_consts = [v in read for v in new.constvars]
    return (
        new.replace(constvars=[v for v, u in zip(new.constvars, used_consts) if u]),
        used_consts,
        used_inputs,
    )


def dce_jaxpr_eqns(jaxpr: Jaxpr) -> Jaxpr:
    """Removes dead equations and the constants only they needed; inputs and outputs stay."""
    new, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return new


def prune_closed_consts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Drops constants that no equation or output reads."""
    used = {v for e in closed.jaxpr.eqns for v in e.invars if type(v) is Var}
    used.update(v for v in closed.jaxpr.outvars if type(v) is Var)
    kept = [(v, c) for v, c in zip(closed.jaxpr.constvars, closed.consts) if v in used]
    if len(kept) == len(closed.consts):
        return closed
    return ClosedJaxpr(closed.jaxpr.replace(constvars=[v for v, _ in kept]), [c for _, c in kept])


def dce_closed_jaxpr(
    closed: ClosedJaxpr, used_outputs: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """Like `dce_jaxpr`, of a closed program."""
    new, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs)
    return ClosedJaxpr(new, closed.consts), used_inputs
