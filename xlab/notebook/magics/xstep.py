"""`%xstep f(x)`: runs a program equation by equation and shows every value on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from IPython.core.magic import Magics, line_magic, magics_class

from xlab import device_put, observe
from xlab.collector import paused
from xlab.core.array import is_native_array
from xlab.notebook import formatters
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import STATIC, call_of, jitted
from xlab.observe.records import Record, Step, Value
from xlab.observe.stepping.breakpoints import breakpoints_of
from xlab.observe.stepping.nan_path import path_in

ENTRIES = 4096
"""Entries of one value that a page may be sent."""

LONGEST = 200_000
"""Characters of a value that a page may send."""

BUDGET = 1 << 28
"""Bytes that the snapshots of one output may keep alive."""


def mover(stepper: Any) -> Callable[[str, int, int], Step]:
    """Answers a live stepper's requests: from the step that is shown to the one asked for.

    Every step of nested programs counts, so that numbers mean the same steps as in the recorded run.

    Example:
        >>> import xlab.numpy as jnp
        >>> move = mover(observe.Stepper(lambda x: jnp.sin(x) * 2 + 1, jnp.ones(3)))
        >>> [move(how, 1, -1).index for how in ("goto", "next", "over", "back", "first", "last", "nan")]
        [1, 2, 2, 0, 0, 2, 1]
    """

    def deep(step: Step | None) -> int:
        return len(step.path) if step is not None else 0

    def until(test: Callable[[Step], bool]) -> Step | None:
        while (step := stepper.next()) is not None:
            if test(step):
                return step
        return None

    def move(how: str, index: int, equation: int) -> Step:
        # What steps leave is kept; to walk over the records of a long program would now and then be most of a step's time.
        with paused(stays=True):
            return moved(how, index, equation)

    def moved(how: str, index: int, equation: int) -> Step:
        here = stepper.goto(index + 1)
        if how in ("first", "back"):
            return stepper.goto(index if how == "back" and index > 0 else 1)
        found = here
        if how == "next":
            found = stepper.next()
        elif how == "last":
            found = stepper.goto(1 << 62)
        elif how == "nan":
            found = stepper.run_to_nan()
        elif how == "cursor":
            found = until(lambda step: step.equation == equation)
        elif how == "over":
            found = until(lambda step: len(step.path) <= deep(here))
        elif how == "out":
            found = until(lambda step: len(step.path) < deep(here)) if here.path else None
        elif how == "into":
            found = until(lambda step: len(step.path) > deep(here))
        return found or stepper.goto(index + 1)

    return move


def numbers(text: str) -> np.ndarray:
    """Checks a value that a page sent: a number, or nested lists of numbers, and nothing else.

    Raises:
        ValueError: it is anything else.

    Example:
        >>> numbers("[1, -2.5e3, NaN]").tolist()
        [1.0, -2500.0, nan]
    """
    try:
        value = json.loads(text[:LONGEST]) if len(text) <= LONGEST else None
        made = np.asarray(value)
    except (ValueError, RecursionError):
        made = np.asarray(None)
    if made.dtype.kind not in "iuf":
        raise ValueError(
            f"a value is a number or nested lists of numbers, such as 0.5 or [[1, 2], [3, NaN]]; given {text[:60]!r}"
        )
    return made


def handlers(stepper: Any) -> dict[str, Callable[..., Record]]:
    """The request handlers of a live stepper.

    Example:
        >>> import xlab.numpy as jnp
        >>> ask = handlers(observe.Stepper(lambda x: jnp.log(jnp.sin(x) * 2), jnp.ones(3)))
        >>> ask["replace"](index=1, name="c", value="0").outputs[0].max
        0.0
        >>> ask["run"](index=1, breakpoints="inf").outputs[0].infs
        3
        >>> ask["restore"](index=2).outputs[0].infs, len(ask["whole"](index=2, name="d").preview)
        (0, 3)
    """

    def run(index: int, breakpoints: str) -> Step:
        stepper.breakpoints = list(breakpoints_of(breakpoints))
        stepper.goto(index + 1)
        try:
            return stepper.run() or stepper.goto(index + 1)
        finally:
            stepper.breakpoints = []

    def replace(index: int, name: str, value: str) -> Step:
        given = numbers(value)
        here = stepper.goto(index + 1)
        old = stepper.value(name)
        new = np.broadcast_to(given, np.shape(old)) if not given.ndim else given
        if is_native_array(old) and len(old.sharding.device_set) > 1 and new.shape == old.shape:
            new = device_put(np.asarray(new).astype(old.dtype), old.sharding)
        stepper.replace(name, new)
        return here.replace(
            outputs=tuple(v for v in stepper.live() if v.name == name), text=f"{name} replaced"
        )

    def restore(index: int) -> Step:
        stepper.forget_replacements()
        return stepper.goto(index + 1)

    def whole(index: int, name: str) -> Value:
        stepper.goto(index + 1)
        value = stepper.value(name)
        short = next((v for v in stepper.live() if v.name == name), None) or observe.summarize(
            value, name
        )
        flat = np.asarray(getattr(value, "base", value)).reshape(-1)[:ENTRIES]
        flat = flat.astype(np.float32) if flat.dtype.kind == "V" else flat
        return short.replace(
            preview=tuple(str(x) if flat.dtype.kind == "c" else x.item() for x in flat)
        )

    return {
        "move": mover(stepper),
        "run": run,
        "replace": replace,
        "restore": restore,
        "whole": whole,
        "blame": lambda: path_in(stepper),
        "series": lambda name: observe.series(stepper, name=name, by_letter=True),
    }


def parting(a: Any, b: Any) -> str:
    """The first difference of two runs, as text.

    Example:
        >>> import xlab.numpy as jnp
        >>> print(parting(*(observe.Stepper(lambda x: jnp.exp(jnp.floor(x)), jnp.float32(v)) for v in (0.4, 1.4))))
        The runs part at step 1: b:f32[] = floor a
          here   b  f32[]  0 … 0
          there  b  f32[]  1 … 1
    """
    found = observe.first_difference(a, b)
    if found is None:
        return "The runs agree: no result differs by more than 1 part in 1,000."
    here, there = found
    rows = [
        f"  {word:5}  {v.name}  {v.type}  {'no finite entry' if v.min is None else f'{v.min:.6g} … {v.max:.6g}'}"
        for p, q in zip(here.outputs, there.outputs)
        for word, v in (("here", p), ("there", q))
    ]
    where = f" ({' ▸ '.join(here.path)})" if here.path else ""
    return "\n".join([f"The runs part at step {here.index + 1}{where}: {here.text}", *rows])


@magics_class
class Xstep(Magics):
    """`%xstep`."""

    @line_magic
    @takes(
        "f(x, y)",
        Option("against", "first say where the two runs part", "f(x, z)", python=True),
        STATIC,
    )
    def xstep(self, given: SimpleNamespace) -> None:
        """Runs a call equation by equation on the real devices; the output can be scrubbed forwards and backwards."""
        start = self._start(given.rest, given.static)
        if given.against:
            print(parting(start(), self._start(given.against, given.static)()))
        stepper = start()
        if said := stepper.compared():
            print(said)  # what is shown says whose rules they are
            stepper.goto(0)
        formatters.show(stepper.trace(), handlers=handlers(stepper))

    def _start(self, text: str, static: str | None) -> Callable[[], observe.Stepper]:
        """Makes steppers of a call."""
        fun, args, kwargs, _ = call_of(self.shell, text, "xstep")
        if static:
            fun = jitted(self.shell, fun, static, args, kwargs)
        return lambda: observe.Stepper(fun, *args, budget=BUDGET, **kwargs)
