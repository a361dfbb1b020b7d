"""Flattens trees to lists of leaves and back; functions over leaves."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xlab.backend import pytree as _native
from xlab.backend.pytree import PyTreeDef, registry
from xlab.tree import prefix as _prefix
from xlab.tree.failing import guarded

IsLeaf = Callable[[Any], bool] | None
KeyPath = tuple[Any, ...]

_flatten = guarded(registry.flatten)
_flatten_with_path = guarded(registry.flatten_with_path, paths=True)
_MISSING = object()
_PLACE = np.zeros((), np.int8)  # stands for a leaf; containers of a kind of value take it for one


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, left to right, and its structure.

    Example:
        >>> from xlab import tree
        >>> tree.flatten({"b": [2, 3], "a": 1})
        ([1, 2, 3], PyTreeDef({'a': *, 'b': [*, *]}))
    """
    return _flatten(tree, is_leaf)


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with given leaves.

    Example:
        >>> from xlab import tree
        >>> tree.unflatten(tree.structure((0, [0])), ["x", "y"])
        ('x', ['y'])
    """
    return _treedef(treedef, "unflatten").unflatten(leaves)


def _treedef(given: Any, function: str) -> PyTreeDef:
    if not isinstance(given, PyTreeDef):
        raise TypeError(
            f"{function} takes a structure, as xlab.tree.structure gives, got {given!r} of type "
            f"{type(given).__name__}"
        )
    return given


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree.

    Example:
        >>> from xlab import tree
        >>> tree.leaves((1, None, {"a": 2}))
        [1, 2]
    """
    return _flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree; equal for trees that differ in leaves only."""
    return _flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `f(leaf, ...)`; the other trees have the first one as a prefix.

    Example:
        >>> from xlab import tree
        >>> tree.map(lambda x, y: x + y, (1, [2]), (10, [20]))
        (11, [22])
    """
    first, treedef = _flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in first])
    columns = [first]
    for other in rest:
        columns.append(_flatten_up_to(treedef, tree, other, is_leaf))
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


def _flatten_up_to(treedef: PyTreeDef, tree: Any, other: Any, is_leaf: IsLeaf) -> list[Any]:
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError, KeyError):
        for make in _prefix.prefix_errors(tree, other, is_leaf):
            raise make("tree_map tree") from None
        raise


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true."""
    return builtins.all(leaves(tree, is_leaf))


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """`functools.reduce` over the leaves.

    Example:
        >>> from xlab import tree
        >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)}, 0)
        6
    """
    if initializer is _MISSING:
        return functools.reduce(function, leaves(tree, is_leaf))
    return functools.reduce(function, leaves(tree, is_leaf), initializer)


def reduce_associative(operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING,
                       is_leaf: IsLeaf = None) -> Any:  # fmt: skip
    """Combines the leaves in a balanced way, so that rounding errors grow with the logarithm of their number."""
    level = leaves(tree, is_leaf)
    if not level:
        if identity is _MISSING:
            raise TypeError("reduce_associative of a tree without leaves needs identity=.")
        return identity
    while len(level) > 1:
        pairs = [operation(a, b) for a, b in zip(level[::2], level[1::2])]
        level = [*pairs, level[-1]] if len(level) % 2 else pairs
    return level[0]


def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turns an outer structure of inner ones inside out.

    Example:
        >>> from xlab import tree
        >>> tree.transpose(tree.structure([0, 0]), tree.structure({"a": 0}), [{"a": 1}, {"a": 2}])
        {'a': [1, 2]}
    """
    flat, treedef = _flatten(pytree_to_transpose, None)
    _treedef(outer_treedef, "transpose")
    if inner_treedef is None:
        inner_treedef = structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    _treedef(inner_treedef, "transpose")
    inner_size, outer_size = inner_treedef.num_leaves, outer_treedef.num_leaves
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected and treedef != _as_made(outer_treedef, inner_treedef):
        raise TypeError(
            f"Mismatch in transpose: the tree has structure {treedef}, expected {expected}."
        )
    rows = [flat[i * inner_size : (i + 1) * inner_size] for i in range(outer_size)]
    return inner_treedef.unflatten(
        [outer_treedef.unflatten([row[j] for row in rows]) for j in range(inner_size)]
    )


