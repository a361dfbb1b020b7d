"""Queries of the transformations around the current code."""

from __future__ import annotations

from collections.abc import Iterator

from xlab.core.trace import Trace, state
from xlab.interpreters import batching
from xlab.interpreters import partial_eval as pe


def _traces() -> Iterator[Trace]:
    trace = state.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether code that runs now is being traced by `jit`."""
    return any(isinstance(t, pe.DynamicJaxprTrace) and not isinstance(t, pe.JaxprTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether code that runs now is being batched by `vmap`."""
    return any(isinstance(t, batching.BatchTrace) for t in _traces())
