"""Arguments that move together: those of repeated layers, by the pattern of their paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xlab import tree as _tree
from xlab.compile.jit import jit
from xlab.compile.tracing import argument_names, own
from xlab.observe.beside.placements import is_mesh_of_jax, tree_of
from xlab.observe.beside.placements import put as put_by_jax
from xlab.observe.beside.recognize import belongs_to_jax
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


def put_line(function: str, names: Sequence[str], every: Sequence[str], call: str = "") -> str:
    """The line of code that puts arguments where `specs` say.

    Args:
        function: the name of the function.
        names: paths of the arguments that are put somewhere.
        every: paths of all arguments.
        call: the call as it was written, where it is known: its arguments are what is put. Otherwise they are in a tuple.

    >>> put_line("step", ["params['w']", "x"], ["params['w']", "x", "lr"], "step(weights, batch[0], 0.1)")
    'weights, x = observe.place(("params", "x"), (weights, batch[0]), specs, mesh)'
    >>> put_line("loss", ["x"], ["x"], "loss(x)"), put_line("step", ["x"], ["x"])
    ('(x,) = observe.place(("x",), (x,), specs, mesh)', 'args = observe.place(step, args, specs, mesh)')
    """
    roots = list(dict.fromkeys(map(root_of, names)))
    written = expressions(call, list(dict.fromkeys(map(root_of, every))))
    if not roots or any(r not in written or not r.isidentifier() for r in roots):
        f = function if function.isidentifier() else "f"
        return f"args = observe.place({f}, args, specs, mesh)"
    values = [written[r] for r in roots]
    targets = [v if v.isidentifier() else r for v, r in zip(values, roots)]
    joined = lambda parts: ", ".join(parts) + "," * (len(roots) == 1)
    left = joined(targets) if len(roots) > 1 else f"({targets[0]},)"
    quoted = [f'"{r}"' for r in roots]
    return f"{left} = observe.place(({joined(quoted)}), ({joined(values)}), specs, mesh)"


def root_of(path: str) -> str:
    """What a path begins with.

    >>> root_of("params['w']"), root_of("state.step")
    ('params', 'state')
    """
    return re.split(r"[.\[]", path)[0]


def expressions(call: str, parameters: Sequence[str]) -> dict[str, str]:
    """What a call gives for each parameter; nothing where that cannot be told from its text.

    >>> expressions("step(w, lr=0.1)", ["params", "lr"]), expressions("step(*args)", ["params", "lr"])
    ({'params': 'w', 'lr': '0.1'}, {})
    """
    try:
        node = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return {}
    if not isinstance(node, ast.Call) or len(node.args) + len(node.keywords) != len(parameters):
        return {}
    named = {str(k.arg): ast.unparse(k.value) for k in node.keywords}
    if any(isinstance(a, ast.Starred) for a in node.args) or set(named) - set(parameters):
        return {}
    plain = [p for p in parameters if p not in named]
    return {**dict(zip(plain, map(ast.unparse, node.args))), **named}


def call_of(title: str, name: str, every: Sequence[str], alone: bool = True) -> str:
    """The call that a title is, if it is one of the function of this name, or of the only one that there is; of a cell the names that it reads.

    >>> call_of("model.step(w)", "step", ["w"], False), call_of("step(w)", "loss", ["w"], False)
    ('model.step(w)', '')
    >>> call_of("In[3]", "cell", ["w['a']", "w['b']", "x"])
    'cell(w, x)'
    """
    if re.fullmatch(r"In\[\d+\]", title):
        roots = dict.fromkeys(map(root_of, every))
        return f"cell({', '.join(roots)})" if name in ("cell", title) else ""
    try:
        node = ast.parse(title.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    fits = isinstance(node, ast.Call) and (
        alone or ast.unparse(node.func).rpartition(".")[2] == name
    )
    return title.strip() if fits else ""


def place(
    fun: Any, args: Sequence[Any], specs: Mapping[str, PartitionSpec], mesh: Mesh
) -> tuple[Any, ...]:
    """Arguments of a function, put on a mesh by specs for patterns of their paths; what no pattern names is whole on every device.

    Args:
        fun: the function, whose parameters name the paths, jitted or not; or the names of its arguments.
        args: its positional arguments.
        specs: by path such as `params['w']`, or by pattern, where `*` stands for any number: `params['layers'][*]['wq']`;
            of what holds others, such as `params`, it is that of all in it.
        mesh: where they go. On a mesh of JAX's, or for a function of JAX's, JAX puts them.

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
    beside = is_mesh_of_jax(mesh) or (callable(fun) and belongs_to_jax(fun, args))
    leaves, treedef = tree_of(args) if beside else _tree.flatten(args)
    if callable(fun):
        owner = own(fun, "_xlab_jit") or jit(fun)._xlab_jit
        names = argument_names(owner.fun, _tree.structure((args, {})), len(leaves))
    else:
        names = tuple(
            f"{root}{_tree.keystr(path)}"
            for root, arg in zip(fun, args, strict=True)
            for path, _ in _tree.flatten_with_path(arg)[0]
        )
    if wrong := unnamed(specs, names):
        raise ValueError(wrong)
    lying = [chosen(specs, n) or PartitionSpec() for n in names]
    put = [
        put_by_jax(x, s, mesh) if beside else device_put(x, NamedSharding(mesh, s))
        for x, s in zip(leaves, lying)
    ]
    return tuple(treedef.unflatten(put))
