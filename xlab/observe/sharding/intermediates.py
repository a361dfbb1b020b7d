"""Layouts of a program's intermediate values, the propagation steps that led to each, and warnings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from xlab.backend import propagation as _propagation
from xlab.core import dtypes
from xlab.core.avals import ShapedArray
from xlab.observe.programs import names as _names
from xlab.observe.programs.program import mesh_info, parse_sharding, type_of
from xlab.observe.programs.stages import ProgramStages
from xlab.observe.records import ArrayLayout, Block, MeshInfo, Program
from xlab.observe.sharding.layout import replicated
from xlab.observe.sharding.reasons import causes, spec_text

DRAWN = 200
"""Values whose blocks are listed, device by device; of further ones only the sentence."""

SHOWN_STEPS = 4

Spec = tuple[tuple[str, ...], ...]


class Decisions:
    """The propagation of one program: the spec of each equation's results, and the steps that led to it."""

    def __init__(self, stages: ProgramStages):
        self.stages = stages
        self.found = stages.propagation
        self.specs: dict[int, Spec] = {}
        self.values: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        for made in self.found.results:
            if made.sharding:
                self.specs[made.value] = parse_sharding(made.sharding)
            self.values.setdefault(made.equation, []).insert(0, (made.value, made.shape))
        self.partial: dict[int, list[str]] = {}
        for cause in causes(stages):
            if cause.kind == "all_reduce":
                self.partial.setdefault(cause.equation, []).extend(cause.axes)

    def of(
        self, equation: int, shape: tuple[int | str, ...]
    ) -> tuple[Spec, tuple[str, ...]] | None:
        """The spec of an equation's result, and the chains of steps that led to it; None where the equation left none."""
        value = next((v for v, s in self.values.get(equation, ()) if s == shape), None)
        if value is None:
            return None
        spec = self.specs.get(value, ((),) * len(shape))
        return (spec if len(spec) == len(shape) else ((),) * len(shape)), self.why(
            value, spec, equation
        )

    def why(self, value: int, spec: Spec, equation: int = -1) -> tuple[str, ...]:
        """One chain per mesh axis, earliest step first; axes that came the same way share one."""
        chains: dict[tuple[str, ...], list[str]] = {}
        for axis in itertools.chain(*spec):
            chains.setdefault(tuple(self._chain(value, axis)), []).append(axis)
        summed = (
            f"summed over {', '.join(dict.fromkeys(self.partial[equation]))} here"
            if equation in self.partial
            else ""
        )
        out = [
            (f"{', '.join(axes)}: " if len(chains) > 1 else "") + " → ".join(_cut(chain))
            for chain, axes in chains.items()
            if chain
        ]
        if summed:
            out = [f"{one} → {summed}" for one in out] if len(out) == 1 else [*out, summed]
        return tuple(out)

    def _chain(self, value: int, axis: str) -> list[str]:
        out: list[str] = []
        seen: set[int] = set()
        while value not in seen:
            seen.add(value)
            given = self._given(value, axis)
            step = self.found.steps.get((value, axis))
            if given and step is None:
                out.append(given)
                break
            if step is None:
                break
            out.append(self._said(step))
            value = step.source
        return out[::-1]

    def _given(self, value: int, axis: str) -> str:
        found, low = self.found, self.stages.lowered
        if value in found.constraints and any(axis in axes for axes in self.specs.get(value, ())):
            return f"with_sharding_constraint{self._line(found.constraints[value])} asks for {spec_text(self.specs[value])}"
        if value in found.asked:
            return f"result {found.asked[value]} is asked for so"
        if value in found.arguments:
            number = found.arguments.index(value)
            i = number - len(self.stages.before_arguments)
            given = getattr(low.in_shardings[i], "spec", None) if i >= 0 else None
            return f"argument `{self.stages.parameter_names[number]}` was given" + (
                f" {given}" if given is not None else " it"
            )
        return ""

    def _said(self, step: _propagation.PropagationStep) -> str:
        eqn = self.stages.equations.get(step.equation)
        name = eqn.primitive.name if eqn is not None else step.operation.rsplit(".", 1)[-1]
        verb = "kept by" if step.forward else "carried back by"
        return f"{verb} {name}{self._line(step.equation)}"

    def _line(self, equation: int) -> str:
        eqn = self.stages.equations.get(equation)
        source = _names.source_of(eqn) if eqn is not None else None
        return f" (line {source.line})" if source else ""


def _cut(chain: tuple[str, ...]) -> list[str]:
    if len(chain) <= SHOWN_STEPS + 1:
        return list(chain)
    left = len(chain) - SHOWN_STEPS
    return [*chain[:2], f"… {left} more steps …", *chain[-(SHOWN_STEPS - 2) :]]


def decisions(stages: ProgramStages) -> Decisions | None:
    """The propagation of a program; None where it has no mesh of devices."""
    mesh = mesh_info(stages.mesh)
    return Decisions(stages) if mesh is not None and mesh.device_ids else None


def why_of(
    record: Program, name: str, decided: Decisions | None, final: Spec | None = None
) -> tuple[str, ...]:
    """The chains of the value a program calls `name`, empty for what no equation makes.

    Where the value leaves the program under `final` without an axis that the propagation gave it, the last chain says so.
    """
    if decided is None:
        return ()
    for equation in record.equations:
        for variable in equation.outputs:
            if variable.name == name:
                found = decided.of(equation.id, variable.type.shape)
                if found is None:
                    return ()
                spec, chains = found
                kept = set(itertools.chain(*(final if final is not None else spec)))
                lost = [a for a in itertools.chain(*spec) if a not in kept]
                return (
                    (*chains, f"gathered over {', '.join(lost)} to leave the program")
                    if lost
                    else chains
                )
    return ()


