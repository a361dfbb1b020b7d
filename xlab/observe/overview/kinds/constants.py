"""Arrays that a function takes from around it: they are a part of the program, and traced anew with another value."""

from __future__ import annotations

from collections.abc import Iterable

from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import size_text


@kind("captured constant")
def captured_constants(at: Inspection) -> Iterable[Finding]:
    """Large constants of the program."""
    jaxpr = at.stages.closed.jaxpr
    for v in jaxpr.constvars:
        nbytes = bytes_of([v.aval])
        if nbytes < LEAST:
            continue
        yield at.finding(
            "captured constant",
            f"an array {v.aval.str_short()} of {size_text(nbytes)} is a constant of the program, not an argument",
            next(iter(at.readers.get(v, ())), None),
            nbytes=nbytes,
            change="give it to the function as an argument",
        )
