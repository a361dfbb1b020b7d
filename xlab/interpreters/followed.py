"""A program of a function that Python sees the values of: what it does with these arguments, branches taken.

Tracing stops where Python needs a number. Where a run is followed and not prepared, the numbers are there: what has been recorded so far
is run when one is asked for, and recording goes on. The program is that of this run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.core.jaxpr import DebugInfo, Jaxpr, Literal, Var, results_of
from xlab.core.trace import EVAL, set_trace, state
from xlab.interpreters import partial_eval as pe


class _Known:
    """What Python gets for a traced value that is known."""

    def __init__(self, value: Any):
        self.value = value

    def concrete(self) -> Any:
        return self.value

    def disagreement(self) -> None:
        return None

    def _number(self, convert, name=None):
        return convert(self.value)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype, copy=copy)

    def __repr__(self):
        return repr(self.value)

    def __format__(self, spec):
        return format(self.value, spec)


class FollowedTrace(pe.DynamicJaxprTrace):
    """Records a program, and runs what it has recorded where Python asks for a value. Equations without results wait for the run itself."""

    __slots__ = ("_context", "_done", "_env", "_given", "parent")

    def __init__(self, label: str, arguments: Sequence):
        super().__init__(label)
        self.parent = EVAL
        self.look = lambda tracer: _Known(self.value(tracer))  # type: ignore[assignment, return-value]
        self._given, self._done = list(arguments), 0
        self._env: dict[Var, Any] = {}
        self._context = state.axes, state.manual, state.manual_mesh

    def new_input(self, aval):
        tracer = super().new_input(aval)
        self._env[tracer.variable] = self._given[len(self.invars) - 1]
        return tracer

    def value(self, x: Any) -> Any:
        """The value of one of its own; anything else is itself."""
        if x.__class__ is not pe.DynamicJaxprTracer or x._trace is not self:
            return x
        before = state.axes, state.manual, state.manual_mesh, state.source_info
        state.axes, state.manual, state.manual_mesh = self._context
        self._env.update(self.constants.values())
        try:
            with set_trace(EVAL):
                while self._done < len(self.eqns):
                    self._run(self.eqns[self._done])
                    self._done += 1
        finally:
            state.axes, state.manual, state.manual_mesh, state.source_info = before
        return self._env[x.variable]

    def _run(self, eqn) -> None:
        if not eqn.outvars:
            return
        state.source_info = eqn.raw_source_info
        operands = [a.val if type(a) is Literal else self._env[a] for a in eqn.invars]
        self._env.update(zip(eqn.outvars, results_of(eqn, operands)))


def following() -> FollowedTrace | None:
    """The trace that follows the run at hand, where operations go to it directly."""
    trace = state.trace
    return trace if type(trace) is FollowedTrace else None


def follow(
    fun: Callable, arguments: Sequence, avals: Sequence, debug_info: DebugInfo
) -> tuple[Jaxpr, list]:
    """The program of what a function of flat arguments does with these, and the values of its constants.

    Example:
        >>> import numpy as np
        >>> from xlab.core.avals import aval_of
        >>> from xlab.lax import mul, sin
        >>> f = lambda x: [sin(x)] if mul(x, x) > 3 else [x]
        >>> jaxpr, _ = follow(f, [np.float32(2)], [aval_of(np.float32(2))], DebugInfo("f", ("x",)))
        >>> [eqn.primitive.name for eqn in jaxpr.eqns]
        ['mul', 'gt', 'sin']
    """
    return pe.trace_to_jaxpr(
        fun, avals, debug_info, trace=FollowedTrace(debug_info.name, arguments)
    )
