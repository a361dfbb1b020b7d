"""Cores that wait for one another in compiled programs (K87, K88): the schedule is found while the program is written down."""

from __future__ import annotations

import warnings

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
    kernel_call,
    mpmd_map,
    run_scoped,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
    sync_copy,
    when,
)
from xlab.kernels.failures import DeadlockError, KernelWarning
from xlab.kernels.semaphores import SemaphoreRef

S = xlab.ShapeDtypeStruct
SHARED, LOCAL = MemorySpace.SHARED, MemorySpace.LOCAL
SEM, DMA = SemaphoreType.REGULAR, SemaphoreType.DMA
P, Q = CoreMesh("p", 1, "scalar"), CoreMesh("q", 2, "vector")
ONE = CoreMesh("q", 1)
LOWEST = np.iinfo("int32").min


def compiled(pairs, out, *args, scratch=()):
    return mpmd_map(pairs, out, scratch_types=scratch, interpret=True)(*args)


def run(pairs, out, *args, scratch=()):
    """What the compiled program gives; the value interpreter has to give the same (K86)."""
    got = compiled(pairs, out, *args, scratch=scratch)
    for schedule in ("sequential", "round_robin"):
        params = InterpretParams(schedule=schedule)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelWarning)  # signals may be left at the end
            same = mpmd_map(pairs, out, scratch_types=scratch, interpret=params)(*args)
        for a, b in zip(xlab.tree.leaves(got), xlab.tree.leaves(same), strict=True):
            np.testing.assert_array_equal(a, b)
    return got


# -- the worked schedule --------------------------------------------------------------------------------------


def writes_and_signals(b, out, s):
    b[0] = 10
    semaphore_signal(s.at[0])
    b[1] = 20
    semaphore_signal(s.at[1])


def waits_and_reads(b, out, s):
    k = lax.axis_index("q")
    semaphore_wait(s.at[k])
    out[k] = b[k] + 1


I2 = S((2,), "int32")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("jitted", [False, True])
def test_k88_the_worked_schedule(order, jitted):
    pairs = [(P, writes_and_signals), (Q, waits_and_reads)][::order]

    def f():
        return (compiled if jitted else run)(pairs, (I2, I2), scratch=[SEM((2,))])

    b, out = (xlab.jit(f) if jitted else f)()
    assert b.tolist() == [10, 20]
    assert out.tolist() == [11, 21]


@pytest.mark.parametrize(("order", "want"), [(1, [11, 21]), (-1, [LOWEST + 1] * 2)])
def test_k88_without_semaphores_one_pair_after_the_other(order, want):
    def writes(b, out):
        b[0] = 10
        b[1] = 20

    def reads(b, out):
        k = lax.axis_index("q")
        out[k] = b[k] + 1

    assert compiled([(P, writes), (Q, reads)][::order], (I2, I2))[1].tolist() == want


# -- several pairs --------------------------------------------------------------------------------------------


def producer(n, slots):
    def kernel(x, o, ring, full, free):
        semaphore_signal(free, slots)

        def put(i, carry):
            semaphore_wait(free)
            ring[i % slots] = x[i] * 2
            semaphore_signal(full)
            return carry

        lax.fori_loop(0, n, put, 0)

    return kernel


def consumer(n, slots):
    def kernel(x, o, ring, full, free):
        def take(i, total):
            semaphore_wait(full)
            total = total + ring[i % slots]
            o[i] = total
            semaphore_signal(free)
            return total

        lax.fori_loop(0, n, take, jnp.float32(0))

    return kernel


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("order", [1, -1])
def test_k104a_producer_and_consumer_with_a_ring_buffer(slots, order):
    n = 5
    pairs = [(P, producer(n, slots)), (ONE, consumer(n, slots))][::order]
    x = np.random.default_rng(0).integers(-9, 9, n).astype("float32")
    scratch = [SHARED((slots,), "float32"), SEM(()), SEM(())]
    got = run(pairs, S((n,), "float32"), x, scratch=scratch)
    np.testing.assert_array_equal(got, np.cumsum(x * 2))


