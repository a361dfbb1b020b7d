"""What may take a collective of the partitioner away, in the user's words, where no placement of an argument can be tried."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr, subjaxprs_of_params
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Type
from xlab.observe.sharding.reasons import PartitionedValue, Try, all_names, place_text
from xlab.observe.sharding.whole_matrices import WHOLE


def remedy(
    stages: ProgramStages,
    eqn: JaxprEqn | None,
    axes: tuple[str, ...],
    split: Sequence[PartitionedValue] = (),
) -> str:
    """How to keep on each device what an equation reads: the user's value nearest to it, split along another dimension; empty where that has
    no other.

    Args:
        split: what the equation reads that is split over these axes, as far as it is known.
    """
    if eqn is None:
        return ""
    if host := callbacks_of_region(eqn, axes):
        over = ", ".join(map(repr, axes))
        return f"take {host} out of the shard_map, or make the region manual along {over} too (axis_names): then each device calls with its part"
    name, dimensions = nearest_name(stages, eqn, {v.type.shape for v in split})
    if dimensions < 2:  # a vector has no other dimension: what else is read may have
        name, dimensions = nearest_name(stages, eqn)
    if split:
        named = next((v for v in split if v.name), None)
        if named is not None:
            name, dimensions = named.name, len(named.type.shape)
        elif all(v.row >= 0 or v.said for v in split):
            return ""  # the nearest name is that of something else
    if not name or dimensions < 2:
        return ""
    if eqn.primitive.name == "conv_general_dilated" and not _splits_otherwise(stages, eqn, axes):
        return ""  # its windows reach over every dimension of space, and no other can be split
    what = f"{eqn.primitive.name}{place_text(eqn)}"
    over = " and ".join(axes) or "the mesh"  # some groups are parts of axes
    if eqn.primitive.name in WHOLE:
        return f"{what} works on whole matrices: split a batch of them over {over}, and no dimension of `{name}` itself"
    return (
        f"split another dimension of `{name}` over {over}, so that the one along which {what} works is whole on each "
        f"device"
    )


def _splits_otherwise(stages: ProgramStages, eqn: JaxprEqn, axes: tuple[str, ...]) -> bool:
    """Whether the batch or the features of a convolution can be split over some axes."""
    sizes = dict(stages.lowered.mesh.shape) if stages.lowered.mesh is not None else {}
    ways = math.prod(sizes.get(a, 1) for a in axes)
    of: Any = eqn.invars[0].aval
    numbers = eqn.params["dimension_numbers"]
    batch, feature, *_ = numbers.lhs_spec
    return any(of.shape[d] % ways == 0 for d in (batch, feature))


def calls_host(eqn: JaxprEqn) -> bool:
    """Whether an equation calls a function of the host."""
    return "callback" in eqn.params or eqn.primitive.name == "debug_print"


def callbacks_of_region(eqn: JaxprEqn, axes: tuple[str, ...]) -> str:
    """The callbacks in an equation's `shard_map` that leaves these mesh axes to the compiler: they get whole arrays along them."""
    found: dict[str, None] = {}

    def walk(e: JaxprEqn, open_: bool) -> None:
        if "newly_manual_axes" in e.params:
            open_ = not set(axes) & set(e.params["newly_manual_axes"])
        if open_ and calls_host(e):
            found[f"{e.primitive.name}{place_text(e)}"] = None
        for _, inner in subjaxprs_of_params(e.params):
            for each in open_jaxpr(inner).eqns:
                walk(each, open_)

    walk(eqn, False)
    return " and ".join(list(found)[:2])


def nearest_name(
    stages: ProgramStages, eqn: JaxprEqn, shapes: Collection[Sequence[Any]] = ()
) -> tuple[str, int]:
    """The user's name of the value that an equation reads, or that what it reads is made of, the fewest equations away, and its dimensions.

    Args:
        shapes: those of the operands that are meant, where not all are.
    """
    names = _maps(stages)[0]
    for v in _made_of(stages, eqn, shapes):
        if v in names:
            return names[v], getattr(v.aval, "ndim", 0)
    return "", 0


def split_behind(
    stages: ProgramStages, eqn: JaxprEqn | None, axes: Collection[str]
) -> list[PartitionedValue]:
    """The argument nearest to what an equation reads that is split over all of these axes, where there is one."""
    if eqn is None:
        return []
    numbers = {v: n for n, v in enumerate(stages.closed.jaxpr.invars)}
    given = dict(zip(stages.lowered.kept, stages.lowered.in_shardings))
    for v in itertools.islice(_made_of(stages, eqn), MOST_BEHIND):
        spec = getattr(given.get(numbers.get(v, -1)), "spec", None)
        if spec is None:
            continue
        aval: Any = v.aval
        dims = [spec.axes_of(d) or () if d < len(spec) else () for d in range(aval.ndim)]
        named = tuple(tuple(map(str, dim)) for dim in dims)
        if set(axes) <= {a for dim in named for a in dim}:
            kind = Type(str(aval.dtype), aval.shape, named)
            return [PartitionedValue(kind, argument=numbers[v])]
    return []


MOST_BEHIND = 64
"""Values among which an argument is looked for."""


def _made_of(
    stages: ProgramStages, eqn: JaxprEqn, shapes: Collection[Sequence[Any]] = ()
) -> Iterator[Var]:
    """What an equation reads, and then what that is made of, the fewest equations away first."""
    _, makers, outer = _maps(stages)
    read = [v for v in eqn.invars if type(v) is Var and getattr(v.aval, "ndim", 0) > 0]
    meant = [v for v in read if tuple(getattr(v.aval, "shape", ())) in set(map(tuple, shapes))]
    todo = deque(meant or read)
    seen = set(todo)
    while todo:
        v = todo.popleft()
        yield v
        made = makers.get(v)
        before = made.invars if made is not None else [outer[v]] if v in outer else []
        for u in before:
            if type(u) is Var and u not in seen:
                seen.add(u)
                todo.append(u)


def _maps(stages: ProgramStages) -> tuple[dict, dict, dict]:
    """The user's names of values, the equation that made each, and for an operand of a nested program the value outside."""
    jaxpr = stages.closed.jaxpr
    names = dict(all_names(jaxpr))
    for n, v in enumerate(jaxpr.invars):
        names.setdefault(v, jaxpr.debug_info.arg_name(n))
    makers: dict[Var, JaxprEqn] = {}
    outer: dict[Var, Any] = {}

    def walk(body: Jaxpr) -> None:
        for eqn in body.eqns:
            makers.update((v, eqn) for v in eqn.outvars)
            for _, inner in subjaxprs_of_params(eqn.params):
                inner = open_jaxpr(inner)
                # An index of a cond and constants of another function stand in front.
                outer.update(zip(reversed(inner.invars), reversed(eqn.invars), strict=False))
                walk(inner)

    walk(jaxpr)
    return names, makers, outer


def reasonable(stages: ProgramStages, tries: tuple[Try, ...]) -> Try | None:
    """The first way worth naming without having tried it: one that makes no split argument whole on every device."""
    avals = stages.closed.in_avals
    for given in tries:
        whole = (
            n for n, spec in given.specs if not any(spec) and math.prod(avals[n].shape) > SMALL
        )
        if next(whole, None) is None:
            return given
    return None


SMALL = 1 << 10
"""Elements of an array that may be on every device without a second thought."""
