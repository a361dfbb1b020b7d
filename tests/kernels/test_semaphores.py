"""Semaphores: their types, what counts, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
from xlab.core.jaxpr import eval_jaxpr
from xlab.interpreters.discharge import discharge_state
from xlab.kernels import (
    MemorySpace,
    SemaphoreRef,
    SemaphoreType,
    interpret_mode,
    kernel_call,
    run_scoped,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
)
from xlab.kernels.failures import DeadlockError
from xlab.kernels.semaphores import is_semaphore

pytestmark = pytest.mark.filterwarnings("ignore:.*ends with the count")
REGULAR, DMA = SemaphoreType.REGULAR, SemaphoreType.DMA


def counts(body, n=1, kinds=(REGULAR,)):
    """What a kernel `body(out, *semaphores)` writes to n integers."""
    out = xlab.ShapeDtypeStruct((n,), "int32")
    return kernel_call(body, out, scratch_shapes=list(kinds), interpret=True)().tolist()


def test_k24_the_types_of_semaphores():
    for kind in SemaphoreType:
        aval = kind.get_ref_aval()
        assert (aval.shape, aval.dtype, aval.kind) == ((), np.int16, kind.value)
        assert aval.memory_space is MemorySpace.SEMAPHORE and is_semaphore(aval)
    array = DMA((2, 3))
    assert array.shape == (2, 3) and array == SemaphoreRef((2, 3), DMA) and array != REGULAR((2, 3))
    assert len({array, DMA((2, 3)), REGULAR((2, 3))}) == 2
    assert repr(array) == "SemaphoreRef(dma, (2, 3))"
    assert not is_semaphore(MemorySpace.LOCAL((), "int16").get_ref_aval())


@pytest.mark.usefixtures("both")
def test_k24_signal_wait_read():
    def body(o, sem):
        semaphore_signal(sem, 2)
        semaphore_wait(sem, 1)
        o[0] = semaphore_read(sem)
        semaphore_signal(sem)
        semaphore_wait(sem, 2, decrement=False)
        o[1] = semaphore_read(sem)

    assert counts(body, 2) == [1, 2]
    assert semaphore_read.__doc__ and counts(lambda o, s: o.__setitem__(0, semaphore_read(s))) == [
        0
    ]


@pytest.mark.usefixtures("both")
def test_k24_one_of_an_array_and_amounts_of_the_program():
    def body(i_ref, o, sems):
        i = i_ref[0]
        semaphore_signal(sems.at[i], i * 5)
        semaphore_wait(sems.at[i], i)
        o[0], o[1] = semaphore_read(sems.at[0]), semaphore_read(sems.at[1])

    out = xlab.ShapeDtypeStruct((2,), "int32")
    call = kernel_call(body, out, scratch_shapes=[REGULAR((2,))], interpret=True)
    assert call(np.array([1], np.int32)).tolist() == [0, 4]


def test_k24_a_compiled_program_does_not_wait():
    def body(o, sem):
        semaphore_wait(sem, 1)
        o[0] = semaphore_read(sem)

    assert counts(body) == [-1]


@pytest.mark.usefixtures("both")
def test_k24_counts_live_from_step_to_step():
    def body(o, sem):
        semaphore_signal(sem, 3)
        o[0] = semaphore_read(sem)

    from xlab.kernels import BlockSpec

    out = xlab.ShapeDtypeStruct((3,), "int32")
    call = kernel_call(
        body,
        out,
        grid=3,
        out_specs=BlockSpec((1,), lambda i: (i,)),
        scratch_shapes=[REGULAR],
        interpret=True,
    )
    assert call().tolist() == [3, 6, 9]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("use", "kinds", "words"),
    [
        (lambda o, s: semaphore_signal(o.at[0]), (REGULAR,), "Must signal semaphores .* regular, dma, barrier. Got .* no semaphore"),
        (lambda o, s: semaphore_wait(o.at[0]), (REGULAR,), "Must wait semaphores"),
        (lambda o, s: semaphore_read(o.at[0]), (REGULAR,), "Must read semaphores"),
        (lambda o, s: semaphore_signal(s), (REGULAR((2,)),), r"Cannot signal on a non-\(\)-shaped semaphore: \(2,\)"),
        (lambda o, s: semaphore_wait(s.at[0]), (REGULAR((2, 2)),), r"Cannot wait on a non-\(\)-shaped semaphore: \(2,\)"),
        (lambda o, s: semaphore_read(s), (DMA((1,)),), r"Cannot read on a non-\(\)-shaped semaphore: \(1,\)"),
        (lambda o, s: semaphore_signal(3), (REGULAR,), "Can only call `semaphore_signal` on a `Ref`, got 3"),
        (lambda o, s: semaphore_signal(s, 1.5), (REGULAR,), "`inc` of semaphore_signal must be an integer scalar .*, got ~?float32"),
        (lambda o, s: semaphore_wait(s, np.arange(2)), (REGULAR,), "`value` of semaphore_wait must be an integer scalar"),
        (lambda o, s: semaphore_signal(s, core=0.5), (REGULAR,), "`core` of semaphore_signal must be an integer scalar"),
        (lambda o, s: semaphore_signal(s, 40_000), (REGULAR,), r"overflows: it counts to 32767 \(int16\)"),
    ],
)  # fmt: skip
def test_k24_what_is_no_count_is_refused(use, kinds, words):
    with pytest.raises(ValueError, match=words):
        counts(use, kinds=kinds)


def test_k13_semaphores_are_discharged():
    """signal: v + inc; wait: v - value if it decrements, else v; read: v as int32."""

    def f(i):
        def body(sems):
            semaphore_signal(sems.at[0], i)
            before = semaphore_read(sems.at[0])
            semaphore_wait(sems.at[0], 2, decrement=False)
            kept = semaphore_read(sems.at[0])
            semaphore_wait(sems.at[0], 2)
            return before, kept, semaphore_read(sems.at[0]), semaphore_read(sems.at[1])

        return run_scoped(body, REGULAR((2,)))

    closed = discharge_state(xlab.make_jaxpr(f)(np.int32(5)))
    assert not [e for e in closed.eqns if "semaphore" in e.primitive.name]
    outs = eval_jaxpr(closed.jaxpr, closed.consts, np.int32(5))
    assert [int(x) for x in outs] == [5, 5, 3, 0]
    assert {str(v.aval) for v in closed.jaxpr.outvars} == {"int32[]"}


def test_k24_a_count_that_is_known_may_not_overflow():
    def body(sem):
        semaphore_signal(sem, 30_000)
        semaphore_signal(sem, 30_000)

    with pytest.raises(ValueError, match="counts to 32767"):
        run_scoped(body, REGULAR)


def test_k24_another_core_needs_the_value_interpreter():
    with pytest.raises(NotImplementedError, match="interpret='value'"):
        counts(lambda o, s: semaphore_signal(s, core=1))


def test_k24_how_they_print_and_their_effects():
    def body(sem):
        semaphore_signal(sem, 2, core=1)
        semaphore_wait(sem, 1, decrement=False)
        semaphore_wait(sem, 1)
        return semaphore_read(sem)

    text = str(xlab.make_jaxpr(lambda: run_scoped(body, REGULAR))())
    for line in (
        "semaphore_signal b[...] 2:i32[] on core 1",
        "semaphore_wait b[...] 1:i32[] without decrement",
        "= semaphore_read b[...]",
    ):
        assert line in text, text
    eqn = xlab.make_jaxpr(lambda: run_scoped(body, REGULAR))().eqns[0]
    inner = eqn.params["jaxpr"]
    assert [sorted(map(repr, e.effects)) for e in inner.eqns] == [["Write<0>"]] * 3 + [["Read<0>"]]


def test_k24_no_derivatives_and_no_examples():
    def body(x, sem):
        semaphore_signal(sem, 2)
        semaphore_wait(sem, 1)
        return x * semaphore_read(sem)

    f = lambda x: run_scoped(lambda sem: body(x, sem), REGULAR)
    assert tuple(map(float, xlab.jvp(f, (3.0,), (1.0,)))) == (3.0, 1.0)
    assert xlab.vmap(f)(np.arange(3.0)).tolist() == [0, 1, 2]

    def per_example(x):
        return run_scoped(lambda sem: semaphore_signal(sem, x), REGULAR)

    with pytest.raises(NotImplementedError, match="once per example"):
        xlab.vmap(per_example)(np.arange(3, dtype=np.int32))


@pytest.mark.usefixtures("both")
def test_k24_one_of_several_that_a_value_chooses():
    def body(i_ref, o, a, b):
        sem = xlab.ref.select_ref(i_ref[0], a, b)
        semaphore_signal(sem, 3)
        semaphore_wait(sem, 1)
        o[0], o[1], o[2] = semaphore_read(a), semaphore_read(b), semaphore_read(sem)

    out = xlab.ShapeDtypeStruct((3,), "int32")
    call = kernel_call(body, out, scratch_shapes=[REGULAR, REGULAR], interpret=True)
    assert call(np.array([1], np.int32)).tolist() == [0, 2, 2]


def test_k24_the_value_interpreter_waits_and_counts_no_further_than_16_bits():
    def overflow(n, o, sem):
        for _ in range(2):
            semaphore_signal(sem, n[0])
        o[0] = semaphore_read(sem)

    def stuck(n, o, sem):
        semaphore_signal(sem, n[0])
        semaphore_wait(sem, n[0] + 1)

    out = xlab.ShapeDtypeStruct((1,), "int32")
    n = np.array([20_000], np.int32)
    with interpret_mode("value"):
        with pytest.raises(ValueError, match="would count to 40000, more than the 32767"):
            kernel_call(overflow, out, scratch_shapes=[REGULAR])(n)
        with pytest.raises(DeadlockError, match="20001"):
            kernel_call(stuck, out, scratch_shapes=[REGULAR])(n)
