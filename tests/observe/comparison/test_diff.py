"""Two programs beside each other."""

import random

import numpy as np

import xlab
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.comparison.align import align
from xlab.observe.records import Record

X = np.ones((8, 8), np.float32)


def figures(made):
    return {(f.group, f.what): (f.left, f.right) for f in made.figures}


def test_equations_are_matched_by_what_they_compute():
    made = observe.diff(
        (lambda x: lax.exp(lax.sin(x)), X),
        (lambda given: lax.exp(lax.neg(lax.sin(given))), X),
        names=("one", "two"),
    )
    assert [p.state for p in made.pairs] == ["same", "same", "right", "same"]
    assert figures(made)["program", "equations"] == ("2", "3") and figures(made)[
        "program", "neg"
    ] == ("0", "1")
    assert Record.from_json(made.to_json()) == made
    lines = observe.text(made).splitlines()
    assert "one" in lines[0] and any(line.startswith(">") and "neg" in line for line in lines)


def test_the_same_program_twice_differs_in_nothing():
    made = observe.diff((programs.dense, X, X), (programs.dense, X, X))
    assert not any(f.differs for f in made.figures) and observe.text(made).endswith(
        "the same 5 lines"
    )


def test_one_program_under_two_shardings_differs_in_collectives():
    f = xlab.jit(lambda x: x @ x)
    made = observe.diff((f, programs.put(X, None)), (f, programs.put(X, None, "data")))
    assert [p.state for p in made.pairs] == ["placed", "placed"] and "in a:f32[8,8]" in made.pairs[
        0
    ].left
    assert "in a:f32[8,8@data]" in made.pairs[0].right and made.collectives[0].state == "right"
    assert (
        "all_gather over data" in made.collectives[0].right
        or "all_reduce add over data" in made.collectives[0].right
    )
    assert "@ in a:f32[8,8]" in observe.text(made)
    moved = [f for f in made.figures if f.group == "collectives"]
    assert moved and moved[-1].left == "none" and moved[-1].right != "none"


def test_times_are_measured_on_request_and_not_part_of_the_text():
    f = xlab.jit(lambda x: lax.sin(x))
    made = observe.diff((f, X), (f, X), repeat=2)
    assert ("time", "median of 2 warm runs") in figures(made)
    assert "warm runs" not in observe.text(made) and "warm runs" in observe.text(made, times=True)


def test_layers_that_are_alike_stay_beside_each_other():
    def model(where):
        def run(x):
            for n in range(30):
                x = lax.exp(lax.sin(lax.mul(x, x)))
                x = lax.neg(x) if n == where else x
            return x

        return run

    made = observe.diff((model(4), X), (model(20), X))
    assert [p.state for p in made.pairs if p.state != "same"] == ["left", "right"]
    assert Record.from_json(made.to_json()) == made


def test_the_fewest_differences_are_found():
    for seed in range(200):
        draw = random.Random(seed)
        a, b = ([draw.choice("abcd") for _ in range(draw.randint(0, 25))] for _ in range(2))
        found = align(a, b)
        assert [x for what, i, j, k, m in found for x in a[i:j]] == a and [
            x for what, i, j, k, m in found for x in b[k:m]
        ] == b
        assert all(a[i:j] == b[k:m] for what, i, j, k, m in found if what == "same")
        assert sum(j - i for what, i, j, k, m in found if what == "same") == common(a, b)


def common(a, b):
    """Length of the longest common subsequence, by the table."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for n, y in enumerate(b):
            row[n + 1] = before[n] + 1 if x == y else max(before[n + 1], row[n])
    return row[-1]


def test_beyond_the_limit_an_alignment_is_found_in_time():
    a, b = [str(n) for n in range(3000)], [str(n * 7 % 3000) for n in range(3000)]
    assert sum(j - i for what, i, j, *_ in align(a, b) if what == "same") > 10
