"""The trace that interprets what is bound now: which it is, how to change it, and the traces around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xlab.core.trace import EVAL, Trace, set_trace, state
from xlab.core.trace import concrete_or_error as _concrete_or_error


class TraceTag:
    """A unique tag that identifies the traces of one transformation."""

    __slots__ = ()


def find_top_trace(values=()):
    """The current trace, which interprets primitives bound now."""
    return state.trace


def enclosing_traces() -> Iterator[Trace]:
    """The current trace and those around it, from the inside out."""
    trace: Trace | None = state.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None)


@contextmanager
def set_current_trace(trace: Trace | None, check_leaks: bool = False) -> Iterator[None]:
    """Makes `trace` the current one for a block."""
    with set_trace(EVAL if trace is None else trace):
        yield


@contextmanager
def take_current_trace():
    """Yields the current trace and makes the block evaluate eagerly."""
    previous = state.trace
    with set_trace(EVAL):
        yield previous


@contextmanager
def eval_context():
    """Primitives bound in the block are evaluated eagerly."""
    with set_trace(EVAL):
        yield


class OpaqueTraceState:
    """The current tracing state as an opaque value that can only be compared."""

    __slots__ = ("_key",)
    __hash__ = None  # type: ignore[assignment]  # how Python spells unhashable

    def __init__(self):
        self._key = (state.trace, tuple(state.axes), state.manual, state.manual_mesh, state.kernel)

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and all(map(_same, self._key, other._key))


def _same(a: Any, b: Any) -> bool:
    return a is b or (not hasattr(a, "process_primitive") and a == b)


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """A token for the state of tracing: compare it with a later one to see whether anything changed."""
    return OpaqueTraceState()


def unsafe_get_axis_names_DO_NOT_USE() -> list:
    """The axis names bound here."""
    return list(state.axes)


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether any axis name is bound here."""
    return bool(state.axes)


def concrete_or_error(force: Callable | None, val: Any, context: str = "") -> Any:
    """`force(val)` if the value is known while tracing; the concretization error otherwise.

    Example:
        >>> import numpy as np
        >>> concrete_or_error(int, np.float32(3.0))
        3
    """
    value = _concrete_or_error(val, context or "a concrete value is needed")
    return value if force is None else force(value)
