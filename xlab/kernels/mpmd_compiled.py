"""The compiled path of `mpmd_map`: the cores of each pair one after the other, on values.

Buffers of the call are handed from core to core, memory of a core starts anew on each. That is right as long as no core waits for
a later one. Pairs that wait for one another become one straight program (`static_schedule.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlab.core.refs import AbstractRef
from xlab.interpreters.discharge import discharge_jaxpr
from xlab.kernels.compiled import eval_on_grid
from xlab.kernels.pairs import CALL, MpmdFunction, pairs_of
from xlab.kernels.static_schedule import one_by_one, straight_line, synchronizes
from xlab.lax.arithmetic import div, rem
from xlab.lax.control.loops import fori_loop
from xlab.lax.refs import uninitialized


def mpmd_on_values(operands: Sequence[Any], params: Mapping[str, Any]) -> list:
    """Runs an `mpmd_map` on arrays; returns the outputs.

    Args:
        operands: arguments, then what is captured.
        params: those of the equation.
    """
    pairs = pairs_of(params, len(operands))
    n_in, n_out = len(operands), len(params["out_avals"])
    values = buffers(operands, params, pairs[0])
    name = params["name"] or pairs[0].jaxpr.jaxpr.debug_info.name
    if synchronizes(pairs):
        if len(pairs) > 1:
            return straight_line(name, pairs, values)[n_in : n_in + n_out]
        finals = one_by_one(name, pairs[0], values)
        if finals is not None:
            return finals[n_in : n_in + n_out]
    for pair in pairs:
        values = _run_pair(pair, values)
    return values[n_in : n_in + n_out]


def buffers(operands: Sequence[Any], params: Mapping[str, Any], pair: MpmdFunction) -> list:
    """The first value of each reference: operands, outputs (that of an alias, else uninitialized), and scratch."""
    n_in = len(operands)
    aliased = {n_in + o: operands[i] for i, o in params["input_output_aliases"]}
    return [
        operands[k] if k < n_in else aliased[k] if k in aliased else uninitialized(ref.inner_aval)
        for k, ref in enumerate(pair.ref_avals)
    ]


def _run_pair(pair: MpmdFunction, values: list) -> list:
    """The values of the references after all cores of a pair have run, in order."""
    body, written = discharge_jaxpr(pair.jaxpr, [type(a) is AbstractRef for a in pair.ref_avals])
    changing = [k for k in written if pair.owners[k] == CALL]
    sizes = [np.int32(n) for n in pair.mesh.shape.values()]

    def core(position, changed):
        args = list(values)
        for k, x in zip(changing, changed):
            args[k] = x
        finals = dict(zip(written, eval_on_grid(body, args, position, sizes)))
        return [finals[k] for k in changing]

    changed = [values[k] for k in changing]
    if len(pair.cores) == 1:
        changed = core([np.int32(0)] * len(sizes), changed)
    else:
        changed = fori_loop(
            np.int32(0),
            np.int32(len(pair.cores)),
            lambda i, changed: core(_position(i, sizes), changed),
            changed,
        )
    out = list(values)
    for k, x in zip(changing, changed):
        out[k] = x
    return out


def _position(i, sizes: Sequence[np.int32]) -> list:
    """The coordinates of core `i`, the last axis fastest."""
    out = []
    for axis, n in enumerate(sizes):
        after = math.prod(map(int, sizes[axis + 1 :]))
        at = div(i, np.int32(after)) if after > 1 else i
        out.append(rem(at, n) if axis else at)
    return out
