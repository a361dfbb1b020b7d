"""Why the partitioner communicates: read from the stage in which it has inserted reshards and reductions of partial sums.

Shardy's `insert-explicit-reshards` writes `sdy.reshard` where a value has one sharding and its reader needs another, and
`sdy.all_reduce` where an operation over a split dimension left a part of the result on each device. Each carries the
location of the equation it belongs to.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr, subjaxprs_of_params
from xlab.interpreters.control_flow import LoopFlow, flow_of
from xlab.observe.programs import names as _names
from xlab.observe.programs.program import (
    mlir_level,
    parse_sharding,
    result_shardings,
    tensor_shape,
    type_of,
)
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Type
from xlab.observe.sharding.gradients import synchronizes
from xlab.observe.sharding.module_lines import (
    OPERAND,
    RESULT,
    Readers,
    carried_into,
    dtype_of,
    element_type,
    last_line,
)
from xlab.observe.sharding.traced_starts import traced_start
from xlab.sharding.factor_rules import ShardingRule

_ARGUMENT = re.compile(
    r"(%arg\d+): tensor<([^>]*)>(?: \{[^%]*?sdy\.sharding = #sdy\.sharding<(@\w+, \[[^\]]*\])[^%]*?\})?"
)
_AXES = re.compile(r"sdy\.all_reduce \{([^}]*)\}")


@dataclass
class Cause:
    """One reshard or reduction of the partitioner: the equation it is for, what it does, and the sentences about it."""

    equation: int
    kind: str  # reshard or all_reduce
    reason: str
    fix: str
    operand: str = ""
    reader: int = -1  # the equation that needed it
    group: str = ""  # what it has in common with others: the operation, its line, what happens
    axes: tuple[
        str, ...
    ] = ()  # what an all_reduce runs over, or what a reshard moves; empty where it is not known
    rebuilt: int = (
        0  # elements of an array that changes from one split to another with no axis in common
    )
    tries: tuple[Try, ...] = ()  # what to compile to see whether it goes, the likeliest first
    split: tuple[PartitionedValue, ...] = ()  # what an all_reduce combines or a reshard moves
    used: bool = False
    value: str = ""  # the user's name of what is moved
    needed: str = ""  # what needs it otherwise, in words


class Try(NamedTuple):
    """Arguments placed otherwise, `(number, spec)`, results that the compiler may place, and an equation of which each device does its rows."""

    specs: tuple[tuple[int, tuple], ...] = ()
    free: tuple[int, ...] = ()
    apart: tuple[int, tuple] | None = None


class PartitionedValue(NamedTuple):
    """A value of the partitioned program: its type, what people call it, the equation that made it, and the argument that it is or lies like.

    Of a loop over the rows of an argument, `row` is the argument whose row it is.
    """

    type: Type
    name: str = ""
    equation: int = -1
    argument: int = -1
    row: int = -1
    said: str = ""  # what it is in words, where it has no name


def causes(stages: ProgramStages) -> list[Cause]:
    """Every communication the partitioner decided on, in program order; empty for one device."""
    return decided(stages)[0]


def decided(stages: ProgramStages) -> tuple[list[Cause], dict[int, list[PartitionedValue]]]:
    """The causes, and what each equation reads."""
    found: list[Cause] = []
    read: dict[int, list[PartitionedValue]] = {}
    text = stages.stage("resharded")
    if not text:
        return found, read
    made = mlir_level("resharded", text)
    numbers = {line: ids[0] for line, ids in made.links}
    lines = made.text.split("\n")
    values: dict[str, PartitionedValue] = {}
    operands_of: dict[str, tuple[str, ...]] = {}
    readers = Readers(lines)
    called = dict(all_names(stages.closed.jaxpr))
    for number, line in enumerate(lines, 1):
        if "func.func" in line:
            values = _arguments(stages, line) if "@main" in line else {}
            continue
        match = RESULT.match(line)
        if not match:
            continue
        op, own = match.group(2).strip('"'), match.group(1).split(", ")
        result = own[0]  # operations that name each of their results have no numbers
        closing = last_line(lines, number)
        equation = numbers.get(closing, -1)
        # A loop has the types of its results where it begins.
        result_line = line if op == "stablehlo.while" else lines[closing - 1]
        operands = OPERAND.findall(line[match.end() :])
        if op == "sdy.reshard":
            source = values.get(operands[0])
            spec = parse_sharding(line[line.index("<@") :])
            shape = tensor_shape(re.findall(r"tensor<([^>]*)>", line)[-1])
            target = Type(source.type.dtype if source else dtype_of(line), shape, spec)
            if source and _has_it(source.type.spec, spec):
                values[result] = source._replace(type=target)
                continue
            reader, reader_line = readers.first(result, number)
            result_number = (
                OPERAND.findall(lines[reader_line - 1]).index(result) if reader in _RETURNS else -1
            )
            found.append(
                _reshard(
                    stages,
                    equation,
                    source,
                    target,
                    reader,
                    numbers.get(last_line(lines, reader_line), -1),
                    result_number,
                )
            )
            values[result] = (
                source._replace(type=target, argument=-1) if source else PartitionedValue(target)
            )
            continue
        typed = result_shardings(result_line)
        spec, shape = typed[0] if typed else ((), ())
        if op == "sdy.all_reduce":
            source = values.get(operands[0])
            listed = _AXES.search(line)
            axes = tuple(re.findall(r'"([^"]*)"', listed.group(1))) if listed else ()
            split = [
                v
                for name in operands_of.get(operands[0], ())
                if (v := values.get(name)) is not None
                and any(_base(a) in axes for dim in v.type.spec or () for a in dim)
            ]
            found.append(_reduction(stages, equation, axes, split))
            values[result] = PartitionedValue(
                Type(dtype_of(line), shape, spec), source.name if source else "", equation
            )
        else:
            inner = carried_into(line) if op == "stablehlo.while" else {}
            operands = [o for o in operands if o not in inner]
            known = [v for name in operands if (v := values.get(name)) is not None]
            read.setdefault(equation, []).extend(known)
            operands_of[result] = tuple(operands)
            arrow = "->" in result_line
            dtypes = re.findall(
                r"tensor<([^>]*)>", result_line.rsplit("->" if arrow else " : ", 1)[-1]
            ) or [""]
            for k, (spec, shape) in enumerate(typed):
                made_type = Type(
                    element_type(dtypes[min(k, len(dtypes) - 1)] if arrow else dtypes[-1]),
                    shape,
                    spec,
                )
                root = next(
                    (
                        v.argument
                        for v in known
                        if v.argument >= 0 and v.type.shape == shape and v.type.spec == spec
                    ),
                    -1,
                )
                values[f"{result}#{k}"] = PartitionedValue(
                    made_type, _called(stages, equation, called, k, made_type), equation, root
                )
                if k == 0 and known and (row := _row(stages, equation, op, known[0])):
                    values[f"{result}#0"] = PartitionedValue(
                        made_type, "", equation, -1, row[0], row[1]
                    )
                if k < len(own):
                    values[own[k]] = values[f"{result}#{k}"]
            for k, name in enumerate(inner):
                # What is carried lies as it does in every round, whatever it was before.
                if k < len(typed):
                    lying = values[f"{result}#{k}"].type
                    name_ = _carried(stages, equation, k, lying)
                    words = f"what {_primitive(stages, equation)}{_place(stages, equation)} carries"
                    values[name] = PartitionedValue(lying, name_, equation, said=words)
    return found, read


_RETURNS = ("return", "func.return")


SHOWN = 3
"""Groups of causes that are written out; of more, how many there are."""


def together(found: list[Cause], values: int) -> tuple[str, str]:
    """The reason and the fix of a collective with several causes: one sentence per operation and line.

    >>> a = Cause(0, "all_reduce", "dot (line 3) splits `x`", "keep x whole", group="dot 3")
    >>> b = Cause(1, "all_reduce", "dot (line 3) splits `y`", "keep x whole", group="dot 3")
    >>> together([a, b], 2)
    ('2 values at once: dot (line 3) splits `x`, and 1 more like it', 'keep x whole')
    """
    groups: dict[str, list[Cause]] = {}
    for cause in found:
        groups.setdefault(cause.group or cause.reason, []).append(cause)
    parts = []
    for causes_ in itertools.islice(groups.values(), SHOWN):
        alike = len(causes_) - 1
        parts.append(causes_[0].reason + (f", and {alike} more like it" if alike else ""))
    left = sum(map(len, itertools.islice(groups.values(), SHOWN, None)))
    fixes = list(dict.fromkeys(k.fix for k in found if k.fix))
    return (
        f"{values} values at once: " + "; ".join(parts) + (f"; and {left} more" if left else ""),
        "; ".join(fixes[:SHOWN])
        + (f"; and {len(fixes) - SHOWN} more" if len(fixes) > SHOWN else ""),
    )


def _arguments(stages: ProgramStages, line: str) -> dict[str, PartitionedValue]:
    names, before, kept = stages.parameter_names, len(stages.before_arguments), stages.lowered.kept
    out = {}
    for ssa, tensor, sharding in _ARGUMENT.findall(line):
        shape = tensor_shape(tensor)
        spec = parse_sharding("<" + sharding + ">") if sharding else ((),) * len(shape)
        position = int(ssa.removeprefix("%arg"))
        number = kept[position - before] if position >= before else -1
        out[ssa] = PartitionedValue(
            Type(element_type(tensor), shape, spec), names[position], -1, number
        )
    return out


def all_names(jaxpr: Jaxpr, outer: JaxprEqn | None = None) -> Iterator[tuple[Var, str]]:
    """The user's names in a program and in those nested in it."""
    yield from _names.user_names(jaxpr, outer).items()
    for eqn in jaxpr.eqns:
        for _, inner in subjaxprs_of_params(eqn.params):
            yield from all_names(open_jaxpr(inner), eqn)


