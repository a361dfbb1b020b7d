"""Reads the compiler's optimized program: instructions, their equations, collectives, schedule and memory.

jaxlib gives no accessors for shapes and attributes, so the text is parsed. `parse(text)` returns a `Module`; everything
else here are questions to it.

>>> m = parse('''HloModule m
...
... ENTRY %main (p: f32[4]) -> f32[4] {
...   %p = f32[4]{0} parameter(0)
...   ROOT %t = f32[4]{0} tanh(%p), metadata={op_name="jit(f)/tanh;e0"}
... }
... ''')
>>> [(i.name, i.opcode, i.bytes, i.equations) for i in m.entry.instructions]
[('p', 'parameter', 16, ()), ('t', 'tanh', 16, (0,))]
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlab.interpreters import communication

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+)\s*\(.*\)\s*->\s*.*\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_PLAIN = re.compile(
    r"\s+(ROOT )?%?([\w.\-]+) = ([a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?) ([\w\-]+)\(([^(){}\[\]\"]*)\)(?:, (.*))?$"
)
"""An instruction with an array for a result, and with nothing between brackets but names or a number: nearly all."""
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=?]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
_OP_NAME = re.compile(r'op_name="([^"\\]*(?:\\.[^"\\]*)*)"')
_EQUATION = re.compile(r";e(\d+)")
_NAME = re.compile(r"[\w.\-]+")
_CALLS = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations|true_computation|false_computation|"
    r"called_computations)=(\{[^}]*\}|%?[\w.\-]+)"
)
_CALL_WORDS = ("calls=", "to_apply=", "body=", "condition=", "_computation")
_TRIPS = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")

_BITS = {"pred": 8, "token": 0, "opaque": 0}


def bits(dtype: str) -> int:
    """Bits per element of an HLO element type: `f32` has 32, `pred` 8, `c64` 64, `f8e4m3fn` 8."""
    found = _BITS.get(dtype)
    if found is None:
        number = re.search(r"\d+", dtype)
        found = _BITS[dtype] = int(number.group()) if number else 0
    return found


def shape_bytes(shape: str) -> int:
    """Bytes of a value of this shape, tuples added up.

    >>> shape_bytes("(f32[2,4]{1,0}, s32[])"), shape_bytes("bf16[3]")
    (36, 6)
    """
    total = 0
    for dtype, dims in _ARRAY.findall(shape):
        size = math.prod(int(re.sub(r"\D", "", d) or 0) for d in dims.split(",")) if dims else 1
        total += (size * bits(dtype) + 7) // 8
    return total


@dataclass(frozen=True)
class Instruction:
    """One line of a computation. `equations` are those in its own location; fused ones are added by `Module.equations_of`."""

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    attributes: str
    line: int
    root: bool = False
    argument: str = ""

    @property
    def bytes(self) -> int:
        return shape_bytes(self.shape)

    @property
    def op_name(self) -> str:
        found = _OP_NAME.search(self.attributes)
        return found.group(1) if found else ""

    @functools.cached_property
    def equations(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(map(int, _EQUATION.findall(self.op_name))))

    @functools.cached_property
    def calls(self) -> tuple[str, ...]:
        if not any(word in self.attributes for word in _CALL_WORDS):  # most: it is a quick look
            return ()
        return tuple(
            name for part in _CALLS.findall(self.attributes) for name in _NAME.findall(part)
        )

    @property
    def trip_count(self) -> int | None:
        found = _TRIPS.search(self.attributes)
        return int(found.group(1)) if found else None

    @property
    def kind(self) -> str:
        """The kind of collective, empty for anything else."""
        return communication.opcodes.get(self.opcode, "")


@dataclass
class Computation:
    """A function of the module, its instructions in the order they are scheduled."""

    name: str
    entry: bool
    instructions: list[Instruction] = field(default_factory=list)

    def by_name(self) -> dict[str, Instruction]:
        return {i.name: i for i in self.instructions}


@dataclass
class Module:
    """A parsed program."""

    name: str
    text: str
    computations: dict[str, Computation]
    partitions: int = 1
    replicas: int = 1
    _equations: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def entry(self) -> Computation:
        return next(c for c in self.computations.values() if c.entry)

    def instructions(self) -> Iterator[Instruction]:
        for computation in self.computations.values():
            yield from computation.instructions

    def equations_of(self, instruction: Instruction) -> tuple[int, ...]:
        """Equations an instruction computes: its own and those of everything fused into it."""
        if instruction.opcode not in ("fusion", "call", "custom-call"):
            return instruction.equations
        made = self._equations.get(instruction.name)
        if made is None:
            found = dict.fromkeys(instruction.equations)
            for computation in self.called_by(instruction):
                for inner in computation.instructions:
                    if inner.opcode != "parameter":
                        found.update(dict.fromkeys(inner.equations))
            made = self._equations[instruction.name] = tuple(found)
        return made

    def called_by(self, instruction: Instruction) -> Iterator[Computation]:
        """The computations that an instruction calls, and those that are called in these, each once."""
        todo, seen = list(instruction.calls), set()
        while todo:
            name = todo.pop(0)
            if name not in seen and name in self.computations:
                seen.add(name)
                yield self.computations[name]
                todo += [inner for i in self.computations[name].instructions for inner in i.calls]

    def executed(self) -> Iterator[tuple[Instruction, int | None, bool]]:
        """Instructions reached from the entry in schedule order: `(instruction, times, conditional)`.

        `times` multiplies known trip counts of the loops around it and is None inside a loop of unknown length.
        `conditional` says that a branch decides whether it runs.
        """
        yield from self._executed(self.entry, 1, False, ())

    def _executed(self, computation, times, conditional, path):
        if computation.name in path:
            return
        path = (*path, computation.name)
        for i in computation.instructions:
            yield i, times, conditional
            if (
                i.opcode
                in (
                    "fusion",
                    "reduce",
                    "map",
                    "scatter",
                    "sort",
                    "reduce-window",
                    "select-and-scatter",
                )
                or i.kind
            ):
                continue
            inner_times, inner_conditional = times, conditional
            if i.opcode == "while":
                trips = i.trip_count
                inner_times = None if trips is None or times is None else times * trips
            elif i.opcode == "conditional":
                inner_conditional = True
            for name in i.calls:
                if name in self.computations:
                    yield from self._executed(
                        self.computations[name], inner_times, inner_conditional, path
                    )

    def collectives(self) -> list[HloCollective]:
        """All collectives, in schedule order. One fused with computation that overlaps it counts once."""
        home = {id(i): c for c in self.computations.values() for i in c.instructions if i.kind}
        found, seen = [], set()
        for i, times, conditional in self.executed():
            fused = i.opcode == "fusion"
            inner = (
                [x for name in i.calls for x in self.computations[name].instructions if x.kind]
                if fused
                else [i]
                if i.kind
                else []
            )
            for x in inner:
                channel = attribute(x.attributes, "channel_id") if fused else ""
                if not channel or channel not in seen:
                    found.append(_collective(self, x, home[id(x)].by_name(), times, conditional))
                seen.add(channel)
        return found


@dataclass(frozen=True)
class HloCollective:
    """A collective instruction. Groups and pairs are positions in the device assignment.

    `times` is how often the program runs it, None where a loop's length is not known; `conditional` where a branch decides.
    """

    instruction: Instruction
    kind: str
    reduction: str
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    bytes_in: int
    bytes_out: int
    channel: int | None
    times: int | None
    conditional: bool
    operand_shapes: tuple[str, ...]


def parse(text: str) -> Module:
    """Parses an HLO module's text."""
    computations: dict[str, Computation] = {}
    current: Computation | None = None
    header = text.split("\n", 1)[0]
    name = re.match(r"HloModule\s+([\w.\-]+)", header)
    for number, line in enumerate(text.split("\n"), 1):
        if current is None:
            head = _HEAD.match(line)
            if head and not line.startswith("HloModule"):
                current = Computation(head.group(2), bool(head.group(1)))
                computations[current.name] = current
        elif line.startswith("}"):
            current = None
        else:
            found = _instruction(line, number)
            if found is not None:
                current.instructions.append(found)
    if not any(c.entry for c in computations.values()):
        raise ValueError(
            f"the text has no ENTRY computation, so it is not an HLO module: it starts with {header[:60]!r}. "
            "Pass Compiled.as_text()."
        )

    def count(key):
        found = re.search(rf"\b{key}=(\d+)", header)
        return int(found.group(1)) if found else 1

    return Module(
        name.group(1) if name else "",
        text,
        computations,
        count("num_partitions"),
        count("replica_count"),
    )


