"""Arguments that move together: those of repeated layers, by the pattern of their paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import argument_names, own
from xlab.parallel.put import device_put
from xlab.sharding import Mesh, NamedSharding, PartitionSpec

_PART = re.compile(r"\[(?:'(?:[^'\\]|\\.)*'|[^\]]*)\]|\.\w+|^[^.\[]+")
_INDEX = re.compile(r"^\[\d+\]$")
_COUNTED = re.compile(r"^(\['|\.)(.*?)(\d+)('\])?$")


class ArgumentGroup(NamedTuple):
    """Arguments that move together: a pattern of paths, and their numbers."""

    pattern: str
    members: tuple[int, ...]


def pattern_of(name: str) -> str:
    """The pattern of a path: numbers of what repeats become `*`, but for the last part, which is what the value is.

    >>> pattern_of("params['layers'][3]['wq']"), pattern_of("params.block_3.w2"), pattern_of("ws[0]")
    ("params['layers'][*]['wq']", 'params.block_*.w2', 'ws[0]')
    """
    parts = _PART.findall(name)
    if "".join(parts) != name or len(parts) < 3:
        return name
    out = [parts[0]]
    for part in parts[1:-1]:
        counted = _COUNTED.match(part)
        if _INDEX.match(part):
            part = "[*]"
        elif counted:
            part = f"{counted[1]}{counted[2]}*{counted[4] or ''}"
        out.append(part)
    return "".join((*out, parts[-1]))


def groups_of(names: Sequence[str], kinds: Sequence[Any]) -> list[ArgumentGroup]:
    """Arguments by pattern and kind (shape, dtype), in order of their first; what cannot be told apart by its pattern stays by itself.

    >>> groups_of(["p[0]['w']", "p[1]['w']", "x"], [(4, 4), (4, 4), (4,)])
    [ArgumentGroup(pattern="p[*]['w']", members=(0, 1)), ArgumentGroup(pattern='x', members=(2,))]
    >>> [g.pattern for g in groups_of(["p[0]['w']", "p[1]['w']"], [(4, 4), (4, 8)])]
    ["p[0]['w']", "p[1]['w']"]
    """
    found: dict[tuple, list[int]] = {}
    of: dict[str, set] = {}
    for n, (name, kind) in enumerate(zip(names, kinds)):
        key = (pattern_of(name), kind)
        found.setdefault(key, []).append(n)
        of.setdefault(key[0], set()).add(kind)
    out: list[ArgumentGroup] = []
    for (pattern, _), members in found.items():
        if len(members) == 1:
            out.append(ArgumentGroup(names[members[0]], tuple(members)))
        elif len(of[pattern]) == 1:
            out.append(ArgumentGroup(pattern, tuple(members)))
        else:  # several kinds share the pattern: the first stands for those of its kind
            out.append(ArgumentGroup(f"{names[members[0]]} (+{len(members) - 1})", tuple(members)))
    return out


def matches(pattern: str, name: str) -> bool:
    """Whether a path is of a pattern, where `*` is any number.

    >>> matches("p[*]['w']", "p[12]['w']"), matches("p[*]['w']", "p[12]['b']")
    (True, False)
    """
    return re.fullmatch(r"\d+".join(map(re.escape, pattern.split("*"))), name) is not None


def by_pattern(
    names: Sequence[str], specs: Sequence[Any], groups: Iterable[ArgumentGroup]
) -> tuple[tuple[str, Any], ...]:
    """Specs by pattern where all members agree and the pattern is theirs alone, by path otherwise."""
    out: list[tuple[str, Any]] = []
    for group in groups:
        alike = {specs[n] for n in group.members}
        if len(alike) == 1 and all(matches(group.pattern, names[n]) for n in group.members):
            out.append((group.pattern, alike.pop()))
        else:
            out += [(names[n], specs[n]) for n in group.members]
    return tuple(out)


def holds(pattern: str, name: str) -> bool:
    """Whether a path is of a pattern, or a part of what is.

    >>> holds("p", "p[12]['w']"), holds("p[*]", "p[12]['w']"), holds("p", "params['w']"), holds("p['w']", "p")
    (True, True, False, False)
    """
    if matches(pattern, name):
        return True
    parts = _PART.findall(name)
    return "".join(parts) == name and any(
        matches(pattern, "".join(parts[:n])) for n in range(1, len(parts))
    )


def chosen(specs: Mapping[str, PartitionSpec], name: str) -> PartitionSpec | None:
    """The spec of a path: that of a part before that of the whole, its own before that of a pattern.

    >>> specs = {"p": PartitionSpec(), "p[*]": PartitionSpec("i"), "p[3]": PartitionSpec("j")}
    >>> chosen(specs, "p[3]"), chosen(specs, "p[4]['w']"), chosen(specs, "x")
    (P('j',), P('i',), None)
    """
    order = sorted(specs, key=lambda p: (-len(_PART.findall(p)), "*" in p))
    return next((specs[p] for p in order if holds(p, name)), None)


def unnamed(specs: Iterable[str], names: Sequence[str]) -> str:
    """Why a pattern is none: no path is of it; empty where each has one."""
    for pattern in specs:
        if not any(holds(pattern, n) for n in names):
            return f"no argument is {pattern!r}; there are {', '.join(dict.fromkeys(map(pattern_of, names)))}"
    return ""


def place(
    fun: Any, args: Sequence[Any], specs: Mapping[str, PartitionSpec], mesh: Mesh
) -> tuple[Any, ...]:
    """Arguments of a function, put on a mesh by specs for patterns of their paths; what no pattern names is whole on every device.

    Args:
        fun: the function, whose parameters name the paths; jitted or not.
        args: its positional arguments.
        specs: by path such as `params['w']`, or by pattern, where `*` stands for any number: `params['layers'][*]['wq']`;
            of what holds others, such as `params`, it is that of all in it.
        mesh: where they go.

    Returns:
        The arguments in the same structure.

    Raises:
        ValueError: a pattern that no path matches.

    Example:
        >>> import numpy as np, xlab
        >>> from xlab.sharding import PartitionSpec as P
        >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
        >>> (placed,) = place(lambda ws: ws, ([{"w": np.ones(4)}, {"w": np.ones(4)}],), {"ws[*]['w']": P("i")}, mesh)
        >>> placed[1]["w"].sharding.spec
        P('i',)
    """
    args = tuple(args)
    leaves, treedef = _tree.flatten(args)
    owner = own(fun, "_xlab_jit") or jit(fun)._xlab_jit
    names = argument_names(owner.fun, _tree.structure((args, {})), len(leaves))
    if wrong := unnamed(specs, names):
        raise ValueError(wrong)
    put = [
        device_put(x, NamedSharding(mesh, chosen(specs, n) or PartitionSpec()))
        for x, n in zip(leaves, names)
    ]
    return tuple(_tree.unflatten(treedef, put))
