"""Functions that are one compiled program when called eagerly: when they become one, and what they are while something is traced."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.numpy.array_methods import binary_operator
from xlab.numpy.jit_when_eager import jit_when_eager

X = np.arange(3, dtype=np.float32)


@pytest.fixture
def made(monkeypatch):
    """Names of the functions that became programs since the test began."""
    names, module = [], inspect.getmodule(jit_when_eager)
    jit = module.jit
    monkeypatch.setattr(
        module, "jit", lambda fun, **kwargs: names.append(fun.__name__) or jit(fun, **kwargs)
    )
    return names


@pytest.mark.parametrize("static", [(), ("times",)])
def test_the_first_eager_call_makes_the_program(made, static):
    traced = []

    @jit_when_eager(static=static)
    def scaled(x, times=2):
        """Doc."""
        traced.append(type(x))
        return lax.mul(x, lax.full_like(x, times))

    assert made == [] and (scaled.__name__, scaled.__doc__) == ("scaled", "Doc.")
    waiting = scaled.compiled
    np.testing.assert_array_equal(scaled(X), 2 * X)
    assert made == ["scaled"] and scaled.compiled is not waiting
    program = scaled.compiled
    np.testing.assert_array_equal(scaled(X + 1), 2 * X + 2)
    assert (len(traced), made, scaled.compiled) == (1, ["scaled"], program)
    np.testing.assert_array_equal(waiting(X), 2 * X)  # whoever took it before uses that program too
    assert len(traced) == 1 and made == ["scaled"]


def test_no_program_is_made_while_something_is_traced(made):
    @jit_when_eager
    def twice(x):
        return lax.add(x, x)

    (eqn,) = xlab.make_jaxpr(twice)(X).eqns
    assert eqn.primitive.name == "add" and made == []


def test_a_static_value_without_hash_runs_primitive_by_primitive(made):
    @jit_when_eager(static="axes")
    def largest(x, axes):
        return lax.reduce_max(x, tuple(axes))

    assert largest(X, [0]) == largest(X, (0,)) == 2
    with pytest.raises(ValueError, match="axis|axes|dimension"):
        largest(X, (3,))


def test_operators_hold_the_program_itself(made):
    @jit_when_eager
    def joined(x, y):
        return lax.add(x, y)

    operator = binary_operator(joined)
    assert made == ["joined"]
    waits = inspect.getclosurevars(operator).nonlocals["compiled"]
    assert waits is joined.compiled
    np.testing.assert_array_equal(operator(jnp.asarray(X), jnp.asarray(X)), 2 * X)
    assert made == ["joined"]


def test_a_function_that_fails_at_first_may_be_called_again():
    fails = [True]

    @jit_when_eager
    def shaky(x):
        if fails:
            raise RuntimeError("not yet")
        return lax.neg(x)

    with pytest.raises(RuntimeError, match="not yet"):
        shaky(X)
    fails.clear()
    np.testing.assert_array_equal(shaky(X), -X)
