"""A stage of `jit` as a function: called with the arguments it was made for, it runs; looked at, it is the stage."""

from __future__ import annotations

import functools
from typing import Any

from xlab.compile import ahead
from xlab.compile.stages import Compiled, Lowered, Traced
from xlab.core.hi_types import is_high


class StageFunction:
    """What a call of a `Traced`, `Lowered` or `Compiled` is about. Calling it compiles the stage where that is still to do.

    Args:
        stage: the stage.
        given: keyword arguments that calls leave out.

    Example:
        >>> import numpy as np, xlab
        >>> f = StageFunction(xlab.jit(lambda x: x + 1, name="f").lower(np.float32(1)))
        >>> f.__name__, float(f(np.float32(2)))
        ('f', 3.0)
    """

    def __init__(self, stage: Traced | Lowered | Compiled, given: dict[str, Any] | None = None):
        self.stage, self.given = stage, given or {}
        self.__name__ = self.traced.fun_name

    @property
    def traced(self) -> Traced:
        """The stage that all others were made of."""
        return self.stage if isinstance(self.stage, Traced) else self.lowered.traced

    @functools.cached_property
    def lowered(self) -> Lowered:
        """What is compiled."""
        if isinstance(self.stage, Compiled):
            return self.stage.lowered
        return self.stage.lower() if isinstance(self.stage, Traced) else self.stage

    @functools.cached_property
    def compiled(self) -> Compiled:
        """What runs."""
        return self.stage if isinstance(self.stage, Compiled) else self.lowered.compile()

    @property
    def is_compiled(self) -> bool:
        """Whether a call compiles nothing any more."""
        if isinstance(self.stage, Compiled) or self.lowered._compiled is not None:
            return True
        low = self.lowered._lowered
        found = self.traced._owner.executables.get(low.key) if low.key else None
        return found is not None and found.lowered is low

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **self.given, **kwargs)

    def check(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Refuses arguments of another structure or of other types than those that the stage was made for.

        Raises:
            TypeError: with every mismatch.
        """
        traced = self.traced
        names = traced.jaxpr.jaxpr.debug_info.arg_names
        flat = ahead.leaves(
            traced._owner,
            traced._static,
            traced.in_tree,
            names[: traced.in_tree.num_leaves],
            args,
            {**self.given, **kwargs},
        )
        avals = traced.jaxpr.in_avals
        if not any(map(is_high, avals)):
            ahead.check_types(self.__name__, avals, names, flat)
