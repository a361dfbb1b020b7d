"""Reductions by any operation and windows beyond what the reference takes."""

import numpy as np
import pytest

import xlab
from tests.lax.samples_windows import BEYOND
from tests.reference import laws
from tests.reference.harness import law_cases, report, subject
from tests.reference.sample import Case
from xlab import lax
from xlab.core.avals import ShapedArray
from xlab.interpreters import partial_eval as pe
from xlab.lax.window_selection import select_and_scatter_p

_BEYOND = [Case("", s, t) for s in BEYOND for t in s.transforms if t in laws.LAWS]


@law_cases(_BEYOND)
def test_laws_beyond_the_reference(case):
    report(case, "breaks a law", laws.law(case, subject()))


def test_one_computation_compiles_once():
    x = np.ones((4, 4), np.float32)
    program = lambda: str(xlab.make_jaxpr(lambda x: lax.reduce_window(x, 1.0, lax.add, (2, 2)))(x))
    assert program() == program()
    first, second = (
        xlab.make_jaxpr(lambda x: lax.reduce(x, 1.0, lax.add, (0,)))(x).eqns[0].params["jaxpr"]
        for _ in "ab"
    )
    assert first is second


def test_select_and_scatter_runs_general_programs():
    scalar = ShapedArray((), np.float32)
    choose = pe.trace_to_closed_jaxpr(lambda a, b: [lax.ge(a, b)], (scalar, scalar))
    combine = pe.trace_to_closed_jaxpr(lambda a, b: [lax.max(a, b)], (scalar, scalar))

    def scatter(x, source):
        return select_and_scatter_p.bind(
            x,
            source,
            np.float32(0),
            select_jaxpr=choose,
            select_consts=(),
            scatter_jaxpr=combine,
            scatter_consts=(),
            window_dimensions=(3,),
            window_strides=(2,),
            padding=((0, 0),),
        )

    x, source = np.float32([1, 2, 9, 4, 5]), np.float32([7, 8])
    np.testing.assert_array_equal(scatter(x, source), [0, 0, 8, 0, 0])
    np.testing.assert_array_equal(
        xlab.vmap(scatter)(np.stack([x, x[::-1]]), np.stack([source, source])),
        [[0, 0, 8, 0, 0], [0, 0, 8, 0, 0]],
    )


def test_derivatives_of_huge_windows_say_so():
    with pytest.raises(NotImplementedError, match="at most"):
        xlab.jvp(
            lambda x: lax.reduce_window(x, 1.0, lax.mul, (2**20,), (1,), "SAME"),
            (np.ones(3, np.float32),),
            (np.ones(3, np.float32),),
        )
