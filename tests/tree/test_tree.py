import collections
import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlab import tree, tree_util

trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4).map(collections.OrderedDict)
    ),
)


@given(trees)
def test_round_trips(t):
    leaves, treedef = tree.flatten(t)
    assert tree.unflatten(treedef, leaves) == t
    assert pickle.loads(pickle.dumps(treedef)) == treedef == tree.structure(copy.deepcopy(t))
    assert [leaf for _, leaf in tree.leaves_with_path(t)] == leaves
    assert tree.map(lambda x: x, t) == t
    assert tree.broadcast_prefix(0, t) == [0] * len(leaves)
    assert tree.broadcast_prefix(t, t) == leaves


def test_key_order_of_dictionaries():
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert tree.leaves(collections.OrderedDict(b=1, a=2)) == [1, 2]
    assert tree.leaves(collections.defaultdict(int, b=1, a=2)) == [2, 1]
    assert tree.map(lambda x: x, collections.defaultdict(int, a=1))["missing"] == 0


def test_paths_and_is_leaf():
    Point = collections.namedtuple("Point", "x y")
    t = {"a": [1, Point(2, (3,))]}
    assert [tree.keystr(p) for p, _ in tree.leaves_with_path(t)] == [
        "['a'][0]",
        "['a'][1].x",
        "['a'][1].y[0]",
    ]
    assert tree.keystr(tree.leaves_with_path(t)[2][0], simple=True, separator="/") == "a/1/y/0"
    assert tree.leaves(t, is_leaf=lambda x: isinstance(x, Point)) == [1, Point(2, (3,))]
    named = tree.map_with_path(lambda p, x, y: (tree.keystr(p), x + y), t, t)
    assert named["a"][0] == ("['a'][0]", 2)
    by_path = tree.leaves_with_path(t, is_leaf=lambda p, x: len(p) == 1, is_leaf_takes_path=True)
    assert len(by_path) == 1
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]


def test_registration():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: int
        b: int
        name: str = tree.static(default="dense")

    leaves, treedef = tree.flatten(Layer(1, 2, "a"))
    assert leaves == [1, 2]
    assert treedef != tree.structure(Layer(1, 2, "b"))
    assert tree.map(lambda x: x * 10, Layer(1, 2)) == Layer(10, 20)
    assert [tree.keystr(p) for p, _ in tree.leaves_with_path(Layer(1, 2))] == [".w", ".b"]
    with pytest.raises(ValueError, match="already registered"):
        tree_util.register_pytree_node(Layer, lambda x: ((), None), lambda a, c: None)
    with pytest.raises(ValueError, match=r"missing: \['b'\]"):
        tree_util.register_dataclass(Layer, data_fields=["w"], meta_fields=["name"])
    with pytest.raises(TypeError, match="not a dataclass"):
        tree_util.register_dataclass(type("Plain", (), {}))
    with pytest.raises(TypeError, match="must be a class"):
        tree_util.register_pytree_node(Layer(1, 2), None, None)

    @tree_util.register_pytree_with_keys_class
    class Keyed:
        def __init__(self, x):
            self.x = x

        def tree_flatten_with_keys(self):
            return ((tree.GetAttrKey("x"), self.x),), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

    assert tree.keystr(tree.leaves_with_path(Keyed(1))[0][0]) == ".x"
    assert tree.flatten_one_level(Keyed(1))[0] == [1]


def test_partial():
    def f(x, y, z=0):
        return x + y + z

    p = tree.Partial(f, 1, z=2)
    assert p(10) == 13
    assert tree.leaves(p) == [1, 2]
    assert tree.map(lambda v: v * 2, p)(10) == 16
    nested = tree.Partial(p, 5)
    assert nested() == 8
    assert tree.leaves(nested) == [5]
    assert tree.structure(tree.Partial(p, 1)) == tree.structure(tree.Partial(p, 2))


