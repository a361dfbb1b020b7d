"""`%xstep f(x)`: runs a program equation by equation and shows every value on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import displays
from xlab.notebook.magics.base import call_of, told
from xlab.observe.records import Step

BUDGET = 1 << 28
"""Bytes that the snapshots of one output may keep alive."""


def mover(stepper: Any) -> Callable[[str, int, int], Step]:
    """Answers a live stepper's requests: from the step that is shown to the one asked for.

    Example:
        >>> import xlab.numpy as jnp
        >>> move = mover(observe.Stepper(lambda x: jnp.sin(x) * 2 + 1, jnp.ones(3)))
        >>> [move(how, 1, -1).index for how in ("goto", "next", "back", "first", "last", "nan")]
        [1, 2, 0, 0, 2, 1]
    """
    ways = {"next": stepper.over, "into": stepper.next, "out": stepper.out, "last": stepper.run,
            "nan": stepper.run_to_nonfinite}

    def move(how: str, index: int, equation: int) -> Step:
        here = stepper.goto(index + 1)
        if how in ("first", "back"):
            return stepper.goto(index if how == "back" and index > 0 else 1)
        if how == "cursor":
            found = stepper.run_to(equation=equation)
            return stepper.next() or found or here
        found = ways[how]() if how in ways else None
        return found or stepper.goto(index + 1)

    return move


@magics_class
class Xstep(Magics):
    """`%xstep`."""

    @line_magic
    @told
    def xstep(self, line: str) -> None:
        """Runs a call equation by equation on the real devices; the output can be scrubbed forwards and backwards.

        %xstep loss(params, x)
        """
        fun, args, kwargs, _ = call_of(self.shell, line, "xstep")
        stepper = observe.Stepper(fun, *args, budget=BUDGET, **kwargs)
        displays.show(stepper.trace(), handlers={"move": mover(stepper)})
