"""Equations of transformed programs know where they come from, and nobody else pays for it."""

import threading

import numpy as np

import xlab
from xlab import lax
from xlab.core.jaxpr import eval_jaxpr
from xlab.core.trace import state
from xlab.interpreters import ad, batching
from xlab.interpreters.provenance import Derived, mark, named_rules

X = np.float32(0.5)


def traced(fun, *args):
    return xlab.make_jaxpr(fun)(*args)


def marked(fun, *args):
    closed = mark(traced(fun, *args))
    return closed, lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)[0]


def came(closed):
    return [
        (e.primitive.name, e.raw_source_info.origin, e.raw_source_info.rules)
        for e in closed.eqns
        if isinstance(e.raw_source_info, Derived)
    ]


def test_marks_are_the_numbers_of_the_equations_inner_programs_included():
    closed, _ = marked(lambda x: xlab.jit(lambda y: lax.sin(y))(lax.cos(x)), X)
    cos, jit = closed.eqns
    assert [e.raw_source_info.origin for e in (cos, jit, *jit.params["jaxpr"].eqns)] == [0, 1, 2]
    assert cos.source_info.position().file == __file__ and eval_jaxpr(
        closed.jaxpr, closed.consts, X
    )


def test_rules_add_their_names_one_after_the_other():
    _, f = marked(lambda x: lax.mul(x, lax.sin(x)), X)
    with named_rules():
        made = traced(xlab.vmap(xlab.grad(f)), np.ones(3, np.float32))
    assert ("mul", 0, ("jvp of sin", "transpose of mul", "batch of mul")) in came(made)
    assert {origin for _, origin, _ in came(made)} == {0, 1}


def test_a_program_inside_has_the_rules_of_its_own_equations():
    _, f = marked(lambda x: xlab.jit(lambda y: lax.exp(y), inline=False)(x), X)
    with named_rules():
        made = traced(lambda x, t: xlab.jvp(f, (x,), (t,)), X, X)
    (jit,) = (e for e in made.eqns if e.primitive.name == "jit")
    assert jit.raw_source_info.rules == ("jvp of jit",)
    assert [e.raw_source_info.rules for e in jit.params["jaxpr"].eqns] == [("jvp of exp",)] * 2


def test_nothing_stays_behind_and_other_programs_are_as_ever():
    before = ad.primitive_jvps.get, batching.primitive_batchers.get
    with named_rules(), named_rules():
        plain = traced(xlab.grad(lambda x: lax.sin(x)), X)
        assert ad.primitive_jvps.get != before[0]
    assert (
        ad.primitive_jvps.get,
        batching.primitive_batchers.get,
    ) == before and state.source_info is None
    assert came(plain) == [] and str(plain) == str(traced(xlab.grad(lambda x: lax.sin(x)), X))


def test_another_thread_sees_nothing():
    found = []
    with named_rules():
        other = threading.Thread(
            target=lambda: found.append(came(traced(xlab.grad(lambda x: lax.sin(x)), X)))
        )
        other.start()
        other.join()
    assert found == [[]]


def test_an_error_leaves_tables_and_locations_as_they_were():
    _, f = marked(lambda x: lax.exp(x), np.ones(3, np.float32))
    before = ad.primitive_jvps.get
    try:
        with named_rules():
            xlab.grad(f)(np.ones(3, np.float32))
    except TypeError:
        pass
    assert ad.primitive_jvps.get == before and state.source_info is None
