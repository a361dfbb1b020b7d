"""Arrays that a function takes from around it: they are a part of the program, and traced anew with another value."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof, peak
from xlab.observe.programs.signatures import with_constant_given
from xlab.observe.records.finding import Amount, Finding
from xlab.observe.records.units import size_text

WORSE = 1.02
"""The part of the peak and of the operations up to which a program with the constant as an argument is no worse."""


@kind("captured constant", last=True)
def captured_constants(at: Inspection) -> Iterable[Finding]:
    """Large constants of the program."""
    jaxpr = at.stages.closed.jaxpr
    for n, v in enumerate(jaxpr.constvars):
        nbytes = bytes_of([v.aval])
        if nbytes < LEAST:
            continue
        found = at.finding(
            "captured constant",
            f"an array {v.aval.str_short(short_dtypes=True)} of {size_text(nbytes)} is a constant of the program, not an argument",
            next(iter(at.readers.get(v, ())), None),
            nbytes=nbytes,
        )
        yield from at.offered(
            found,
            "give it to the function as an argument",
            functools.partial(with_constant_given, at.stages, n),
            _fewer_constants,
            holds=True,
        )


def _held(m: Measures) -> int:
    """Bytes of constants on a device: those in the compiled program, and those that it is given at every call."""
    return sum(
        b.size
        for b in m.memory.buffers
        if b.kind == "constant" or b.name in m.stages.before_arguments
    )


def _fewer_constants(before: Measures, after: Measures) -> Proof | None:
    b, a = _held(before), _held(after)
    worse = after.peak > WORSE * before.peak or after.flops > WORSE * before.flops + 64
    if a >= b or worse:
        return None
    outcome = Amount("constants of the program", b, a), peak(before, after)
    return Proof(
        "compiled with it as an argument", outcome, ", and one program for all values of it"
    )