def _instruction(line: str, number: int) -> Instruction | None:
    plain = _PLAIN.match(line)
    if plain is not None:
        root, name, shape, opcode, operands, attributes = plain.groups()
        given = operands if opcode in ("parameter", "constant") else ""
        return Instruction(
            name,
            opcode,
            shape,
            tuple(_OPERAND.findall(operands)),
            attributes or "",
            number,
            root is not None,
            given,
        )
    head = _INSTRUCTION.match(line)
    if head is None:
        return None
    at = head.end()
    end = _closing(line, at) if line[at] == "(" else _shape_end(line, at)
    shape = re.sub(r"/\*.*?\*/", "", line[at:end])
    rest = line[end:].lstrip()
    open_at = rest.find("(")
    if open_at < 0:
        return None
    opcode = rest[:open_at]
    close = _closing(rest, open_at)
    inside = rest[open_at + 1 : close - 1]
    return Instruction(
        head.group(2),
        opcode,
        shape,
        tuple(_OPERAND.findall(inside)),
        rest[close:].lstrip(", "),
        number,
        bool(head.group(1)),
        inside if opcode in ("parameter", "constant") else "",
    )


def _shape_end(line: str, at: int) -> int:
    """End of a shape like `f32[2,4]{1,0:T(8,128)}`: the first blank outside brackets."""
    depth = 0
    for i in range(at, len(line)):
        c = line[i]
        if c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == " " and depth == 0:
            return i
    return len(line)


