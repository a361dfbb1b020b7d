"""Tree prefixes: one value for a whole subtree (`in_axes=0`, `out_shardings={"w": s}`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xlab.backend.pytree import registry

IsLeaf = Callable[[Any], bool] | None


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """One leaf of the prefix per leaf of the full tree, in order.

    Example:
        >>> from xlab import tree
        >>> tree.broadcast_prefix((0, {"a": 1}), (["x", "y"], {"a": "z"}))
        [0, 0, 1]
    """
    try:
        return _broadcast(prefix_tree, full_tree, is_leaf)
    except (ValueError, TypeError, KeyError):
        for make in prefix_errors(prefix_tree, full_tree, is_leaf):
            raise make("broadcast_prefix prefix_tree") from None
        raise


def _broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf) -> list[Any]:
    prefix_leaves, treedef = registry.flatten(prefix_tree, is_leaf)
    parts = treedef.flatten_up_to(full_tree)
    out: list[Any] = []
    for leaf, part in zip(prefix_leaves, parts, strict=True):
        out.extend([leaf] * registry.flatten(part)[1].num_leaves)
    return out


def flatten_prefix(
    name: str, prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None
) -> list[Any]:
    """As `broadcast_prefix`; errors call the prefix by the argument's `name` and say how to mend it."""
    try:
        return _broadcast(prefix_tree, full_tree, is_leaf)
    except (ValueError, TypeError, KeyError):
        for make in prefix_errors(prefix_tree, full_tree, is_leaf):
            raise make(name) from None
        raise


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The full tree's structure with the prefix's leaves.

    Example:
        >>> from xlab import tree
        >>> tree.broadcast((1, {"a": 2}), ((3, 4), {"a": [5, 6]}))
        ((1, 1), {'a': [2, 2]})
    """
    flat = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return registry.flatten(full_tree)[1].unflatten(flat)


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None
) -> Iterator[Callable[[str], ValueError]]:
    """Why a tree is no prefix of another: functions from the prefix's name to an error."""
    yield from _errors((), prefix_tree, full_tree, is_leaf)


def _is_leaf(tree: Any, is_leaf: IsLeaf) -> bool:
    if is_leaf is not None and is_leaf(tree):
        return True
    return tree is not None and not registry.is_node(type(tree))


def _errors(
    path: tuple, prefix: Any, full: Any, is_leaf: IsLeaf
) -> Iterator[Callable[[str], ValueError]]:
    if _is_leaf(prefix, is_leaf):
        return
    at = "".join(str(key) for key in path)
    if type(prefix) is not type(full):
        yield lambda name: ValueError(
            f"pytree structure error: different types at key path\n    {name}{at}\n"
            f"At that key path, the prefix pytree {name} has a subtree of type\n    {type(prefix)}\n"
            f"but at the same key path the full pytree has a subtree of different type\n    {type(full)}."
            + _hint(prefix, full)
        )
        return
    if prefix is None:
        return
    prefix_pairs, prefix_meta = registry.flatten_one_level_with_keys(prefix)
    full_pairs, full_meta = registry.flatten_one_level_with_keys(full)
    prefix_pairs, full_pairs = list(prefix_pairs), list(full_pairs)
    kind = type(prefix).__name__
    if isinstance(prefix, (tuple, list)) and len(prefix_pairs) != len(full_pairs):
        yield lambda name: ValueError(
            f"pytree structure error: different lengths of {kind} at key path\n    {name}{at}\n"
            f"At that key path, the prefix pytree {name} has a subtree of type {kind} of length "
            f"{len(prefix_pairs)}, but the full pytree has a subtree of the same type but of length "
            f"{len(full_pairs)}." + _sequence_hint(prefix_pairs, full_pairs, kind)
        )
        return
    if isinstance(prefix, dict):
        missing = [k for k in full if k not in prefix]
        extra = [k for k in prefix if k not in full]
        if missing or extra:
            yield lambda name: ValueError(
                f"pytree structure error: different pytree keys at key path\n    {name}{at}\n"
                f"At that key path, the prefix pytree {name} has a {kind} with keys\n    {list(prefix)}\n"
                f"but at the same key path the full pytree has keys\n    {list(full)}\n"
                + (f"Missing from {name}: {missing}. " if missing else "")
                + (f"Unknown in {name}: {extra}." if extra else "")
            )
            return
    if prefix_meta != full_meta:
        import difflib

        difference = "\n    ".join(difflib.ndiff([str(prefix_meta)], [str(full_meta)]))
        yield lambda name: ValueError(
            f"pytree structure error: different pytree metadata at key path\n    {name}{at}\n"
            f"At that key path, the prefix pytree {name} has a subtree of type\n    {type(prefix)}\n"
            f"with metadata\n    {prefix_meta}\nbut at the same key path the full pytree has a subtree of the same "
            f"type but with metadata\n    {full_meta}\nso the diff in the metadata at these pytree nodes is\n    "
            f"{difference}"
        )
        return
    if len(prefix_pairs) != len(full_pairs):
        yield lambda name: ValueError(
            f"pytree structure error: different numbers of pytree children at key path\n    {name}{at}\n"
            f"At that key path, the prefix pytree {name} has {len(prefix_pairs)} children and the full pytree "
            f"{len(full_pairs)}."
        )
        return
    for (key, child), (_, full_child) in zip(prefix_pairs, full_pairs, strict=True):
        yield from _errors((*path, key), child, full_child, is_leaf)


def _hint(prefix: Any, full: Any) -> str:
    if isinstance(prefix, list) and isinstance(full, tuple):
        return " Use a tuple instead of the list."
    if prefix is None:
        return " None is an empty container, not a leaf, so it only stands for None."
    return ""


def _sequence_hint(prefix_pairs: list, full_pairs: list, kind: str) -> str:
    if len(full_pairs) == 1 and len(prefix_pairs) != 1:
        return f" To give one value for a single argument, wrap it: a {kind} of one element."
    return ""
