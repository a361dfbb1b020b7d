"""A ring all-reduce, over cores that share memory and over devices that send."""

from __future__ import annotations

import xlab
from xlab import lax
from xlab.kernels import (
    BlockSpec,
    CoreMesh,
    MemorySpace,
    PrefetchGridSpec,
    SemaphoreType,
    kernel_call,
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
            return xlab.ds(lax.rem(me - k + 2 * cores, cores) * chunk, chunk)

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


def all_reduce_over_devices(x, axis_name, *, interpret=True):
    """The same inside a `shard_map`, each device with its row: kernels put the chunks in place, `ppermute` sends them on."""
    devices = lax.axis_size(axis_name)
    me = lax.axis_index(axis_name)
    chunk = x.shape[0] // devices
    ring = [(d, (d + 1) % devices) for d in range(devices)]

    def place(kernel, k, total, got):
        """`total` with what `kernel` makes of its `k`-th chunk and of `got`; the other chunks stay."""
        spec = PrefetchGridSpec(
            num_scalar_prefetch=1,
            grid=1,
            in_specs=[BlockSpec((chunk,), lambda _, k: (k[0],)), BlockSpec()],
            out_specs=BlockSpec((chunk,), lambda _, k: (k[0],)),
        )
        return kernel_call(
            kernel,
            xlab.ShapeDtypeStruct(total.shape, total.dtype),
            grid_spec=spec,
            input_output_aliases={1: 0},
            interpret=interpret,
        )(k[None], total, got)

    def add(_, total_ref, got_ref, o_ref):
        o_ref[...] = total_ref[...] + got_ref[...]

    def put(_, total_ref, got_ref, o_ref):
        o_ref[...] = got_ref[...]

    for step in range(2 * (devices - 1)):
        here, before = (lax.rem(me - k + 2 * devices, devices) for k in (step, step + 1))
        sent = lax.dynamic_slice_in_dim(x, here * chunk, chunk)
        got = lax.ppermute(sent, axis_name, ring)
        x = place(add if step < devices - 1 else put, before, x, got)
    return x