def _carried(stages: ProgramStages, equation: int, index: int, found: Type) -> str:
    """The user's name of a value that a loop carries; empty for a counter of the lowering, and where there is none."""
    eqn = stages.equations.get(equation)
    flow = flow_of(eqn) if eqn is not None else None
    if eqn is None or not isinstance(flow, LoopFlow):
        return ""
    index -= "length" in eqn.params  # a counter of the lowering stands in front
    if not 0 <= index < flow.num_carry:
        return ""
    body = open_jaxpr(flow.body)
    known = type_of(body.invars[flow.num_consts + index].aval)
    names = body.debug_info.arg_names
    at = index + flow.num_consts - (len(body.invars) - len(names))
    if (known.dtype, known.shape) != (found.dtype, found.shape) or not 0 <= at < len(names):
        return ""
    return names[at]


def _row(
    stages: ProgramStages, equation: int, op: str, of: PartitionedValue
) -> tuple[int, str] | None:
    """The argument whose row a loop reads in each round, and what to call it."""
    eqn = stages.equations.get(equation)
    if eqn is None or not isinstance(flow_of(eqn), LoopFlow):
        return None
    if op == "stablehlo.dynamic_slice" and of.argument >= 0:
        return of.argument, f"a row of `{of.name}`" if of.name else ""
    return (of.row, of.said) if op == "stablehlo.reshape" and of.row >= 0 else None


