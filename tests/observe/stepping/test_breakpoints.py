"""Breakpoints stop behind the step they name; runs compared; choices of into and over, and replaced values, are kept going back."""

import numpy as np
import pytest

from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab import numpy as jnp
from xlab.observe.stepping.breakpoints import breakpoint_of, breakpoints_of

X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def chain(x):
    h = lax.sin(x)
    y = lax.mul(h, np.float32(100))
    z = lax.log(lax.sub(y, y))
    return lax.reduce_sum(lax.mul(z, np.zeros((4, 4), np.float32)), (0, 1))


@pytest.mark.parametrize(
    ("what", "index"),
    [
        ({"primitive": "mul"}, 1),
        ({"variable": "h"}, 0),
        ({"line": chain.__code__.co_firstlineno + 2}, 1),
        ({"above": 50.0}, 1),
        ({"inf": True}, 3),
        ({"nan": True}, 4),
        ({"shape": ()}, 5),
        ({"equation": 2}, 2),
        ({"primitive": "mul", "after": 2}, 4),
        ({"where": lambda outs: float(np.asarray(outs[0]).max()) > 50}, 1),
        ({"primitive": "mul", "nan": True}, 4),
    ],
)
def test_a_run_stops_behind_the_step(what, index):
    stepper = observe.Stepper(chain, np.abs(X) + 1)
    stop = stepper.break_at(**what)
    assert stepper.run().index == index
    assert stop.hits == what.get("after", 1)


def test_breakpoints_count_and_go_on():
    stepper = observe.Stepper(programs.control, X)
    stop = stepper.break_at(primitive="mul", after=10**6)
    stepper.run()
    assert stepper.finished and stop.hits == sum(
        " = mul " in s.text for s in observe.steps(programs.control, X)
    )
    with pytest.raises(TypeError, match="something to stop at"):
        stepper.break_at()


@pytest.mark.parametrize(
    "text",
    ["nan", "inf", "abs > 0.5", "shape 8,4", "line 12", "equation 5", "var h", "dot_general"],
)
def test_texts_of_breakpoints(text):
    assert str(breakpoint_of(text)) == text


@pytest.mark.parametrize(
    "text", ["abs >", "line x", "__import__('os')", "a b c", "<b>", "shape " + "1" * 2000, "1" * 50]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="breakpoint"):
        breakpoint_of(text)
    assert len(breakpoints_of("nan; line 3;;")) == 2


def test_over_is_remembered_going_back():
    stepper = observe.Stepper(programs.control, X)
    seen = []
    while not stepper.finished:
        seen.append(stepper.over() if len(seen) % 2 else stepper.next())
    for index in (len(seen) // 2, 1, len(seen) - 1):
        assert stepper.goto(index) == seen[index - 1]
    stepper.goto(0)
    assert [s.text for s in stepper] != [s.text for s in seen] or all(not s.path for s in seen)


def test_a_replaced_value_stays_replaced_going_back():
    stepper = observe.Stepper(chain, X)
    first = stepper.next()
    stepper.replace("h", np.ones((4, 4), np.float32))
    changed = stepper.next()
    assert (
        changed.outputs[0].max == 100.0 and stepper.goto(1).index == 0 and stepper.next() == changed
    )
    stepper.goto(0)
    assert stepper.goto(2) == changed
    stepper.forget_replacements()
    assert stepper.next() == first and stepper.next().outputs[0].max != 100.0


def test_two_precisions_and_a_compiled_run():
    def f(x):
        return lax.exp(lax.mul(x.astype(np.float32), np.float32(20)))

    a, b = observe.Stepper(f, jnp.asarray(X)), observe.Stepper(f, jnp.asarray(X, jnp.bfloat16))
    x, y = observe.first_difference(a, b, rtol=1e-3)
    assert " = mul " in x.text and " = mul " in y.text and y.index == x.index + 1
    a, b = observe.Stepper(f, jnp.asarray(X)), observe.Stepper(f, jnp.asarray(X, jnp.bfloat16))
    found = observe.first_difference(a, b, rtol=1e-2)
    assert found is not None and " = exp " in found[0].text
    assert observe.jitted_difference(f, jnp.asarray(X)) is None
    assert observe.jitted_difference(programs.control, X) is None
    with pytest.raises(ValueError, match="part"):
        observe.first_difference(
            observe.Stepper(f, jnp.asarray(X)), observe.Stepper(lambda x: lax.sin(x), X)
        )


def test_a_run_knows_the_mesh_of_its_shard_map():
    f = programs.ring()
    x, w = np.ones((8, 8), np.float32), np.ones((8, 4), np.float32)
    mesh = observe.Stepper(f, x, w).program.mesh
    assert mesh.axis_names == ("data", "model") and mesh.device_ids == tuple(range(8))
    assert observe.Stepper(chain, X).program.mesh is None


def test_ten_thousand_equations_are_measured():
    from tests.benchmarks.stepping import measure

    assert all(value > 0 and goal > 0 for _, value, goal in measure())
