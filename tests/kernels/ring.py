"""Algorithms of several cores: a ring all-reduce, and a pipeline from a producer to consumers."""

from __future__ import annotations

import xlab
from xlab import lax
from xlab.kernels import (
    CoreMesh,
    MemorySpace,
    SemaphoreType,
    mpmd_map,
    semaphore_signal,
    semaphore_wait,
)

SHARED = MemorySpace.SHARED


def all_reduce(x, *, interpret, acknowledge=True):
    """Each row of `x` is what one core has; each core ends with the sum of all rows.

    A row is cut into as many chunks as there are cores. Chunks go around the ring twice: first each core adds its own to what
    comes by, then the sums are handed on. A core has a mailbox of one chunk, one semaphore that says it is full, and one that
    says it is empty again. Without the latter (`acknowledge=False`) a fast neighbor overwrites what was not yet read.
    """
    cores, n = x.shape
    chunk = n // cores

    def core(x_ref, o_ref, mail, full, empty):
        me = lax.axis_index("core")
        right = lax.rem(me + 1, cores)

        def part(k):
            return xlab.ref.ds(lax.rem(me - k + 2 * cores, cores) * chunk, chunk)

        o_ref[me] = x_ref[me]
        steps = 2 * (cores - 1)
        for step in range(steps):
            if step and acknowledge:
                semaphore_wait(empty.at[right])
            mail[right] = o_ref[me, part(step)]
            semaphore_signal(full.at[right])
            semaphore_wait(full.at[me])
            if step < cores - 1:
                o_ref[me, part(step + 1)] += mail[me]
            else:
                o_ref[me, part(step + 1)] = mail[me]
            if step < steps - 1 and acknowledge:
                semaphore_signal(empty.at[me])

    return mpmd_map(
        [(CoreMesh("core", cores), core)],
        xlab.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            SHARED((cores, chunk), x.dtype),
            SemaphoreType.REGULAR((cores,)),
            SemaphoreType.REGULAR((cores,)),
        ],
        interpret=interpret,
    )(x)
