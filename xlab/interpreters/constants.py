"""Programs with their constants beside them, inside of them, or among their inputs. Their names in `partial_eval` are the field's."""

from __future__ import annotations

from xlab.core.jaxpr import ClosedJaxpr, Jaxpr


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with its constants as leading inputs."""
    if not jaxpr.constvars:
        return jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


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
