"""Placements that were compiled: what the compiler says of them stands in the place of their estimates, and which one is compiled next."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from xlab.observe.records.machine import Machine
from xlab.observe.records.whatif import Placement, Spec

if TYPE_CHECKING:
    from xlab.observe.placing.experiment import Experiment

NEAR = 1.05
"""How much more than its estimate what is proven may cost before another is compiled."""

PATIENCE = 20.0
"""Seconds of compiling after which the first that is proven to be better is enough: a step of many layers over many devices takes half a
minute each, and who waits may have the next one compiled by `prove`."""

Axes = tuple[tuple[str, int], ...]
Specs = tuple[Spec, ...]
Key = tuple[Axes, Specs]


class Proofs:
    """The compiled placements of one search.

    Args:
        experiment: the program.
        machine: whose times are predicted.
        here: the mesh of the program, by its axes; one on another mesh is given all its specs anew.
        first: the present placement, whose failure to compile is an error; another that fails is no program.
        free: results that go where an argument of their type goes.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.placing.experiment import Experiment
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
        >>> x = xlab.device_put(np.ones((8, 8), np.float32), xlab.NamedSharding(mesh, xlab.P()))
        >>> made = Experiment(xlab.jit(lambda x: x @ x), x)
        >>> now = (("i", 1),), (((), ()),)
        >>> proofs = Proofs(made, made.machine, now[0], now, ())
        >>> proofs.compile(now) is proofs.compiled[now]
        True
    """

    def __init__(
        self,
        experiment: Experiment,
        machine: Machine,
        here: Axes,
        first: Key,
        free: tuple[int, ...],
    ):
        self.experiment, self.machine, self.here = experiment, machine, here
        self.first, self.free = first, free
        self.compiled: dict[Key, Placement | None] = {}
        self.seconds = 0.0

    def compile(self, key: Key) -> Placement | None:
        """A placement as the compiler made it, compiled once; None where it is no program."""
        if key not in self.compiled:
            begun = time.perf_counter()
            axes, specs = key
            here = axes == self.here
            present = self.first[1]
            given = {n: s for n, s in enumerate(specs) if not here or s != present[n]}
            try:
                self.compiled[key] = self.experiment.compiled(
                    given,
                    None if here else dict(axes),
                    "",
                    self.machine,
                    () if key == self.first else self.free,
                )
            except (ValueError, NotImplementedError, RuntimeError):
                if key == self.first:
                    raise
                self.compiled[key] = None
            self.seconds += time.perf_counter() - begun
        return self.compiled[key]

    def following(
        self,
        count: int,
        better: Iterable[Key],
        named: Container[Key],
        cost: Callable[[Key], tuple[bool, float]],
    ) -> Key | None:
        """What to compile after so many; None where what is proven is enough. Every second one is of those that have a name, if there are
        any: the estimate of the best may say too much of all that are like it."""
        better = list(better)
        proven = min((k for k in better if k in self.compiled), key=cost, default=None)
        others = [k for k in better if k not in self.compiled]
        if count % 2:
            others = [k for k in others if k in named] or others
        best = min(others, key=cost, default=None)
        if best is None or proven is None:
            return best
        enough = self.seconds > PATIENCE or cost(proven) <= (False, NEAR * cost(best)[1])
        return None if enough else best
