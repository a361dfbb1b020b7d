"""Several cores: schedules, semaphores, races, deadlocks (K89-K98)."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from tests.kernels.machine.examples import SDS, P, Q, worked
from xlab import numpy as jnp
from xlab.kernels import (
    BlockSpec,
    CoreMemorySpace,
    CoreMesh,
    InterpretParams,
    MemorySpace,
    SemaphoreType,
    async_copy,
    kernel_call,
    mpmd_map,
    run_scoped,
    semaphore_signal,
    semaphore_wait,
)
from xlab.kernels.machine import DeadlockError, KernelWarning, Machine, RaceError, Schedule

RACES = InterpretParams(detect_races=True)
ALL = ["sequential", "round_robin", "random", "threads", [2, 1, 0, 0, 1, 2, 1, 0]]
CORES = {0: "P", 1: "Q0", 2: "Q1"}


def told(machine):
    """What happened, as the specification's worked example says it."""
    return [
        f"{CORES[e.core]} {'blocks' if dict(e.more).get('blocked') else e.kind} {e.ref}[{e.box[0][0]}]"
        for e in machine.events()
    ]


def test_k89_worked_schedule_round_robin():
    machine = Machine(worked(), params=RACES, schedule="round_robin")
    (out,) = machine.run()
    assert out.tolist() == [11, 21]
    assert told(machine)[:7] == [
        "P write scratch[0][0]",
        "Q0 blocks scratch[1][0]",
        "Q1 blocks scratch[1][1]",
        "P signal scratch[1][0]",
        "Q0 wait scratch[1][0]",
        "P write scratch[0][1]",
        "Q0 read scratch[0][0]",
    ]
    assert not machine.races_found
    assert machine.schedule.cores()[:7] == [0, 1, 2, 0, 1, 0, 1]


def test_k89_worked_schedule_sequential_from_q0():
    schedule = Schedule("sequential", order=(1, 2, 0))
    machine = Machine(worked(), params=RACES, schedule=schedule)
    assert machine.run()[0].tolist() == [11, 21]
    turns = machine.schedule.cores()
    assert turns[:2] == [1, 2]  # both block at once
    assert turns[2:] == [0] * 4 + [1] * 4 + [2] * 4  # then P to its end, then Q0, Q1


@pytest.mark.parametrize("schedule", ALL, ids=str)
def test_k89_worked_example_under_every_schedule(schedule):
    machine = Machine(worked(), params=RACES, schedule=schedule)
    assert machine.run()[0].tolist() == [11, 21]
    assert machine.races == []


@pytest.mark.parametrize(("order", "out"), [((0, 1, 2), [11, 21]), ((1, 2, 0), [-(2**31) + 1] * 2)])
def test_k89_k93_worked_example_without_semaphores(order, out):
    machine = Machine(worked(False), params=RACES, schedule=Schedule("sequential", order=order))
    assert machine.run()[0].tolist() == out
    found = {(frozenset(r.cores), r.slices[0]) for r in machine.races}
    assert found == {(frozenset({0, 1}), ((0, 1),)), (frozenset({0, 2}), ((1, 2),))}


def test_k89_quantum():
    machine = Machine(worked(False), params=InterpretParams(schedule="round_robin", quantum=2))
    machine.run()
    assert [e.count for e in machine.schedule.entries] == [2, 2, 2, 1, 1]


def test_k89_a_recorded_schedule_can_be_replayed_and_edited():
    machine = Machine(worked(False), schedule="random")
    first = machine.run()
    again = Machine(worked(False), schedule=machine.schedule.recorded())
    np.testing.assert_array_equal(again.run()[0], first[0])
    assert again.schedule.cores() == machine.schedule.cores()
    late = Machine(worked(False), schedule=Schedule([0, 1, 1, 1]).edit(0, remove=1))
    assert late.run()[0][0] == -(2**31) + 1  # Q0 reads before P writes


def test_k83_same_seed_same_log():
    def run(seed):
        machine = Machine(worked(), params=InterpretParams(schedule="random", random_seed=seed))
        machine.run()
        return machine.to_json()

    assert run(3) == run(3)
    assert len({run(seed) for seed in range(6)}) > 1


