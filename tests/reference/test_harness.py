"""The harness itself: what it compares, how it reports, and the process behind it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.compare import differences, value_differences
from tests.reference.harness import cases, has_law
from tests.reference.run import (
    Leaf,
    Outcome,
    cotangent,
    differentiable,
    flat,
    inexact,
    stacked,
    tree_map,
)
from tests.reference.sample import Sample, load

F32 = np.float32([1, 2, 3])


def outcome(value=F32, dtype="float32", weak=False, path="result"):
    return Outcome(leaves=(Leaf(path, "array", dtype, np.shape(value), weak, np.asarray(value)),))


def raised(*names, message="why"):
    return Outcome(error=names, builtin=names[-1], message=message)


SAMPLE = Sample("f", lambda n, x: x)


def test_equal_outcomes_do_not_differ():
    assert differences(SAMPLE, outcome(), outcome(F32 + np.float32(1e-6))) == []
    assert differences(SAMPLE, outcome([np.nan, np.inf]), outcome([np.nan, np.inf])) == []


def test_a_difference_says_what_and_where():
    found = differences(SAMPLE, outcome(np.float32([1, 2, 4])), outcome())
    assert found == [
        "result: values  1 of 3 differ by more than rtol 2e-05, atol 2e-06; "
        "worst at (2,): xlab 4.0  reference 3.0"
    ]
    assert differences(SAMPLE, outcome(weak=True), outcome()) == [
        "result: weak type  xlab True  reference False"
    ]
    assert "only in the result of reference" in differences(SAMPLE, Outcome(), outcome())[0]


def test_integers_are_compared_exactly():
    assert value_differences("x", np.int32([2**30]), np.int32([2**30 + 1]))
    assert value_differences("x", np.bool_([True]), np.bool_([False]))


def test_errors_agree_on_their_builtin_base():
    expects = Sample("f", SAMPLE.fun, error="TypeError")
    ours, theirs = raised("Ours", "TypeError"), raised("Theirs", "TypeError")
    assert differences(expects, ours, theirs) == []
    assert "errors" in differences(expects, outcome(), theirs)[0]
    assert "error class" in differences(expects, raised("ValueError"), theirs)[0]
    assert "names no error" in differences(SAMPLE, ours, theirs)[0]


def test_programs_differ_as_a_diff():
    found = differences(SAMPLE, Outcome(text="sin\ncos"), Outcome(text="sin\ntan"))
    assert "-tan" in found
    assert "+cos" in found


def test_what_is_differentiated():
    assert inexact(F32)
    assert not inexact(np.int32(1))
    assert not inexact(True)
    part, where = differentiable(lambda a, i, b: (a, i, b), (F32, np.int32(1), {"w": F32}))
    assert where == [0, 2]
    assert part((1, 2, 3))("a", "b") == ("a", 2, "b")
    assert cotangent(np.int32([1, 2])).dtype.names == ("float0",)
    assert stacked(2.0).shape == (3,)


def test_trees_keep_their_order():
    assert flat({"b": 1, "a": [2, None, (3,)]}) == [2, 3, 1]
    assert tree_map(lambda x: -x, (1, {"k": 2})) == (-1, {"k": -2})


def test_names_are_unique_in_every_table():
    for table in (
        "tests.lax.samples",
        "tests.lax.samples_data",
        "tests.lax.samples_control",
        "tests.transforms.samples",
        "tests.numpy.samples",
        "tests.random.samples",
        "tests.core.samples_jaxprs",
        "tests.parallel.samples",
    ):
        assert load(table)


@pytest.mark.reference
def test_the_process_answers_and_remembers(oracle):
    case = next(c for c in load("tests.lax.samples") if c.id == "sin-eager")
    oracle.ask(case)
    first = oracle.answer()
    assert first.leaves[0].dtype == "float32"
    np.testing.assert_allclose(first.leaves[0].value, np.sin(case.sample.args[0]), rtol=1e-6)
    oracle.ask(case)
    assert oracle.answer().leaves[0].path == first.leaves[0].path


@pytest.mark.reference
def test_errors_come_back_as_names(oracle):
    case = next(c for c in load("tests.lax.samples") if c.sample.name == "add_shapes")
    oracle.ask(case)
    assert "TypeError" in oracle.answer().error


def test_a_run_compares_the_function_and_one_of_its_transformations():
    """The laws tie the others to them; what no law ties is compared in every run."""

    @cases("tests.lax.samples")
    def compared(case): ...

    by_name: dict = {}
    for param in next(m for m in compared.pytestmark if m.name == "parametrize").args[1]:
        (case,), left = param.values, bool(param.marks)
        assert not (left and not has_law(case))
        by_name.setdefault(case.sample.name, []).append((case, left))
    assert any(left for found in by_name.values() for _, left in found)
    for found in by_name.values():
        tied = [left for case, left in found if has_law(case)]
        assert tied.count(False) == bool(tied)
        assert not any(left for case, left in found if case.transform == "eager")
