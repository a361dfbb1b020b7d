"""Programs with their constants beside them, inside of them, or among their inputs. Their names in `partial_eval` are the field's."""

from __future__ import annotations

import numpy as np

from xlab.core.array import is_native_array
from xlab.core.avals import aval_of
from xlab.core.current_trace import enclosing_traces
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xlab.core.trace import EVAL, state


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its constants as leading inputs."""
    if not jaxpr.constvars:
        return jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def made_while_traced(x):
    """The same array: one of no dimension is a literal of the programs that are being traced, which make it, and no constant of theirs."""
    if state.trace is not EVAL and not x.shape:
        for trace in enclosing_traces():
            if (scalars := getattr(trace, "scalars", None)) is not None:
                scalars[id(x)] = x
    return x


def number_of(x, aval):
    """What a scalar array is as a literal, of the same type."""
    number = np.asarray(x)[()]
    if not aval.weak_type:
        return number
    return number.item() if aval_of(number.item()) is aval else x


def hoist_scalars(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with the scalar arrays that its function closes over as constants beside it, not as literals inside.

    Libraries keep programs as trees of their constants, which have the same structure only if it does not depend on values.
    """
    jaxpr = closed.jaxpr
    unused = dict(zip(jaxpr.constvars, closed.consts))
    # In the order of their first uses, as those of traced values are.
    constants: list[tuple[Var, object]] = []
    hoisted: dict[int, Var] = {}

    def beside(atom):
        if type(atom) is Literal and is_native_array(atom.val):
            var = hoisted.get(id(atom.val))
            if var is None:
                var = hoisted[id(atom.val)] = Var(atom.aval)
                constants.append((var, atom.val))
            return var
        if type(atom) is Var and atom in unused:
            constants.append((atom, unused.pop(atom)))
        return atom

    def equation(eqn: JaxprEqn) -> JaxprEqn:
        invars = [beside(v) for v in eqn.invars]
        same = all(a is b for a, b in zip(invars, eqn.invars))
        return eqn if same else eqn.replace(invars=invars)

    eqns, outvars = [equation(e) for e in jaxpr.eqns], [beside(v) for v in jaxpr.outvars]
    if not hoisted:
        return closed
    names, values = zip(*constants, *unused.items())
    return ClosedJaxpr(jaxpr.replace(constvars=[*names], eqns=eqns, outvars=outvars), [*values])


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program without constants as a closed one; the same object every time, so that its memos are kept."""
    closed = getattr(jaxpr, "_closed", None)
    if closed is None:
        closed = jaxpr._closed = ClosedJaxpr(jaxpr, ())
    return closed


def open_closed_jaxpr(closed: ClosedJaxpr) -> tuple[list, Jaxpr]:
    """The constants of a program and the program that takes them as leading inputs; `close_jaxpr` finds what is remembered of it."""
    if closed.consts:
        return closed.consts, closed.memo("open", lambda: convert_constvars_jaxpr(closed.jaxpr))
    if getattr(closed.jaxpr, "_closed", None) is None:
        closed.jaxpr._closed = closed
    return [], closed.jaxpr