def _called(
    stages: ProgramStages, equation: int, called: dict[Var, str], index: int, found: Type
) -> str:
    """The user's name of an equation's result; empty if it has none, or is inside the lowering."""
    eqn = stages.equations.get(equation)
    if eqn is None or index >= len(eqn.outvars):
        return ""
    v = eqn.outvars[index]
    known = type_of(v.aval)
    return called.get(v, "") if (known.dtype, known.shape) == (found.dtype, found.shape) else ""


def said(stages: ProgramStages, value: PartitionedValue | None) -> str:
    """A value as text: the user's name, else the operation and line that made it."""
    if value is None:
        return "an operand"
    if value.name:
        return f"`{value.name}`"
    if value.said:
        return value.said
    what = _primitive(stages, value.equation)
    return f"the result of {what}{_place(stages, value.equation)}" if what else "an operand"


def _primitive(stages: ProgramStages, equation: int) -> str:
    eqn = stages.equations.get(equation)
    return eqn.primitive.name if eqn is not None else ""


def _place(stages: ProgramStages, equation: int) -> str:
    eqn = stages.equations.get(equation)
    return place_text(eqn) if eqn is not None else ""


def place_text(eqn: JaxprEqn) -> str:
    """The line of an equation, whether it goes backwards through it, and by what rule of the user's it is split."""
    source, backwards = _names.source_of(eqn), _names.is_transposed(eqn)
    rule = eqn.params.get("sharding_rule")
    words = [
        *([f"{'transpose of ' * backwards}line {source.line}"] if source else []),
        *(["backward pass"] if backwards and not source else []),
        *([f"custom partitioning rule: {rule.text}"] if isinstance(rule, ShardingRule) else []),
    ]
    return f" ({', '.join(words)})" if words else ""