@pytest.mark.parametrize(
    ("prefix", "full", "words"),
    [
        ({"a": (1, 2)}, {"a": 3}, [r"w\['a'\]", "different types"]),
        ([1], (1,), ["different types", "Use a tuple instead of the list"]),
        ((1, 2), (1, 2, 3), ["length 2", "length 3"]),
        (
            {"a": 1, "c": 1},
            {"a": 1, "b": 1},
            [r"Missing from w: \['b'\]", r"Unknown in w: \['c'\]"],
        ),
        ((None,), (1,), ["None is an empty container"]),
    ],
)
def test_prefix_errors_name_the_place(prefix, full, words):
    for word in words:
        with pytest.raises(ValueError, match=word):
            tree.flatten_prefix("w", prefix, full)


def test_reductions_and_shape_changes():
    t = {"a": 1, "b": (2, [3])}
    assert tree.reduce(lambda s, x: s * 10 + x, t) == 123
    assert tree.reduce_associative(lambda a, b: f"({a}{b})", [1, 2, 3, 4, 5]) == "(((12)(34))5)"
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(max, [])
    assert tree.all({"a": 1})
    assert not tree.all([1, 0])
    turned = tree.transpose(tree.structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert turned == {"a": [1, 3], "b": [2, 4]}
    with pytest.raises(TypeError, match="Mismatch in transpose"):
        tree.transpose(tree.structure([0]), tree.structure((0, 0)), [(1, 2, 3)])
    assert tree.all_leaves([1, 2])
    assert not tree.all_leaves([1, (2,)])
    assert tree.is_tree_node(dict)
    assert not tree.is_tree_node(int)
    assert tree.treedef_is_leaf(tree.structure(1))
    assert not tree.treedef_is_leaf(tree.structure((1,)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: tree.unflatten([1], [2]),
        lambda: tree.transpose(1, 2, (3,)),
        lambda: tree.register_pytree_node_class(3),
        lambda: tree.register_pytree_with_keys_class(int),
        lambda: tree.keystr((), separator=1),
        lambda: tree_util.treedef_children(1),
        lambda: tree_util.treedef_tuple([1]),
        lambda: tree_util.treedef_is_leaf(1),
    ],
)
def test_what_is_no_structure_is_refused_by_name(call):
    with pytest.raises(TypeError, match=r"structure|class|string|container"):
        call()


def test_transpose_of_a_class_that_flattens_what_it_holds_otherwise():
    """As haiku's mapping, whose leaves are those of all that it holds, in one row."""
    from xlab import tree_util

    class Flat:
        def __init__(self, content):
            self.leaves, self.structure = tree.flatten(content)

    tree_util.register_pytree_node(
        Flat,
        lambda f: (f.leaves, f.structure),
        lambda structure, leaves: Flat(tree.unflatten(structure, leaves)),
    )
    outer, inner = tree.structure(Flat({"a": 1, "b": 2})), tree.structure([1, 2])
    found = tree.transpose(outer, inner, Flat({"a": [3, 4], "b": [5, 6]}))
    assert [f.leaves for f in found] == [[3, 5], [4, 6]]
    with pytest.raises(TypeError, match="Mismatch in transpose"):
        tree.transpose(outer, inner, Flat({"a": [3, 4], "b": [5, 6, 7]}))


@given(trees)
def test_paths_of_a_structure_are_those_of_its_trees(t):
    assert tree.leaf_paths(tree.structure(t)) == [path for path, _ in tree.leaves_with_path(t)]


def test_paths_of_classes_that_take_no_placeholders():
    @tree_util.register_pytree_node_class
    class Positive:
        def __init__(self, *parts):
            if not all(x > 0 for x in parts):
                raise IndexError("not positive")  # any error may come from a class
            self.parts = parts

        def tree_flatten(self):
            return self.parts, None

        @classmethod
        def tree_unflatten(cls, _, parts):
            return cls(*parts)

    Point = collections.namedtuple("Point", "x y")
    t = [{"a": Positive(1, 2), "b": Point(3, [4])}, (5,)]
    paths = [tree.keystr(path) for path in tree.leaf_paths(tree.structure(t))]
    assert paths == [
        "[0]['a'][<flat index 0>]",
        "[0]['a'][<flat index 1>]",
        "[0]['b'].x",
        "[0]['b'].y[0]",
        "[1][0]",
    ]
