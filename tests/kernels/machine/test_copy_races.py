"""Races of one core with its own copies, and signals to cores that are not there (K24, K25, K93)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.machine.examples import SDS
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    CoreMesh,
    InterpretParams,
    MemorySpace,
    SemaphoreType,
    kernel_call,
    make_async_copy,
    mpmd_map,
    semaphore_signal,
    when,
)
from xlab.kernels.machine import KernelRunError, Machine

SCRATCH = [MemorySpace.LOCAL((4,), "float32"), SemaphoreType.DMA]


def races(kernel, mode, scratch=SCRATCH, shape=(4,)):
    x = jnp.arange(float(np.prod(shape))).reshape(shape)
    params = InterpretParams(detect_races=True, dma_execution_mode=mode)
    machine = Machine(
        kernel_call(kernel, SDS(shape, "float32"), scratch_shapes=scratch), x, params=params
    )
    (out,) = machine.run()
    return machine.races, out


def reads_too_early(x_ref, o_ref, buffer, sem):
    copy = make_async_copy(x_ref, buffer, sem)
    copy.start()
    o_ref[...] = buffer[...]
    copy.wait()


def overwrites_the_source(x_ref, o_ref, buffer, sem):
    buffer[...] = x_ref[...]
    copy = make_async_copy(buffer, o_ref, sem)
    copy.start()
    buffer[0] = 9.0
    copy.wait()


def overwrites_what_arrives(x_ref, o_ref, buffer, sem):
    copy = make_async_copy(x_ref, o_ref, sem)
    copy.start()
    o_ref[3] = buffer.shape[0] * 1.0
    copy.wait()


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
@pytest.mark.parametrize(
    ("kernel", "ref", "kinds"),
    [
        (reads_too_early, "scratch[0]", {"read", "write"}),
        (overwrites_the_source, "scratch[0]", {"read", "write"}),
        (overwrites_what_arrives, "outputs[0]", {"write"}),
    ],
)
def test_k93_a_core_races_with_its_own_copy(kernel, ref, kinds, mode):
    (race,), _ = races(kernel, mode)
    assert race.ref == ref and race.cores == (0, 0) and {*race.kinds} == kinds


def touches_other_memory(x_ref, o_ref, buffer, sem):
    buffer[...] = x_ref[...] * 2
    copy = make_async_copy(x_ref.at[:2], buffer.at[:2], sem)
    copy.start()
    o_ref[...] = x_ref[...] + jnp.flip(x_ref[...])
    o_ref[2:4] = buffer[2:4]
    copy.wait()
    o_ref[0:2] = buffer[:2]
    buffer[...] = o_ref[...]


def double_buffered(x_ref, o_ref, buffer, sems):
    def copy(i, slot):
        return make_async_copy(x_ref.at[i], buffer.at[slot], sems.at[slot])

    copy(0, 0).start()

    def body(i, _):
        @when(i < 3)
        def _():
            copy(i + 1, (i + 1) % 2).start()

        copy(i, i % 2).wait()
        o_ref[i] = buffer[i % 2] * 2

    lax.fori_loop(0, 4, body, None)


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_k93_copies_that_are_waited_for_are_no_races(mode):
    found, out = races(touches_other_memory, mode)
    assert not found
    np.testing.assert_array_equal(out, [0, 1, 4, 6])
    scratch = [MemorySpace.LOCAL((2, 3), "float32"), SemaphoreType.DMA((2,))]
    found, out = races(double_buffered, mode, scratch, (4, 3))
    assert not found
    np.testing.assert_array_equal(out, np.arange(12.0).reshape(4, 3) * 2)


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_k93_waiting_for_one_copy_says_nothing_of_another(mode):
    def kernel(x_ref, o_ref, buffer, sems):
        first, second = (make_async_copy(x_ref.at[i], buffer.at[i], sems.at[i]) for i in range(2))
        first.start()
        second.start()
        second.wait()
        o_ref[1] = buffer[1]
        o_ref[0] = buffer[0]
        first.wait()

    scratch = [MemorySpace.LOCAL((2, 3), "float32"), SemaphoreType.DMA((2,))]
    (race,), _ = races(kernel, mode, scratch, (2, 3))
    assert race.ref == "scratch[0]" and ((0, 1), (0, 3)) in race.slices


def test_k24_a_signal_to_a_core_that_is_not_there():
    def kernel(x_ref, o_ref, sem):
        semaphore_signal(sem, 1, core=7)
        o_ref[...] = x_ref[...]

    call = kernel_call(
        kernel, SDS((2,), "float32"), scratch_shapes=[SemaphoreType.REGULAR], interpret="value"
    )
    with pytest.raises(KernelRunError, match="core 7, but the kernel runs on 1 cores.*kernel"):
        call(jnp.ones(2))


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
@pytest.mark.parametrize("seed", range(4))
def test_k24_k25_every_core_has_the_semaphores_of_its_copies(mode, seed):
    """What a core waits for is its own copy, whoever else copies with a semaphore of that name."""

    def both(x, o, scratch, done):
        i = lax.axis_index("core")
        copy = make_async_copy(x.at[i], scratch, done)
        copy.start()
        copy.wait()
        o[i] = scratch[...]

    call = mpmd_map(
        [(CoreMesh("core", 2), both)],
        SDS((2, 3), np.float32),
        scratch_shapes=[MemorySpace.LOCAL((3,), np.float32), SemaphoreType.DMA],
    )
    params = InterpretParams(
        detect_races=True, dma_execution_mode=mode, schedule="random", random_seed=seed
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    machine = Machine(call, x, params=params)
    np.testing.assert_array_equal(machine.run()[0], x)
    assert machine.races == []
