"""In what structures differ, in words: of what a library keeps in its nodes as much as says it."""

from __future__ import annotations

import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.compile.structures import WIDTH, around_difference, structures_differ


@pytest.fixture
def model():
    """A node that holds one array and is made with the text of a whole model."""

    class Model:
        def __init__(self, x, made):
            self.x, self.made = x, made

    xlab.tree_util.register_pytree_node(Model, lambda m: ((m.x,), m.made), lambda made, xs: Model(xs[0], made))  # fmt: skip
    return Model


def described(training: bool) -> str:
    layers = "\n".join(f"  Layer(index={i}, features=64)," for i in range(400))
    return f"Net([\n{layers}\n], training={training})"


def test_of_a_model_the_part_that_changed(model):
    f = xlab.jit(lambda m: m.x * 2, name="apply")
    f(model(jnp.ones(3), described(True)))
    with observe.record() as session:
        f(model(jnp.ones(3), described(False)))
    report = str(observe.report(session))
    assert "training=True" in report and "training=False" in report
    assert len(report) < 2500 and "Layer(index=7," not in report
    with pytest.raises(TypeError, match="same values in other containers") as raised:
        f.lower(model(jnp.ones(3), described(True))).compile()(model(jnp.ones(3), described(False)))
    assert "training=False" in str(raised.value) and len(str(raised.value)) < 700


def test_by_keyword_of_what_was_passed_by_position(model):
    compiled = xlab.jit(lambda m: m.x * 2).lower(model(jnp.ones(3), described(True))).compile()
    with pytest.raises(TypeError, match="by keyword and not by position") as raised:
        compiled(m=model(jnp.ones(3), described(True)))
    assert len(str(raised.value)) < 700


@pytest.mark.parametrize(("at", "length"), [(0, 500), (250, 500), (499, 500), (3, 20)])
def test_around_the_first_difference(at, length):
    was = "a" * length
    now = was[:at] + "b" + was[at + 1 :]
    one, other = around_difference(was, now)
    assert "b" in other and "b" not in one and len(one) <= WIDTH + 2
    assert (one[0] == "…") == (at > WIDTH) and (one[-1] == "…") == (length > WIDTH and at < 400)


def test_metadata_that_print_alike(model):
    class Opaque:
        def __repr__(self):
            return "Opaque()"

    made = [xlab.tree.structure(((model(1, Opaque()),), {})) for _ in range(2)]
    said = structures_differ(made[0], ["m[0]"], made[1], ["m[0]"])
    assert said.endswith("is with Opaque(), which prints alike and is not equal")
