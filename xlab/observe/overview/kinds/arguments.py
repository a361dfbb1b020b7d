"""Arguments that nothing reads, and those that come back as they are."""

from __future__ import annotations

from collections.abc import Iterable

from xlab.core.jaxpr import Var
from xlab.interpreters.costs import bytes_of
from xlab.observe.overview.inspection import Inspection, kind
from xlab.observe.records.finding import Finding


@kind("unused argument", "returned argument")
def arguments(at: Inspection) -> Iterable[Finding]:
    """Arguments that the program does not need."""
    jaxpr = at.stages.closed.jaxpr
    read = {a for e in jaxpr.eqns for a in e.invars if isinstance(a, Var)}
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    for i, v in enumerate(jaxpr.invars):
        name, nbytes = jaxpr.debug_info.arg_name(i), bytes_of([v.aval])
        if v not in read and v not in returned:
            text, of = f"`{name}` is given and not used", "unused argument"
            change = "leave it out of the call"
        elif v in returned and v not in read:
            text, of = f"`{name}` comes back as it was given", "returned argument"
            change = "do not return it: the caller has it"
        else:
            continue
        yield at.finding(of, text, nbytes=nbytes, change=change)
