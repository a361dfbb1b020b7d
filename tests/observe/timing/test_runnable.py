"""Stages and jaxprs are measured as their function is."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe

X = np.ones((4, 4), np.float32)
KEY = xlab.random.key(3)


def forms(*args):
    traced = xlab.jit(lambda x, k: jnp.sin(x) @ x + xlab.random.normal(k, (4, 4))).trace(*args)
    low = traced.lower()
    return {"traced": traced, "lowered": low, "compiled": low.compile(), "jaxpr": traced.jaxpr}


@pytest.mark.parametrize("form", ["traced", "lowered", "compiled", "jaxpr"])
def test_a_stage_is_run_with_arguments_or_with_those_it_has_or_on_ones(form):
    wanted = set(observe.profile(forms(X, KEY)["compiled"], X, KEY, repeat=2).instructions)
    assert wanted
    open_ = forms(xlab.ShapeDtypeStruct((4, 4), np.float32), KEY)[form]
    for call in ((forms(X, KEY)[form], X, KEY), (forms(X, KEY)[form],), (open_,)):
        assert set(observe.profile(*call, repeat=2).instructions) == wanted
        assert observe.timeline(*call, repeat=2).steps == 2
    assert observe.time(forms(X, KEY)[form], X, KEY, repeat=2).runs == 2


@pytest.mark.parametrize("view", [observe.profile, observe.timeline, observe.time])
def test_what_cannot_run_is_refused_by_name(view):
    with pytest.raises(TypeError, match=f"{view.__name__} takes a function and its arguments, given 3 of type int"):  # fmt: skip
        view(3)
