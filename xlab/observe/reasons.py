"""Why the partitioner communicates: read from the stage in which it has inserted reshards and reductions of partial sums.

Shardy's `insert-explicit-reshards` writes `sdy.reshard` where a value has one sharding and its reader needs another, and
`sdy.all_reduce` where an operation over a split dimension left a part of the result on each device. Each carries the
location of the equation it belongs to.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import Any

from xlab.observe import names as _names
from xlab.observe.program import mlir_level, parse_sharding, result_shardings, tensor_shape, type_of
from xlab.observe.records import Type
from xlab.observe.subject import Subject

_RESULT = re.compile(r"^\s*(%[\w]+)(?::\d+)? = (\"?[\w.]+\"?)")
_SSA = re.compile(r"%\w+(?:#\d+)?")
_ARGUMENT = re.compile(r"(%arg\d+): tensor<([^>]*)>(?: \{[^%]*?sdy\.sharding = #sdy\.sharding<(@\w+, \[[^\]]*\])[^%]*?\})?")
_AXES = re.compile(r'sdy\.all_reduce \{([^}]*)\}')


@dataclass
class Cause:
    """One reshard or reduction of the partitioner: the equation it is for, what it does, and the sentences about it."""

    equation: int
    kind: str                       # reshard or all_reduce
    reason: str
    fix: str
    operand: str = ""
    reader: int = -1                # the equation that needed it
    group: str = ""                 # what it has in common with others: the operation, its line, what happens
    axes: tuple[str, ...] = ()      # what an all_reduce runs over
    rebuilt: int = 0                # elements of an array that changes from one split to another with no axis in common
    used: bool = False


def causes(about: Subject) -> list[Cause]:
    """Every communication the partitioner decided on, in program order; empty for one device."""
    text = about.stage("resharded")
    if not text:
        return []
    made = mlir_level("resharded", text)
    numbers = {line: ids[0] for line, ids in made.links}
    lines = made.text.split("\n")
    values: dict[str, tuple] = {}       # SSA name: (type, what people call it, its equation)
    found: list[Cause] = []
    users = _users(lines)
    letters = _names.letter_names(about.closed.jaxpr)
    for number, line in enumerate(lines, 1):
        if "func.func" in line:
            values = _arguments(about, line) if "@main" in line else {}
            continue
        match = _RESULT.match(line)
        if not match:
            continue
        result, op = match.group(1), match.group(2).strip('"')
        closing = _closing(lines, number) if line.rstrip().endswith("({") else number
        equation = numbers.get(closing, -1)
        result_line = lines[closing - 1]
        operands = _SSA.findall(line[match.end():])
        if op == "sdy.reshard":
            source = values.get(operands[0])
            spec = parse_sharding(line[line.index("<@"):])
            shape = tensor_shape(re.findall(r"tensor<([^>]*)>", line)[-1])
            dtype = source[0].dtype if source else _dtype(line)
            target = Type(dtype, shape, spec)
            if source and _has_it(source[0].spec, spec):
                values[result] = (target, *source[1:])
                continue
            reader, reader_line = users.get((_function(lines, number), result), ("", 0))
            found.append(_reshard(about, equation, source, target, reader, numbers.get(reader_line, -1)))
            values[result] = (target, source[1] if source else "", source[2] if source else -1)
            continue
        typed = result_shardings(result_line)
        spec, shape = typed[0] if typed else ((), ())
        if op == "sdy.all_reduce":
            source = values.get(operands[0])
            listed = _AXES.search(line)
            axes = tuple(re.findall(r'"([^"]*)"', listed.group(1))) if listed else ()
            found.append(_reduction(about, equation, axes, shape, values, lines, operands[0]))
            values[result] = (Type(_dtype(line), shape, spec), source[1] if source else "", equation)
        else:
            dtypes = re.findall(r"tensor<([^>]*)>", result_line.rsplit("->", 1)[-1]) or [""]
            for k, (spec, shape) in enumerate(typed):
                dtype = _short(dtypes[min(k, len(dtypes) - 1)].rsplit("x", 1)[-1])
                made_type = Type(dtype, shape, spec)
                found_value = made_type, _called(about, equation, letters, k, made_type), equation
                values[f"{result}#{k}"] = found_value
                if k == 0:
                    values[result] = found_value
            values[result + "#operands"] = tuple(operands)
    return found


SHOWN = 3
"""Groups of causes that are written out; of more, how many there are."""


def together(found: list[Cause], values: int) -> tuple[str, str]:
    """The reason and the fix of a collective that does the work of several causes: one sentence per operation and line.

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
    fixes = list(dict.fromkeys(k.fix for k in found))
    return (f"{values} values at once: " + "; ".join(parts) + (f"; and {left} more" if left else ""),
            "; ".join(fixes[:SHOWN]) + (f"; and {len(fixes) - SHOWN} more" if len(fixes) > SHOWN else ""))


def _closing(lines: list[str], number: int) -> int:
    """Number of the line that ends an operation with a region, where its types and location stand."""
    indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    for n in range(number, len(lines)):
        if lines[n].startswith(" " * indent + "})"):
            return n + 1
    return number


def _function(lines, number):
    """Line of the function a line belongs to: names are unique inside it only."""
    for n in range(number - 1, -1, -1):
        if "func.func" in lines[n]:
            return n
    return -1


