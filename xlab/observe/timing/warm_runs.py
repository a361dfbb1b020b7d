"""`warm_us`: how long a run of a compiled program takes on the devices that are here; what a change is proven with beside its prediction."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlab import events
from xlab.backend import client
from xlab.core.avals import ShapedArray
from xlab.core.jaxpr import Jaxpr, open_jaxpr
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.observe.programs.recorder import paused
from xlab.observe.programs.rewriting import shardings_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.timing.phases import wait
from xlab.parallel.put import device_put

MOST = 2.0
"""Seconds after which the runs end."""
RUNS = 10
"""Runs of which the shortest counts: what else goes on can only add to it."""


def warm_us(stages: ProgramStages, given: Sequence[Any] = ()) -> float | None:
    """Microseconds of a steady run of a program; None where it cannot be run for its time alone.

    It is not run where a device is not here, where it has effects, and where the values that it would get are needed to end it: a loop of
    unknown length without the arguments it was given.

    Args:
        given: the values of its arguments, as far as they are known and alive; others are ones.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.observe.programs.stages import program_stages
        >>> warm_us(program_stages(xlab.jit(lambda x: x + 1), (np.ones(4, np.float32),))) > 0
        True
    """
    jaxpr, avals = stages.closed.jaxpr, stages.closed.in_avals
    fitting = _fits(avals, given)
    if jaxpr.effects or not (fitting or _ends(jaxpr)):
        return None
    if not set(stages.lowered.devices) <= set(client.devices()):
        return None
    if not all(
        (type(a) is ShapedArray and np.dtype(a.dtype).kind != "V") or fitting for a in avals
    ):
        return None
    values = list(given) if fitting else [np.ones(a.shape, a.dtype) for a in avals]
    spent = []
    with paused(), contextlib.suppress(ValueError, TypeError, RuntimeError):
        executable = stages.executable
        places = shardings_of(stages)
        put = lambda n: values[n] if places[n] is None else device_put(values[n], places[n])
        donated = set(stages.lowered.donated)
        flat = [None if n in donated else put(n) for n in range(len(values))]
        begin = events.clock()
        for n in range(RUNS + 2):
            if n > 2 and events.clock() - begin > 1e9 * MOST:
                break
            # What a run takes for itself is made anew before it, and never the user's own.
            here = [
                device_put(np.array(values[k]), places[k]) if k in donated else x
                for k, x in enumerate(flat)
            ]
            wait(here)
            start = events.clock()
            wait(executable.call(here))
            spent.append((events.clock() - start) / 1e3)
    return min(spent[1:], default=None)


def _fits(avals: Sequence[Any], given: Sequence[Any]) -> bool:
    """Whether values are those of a program's arguments, and alive."""
    return len(avals) == len(given) and all(
        getattr(x, "shape", None) == a.shape
        and getattr(x, "dtype", None) == a.dtype
        and not (hasattr(x, "is_deleted") and x.is_deleted())
        for a, x in zip(avals, given)
    )


def _ends(jaxpr: Jaxpr) -> bool:
    """Whether a program ends whatever its arguments are: it has no loop of unknown length."""
    for eqn in jaxpr.eqns:
        flow = flow_of(eqn)
        if type(flow) is LoopFlow and flow.length is None:
            return False
        if flow is not None and not all(_ends(open_jaxpr(inner)) for _, inner in flow.jaxprs):
            return False
    return True
