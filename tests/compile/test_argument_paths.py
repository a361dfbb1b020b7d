"""Names of arguments that a library took apart before it jitted: what the user called them."""

from __future__ import annotations

import importlib
import sys

import pytest

import xlab
import xlab.numpy as jnp
from xlab.compile.argument_paths import paths_of_user

LIBRARY = """
import functools, xlab

class Jitted:
    def __init__(self, fun):
        functools.update_wrapper(self, fun)
        def flat(leaves, tree):
            args, kwargs = xlab.tree.unflatten(tree, leaves)
            return fun(*args, **kwargs)
        self._flat = xlab.jit(flat, static_argnums=1)

    def __call__(self, *args, **kwargs):
        return self._run(self._flat, args, kwargs)

    def trace(self, *args, **kwargs):
        return self._run(self._flat.trace, args, kwargs)

    def _run(self, how, args, kwargs):
        leaves, tree = xlab.tree.flatten((args, kwargs))
        return how(leaves[::-1] if self.backwards else leaves, tree)

    backwards = False
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "flatlib.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("flatlib")
    del sys.modules["flatlib"]


def names(traced):
    return traced.jaxpr.jaxpr.debug_info.arg_names


def test_arrays_are_known_by_themselves(library):
    step = library.Jitted(lambda params, x, scale=1.0: params["w"] * x * scale)
    params = {"b": jnp.ones(2), "w": jnp.ones(3)}
    assert names(step.trace(params, jnp.ones(3), scale=jnp.ones(3))) == ("params['b']", "params['w']", "x", "scale")  # fmt: skip
    with xlab.observe.record() as session:
        step(params, jnp.zeros(()))
    (program,) = xlab.observe.report(session).programs
    assert [v.note for v in program.inputs] == ["params['b']", "params['w']", "x"]


def test_in_whatever_order_they_are_handed_on(library):
    step = library.Jitted(lambda a, b: (a, b))
    step.backwards = True
    assert names(step.trace(jnp.ones(2), jnp.ones(3))) == ("b", "a")


def test_an_array_that_is_given_twice_has_its_first_place(library):
    x = jnp.ones(2)
    step = library.Jitted(lambda a, b: a + b)
    assert names(step.trace(x, x)) == ("a", "a")


def test_numbers_and_functions_without_names_keep_what_the_runtime_calls_them(library):
    step = library.Jitted(lambda a, b: a + b)
    assert names(step.trace(jnp.ones(2), 2.0)) == ("a", "leaves[1]")
    step = library.Jitted(lambda *args: args[0])
    assert names(step.trace([jnp.ones(2)])) == ("args[0][0]",)


def test_a_call_of_the_users_own_is_as_it_was():
    class Wrapper:
        def __init__(self, fun):
            self.__wrapped__ = fun

        def __call__(self, *args, **kwargs):
            return xlab.jit(lambda leaves: self.__wrapped__(*leaves)).trace(list(args))

    assert names(Wrapper(lambda a: a)(jnp.ones(2))) == ("leaves[0]",)
    assert paths_of_user([1.0], ("x",)) == ("x",)
