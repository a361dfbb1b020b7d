"""Ways to divide work that are known by a name, and the collectives that belong to them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xlab.core.jaxpr import JaxprEqn, Var, open_jaxpr
from xlab.interpreters.communication import reduces
from xlab.interpreters.control_flow import CallFlow, flow_of
from xlab.observe.overview.inspection import Inspection
from xlab.observe.programs import names as _names
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.finding import Pattern
from xlab.observe.sharding.collective_axes import steps_of_pairs
from xlab.observe.sharding.gradients import like_an_argument, of_data
from xlab.observe.sharding.matching import operand_equations

_PRODUCTS = frozenset(("dot_general", "conv_general_dilated", "ragged_dot_general"))
_LOSS = "sum of a loss over devices"
_GRADIENT = "data-parallel gradient sum"
_REDUCTION = "reduction over devices"
"""What has no name of its own and is part of the work: each device reduces the part it has, and these are reduced."""
_NEIGHBORS = frozenset(
    ("conv_general_dilated", "reduce_window", "reduce_window_sum", "reduce_window_max", "cumsum")
)
_CUTS = frozenset(("concatenate", "slice", "pad", "dynamic_slice"))
"""What only moves entries: those at the edges of blocks, whole blocks, or each to where it lies in a result of another length."""


def known_patterns(transfers: Sequence[Transfer], stages: ProgramStages) -> dict[int, str]:
    """The pattern of each collective that belongs to one, by its position."""
    if not transfers:
        return {}
    at = Inspection(stages, transfers, ())
    found = ((n, pattern_of(t, stages, at)) for n, t in enumerate(transfers))
    return {n: name for n, name in found if name}


def pattern_of(t: Transfer, stages: ProgramStages, at: Inspection | None = None) -> str:
    """The name of the way to divide work that a collective belongs to; empty for one that belongs to none."""
    if t.removed:
        return ""
    eqn = stages.equations.get(t.equation)
    known = "" if eqn is None else _named(t, eqn, stages, at or Inspection(stages, (t,), ()))
    return known or (_REDUCTION if t.origin == "partitioner" and reduces(t.kind) else "")


def _named(t: Transfer, eqn: JaxprEqn, stages: ProgramStages, at: Inspection) -> str:
    if t.kind == "all_reduce" and t.reduction == "add":
        name = _sum(t, eqn, stages, at)
        return _of_most(t, stages, at) if name == _LOSS and t.origin != "user" else name
    if t.full_rematerialization:
        return ""
    if t.kind == "all_gather":
        return _gather(t, eqn, at)
    if t.kind == "reduce_scatter":
        return _scatter(t, eqn, at)
    if t.kind == "all_to_all":
        return _exchange(t, eqn, at)
    if t.kind == "collective_permute":
        return _permute(t, eqn, at)
    return ""


def _of_most(t: Transfer, stages: ProgramStages, at: Inspection) -> str:
    """What a sum is that the compiler combined: a loss that goes along with gradients is no name for them."""
    module = stages.hlo
    found = next((i for i in module.instructions() if i.name == t.instruction), None)
    parts = [] if found is None else operand_equations(module, found)
    eqns = [stages.equations[i] for i in dict.fromkeys(parts) if i in stages.equations]
    names = {_sum(t, eqn, stages, at) for eqn in eqns} - {_LOSS, ""}
    return min(names) if len(names) == 1 else _LOSS


def _sum(t: Transfer, eqn: JaxprEqn, stages: ProgramStages, at: Inspection) -> str:
    if t.origin == "user":
        if all(not getattr(v.aval, "shape", (1,)) for v in eqn.outvars):
            return _LOSS
        if _names.is_transposed(eqn) or any(_backward(at, v) for v in eqn.invars):
            return _GRADIENT
        made = [at.makers[v].primitive.name for v in eqn.invars if v in at.makers]
        return "row-parallel product" if "dot_general" in made else ""
    if eqn.primitive.name == "dot_general":
        if not _names.is_transposed(eqn):
            return "row-parallel product"
        return _GRADIENT if _is_gradient(eqn, stages) else "column-parallel product, backward"
    if eqn.primitive.name == "reduce_sum":
        backward = _names.is_transposed(eqn) or _backward(at, eqn.invars[0])
        if not getattr(eqn.outvars[0].aval, "shape", (1,)):
            # A norm, which the same examples are divided by, is none.
            return "" if _meets_its_batch(eqn, at, backward) else _LOSS
        over_batch = _over_batch(t, eqn, at)
        if over_batch and _by_experts(at, eqn.invars[0]):
            return "expert combine"
        if over_batch and _meets_its_batch(eqn, at, backward):
            return "batch statistics"
        if (backward and over_batch) or (_names.is_transposed(eqn) and _is_gradient(eqn, stages)):
            return _GRADIENT
    return ""


def _meets_its_batch(eqn: JaxprEqn, at: Inspection, backward: bool) -> bool:
    """Whether a sum over a batch comes back to its examples, as a mean that is subtracted from each: the gradient of a bias, or a loss for
    each entry, never does. That a parameter is moved by it, and used again, is no way back."""
    whole: Any = eqn.invars[0].aval
    todo: list[Any] = list(eqn.outvars)
    seen: set[Any] = set()
    while todo and len(seen) < 256:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        for reader in at.readers.get(v, ()):
            if backward and _moves_an_argument(reader, at):
                continue
            flow = flow_of(reader)
            if isinstance(flow, CallFlow):
                inner = open_jaxpr(flow.jaxpr)
                todo += [i for i, a in zip(inner.invars, reader.invars) if a is v]
            elif flow is None and reader.primitive.name not in _PRODUCTS:
                if any(getattr(o.aval, "size", 0) == whole.size for o in reader.outvars):
                    return True
                todo += reader.outvars
        todo += at.results.get(v, ())
    return False


def _moves_an_argument(eqn: JaxprEqn, at: Inspection) -> bool:
    return eqn.primitive.name in ("add", "sub", "add_any") and any(
        at.argument_of(a) >= 0 for a in eqn.invars
    )


def _over_batch(t: Transfer, eqn: JaxprEqn, at: Inspection) -> bool:
    """Whether a sum takes the examples of a batch together, as a batch norm and its derivative do: all entries of each, or of each channel."""
    (v,) = eqn.invars
    shape, spec = split_of(t.operand)
    made = at.argument_of(v) < 0 and shape == getattr(v.aval, "shape", ())
    summed = set(eqn.params["axes"])
    places = range(len(shape))
    # Channels stand last or behind the examples.
    whole = ({0}, {0, *places[1:-1]}, {0, *places[2:]})
    return made and len(shape) > 1 and summed in whole and set(t.axes) <= set(spec[0])


def _by_experts(at: Inspection, v: Any) -> bool:
    """Whether the first dimension of a value is that of experts: an elementwise function of a product that has a weight for each entry of it."""
    shape = v.aval.shape
    todo: list[Any] = [v]
    seen: set[Any] = set()
    while todo and len(seen) < 64:
        v = todo.pop()
        made = at.makers.get(v)
        if made is None or v in seen or getattr(v.aval, "shape", ())[:1] != shape[:1]:
            continue
        seen.add(v)
        if made.primitive.name == "dot_general":
            batched = made.params["dimension_numbers"][1][0]
            if batched and any(at.argument_of(a) >= 0 for a in made.invars):
                return True
        else:
            todo += [
                a for a in made.invars if type(a) is Var and getattr(a.aval, "shape", None) == shape
            ]
    return False


def _backward(at: Inspection, v: Any) -> bool:
    made = at.makers.get(v) if type(v) is Var else None
    return made is not None and _names.is_transposed(made)


def _is_gradient(eqn: JaxprEqn, stages: ProgramStages) -> bool:
    """Whether the result of an equation is the gradient of a parameter: it has its shape, and is not the gradient of what met a weight."""
    return like_an_argument(stages, eqn) and not of_data(stages, eqn)


def split_of(text: str) -> tuple[tuple[int, ...], tuple[tuple[str, ...], ...]]:
    """Shape and spec of a type as records have it.

    >>> split_of("f32[8@data,16@x+y,3]")
    ((8, 16, 3), (('data',), ('x', 'y'), ()))
    """
    found = re.search(r"\[([^\]]*)\]", text)
    dims = [d.partition("@") for d in found[1].split(",")] if found and found[1] else []
    return (
        tuple(int(d) if d.isdigit() else -1 for d, _, _ in dims),
        tuple(tuple(re.split(r"[+&]", axes)) if axes else () for _, _, axes in dims),
    )


def _gather(t: Transfer, eqn: JaxprEqn, at: Inspection) -> str:
    """Weights that are brought together before they are used, or a sequence before a column-parallel product."""
    if t.origin == "user":
        weight = at.argument_of(eqn.invars[0]) >= 0
        reads = _reached(at, eqn.outvars)
        if not reads & _PRODUCTS:
            return ""
        given: Any = eqn.invars[0].aval
        return "FSDP gather" if weight and given.ndim <= 2 else "sequence parallelism"  # fmt: skip
    if eqn.primitive.name == "sharding_constraint" and at.argument_of(eqn.invars[0]) >= 0:
        readers = [r for r in at.readers.get(eqn.outvars[0], ()) if r.primitive.name in _PRODUCTS]
        batch = any(set(t.axes) & _axes_of(at, r.invars[0]) for r in readers)
        return "FSDP gather" if batch and eqn.outvars[0] is readers[0].invars[1] else ""
    if eqn.primitive.name not in _PRODUCTS:
        return ""
    shape, spec = split_of(t.operand)
    operand = _operand(t, eqn, shape, at)
    if operand is None or (_names.is_transposed(eqn) and _is_gradient(eqn, at.stages)):
        return ""  # what meets in the gradient of a weight are examples and their gradients
    other = eqn.invars[1] if operand is eqn.invars[0] else eqn.invars[0]
    contracted = {
        v: set(dims) for v, dims in zip(eqn.invars, eqn.params["dimension_numbers"][0])
    } if eqn.primitive.name == "dot_general" else {}  # fmt: skip
    axes = set(t.axes)
    free_split = any(
        axes & set(names) and d not in contracted.get(operand, ()) for d, names in enumerate(spec)
    )
    if _is_weight(at, operand, other, eqn):
        # Of data parallelism the axis splits the batch too: what the weights meet.
        split = _splits_free(at, other, axes, contracted.get(other, set()))
        return "FSDP gather" if split else ""
    weight_split = axes & _axes_of(at, other)
    return "sequence parallelism" if free_split and weight_split and len(shape) > 2 else ""


def _operand(t: Transfer, eqn: JaxprEqn, shape: tuple[int, ...], at: Inspection) -> Any:
    operands = [v for v in eqn.invars if type(v) is Var]
    named = [v for v in operands if t.value and at.names.get(v) == t.value]
    alike = [v for v in operands if getattr(v.aval, "shape", None) == shape]
    sized = [v for v in operands if getattr(v.aval, "nbytes", 0) == t.bytes_out]
    return next(iter(named or alike or sized[::-1]), None)


def _is_weight(at: Inspection, v: Any, other: Any, eqn: JaxprEqn) -> bool:
    if at.argument_of(v) < 0:
        return False
    mine, theirs = len(v.aval.shape), len(other.aval.shape)
    return mine < theirs or at.argument_of(other) < 0 or (mine == theirs and v is eqn.invars[1])


def _splits_free(at: Inspection, v: Any, axes: set[str], contracted: set[int]) -> bool:
    """Whether axes split a dimension of an operand that is one of the result too."""
    number = at.argument_of(v)
    sharding = at.shardings[number] if number >= 0 else None
    given = getattr(sharding, "spec", None)
    if given is None:
        return bool(axes & _axes_of(at, v))
    spec = [
        {str(n) for n in (given.axes_of(d) or ())} if d < len(given) else set()
        for d in range(at.stages.closed.in_avals[number].ndim)
    ]
    own = spec[len(spec) - len(v.aval.shape) :]  # a row of it, in a loop
    return any(axes & names for d, names in enumerate(own) if d not in contracted)


def _axes_of(at: Inspection, v: Any) -> set[str]:
    """The mesh axes over which a value lies, read from the argument or the arguments it is made of."""
    low = at.stages.lowered
    given = dict(zip(low.kept, low.in_shardings))
    seen: set[Any] = set()
    todo, axes = [v], set()
    while todo and len(seen) < 256:
        a = todo.pop()
        if type(a) is not Var or a in seen:
            continue
        seen.add(a)
        number = next((i for i, x in enumerate(at.stages.closed.jaxpr.invars) if x is a), -1)
        spec = getattr(given.get(number), "spec", None)
        if spec is not None:
            axes |= {str(n) for d in range(len(spec)) for n in (spec.axes_of(d) or ())}
        elif a in at.makers:
            todo += at.makers[a].invars
        elif a in at.outside:
            todo.append(at.outside[a])
    return axes


def _reached(at: Inspection, outs: Sequence[Any], depth: int = 3) -> set[str]:
    """Names of the primitives that read a value, or what is made of it in a few steps."""
    found: set[str] = set()
    todo = [(v, depth) for v in outs]
    while todo:
        v, left = todo.pop()
        for eqn in at.readers.get(v, ()):
            found.add(eqn.primitive.name)
            if left:
                todo += [(o, left - 1) for o in eqn.outvars]
    return found


def _scatter(t: Transfer, eqn: JaxprEqn, at: Inspection) -> str:
    backward = _names.is_transposed(eqn) or any(_backward(at, v) for v in eqn.invars)
    if backward:
        return _GRADIENT if _is_gradient(eqn, at.stages) else "sequence parallelism"  # fmt: skip
    made = {at.makers[v].primitive.name for v in eqn.invars if v in at.makers}
    return "sequence parallelism" if eqn.primitive.name == "dot_general" or "dot_general" in made else ""  # fmt: skip


def _exchange(t: Transfer, eqn: JaxprEqn, at: Inspection) -> str:
    """Tokens that go to the devices of their experts and back: what a product with a batch of weights reads or made."""
    near = [eqn, *(at.makers[v] for v in eqn.invars if v in at.makers)]
    near += [r for v in eqn.outvars for r in at.readers.get(v, ())]
    near += [at.makers[v] for e in near for v in e.invars if v in at.makers]
    near += [r for e in near for v in e.outvars for r in at.readers.get(v, ())]
    for e in near:
        if e.primitive.name != "dot_general":
            continue
        batched = bool(e.params["dimension_numbers"][1][0])
        if (batched or t.origin == "user") and any(at.argument_of(v) >= 0 for v in e.invars):
            return "expert all-to-all"
    return ""


def _permute(t: Transfer, eqn: JaxprEqn, at: Inspection) -> str:
    """Edges to neighbors, keys and values around a ring, or activations to the next stage."""
    if t.origin != "user":
        if eqn.primitive.name in _CUTS:
            return _moved(t, eqn, at)
        return "halo exchange" if eqn.primitive.name in _NEIGHBORS else ""
    loop = next((p.loops for p in at.places if p.eqn is eqn), ())
    inside = {p.eqn.primitive.name for p in at.places if loop and loop[-1] in p.loops}
    moving: Any = eqn.invars[0]
    made = at.makers.get(moving)
    if made is not None and made.primitive.name in ("slice", "dynamic_slice", "squeeze"):
        return "halo exchange"
    if not inside:
        return ""
    moved = made is None  # as it came into the round: it goes around, and is read where it stops
    if inside & {"exp", "exp2", "logistic"} and "dot_general" in inside and moved:
        return "ring attention"
    if "dot_general" in inside:
        return "ring product" if moved else "pipeline sends"
    return ""


def _moved(t: Transfer, eqn: JaxprEqn, at: Inspection) -> str:
    """Edges to neighbors where blocks stay as long as they are, a shift of all entries over more devices, or blocks of another length."""
    if t.mesh is None:
        return ""
    alike = [x for x in at.transfers if x.equation == t.equation and x.kind == t.kind and x.axes == t.axes]  # fmt: skip
    steps = [steps_of_pairs(t.mesh, t.axes, x.pairs) for x in alike or [t]]
    if any(len(s) != 1 for s in steps) or _blocks_change(t, eqn, at):
        return "redistribution"
    return "halo exchange" if frozenset().union(*steps) <= {1, -1} else "shift"


def _blocks_change(t: Transfer, eqn: JaxprEqn, at: Inspection) -> bool:
    """Whether the blocks of a result are shorter or longer than those of the operand, along a dimension that is split."""
    sizes = dict(zip(t.mesh.axis_names, t.mesh.axis_sizes)) if t.mesh is not None else {}
    ways = math.prod(sizes.get(a, 1) for a in t.axes)
    operands: list[Any] = [v.aval for v in eqn.invars]
    made: Any = eqn.outvars[0].aval
    before = list(operands[0].shape)
    if eqn.primitive.name == "concatenate":
        d = eqn.params["dimension"]
        before[d] = sum(x.shape[d] for x in operands)
    number = at.argument_of(eqn.invars[0])
    given: Any = getattr(at.shardings[number], "spec", None) if number >= 0 else None
    if given is not None and at.stages.closed.in_avals[number].ndim != len(before):
        given = None  # a row of it, in a loop
    for d, (n, m) in enumerate(zip(before, made.shape)):
        # Of a value that is no argument it is not known which dimension is split.
        split = given is None or (
            d < len(given) and set(map(str, given.axes_of(d) or ())) & set(t.axes)
        )
        if split and -(-n // ways) != -(-m // ways):
            return True
    return False


def patterns_of(
    mine: Sequence[Transfer], known: Mapping[int, str], program: int
) -> tuple[Pattern, ...]:
    """The patterns with the collectives that belong to each, those with most first."""
    groups: dict[tuple[str, tuple[str, ...]], list[Transfer]] = {}
    for n, name in known.items():
        groups.setdefault((name, mine[n].axes), []).append(mine[n])
    return tuple(
        Pattern(
            name,
            len(of),
            sum(t.sent_in_run for t in of),
            axes,
            tuple(dict.fromkeys(t.equation for t in of)),
            program,
        )
        for (name, axes), of in sorted(groups.items(), key=lambda g: -len(g[1]))
    )