def test_k104a_under_vmap():
    n = 3
    pairs = [(P, producer(n, 2)), (ONE, consumer(n, 2))]
    scratch = [SHARED((2,), "float32"), SEM(()), SEM(())]
    f = mpmd_map(pairs, S((n,), "float32"), scratch_types=scratch, interpret=True)
    xs = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(xlab.vmap(f)(xs), np.cumsum(xs * 2, 1))


def test_k104d_a_circular_wait_is_a_deadlock():
    def first(o, s):
        semaphore_wait(s.at[0])
        semaphore_signal(s.at[1])

    def second(o, s):
        semaphore_wait(s.at[1], 2)
        semaphore_signal(s.at[0])

    with pytest.raises(DeadlockError) as e:
        compiled([(P, first), (ONE, second)], I2, scratch=[SEM((2,))])
    text = str(e.value)
    assert "core 0 (pair 0" in text
    assert "core 1 (pair 1" in text
    assert "scratch[0][0]: needs 1, has 0" in text
    assert "scratch[0][1]: needs 2, has 0" in text
    assert [w["core"] for w in e.value.waiting] == [0, 1]


def test_k104d_waiting_for_who_has_ended():
    def ends(o, s):
        semaphore_signal(s)

    def waits(o, s):
        semaphore_wait(s, 2)

    with pytest.raises(DeadlockError, match=r"core 1 .* needs 2, has 1"):
        compiled([(P, ends), (ONE, waits)], I2, scratch=[SEM(())])


def test_k88_loops_branches_and_calls_around_semaphores():
    def sender(x, o, s, box):
        @xlab.jit
        def send(v):
            @when(v % 2 == 0)
            def _():
                box[0] = v * 10

            @when(v % 2 == 1)
            def _():
                box[0] = -v

            semaphore_signal(s.at[0])
            semaphore_wait(s.at[1])

        def more(c):
            return c < 4

        def step(c):
            send(c)
            return c + 1

        lax.while_loop(more, step, jnp.int32(0))

    def receiver(x, o, s, box):
        def take(carry, row):
            semaphore_wait(s.at[0])
            got = box[0] + row
            semaphore_signal(s.at[1])
            return carry + got, got

        total, rows = lax.scan(take, jnp.int32(0), x[...], reverse=True)
        o[:4] = rows
        o[4] = total

    x = np.int32([1, 2, 3, 4])
    got = run([(P, sender), (ONE, receiver)], S((5,), "int32"), x, scratch=[SEM((2,)), SHARED((1,), "int32")])  # fmt: skip
    sent = [0, -1, 20, -3]
    rows = [s + r for s, r in zip(sent, x[::-1])][::-1]
    assert got.tolist() == [*rows, sum(rows)]


def test_k88_what_has_no_semaphores_may_depend_on_data():
    def one(x, o, s, box):
        @when(x[0] > 2)
        def _():
            box[0] = 7.0

        @when(x[0] <= 2)
        def _():
            box[0] = lax.while_loop(lambda v: v < 100, lambda v: v * 3, x[0])

        semaphore_signal(s)

    def two(x, o, s, box):
        semaphore_wait(s)
        o[0] = box[0]

    scratch = [SEM(()), SHARED((1,), "float32")]
    for value, want in ((5, 7), (2, 162)):
        got = run([(P, one), (ONE, two)], S((1,), "float32"), np.float32([value]), scratch=scratch)
        assert got.tolist() == [want]


@pytest.mark.parametrize("what", ["branch", "loop", "count", "place"])
def test_k88_control_flow_around_semaphores_may_not(what):
    def kernel(x, o, s):
        if what == "branch":
            when(x[0] > 0)(lambda: semaphore_signal(s.at[0]))
        elif what == "loop":
            lax.while_loop(lambda i: i < x[0], lambda i: semaphore_signal(s.at[0]) or i + 1, 0)
        elif what == "count":
            semaphore_signal(s.at[0], x[0])
        else:
            semaphore_signal(s.at[x[0]])

    def other(x, o, s):
        semaphore_wait(s.at[0])

    with pytest.raises(ValueError, match="needs the value interpreter.*depends on data.*test_static_schedule.py"):  # fmt: skip
        compiled([(P, kernel), (ONE, other)], I2, np.int32([1, 0]), scratch=[SEM((2,))])


