"""Stages and jaxprs are measured as their function is."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import observe
from xlab.observe.timing.runnable import Spared

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


TAKING = xlab.jit(lambda a, b: (a + b["w"], b["n"]), donate_argnums=0, donate_argnames="b")


@pytest.mark.parametrize(
    "look",
    [
        lambda f, *args: observe.time(f, *args, repeat=2),
        lambda f, *args: observe.profile(f, *args, repeat=2),
        lambda f, *args: observe.timeline(f, *args, repeat=2),
        lambda f, *args: observe.diff((f, *args), (f, *args), repeat=2),
    ],
)
@pytest.mark.parametrize("form", ["jit", "compiled", "eager"])
def test_what_a_run_takes_is_a_copy(look, form):
    args = jnp.ones(3), {"w": jnp.ones(3), "n": xlab.random.key(0)}
    f = {
        "jit": TAKING,
        "compiled": TAKING.lower(*args).compile(),
        "eager": lambda a, b: TAKING(a, b),
    }[form]
    look(f, *args)
    assert not any(x.is_deleted() for x in xlab.tree.leaves(args))
    assert float(args[0][0] + args[1]["w"][0]) == 2.0


def test_nothing_is_copied_for_a_function_that_takes_nothing():
    args = (jnp.ones(3),), {"k": jnp.ones(3)}
    plain = Spared(xlab.jit(lambda x, k: x), *args)
    assert all(plain() == args for _ in range(2))
    # Of another callable that is known after the first run.
    other = Spared(lambda x, k: x, *args)
    assert other()[0][0] is not args[0][0] and other()[0][0] is args[0][0]
