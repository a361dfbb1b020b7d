"""Memory of a compiled program: the compiler's totals, and buffers with their lifetimes in the schedule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlab.backend import compiling as _compiling
from xlab.observe.buffers import buffer_assignment as _assignment
from xlab.observe.programs import hlo as _hlo
from xlab.observe.programs import names as _names
from xlab.observe.programs.stages import ProgramStages, program_stages
from xlab.observe.records import Buffer, Memory
from xlab.observe.records import buffers as _buffer_records

# Operations whose result is their operand's memory, or part of it.
_ALIASES = frozenset(
    {
        "bitcast",
        "tuple",
        "get-tuple-element",
        "optimization-barrier",
        "while",
        "copy-done",
        "all-reduce-done",
        "all-gather-done",
        "collective-permute-done",
    }
)
# Of a loop's inner values, those that lie where the loop's own do.
_CARRIED = ("parameter", "tuple", "get-tuple-element")
TABLE = "table of the results"
"""The name of the buffer with the addresses of several results."""
_INDEX = re.compile(r"index=(\d+)")


def memory(what: Any, *args: Any, program: int = 0, **kwargs: Any) -> Memory:
    """Bytes per device of a compiled program, its buffers over the schedule, and used or refused donations.

    Totals and the place of every buffer are the compiler's own. Loops count as one step of the schedule; buffers of disjoint
    lifetimes may share memory: the same `offset` of the same `allocation`.

    Example:
        >>> import numpy as np
        >>> m = memory(lambda x: x, np.ones(4, np.float32))
        >>> m.arguments, m.outputs
        (16, 16)
    """
    stages = program_stages(what, args, kwargs)
    stats, serialized = _compiling.memory_plan(stages.executable.native)
    buffers = _buffers(stages, serialized)
    # The compiler's own peak leaves temporaries out on some platforms: what it laid out itself tells. Inner values of a loop count as
    # alive all through it, so that this is the most that can be alive.
    peak_step, alive = _buffer_records.peak(buffers)
    donated, refused = _donations(stages)
    return Memory(
        stages.name,
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.alias_size_in_bytes,
        stats.generated_code_size_in_bytes,
        max(stats.peak_memory_in_bytes, alive),
        peak_step,
        buffers,
        donated,
        refused,
        program,
        stages.made_by,
    )


def _buffers(stages: ProgramStages, serialized: bytes) -> tuple[Buffer, ...]:
    """Buffers by birth, as a serialized buffer assignment places them."""
    native = stages.executable.native
    placed = (
        _assignment.read(
            serialized, _compiling.hlo_modules(native)[0].as_serialized_hlo_module_proto()
        )
        if serialized
        else ()
    )
    buffers = _assigned(stages, placed) if placed else _counted(stages)
    return tuple(sorted(buffers, key=lambda b: (b.start, b.name)))


def _assigned(stages: ProgramStages, placed: tuple[_assignment.PlacedValue, ...]) -> list[Buffer]:
    """Buffers as the compiler laid them out. A loop is one step, at which all of its inner values are alive."""
    module = stages.hlo
    entry = module.entry.instructions
    lives = _Lives(entry, _ALIASES - {"while"})
    end = lives.end
    by_name = {i.name: i for i in module.instructions()}
    callers = _callers(module)
    arguments = stages.parameter_names
    root = next((i for i in entry if i.root), entry[-1])
    # Of several results a program gives back a table too, which the compiler's sums have; all that it passes on are the same.
    tables = {p.allocation.index: p for p in placed if p.allocation.result and p.allocation.internal}  # fmt: skip
    out = [
        Buffer(TABLE, p.size, "output", lives.steps[root.name], end, root.name, -1, None, at, p.offset)
        for at, p in tables.items()
    ]  # fmt: skip
    for p in placed:
        i = by_name.get(p.instruction)
        where = callers.get(p.instruction, p.instruction)
        inner = where != p.instruction
        if (
            i is None
            or p.allocation.internal
            or not p.size
            or where not in lives.steps
            or (inner and i.opcode in _CARRIED)
        ):
            continue
        if not p.index and i.shape.startswith("("):  # a table of addresses
            continue
        start = lives.steps[where]
        stop = start if inner else lives.until(where, *p.index[:1])
        shown, kind = p.instruction + "".join(f"[{n}]" for n in p.index), "temporary"
        if i.opcode == "parameter" and not inner:
            kind, start, stop = "argument", 0, end
            number = p.allocation.parameter if p.allocation.parameter >= 0 else int(i.argument or 0)
            shown = arguments[number] if number < len(arguments) else shown
        elif p.allocation.constant:
            kind, start, stop = "constant", 0, end
        elif stop == end and not inner and (p.allocation.result or p.allocation.parameter >= 0):
            kind = "output"
        out.append(
            _buffer(stages, i, shown, p.size, kind, start, stop, p.allocation.index, p.offset)
        )
    return out


def _counted(stages: ProgramStages) -> list[Buffer]:
    """Buffers by the types of the entry's values, where the compiler does not say how it laid them out."""
    entry = stages.hlo.entry.instructions
    lives = _Lives(entry, _ALIASES)
    end = lives.end
    arguments = stages.parameter_names
    out = []
    for i in entry:
        if i.opcode in _ALIASES or not i.bytes:
            continue
        shown, kind, start, stop = i.name, "temporary", lives.steps[i.name], lives.until(i.name)
        if i.opcode == "parameter":
            kind, start, stop = "argument", 0, end
            number = int(i.argument) if i.argument.isdigit() else -1
            shown = arguments[number] if 0 <= number < len(arguments) else i.name
        elif i.opcode == "constant":
            kind, start, stop = "constant", 0, end
        elif stop == end:
            kind = "output"
        out.append(_buffer(stages, i, shown, i.bytes, kind, start, stop))
    return out


