"""Who made the first NaN: a path backwards from a result that has one, through the equations that passed it on, to what caused it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlab.core.array import KeyArray
from xlab.core.jaxpr import Literal, Var
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.observe.records import Step
from xlab.observe.records.nan_path import NanPath
from xlab.observe.records.stepper import writes_nan
from xlab.observe.records.units import plural
from xlab.observe.stepping.breakpoints import holds
from xlab.observe.stepping.machine import Executed
from xlab.observe.stepping.stepper import Stepper

LONGEST = 64
"""Equations of a path that are kept: of a longer one its beginning, those around the one that made the NaN, and its end."""

_BEGIN, _AROUND, _END = 8, 20, 16


class Made(NamedTuple):
    """A step of which a result has a NaN or an infinity: where it stands, and what it did.

    `since` is the latest step before it that is no deeper: what is between them is in its programs.
    """

    at: int
    done: Executed
    step: Step
    since: int


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
    latest: dict[int, int] = {}
    while not stepper.finished:
        done = stepper._advance(stepper.into)
        if done is None:
            break
        depth = len(done.path)
        since = max((at for d, at in latest.items() if d <= depth), default=-1)
        latest[depth] = stepper.index - 1
        if any(map(_odd, done.outputs)):
            step = stepper._record_of(done)
            assert step is not None
            by_value.update((id(x), len(made)) for x in done.outputs)
            made.append(Made(step.index, done, step, since))
    name = stepper.stages.name
    ends = _ends(stepper, made)
    if not ends:
        infinite = sum(any(map(_infinite, m.done.outputs)) for m in made)
        said = f"{plural(infinite, 'equation')} gave infinities" if infinite else ""
        return NanPath(name, origin=said, made_by=stepper.made_by)
    numbers, origin = _first(stepper, ends, by_value, made)
    steps = [made[n] for n in numbers]
    maker = next(n for n, m in enumerate(steps) if any(map(_nan, m.done.outputs)))
    given = any(map(_nan, steps[maker].done.inputs)) and not writes_nan(steps[maker].step)
    maker = -1 if given else maker  # an argument came with it
    outs = steps[-1].step.outputs
    result = next((v.note or v.name for v in outs if v.nans), "")
    kept = _kept(len(steps), max(maker, 0))
    words = [_words(steps[n], n == maker) for n in kept]
    for i, (n, before) in enumerate(zip(kept[1:], kept), 1):
        if n > before + 1:
            words[i] += f", after {plural(n - before - 1, 'equation')} that are not shown"
    return NanPath(
        name,
        tuple(steps[n].step for n in kept),
        tuple(words),
        kept.index(maker) if maker >= 0 else -1,
        origin,
        f"`{result}`",
        stepper.made_by,
        len(steps) if len(kept) < len(steps) else 0,
    )


def _kept(count: int, maker: int) -> list[int]:
    """Which steps of a path are shown."""
    if count <= LONGEST:
        return list(range(count))
    around = range(maker - _AROUND, maker + _AROUND)
    return sorted({*range(_BEGIN), *around, *range(count - _END, count)} & {*range(count)})


def _ends(stepper: Stepper, made: Sequence[Made]) -> list[int]:
    """The steps that made the program's results which have a NaN; of a program that lost its NaN on the way, the latest that had one."""
    # One that the program writes and nothing takes, for a case that did not come, is nobody's fault.
    found = [
        n for n, m in enumerate(made) if any(map(_nan, m.done.outputs)) and not writes_nan(m.step)
    ]
    results = {v for v in stepper.stages.closed.jaxpr.outvars if isinstance(v, Var)}
    gave = lambda m: any(
        v in results and _nan(x) for v, x in zip(m.done.eqn.outvars, m.done.outputs)
    )
    return [n for n in found if not made[n].done.path and gave(made[n])] or found[-1:]


def _first(
    stepper: Stepper, ends: Sequence[int], by_value: dict[int, int], made: Sequence[Made]
) -> tuple[list[int], str]:
    """Of all ways from results back to their causes the one with the earliest NaN, in the order its steps ran, and what it begins at."""
    before: dict[int, tuple[list[int], str]] = {}
    todo = list(ends)
    while todo:
        n = todo.pop()
        if n not in before:
            inside = _inside(made, n)
            before[n] = (inside, "") if inside else _blamed(stepper, made[n], by_value, made)
            todo.extend(before[n][0])
    earliest: dict[int, int] = {}
    for n in sorted(before):  # causes stand before what they cause
        causes = [earliest[c] for c in before[n][0] if any(map(_nan, made[c].done.outputs))]
        earliest[n] = min(causes, default=n)
    way = [min(ends, key=lambda n: (earliest[n], n))]
    while before[way[-1]][0]:
        way.append(min(before[way[-1]][0], key=lambda n: (earliest[n], -n)))
    return way[::-1], before[way[-1]][1]


def _inside(made: Sequence[Made], number: int) -> list[int]:
    """Of the equation of a program that was walked through: the steps in it that made the like of its results.

    A result that is passed from iteration to iteration is made by the last; one that has a row of each, by the first whose row has it.
    """
    here = made[number]
    if not _leaves(here):
        return []
    depth = len(here.done.path)
    odd = _nan if any(map(_nan, here.done.outputs)) else _odd
    within = [n for n in range(number) if made[n].at > here.since]
    flow = flow_of(here.done.eqn)
    rows = flow.num_carry if isinstance(flow, LoopFlow) else len(here.done.outputs)
    found = []
    for k, result in enumerate(here.done.outputs):
        if not odd(result):
            continue
        makers = (
            n for n in (within if k >= rows else reversed(within)) if _gives(made[n], depth, k, odd)
        )
        found.extend([*makers][:1])
    if found:
        return list(dict.fromkeys(found))
    return [n for n in within if any(map(odd, made[n].done.outputs))][-1:]


def _gives(m: Made, depth: int, k: int, odd: Any) -> bool:
    """Whether a step makes the k-th result of the program it is in, where that stands so deep, with the like in it."""
    outs = m.done.jaxpr.outvars
    return (
        len(m.done.path) == depth + 1
        and k < len(outs)
        and any(v is outs[k] and odd(x) for v, x in zip(m.done.eqn.outvars, m.done.outputs))
    )


def _leaves(here: Made) -> bool:
    """Whether a step ended a program that was walked through."""
    return flow_of(here.done.eqn) is not None


def _blamed(
    stepper: Stepper, here: Made, by_value: dict[int, int], made: Sequence[Made]
) -> tuple[list[int], str]:
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
                return [n], ""
            return [], _called(stepper, here, atom)
        if any(map(_nan, inputs)):
            break
    named = [_called(stepper, here, a) for a in eqn.invars if not isinstance(a, Literal)]
    return [], " and ".join(dict.fromkeys(named))


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
