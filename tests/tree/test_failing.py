"""A flattening that fails says what is wrong with the tree, and leaves the process as it was."""

from __future__ import annotations

import pytest

import xlab
from xlab import tree, tree_util


def depth() -> int:
    """How many calls deep Python goes from here."""

    def call(n):
        try:
            return call(n + 1)
        except RecursionError:
            return n

    return call(0)


class Failing(list):
    pass


def _fail(*_):
    raise ZeroDivisionError("of the class")


tree_util.register_pytree_with_keys(Failing, _fail, lambda *_: Failing())


def cyclic():
    made = {"a": [1]}
    made["a"].append(made)
    return [made]


def once(value):
    for _ in range(12):
        value = [value]
    return value


def of_an_int(*at):
    if type(at[-1]) is int:
        raise ZeroDivisionError("of is_leaf")
    return False


@pytest.mark.parametrize(
    "call",
    [
        lambda t: tree.flatten(t),
        lambda t: tree.leaves(t, is_leaf=lambda x: isinstance(x, int)),
        lambda t: tree.map(lambda x: x, t),
        lambda t: tree.flatten_with_path(t),
        lambda t: tree.flatten_with_path(t, is_leaf=lambda x: isinstance(x, int)),
        lambda t: tree.flatten_with_path(
            t, is_leaf=lambda path, x: isinstance(x, int), is_leaf_takes_path=True
        ),
        lambda t: xlab.eval_shape(lambda x: 1, t),
        lambda t: xlab.vmap(lambda x: x)(t),
    ],
)
def test_a_container_that_holds_itself(call):
    before = depth()
    with pytest.raises(
        RecursionError, match=r"a dict holds itself: x\['a'\]\[1\] is x, where x is the dict"
    ):
        call(cyclic())
    assert depth() == before


def test_an_argument_of_a_jitted_function_that_holds_itself():
    endless = [1]
    endless.append(endless)
    before, f = depth(), xlab.jit(lambda x: 1)
    for _ in range(3):
        # Native code says it in its own words, or comes to call Python with that error still set.
        with pytest.raises(
            (RecursionError, SystemError), match="a list holds itself|cyclical|exception set"
        ):
            f(endless)
    assert depth() == before and f([1, 2]) == 1


def test_a_leaf_may_hold_itself():
    assert len(tree.leaves(cyclic(), is_leaf=lambda x: type(x) is dict)) == 1


def test_a_tree_that_is_too_deep():
    deep = 1
    for _ in range(3000):
        deep = [deep]
    before = depth()
    with pytest.raises(RecursionError, match="a list is 3,000 containers deep, .*limit is"):
        tree.leaves(deep)
    assert depth() == before
    while type(deep) is list:  # an end without recursion
        (deep,) = deep


@pytest.mark.parametrize(
    ("value", "is_leaf", "error"),
    [
        (Failing(), None, ZeroDivisionError),
        (Failing(), lambda x: x == 3, ZeroDivisionError),
        ({1: 2, "a": 3}, None, ValueError),
        (1, of_an_int, ZeroDivisionError),
        (1, lambda x: "yes" if type(x) is int else False, ValueError),
    ],
)
def test_an_error_costs_no_recursion_depth(value, is_leaf, error):
    before = depth()
    for _ in range(3):
        with pytest.raises(error):
            tree.leaves(once(value), is_leaf=is_leaf)
        with pytest.raises(error):
            tree.flatten_with_path(once(value), is_leaf=is_leaf)
    assert depth() == before