def test_k90_random_seed_shuffles_parallel_axes_only():
    from xlab.kernels import program_id

    def kernel(o):
        o[0, 0] = program_id(0) * 10 + program_id(1)

    def order(seed, semantics):
        call = kernel_call(
            kernel,
            SDS((6, 2), "int32"),
            grid=(6, 2),
            out_specs=BlockSpec((1, 1), lambda i, j: (i, j)),
            compiler_params={"dimension_semantics": semantics},
        )
        seen = []
        params = InterpretParams(
            random_seed=seed, grid_point_recorder=lambda grid, core: seen.append(grid)
        )
        machine = Machine(call, params=params)
        out = machine.run()[0]
        np.testing.assert_array_equal(out, np.arange(6)[:, None] * 10 + np.arange(2))
        return seen

    plain = [(i, j) for i in range(6) for j in range(2)]
    assert order(1, ("arbitrary", "arbitrary")) == plain
    shuffled = order(1, ("parallel", "arbitrary"))
    assert shuffled != plain
    assert sorted(shuffled) == plain
    assert all(a[0] == b[0] and b[1] == 1 for a, b in zip(shuffled[::2], shuffled[1::2]))


def two(p, q, scratch=(), out=SDS((4,), "int32"), **options):
    """One core each of two meshes."""
    return mpmd_map(
        [(P, p), (CoreMesh("q", 1, core_type="vector"), q)],
        out,
        scratch_shapes=list(scratch),
        **options,
    )


def test_k96_k104d_circular_wait_is_a_deadlock():
    def p(out, sems):
        semaphore_wait(sems.at[0])
        semaphore_signal(sems.at[1])

    def q(out, sems):
        semaphore_wait(sems.at[1], 2)
        semaphore_signal(sems.at[0])

    for schedule in ("sequential", "round_robin", "random", "threads"):
        machine = Machine(two(p, q, [SemaphoreType.REGULAR((2,))]), schedule=schedule)
        with pytest.raises(DeadlockError) as error:
            machine.run()
        text = str(error.value)
        assert "core 0" in text and "core 1" in text
        assert "scratch[0][0]: needs 1, has 0" in text
        assert "scratch[0][1]: needs 2, has 0" in text
        assert {w["core"] for w in error.value.waiting} == {0, 1}
        assert "test_schedules.py" in text
        # The machine can be looked at.
        assert machine.state()["cores"][1]["waiting_on"] == {
            "semaphore": "scratch[0][1]",
            "needed": 2,
        }


def test_k97_leftover_signals_warn():
    def p(out, sem):
        semaphore_signal(sem, 3)

    def q(out, sem):
        semaphore_wait(sem, 1)
        out[...] = jnp.zeros(4, "int32")

    machine = Machine(two(p, q, [SemaphoreType.REGULAR]))
    with pytest.warns(KernelWarning, match=r"scratch\[0\] ends with the count 2"):
        machine.run()


def test_k98_step_budget_names_the_hot_loop():
    def p(out):
        def body(i):
            out[0] = out[0] + 1
            return i

        xlab.lax.while_loop(lambda i: i < 1, body, 0)

    machine = Machine(
        mpmd_map([(P, p)], SDS((4,), "int32")), params=InterpretParams(max_equations=500)
    )
    with pytest.raises(RuntimeError, match=r"500 turns.*while \d+.* at .*test_schedules.py:\d+"):
        machine.run()
    assert machine.count == 500
    # A loop without a single equation ends, too.
    empty = mpmd_map(
        [(P, lambda out: xlab.lax.while_loop(lambda i: True, lambda i: i, 0) and None)]
    )
    assert empty is not None


def test_k98_semaphore_overflow():
    def p(out, sem):
        semaphore_signal(sem, 32000)
        semaphore_signal(sem, 1000)

    machine = Machine(
        mpmd_map([(P, p)], SDS((4,), "int32"), scratch_shapes=[SemaphoreType.REGULAR])
    )
    with pytest.raises(ValueError, match=r"scratch\[0\] would count to 33000, more than the 32767"):
        machine.run()


def test_k93_on_race_raise():
    machine = Machine(worked(False), params=InterpretParams(detect_races=True, on_race="raise"))
    with pytest.raises(RaceError, match=r"scratch\[0\]\[0:1\]") as error:
        machine.run()
    assert len(error.value.races) == 2
    assert machine.outputs()[0].tolist() == [11, 21]  # K94: outputs are there


def test_k93_additions_do_not_race_with_each_other():
    def p(x, out):
        xlab.ref.addupdate(out, slice(0, 2), x[0:2])

    def q(x, out):
        xlab.ref.addupdate(out, slice(0, 2), x[2:4])

    call = two(p, q, input_output_aliases={0: 0})
    machine = Machine(call, jnp.arange(4), params=RACES)
    machine.run()
    assert machine.races == []

    def reader(x, out):
        out[3] = out[0]

    machine = Machine(two(p, reader, input_output_aliases={0: 0}), jnp.arange(4), params=RACES)
    machine.run()
    assert [set(r.kinds) for r in machine.races] == [{"accum", "read"}]


