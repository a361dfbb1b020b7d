"""One structure for the arguments of all calls of a function, in place of one program for each structure."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from xlab.compile.structures import other_containers
from xlab.compile.tracing import structures_of
from xlab.observe.overview.inspection import Inspection
from xlab.observe.overview.measures import one_program
from xlab.observe.programs.rewriting import called_with, shardings_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Finding
from xlab.observe.records.units import listed, plural

NAMED = 3
"""Paths that are written out; of more, how many there are."""


def structured(at: Inspection, found: Finding, times: int) -> Iterable[Finding]:
    """The finding with the call that has whatever the others have, for which the function is compiled; where there is none, it says so."""
    if at.stages.origin is None:
        yield found
        return
    owner, own_tree = at.stages.origin
    calls = [
        (dict(zip(owner.names(tree, len(avals), static), avals)), tree)
        for tree, avals, static in structures_of(owner.fun)
    ]
    if not calls:
        yield found
        return
    # Of equal ones the present call.
    whole, in_tree = max(calls, key=lambda c: (len(c[0]), c[1] == own_tree))
    if why := _apart(whole, calls):
        yield found.replace(text=f"{found.text}; {why}, so that no one program takes all")
        return
    missing = [n for n in whole if any(n not in given for given, _ in calls)]
    if missing:
        how = f"pass {_named(missing)} at every call: zeros, or what changes nothing, where there is nothing to pass"
        found = found.replace(text=f"{found.text}: not every call has {_named(missing)}")
    else:
        differ = [
            x for _, tree in calls if tree != in_tree for x in other_containers(tree, in_tree, list(whole))
        ]  # fmt: skip
        if not differ:
            yield found.replace(
                text=f"{found.text}: by position in one call, by keyword in another"
            )
            return
        how = "pass the same containers at every call, as in this one"
        found = found.replace(text=f"{found.text}: {differ[0]}")
    known = dict(zip(owner.names(own_tree, len(at.shardings), ()), shardings_of(at.stages)))
    yield from at.offered(
        found,
        how,
        functools.partial(_compiled, at, whole, in_tree, known),
        functools.partial(one_program, f"for {plural(len(whole), 'array')} at every call", times),
    )


def _apart(whole: dict[str, Any], calls: list[tuple[dict[str, Any], Any]]) -> str:
    """Why no call of a function has what all others have; empty where one has."""
    for given, _ in calls:
        more = [n for n in given if n not in whole]
        if more:
            fewer = [n for n in whole if n not in given]
            return f"one call has {_named(fewer)} and another {_named(more)}"
        for n, aval in given.items():
            if (aval.shape, aval.dtype) != (whole[n].shape, whole[n].dtype):
                return f"`{n}` is {aval.str_short(short_dtypes=True)} in one call and {whole[n].str_short(short_dtypes=True)} in another"
    return ""


def _named(names: list[str]) -> str:
    return listed([f"`{n}`" for n in names], NAMED)


def _compiled(at: Inspection, whole: dict[str, Any], in_tree: Any, known: dict) -> ProgramStages:
    return called_with(at.stages, list(whole.values()), in_tree, [known.get(n) for n in whole])
