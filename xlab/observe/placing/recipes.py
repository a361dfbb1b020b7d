"""Ways to divide a program that are known by a name: data parallelism, FSDP, Megatron's tensor parallelism, and both together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xlab.backend.factors import FactorOp, Region, Rule
from xlab.observe.placing.estimate import Estimator
from xlab.observe.placing.partition_model import WAITS, Spec
from xlab.observe.placing.patterns import ArgumentGroup

DATA, FSDP, TENSOR, BOTH = (
    "data parallel",
    "FSDP",
    "tensor parallel (Megatron)",
    "2-D (FSDP × Megatron)",
)

_PRODUCTS = ("dot_general", "convolution", "gather")


class FirstUse(NamedTuple):
    """The first product that an argument takes part in: the operation, and at which place."""

    op: FactorOp
    place: int


class Roles(NamedTuple):
    """What arguments are to a program: `data` are split along their batch, `weights` are what it learns; `uses` their first products."""

    data: tuple[int, ...]
    weights: tuple[int, ...]
    batch: int
    uses: Mapping[int, FirstUse]


def roles(made: Estimator, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> Roles:
    """What each argument is, from the products it goes into: their first operand is data, their second a weight, a table that is indexed too.

    >>> from xlab.observe.placing.experiment import Experiment
    >>> import numpy as np, xlab
    >>> mesh = xlab.make_mesh((1,), ("i",), axis_types=(xlab.sharding.AxisType.Auto,))
    >>> x = xlab.device_put(np.ones((4, 4)), xlab.NamedSharding(mesh, xlab.P("i")))
    >>> tried = Experiment(xlab.jit(lambda x, w, b: (x @ w)[:, :2] + b), x, x, x[0, :2])
    >>> roles(tried.estimator(), tried.names, tried.shapes)[:3]
    ((0,), (1, 2), 4)
    """
    origin = {v: n for n, v in enumerate(made.program.main.arguments[made.leading :])}
    uses: dict[int, FirstUse] = {}
    _trace(made.program.main, origin, set(), uses)
    kind: dict[int, str] = {}
    for n, use in uses.items():
        if use.op.name == "gather":
            kind[n] = "weight" if use.place == 0 else "data"
        else:
            other = origin.get(use.op.operands[1 - use.place]) if use.place < 2 else None
            data = use.place == 0 and (other is not None or "[" not in names[n])
            kind[n] = "data" if data else "weight"
    root = lambda n: names[n].replace(".", "[").partition("[")[0]
    weighty = {root(n) for n, k in kind.items() if k == "weight" and root(n) != names[n]}
    sizes = [shapes[n][0] for n, k in kind.items() if k == "data" and shapes[n]]
    batch = max(set(sizes), key=sizes.count) if sizes else 0
    for n, shape in enumerate(shapes):
        if root(n) in weighty:
            kind[n] = "weight"
        elif n not in kind:
            kind[n] = "data" if shape and batch and shape[0] == batch else "weight"
        elif kind[n] == "data" and (not shape or shape[0] != batch):
            kind[n] = "weight"
    pick = lambda wanted: tuple(n for n in range(len(shapes)) if kind[n] == wanted)
    return Roles(pick("data"), pick("weight"), batch, uses)


def _trace(
    region: Region, origin: dict[int, int], constant: set[int], uses: dict[int, FirstUse]
) -> None:
    """Follows arguments, and what is made of one of them alone, to the products they go into."""
    for op in region.ops:
        if op.name in _PRODUCTS:
            for place, v in enumerate(op.operands[:2]):
                if v in origin:
                    uses.setdefault(origin[v], FirstUse(op, place))
        elif not op.regions and op.name not in WAITS:
            given = {origin.get(v, -1) for v in op.operands if v not in constant}
            if not given:
                constant.update(op.results)
            elif len(given) == 1 and -1 not in given:
                (n,) = given
                origin.update(dict.fromkeys(op.results, n))
        for inner in op.regions:
            if op.name in ("while", "manual_computation"):
                for v, a in zip(op.operands, inner.arguments):
                    if v in origin:
                        origin[a] = origin[v]
            _trace(inner, origin, constant, uses)


def recipes(
    made: Estimator,
    known: Roles,
    groups: Sequence[ArgumentGroup],
    names: Sequence[str],
    shapes: Sequence[Sequence[int]],
    sizes: Mapping[str, int],
) -> Iterator[tuple[str, tuple[Spec, ...]]]:
    """The named ways on one mesh, as the spec of every argument; ways that it has no axis for are left out."""
    axes = tuple(a for a, n in sizes.items() if n > 1)
    if not axes:
        return
    whole: list[Spec] = [((),) * len(s) for s in shapes]
    split = lambda over: _batch(whole, known, shapes, sizes, over)
    if known.data:
        yield DATA, tuple(split(axes))
    if known.data and known.weights:
        yield FSDP, tuple(_fsdp(split(axes), known, shapes, sizes, axes))
    matrices = any(
        u.op.name in ("dot_general", "convolution") and u.place == 1 for u in known.uses.values()
    )
    if matrices:
        outer, inner = axes[:-1], axes[-1:]
        tensor = _tensor(split(outer), made, known, groups, names, shapes, sizes, inner)
        yield TENSOR if not outer else f"{'×'.join(outer)} × {TENSOR}", tuple(tensor)
        if outer and known.data:
            yield BOTH, tuple(_fsdp(tensor, known, shapes, sizes, outer))


def _batch(
    whole: list[Spec],
    known: Roles,
    shapes: Sequence[Sequence[int]],
    sizes: Mapping[str, int],
    axes: Sequence[str],
) -> list[Spec]:
    specs = list(whole)
    for n in known.data:
        over = list(axes)
        while over and shapes[n][0] % math.prod(sizes[a] for a in over):
            over.pop()
        specs[n] = (tuple(over), *specs[n][1:])
    return specs


def _fsdp(
    specs: list[Spec],
    known: Roles,
    shapes: Sequence[Sequence[int]],
    sizes: Mapping[str, int],
    axes: Sequence[str],
) -> list[Spec]:
    """Every weight over these axes too, along the longest dimension that they divide."""
    out = list(specs)
    ways = math.prod(sizes[a] for a in axes)
    for n in known.weights:
        free = [
            d for d, size in enumerate(shapes[n])
            if not out[n][d] and size % ways == 0 and size > 1
        ]  # fmt: skip
        if free:
            d = max(free, key=lambda d: shapes[n][d])
            out[n] = tuple(tuple(axes) if k == d else s for k, s in enumerate(out[n]))
    return out


def _tensor(
    specs: list[Spec],
    made: Estimator,
    known: Roles,
    groups: Sequence[ArgumentGroup],
    names: Sequence[str],
    shapes: Sequence[Sequence[int]],
    sizes: Mapping[str, int],
    axes: Sequence[str],
) -> list[Spec]:
    """Weights split along their result, or along what they add up where what they meet is split so already."""
    out = list(specs)
    rule_of = made.program.rules
    order = {id(op): n for n, op in enumerate(made.model.ops)}
    mine = [g for g in groups if g.members[0] in known.weights and g.members[0] in known.uses]
    for group in sorted(mine, key=lambda g: order[id(known.uses[g.members[0]].op)]):
        op, place = known.uses[group.members[0]]
        if op.name not in ("dot_general", "convolution") or place != 1:
            continue
        shape = shapes[group.members[0]]
        lies = made.placed(out, sizes).specs[op.operands[0]] or ()
        rule = rule_of[op.rule]
        ways = math.prod(sizes[a] for a in axes)
        summed = {
            f
            for names_, at in zip(rule.operands[0], lies)
            for f in names_
            if f in rule.reduction and set(axes) & set(at)
        }
        dims = rule.operands[1]
        wanted = [
            d
            for d, fs in enumerate(dims)
            if (set(fs) & summed if summed else set(fs) & _kept(rule))
        ]
        # The weight may be another view of the argument: the dimension of the same size.
        target = made.program.shapes[op.operands[1]]
        for d in wanted:
            same = [k for k, size in enumerate(shape) if size == target[d]]
            at = d - len(target) + len(shape) if len(target) <= len(shape) else d
            k = at if at in same else same[-1] if same else None
            if k is not None and shape[k] % ways == 0 and not out[group.members[0]][k]:
                for n in _alike(group, known, groups, names, shapes):
                    if not {a for dim in out[n] for a in dim} & set(axes):
                        out[n] = tuple(tuple(axes) if j == k else s for j, s in enumerate(out[n]))
                break
    return out


def _kept(rule: Rule) -> set[int]:
    """Factors of the second operand that are the result's alone."""
    first = {f for dim in rule.operands[0] for f in dim}
    return {f for dim in rule.operands[1] for f in dim} - first


def _alike(
    group: ArgumentGroup,
    known: Roles,
    groups: Sequence[ArgumentGroup],
    names: Sequence[str],
    shapes: Sequence[Sequence[int]],
) -> list[int]:
    """A group's arguments, with those that go along, such as the moments of an optimizer."""
    tail = names[group.members[0]].replace(".", "[").split("[")[1:]
    out = list(group.members)
    for g in groups:
        n = g.members[0]
        other = names[n].replace(".", "[").split("[")[1:]
        if (
            g is not group
            and n not in known.uses
            and tail
            and shapes[n] == shapes[group.members[0]]
        ):
            if len(other) >= len(tail) and [_plain(p) for p in other[-len(tail) :]] == [
                _plain(p) for p in tail
            ]:
                out += g.members
    return out


def _plain(part: str) -> str:
    return "*" if part.rstrip("]").isdigit() else part
