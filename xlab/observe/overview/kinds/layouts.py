"""Copies that the compiler makes to have a value in another order in memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from xlab.compile.stages import ShapeDtypeStruct
from xlab.core.jaxpr import eval_jaxpr
from xlab.lax.shape import transpose
from xlab.observe.overview.inspection import LEAST, Inspection, kind
from xlab.observe.overview.measures import Measures, Proof
from xlab.observe.programs.hlo import Instruction
from xlab.observe.programs.rewriting import retraced, types_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records.finding import Amount, Finding

_ORDER = re.compile(r"\{([\d,]*)[}:]")


@kind("layout copy")
def layout_copies(at: Inspection) -> Iterable[Finding]:
    """Large copies of arguments into another order, that go away where the argument has that order already."""
    if len(at.stages.lowered.devices) > 1:
        return
    jaxpr = at.stages.closed.jaxpr
    done: set[int] = set()
    for copied in copied_parameters(at.stages):
        position = copied.parameter - len(at.stages.before_arguments)
        kept = at.stages.lowered.kept
        if not 0 <= position < len(kept) or kept[position] in done:
            continue
        argument = kept[position]
        done.add(argument)
        v: Any = jaxpr.invars[argument]
        name = jaxpr.debug_info.arg_name(argument)
        order = copied.order
        if len(order) != v.aval.ndim or v in jaxpr.outvars:
            continue
        reader = at.stages.equations.get(copied.equation) or next(iter(at.readers.get(v, ())), None)
        times = at.stages.times.get(copied.equation) or 1
        nbytes = times * v.aval.nbytes
        found = at.finding(
            "layout copy",
            f"`{name}` {v.aval.str_short(short_dtypes=True)} is copied into the order {order} for {reader.primitive.name if reader is not None else 'a result'}",
            reader,
            nbytes=nbytes,
            us=2e6 * nbytes / at.machine.bandwidth,
        )
        back = tuple(order.index(d) for d in range(len(order)))
        yield from at.offered(
            found,
            f"keep `{name}` as xlab.numpy.transpose({name}, {order}) where it is made, and read it through xlab.numpy.transpose({name}, {back})",
            functools.partial(_kept_in_order, at, argument, order, back),
            _fewer_copies,
        )


@dataclass(frozen=True)
class Copied:
    """A parameter of the module that is copied into another order, and the equation that needs it so."""

    parameter: int
    order: tuple[int, ...]
    equation: int
    nbytes: int


def copied_parameters(stages: ProgramStages) -> list[Copied]:
    """Copies of large parameters of the compiled module, in fusions too."""
    module = stages.hlo
    entry = module.entry
    by_name = entry.by_name()
    users: dict[str, list[Instruction]] = {}
    for i in entry.instructions:
        for operand in i.operands:
            users.setdefault(operand, []).append(i)
    found = []
    for i in entry.instructions:
        inner = [module.computations[c] for c in i.calls if c in module.computations] if i.opcode in ("fusion", "call") else []  # fmt: skip
        for computation in inner or [entry]:
            names = computation.by_name() if inner else by_name
            looked = computation.instructions if inner else [i]
            for copy in looked:
                if copy.opcode != "copy" or copy.bytes < LEAST:
                    continue
                moved = _moved(copy, names)
                if moved is None:
                    continue
                origin, order = moved
                if inner:
                    number = int(origin.argument or -1)
                    outer = by_name.get(i.operands[number]) if 0 <= number < len(i.operands) else None  # fmt: skip
                else:
                    outer = origin
                if outer is None or outer.opcode != "parameter" or not outer.argument.isdigit():
                    continue
                readers = [e for u in users.get(i.name, ()) for e in module.equations_of(u)]
                ids = stages.innermost(module.equations_of(copy) or readers)
                found.append(Copied(int(outer.argument), order, ids[0] if ids else -1, copy.bytes))
    return found


def _moved(copy: Instruction, names: dict[str, Instruction]) -> tuple[Instruction, tuple[int, ...]] | None:  # fmt: skip
    """The parameter that a copy reads through transpositions, and the order into which both bring its dimensions."""
    at = names.get(copy.operands[0]) if copy.operands else None
    shape = _ORDER.search(copy.shape)
    if at is None or shape is None:
        return None
    # The memory order of the copy, as dimensions of what it reads, the slowest first.
    order = tuple(int(d) for d in reversed(shape[1].split(","))) if shape[1] else ()
    while at.opcode in ("transpose", "bitcast", "copy"):
        if at.opcode != "transpose":
            return None
        dims = re.search(r"dimensions=\{([\d,]*)\}", at.attributes)
        if dims is None:
            return None
        permutation = tuple(map(int, dims[1].split(",")))
        order = tuple(permutation[d] for d in order)
        before = names.get(at.operands[0]) if at.operands else None
        if before is None:
            return None
        at = before
    if at.opcode != "parameter" or order == tuple(range(len(order))):
        return None
    return at, order


def _kept_in_order(at: Inspection, argument: int, order: tuple, back: tuple) -> Any:
    closed = at.stages.closed
    types = types_of(closed.in_avals)
    aval = closed.in_avals[argument]
    types[argument] = ShapeDtypeStruct(tuple(aval.shape[d] for d in order), aval.dtype)

    def body(*args: Any) -> list:
        given = list(args)
        given[argument] = transpose(given[argument], back)
        return eval_jaxpr(closed.jaxpr, closed.consts, *given)

    return retraced(at.stages, body, types=types)


def _fewer_copies(before: Measures, after: Measures) -> Proof | None:
    count = lambda m: sum(
        i.bytes
        for c in m.stages.hlo.computations.values()
        for i in c.instructions
        if i.opcode == "copy" and i.bytes >= LEAST
    )
    b, a = count(before), count(after)
    return Proof("compiled like that", (Amount("copied in a step", b, a),)) if a < b else None
