"""Which mutable references have to wait.

When a program is split into what can run now and what waits for unknown inputs, a reference that something unknown is ever
written to waits as a whole: even what was read from it before that write cannot be told from it afterwards. So the question
is answered for the whole program first, and then the equations that make such references are put on the waiting side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab.core import effects as _effects
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, open_jaxpr
from xlab.core.refs import AbstractRef
from xlab.core.trace import state


def waiting_variables(jaxpr: Jaxpr, unknown_in: Sequence[bool]) -> set[Var]:
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
    params, n = eqn.params, len(eqn.outvars)
    if "branches" in params:
        if unknown[0]:
            return {i + 1 for b in params["branches"] for i in _effects.written(b.effects)}, [True] * n
        parts = [_inside(b, unknown[1:]) for b in params["branches"]]
        return {i + 1 for refs, _ in parts for i in refs}, [any(p[1][i] for p in parts) for i in range(n)]
    if "body_jaxpr" in params:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        refs, carry = _loop(params["body_jaxpr"], unknown[nc:], nb, n)
        cond_refs, (answer,) = _inside(params["cond_jaxpr"], [*unknown[:nc], *carry])
        if answer:     # nobody knows how often it runs
            return {*_effects.written(params["cond_jaxpr"].effects), *(i + nc for i in _effects.written(params["body_jaxpr"].effects))}, \
                [True] * n
        return {*cond_refs, *(i + nc for i in refs)}, carry
    for name in ("jaxpr", "call_jaxpr"):
        if isinstance(params.get(name), (Jaxpr, ClosedJaxpr)):
            if "num_carry" in params:
                return _loop(params[name], unknown, params["num_consts"], params["num_carry"])
            return _inside(params[name], unknown)
    written = _effects.written(eqn.effects)
    if written and not unknown[0] and any(unknown[1:]):
        return written, [False] * n            # something unknown is stored in a known reference; what was there is known
    return set(), [True] * n


def _inside(jaxpr, unknown):
    jaxpr = open_jaxpr(jaxpr)
    waiting = waiting_variables(jaxpr, unknown)
    refs = {i for i, v in enumerate(jaxpr.invars) if type(v.aval) is AbstractRef and v in waiting}
    return refs, [type(v) is Var and v in waiting for v in jaxpr.outvars]


def _loop(jaxpr, unknown, first, num_carry):
    """A body that is repeated, with `num_carry` inputs from number `first` on that are its own first results."""
    unknown = list(unknown)
    while True:
        refs, results = _inside(jaxpr, unknown)
        new = list(unknown)
        for i, u in enumerate(results[:num_carry]):
            new[first + i] = new[first + i] or u
        for i in refs:
            new[i] = True
        if new == unknown:
            return refs, results
        unknown = new


def eval_split(record: Callable, jaxpr: Jaxpr, consts, args, waiting: set[Var]) -> list:
    """Like `eval_jaxpr` under a partial trace; references in `waiting` are made by `record(prim, values, params)`."""
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    previous = state.source

    def read(a):
        return a.val if type(a) is Literal else env[a]
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.place
            values = [read(a) for a in eqn.invars]
            if eqn.primitive.makes_ref and eqn.outvars[0] in waiting:
                out = record(eqn.primitive, values, eqn.params)
            else:
                out = eqn.primitive.bind(*values, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    finally:
        state.source = previous
    return [read(a) for a in jaxpr.outvars]