def test_k88_semaphores_from_outside_are_data():
    sem = xlab.new_ref(jnp.zeros((), "int16"), memory_space=MemorySpace.SEMAPHORE)

    def one(s, o):
        semaphore_signal(s)

    with pytest.raises(
        ValueError, match=r"value interpreter: args\[0\] is a semaphore from outside"
    ):
        compiled([(P, one), (ONE, lambda s, o: semaphore_wait(s))], I2, sem)


def test_k88_a_program_that_becomes_too_long(monkeypatch):
    monkeypatch.setattr("xlab.kernels.static_schedule.MAX_EQUATIONS", 50)
    scratch = [SHARED((2,), "float32"), SEM(()), SEM(())]
    pairs = [(P, producer(40, 2)), (ONE, consumer(40, 2))]
    with pytest.raises(ValueError, match="more than 50 equations"):
        compiled(pairs, S((40,), "float32"), np.zeros(40, np.float32), scratch=scratch)


def test_k88_counts_are_known():
    def one(o, s):
        semaphore_signal(s, 3)
        semaphore_wait(s, 2)
        o[0] = semaphore_read(s)
        semaphore_wait(s, decrement=False)
        o[1] = semaphore_read(s)

    assert run([(P, one), (ONE, lambda o, s: None)], I2, scratch=[SEM(())]).tolist() == [1, 1]


def test_k18_callbacks_run_when_the_program_does():
    said = []

    def one(o, s):
        semaphore_signal(s)
        xlab.debug.callback(said.append, 1)

    def two(o, s):
        semaphore_wait(s)
        xlab.debug.callback(lambda k: said.append(2), lax.axis_index("q"))

    f = xlab.jit(lambda: compiled([(P, one), (ONE, two)], I2, scratch=[SEM(())]))
    f.lower()
    assert not said
    for _ in range(2):
        f()
        xlab.effects_barrier()
    assert sorted(map(int, said)) == [1, 1, 2, 2]


def test_k56_a_kernel_call_inside():
    def double(x, o):
        o[...] = x[...] * 2

    def one(x, o, s, box):
        box[...] = kernel_call(double, S((2,), "int32"), interpret=True)(x[...])
        semaphore_signal(s)

    def two(x, o, s, box):
        semaphore_wait(s)
        o[...] = kernel_call(double, I2, interpret=True)(box[...])

    scratch = [SEM(()), SHARED((2,), "int32")]
    got = run([(ONE, two), (P, one)], I2, np.int32([1, 2]), scratch=scratch)
    assert got.tolist() == [4, 8]


def test_k24_a_semaphore_that_counts_too_far():
    def one(o, s):
        semaphore_signal(s, 32767)
        semaphore_signal(s)

    with pytest.raises(ValueError, match=r"scratch\[0\] would count to 32768 .* 32767"):
        compiled([(P, one), (ONE, lambda o, s: None)], I2, scratch=[SEM(())])


def test_k88_semaphores_of_the_cores_of_a_mesh():
    sems = SemaphoreRef((), SEM, MemorySpace.SEMAPHORE @ Q)

    def sender(o, s):
        o[0] = 5
        for core in (1, 0):
            semaphore_signal(s, core=core)

    def receiver(o, s):
        k = lax.axis_index("q")
        semaphore_wait(s)
        o[1 + k] = o[0] + k

    out = S((3,), "int32")
    for order in (1, -1):
        pairs = [(P, sender), (Q, receiver)][::order]
        assert run(pairs, out, scratch=[sems]).tolist() == [5, 5, 6]

    def nobodys(o, s):
        semaphore_signal(s)

    with pytest.raises(ValueError, match="belongs to the cores of another mesh.*core=0"):
        run([(P, nobodys), (Q, receiver)], out, scratch=[sems])

    def beyond(o, s):
        semaphore_signal(s, core=2)

    with pytest.raises(ValueError, match="belongs to 2 cores, none is core 2"):
        run([(P, beyond), (Q, receiver)], out, scratch=[sems])


