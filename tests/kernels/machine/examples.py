"""Kernels that several tests of the value interpreter run."""

from __future__ import annotations

import numpy as np

import xlab
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    CoreMesh,
    MemorySpace,
    SemaphoreType,
    kernel_call,
    mpmd_map,
    program_id,
    semaphore_signal,
    semaphore_wait,
    when,
)

SDS = xlab.ShapeDtypeStruct
P = CoreMesh("p", 1, core_type="scalar")
Q = CoreMesh("q", 2, core_type="vector")


def matmul(m=4, n=4, k=4, b=8, dtype="float32", **options):
    """A tiled matmul, and its operands."""

    def kernel(x, y, o):
        @when(program_id(2) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        o[...] += x[...] @ y[...]

    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (m * b, k * b)).astype(dtype)
    y = rng.integers(-9, 9, (k * b, n * b)).astype(dtype)
    call = kernel_call(
        kernel,
        SDS((m * b, n * b), dtype),
        grid=(m, n, k),
        in_specs=[
            BlockSpec((b, b), lambda i, j, k: (i, k)),
            BlockSpec((b, b), lambda i, j, k: (k, j)),
        ],
        out_specs=BlockSpec((b, b), lambda i, j, k: (i, j)),
        **options,
    )
    return call, x, y


def add_one(n=10, b=4, dtype="float32", **options):
    """`x + 1` in blocks that do not divide the array."""

    def kernel(x, o):
        o[...] = x[...] + jnp.ones((), dtype)

    block = BlockSpec((b,), lambda i: (i,))
    call = kernel_call(
        kernel, SDS((n,), dtype), grid=-(-n // b), in_specs=[block], out_specs=block, **options
    )
    return call, np.arange(n).astype(dtype)


def worked(semaphores=True, **options):
    """The example of the specification: P writes b[0] and b[1], core k of Q reads b[k]."""

    def p(out, b, sem):
        b[0] = jnp.int32(10)
        if semaphores:
            semaphore_signal(sem.at[0])
        b[1] = jnp.int32(20)
        if semaphores:
            semaphore_signal(sem.at[1])

    def q(out, b, sem):
        k = xlab.lax.axis_index("q")
        if semaphores:
            semaphore_wait(sem.at[k])
        out[k] = b[k] + 1

    return mpmd_map(
        [(P, p), (Q, q)],
        SDS((2,), "int32"),
        scratch_shapes=[MemorySpace.SHARED((2,), "int32"), SemaphoreType.REGULAR((2,))],
        **options,
    )