def intermediates(
    stages: ProgramStages, record: Program, decided: Decisions | None, index: int = 0
) -> Iterator[ArrayLayout]:
    """The layout of every value that an equation of the program makes, inner programs included, in reading order.

    Values inside `shard_map` are each device's own and have no layout; the results of the program are left out.
    """
    mesh = mesh_info(stages.mesh)
    if mesh is None or decided is None:
        return
    finals, made = set(record.outputs), 0
    blocks: dict[Any, tuple[Block, ...]] = {}
    for equation in _global(record):
        eqn = stages.equations[equation.id]
        for variable, v in zip(equation.outputs, eqn.outvars):
            if variable.name in finals or not isinstance(v.aval, ShapedArray) or not v.aval.shape:
                continue
            found = decided.of(equation.id, tuple(v.aval.shape))
            if found is None or not dtypes.is_dtype(v.aval.dtype):
                continue
            spec, why = found
            key = spec, v.aval.shape
            if key not in blocks:
                blocks[key] = blocks_of(mesh, spec, v.aval.shape)
            made += 1
            yield _layout(
                variable.note or variable.name,
                v.aval,
                spec,
                mesh,
                blocks[key],
                made <= DRAWN,
                why,
                equation.id,
                index,
            )


def _global(program: Program) -> Iterator[Any]:
    for equation in program.equations:
        yield equation
        if equation.primitive != "shard_map":
            for inner in equation.nested:
                yield from _global(inner)


def _layout(
    name: str,
    aval: Any,
    spec: Spec,
    mesh: MeshInfo,
    blocks: tuple[Block, ...],
    drawn: bool,
    why: tuple[str, ...],
    equation: int,
    index: int,
) -> ArrayLayout:
    shard = tuple(max(b.slices[d][1] - b.slices[d][0] for b in blocks) for d in range(aval.ndim))
    copies = max(b.copy for b in blocks) + 1
    itemsize = dtypes.itemsize(aval.dtype)
    typed = type_of(aval, spec)
    if typed.spec is None or not any(typed.spec):
        typed = typed.replace(spec=spec)
    return ArrayLayout(
        name,
        typed,
        mesh,
        shard,
        blocks if drawn else (),
        copies,
        math.prod(shard) * itemsize,
        aval.size * itemsize,
        True,
        role="intermediate",
        why=why,
        equation=equation,
        program=index,
        warnings=(*uneven(typed.spec, typed.shape, mesh), *replicated(typed, mesh, copies, aval)),
    )


_SUB = re.compile(r"(.+):\((\d+)\)(\d+)$")


def _part(axis: str, mesh: MeshInfo) -> tuple[int, int, int]:
    """Of an axis or a part of one (`x:(2)4`): its place in the mesh, its size, and what to divide a coordinate by."""
    found = _SUB.match(axis)
    name = found.group(1) if found else axis
    place = mesh.axis_names.index(name)
    whole = mesh.axis_sizes[place]
    if not found:
        return place, whole, 1
    before, size = int(found.group(2)), int(found.group(3))
    return place, size, whole // (before * size)


def blocks_of(mesh: MeshInfo, spec: Spec, shape: tuple[int, ...]) -> tuple[Block, ...]:
    """What each device holds under a spec, as the partitioner cuts: equal pieces, the last ones shorter or empty.

    >>> [b.slices for b in blocks_of(MeshInfo(("a",), (4,), (0, 1, 2, 3)), (("a",),), (10,))]
    [((0, 3),), ((3, 6),), ((6, 9),), ((9, 10),)]
    """
    cuts = [[_part(axis, mesh) for axis in axes] for axes in spec]
    seen: dict[Any, int] = {}
    out = []
    for device, coordinates in zip(
        mesh.device_ids or range(mesh.size), itertools.product(*map(range, mesh.axis_sizes))
    ):
        slices = []
        for length, parts in zip(shape, cuts):
            number, count = 0, 1
            for place, size, divide in parts:
                number, count = number * size + coordinates[place] // divide % size, count * size
            piece = -(-length // count)
            slices.append((min(number * piece, length), min((number + 1) * piece, length)))
        key = tuple(slices)
        out.append(Block(device, key, seen.setdefault(key, 0)))
        seen[key] += 1
    return tuple(out)


def uneven(spec: Any, shape: Any, mesh: MeshInfo) -> tuple[str, ...]:
    """A sentence for each dimension that its axes do not divide: the partitioner pads it.

    >>> uneven((("a",),), (10,), MeshInfo(("a",), (4,)))
    ("dimension 0 (10) does not divide by 4 ('a'): it is padded to 12, 17% of what the devices hold is padding",)
    """
    out = []
    for d, (axes, length) in enumerate(zip(spec, shape)):
        count = math.prod(_part(a, mesh)[1] for a in axes)
        if length % count:
            padded = -(-length // count) * count
            out.append(
                f"dimension {d} ({length}) does not divide by {count} ({', '.join(map(repr, axes))}): it is padded to {padded}, "
                f"{round(100 * (padded - length) / padded)}% of what the devices hold is padding"
            )
    return tuple(out)