def _as_made(outer: PyTreeDef, inner: PyTreeDef) -> PyTreeDef | None:
    """The structure that values of inner inside of outer have once they are made: a class may flatten what it holds otherwise than as it got it.

    None where no such value can be made of placeholders.
    """
    try:
        held = inner.unflatten([0] * inner.num_leaves)
        return structure(outer.unflatten([held] * outer.num_leaves))
    except Exception:
        return None


def flatten_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
                      ) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:  # fmt: skip
    """As `flatten`, each leaf with the path that leads to it.

    Example:
        >>> from xlab import tree
        >>> [(tree.keystr(path), leaf) for path, leaf in tree.flatten_with_path({"a": [1, 2]})[0]]
        [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    if is_leaf is None or is_leaf_takes_path:
        return _flatten_with_path(tree, is_leaf)
    plain = is_leaf
    return _flatten_with_path(tree, lambda path, x: plain(x))


def leaf_paths(treedef: PyTreeDef) -> list[KeyPath]:
    """The path to each leaf of a structure.

    Where a class does not take placeholders for its parts, or does not give them back, these go by number.

    Example:
        >>> from xlab import tree
        >>> [tree.keystr(path) for path in tree.leaf_paths(tree.structure({"a": [1, 2]}))]
        ["['a'][0]", "['a'][1]"]
    """
    places = [_PLACE] * _treedef(treedef, "leaf_paths").num_leaves
    try:
        paths = [path for path, _ in registry.flatten_with_path(treedef.unflatten(places), None)[0]]
        if len(paths) == len(places):
            return paths
    except Exception:  # the class's own, of any kind
        pass
    if treedef_is_leaf(treedef):
        return [()]
    kind, data = treedef.node_data() or (None, None)
    keys: Iterable[Any]
    if kind is dict:
        keys = [_native.DictKey(key) for key in data]
    elif kind in (tuple, list):
        keys = [_native.SequenceKey(i) for i in range(treedef.num_nodes)]
    elif hasattr(kind, "_fields"):
        keys = [_native.GetAttrKey(name) for name in kind._fields]
    else:
        keys = [_native.FlattenedIndexKey(i) for i in range(treedef.num_nodes)]
    return [
        (key, *path) for key, child in zip(keys, treedef.children()) for path in leaf_paths(child)
    ]


def leaves_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None,
                     is_leaf_takes_path: bool = False) -> list[tuple[KeyPath, Any]]:  # fmt: skip
    """The leaves, each with its path."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[..., bool] | None = None,
                  is_leaf_takes_path: bool = False) -> Any:  # fmt: skip
    """As `map`, with the path as the first argument of `f`."""
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [[path for path, _ in pairs], [leaf for _, leaf in pairs]]
    for other in rest:
        columns.append(
            _flatten_up_to(treedef, tree, other, None if is_leaf_takes_path else is_leaf)
        )
    return treedef.unflatten([f(*row) for row in zip(*columns, strict=True)])


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['a'][0].b`, or with `simple` the bare names joined by `separator`.

    Example:
        >>> from xlab import tree
        >>> tree.keystr((_native.DictKey("a"), _native.SequenceKey(0)), simple=True, separator="/")
        'a/0'
    """
    if not isinstance(separator, str):
        raise TypeError(f"keystr: separator must be a string, got {separator!r}")
    return separator.join([_simple(key) if simple else str(key) for key in keys])


def _simple(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether no element is a container."""
    items = list(iterable)
    found = leaves(items, lambda x: x is not items and is_leaf(x)) if is_leaf else leaves(items)
    return len(found) == len(items) and builtins.all(
        a is b for a, b in zip(found, items, strict=True)
    )


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees."""
    return _native.treedef_tuple([_treedef(t, "treedef_tuple") for t in treedefs])


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the immediate children."""
    return _treedef(treedef, "treedef_children").children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single leaf."""
    _treedef(treedef, "treedef_is_leaf")
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def is_tree_node(typ: type) -> bool:
    """Whether a class is a container, builtin or registered."""
    return typ is type(None) or registry.is_node(typ)


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The immediate children and the structural data of a container."""
    return _one_level(registry.flatten_one_level, tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """As `flatten_one_level`, with (key, child) pairs."""
    return _one_level(registry.flatten_one_level_with_keys, tree)


def _one_level(flatten_one: Callable[[Any], Any], tree: Any) -> Any:
    if tree is None:
        return [], None
    found = flatten_one(tree)
    if found is None:
        raise ValueError(
            f"can't tree-flatten type: {type(tree)}. It is a leaf: register it, or do not flatten it."
        )
    return found