def _buffer(
    stages: ProgramStages,
    i: _hlo.Instruction,
    name: str,
    size: int,
    kind: str,
    start: int,
    stop: int,
    allocation: int = -1,
    offset: int = 0,
) -> Buffer:
    ids = stages.innermost(stages.hlo.equations_of(i))
    eqn = stages.equations.get(ids[-1]) if ids else None
    return Buffer(
        name,
        size,
        kind,
        start,
        stop,
        i.name,
        ids[-1] if eqn is not None else -1,
        _names.source_of(eqn) if eqn is not None else None,
        allocation,
        offset,
    )


class _Lives:
    """The step of every instruction of the entry, and the last step that reads its result or a part of it."""

    def __init__(self, entry: Sequence[_hlo.Instruction], aliases: frozenset[str]):
        self.steps = {i.name: step for step, i in enumerate(entry)}
        self._whole = dict(self.steps)
        self._parts: dict[tuple[str, int], int] = {}
        self.end = len(entry) - 1
        self._whole[next((i for i in entry if i.root), entry[-1]).name] = self.end
        for i in reversed(entry):
            for position, operand in enumerate(i.operands):
                if operand not in self._whole:
                    continue
                last = self.steps[i.name]
                if i.opcode == "get-tuple-element":
                    index = int(_INDEX.search(i.attributes)[1])  # type: ignore[index]  # HLO always writes it
                    self._parts[operand, index] = max(
                        self.until(i.name), self._parts.get((operand, index), 0)
                    )
                    continue
                if i.opcode == "tuple":
                    last = self.until(i.name, position)
                elif i.opcode in aliases:
                    last = max(
                        [
                            self.until(i.name),
                            *(step for (name, _), step in self._parts.items() if name == i.name),
                        ]
                    )
                self._whole[operand] = max(self._whole[operand], last)

    def until(self, name: str, part: int = -1) -> int:
        """The last step that reads a result, or one part of it."""
        return max(self._whole[name], self._parts.get((name, part), 0))


def _callers(module: _hlo.Module) -> dict[str, str]:
    """Instructions outside the entry by name: the instruction of the entry during which they run."""
    found: dict[str, str] = {}
    todo = [(i, i.name) for i in module.entry.instructions]
    seen: set[str] = set()
    while todo:
        i, top = todo.pop()
        for name in i.calls:
            if name in module.computations and name not in seen:
                seen.add(name)
                for inner in module.computations[name].instructions:
                    found[inner.name] = top
                    todo.append((inner, top))
    return found


def _donations(stages: ProgramStages) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Names of donated arguments whose buffer a result took, and of those where none did, with the reason."""
    low = stages.lowered
    header = stages.hlo.text.split("\n", 1)[0]
    aliased = _hlo.attribute(header, "input_output_alias")
    names = stages.parameter_names
    used, refused = [], []
    for i in low.donated:
        position = len(stages.before_arguments) + low.kept.index(i)
        if f"({position}," in aliased:
            used.append(names[position])
        else:
            refused.append((names[position], _not_placed(stages, i, position)))
    for i in low.refused:
        name = (
            low.closed.jaxpr.debug_info.arg_names[i]
            if i < len(low.closed.jaxpr.debug_info.arg_names)
            else f"argument {i}"
        )
        refused.append(
            (name, "the program does not read it" if i not in low.kept else _no_match(stages, i))
        )
    return tuple(used), tuple(refused)


def _no_match(stages: ProgramStages, i: int) -> str:
    """Why no result can reuse a donated buffer: no result of its type, or another donated argument has it."""
    closed = stages.closed
    given = closed.in_avals[i]
    alike = [
        a
        for a in closed.out_avals
        if getattr(a, "shape", None) == given.shape and getattr(a, "dtype", None) == given.dtype
    ]
    if alike:
        count = "the only result" if len(alike) == 1 else f"each of the {len(alike)} results"
        return f"another donated argument takes {count} of its type, {given.str_short(short_dtypes=True)}"
    near = [
        a.str_short(short_dtypes=True)
        for a in closed.out_avals
        if getattr(a, "shape", None) == given.shape
    ]
    told = f"; of its shape there is {near[0]}" if near else ""
    return f"no result has its type, {given.str_short(short_dtypes=True)}{told}"


def _not_placed(stages: ProgramStages, i: int, position: int) -> str:
    """Why the compiler did not use a possible donation: other layouts or shardings, or its own choice."""
    closed, executable = stages.closed, stages.executable
    given, mine = closed.in_avals[i], executable.in_shardings[position]
    others = [
        s
        for a, s in zip(closed.out_avals, executable.out_shardings)
        if getattr(a, "shape", None) == given.shape and getattr(a, "dtype", None) == given.dtype
    ]
    if others and not any(s.is_equivalent_to(mine, given.ndim) for s in others):
        return (
            f"the result of its type, {given}, has another sharding: {_spec(others[0])}, the argument has {_spec(mine)}; "
            f"ask for the same with out_shardings, or place the argument like the result"
        )
    return f"no result of type {given} was placed in it by the compiler"


def _spec(sharding: Any) -> str:
    return str(getattr(sharding, "spec", sharding))