def _closing(line: str, at: int) -> int:
    """Index behind the bracket that closes the one at `at`; quoted text is skipped."""
    depth, quoted = 0, False
    for i in range(at, len(line)):
        c = line[i]
        if c == '"' and line[i - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(line)


def attribute(attributes: str, key: str) -> str:
    """The text of one attribute, up to the comma that ends it."""
    found = re.search(rf"(?:^|[ ,]){key}=", attributes)
    if not found:
        return ""
    depth, quoted = 0, False
    for i in range(found.end(), len(attributes)):
        c = attributes[i]
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            return attributes[found.end() : i]
    return attributes[found.end() :]


def groups_of(text: str, devices: int) -> tuple[tuple[int, ...], ...]:
    """Device groups in any of the forms the compiler writes; no groups means all devices together.

    >>> groups_of("{{0,1},{2,3}}", 4)
    ((0, 1), (2, 3))
    >>> groups_of("[2,2]<=[2,2]T(1,0)", 4)
    ((0, 2), (1, 3))
    >>> groups_of("mesh['a'=2,'b'=2] {'b'}", 4)
    ((0, 1), (2, 3))
    >>> groups_of("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", 4)
    ((0, 2), (1, 3))
    """
    text = text.strip()
    if text.startswith("{"):
        found = re.findall(r"\{([\d,\s]*)\}", text[1:-1])
        out = tuple(tuple(int(d) for d in g.split(",")) for g in found if g.strip())
        return out or (tuple(range(devices)),)
    if text.startswith("["):
        return tuple(map(tuple, _iota(text).tolist()))
    if text.startswith("mesh"):
        return _mesh_groups(text)
    return (tuple(range(devices)),)


def _iota(text: str) -> np.ndarray:
    """`[groups,size]<=[dims]T(order)`: numbers in `dims`, transposed, cut into rows."""
    found = re.match(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if found is None:
        raise ValueError(
            f"replica groups {text!r} are in no known form: expected '[g,n]<=[dims]T(order)'"
        )
    shape, dims, order = (
        [int(d) for d in part.split(",")] if part else [] for part in found.groups()
    )
    ids = np.arange(math.prod(dims)).reshape(dims)
    return (ids.transpose(order) if order else ids).reshape(shape)


def _mesh_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """Groups along named axes of a mesh; an axis may be cut, `'a':(1)2` is its part of size 2 after 1."""
    found = re.match(r"mesh\[([^\]]*)\](.*)$", text)
    if found is None:
        raise ValueError(
            f"replica groups {text!r} are in no known form: expected \"mesh['a'=2] {{'a'}}\""
        )
    axes = re.findall(r"'((?:[^'\\]|\\.)*)'=(\d+)", found.group(1))
    rest = found.group(2)
    total = math.prod(int(n) for _, n in axes)
    order = np.arange(total)
    if "device_ids=(" in rest:
        # Either listed, or numbers in the dims of `[4,2]T(1,0)`, transposed.
        at = rest.index("device_ids=(") + len("device_ids=")
        inside = rest[at + 1 : _closing(rest, at) - 1]
        tiled = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", inside)
        if tiled:
            order = order.reshape([int(d) for d in tiled.group(1).split(",")])
            order = (
                order.transpose([int(d) for d in tiled.group(2).split(",")])
                if tiled.group(2)
                else order
            )
            order = order.reshape(-1)
        else:
            order = np.array([int(d) for d in inside.split(",")])
    chosen = re.findall(r"'((?:[^'\\]|\\.)*)'(?::\((\d+)\)(\d+))?", rest[rest.rfind("{") :])
    # Cut every axis that is used in part into (before, part, after), then gather the used pieces at the end.
    pieces: list[tuple[str, int, int]] = []  # axis, size before, size
    for name, size in ((n, int(s)) for n, s in axes):
        cuts = sorted(
            {
                1,
                size,
                *(int(b) for a, b, _ in chosen if a == name and b),
                *(int(b) * int(p) for a, b, p in chosen if a == name and b),
            }
        )
        pieces += [(name, low, high // low) for low, high in itertools.pairwise(cuts)] or [
            (name, 1, 1)
        ]
    sizes = [p[2] for p in pieces]
    used = []
    for name, before, part in chosen:
        size = dict(axes)[name]
        low, high = (int(before), int(before) * int(part)) if before else (1, int(size))
        used += [
            k
            for k, (a, b, n) in enumerate(pieces)
            if a == name and low <= b and b * n <= high and (n > 1 or not before)
        ]
    used = list(dict.fromkeys(used))
    grid = order.reshape(sizes)
    other = [k for k in range(len(pieces)) if k not in used]
    length = math.prod(sizes[k] for k in used)
    return tuple(map(tuple, grid.transpose([*other, *used]).reshape(-1, length).tolist()))


_REDUCTIONS = {
    "add": "add",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def _collective(
    module: Module, i: Instruction, local: dict[str, Instruction], times: Any, conditional: Any
) -> HloCollective:
    devices = max(module.partitions, module.replicas)
    shapes = tuple(local[o].shape for o in i.operands if o in local)
    pairs = tuple(
        (int(a), int(b))
        for a, b in re.findall(r"\{(\d+),(\d+)\}", attribute(i.attributes, "source_target_pairs"))
    )
    written = re.search(r"replica_groups=(mesh\[.*?\{[^}]*\})", i.attributes)
    groups = (
        ()
        if pairs
        else groups_of(
            written.group(1) if written else attribute(i.attributes, "replica_groups"), devices
        )
    )
    reduction = ""
    for name in i.calls:
        body = module.computations.get(name)
        root = next((x for x in body.instructions if x.root), None) if body else None
        if root is not None:
            reduction = _REDUCTIONS.get(root.opcode, root.opcode)
    channel = attribute(i.attributes, "channel_id")
    bytes_in = sum(map(shape_bytes, shapes))
    # The result of a start operation holds its operands too.
    bytes_out = i.bytes - (
        bytes_in if i.opcode in ("all-gather-start", "collective-permute-start") else 0
    )
    return HloCollective(
        i,
        i.kind,
        reduction,
        groups,
        pairs,
        bytes_in,
        bytes_out,
        int(channel) if channel else None,
        times,
        conditional,
        shapes,
    )


def readable(text: str) -> str:
    """The module's text without the tables of file names and stack frames in front of it."""
    out, skipping = [], False
    for line in text.split("\n"):
        if line.strip() in _TABLES:
            skipping = True
        elif skipping and (_HEAD.match(line) or line.startswith(("%", "ENTRY"))):
            skipping = False
        if not skipping:
            out.append(line)
    return "\n".join(out).rstrip() + "\n"


def links(module: Module) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """`(line number, equation ids)` of every instruction that comes from an equation, in the module's own text."""
    found = [(i.line, module.equations_of(i)) for i in module.instructions()]
    return tuple(sorted((line, ids) for line, ids in found if ids))
