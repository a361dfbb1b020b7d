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


_ENDS = [
    (lax.max, "int32", -np.inf),
    (lax.max, "int32", np.float32(-np.inf)),
    (lax.max, "int32", False),
    (lax.max, "float32", np.iinfo(np.int32).min),
    (lax.max, "bool", -np.inf),
    (lax.min, "int32", np.inf),
    (lax.min, "bfloat16", True),
    (lax.add, "int32", 0.0),
]


@pytest.mark.parametrize(("of", "dtype", "init"), _ENDS)
def test_an_identity_of_any_type_starts_a_reduction(of, dtype, init):
    x = np.asarray([3, 1, 2]).astype(xlab.dtypes.canonicalize_dtype(dtype))
    two = {lax.max: np.maximum, lax.min: np.minimum, lax.add: np.add}[of]
    for run in (lambda f: f, xlab.jit):
        windows = run(lambda x: lax.reduce_window(x, init, of, (2,), (1,)))(x)
        whole = run(lambda x: lax.reduce(x, init, of, (0,)))(x)
        assert windows.dtype == whole.dtype == x.dtype
        np.testing.assert_array_equal(windows, two(x[:-1], x[1:]))
        np.testing.assert_array_equal(whole, two.reduce(x))


@pytest.mark.parametrize(
    ("of", "dtype", "init"),
    [
        (lax.max, "bool", 0),
        (lax.min, "bool", 1.0),
        (lax.max, "int32", np.inf),
        (lax.min, "float32", 3),
    ],
)
def test_another_number_has_the_type_of_the_operand(of, dtype, init):
    x = np.asarray([1, 0, 1]).astype(dtype)
    with pytest.raises(TypeError, match="inconsistent dtypes"):
        lax.reduce_window(x, init, of, (2,), (1,))
    with pytest.raises(TypeError, match="inconsistent dtypes"):
        lax.reduce(x, init, of, (0,))


@pytest.mark.parametrize(
    ("of", "init"), [(lax.bitwise_or, 0.0), (lax.bitwise_xor, 0.0), (lax.bitwise_and, 1.0)]
)
def test_floats_are_no_identities_of_bits(of, init):
    with pytest.raises(TypeError, match="inconsistent dtypes"):
        lax.reduce(np.int32([1, 2]), init, of, (0,))
    assert lax.reduce(np.int32([6, 3]), True, lax.bitwise_and, (0,)) == 2
