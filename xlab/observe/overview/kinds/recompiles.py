"""Functions that are compiled anew from call to call, and what keeps one program."""

from __future__ import annotations

from collections.abc import Iterable

from xlab.observe.overview.inspection import Inspection, kind
from xlab.observe.records.finding import Finding
from xlab.observe.records.ledger import Compilation
from xlab.observe.records.units import plural, time_text
from xlab.observe.timing.ledger import ledger_of

OFTEN = 3
"""Compiles of a function from which a cause is worth a word; of a weak type the second is."""

_CAUSES = {
    "shape": "the shape of {what} changes",
    "dtype": "the dtype of {what} changes",
    "weak type": "{what} is a Python number in one call and an array in another",
    "structure": "the structure of the arguments changes",
    "static value": "the static value {what} changes",
    "sharding": "{what} lies otherwise",
    "function": "the function is defined anew",
    "definition": "the function is defined anew",
    "jit": "jit is called anew",
    "closure": "{what}, which it takes from around it, changes",
}


@kind("recompile")
def recompiles(at: Inspection) -> Iterable[Finding]:
    """Compiles of the program's function, by their cause."""
    groups: dict[tuple[str, str], list[Compilation]] = {}
    position = at.stages.closed.jaxpr.debug_info.position
    for c in ledger_of(at.stages.name, position):
        for d in c.differences[:1]:
            groups.setdefault((d.cause, d.what), []).append(c)
    for (cause, what), compiled in groups.items():
        if len(compiled) + 1 < (2 if cause == "weak type" else OFTEN) or cause not in _CAUSES:
            continue
        spent = sum(c.duration_us for c in compiled)
        last = compiled[-1]
        said = _CAUSES[cause].format(what=f"`{what}`" if what else "an argument")
        was = next((f": {d.was} and {d.now}" for d in last.differences[:1] if d.was and d.now), "")
        yield at.finding(
            "recompile",
            f"compiled {plural(len(compiled), 'time')} more, {time_text(spent)}: {said}{was}",
            us=spent,
            change=last.fix,
            proof=_PROOFS.get(cause, ""),
            tab="ledger",
            source=last.source,
        )


_PROOFS = {
    "weak type": "both calls have one key then: the program is compiled once",
    "shape": "one size has one key: the program is compiled once for each",
}