def _users(lines: Any) -> dict[tuple[int, str], tuple[str, int]]:
    """The first operation that reads each value: `(operation, line number)`."""
    out: dict[tuple[int, str], tuple[str, int]] = {}
    function = -1
    for number, line in enumerate(lines, 1):
        if "func.func" in line:
            function = number - 1
            continue
        match = _RESULT.match(line)
        body = line[match.end():] if match else line
        op = match.group(2).strip('"') if match else line.split()[0] if line.split() else ""
        for name in _SSA.findall(body):
            out.setdefault((function, name), (op, number))
    return out


def _arguments(about: Subject, line: str) -> dict[str, tuple]:
    names = about.closed.jaxpr.debug_info.arg_names
    kept = about.lowered.kept
    out = {}
    for i, (ssa, tensor, sharding) in enumerate(_ARGUMENT.findall(line)):
        shape = tensor_shape(tensor)
        spec = parse_sharding("<" + sharding + ">") if sharding else ((),) * len(shape)
        name = names[kept[i]] if i < len(kept) and kept[i] < len(names) else ssa
        out[ssa] = (Type(_short(tensor.rsplit("x", 1)[-1]), shape, spec), name, -1)
    return out


def _dtype(line: str) -> str:
    found = re.findall(r"tensor<([^>]*)>", line)
    return _short(found[-1].rsplit("x", 1)[-1]) if found else "?"


def _short(mlir: str) -> str:
    if mlir == "i1":
        return "bool"
    found = re.fullmatch(r"(u?)i(\d+)", mlir)
    if found:
        return ("u" if found.group(1) else "i") + found.group(2)
    return {"complex<f32": "c64", "complex<f64": "c128"}.get(mlir, mlir)


def _called(about: Subject, equation: int, letters: Any, index: int, found: Type) -> str:
    """What people call a result of an equation: the user's name, or its letter; nothing for values inside its lowering."""
    eqn = about.equations.get(equation)
    if eqn is None or index >= len(eqn.outvars):
        return ""
    v = eqn.outvars[index]
    known = type_of(v.aval)
    if (known.dtype, known.shape) != (found.dtype, found.shape):
        return ""
    return about.user_names.get(v, "") or letters.get(v, "")


def _primitive(about: Subject, equation: int) -> str:
    eqn = about.equations.get(equation)
    return eqn.primitive.name if eqn is not None else ""


def _place(about: Subject, equation: int) -> str:
    eqn = about.equations.get(equation)
    source = _names.source_of(eqn) if eqn is not None else None
    return f" (line {source.line})" if source else ""


def spec_text(spec: tuple | None) -> str:
    """A spec as people write it: `P('data', None)`."""
    parts = ["None" if not axes else repr(axes[0]) if len(axes) == 1 else "(" + ", ".join(map(repr, axes)) + ")" for axes in spec or ()]
    return f"P({', '.join(parts)})"


def _has_it(before: Any, after: Any) -> bool:
    """Whether each device has what it needs: dimensions stay as they are or are split further, so that nothing is sent."""
    return all(tuple(b)[:len(a)] == tuple(a) for a, b in zip(before or ((),) * len(after), after, strict=True))


def _reshard(about: Any, equation: Any, source: Any, target: Type, reader: str, reader_equation: int) -> Cause:
    before = source[0].text if source else "another sharding"
    name = f"`{source[1]}`" if source and source[1] else "the operand"
    if reader in ("return", "func.return"):
        reason = f"{name} is {before}, the result is asked for as {target.text}"
        fix = f"leave this result's out_sharding to the compiler, or compute {name} as {spec_text(target.spec)}"
    else:
        what = _primitive(about, reader_equation) or _primitive(about, equation) or reader
        reason = f"{name} is {before}, {what}{_place(about, reader_equation)} needs {target.text}"
        fix = f"give {name} the sharding {spec_text(target.spec)} where it is made"
    group = f"{what if reader not in ('return', 'func.return') else 'result'}{_place(about, reader_equation)} {before} {target.text}"
    kept = source is not None and any(set(a) & set(b) for a, b in zip(source[0].spec or (), target.spec or ()))
    moved = source is not None and any(source[0].spec or ()) and any(target.spec or ()) and not kept
    rebuilt = math.prod(n for n in target.shape if isinstance(n, int)) if moved else 0
    return Cause(equation, "reshard", reason, fix, before, reader_equation, group, rebuilt=rebuilt)


def _reduction(about: Any, equation: Any, axes: Any, shape: Any, values: Any, lines: Any, operand: Any) -> Cause:
    what = _primitive(about, equation) or "the operation"
    split = []
    for name in values.get(operand + "#operands", ()):
        value = values.get(name)
        if value is not None and any(any(_base(a) in axes for a in dim) for dim in value[0].spec or ()):
            split.append(value)
    if split:
        listed = " and ".join(f"`{v[1]}` {v[0].text}" if v[1] else v[0].text for v in split[:2])
        reason = (f"{what}{_place(about, equation)} combines along a dimension of {listed} that is split over {', '.join(axes)}: "
                  "each device has a part of the result")
        fix = f"keep that dimension whole, or split another one over {', '.join(axes)}"
    else:
        reason = f"{what}{_place(about, equation)} leaves a part of its result on each device along {', '.join(axes)}"
        fix = f"keep the reduced dimension whole along {', '.join(axes)}"
    return Cause(equation, "all_reduce", reason, fix, split[0][0].text if split else "",
                 group=f"{what}{_place(about, equation)} {', '.join(axes)}", axes=tuple(map(_base, axes)))


def _base(axis: str) -> str:
    return axis.split(":")[0].strip('"')
