"""Says which values of a trace are still held by somebody when it ends."""

from __future__ import annotations

import gc

from xlab.errors import LeakedTracerError


def check_leaks(trace) -> None:
    """Raises `LeakedTracerError` where values that the trace made, and remembers in `leaks`, outlive it."""
    if any(r() is not None for r in trace.leaks):
        gc.collect()  # what only a cycle holds has not escaped; nothing else may hold it meanwhile
    if leaked := [r() for r in trace.leaks if r() is not None]:
        tracer = leaked[0]
        holders = [type(h).__name__ for h in gc.get_referrers(tracer) if h is not leaked][:3]
        raise LeakedTracerError(
            f"tracing {trace.label} left {len(leaked)} traced value(s) behind: the first is {tracer._describe()}, "
            f"still held by {', '.join(holders) or 'an unknown object'}. Return it from the function instead of "
            f"storing it."
        )
