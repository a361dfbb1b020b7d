"""Other schedules (K94): comparisons, and the shortest that shows something wrong."""

from __future__ import annotations

import numpy as np

import xlab
from tests.kernels.machine.examples import SDS, P, worked
from xlab import numpy as jnp
from xlab.kernels import CoreMesh, SemaphoreType, mpmd_map, semaphore_signal, semaphore_wait
from xlab.kernels.machine import Schedule, compare_schedules, shortest_race


def test_k94_schedules_side_by_side():
    assert compare_schedules(worked()).agree
    found = compare_schedules(
        worked(False), schedules=["sequential", Schedule("sequential", order=(1, 2, 0))]
    )
    assert not found.agree
    assert [o.outputs[0].tolist() for o in found.outcomes] == [[11, 21], [-(2**31) + 1] * 2]
    assert [len(g) for g in found.groups()] == [1, 1]
    assert "11, 21" in repr(found)


def test_the_shortest_schedule_that_shows_a_race():
    found = shortest_race(worked(False))
    assert found.kind == "race"
    assert found.turns == 2 and found.switches == 1  # P writes b[0], Q0 reads it
    assert found.schedule.turns == (0, 1)
    machine = found.machine(worked(False))
    machine.run(until=found.turns)
    assert machine.races == [found.race]
    assert shortest_race(worked()) is None


def test_the_shortest_schedule_behind_other_work():
    """A race that comes late, after a handshake: what is not needed for it is left out."""

    def p(out, sem):
        out[2] = jnp.int32(1)
        semaphore_signal(sem)
        out[3] = jnp.int32(4)
        out[0] = jnp.int32(5)

    def q(out, sem):
        semaphore_wait(sem)
        out[1] = out[2]
        out[1] = out[0]

    q_mesh = CoreMesh("q", 1, core_type="vector")
    call = mpmd_map(
        [(P, p), (q_mesh, q)], SDS((4,), "int32"), scratch_shapes=[SemaphoreType.REGULAR]
    )
    found = shortest_race(call)
    assert found.kind == "race" and found.race.slices[0] == ((0, 1),)
    # P: write, signal, write, write; Q: wait, read, write, read.
    assert found.turns == 8 and found.switches == 1


def test_a_deadlock_is_found_and_shortened():
    def p(out, sem):
        out[0] = jnp.int32(1)
        semaphore_wait(sem)

    found = shortest_race(
        mpmd_map([(P, p)], SDS((1,), "int32"), scratch_shapes=[SemaphoreType.REGULAR])
    )
    assert found.kind == "deadlock"
    assert found.schedule.turns == (0, 0)


def test_outputs_that_depend_on_the_order_without_a_race():
    """Two cores take a ticket each: semaphores order them, and the order decides."""
    mesh = CoreMesh("q", 2, core_type="vector")

    def q(out, lock):
        k = xlab.lax.axis_index("q")

        @xlab.kernels.when(k == 0)
        def _():
            semaphore_signal(lock)

        semaphore_wait(lock)
        out[0] = k + 1
        semaphore_signal(lock)

    call = mpmd_map([(mesh, q)], SDS((1,), "int32"), scratch_shapes=[SemaphoreType.REGULAR])
    with np.errstate(all="ignore"):
        found = shortest_race(call)
    assert found.kind == "output"
    assert found.outputs[0].tolist() != found.reference[0].tolist()
