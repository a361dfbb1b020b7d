"""In what two structures of arguments differ, by the paths that people write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

SHOWN = 3
"""Differences that a sentence spells out."""

WIDTH = 120
"""Characters that are shown of a text that is longer."""


def around_difference(was: str, now: str) -> tuple[str, str]:
    """Two texts, each on one line; of long ones what stands around their first difference, with dots for the rest.

    Libraries keep whole models in their structures, of which a switch is what changed.

    >>> was, now = around_difference("net " * 99 + "train=1" + " layer" * 99, "net " * 99 + "train=0" + " layer" * 99)
    >>> now[:80]
    '… net net net net net net net net net net net train=0 layer layer layer layer la'
    """
    texts = [" ".join(text.split()) for text in (was, now)]
    if max(map(len, texts)) <= WIDTH:
        return texts[0], texts[1]
    pairs = enumerate(zip(*texts))
    first = next((n for n, (a, b) in pairs if a != b), min(map(len, texts)))
    start = max(0, first - WIDTH // 2 + 9)  # and of the word that differs what stands before
    cut = [
        f"{'…' * (start > 0)}{text[start : start + WIDTH]}{'…' * (len(text) > start + WIDTH)}"
        for text in texts
    ]
    return cut[0], cut[1]


def structures_differ(was: Any, were: Sequence[str], now: Any, names: Sequence[str]) -> str:
    """The differences of two structures `(args, kwargs)` in words.

    Args:
        were, names: the paths of the leaves of each.

    >>> from xlab import tree
    >>> a, b, c = (tree.structure(((p,), {})) for p in ([1], [1, 2], (1,)))
    >>> structures_differ(a, ["p[0]"], b, ["p[0]", "p[1]"])
    '`p[1]` was not there'
    >>> structures_differ(a, ["p[0]"], c, ["p[0]"])
    '`p` was of type list, and is of type tuple'
    """
    missing, more = missing_and_more(were, names)
    said = [f"`{n}` was not there" for n in more] + [f"`{n}` is missing" for n in missing]
    said = said or list(other_containers(was, now, names))
    left = f", and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return (
        ", ".join(said[:SHOWN]) + left
        or "what was passed by position is passed by keyword, or the other way around"
    )


def missing_and_more(were: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths that are no longer there, and those that were not."""
    old, new = set(were), set(names)
    return [n for n in were if n not in new], [n for n in names if n not in old]


def other_containers(was: Any, now: Any, names: Sequence[str]) -> Iterator[str]:
    """Where two structures `(args, kwargs)` of equal paths have containers of other kinds."""
    leaf = 0
    for old, new in zip(was.children()[0].children(), now.children()[0].children()):
        if leaf < len(names):
            yield from _differing(old, new, names[leaf].split("[")[0].split(".")[0])
        leaf += old.num_leaves
    for old, new in zip(was.children()[1:], now.children()[1:]):
        for key, a, b in zip(
            (old.node_data() or (dict, ()))[1] or (), old.children(), new.children()
        ):
            yield from _differing(a, b, str(key))


def _differing(was: Any, now: Any, path: str) -> Iterator[str]:
    a, b = was.node_data(), now.node_data()
    if a is None or b is None:
        return
    if a[0] is not b[0]:
        yield f"`{path}` was of type {a[0].__name__}, and is of type {b[0].__name__}"
    elif a[1] != b[1]:
        made, is_made = around_difference(repr(a[1]), repr(b[1]))
        alike = ", which prints alike and is not equal" if made == is_made else ""
        yield f"`{path}`, of type {a[0].__name__}, was made with {made}, and is with {is_made}{alike}"
    else:
        keys = a[1] if a[0] is dict else range(len(was.children()))
        for key, old, new in zip(keys, was.children(), now.children()):
            yield from _differing(old, new, f"{path}[{key!r}]")
