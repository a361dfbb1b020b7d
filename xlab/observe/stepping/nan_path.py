"""Who made the first NaN: a path backwards from a result that has one, through the equations that passed it on, to what caused it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.core.array import KeyArray
from xlab.core.jaxpr import Literal, Var
from xlab.interpreters.control_flow import flow_of
from xlab.observe.records import Step
from xlab.observe.records.nan_path import NanPath
from xlab.observe.records.stepper import writes_nan
from xlab.observe.records.units import plural
from xlab.observe.stepping.breakpoints import holds
from xlab.observe.stepping.machine import Executed
from xlab.observe.stepping.stepper import Stepper

LONGEST = 64
"""Equations of a path."""


class Made(NamedTuple):
    """A step of which a result has a NaN or an infinity: where it stands, and what it did."""

    at: int
    done: Executed
    step: Step


def nan_path(fun: Any, *args: Any, **kwargs: Any) -> NanPath:
    """Runs a function equation by equation; the way of its first NaN, from the cause to the result.

    A NaN is a NaN: an infinity, such as that of a mask, is on the path only where a NaN was made of it.

    Example:
        >>> import numpy as np, xlab.numpy as jnp
        >>> path = nan_path(lambda x: jnp.log(x - 1) * 0 + x, np.float32([1, 2]))
        >>> [s.text.split()[2] for s in path.steps], path.words[path.maker]
        (['log', 'mul', 'add'], 'made 1 NaN of 1 Inf times 0')
    """
    stepper = fun if isinstance(fun, Stepper) else Stepper(fun, *args, **kwargs)
    return path_in(stepper)


def path_in(stepper: Stepper) -> NanPath:
    """The path in a stepper's program, from its start; the stepper ends at the end."""
    stepper.goto(0)
    made: list[Made] = []
    by_value: dict[int, int] = {}
    while not stepper.finished:
        done = stepper._advance(stepper.into)
        if done is None:
            break
        if any(map(_odd, done.outputs)):
            step = stepper._record_of(done)
            assert step is not None
            by_value.update((id(x), len(made)) for x in done.outputs)
            made.append(Made(step.index, done, step))
    name = stepper.stages.name
    # One that the program writes and nothing takes, for a case that did not come, is nobody's fault.
    end = next(
        (
            n
            for n in reversed(range(len(made)))
            if any(map(_nan, made[n].done.outputs)) and not writes_nan(made[n].step)
        ),
        -1,
    )
    if end < 0:
        infinite = sum(any(map(_infinite, m.done.outputs)) for m in made)
        said = f"{plural(infinite, 'equation')} gave infinities" if infinite else ""
        return NanPath(name, origin=said, made_by=stepper.made_by)
    # The result that has it; of a program that lost its NaN on the way, the latest that had one.
    found = [made[end]]
    origin = ""
    while len(found) < LONGEST:
        here = found[-1]
        inside = _inside(made, here)
        if inside is not None:
            found.append(inside)
            continue
        blamed, origin = _blamed(stepper, here, by_value, made)
        if blamed is None:
            break
        found.append(blamed)
    found.reverse()
    steps = list(found)
    maker = next(
        (
            n
            for n, m in enumerate(steps)
            if any(map(_nan, m.done.outputs)) and not any(map(_nan, m.done.inputs))
        ),
        0 if writes_nan(steps[0].step) else -1,  # an argument came with it
    )
    outs = steps[-1].step.outputs
    result = next((v.note or v.name for v in outs if v.nans), "")
    return NanPath(
        name,
        tuple(m.step for m in steps),
        tuple(_words(m, n == maker) for n, m in enumerate(steps)),
        maker,
        origin,
        f"`{result}`",
        stepper.made_by,
    )


def _inside(made: Sequence[Made], here: Made) -> Made | None:
    """Of the equation of a program that was walked through: the latest equation in it that made the like of its result."""
    depth = len(here.done.path)
    odd = _nan if any(map(_nan, here.done.outputs)) else _odd
    for m in reversed(made):
        if m.at >= here.at:
            continue
        if len(m.done.path) <= depth or m.done.path[:depth] != here.done.path:
            return None
        if not _leaves(here):
            return None
        if any(map(odd, m.done.outputs)):
            return m
    return None


def _leaves(here: Made) -> bool:
    """Whether a step ended a program that was walked through."""
    return flow_of(here.done.eqn) is not None


