"""Programs with their constants beside them, inside of them, or among their inputs. Their names in `partial_eval` are the field's."""

from __future__ import annotations

from xlab.core.array import is_native_array
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its constants as leading inputs."""
    if not jaxpr.constvars:
        return jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def hoist_scalars(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with the scalar arrays that its function closes over as constants beside it, not as literals inside.

    Libraries keep programs as trees of their constants, which have the same structure only if it does not depend on values.
    """
    variables: dict[int, tuple[Var, object]] = {}

    def beside(atom):
        if type(atom) is not Literal or not is_native_array(atom.val):
            return atom
        return variables.setdefault(id(atom.val), (Var(atom.aval), atom.val))[0]

    def equation(eqn: JaxprEqn) -> JaxprEqn:
        invars = [beside(v) for v in eqn.invars]
        return eqn.replace(invars=invars) if any(a is not b for a, b in zip(invars, eqn.invars)) else eqn  # fmt: skip

    jaxpr = closed.jaxpr
    eqns, outvars = [equation(e) for e in jaxpr.eqns], [beside(v) for v in jaxpr.outvars]
    if not variables:
        return closed
    names, values = zip(*variables.values())
    return ClosedJaxpr(
        jaxpr.replace(constvars=[*jaxpr.constvars, *names], eqns=eqns, outvars=outvars),
        [*closed.consts, *values],
    )


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
