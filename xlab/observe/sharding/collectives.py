"""Collectives of a program as records: those in its equations, and those in the compiled module with the reason of each.

What runs is read from the compiled module. A collective that leads back to a collective equation was written by the user; any
other was added by the partitioner, and the reason is taken from its own stages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn, Var, open_jaxpr, subjaxprs_of_params
from xlab.interpreters import communication
from xlab.interpreters.communication_costs import (
    LINKS,
    Interconnect,
    cost,
    permute_price,
    sent_in_all,
)
from xlab.interpreters.costs import cost_of
from xlab.observe.programs import hlo as _hlo
from xlab.observe.programs import names as _names
from xlab.observe.programs.program import mesh_info, type_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import Transfer
from xlab.observe.records.units import size_text
from xlab.observe.sharding.collective_axes import (
    axes_of_groups,
    axes_of_pairs,
    count_of,
    itemsize,
    steps_of_pairs,
)
from xlab.observe.sharding.matching import (
    CollectiveAxes,
    consumer,
    goes_into,
    has_parts,
    joint_cause,
    operand_equations,
    operands_text,
    producer,
    returned,
)
from xlab.observe.sharding.reasons import (
    Cause,
    PartitionedValue,
    Try,
    decided,
    place_text,
    said,
    whole,
)
from xlab.observe.sharding.remedies import callbacks_of_region, calls_host, remedy, split_behind
from xlab.observe.sharding.rows import ways_apart

MOST_MESSAGES = 20_000
"""Messages of one collective that a record lists; a larger schedule is worked out round by round where it is drawn."""


def collectives(
    stages: ProgramStages,
    link: str | Interconnect = "cpu",
    algorithm: str = "ring",
    compile: bool = True,
    program: int = 0,
) -> tuple[list[Transfer], dict[int, tuple[Try, ...]]]:
    """The collectives in the order they run, and what might take each away, by its position."""
    if isinstance(link, str):
        if link not in LINKS:
            raise ValueError(
                f"unknown link {link!r}: choose from {', '.join(LINKS)}, or pass an Interconnect(name, α, β) of xlab.interpreters.communication_costs"
            )
        link = LINKS[link]
    elif not isinstance(link, Interconnect):
        raise TypeError(
            f"link is a name ({', '.join(LINKS)}) or an Interconnect(name, α, β) of xlab.interpreters.communication_costs; given {link!r}"
        )
    found = list(written(stages.closed.jaxpr, stages))
    if not compile:
        return [_user(w, [], stages, link, algorithm, program) for w in found], {}
    ways: dict[int, tuple[Try, ...]] = {}
    made = list(_joined(stages, found, link, algorithm, program, ways))
    # What brings a value to an equation as it needs it also spares the way back.
    known: dict[int, tuple[Try, ...]] = {}
    for n, tries in ways.items():
        known[made[n].equation] = (*known.get(made[n].equation, ()), *tries)
    for n, t in enumerate(made):
        if t.reshards and t.equation in known:
            both = dict.fromkeys((*ways.get(n, ()), *known[t.equation]))
            ways[n] = tuple(sorted(both, key=lambda given: _effort(given, t.axes)))
    return made, ways


def _effort(given: Try, axes: tuple[str, ...]) -> int:
    """What is tried first: to split an argument is the least to write, and a copy on every device the last resort."""
    if given.apart is not None:
        return 1
    used = {a for _, spec in given.specs for dim in spec for a in dim}
    return 0 if given.free or set(axes) <= used else 2


@dataclass
class _Written:
    """A collective equation as it occurs in the program."""

    equation: int
    eqn: JaxprEqn
    move: communication.CollectiveOp
    times: int | None
    conditional: bool
    mesh: Any


def written(
    jaxpr: Jaxpr,
    stages: ProgramStages,
    times: int | None = 1,
    conditional: Any = False,
    mesh: Any = None,
) -> Iterator[_Written]:
    """The collective equations of a program in their order, with how often each runs."""
    for eqn in jaxpr.eqns:
        rule = communication.collective_rules.get(eqn.primitive)
        if rule is not None:
            move = rule([v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params)
            if move.axes:
                yield _Written(stages.numbers[id(eqn)], eqn, move, times, conditional, mesh)
        inner_times, inner_conditional = times, conditional
        name = eqn.primitive.name
        if name in ("scan", "while"):
            rounds = stages.rounds(eqn)
            inner_times = None if times is None or rounds is None else times * rounds
        elif name == "cond":
            inner_conditional = True
        inner_mesh = eqn.params.get("mesh", mesh)
        for _, inner in subjaxprs_of_params(eqn.params):
            yield from written(
                open_jaxpr(inner), stages, inner_times, inner_conditional, inner_mesh
            )


def _joined(
    stages: ProgramStages,
    asked: list[_Written],
    link: Any,
    algorithm: Any,
    program: Any,
    ways: dict[int, tuple[Try, ...]],
) -> Iterator[Transfer]:
    """Compiled collectives in schedule order, each matched with the equation that asked for it; `ways` gets what might take each away."""
    given = 0
    module = stages.hlo
    by_equation: dict[int, list[_Written]] = {}
    for w in asked:
        by_equation.setdefault(w.equation, []).append(w)
    known: list[Cause] | None = None
    read: dict[int, list[PartitionedValue]] = {}
    makers = {v: stages.numbers[id(e)] for e in stages.equations.values() for v in e.outvars}
    done: set[int] = set()
    compiled = module.collectives()
    # Sums of parts that are carried out as such: others are brought together instead.
    summed = {
        (i, _axes(stages, c))
        for c in compiled
        if communication.reduces(c.kind)
        for i in module.equations_of(c.instruction)
    }
    for c in compiled:
        ids = (
            module.equations_of(c.instruction)
            or producer(module, c.instruction)
            or consumer(module, c.instruction)
        )
        mine = next((i for i in ids if i in by_equation), None)
        if mine is not None:
            done.add(mine)
            # One instruction may stand for several equations that the compiler combined.
            together = [
                i
                for i in dict.fromkeys(
                    (
                        *(i for i in ids if i in by_equation),
                        *_combined(module, c, by_equation, makers),
                    )
                )
                if i not in done
            ]
            done.update(together)
            given += 1
            record = _user(by_equation[mine][0], [c], stages, link, algorithm, program)
            lines = sorted(
                {
                    t.line
                    for i in together
                    if (t := _names.source_of(by_equation[i][0].eqn)) is not None
                }
            )
            yield (
                record
                if not together
                else record.replace(
                    reason=f"{len(together) + 1} collectives in one instruction"
                    + (
                        f", with line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
                        if lines
                        else ""
                    )
                )
            )
            continue
        if all(len(g) < 2 for g in c.groups) and not any(s != d for s, d in c.pairs):
            continue
        if known is None:
            known, read = decided(stages)
        # What was called, not the call around it, is why anything is sent; of a callback the region in which it is.
        inner = tuple(stages.innermost(ids))
        ids = ids if any(calls_host(stages.equations[i]) for i in inner) else inner
        number = ids[0] if ids else -1
        cause = joint_cause(known, ids, c, module, CollectiveAxes(_axes(stages, c), summed))
        if (
            cause is not None
            and cause.kind == "reshard"
            and cause.split
            and not _elementwise(stages.equations.get(cause.split[0].equation))
            and goes_into(module, c.instruction, cause.split[0].equation)
        ):
            cause = None  # which is of a result that is not there yet
        if cause is not None and cause.reader >= 0 and not stages.is_leaf(number):
            number = cause.reader
        if cause is not None and cause.kind == "all_reduce" and _sends_edges(stages, c, number):
            cause = None  # which is of the sum behind them
        made = _added(stages, c, number, cause, read.get(number, ()), link, algorithm, program)
        tries = (
            cause.tries
            if cause is not None
            else whole(stages, _split_over(read.get(number, ()), made.axes), set(made.axes))
            or whole(
                stages,
                split_behind(stages, stages.equations.get(number), made.axes),
                set(made.axes),
            )
        )
        if made.reshards:
            tries = (*tries, *ways_apart(stages, number, read.get(number, ()), made.axes))
        if tries:
            ways[given] = tries
        given += 1
        yield made
    for number, occurrences in by_equation.items():
        if number not in done:
            w = occurrences[0]
            record = _user(w, [], stages, link, algorithm, program)
            trivial = record.groups and all(len(g) < 2 for g in record.groups)
            twin = next(
                (by_equation[i][0] for i in done if _equal(by_equation[i][0].eqn, w.eqn)), None
            )
            place = _names.source_of(twin.eqn) if twin is not None else None
            yield record.replace(
                times=0,
                predicted_us=0.0,
                formula="",
                reason="one device per group: nothing to send"
                if trivial
                else f"not in the compiled module: merged with the equal one{f' of line {place.line}' if place else ''}"
                if twin
                else "not in the compiled module: the compiler removed it or merged it with another",
            )


def _elementwise(eqn: JaxprEqn | None) -> bool:
    """Whether moving what an equation reads is as good as moving its result, so that compilers exchange the two."""
    made = cost_of(eqn) if eqn is not None else None
    return made is not None and made.unit in ("elementwise", "free")


def _sends_edges(stages: ProgramStages, c: _hlo.HloCollective, equation: int) -> bool:
    """Whether a permute brings a convolution the edges that its windows reach into."""
    eqn = stages.equations.get(equation)
    return (
        c.kind == "collective_permute"
        and eqn is not None
        and eqn.primitive.name == "conv_general_dilated"
    )


def _equal(a: JaxprEqn, b: JaxprEqn) -> bool:
    """Whether two collectives do the same with the same values."""
    return a.primitive is b.primitive and list(a.invars) == list(b.invars) and a.params == b.params


def _combined(module: Any, c: _hlo.HloCollective, by_equation: Any, makers: Any) -> list[int]:
    """Collective equations that the compiler combined into one instruction: those whose operands it has."""
    if len(c.operand_shapes) < 2:
        return []
    made = set(operand_equations(module, c.instruction))
    return [
        n
        for n, ws in by_equation.items()
        if ws[0].move.kind == c.kind
        and ws[0].move.reduction == c.reduction
        and any(makers.get(v) in made for v in ws[0].eqn.invars if type(v) is Var)
    ]


def _axes(stages: ProgramStages, c: _hlo.HloCollective) -> tuple[str, ...]:
    """The mesh axes that a compiled collective runs over; empty where it runs over parts of some."""
    info = mesh_info(stages.mesh)
    if info is None:
        return ()
    ids = _device_ids(stages)
    device = lambda i: ids[i] if i < len(ids) else i
    if c.groups:
        return axes_of_groups(info, tuple(tuple(map(device, g)) for g in c.groups))
    return axes_of_pairs(info, tuple((device(s), device(d)) for s, d in c.pairs))


def _device_ids(stages: ProgramStages) -> list[int]:
    return [int(d.id) for d in stages.lowered.devices] if stages.is_lowered else []


def _user(
    w: _Written,
    compiled: list[_hlo.HloCollective],
    stages: ProgramStages,
    link: Any,
    algorithm: Any,
    program: Any,
) -> Transfer:
    move, mesh = w.move, w.mesh
    names, sizes = (
        (tuple(mesh.axis_names), tuple(mesh.axis_sizes)) if mesh is not None else ((), ())
    )
    info = mesh_info(stages.mesh) or mesh_info(mesh)
    groups: tuple = ()
    if mesh is not None and all(a in names for a in move.axes):
        groups = communication.in_order(
            move, communication.groups_along(names, sizes, move.axes, move.groups)
        )
    pairs = communication.pairs_along(groups, move.perm) if move.perm else ()
    bytes_in, bytes_out, times = move.bytes_in, move.bytes_out, w.times
    instruction, kind, reason, alone = "", move.kind, "", None
    if compiled:
        # What runs is what the module says: kind, groups, pairs, bytes.
        c = compiled[0]
        instruction, times = c.instruction.name, c.times if c.times is not None else w.times
        reason = f"carried out as {c.kind}" if c.kind != kind else ""
        alone = (kind, groups, pairs, bytes_in) if c.kind != kind else None
        kind, bytes_in, bytes_out, pairs, groups = (
            c.kind,
            c.bytes_in,
            c.bytes_out,
            c.pairs,
            c.groups or groups,
        )
    if w.conditional:
        reason = (
            reason + "; " if reason else ""
        ) + "runs in one branch of a cond: at most this often"
    if kind == "ragged_all_to_all":
        reason = (
            reason + "; " if reason else ""
        ) + "bytes are at most this: how much of the operand is sent is data"
    ids = _device_ids(stages)
    if ids and (compiled or (mesh is not None and len(ids) == count_of(sizes))):
        groups = tuple(tuple(ids[i] for i in g) for g in groups)
        pairs = tuple((ids[s], ids[d]) for s, d in pairs)
    record = Transfer(
        kind,
        move.reduction,
        tuple(map(str, move.axes)),
        groups if not pairs else (),
        pairs,
        bytes_in,
        bytes_out,
        times,
        origin="user",
        call=call_name(w.eqn.primitive.name),
        reason=reason,
        operand=" ".join(v.aval.str_short(short_dtypes=True) for v in w.eqn.invars),
        instruction=instruction,
        equation=w.equation,
        program=program,
        source=_names.source_of(w.eqn),
        mesh=info,
        dtype=type_of(w.eqn.invars[0].aval).dtype or type_of(w.eqn.outvars[0].aval).dtype,
        type_in=type_of(w.eqn.invars[0].aval).text,
        type_out=type_of(w.eqn.outvars[0].aval).text,
        stablehlo=stages.lines_of_collectives.get(w.equation, "") if stages.is_lowered else "",
    )
    if alone is not None:
        sent = sent_in_all(*alone) / max(1, info.size if info else len(ids))
        record = record.replace(
            sent_as_written=sent,
            reason=record.reason.replace(
                f"carried out as {kind}",
                f"carried out as {kind}: {size_text(record.sent)} sent per device where {move.kind} alone sends {size_text(sent)}",
                1,
            ),
        )
    return predicted(record, link, algorithm, groups)


def call_name(primitive: str) -> str:
    """What people write for a primitive: `psum` for `psum_invariant`, `psum_start` for `psum_invariant_start`."""
    name, start, _ = primitive.partition("_start")
    name = name.replace("unreduced_", "").removesuffix("_invariant").removesuffix("_reduced")
    return ("psum_scatter" if name == "reduce_scatter" else name) + start


def _added(
    stages: ProgramStages,
    c: _hlo.HloCollective,
    equation: int,
    cause: Cause | None,
    read: Sequence[PartitionedValue],
    link: Any,
    algorithm: Any,
    program: Any,
) -> Transfer:
    ids = _device_ids(stages)

    def device(i):
        return ids[i] if i < len(ids) else i

    eqn = stages.equations.get(equation)
    info = mesh_info(stages.mesh)
    groups = tuple(tuple(map(device, g)) for g in c.groups)
    pairs = tuple((device(s), device(d)) for s, d in c.pairs)
    axes = _axes(stages, c)
    steps = steps_of_pairs(info, axes, pairs) if info is not None else frozenset()
    near = bool(steps) and steps <= {1, -1}
    reason = cause.reason if cause else _unlisted(stages, eqn, c, axes, read, near)
    moved = None
    if cause and cause.kind == "all_reduce" and c.kind == "all_gather":
        if has_parts(stages.hlo, c.instruction, cause.equation):
            cause = replace(cause, operand="")
            reason += (
                "; the compiler brings these parts together, and each device combines all of them"
            )
        else:
            moved = next((v for v in cause.split if _part(stages, v) == c.bytes_in), None)
            reason += "; the compiler brings the parts of the operand together instead of adding up parts of the result"
    elif (
        cause
        and c.kind == "all_gather"
        and cause.split
        and _part(stages, cause.split[0]) != c.bytes_in
    ):
        moved = next((v for v in _split_over(read, axes) if _part(stages, v) == c.bytes_in), None)
        if moved is not None:
            reason += f"; the compiler brings {said(stages, moved)} together instead"
    whole_again = bool(
        cause
        and cause.rebuilt
        and moved is None  # else that value stays as it is
        and c.kind == "all_gather"
        and c.bytes_out >= cause.rebuilt * itemsize(c)
    )
    if whole_again:
        reason += (
            "; every device rebuilds the whole array to keep a part of it (full rematerialization)"
        )
    if c.conditional:
        reason += "; runs in one branch of a cond: at most this often"
    # On Explicit axes the program says itself where a result lies.
    name = eqn.primitive.name if eqn is not None else ""
    asked = eqn is not None and (eqn.params.get("out_sharding") is not None or name == "reshard")
    if asked:
        reason = f"{'the reshard' if name == 'reshard' else 'out_sharding'} asks for it; {reason}"
    fix = cause.fix if cause else ""
    # Sums of parts are a part of the work, those of products in whatever way they are carried out.
    product = cause is not None and cause.kind == "all_reduce" and name == "dot_general"
    apart = (c.kind != "all_reduce" or cause is None) and not product
    if not fix and not asked and apart and not (cause and cause.tries):
        fix = remedy(stages, eqn, axes, _split_over(read, axes))
    record = Transfer(
        c.kind,
        c.reduction,
        axes,
        groups,
        pairs,
        c.bytes_in,
        c.bytes_out,
        c.times if c.times is not None else stages.times.get(equation),
        origin="user" if asked else "partitioner",
        call=name if asked else "",
        reason=reason,
        fix=fix,
        operand=moved.type.text
        if moved is not None
        else cause.operand
        if cause and cause.operand
        else operands_text(c.operand_shapes),
        instruction=c.instruction.name,
        equation=equation if eqn is not None else -1,
        program=program,
        source=_names.source_of(eqn) if eqn is not None else None,
        mesh=info,
        value=moved.name if moved is not None else cause.value if cause else "",
        needed=cause.needed if cause else "",
        full_rematerialization=whole_again,
        dtype=c.operand_shapes[0].split("[")[0] if c.operand_shapes else "",
    )
    return predicted(record, link, algorithm, groups)


def _unlisted(
    stages: ProgramStages,
    eqn: JaxprEqn | None,
    c: _hlo.HloCollective,
    axes: tuple[str, ...],
    read: Sequence[PartitionedValue],
    near: bool,
) -> str:
    """The reason of a collective that the partitioner does not list: its operation, and what of it is split."""
    if stages.stage("resharded") is None and stages.unstaged:
        return f"why is not known: {stages.unstaged}"
    if eqn is None:
        return "the partitioner gave no location for it"
    if host := callbacks_of_region(eqn, axes):
        return f"{host}, which the host runs, gets whole arrays along {' and '.join(axes)}, an axis that the region around it leaves to the compiler"
    what = f"{eqn.primitive.name}{place_text(eqn)}"
    module = stages.hlo
    if (
        c.kind == "all_gather"
        and not module.equations_of(c.instruction)
        and producer(module, c.instruction)
        and returned(module, c.instruction)
    ):
        return f"the result of {what} is returned whole, and each device has made a part of it"
    split = _split_over(read, axes)
    listed = " and ".join(
        dict.fromkeys(f"`{v.name}` {v.type.text}" if v.name else v.type.text for v in split[:2])
    )
    does = {
        "collective_permute": f"needs entries that {'neighbors' if near else 'others'} hold",
        "all_gather": "is carried out on the whole array",
        "all_to_all": "is carried out with another dimension split",
    }.get(c.kind, "is carried out with entries of other devices")
    return f"{what} {does}" + (
        f": {listed} {'are' if ' and ' in listed else 'is'} split over {', '.join(axes)}"
        if listed
        else ""
    )


def _part(stages: ProgramStages, v: PartitionedValue) -> int:
    """Bytes of the part of a value that a device has; -1 where a size is not known."""
    sizes = dict(stages.lowered.mesh.shape) if stages.lowered.mesh is not None else {}
    width = re.search(r"(\d+)$", v.type.dtype)
    if not all(isinstance(n, int) for n in v.type.shape) or not (width or v.type.dtype == "bool"):
        return -1
    ways = math.prod(sizes.get(a, 1) for dim in v.type.spec or () for a in dim)
    return math.prod(v.type.shape) * (int(width[1]) // 8 if width else 1) // ways


def _split_over(read: Sequence[PartitionedValue], axes: Sequence[str]) -> list[PartitionedValue]:
    return [
        v for v in read if any(a.split(":")[0] in axes for dim in v.type.spec or () for a in dim)
    ]


def predicted(
    record: Transfer, link: Interconnect, algorithm: str = "ring", groups: tuple = ()
) -> Transfer:
    """The record with its messages, predicted time of one run and formula for an interconnect."""
    groups = groups or record.groups
    n = max(map(len, groups), default=1)
    lengths = (
        dict(zip(record.mesh.axis_names, record.mesh.axis_sizes)) if record.mesh is not None else {}
    )
    sizes = tuple(lengths[a] for a in record.axes if a in lengths)
    if communication.by_pairs(record.kind):
        hops, _, _, load, _ = permute_price(groups, record.pairs, record.bytes_in, algorithm)
        us, formula = cost(
            record.kind, n, record.bytes_in, hops=hops, load=load, algorithm=algorithm, link=link
        )
    else:
        us, formula = cost(
            record.kind, n, record.bytes_in, algorithm=algorithm, link=link, sizes=sizes
        )
    if communication.message_count(record.kind, groups, record.pairs) > MOST_MESSAGES:
        return record.replace(predicted_us=us, formula=formula)
    found = communication.messages(
        record.kind,
        groups,
        record.pairs,
        bytes_in=record.bytes_in,
        algorithm=algorithm,
        sizes=sizes,
    )
    return record.replace(predicted_us=us, formula=formula, rounds=communication.rounds(found))