def ring(semaphores, n=6, slots=2):
    """A producer fills a ring of slots in shared memory, a consumer empties it."""

    def produce(x, out, buf, full, free):
        def body(i, _):
            s = i % slots
            if semaphores:
                semaphore_wait(free.at[s])
            buf[s] = x[i] * 2
            if semaphores:
                semaphore_signal(full.at[s])
            return _

        if semaphores:
            for s in range(slots):
                semaphore_signal(free.at[s])
        xlab.lax.fori_loop(0, n, body, 0)

    def consume(x, out, buf, full, free):
        def body(i, _):
            s = i % slots
            if semaphores:
                semaphore_wait(full.at[s])
            out[i] = buf[s] + 1
            if semaphores:
                semaphore_signal(free.at[s])
            return _

        xlab.lax.fori_loop(0, n, body, 0)

    sems = [SemaphoreType.REGULAR((slots,))] * 2
    scratch = [MemorySpace.SHARED((slots,), "int32"), *sems]
    return two(produce, consume, scratch, SDS((n,), "int32"))


@pytest.mark.filterwarnings("ignore::xlab.kernels.machine.KernelWarning")
@pytest.mark.parametrize("schedule", ["sequential", "round_robin", "random", "threads"])
def test_k104a_producer_and_consumer(schedule):
    machine = Machine(ring(True), jnp.arange(6), params=RACES, schedule=schedule)
    assert machine.run()[0].tolist() == [2 * i + 1 for i in range(6)]
    assert machine.races == []


def test_k104b_without_the_semaphore_both_slices_are_named():
    machine = Machine(ring(False), jnp.arange(6), params=RACES)
    machine.run()
    assert machine.races_found
    race = machine.races[0]
    assert race.ref == "scratch[0]"
    assert {race.slices[0], race.slices[1]} <= {((0, 1),), ((1, 2),), ((0, 2),)}
    assert set(race.cores) == {0, 1}
    assert "scratch[0]" in str(race) and "test_schedules.py" in str(race)


def test_k104c_two_cores_write_a_half_each():
    def half(x, out):
        at = xlab.ds(xlab.lax.axis_index("q") * 4, 4)
        out[at] = x[at] * 3

    def whole(x, out):
        out[...] = x[...] * 3

    x = jnp.arange(8)
    machine = Machine(mpmd_map([(Q, half)], SDS((8,), "int32")), x, params=RACES)
    single = Machine(mpmd_map([(P, whole)], SDS((8,), "int32")), x)
    np.testing.assert_array_equal(machine.run()[0], single.run()[0])
    assert machine.races == []


def test_k22_k24_a_semaphore_of_each_core_is_signaled_from_another_mesh():
    sem = CoreMemorySpace(MemorySpace.SEMAPHORE, Q)
    local = CoreMemorySpace(MemorySpace.LOCAL, Q)

    def p(out, ready, tmp):
        out[2] = jnp.int32(7)
        semaphore_signal(ready, core=1)
        semaphore_signal(ready, core=0)

    def q(out, ready, tmp):
        k = xlab.lax.axis_index("q")
        semaphore_wait(ready)
        tmp[0] = out[2] + k
        out[k] = tmp[0]

    scratch = [sem((), "int16"), local((1,), "int32")]
    call = mpmd_map([(P, p), (Q, q)], SDS((3,), "int32"), scratch_shapes=scratch)
    for schedule in ("sequential", "round_robin", "random"):
        machine = Machine(call, params=RACES, schedule=schedule)
        assert machine.run()[0].tolist() == [7, 8, 7]
        assert machine.races == []
    assert {e.ref for e in machine.events()} == {"outputs[0]", "scratch[0]", "scratch[1]"}
    owners = {b["owner"] for n, b in machine.state()["buffers"].items() if n.startswith("scratch")}
    assert owners == {1, 2}

    def unclear(out, ready, tmp):
        semaphore_signal(ready)

    machine = Machine(mpmd_map([(P, unclear), (Q, q)], SDS((3,), "int32"), scratch_shapes=scratch))
    with pytest.raises(ValueError, match="say whose is meant"):
        machine.run()


