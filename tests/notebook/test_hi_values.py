"""Views of programs with values of hi types: pages are made, and names of types are text in them."""

from __future__ import annotations

import json

import pytest

import xlab.numpy as jnp
from tests.experimental.hi_values import boxes, vectors
from xlab import observe
from xlab.notebook.export import to_html
from xlab.notebook.views.stepper import StepperView

V, B = vectors("xlab"), boxes("xlab")


def both(b, u):
    b.set(V.of(u))
    return V.of(V.mul(u, u)) + b.get()


def given():
    return B.Box(jnp.float32(1)), V.Vec(jnp.ones(3))


def test_steps():
    record = observe.trace(both, *given())
    assert "<locals>" not in to_html(record)  # what a type is called is the user's text
    steps = json.dumps(StepperView().data(record)["steps"])
    assert "VecType" in steps and "mul_vec" in steps


@pytest.mark.parametrize("look", [observe.program, observe.ladder, observe.memory])
def test_other_views(look):
    page = to_html(look(both, *given()))
    assert "both" in page and "<locals>" not in page