def spec_text(spec: tuple | None) -> str:
    """A spec as people write it: `P('data', None)`."""
    parts = [
        "None"
        if not axes
        else repr(axes[0])
        if len(axes) == 1
        else "(" + ", ".join(map(repr, axes)) + ")"
        for axes in spec or ()
    ]
    return f"P({', '.join(parts)})"


def _has_it(before: Any, after: Any) -> bool:
    """Whether a reshard sends nothing: dimensions are unchanged or split further."""
    return all(
        tuple(b)[: len(a)] == tuple(a)
        for a, b in zip(before or ((),) * len(after), after, strict=True)
    )


def _reshard(
    stages: Any,
    equation: Any,
    source: PartitionedValue | None,
    target: Type,
    reader: str,
    reader_equation: int,
    result: int,
) -> Cause:
    before = source.type.text if source else "laid out in another way"
    name = said(stages, source)
    argument = source.argument if source else -1
    tries: tuple[Try, ...] = (_try({argument: target.spec or ()}),) if argument >= 0 else ()
    if source is not None and source.row >= 0:
        tries = (_try({source.row: _above(stages, source.row, target.spec)}),)
    fix, what = "", "result"
    if reader in _RETURNS:
        asked = stages.lowered.out_shardings
        given = 0 <= result < len(asked) and asked[result] is not None
        subject = f"{name} is {before}"
        wants = (
            f"the result is asked for as {target.text}"
            if given
            else f"the result lies as {target.text}: the compiler chose it, no out_sharding did"
        )
        tries = (Try(free=(result,)), *tries) if given else ()
        fix = "" if given or source is None else _kept_split(stages, source.type, target)
    else:
        needed = reader_equation if reader_equation >= 0 else equation
        what = _primitive(stages, needed) or reader
        inside = source is not None and source.equation == needed and not source.name
        verb = "works on" if inside else "needs"
        subject = (
            f"a value inside {what}{_place(stages, needed)} is {before}"
            if inside
            else f"{name} is {before}"
        )
        traced = "" if inside else traced_start(stages, stages.equations.get(needed))
        what = traced or what
        wants = f"{'a later step of it' if inside else what + _place(stages, needed)} {verb} {target.text}"
        if traced:
            wants += ", for any device may be asked for any entry"
            if source is not None and tries:
                moved_axes = set(_moved(source.type.spec or (), target.spec or ()))
                tries = whole(stages, [source], moved_axes) or tries
        if source is not None and source.name and argument < 0 and not source.said:
            # A value that a loop carries is made in each round as it was: a constraint only moves what is sent.
            fix = f"give `{source.name}` the sharding {spec_text(target.spec)} where it is made, with xlab.lax.with_sharding_constraint"
    group = f"{what}{_place(stages, reader_equation)} {before} {target.text}"
    kept = source is not None and any(
        set(a) & set(b) for a, b in zip(source.type.spec or (), target.spec or ())
    )
    moved = (
        source is not None and any(source.type.spec or ()) and any(target.spec or ()) and not kept
    )
    rebuilt = math.prod(n for n in target.shape if isinstance(n, int)) if moved else 0
    return Cause(
        equation,
        "reshard",
        f"{subject}, {wants}",
        fix,
        before,
        reader_equation,
        group,
        axes=_moved(source.type.spec or (), target.spec or ()) if source is not None else (),
        rebuilt=rebuilt,
        tries=tries,
        split=() if source is None else (source,),
        value=source.name if source is not None else "",
        needed=wants,
    )


def _moved(before: Any, after: Any) -> tuple[str, ...]:
    """The mesh axes that no longer split a dimension that they did.

    >>> _moved((("a",), ("b",)), ((), ("b",))), _moved((("a", "b"),), (("b",),))
    (('a',), ('a', 'b'))
    """
    found: dict[str, None] = {}
    for d, axes in enumerate(before):
        kept = after[d] if d < len(after) else ()
        same = 0
        while same < min(len(axes), len(kept)) and axes[same] == kept[same]:
            same += 1
        found.update((_base(a), None) for a in axes[same:])
    return tuple(found)


