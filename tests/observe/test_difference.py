"""Two programs beside each other."""

import numpy as np

import xlab
from tests.observe import programs
from xlab import lax, observe
from xlab.observe.records import Record

X = np.ones((8, 8), np.float32)


def figures(made):
    return {(f.group, f.what): (f.left, f.right) for f in made.figures}


def test_equations_are_matched_by_what_they_compute():
    made = observe.diff((lambda x: lax.exp(lax.sin(x)), X), (lambda given: lax.exp(lax.neg(lax.sin(given))), X), names=("one", "two"))
    assert [p.state for p in made.pairs] == ["same", "right", "same"]
    assert figures(made)["program", "equations"] == ("2", "3") and figures(made)["program", "neg"] == ("0", "1")
    assert Record.from_json(made.to_json()) == made
    lines = observe.text(made).splitlines()
    assert "one" in lines[0] and any(line.startswith(">") and "neg" in line for line in lines)


def test_the_same_program_twice_differs_in_nothing():
    made = observe.diff((programs.dense, X, X), (programs.dense, X, X))
    assert not any(f.differs for f in made.figures) and observe.text(made).endswith("the same 3 equations")


def test_one_program_under_two_shardings_differs_in_collectives():
    f = xlab.jit(lambda x: x @ x)
    made = observe.diff((f, programs.put(X, None)), (f, programs.put(X, None, "data")))
    assert all(p.state == "same" for p in made.pairs)
    moved = [f for f in made.figures if f.group == "collectives"]
    assert moved and moved[-1].left == "none" and moved[-1].right != "none"


def test_times_are_measured_on_request_and_not_part_of_the_text():
    f = xlab.jit(lambda x: lax.sin(x))
    made = observe.diff((f, X), (f, X), repeat=2)
    assert ("time", "median of 2 warm runs") in figures(made)
    assert "warm runs" not in observe.text(made) and "warm runs" in observe.text(made, times=True)