def _blamed(
    stepper: Stepper, here: Made, by_value: dict[int, int], made: Sequence[Made]
) -> tuple[Made | None, str]:
    """The step that made the operand which is to blame, or what the operand is where no step made it."""
    eqn, inputs = here.done.eqn, here.done.inputs
    for test in (_nan, _infinite):
        for atom, x in zip(eqn.invars, inputs):
            if not test(x):
                continue
            n = by_value.get(id(x))
            if n is None and isinstance(atom, Var):
                n = _carried(made, here, test)
            if n is not None and made[n].at < here.at:
                return made[n], ""
            return None, _called(stepper, here, atom)
        if any(map(_nan, inputs)):
            break
    named = [_called(stepper, here, a) for a in eqn.invars if not isinstance(a, Literal)]
    return None, " and ".join(dict.fromkeys(named))


def _carried(made: Sequence[Made], here: Made, test: Any) -> int | None:
    """For a value that came into an iteration by being cut out or laid out anew: the latest step before it whose result has the same."""
    if not here.done.path:
        return None
    outer = here.done.path[:-1]
    return next(
        (
            n
            for n in reversed(range(len(made)))
            if made[n].at < here.at
            and made[n].done.path in (outer, here.done.path)
            and any(map(test, made[n].done.outputs))
        ),
        None,
    )


def _called(stepper: Stepper, here: Made, atom: Any) -> str:
    if isinstance(atom, Literal):
        return f"the constant {atom.val}"
    letter, note = stepper.names_of(here.done.jaxpr, atom)
    return f"`{note or letter}`"


def _words(m: Made, maker: bool) -> str:
    """What a step did, in words."""
    done = m.done
    nans = sum(v.nans for v in m.step.outputs)
    infs = sum(v.infs for v in m.step.outputs)
    name = done.eqn.primitive.name
    if writes_nan(m.step):
        return f"gave {plural(nans, 'NaN')} that the program writes"
    if not maker:
        if _leaves(m):
            return f"gave {plural(nans, 'NaN') if nans else plural(infs, 'Inf')}, made inside"
        if nans and any(map(_nan, done.inputs)):
            return f"passed on {plural(nans, 'NaN')}"
        return f"made {plural(infs, 'Inf')} of {_cause(name, done)}" if infs else _cause(name, done)
    return f"made {plural(nans, 'NaN')} of {_cause(name, done)}"


def _cause(name: str, done: Executed) -> str:
    """What of the operands an operation cannot take."""
    values = [x for x in done.inputs if not _no_number(x)]
    infs = sum(_count(x, np.isinf) for x in values)
    zeros = [_count(x, lambda a: a == 0) for x in values]
    below = sum(_count(x, lambda a: a < 0) for x in values)
    if name in ("log", "sqrt", "rsqrt", "log1p", "pow") and (below or not infs):
        if below:
            return f"{plural(below, 'number')} below 0"
        if sum(zeros):
            return plural(sum(zeros), "zero")
    if name == "div" and len(zeros) == 2 and zeros[1]:
        return (
            f"{plural(zeros[0], 'zero')} by {plural(zeros[1], 'zero')}"
            if zeros[0]
            else f"division by {plural(zeros[1], 'zero')}"
        )
    if name in ("mul", "dot_general") and infs and sum(zeros):
        return f"{infs} Inf times 0"
    if name in ("add", "sub", "reduce_sum", "cumsum", "psum", "add_any") and infs:
        return f"infinities that cancel, {infs} Inf in its operands"
    if infs:
        return f"{infs} Inf in its operands"
    return "operands that are finite"


def _no_number(x: Any) -> bool:
    return isinstance(x, KeyArray) or not hasattr(x, "dtype") or np.dtype(x.dtype).kind not in "fiu"


def _count(x: Any, test: Any) -> int:
    parts = (
        [np.asarray(s.data) for s in x.addressable_shards]
        if hasattr(x, "addressable_shards")
        else [np.asarray(x)]
    )
    return sum(int(test(p.astype(np.float64)).sum()) for p in parts)


def _nan(x: Any) -> bool:
    return holds(x, np.isnan)


def _infinite(x: Any) -> bool:
    return holds(x, np.isinf)


def _odd(x: Any) -> bool:
    return holds(x, lambda part: ~np.isfinite(part))