def test_k25_copies_on_wait_and_eager():
    def p(x, out, tmp, sem):
        copy = async_copy(x.at[2:6], tmp, sem)
        x_later = x[0]
        copy.wait()
        out[...] = tmp[...] + x_later

    def call():
        return mpmd_map(
            [(P, p)],
            SDS((4,), "int32"),
            scratch_shapes=[MemorySpace.SHARED((4,), "int32"), SemaphoreType.DMA],
        )

    for mode in ("on_wait", "eager"):
        params = InterpretParams(dma_execution_mode=mode, detect_races=True)
        machine = Machine(call(), jnp.arange(8), params=params)
        assert machine.run()[0].tolist() == [2, 3, 4, 5]
        done = [e for e in machine.accesses() if e.kind == "copy" and dict(e.more)["done"]]
        assert [(e.box, dict(e.more)["to_slice"]) for e in done] == [(((2, 6),), ((0, 4),))]


def test_k93_a_copy_that_is_in_flight_races():
    def p(x, out, sem):
        copy = async_copy(x, out, sem)
        out[0] = jnp.int32(9)
        copy.wait()

    def q(x, out, sem):
        pass

    call = two(p, q, [SemaphoreType.DMA])
    machine = Machine(call, jnp.arange(4), params=RACES)
    machine.run()
    assert [(r.ref, set(r.kinds)) for r in machine.races] == [("outputs[0]", {"write"})]

    def after(x, out, sem):
        async_copy(x, out, sem).wait()
        out[0] = jnp.int32(9)

    machine = Machine(two(after, q, [SemaphoreType.DMA]), jnp.arange(4), params=RACES)
    assert machine.run()[0].tolist() == [9, 1, 2, 3]
    assert machine.races == []


def test_a_copy_nobody_waits_for_is_remarked():
    def p(x, out, sem):
        async_copy(x, out, sem)

    machine = Machine(
        mpmd_map([(P, p)], SDS((4,), "int32"), scratch_shapes=[SemaphoreType.DMA]), jnp.arange(4)
    )
    with pytest.warns(KernelWarning, match="nobody waited for"):
        machine.run()


def test_k19_collective_axes_share_one_allocation():
    def q(out):
        k = xlab.lax.axis_index("q")

        def body(tmp):
            tmp[k] = k + 5
            out[k] = tmp[0]

        run_scoped(body, MemorySpace.SHARED((2,), "int32"), collective_axes="q")

    call = mpmd_map([(Q, q)], SDS((2,), "int32"))
    assert Machine(call, schedule="sequential").run()[0].tolist() == [5, 5]
    machine = Machine(call, schedule=Schedule("sequential", order=(1, 0)))
    assert machine.run()[0].tolist() == [5, -(2**31)]
    assert [e["kind"] for e in machine.lint] == ["uninitialized read"]


def test_k90_k93_cores_share_the_steps_of_parallel_axes():
    def kernel(x, o):
        o[...] = x[...] * 2

    block = BlockSpec((2,), lambda i: (i,))

    def run(out_map, semantics=("parallel",)):
        call = kernel_call(
            kernel,
            SDS((8,), "int32"),
            grid=4,
            in_specs=[block],
            out_specs=BlockSpec((2,), out_map),
            compiler_params={"dimension_semantics": semantics},
        )
        params = InterpretParams(num_cores_or_threads=2, detect_races=True, schedule="round_robin")
        machine = Machine(call, jnp.arange(8), params=params)
        return machine, machine.run()[0]

    machine, out = run(lambda i: (i,))
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert {(e.core, e.grid) for e in machine.events()} == {
        (0, (0,)),
        (0, (1,)),
        (1, (2,)),
        (1, (3,)),
    }
    assert machine.races == []
    machine, _ = run(lambda i: (i % 2,))  # blocks that both cores put back
    assert [r.slices for r in machine.races] == [(((0, 4),), ((0, 4),))]
    assert set(machine.races[0].eqns) == {"write-back"}
    machine, out = run(lambda i: (i % 2,), ("arbitrary",))  # one core does it all
    assert machine.races == []


def counters(n, atomic):
    """Cores that count together, with one addition each time or with a read and a write."""
    mesh = CoreMesh("q", n, core_type="vector")

    def q(x, out):
        def body(i, c):
            if atomic:
                xlab.ref.addupdate(out, 0, jnp.int32(1))
            else:
                out[0] = out[0] + 1
            return c

        xlab.lax.fori_loop(0, 5, body, 0)

    return mpmd_map([(mesh, q)], SDS((1,), "int32"), input_output_aliases={0: 0})


