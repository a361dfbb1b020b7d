"""What a machine runs, as a record without events: operands, meshes, equations with their lines, what moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from xlab.core.jaxpr import Jaxpr, JaxprEqn
from xlab.kernels.blocks import BlockMapping, Indirect
from xlab.kernels.machine.programs import KernelPair, KernelProgram, Operand
from xlab.kernels.machine.text import line_text, sections
from xlab.observe.kernel_runs.blocks import (
    depends_on_data,
    grid_points,
    io_of,
    visits,
    whole_visits,
)
from xlab.observe.kernel_runs.movement import Visits, movement
from xlab.observe.kernel_runs.rooflines import rooflines
from xlab.observe.kernel_runs.static import block_operand, plain_operand, stated_cost
from xlab.observe.programs.names import source_of
from xlab.observe.records import Source
from xlab.observe.records.kernel import (
    CorePair,
    KernelEquation,
    KernelOperand,
    KernelRun,
)


class Paths:
    """The equations of a program's kernels by pair and path, and how each kernel uses its references."""

    def __init__(self, program: KernelProgram):
        self.equations = {
            (pair.number, path): eqn
            for pair in program.pairs
            for path, eqn, _ in equations(pair.jaxpr.jaxpr)
        }
        self.io = {
            pair.number: [
                io_of(pair.jaxpr.jaxpr, place, _role(program, s.operand))
                for place, s in enumerate(pair.sources)
            ]
            for pair in program.pairs
        }
        self.gathers = {
            (s.name, d): isinstance(dim, Indirect)
            for pair in program.pairs
            for s in pair.sources
            if s.mapping is not None
            for d, dim in enumerate(s.mapping.block_shape)
        }

    def source(self, pair: int, path: str) -> Source | None:
        """The user's line of an equation."""
        eqn = self.equations.get((pair, path))
        return None if eqn is None else source_of(eqn)


def equations(jaxpr: Jaxpr, prefix: str = "body") -> Iterator[tuple[str, JaxprEqn, str]]:
    """Paths of a kernel's equations, as events have them, with the equations and their texts; those of programs inside follow."""
    for i, eqn in enumerate(jaxpr.eqns):
        path = f"{prefix}/{i}"
        yield path, eqn, line_text(jaxpr, i)
        for section, inner in sections(eqn):
            yield from equations(inner, f"{path}/{section}")


def _role(program: KernelProgram, operand: int | None) -> str:
    return "scratch" if operand is None else program.operands[operand].role


def describe(program: KernelProgram, target: str = "") -> KernelRun:
    """The record of a run that has not begun."""
    several = program.pairs[0].mesh is not None
    first = program.pairs[0]
    mappings = {s.operand: s.mapping for s in first.sources if s.mapping is not None}
    operands = [_operand(program, o, mappings.get(i)) for i, o in enumerate(program.operands)]
    known = {o.name for o in operands}
    for pair in program.pairs:
        for s in pair.sources:
            if s.operand is None and s.aval is not None and s.name not in known:
                known.add(s.name)
                operands.append(
                    plain_operand(
                        s.name, s.aval.inner_aval, s.aval.memory_space or "default", "scratch"
                    )
                )
    return KernelRun(
        program.name,
        "mpmd_map" if several else "kernel_call",
        tuple(operands),
        grid=() if several else tuple(first.grid),
        grid_names=()
        if several
        else tuple("" if n is None else str(n) for n in first.grid_names or ()),
        pairs=_pairs(program),
        equations=tuple(
            KernelEquation(path, text, source_of(eqn), pair.number)
            for pair in program.pairs
            for path, eqn, text in equations(pair.jaxpr.jaxpr)
        ),
        cost=None if several else _cost(program, first, operands, target),
        steps=0 if several else math.prod(first.grid),
    )


def _operand(program: KernelProgram, o: Operand, mapping: BlockMapping | None) -> KernelOperand:
    alias = "" if o.starts_as is None else program.operands[o.starts_as].name
    if mapping is not None:
        return block_operand(mapping, o.role, alias).replace(name=o.name)
    return plain_operand(o.name, o.aval, o.space, o.role, alias=alias)


def _pairs(program: KernelProgram) -> tuple[CorePair, ...]:
    out, begin = [], 0
    for pair in program.pairs:
        shape = {str(k): n for k, n in (pair.mesh or {}).items()}
        cores = tuple(range(begin, begin + len(pair.shares)))
        begin += len(cores)
        text = ", ".join(f"{k}={n}" for k, n in shape.items())
        out.append(
            CorePair(
                text, pair.core_type or "", pair.name, cores, tuple(shape), tuple(shape.values())
            )
        )
    return tuple(out)


def _cost(
    program: KernelProgram, pair: KernelPair, operands: list[KernelOperand], target: str
) -> Any:
    """What moves in the order of the grid, for blocks that do not depend on data; prefetched values are known here."""
    points = grid_points(tuple(pair.grid))
    by_name = {o.name: o for o in operands}
    prefetch = [program.operands[i].value for i in pair.prefetch]
    found: list[Visits] = []
    for place, s in enumerate(pair.sources):
        if s.operand is None or program.operands[s.operand].role not in ("input", "output"):
            continue
        o = by_name[program.operands[s.operand].name]
        io = io_of(pair.jaxpr.jaxpr, place, o.role)
        if s.mapping is None:
            found.append(whole_visits(o, io, len(points)))
        elif not depends_on_data(s.mapping) or all(v is not None for v in prefetch):
            found.append(visits(s.mapping, o, io, points, prefetch))
    steps = math.prod(pair.grid)
    return stated_cost(
        program.cost, pair.jaxpr, steps, tuple(movement(v) for v in found), rooflines(target)
    )
