"""Cores that meet at a barrier made of semaphores: a parallel prefix sum, and a transpose by exchange (K24, K89, K93)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab import lax
from xlab import numpy as jnp
from xlab.kernels import (
    CoreMesh,
    InterpretParams,
    MemorySpace,
    SemaphoreType,
    async_copy,
    mpmd_map,
    semaphore_signal,
    semaphore_wait,
    when,
)
from xlab.kernels.machine import Machine, compare_schedules

CORES = 4
MESH = CoreMesh("core", CORES)


def barrier(arrived):
    """Each core tells all, and goes on when all have told it. Rounds take turns with the semaphores, so that none is overtaken."""
    for core in range(CORES):
        semaphore_signal(arrived.at[core])
    semaphore_wait(arrived.at[lax.axis_index("core")], CORES)


def prefix_sums(x, *, meets=(True, True), interpret="value"):
    """Inclusive sums over the cores' rows in log2(CORES) rounds; each round reads what the one before wrote to the other buffer."""

    def core(x_ref, o_ref, rounds, arrived):
        me = lax.axis_index("core")
        rounds[0, me] = x_ref[me]
        distance, now = 1, 0
        while distance < CORES:
            if meets[now % 2]:
                barrier(arrived.at[now])
            mine = rounds[now, me]
            there = jnp.maximum(me - distance, 0)
            rounds[now + 1, me] = mine + jnp.where(me >= distance, rounds[now, there], 0)
            distance, now = 2 * distance, now + 1
        o_ref[me] = rounds[now, me]

    levels = CORES.bit_length()
    return mpmd_map(
        [(MESH, core)],
        xlab.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            MemorySpace.SHARED((levels, *x.shape), x.dtype),
            SemaphoreType.REGULAR((levels, CORES)),
        ],
        interpret=interpret,
    )(x)


def exchange(x, *, interpret="value"):
    """The transpose of blocks: each core copies its row's blocks to where the others look, then reads its column."""

    def core(x_ref, o_ref, boxes, sent, arrived):
        me = lax.axis_index("core")
        copies = [
            async_copy(x_ref.at[me, other], boxes.at[other, me], sent) for other in range(CORES)
        ]
        for copy in copies:
            copy.wait()
        barrier(arrived)
        o_ref[me] = boxes[me]

    return mpmd_map(
        [(MESH, core)],
        xlab.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            MemorySpace.SHARED(x.shape, x.dtype),
            SemaphoreType.DMA(memory_space=MemorySpace.SEMAPHORE @ MESH),
            SemaphoreType.REGULAR((CORES,)),
        ],
        interpret=interpret,
    )(x)


X = np.random.default_rng(0).integers(-9, 9, (CORES, 3)).astype("int32")
BLOCKS = np.arange(CORES * CORES * 2, dtype=np.int32).reshape(CORES, CORES, 2)


def test_k89_prefix_sums_over_cores_under_every_schedule():
    tried = compare_schedules(prefix_sums, X)
    assert tried.agree
    assert not any(outcome.races for outcome in tried.outcomes)
    np.testing.assert_array_equal(tried.outcomes[0].outputs[0], np.cumsum(X, axis=0))


@pytest.mark.parametrize("meets", [(False, True), (True, False)])
def test_k93_a_round_without_its_barrier_races(meets):
    machine = Machine(
        lambda x: prefix_sums(x, meets=meets), X, params=InterpretParams(detect_races=True)
    )
    machine.run()
    lost = meets.index(False)
    assert machine.races
    for race in machine.races:
        assert race.ref == "scratch[0]"
        assert {box[0] for box in race.slices} == {(lost, lost + 1)}, "only that round's buffer"


@pytest.mark.parametrize("mode", ["eager", "on_wait"])
def test_k25_an_exchange_by_copies(mode):
    params = InterpretParams(detect_races=True, dma_execution_mode=mode)
    tried = compare_schedules(exchange, BLOCKS, params=params)
    assert tried.agree
    assert not any(outcome.races for outcome in tried.outcomes)
    np.testing.assert_array_equal(tried.outcomes[0].outputs[0], BLOCKS.swapaxes(0, 1))


def test_k87_a_barrier_is_refused_where_cores_run_one_after_the_other():
    with pytest.raises(ValueError, match="until a later core signals it"):
        prefix_sums(X, interpret=True)


def test_k96_a_core_that_stays_away_from_the_barrier():
    def core(o_ref, arrived):
        @when(lax.axis_index("core") > 0)
        def _():
            barrier(arrived)

        o_ref[...] = jnp.zeros_like(o_ref)

    call = mpmd_map(
        [(MESH, core)],
        xlab.ShapeDtypeStruct((), "int32"),
        scratch_shapes=[SemaphoreType.REGULAR((CORES,))],
        interpret="value",
    )
    with pytest.raises(RuntimeError, match="deadlock") as error:
        call()
    assert [w["core"] for w in error.value.waiting] == [1, 2, 3]
    assert {(w["needed"], w["present"]) for w in error.value.waiting} == {(CORES, CORES - 1)}


def test_k81_a_machine_prints_where_its_cores_are():
    machine = Machine(prefix_sums, X, schedule="sequential")
    assert repr(machine).startswith(
        "<Machine of mpmd_map: 0 turns, core 0 is at its blocks, core 1 is"
    )
    machine.run(until=lambda m: m.now.cores[0].waiting is not None)
    assert "turns, core 0 waits for scratch[1]" in repr(machine)
    machine.run()
    assert repr(machine) == f"<Machine of mpmd_map: {machine.count} turns, ended>"
