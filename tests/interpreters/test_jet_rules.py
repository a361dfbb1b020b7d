"""Rules of Taylor polynomials: each one that is registered, and those that programs register."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.transforms.test_jet import nested
from xlab import lax
from xlab.core.primitive import Primitive
from xlab.errors import MissingRule
from xlab.experimental.jet import jet, jet_rules
from xlab.extend.core.primitives import jit_p
from xlab.interpreters import ad, mlir

X = np.array([0.3, 0.7])
SERIES = [np.array(c) for c in ([1.0, -0.5], [0.3, 0.2], [-0.4, 0.1], [0.6, -0.7], [0.2, 0.9])]
C = np.array([2.0, -3.0])
# Programs of each primitive that has a rule: all operands moving, and some of them constant.
PROGRAMS = {
    lax.exp_p: {"one": lax.exp},
    lax.sin_p: {"one": lax.sin},
    lax.cos_p: {"one": lax.cos},
    lax.div_p: {
        "both": lambda x: lax.div(lax.sin(x), x + 2),
        "of_constant": lambda x: lax.div(x * x, C),
        "by_constant": lambda x: lax.div(C, x * x),
    },
    jit_p: {
        "one": xlab.jit(lambda x: jnp.tanh(x) * x),
        "several": xlab.jit(lambda x: (x**3, C, lax.log(x))),
        "constant": lambda x: xlab.jit(lambda c, x: c * x * x)(C, x),
    },
}
ROWS = [(prim, how) for prim, programs in PROGRAMS.items() for how in programs]


def terms_of(fun, order):
    out, terms = jet(fun, (X,), (SERIES[:order],))
    structure = xlab.tree.structure(out)
    columns = structure.flatten_up_to(terms)
    return [[column[k] for column in columns] for k in range(order)]


def test_every_rule_has_programs():
    assert set(PROGRAMS) == set(jet_rules)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize(("prim", "how"), ROWS, ids=lambda x: getattr(x, "name", x))
def test_terms_by_a_rule_are_derivatives_of_derivatives(prim, how, order, monkeypatch):
    fun, rule, used = PROGRAMS[prim][how], jet_rules[prim], []

    def watched(primals, series, order, **params):
        used.append(order)
        return rule(primals, series, order, **params)

    monkeypatch.setitem(jet_rules, prim, watched)
    with xlab.enable_x64(True):
        found = terms_of(fun, order)
        assert used and max(used) == order
        for terms, expected in zip(found, nested(fun, X, SERIES[:order]), strict=True):
            for a, b in zip(terms, xlab.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("prim", [p for p in PROGRAMS if p is not jit_p], ids=lambda p: p.name)
def test_a_rule_saves_work_and_changes_nothing(prim, monkeypatch):
    def counted(x):
        return xlab.make_jaxpr(lambda x: jet(fun, (x,), (SERIES,)))(x)

    with xlab.enable_x64(True):
        for fun in PROGRAMS[prim].values():
            with monkeypatch.context() as patch:
                by_rule, size = terms_of(fun, 5), len(counted(X).eqns)
                patch.delitem(jet_rules, prim)
                assert len(counted(X).eqns) > size
                np.testing.assert_allclose(by_rule, terms_of(fun, 5), rtol=1e-10)


@pytest.fixture
def cube_p():
    """A primitive of the test's own, without any derivative."""
    prim = Primitive("jet_rules_cube")
    prim.def_impl(lambda x: x * x * x)
    prim.def_abstract_eval(lambda x: x)
    mlir.register_text_lowering(prim, mlir.lower_fun(lambda x: x * x * x, multiple_results=False))
    yield prim
    jet_rules.pop(prim, None)


def cube_rule(primals, series, order):
    """The coefficients of x^3, by products of polynomials."""
    xs = [*primals, *series[0]]
    square = [sum(xs[i] * xs[k - i] for i in range(k + 1)) for k in range(order + 1)]
    cube = [sum(xs[i] * square[k - i] for i in range(k + 1)) for k in range(order + 1)]
    return cube[0], cube[1:]


def test_a_rule_of_a_program_is_the_one_that_counts(cube_p):
    with pytest.raises(
        MissingRule, match=r"registered with jet\.jet_rules\[jet_rules_cube_p\] = rule"
    ):
        jet(cube_p.bind, (2.0,), ((1.0, 0.0),))
    jet_rules[cube_p] = cube_rule
    with xlab.enable_x64(True):
        for fun, same in (
            (cube_p.bind, lambda x: x**3),
            (lambda x: jnp.sin(cube_p.bind(jnp.exp(x))), lambda x: jnp.sin(jnp.exp(3 * x))),
            (xlab.jit(lambda x: cube_p.bind(x) * x), lambda x: x**4),
        ):
            np.testing.assert_allclose(terms_of(fun, 5), terms_of(same, 5), rtol=1e-10)


def test_a_rule_is_told_which_operands_are_constant_and_none_is_needed_for_constants():
    prim, seen = Primitive("jet_rules_scaled"), []
    prim.multiple_results = True
    prim.def_impl(lambda x, c, *, k: [x * c * k, c])
    prim.def_abstract_eval(lambda x, c, *, k: [x, c])

    def rule(primals, series, order, *, k):
        seen.append((order, series[1], k))
        x, c = primals
        return [x * c * k, c], [[t * c * k for t in series[0]], None]

    run = lambda x: prim.bind(x, jnp.float32(3.0), k=2)
    assert [float(y) for y in jet(lambda x: prim.bind(2.0, 3.0, k=2), (0.0,), ((1.0,),))[0]] == [
        12.0,
        3.0,
    ]
    jet_rules[prim] = rule
    try:
        out, terms = jet(run, (jnp.float32(5.0),), ((1.0, 0.5),))
    finally:
        del jet_rules[prim]
    assert seen == [(2, None, 2)]
    assert [float(y) for y in out] == [30.0, 3.0]
    assert [[float(t) for t in ts] for ts in terms] == [[6.0, 3.0], [0.0, 0.0]]


def test_a_rule_comes_before_that_to_differentiate(cube_p):
    ad.primitive_jvps[cube_p] = lambda primals, tangents: (cube_p.bind(*primals), 100 * tangents[0])
    try:
        assert [float(t) for t in jet(cube_p.bind, (2.0,), ((1.0, 0.0),))[1]] == [100.0, 0.0]
        jet_rules[cube_p] = cube_rule
        assert [float(t) for t in jet(cube_p.bind, (2.0,), ((1.0, 0.0),))[1]] == [12.0, 12.0]
    finally:
        del ad.primitive_jvps[cube_p]
