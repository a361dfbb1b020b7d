"""Keys between programs, under `config.debug_key_reuse`: concrete keys carry their `KeyUse`, and a call that uses one twice is an error.

Programs are followed by `interpreters/key_reuse.py`, which also says what counts as a use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlab.compile import runtime_checks
from xlab.core.array import KeyArray
from xlab.core.jaxpr import ClosedJaxpr, Jaxpr
from xlab.core.trace import describe_place
from xlab.interpreters.key_reuse import KeyUses, all_of, first_use, fresh, key_consumers, reused
from xlab.random.bits import random_bits_p, random_split_p


def cells_of(key):
    """The states of a concrete key array; None for other values."""
    if type(key) is not KeyArray:
        return None
    found = getattr(key, "_cells", None)
    if found is None:
        found = fresh(key.aval)
        if found is not None:
            key._cells = found
    return found


def use(name: str, key) -> None:
    """Consumes a key; raises if it was consumed before."""
    cells = cells_of(key)
    if cells is None:
        return
    where = f"{name} at {describe_place()}"
    for cell in cells.flat:
        first = first_use(cell)
        if first:
            raise reused(where, first)
    for cell in cells.flat:
        for one in all_of(cell):
            one.used = where


def _check(name: str, closed: ClosedJaxpr, flat: Sequence) -> Callable[[Sequence], None]:
    walk = KeyUses(f"jit({name})")
    jaxpr = closed.jaxpr
    inner = Jaxpr(
        (),
        [*jaxpr.constvars, *jaxpr.invars],
        jaxpr.outvars,
        jaxpr.eqns,
        debug_info=jaxpr.debug_info,
    )
    results = walk.run(inner, [*map(cells_of, closed.consts), *map(cells_of, flat)])

    def ran(outs):
        for cell, where in walk.spent.items():
            cell.used = where
        for x, cells in zip(outs, results):
            if type(x) is KeyArray and cells is not None:
                x._cells = np.asarray(cells)

    return ran


runtime_checks.watch_keys(runtime_checks.KeyWatch(_check, use, cells_of))
key_consumers[random_bits_p] = lambda params: (0,)
key_consumers[random_split_p] = lambda params: (0,)
