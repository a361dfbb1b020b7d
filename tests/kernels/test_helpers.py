"""Branches, loops, checks and arithmetic of sizes in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab.kernels import (
    BlockSpec,
    align_to,
    broadcast_to,
    cdiv,
    debug_check,
    debug_print,
    dot,
    enable_debug_checks,
    kernel_call,
    loop,
    multiple_of,
    next_power_of_2,
    program_id,
    reciprocal,
    strides_from_shape,
    when,
)

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

X = np.arange(8, dtype=np.int32)
I8 = xlab.ShapeDtypeStruct((8,), "int32")


def run(kernel, *args, out=I8, **options):
    return kernel_call(kernel, out, interpret=True, **options)(*args)


@pytest.mark.usefixtures("both")
def test_k18_when_runs_or_does_not():
    ran = []
    when(True)(lambda: ran.append(1))
    when(np.bool_(False))(lambda: ran.append(2))
    assert ran == [1]

    def kernel(x, o):
        o[...] = x[...]
        when(x[3] == 3)(lambda: o.__setitem__(0, 100))
        when(x[3] == 4)(lambda: o.__setitem__(1, 100))

    assert run(kernel, X).tolist() == [100, *X[1:].tolist()]


@hypothesis.given(st.integers(-3, 9), st.integers(-3, 9), st.integers(1, 4), st.booleans())
@hypothesis.settings(max_examples=15)
def test_k18_a_loop_visits_what_range_does(lower, upper, step, traced):
    def f(lower, upper, step):
        ref = xlab.new_ref(jnp.zeros(16, int))

        @loop(lower, upper, step=step, init_carry=0)
        def visits(i, n):
            ref[i + 4] = n + 1
            return n + 1

        return visits, ref[...]

    count, places = xlab.jit(f)(lower, upper, step) if traced else f(lower, upper, step)
    wanted = np.zeros(16, int)
    for n, i in enumerate(range(lower, upper, step)):
        wanted[i + 4] = n + 1
    assert int(count) == len(range(lower, upper, step)) and places.tolist() == wanted.tolist()


@pytest.mark.usefixtures("both")
def test_k18_loops_unrolled_and_loops_that_write():
    def kernel(x, o):
        o[...] = jnp.zeros(8, int)

        @loop(1, 7, step=2, unroll=True)
        def _(i):
            o[i] = x[i] * 10

        @loop(0, 8, unroll=4)
        def result(i):
            o[i] += 1

        assert result is None

    assert run(kernel, X).tolist() == [1, 11, 1, 31, 1, 51, 1, 1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: loop(0.5, 3), TypeError, "loop takes integer scalars, got lower="),
        (lambda: loop(0, np.arange(2)), TypeError, "got upper="),
        (lambda: loop(0, 3, step=2.0), TypeError, "got step="),
        (lambda: loop(0, 3, step=0), ValueError, "step of at least 1, got 0"),
        (lambda: loop(3, 0, step=-1), ValueError, "step of at least 1, got -1. To go down"),
        (lambda: loop(0, 3)(lambda i: i), TypeError, "without init_carry returns None"),
        (lambda: xlab.jit(lambda n: loop(0, n, unroll=2)(lambda i: None))(3), ValueError, "unroll"),
        (lambda: when(np.array([True, False]))(lambda: None), TypeError, "Pred must be a scalar"),
        (lambda: xlab.jit(lambda p: when(p)(lambda: 3))(True), TypeError, r"is under when: it writes to references and returns None"),
    ],
)  # fmt: skip
def test_k18_loops_and_branches_refuse(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.usefixtures("both")
def test_k18_prints_come_in_the_order_of_the_grid(capfd):
    def kernel(x, o):
        debug_print("step {} of {}", program_id(0), 4)
        debug_print("x", x[0], x[1])
        o[...] = x[...]

    block = BlockSpec((2,), lambda i: (i,))
    xlab.block_until_ready(run(kernel, X, grid=4, in_specs=[block], out_specs=block))
    xlab.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    assert lines == [w for i in range(4) for w in (f"step {i} of 4", f"x {2 * i} {2 * i + 1}")]


@pytest.mark.usefixtures("both")
def test_k18_checks_are_off_until_they_are_on():
    def kernel(x, o):
        debug_check(x[0] < 4, "the first is small")
        o[...] = x[...]

    block = BlockSpec((2,), lambda i: (i,))

    def call():
        return np.asarray(run(kernel, X, grid=4, in_specs=[block], out_specs=block))

    assert call().tolist() == X.tolist()
    with enable_debug_checks(), pytest.raises(Exception, match="the first is small"):
        call()
    with enable_debug_checks(True):
        kernel_call(lambda x, o: debug_check(x[0] < 4, "no"), I8, interpret=True)(X)
        with pytest.raises(ValueError, match=r"no way \(`debug_check` failed\)"):
            debug_check(False, "no way")
        with pytest.raises(ValueError, match="an example"):
            xlab.vmap(lambda c: debug_check(c, "an example"))(np.array([True, False]))
        assert tuple(
            xlab.jvp(lambda x: (debug_check(x > 0, "positive"), x)[1], (1.0,), (2.0,))
        ) == (1.0, 2.0)
        with pytest.raises(TypeError, match="boolean scalar, got"):
            debug_check(3, "three")
    with pytest.raises(TypeError, match="takes a message, got 3"):
        debug_check(True, 3)


def test_k18_hints_leave_values_alone():
    assert multiple_of(16, 8) == 16 and multiple_of(7, 8) == 7

    def kernel(x, o):
        o[...] = x[...] + multiple_of(program_id(0) * 8, 8)

    assert run(kernel, X, grid=(1,)).tolist() == X.tolist()
    with enable_debug_checks():
        assert multiple_of(np.array([8, 16]), (8, 4)).tolist() == [8, 16]
        with pytest.raises(ValueError, match="no multiple of 8"):
            multiple_of(jnp.int32(7), 8)
    with pytest.raises(TypeError, match="multiple_of takes integers"):
        multiple_of(1.5, 8)


def test_k18_reciprocal():
    x = np.array([3, -2, 0.5], np.float32)
    for options in ({}, {"approx": True}, {"approx": True, "full_range": False}):
        assert reciprocal(x, **options).tolist() == (1 / x).tolist()
    assert reciprocal(jnp.bfloat16(3)).dtype == jnp.bfloat16
    with pytest.raises(TypeError, match="floating-point numbers, got"):
        reciprocal(3)


def test_k18_dot():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    for left, ta in ((a, False), (a.T, True)):
        for right, tb in ((b, False), (b.T, True)):
            got = dot(left, right, trans_a=ta, trans_b=tb, precision="highest")
            np.testing.assert_allclose(got, a @ b, rtol=1e-5)
    assert dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)).dtype == np.float32
    assert dot(np.ones((2, 2), np.int8), np.full((2, 2), 100, np.int8)).tolist() == [[200] * 2] * 2
    np.testing.assert_allclose(dot(a, b, allow_tf32=False), a @ b, rtol=1e-5)
    with pytest.raises(ValueError, match=r"must be 2D arrays, got b=float32\[3\]"):
        dot(a, b[:, 0])
    with pytest.raises(ValueError, match="Only one of"):
        dot(a, b, allow_tf32=True, precision="high")


@hypothesis.given(st.integers(-50, 50), st.integers(1, 9))
@hypothesis.settings(max_examples=25)
def test_k18_quotients_round_up(a, b):
    import math

    assert cdiv(a, b) == math.ceil(a / b) and align_to(a, b) == math.ceil(a / b) * b
    assert int(cdiv(jnp.int32(a), b)) == math.ceil(a / b)
    assert align_to(np.array([a], np.int32), b).tolist() == [math.ceil(a / b) * b]


def test_k18_sizes():
    assert [next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 1023, 1025)] == [
        1,
        1,
        2,
        4,
        4,
        8,
        1024,
        2048,
    ]
    assert strides_from_shape((2, 3, 4)) == (12, 4, 1) and strides_from_shape(()) == ()
    for shape in ((5,), (2, 3), (1, 4, 2)):
        x = np.zeros(shape, np.int8)
        assert strides_from_shape(shape) == x.strides
    with pytest.raises(ValueError, match="non-negative integer, got -1"):
        next_power_of_2(-1)
    with pytest.raises(TypeError):
        next_power_of_2(2.5)
    with pytest.raises(TypeError, match="cdiv takes integers"):
        cdiv(7.0, 2)


def test_k18_broadcast_to():
    assert broadcast_to(np.arange(2), [3, 2]).tolist() == [[0, 1]] * 3
    with pytest.raises(ValueError, match="roadcast"):
        broadcast_to(np.arange(2), (2, 3))