@pytest.mark.parametrize("schedule", ["round_robin", "random", "threads"])
def test_k92_one_access_is_atomic_and_nothing_larger(schedule):
    zero = np.zeros(1, np.int32)
    machine = Machine(counters(3, True), zero, params=RACES, schedule=schedule)
    assert machine.run()[0].tolist() == [15]
    assert machine.races == []
    machine = Machine(counters(3, False), zero, params=RACES, schedule=schedule)
    (out,) = machine.run()
    assert out[0] <= 15
    assert machine.races_found
    if schedule == "round_robin":
        assert out[0] == 5  # each round all read the same


def test_k91_threads_leave_a_record_that_replays():
    zero = np.zeros(1, np.int32)
    machine = Machine(counters(3, False), zero, schedule="threads")
    out = machine.run()
    times = [e.t for e in machine.events()]
    assert times == sorted(times)
    again = Machine(counters(3, False), zero, schedule=machine.schedule.recorded())
    np.testing.assert_array_equal(again.run()[0], out[0])
    assert again.events() == machine.events()
    machine.back(5)
    machine.run()


def test_k93_vector_clock_size():
    with pytest.raises(ValueError, match="vector_clock_size=2 is too small for 3 cores"):
        Machine(worked(), params=InterpretParams(detect_races=True, vector_clock_size=2))
    params = InterpretParams(detect_races=True, vector_clock_size=8)
    assert Machine(worked(), params=params).run() is not None


def test_k93_what_the_detector_keeps_is_bounded():
    zero = np.zeros(1, np.int32)
    call = counters(3, False)
    machine = Machine(call, zero, params=RACES, schedule="round_robin")
    machine._known_limit = 5
    machine.run()
    want = Machine(call, zero, params=RACES, schedule="round_robin")
    want.run()
    assert machine.races == want.races
    machine.goto(9)
    machine.run()
    assert machine.races == want.races
    other = Machine(call, zero, params=RACES, schedule="round_robin")
    other.goto(12)
    fork = other.fork(schedule="sequential")
    fork.run()
    other.run()
    assert other.races == want.races


def test_k23_one_buffer_per_reference_and_owner():
    def kernel(x, o, s):
        s[...] = x[0:2]
        o[...] = s[...]

    call = kernel_call(
        kernel,
        SDS((8,), "int32"),
        grid=4,
        in_specs=[BlockSpec(memory_space=MemorySpace.ANY)],
        out_specs=BlockSpec((2,), lambda i: (i,)),
        scratch_shapes=[MemorySpace.LOCAL((2,), "int32")],
        compiler_params={"dimension_semantics": ("parallel",)},
    )
    machine = Machine(call, jnp.arange(8), params=InterpretParams(num_cores_or_threads=2))
    assert machine.run()[0].tolist() == [0, 1] * 4
    buffers = machine.state()["buffers"]
    assert {name: (b["owner"], b["space"]) for name, b in buffers.items()} == {
        "args[0]": (None, "any"),
        "outputs[0]": (None, "default"),
        "outputs[0]@0": (0, "default"),
        "outputs[0]@1": (1, "default"),
        "scratch[0]@0": (0, "local"),
        "scratch[0]@1": (1, "local"),
    }


def test_k81_step_core_of_a_core_that_waits_says_for_what():
    machine = Machine(worked())
    (event,) = machine.step_core(1)
    assert dict(event.more)["blocked"]
    with pytest.raises(
        RuntimeError, match=r"core 1 waits for scratch\[1\]\[0\]: it needs 1, 0 are there"
    ):
        machine.step_core(1)
    assert machine.state()["cores"][1]["waiting_on"]["needed"] == 1
    machine.step_core(0)
    machine.step_core(0)
    assert [e.kind for e in machine.step_core(1)] == ["wait"]
    machine.back()
    assert machine.state()["cores"][1]["waiting_on"]["needed"] == 1
    assert machine.run()[0].tolist() == [11, 21]


def test_k81_breakpoints_on_cores_and_signals():
    machine = Machine(worked(), schedule="sequential")
    machine.breakpoint(core=2)
    assert machine.run() is None
    assert machine.schedule.cores() == [0] * 4 + [1] * 4
    machine.goto(0)
    machine.clear()
    machine.breakpoint("scratch[1]", kind="signal", slice=[1])
    assert machine.run() is None
    assert machine.count == 4  # after the second signal
    assert machine.events()[-1].kind == "signal"
    assert machine.run()[0].tolist() == [11, 21]
