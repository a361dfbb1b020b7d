"""Linearization: run a function once, keep its derivative there as a linear jaxpr.

The function runs on (primal, tangent) pairs; primals go to the current trace, tangents are recorded. What the recorded
part needs of the primals becomes its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlab.core.hi_states import typed
from xlab.core.hi_types import as_value, in_use
from xlab.core.trace import set_trace, state, transforming
from xlab.interpreters.ad.jvp import (
    JVPTrace,
    Zero,
    has_no_derivative,
    instantiate_zeros,
    nonzero_mask,
)
from xlab.interpreters.partial_eval import JaxprTrace


def linearize(
    fun: Callable, primals: Sequence, label: str = "a function", *, instantiate: bool = True
):
    """Evaluates a flat function and records its derivative.

    Returns:
        `(outs, nonzero_out, jaxpr, consts)`: `jaxpr` maps the tangents of all primals to the tangents of the outputs
        marked in `nonzero_out` (all of them with `instantiate`), given the values of its constants.
    """
    tangent_trace = JaxprTrace(state.trace, label)
    trace = JVPTrace(tangent_trace)
    args = []
    for p in primals:
        aval = typed(p).to_tangent_aval()
        t = tangent_trace.new_input(aval)
        # What has no derivative is not perturbed, though the program takes something for it.
        args.append(trace.pair(p, Zero(aval) if has_no_derivative(aval) else t))
    with set_trace(trace), transforming("jvp"):
        outs = fun(*args)
        if in_use.types:
            outs = list(map(as_value, outs))
        pairs = [trace.split(x) for x in outs]
    with set_trace(tangent_trace):
        tangents = [instantiate_zeros(t) if instantiate else t for _, t in pairs]
    nonzero = nonzero_mask(tangents)
    jaxpr, consts = tangent_trace.finish([t for t, nz in zip(tangents, nonzero) if nz])
    trace.alive = False
    return [p for p, _ in pairs], nonzero, jaxpr, consts
