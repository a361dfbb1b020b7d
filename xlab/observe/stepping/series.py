"""One variable over a whole run: its value in every iteration, on every device."""

from __future__ import annotations

from typing import Any

from xlab.core.jaxpr import Literal
from xlab.observe.records.nan_path import Series, SeriesPoint
from xlab.observe.stepping.stepper import Stepper

MOST_POINTS = 2000


def series(fun: Any, *args: Any, name: str, by_letter: bool = False, **kwargs: Any) -> Series:
    """Runs a function equation by equation; what a variable was each time it had a value.

    Args:
        fun: a function with its arguments, or a `Stepper`, which is run from its start to its end.
        name: the user's name of the variable; where nothing has that name, its letter in the printed program.
        by_letter: whether `name` is the letter in any case.

    Raises:
        KeyError: no equation reads or gives a variable of this name.

    Example:
        >>> import numpy as np, xlab
        >>> turn = lambda c, t: (c * t, c)
        >>> found = series(lambda x: xlab.lax.scan(turn, 1.0, x), np.float32([2, 3, 4]), name="t")
        >>> [(p.path, p.value.max) for p in found.points]
        [(('scan 1/3',), 2.0), (('scan 2/3',), 3.0), (('scan 3/3',), 4.0)]
    """
    stepper = fun if isinstance(fun, Stepper) else Stepper(fun, *args, **kwargs)
    stepper.goto(0)
    found: dict[bool, list[SeriesPoint]] = {True: [], False: []}
    totals = {True: 0, False: 0}
    seen: set[tuple[Any, ...]] = set()
    while not stepper.finished:
        done = stepper._advance(stepper.into)
        if done is None:
            break
        if done.point is not None:
            continue
        # What an iteration is given counts where it is first read, what it makes where it is made.
        for atoms, values, given in (
            (done.eqn.invars, done.inputs, True),
            (done.eqn.outvars, done.outputs, False),
        ):
            for v, x in zip(atoms, values):
                if isinstance(v, Literal):
                    continue
                letter, note = stepper.names_of(done.jaxpr, v)
                named = note == name and not by_letter
                if not named and letter != name:
                    continue
                if given:
                    place = done.path, id(v)
                    if place in seen or v not in done.jaxpr.invars:
                        continue
                    seen.add(place)
                totals[named] += 1
                if len(found[named]) < MOST_POINTS:
                    value = stepper._value(x, letter, note, done.local)
                    found[named].append(
                        SeriesPoint(
                            stepper.index - 1, done.path, value.replace(heat=(), histogram=())
                        )
                    )
    named = totals[True] > 0
    if not totals[named]:
        raise KeyError(f"no equation reads or gives a variable {name!r}")
    return Series(name, tuple(found[named]), totals[named], stepper.made_by)