def _kept_split(stages: Any, before: Type, after: Type) -> str:
    """How a result may lie as it was made, where the compiler brought it together."""
    sizes = dict(stages.lowered.mesh.shape) if stages.lowered.mesh is not None else {}
    for d, (had, has) in enumerate(zip(before.spec or (), after.spec or ())):
        ways = math.prod(sizes.get(_base(a), 1) for a in had)
        if had and not has and isinstance(after.shape[d], int) and after.shape[d] % ways:
            return (
                f"make dimension {d} of the result a multiple of {ways} (it has {after.shape[d]} entries), so that it can stay split "
                f"over {' and '.join(had)}"
            )
    return f"ask for the result as it is made, with out_sharding {spec_text(before.spec)}"


def _reduction(stages: Any, equation: Any, axes: Any, split: list[PartitionedValue]) -> Cause:
    what = f"{_primitive(stages, equation) or 'the operation'}{_place(stages, equation)}"
    along = ", ".join(axes)
    tries: tuple[Try, ...] = ()
    if synchronizes(stages, equation):
        reason = f"gradient synchronization: {what} sums along a dimension that is split over {along}, and the parts of this gradient are added up"
    elif split:
        listed = " and ".join(f"{said(stages, v)} {v.type.text}" for v in split[:2])
        reason = (
            f"{what} combines along a dimension of {listed} that is split over {along}: "
            "each device has a part of the result"
        )
        tries = whole(stages, split, set(map(_base, axes)))
    else:
        reason = f"{what} leaves a part of its result on each device along {along}"
    return Cause(
        equation,
        "all_reduce",
        reason,
        "",
        split[0].type.text if split else "",
        group=f"{what} {along}",
        axes=tuple(map(_base, axes)),
        tries=tries,
        split=tuple(split),
    )


def whole(stages: Any, split: list[PartitionedValue], axes: set[str]) -> tuple[Try, ...]:
    """Ways to keep what an operation reads whole along some axes, where these are arguments or lie like some: another dimension split
    instead, or none."""
    if not split or any(v.argument < 0 and v.row < 0 for v in split):
        return ()
    out = []
    avals = stages.closed.in_avals
    lying = {
        v.argument if v.argument >= 0 else v.row: v.type.spec or ()
        if v.argument >= 0
        else _above(stages, v.row, v.type.spec)
        for v in split
    }
    sizes = dict(stages.lowered.mesh.shape) if stages.lowered.mesh is not None else {}
    bare = {
        n: tuple(tuple(a for a in dim if _base(a) not in axes) for dim in spec)
        for n, spec in lying.items()
    }
    for n in sorted(lying, key=lambda n: -avals[n].nbytes):
        for d, dim in enumerate(lying[n]):
            ways = math.prod(sizes.get(a, 1) for a in (*dim, *axes))
            if not any(_base(a) in axes for a in dim) and ways and avals[n].shape[d] % ways == 0:
                moved = tuple(
                    (*old, *sorted(axes)) if k == d else old for k, old in enumerate(bare[n])
                )
                out.append(_try({**bare, n: moved}))
                break
    return (*out, _try(bare))


def _above(stages: Any, argument: int, spec: Any) -> tuple:
    """The spec of an argument whose rows lie as given."""
    spec = spec or ()
    return ((),) * (stages.closed.in_avals[argument].ndim - len(spec)) + tuple(spec)


def _try(specs: dict[int, tuple]) -> Try:
    return Try(tuple(sorted((n, tuple(tuple(dim) for dim in spec)) for n, spec in specs.items())))


def advice(stages: Any, given: Try) -> str:
    """The advice, as text: how to get the placement that was tried."""
    named = stages.closed.jaxpr.debug_info.arg_name
    parts = (
        [
            f"give {' and '.join(f'`{named(n)}` the sharding {spec_text(spec)}' for n, spec in given.specs)} where "
            f"{'it is' if len(given.specs) == 1 else 'they are'} made"
        ]
        if given.specs
        else []
    )
    if given.apart is not None:
        number, spec = given.apart
        eqn, text = stages.equations[number], spec_text(spec)
        parts.append(
            f"let each device do its own rows: call {eqn.primitive.name}{place_text(eqn)} in xlab.shard_map(…, in_specs={text}, out_specs={text})"
        )
    if given.free:
        parts.append("leave this result's out_sharding to the compiler")
    return ", and ".join(parts)


def _base(axis: str) -> str:
    return axis.split(":")[0].strip('"')
