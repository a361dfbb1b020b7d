"""Equations and variables of a kernel as text."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from xlab.core.jaxpr import Jaxpr, Var, inner_jaxprs, open_jaxpr
from xlab.core.printing import Names, atom_text, equation_text, letters
from xlab.interpreters.control_flow import BranchFlow, CallFlow, LoopFlow, flow_of

_names: weakref.WeakKeyDictionary[Jaxpr, dict[Var, str]] = weakref.WeakKeyDictionary()


def variable_names(jaxpr: Jaxpr) -> dict[Var, str]:
    """Letters for the variables of a program, inputs first."""
    found = _names.get(jaxpr)
    if found is None:
        vars_ = [*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars)]
        found = _names[jaxpr] = {v: letters(i) for i, v in enumerate(vars_)}
    return found


def line_text(jaxpr: Jaxpr, i: int) -> str:
    """One equation in one line, with letters for variables; programs inside it are left out."""
    names, eqn = Names(variable_names(jaxpr)), jaxpr.eqns[i]
    if inner_jaxprs(eqn.params):
        outs = " ".join(names(v) for v in eqn.outvars)
        given = " ".join(atom_text(a, names) for a in eqn.invars)
        return f"{outs + ' = ' if outs else ''}{eqn.primitive.name}[...] {given}"
    used = {a for e in jaxpr.eqns for a in e.invars if type(a) is Var}
    used.update(a for a in jaxpr.outvars if type(a) is Var)
    return " ".join(equation_text(eqn, names, used=used).split())


def equations(jaxpr: Jaxpr, prefix: str = "body") -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths of a kernel's equations, with their texts and lines; those of programs inside follow theirs."""
    for i, eqn in enumerate(jaxpr.eqns):
        path = f"{prefix}/{i}"
        yield path, {"text": line_text(jaxpr, i), "line": str(eqn.source_info)}
        for section, inner in sections(eqn):
            yield from equations(inner, f"{path}/{section}")


def sections(eqn) -> Iterator[tuple[str, Jaxpr]]:
    """The programs inside an equation that get frames, by the names that paths have for them."""
    if eqn.primitive.name == "run_scoped":
        yield "scope", open_jaxpr(eqn.params["jaxpr"])
        return
    flow = flow_of(eqn)
    if isinstance(flow, CallFlow):
        yield eqn.primitive.name, open_jaxpr(flow.jaxpr)
    elif isinstance(flow, (LoopFlow, BranchFlow)):
        for section, inner in flow.jaxprs:
            yield section, open_jaxpr(inner)
