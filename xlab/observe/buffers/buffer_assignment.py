"""The compiler's buffer assignment: which value of a program lies at which bytes of which allocation.

Values are named by instruction; instructions have ids that only the module's own serialized form tells.
"""

from __future__ import annotations

from typing import NamedTuple

from xlab.observe.buffers.protobuf import fields, numbers


class Allocation(NamedTuple):
    """Memory asked for as one. `parameter` is the number of the argument that brings it, -1 for others."""

    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    size: int = 0
    parameter: int = -1
    constant: bool = False
    result: bool = False
    internal: bool = False  # tables of addresses, and what one operation keeps to itself


class PlacedValue(NamedTuple):
    """A value in an allocation; `index` is its place in the result of its instruction, when that is a tuple."""

    instruction: str
    index: tuple[int, ...]  # type: ignore[assignment]  # hides tuple.index on purpose
    size: int
    offset: int
    allocation: Allocation


def read(assignment: bytes, module: bytes) -> tuple[PlacedValue, ...]:
    """Every value of a serialized `BufferAssignmentProto`, with names from the serialized `HloModuleProto`.

    Values without an instruction of a known name are left out.
    """
    made: dict[int, tuple[int, tuple[int, ...]]] = {}
    allocations: list[bytes] = []
    for field, value in fields(assignment):
        if field == 1 and isinstance(value, bytes):
            number, where = _logical(value)
            made[number] = where
        elif field == 3 and isinstance(value, bytes):
            allocations.append(value)
    names = instruction_names(module)
    out = []
    for data in allocations:
        allocation, assigned = _allocation(data)
        for number, offset, size in assigned:
            instruction, index = made.get(number, (-1, ()))
            if instruction in names:
                out.append(PlacedValue(names[instruction], index, size, offset, allocation))
    return tuple(out)


def instruction_names(module: bytes) -> dict[int, str]:
    """Names of a module's instructions by id."""
    found: dict[int, str] = {}
    for field, computation in fields(module):
        if field != 3 or not isinstance(computation, bytes):
            continue
        for part, instruction in fields(computation):
            if part != 2 or not isinstance(instruction, bytes):
                continue
            name, number = "", -1
            for what, value in fields(instruction):
                if what == 1 and isinstance(value, bytes):
                    name = value.decode()
                elif what == 35 and isinstance(value, int):
                    number = value
                    break
            found[number] = name
    return found


def _logical(data: bytes) -> tuple[int, tuple[int, tuple[int, ...]]]:
    """Number of a value, and the id and result index of the instruction that makes it."""
    number = instruction = 0
    index: tuple[int, ...] = ()
    for field, value in fields(data):
        if field == 1 and isinstance(value, int):
            number = value
        elif field == 3 and isinstance(value, bytes):
            for part, inner in fields(value):
                if part == 3:
                    index += numbers(inner)
                elif part == 4 and isinstance(inner, int):
                    instruction = inner
    return number, (instruction, index)


def _allocation(data: bytes) -> tuple[Allocation, list[tuple[int, int, int]]]:
    """An allocation, and number, offset and size of each value in it."""
    found: dict[int, int] = {}
    assigned = []
    for field, value in fields(data):
        if isinstance(value, int):
            found[field] = value
        elif field == 9:
            inner = {part: n for part, n in fields(value) if isinstance(n, int)}
            assigned.append((inner.get(1, 0), inner.get(2, 0), inner.get(3, 0)))
    parameter = found.get(6, 0) if found.get(5) else -1
    return Allocation(
        found.get(1, 0),
        found.get(2, 0),
        parameter,
        bool(found.get(12)),
        bool(found.get(7)),
        bool(found.get(11) or found.get(3)),
    ), assigned
