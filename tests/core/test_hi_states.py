"""Mutable hi types where the reference has no answer, or another one: what is said, states, and the condition of a loop."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.experimental.hi_values import boxes
from xlab import lax
from xlab.core.hi_states import is_mutable
from xlab.experimental import cur_qdd
from xlab.experimental.hijax import MutableQuasiDynamicData

B = boxes("xlab")


def box(value=1.0):
    return B.Box(xlab.tree.map(jnp.float32, value))


def test_programs_say_what_a_value_consists_of_before_and_after():
    text = str(xlab.make_jaxpr(lambda b, x: b.set([b.get(), x]))(box(), jnp.ones(3)))
    assert "a:Box{f32[] -> f32[],f32[3]}" in text
    made = str(xlab.make_jaxpr(lambda x: B.new(x).set([x]))(1.0))
    assert "b:Box{f32[]} = new_box_" in made and "set_box_" in made


def test_it_is_traced_once_for_each_state():
    traced = []
    b = box(None)

    @xlab.jit
    def f():
        traced.append(1)
        value = b.get()
        b.set(0.0 if value is None else value + 1)

    for _ in range(4):
        f()
    assert float(b.value) == 3 and len(traced) == 2
    b.set(None)
    f()
    f()
    assert float(b.value) == 1 and len(traced) == 2


def test_the_condition_of_a_loop_sees_what_the_body_changes():
    def grow(b):
        return lax.while_loop(lambda i: b.get() < 20, lambda i: (b.set(2 * b.get()), i + 1)[1], 0)

    first, second = box(), box()
    assert int(grow(first)) == 5 and float(first.value) == 32
    assert int(xlab.jit(grow)(second)) == 5 and float(second.value) == 32


def test_a_map_may_change_it_alike_for_all_examples():
    b = box()
    xlab.vmap(lambda x: (b.set(jnp.float32(3.0)), x)[1])(jnp.arange(3.0))
    assert float(b.value) == 3
    with pytest.raises(
        NotImplementedError, match="vmap of 'set_box_'.*values that differ between examples"
    ):
        xlab.vmap(lambda x: (b.set(x), x)[1])(jnp.arange(3.0))


def test_a_call_that_is_differentiated_changes_it_once():
    def loss(b, x):
        b.set(b.get() + lax.stop_gradient(x))
        return x * x

    for f in (loss, xlab.jit(loss), xlab.checkpoint(loss)):
        b = box()
        assert float(xlab.grad(lambda x: f(b, x))(3.0)) == 6 and float(b.value) == 4


def test_states_are_asked_for():
    b = box()
    assert cur_qdd(b) == b.cur_qdd()
    seen = []

    @xlab.jit
    def f(b):
        seen.append((cur_qdd(b), b.type_state()))
        b.set([b.get()])
        seen.append((cur_qdd(b), b.type_state()))

    before = b.cur_qdd()
    f(b)
    assert seen == [(before, before), (b.cur_qdd(), b.cur_qdd())] and before != b.cur_qdd()
    with pytest.raises(
        TypeError, match="cur_qdd takes a value of a mutable hi type, got .* of type float32"
    ):
        cur_qdd(jnp.ones(3))
    data = MutableQuasiDynamicData(1)
    data.update(2)
    assert (data.init_val, data.cur_val) == (1, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda b: xlab.jit(lambda a, c: None)(b, b), ValueError, "changes in place, was passed twice when tracing .* at both a and c"),
        (lambda b: xlab.jit(lambda a: b.set(a.get()))(b), ValueError, "both closed over and passed as the argument a"),
        (lambda b: xlab.jit(lambda: B.new(1.0))(), TypeError, "cannot be returned from programs: they change in place"),
        (lambda b: xlab.jit(lambda a: a)(b), TypeError, "mutable hi type Box.* is a result of"),
        (lambda b: lax.cond(True, lambda: b.set([b.get()]), lambda: None), TypeError, "branches of cond leave a value of type Box.* in different states"),
        (lambda b: lax.while_loop(lambda i: i < 3, lambda i: (b.set([b.get()]), i)[1], 0), TypeError, "type-changing mutations not allowed in while_loop body"),
        (lambda b: lax.scan(lambda c, x: (c, None), b, None, length=2), TypeError, "mutable hi type Box"),
        (lambda b: jnp.sin(b), TypeError, "is a hi type"),
    ],
)  # fmt: skip
def test_what_cannot_be_done(call, error, words):
    with pytest.raises(error, match=words):
        call(box())


def test_steps_work_on_a_copy():
    def f(b, x):
        b.set(b.get() + x)
        xlab.jit(lambda: b.set(2 * b.get()))()
        return lax.fori_loop(0, 2, lambda i, c: (b.set(b.get() + i), c)[1], x) + b.get()

    b = box()
    stepper = xlab.observe.step(f)(b, 3.0)
    first = [str(s) for s in stepper]
    assert "Box{f32[]}" in first[0] and float(b.value) == 1
    assert float(stepper.result()) == float(f(box(), 3.0)) == 12
    stepper.goto(0)
    assert [str(s) for s in stepper] == first
    assert float(stepper.result()) == 12 and float(b.value) == 1


def test_what_runs_is_shown_on_arrays():
    f = lambda b, x: b.set(b.get() * x)
    assert "mul" in str(xlab.observe.program(f, box(), 3.0))
    assert "Box" in str(xlab.observe.ladder(f, box(), 3.0))
    np.testing.assert_array_equal(xlab.observe.memory(f, box(), 3.0).arguments, 8)


def test_what_is_no_value_of_a_program_is_not_mutable():
    """Views of references are refused by whoever is given one, in its own words."""
    assert is_mutable(box())
    view = xlab.new_ref(jnp.ones((2, 2))).T
    assert not is_mutable(view) and not is_mutable("text")
    with pytest.raises(ValueError, match="Can only call `freeze` on a `Ref`"):
        xlab.ref.freeze(view)
