"""Traced values in what is no container: none is left behind without a word."""

from __future__ import annotations

import collections
import functools
import operator

import numpy as np
import pytest

import xlab
from xlab.core.trace import is_tracer
from xlab.notebook.cell import Cell


class Plain:
    pass


@pytest.fixture
def space():
    plain = Plain()
    plain.w = 1
    return {
        "__name__": "__main__",
        "xlab": xlab,
        "collections": collections,
        "functools": functools,
        "operator": operator,
        "x": xlab.numpy.arange(4.0),
        "plain": plain,
        "Known": type("Known", (), {}),
        "old": collections.deque([5]),
    }


def run(source, space):
    cell = Cell("w = x * 2\n" + source, space)
    return cell.commit(xlab.jit(cell.function())(*cell.arguments()))


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("dq = collections.deque([1, w])", r"dq\[1\]: a deque"),
        ("class Made:\n    ww = w", "Made.ww: the class Made"),
        ("Known.ww = w", "Known.ww: the class Known"),
        ("plain.w = w", "plain.w: Plain"),
        ("plain.fresh = {'a': [w]}", r"plain.fresh\['a'\]\[0\]: Plain"),
        ("old.append(w)", r"old\[1\]: a deque"),
    ],
)
def test_a_traced_value_is_refused_where_it_cannot_be_brought_out(space, source, place):
    with pytest.raises(TypeError, match=f"leaves a traced value in {place}"):
        run(source, space)
    assert not {"w", "dq", "Made"} & space.keys()
    assert vars(space["plain"]) == {"w": 1} and list(space["old"]) == [5]
    assert not hasattr(space["Known"], "ww")


def test_after_another_error_no_object_holds_one(space):
    with pytest.raises(ZeroDivisionError):
        run("plain.w = plain.z = w\n1 / 0", space)
    assert vars(space["plain"]) == {"w": 1}


def test_what_is_no_traced_value_is_stored(space):
    run("plain.w = 3\nold.append(len('ab'))\nKnown.k = 4", space)
    assert space["plain"].w == 3 and list(space["old"]) == [5, 2] and space["Known"].k == 4


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("h = functools.partial(operator.add, w)", r"h.args\[0\]"),
        ("h = lambda a, w=w: a + w", "h's w"),
        ("h = (lambda w: lambda a: a + w)(w)", "h's w"),
        ("h = xlab.jit(lambda a, w=w: a + w)", "h's w"),
        ("h = xlab.vmap(functools.partial(operator.add, w.sum()))", r"h.*args\[0\]"),
    ],
)
def test_a_function_that_holds_one_is_used_in_its_cell_only(space, source, place):
    run(source + "\ny = h(x)\nhs = [h]", space)
    assert space["y"].shape == (4,) and not is_tracer(space["y"])
    for call in (space["h"], space["hs"][0]):
        with pytest.raises(TypeError, match=f"left a traced value in {place}|traced value in hs"):
            call(space["x"])


def test_functions_that_read_names_go_on(space):
    run("h = lambda a: a + w\nj = xlab.jit(h)\nk = functools.partial(operator.add, 1)", space)
    np.testing.assert_array_equal(space["h"](space["x"]), np.arange(4.0) * 3)
    np.testing.assert_array_equal(space["j"](space["x"]), np.arange(4.0) * 3)
    assert space["k"](2) == 3