def test_k88_copies_and_scopes():
    def one(x, o, s, box):
        def inside(local, sem):
            sync_copy(x, local)
            copy = async_copy(local, box, sem)
            copy.wait()
            semaphore_signal(s)

        run_scoped(inside, LOCAL((4,), "float32"), DMA)

    def two(x, o, s, box):
        semaphore_wait(s)
        sync_copy(box.at[1:3], o)

    x = np.arange(4, dtype=np.float32)
    scratch = [SEM(()), SHARED((4,), "float32")]
    got = run([(ONE, two), (P, one)], S((2,), "float32"), x, scratch=scratch)
    assert got.tolist() == [1, 2]


def test_k88_memory_of_a_core_is_its_own():
    def one(o, s, mine):
        mine[0] = 5
        semaphore_signal(s.at[0])
        semaphore_wait(s.at[1])
        o[0] = mine[0]

    def two(o, s, mine):
        semaphore_wait(s.at[0])
        semaphore_signal(s.at[1])

    scratch = [SEM((2,)), (LOCAL @ P)((1,), "int32")]
    assert run([(P, one), (ONE, two)], S((1,), "int32"), scratch=scratch).tolist() == [5]


def test_k77_references_and_large_arrays():
    n = 2048
    ref = xlab.new_ref(jnp.zeros(n))

    def one(x, s):
        ref[...] = x[...] + 1
        semaphore_signal(s)

    def two(x, s):
        semaphore_wait(s)
        ref[...] = ref[...] * 2

    x = np.arange(n, dtype=np.float32)
    compiled([(ONE, two), (P, one)], (), x, scratch=[SEM(())])
    np.testing.assert_array_equal(ref[...], (x + 1) * 2)


# -- one pair -------------------------------------------------------------------------------------------------

FOUR = CoreMesh("c", 4)
I4 = S((4,), "int32")


def chain(step):
    """Each core waits for the one before (or after) it, adds to what that left, and signals the next."""

    def kernel(o, s, total):
        k = lax.axis_index("c")
        first, last = (0, 3) if step == 1 else (3, 0)

        @when(k != first)
        def _():
            semaphore_wait(s.at[k])

        @when(k == first)
        def _():
            total[0] = 0

        total[0] = total[0] + k
        o[k] = total[0]

        @when(k != last)
        def _():
            semaphore_signal(s.at[k + step])

    return kernel


def test_k87_waiting_for_cores_before():
    got = run([(FOUR, chain(1))], I4, scratch=[SEM((4,)), SHARED((1,), "int32")])
    assert got.tolist() == [0, 1, 3, 6]


def test_k87_waiting_for_a_later_core_needs_the_value_interpreter():
    with pytest.raises(ValueError, match=r"core 0 waits at .*test_static_schedule.py.*scratch\[0\].* has 0 of 1.*later core.*interpret='value'"):  # fmt: skip
        compiled([(FOUR, chain(-1))], I4, scratch=[SEM((4,)), SHARED((1,), "int32")])


def test_k87_semaphores_of_later_cores():
    sems = SemaphoreRef((), SEM, MemorySpace.SEMAPHORE @ FOUR)

    def kernel(o, s, total):
        k = lax.axis_index("c")
        when(k > 0)(lambda: semaphore_wait(s))
        when(k == 0)(lambda: total.__setitem__(0, 0))
        total[0] = total[0] + k
        o[k] = total[0]
        when(k < 3)(lambda: semaphore_signal(s, core=k + 1))

    got = run([(FOUR, kernel)], I4, scratch=[sems, SHARED((1,), "int32")])
    assert got.tolist() == [0, 1, 3, 6]


def test_k87_what_cannot_be_known_needs_it_too():
    def kernel(x, o, s):
        when(x[0] > 0)(lambda: semaphore_wait(s))

    with pytest.raises(ValueError, match="needs the value interpreter"):
        compiled([(FOUR, kernel)], I4, np.int32([1]), scratch=[SEM(())])


def test_k24_one_core_does_not_wait():
    """Nobody else could signal: as in a kernel_call, a wait only subtracts."""

    def kernel(o, s):
        semaphore_wait(s)
        o[0] = semaphore_read(s)

    assert compiled([(ONE, kernel)], S((1,), "int32"), scratch=[SEM(())]).tolist() == [-1]
