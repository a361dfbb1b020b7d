"""Functions that are compiled anew from call to call, and what keeps one program."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from xlab.core.avals import ShapedArray
from xlab.observe.overview.inspection import Inspection, kind, proven
from xlab.observe.overview.measures import Measures, Proof, kept_one, one_program
from xlab.observe.overview.patterns import split_of
from xlab.observe.overview.structures import structured
from xlab.observe.programs.rewriting import called_with, with_ordinary
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Finding
from xlab.observe.records.ledger import Compilation
from xlab.observe.records.units import plural, time_text
from xlab.observe.timing.ledger import ledger_of
from xlab.sharding import NamedSharding

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


_OBJECTS = ("function", "definition", "jit")
"""Causes of which nothing more is to be said: one object and another."""


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
        was = (
            ""
            if cause in ("structure", *_OBJECTS)
            else next(
                (f": {d.was} and {d.now}" for d in last.differences[:1] if d.was and d.now), ""
            )
        )
        found = at.finding(
            "recompile",
            f"compiled {plural(len(compiled), 'time')} more, {time_text(spent)}: {said}{was}",
            us=spent,
            tab="ledger",
            source=last.source,
        )
        if cause == "static value" and what:
            yield from _static(at, found, what, last.fix, len(compiled) + 1)
            continue
        if cause == "sharding" and _argument(at, what) >= 0:
            yield _placed(at, found, what, len(compiled) + 1)
            continue
        if cause == "structure":
            yield from structured(at, found, len(compiled) + 1)
            continue
        if cause not in _TYPES:
            # The same function and the same objects at every call have one key: nothing is there to be compiled.
            yield proven(found, last.fix, kept_one("as it is now", len(compiled) + 1))
            continue
        number = _argument(at, what)
        one = _TYPES[cause](at, number, compiled) if number >= 0 else None
        if one is None:
            yield found
            continue
        yield from at.offered(
            found,
            last.fix.replace(", dtype)", f", '{one.dtype}')").replace(
                "a fixed size", f"{one.str_short(short_dtypes=True)}"
            ),
            functools.partial(_called_with, at, number, one),
            functools.partial(_proof, one, len(compiled) + 1),
        )


def _static(at: Inspection, found: Finding, what: str, fix: str, times: int) -> Iterable[Finding]:
    """A static value can be an argument where the function traces with it as one; where it does not, the program is made of it."""
    change = fix.replace("the value", f"`{what}`").removesuffix(
        " if the program does not depend on it"
    )
    made = functools.partial(with_ordinary, at.stages, what)
    offered = list(
        at.offered(found, change, made, functools.partial(one_program, f"with `{what}` as an argument", times))
    )  # fmt: skip
    yield from offered or [
        found.replace(text=f"{found.text}; it cannot be traced: the program is made of its value")
    ]


def _placed(at: Inspection, found: Finding, what: str, times: int) -> Finding:
    """Arrays that lie otherwise from call to call, which could all lie as those of the present program, which is compiled."""
    number = _argument(at, what)
    sharding, aval = at.shardings[number], at.stages.closed.in_avals[number]
    if not isinstance(sharding, NamedSharding):
        return found
    where = f"NamedSharding(mesh, {sharding.spec})"
    change = f"place `{what}` in one way before every call: {what} = xlab.device_put({what}, {where})"  # fmt: skip
    return proven(
        found,
        change,
        kept_one(f"for {aval.str_short(short_dtypes=True)} as {sharding.spec}", times),
    )


def _argument(at: Inspection, what: str) -> int:
    """The number of an argument of this name; -1 for none."""
    info = at.stages.closed.jaxpr.debug_info
    return next((i for i in range(len(at.stages.closed.in_avals)) if info.arg_name(i) == what), -1)


def _strong(at: Inspection, number: int, compiled: list[Compilation]) -> ShapedArray:
    """The type that the argument has with a dtype of its own."""
    aval: Any = at.stages.closed.in_avals[number]
    return ShapedArray(aval.shape, aval.dtype)


def _largest(at: Inspection, number: int, compiled: list[Compilation]) -> ShapedArray | None:
    """The type that holds all sizes that there were."""
    aval: Any = at.stages.closed.in_avals[number]
    texts = [t for c in compiled for d in c.differences[:1] for t in (d.was, d.now)]
    shapes = {aval.shape, *(split_of(t)[0] for t in texts)}
    if len({len(s) for s in shapes}) != 1 or any(n < 0 for s in shapes for n in s):
        return None
    return ShapedArray(tuple(map(max, *shapes)), aval.dtype)


_TYPES = {"weak type": _strong, "dtype": _strong, "shape": _largest}
"""Causes whose change is one type for all calls: what it is."""


def _called_with(at: Inspection, number: int, one: ShapedArray) -> ProgramStages:
    avals = list(at.stages.closed.in_avals)
    avals[number] = one
    return called_with(at.stages, avals)


def _proof(one: ShapedArray, times: int, before: Measures, after: Measures) -> Proof:
    """What the one program costs beside the present one."""
    return one_program(f"for {one.str_short(short_dtypes=True)}", times, before, after)
