"""Partial evaluation with mutable references: which of them become unknown as a whole.

When a program is split into a known and an unknown part, a reference to which an unknown value is ever written is unknown
as a whole, also before that write, since its contents cannot be split. So unknown references are found for the whole
program first, and the equations that make them go to the unknown part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab.core import effects as _effects
from xlab.core.jaxpr import Jaxpr, Literal, Var, open_jaxpr
from xlab.core.refs import AbstractRef
from xlab.core.rules import RuleTable
from xlab.core.trace import state
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, OpaqueFlow, flow_of

partial_eval_rules = RuleTable(
    "partial_eval.partial_eval_rules",
    "split into known and unknown parts",
    "rule(trace, tracers, **params) -> outputs, where `trace` records and its `parent` runs what is known",
    required=False,
)
"""For primitives with inner jaxprs: runs what is known of the equation and records the rest. Without a rule the whole
equation is recorded, which is always right."""


def unknown_variables(jaxpr: Jaxpr, unknown_in: Sequence[bool]) -> set[Var]:
    """The variables, references among them, that depend on unknown inputs."""
    waiting = {v for v, u in zip(jaxpr.invars, unknown_in) if u}
    while True:
        before = len(waiting)
        for eqn in jaxpr.eqns:
            unknown = [type(a) is Var and a in waiting for a in eqn.invars]
            if any(unknown):
                refs, results = _through(eqn, unknown)
                waiting.update(eqn.invars[i] for i in refs)
                waiting.update(v for v, u in zip(eqn.outvars, results) if u)
        if len(waiting) == before:
            return waiting


def _through(eqn, unknown) -> tuple[set[int], list[bool]]:
    """The operands that are references and become unknown in an equation, and its unknown results."""
    flow, n = flow_of(eqn), len(eqn.outvars)
    if type(flow) is CallFlow and (
        eqn.primitive in partial_eval_rules or _effects.on_refs(eqn.effects)
    ):  # what has no rule is recorded as a whole
        return _inside(flow.jaxpr, unknown)
    if type(flow) is BranchFlow:
        if unknown[0]:
            return {i + 1 for b in flow.branches for i in _effects.written(b.effects)}, [True] * n
        parts = [_inside(b, unknown[1:]) for b in flow.branches]
        return {i + 1 for refs, _ in parts for i in refs}, [
            any(p[1][i] for p in parts) for i in range(n)
        ]
    if type(flow) is LoopFlow:
        return _loop(flow, unknown, n)
    written = _effects.written(eqn.effects)
    if type(flow) is OpaqueFlow:
        return written, [True] * n
    if written == {0} and not unknown[0]:
        # An unknown value is stored in a known reference; the old value is known.
        return written, [False] * n
    return written, [True] * n


def _inside(jaxpr, unknown):
    jaxpr = open_jaxpr(jaxpr)
    waiting = unknown_variables(jaxpr, unknown)
    refs = {i for i, v in enumerate(jaxpr.invars) if type(v.aval) is AbstractRef and v in waiting}
    return refs, [type(v) is Var and v in waiting for v in jaxpr.outvars]


def _loop(flow: LoopFlow, unknown, n):
    cond_consts, consts, carry, xs = flow.split(unknown)
    first, num_consts = len(cond_consts), len(consts)
    given = [*consts, *carry, *xs]
    while True:
        refs, results = _inside(flow.body, given)
        new = list(given)
        for i, u in enumerate(results[: flow.num_carry]):
            new[num_consts + i] = new[num_consts + i] or u
        for i in refs:
            new[i] = True
        if new == given:
            break
        given = new
    refs = {first + i for i in refs}
    if flow.cond is None:
        return refs, results
    cond_refs, (answer,) = _inside(flow.cond, [*cond_consts, *results])
    if answer:  # the number of iterations is unknown
        return {
            *_effects.written(flow.cond.effects),
            *(first + i for i in _effects.written(flow.body.effects)),
        }, [True] * n
    return cond_refs | refs, results


def eval_split(record: Callable, jaxpr: Jaxpr, consts, args, waiting: set[Var]) -> list:
    """Like `eval_jaxpr` under a partial trace; references in `waiting` are made by `record(prim, values, params)`."""
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    previous = state.source_info

    def read(a):
        return a.val if type(a) is Literal else env[a]

    try:
        for eqn in jaxpr.eqns:
            state.source_info = eqn.raw_source_info
            values = [read(a) for a in eqn.invars]
            if eqn.primitive.makes_ref and eqn.outvars[0] in waiting:
                out = record(eqn.primitive, values, eqn.params)
            else:
                out = eqn.primitive.bind(*values, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    finally:
        state.source_info = previous
    return [read(a) for a in jaxpr.outvars]
