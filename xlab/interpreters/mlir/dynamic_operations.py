"""Operations whose sizes are values of the program, in place of those with symbolic sizes."""

from __future__ import annotations

import re
from collections.abc import Callable

from xlab.core.dims import (
    CLOSE,
    OPEN,
    Dim,
    SymbolicDim,
    add,
    multiply,
    subtract,
)

MARK = f"{OPEN}([^{CLOSE}]*){CLOSE}"
OPERATION = r'^(\s*)(?:(%[\w]+)(?::\d+)? = )?"?([a-z_]+\.[\w.]+|return)"?(.*)$'
I32 = "tensor<i32>"


_TYPES = r"^(.*) : \((.*)\) -> (.*)$"


def plain(text: str) -> str:
    """Text with `?` for every mark of a type; a mark elsewhere is a size that the operation needs as a constant."""
    left = re.sub(f"(?<=[<x]){OPEN}[^{CLOSE}]*{CLOSE}(?=x)", "?", text)
    found = re.search(MARK, left)
    if found is not None:
        operation = re.match(OPERATION, text)
        raise NotImplementedError(
            f"{operation[3] if operation else 'this operation'} needs {found[1]} as a constant, which is a symbolic dimension: there is no "
            f"dynamic form of it in StableHLO. Export with that dimension fixed, or compute with operations that have one."
        )
    return left


def plain_types(text: str) -> str:
    """A type with `?` for symbolic dimensions."""
    return re.sub(MARK, "?", text)


def split_list(text: str) -> list[str]:
    """The parts of a list, at commas outside of brackets and marks."""
    parts, depth, last = [], 0, 0
    for i, ch in enumerate(text):
        if ch in f"([{{<{OPEN}":
            depth += 1
        elif ch in f")]}}{CLOSE}" or (ch == ">" and text[i - 1] != "-"):
            depth -= 1
        elif ch == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    return [*parts, text[last:].strip()] if text.strip() else []


class RewrittenLine:
    """A line that is being rewritten."""

    def __init__(self, function, indent, result, op, rest, location):
        self.function, self.indent, self.result, self.op = function, indent, result, op
        self.rest, self.location = rest, location
        self.lines: list[str] = []

    def types(self) -> tuple[str, list[str], str]:
        """What stands before the types, the operands' types, and the result's type."""
        found = re.match(_TYPES, self.rest)
        return found[1], split_list(found[2]), found[3]

    def attribute(self, name: str) -> list[Dim]:
        """A list of sizes: `name = [..]` or `name = array<i64: ..>`."""
        found = re.search(rf"{name} = (?:\[([^\]]*)\]|array<i64(?:: ([^>]*))?>)", self.rest)
        given = (found[1] or found[2] or "") if found else ""
        return [self.function.parse(part) for part in split_list(given)]

    def before(self, text: str) -> str:
        """Another operation in front of this one."""
        self.function.count += 1
        name = f"%d{self.function.count}"
        self.lines.append(f"{self.indent}{name} = {text}{self.location}")
        return name

    def write(self, text: str) -> bool:
        """The operation itself."""
        self.lines.append(f"{self.indent}{self.result} = {plain(text)}{self.location}")
        return True


def _broadcast_in_dim(o: RewrittenLine) -> bool:
    head, (operand,), result = o.types()
    x, dims = split_list(head)[0], head[head.index(", dims") :]
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(
        f"stablehlo.dynamic_broadcast_in_dim {x}, {shape}{dims} : ({operand}, {kind}) -> {result}"
    )


def _iota(o: RewrittenLine) -> bool:
    dim, result = o.rest.split(" : ")
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(f"stablehlo.dynamic_iota {shape},{dim} : ({kind}) -> {result}")


def _reshape(o: RewrittenLine) -> bool:
    x, (operand,), result = o.types()
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(f"stablehlo.dynamic_reshape {x}, {shape} : ({operand}, {kind}) -> {result}")


def _constant(o: RewrittenLine) -> bool:
    value, result = re.fullmatch(r"\s*dense<(.*)> : (tensor<.*>)", o.rest).groups()
    if OPEN not in result:  # dimensions as values
        element = result.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]
        if value.startswith("["):
            name, kind = o.function.vector([o.function.parse(v) for v in split_list(value[1:-1])])
        else:
            name, kind = o.function.dim(o.function.parse(value)), I32
        return o.write(f"stablehlo.convert {name} : ({kind}) -> {kind.replace('i32', element)}")
    element = re.sub(f"(?:{OPEN}[^{CLOSE}]*{CLOSE}|\\d+)x", "", result)
    scalar = o.before(f"stablehlo.constant dense<{value}> : {element}")
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(
        f"stablehlo.dynamic_broadcast_in_dim {scalar}, {shape}, dims = [] : ({element}, {kind}) -> {result}"
    )


def _slice(o: RewrittenLine) -> bool:
    head, (operand,), result = o.types()
    x, ranges = re.fullmatch(r"\s*(%\S+) \[(.*)\]", head).groups()
    parts = [[*map(o.function.parse, part.split(":"))] for part in split_list(ranges)]
    starts, limits = [p[0] for p in parts], [p[1] for p in parts]
    steps = [p[2] if len(p) > 2 else 1 for p in parts]
    return _real_dynamic_slice(
        o, x, operand, result, *(o.function.vector(v) for v in (starts, limits, steps))
    )


def _real_dynamic_slice(o, x, operand, result, *vectors) -> bool:
    names, kinds = zip(*vectors)
    return o.write(
        f"stablehlo.real_dynamic_slice {x}, {', '.join(names)} : ({operand}, {', '.join(kinds)}) -> {result}"
    )


def _dynamic_slice(o: RewrittenLine) -> bool:
    head, types, result = o.types()
    sizes = o.attribute("sizes")
    if not any(isinstance(n, SymbolicDim) for n in sizes):
        return False
    x, *starts = split_list(head[: head.index(", sizes")])
    f, rows = o.function, []
    for start, kind, n, size in zip(starts, types[1:], f.shape(types[0]), sizes):
        unsigned = "ui" in kind
        if kind != I32:
            if unsigned or "i64" in kind:  # before it is narrowed
                most = o.before(f"stablehlo.convert {f.dim(n)} : ({I32}) -> {kind}")
                start = o.before(f"stablehlo.minimum {start}, {most} : {kind}")
            start = o.before(f"stablehlo.convert {start} : ({kind}) -> {I32}")
        last = f.dim(subtract(n, size))
        start = o.before(f"stablehlo.clamp {f.number(0)}, {start}, {last} : {I32}")
        rows.append(o.before(f"stablehlo.reshape {start} : ({I32}) -> tensor<1xi32>"))
    length, kind = f.vector(sizes)
    first = (
        rows[0]
        if len(rows) == 1
        else o.before(
            f"stablehlo.concatenate {', '.join(rows)}, dim = 0 : ({', '.join(['tensor<1xi32>'] * len(rows))}) -> {kind}"
        )
    )
    limit = o.before(f"stablehlo.add {first}, {length} : {kind}")
    return _real_dynamic_slice(
        o, x, types[0], result, (first, kind), (limit, kind), f.vector([1] * len(sizes))
    )


def _pad(o: RewrittenLine) -> bool:
    head, types, result = o.types()
    configs = [o.attribute(name) for name in ("low", "high", "interior")]
    if not any(isinstance(n, SymbolicDim) for config in configs for n in config):
        return False
    x, value = split_list(head)[:2]
    names, kinds = zip(*map(o.function.vector, configs))
    return o.write(
        f"stablehlo.dynamic_pad {x}, {value}, {', '.join(names)} : ({', '.join([*types, *kinds])}) -> {result}"
    )


def _gather(o: RewrittenLine) -> bool:
    sizes = o.attribute("slice_sizes")
    if not any(isinstance(n, SymbolicDim) for n in sizes):
        return False
    head, types, result = o.types()
    operands, attributes = re.fullmatch(r'"?\((.*?)\) <\{(.*)\}>', head).groups()
    attributes = ", ".join(p for p in split_list(attributes) if not p.startswith("slice_sizes"))
    vector, kind = o.function.vector(sizes)
    return o.write(
        f'"stablehlo.dynamic_gather"({operands}, {vector}) <{{{attributes}}}> : ({", ".join([*types, kind])}) -> {result}'
    )


def _custom_call(o: RewrittenLine) -> bool:
    """Results of foreign functions have shapes that are operands, which refinement takes away again."""
    if o.result is None:
        return False
    head, types, result = o.types()
    results = split_list(result[1:-1]) if result.startswith("(") else [result]
    if not any(OPEN in t for t in results):
        return False
    found = re.fullmatch(r'"?\((.*?)\) \{(.*)\}', head)
    operands, attributes = found.groups()
    # A rule for the partitioner says sizes.
    kept = [p for p in split_list(attributes) if not p.startswith("sdy.sharding_rule")]
    attributes = ", ".join(kept)
    names, kinds = zip(*(o.function.vector(o.function.shape(t)) for t in results))
    places = ", ".join(str(len(types) + k) for k in range(len(names)))
    layouts = re.search(r"operand_layouts = \[(.*?)\](?=,|$)", attributes)
    if layouts is not None:
        more = ["dense<0> : tensor<1xindex>"] * len(names)
        attributes = attributes.replace(
            layouts[0], f"operand_layouts = [{', '.join([*filter(None, [layouts[1]]), *more])}]"
        )
    count = f":{len(results)}" if len(results) > 1 else ""
    o.lines.append(
        plain(
            f'{o.indent}{o.result}{count} = "stablehlo.custom_call"({", ".join([*filter(None, [operands]), *names])}) '
            f"{{{attributes}, indices_of_shape_operands = dense<[{places}]> : tensor<{len(names)}xi64>}} : "
            f"({', '.join([*types, *kinds])}) -> {result}"
        )
        + o.location
    )
    return True


def _convolution(o: RewrittenLine) -> bool:
    found = re.search(r"pad = \[(\[.*?\])\], lhs", o.rest)
    pairs = (
        [[o.function.parse(x) for x in split_list(p.strip("[]"))] for p in split_list(found[1])]
        if found
        else []
    )
    if not any(isinstance(d, SymbolicDim) for pair in pairs for d in pair):
        return False
    # Padded beforehand, dilated too, since what pads stands around what dilation spreads.
    head, (operand, kernel), result = o.types()
    lhs, _ = re.match(r"\((%\S+), (%\S+)\)", head).groups()
    order = [x.strip() for x in re.search(r"dim_numbers = \[(.*?)\]x", head)[1].split(",")]
    dilations = [int(x) for x in re.search(r"lhs_dilate = \[(.*?)\]", head)[1].split(",")]
    config = [
        (*pairs[int(name)], dilations[int(name)] - 1) if name.isdigit() else (0, 0, 0)
        for name in order
    ]
    wide = [
        add(add(add(n, lo), hi), multiply(subtract(n, 1), inner))
        for n, (lo, hi, inner) in zip(o.function.shape(operand), config)
    ]
    element = re.search(r"x(\w+)>$", operand)[1]
    marks = "".join(
        f"{OPEN}{n.text()}{CLOSE}x" if isinstance(n, SymbolicDim) else f"{n}x" for n in wide
    )
    padded = f"tensor<{marks}{element}>"
    zero = o.before(
        f"stablehlo.constant dense<{'0' if element[0] in 'iu' else '0.0'}> : tensor<{element}>"
    )
    vectors, kinds = zip(*(o.function.vector([c[k] for c in config]) for k in range(3)))
    lhs = o.before(
        plain_types(
            f"stablehlo.dynamic_pad {lhs}, {zero}, {', '.join(vectors)} : "
            f"({operand}, tensor<{element}>, {', '.join(kinds)}) -> {padded}"
        )
    )
    none = ", ".join(["[0, 0]"] * len(pairs))
    head = head.replace(found[0], f"pad = [{none}], lhs")
    head = re.sub(r"lhs_dilate = \[.*?\]", f"lhs_dilate = [{', '.join('1' * len(pairs))}]", head)
    head = head.replace(re.match(r"\(%\S+,", head)[0], f"({lhs},", 1)
    return o.write(f"stablehlo.convolution{head} : ({padded}, {kernel}) -> {result}")


def _top_k(o: RewrittenLine) -> bool:
    found = re.fullmatch(r"\((%\S+), k = (.*)\) : (\S+) -> \((.*)\)", o.rest)
    k = o.function.parse(found[2])
    if not isinstance(k, SymbolicDim):
        return False
    o.lines.append(
        f"{o.indent}{o.result}:2 = stablehlo.custom_call @stablehlo.dynamic_top_k({found[1]}, {o.function.dim(k)}) "
        f"{{api_version = 2 : i32}} : ({plain_types(found[3])}, {I32}) -> ({plain_types(found[4])}){o.location}"
    )
    return True


def _rng_bit_generator(o: RewrittenLine) -> bool:
    found = re.fullmatch(r" (%\S+), algorithm = +(\w+) : \((.*)\) -> \((.*)\)", o.rest)
    results = split_list(found[4])
    shape, kind = o.function.vector(o.function.shape(results[1]))
    o.lines.append(
        f"{o.indent}{o.result}:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator({found[1]}, {shape}) "
        f"{{api_version = 2 : i32, rng_algorithm = #stablehlo<rng_algorithm {found[2]}>}} : ({found[3]}, {kind}) -> "
        f"({', '.join(map(plain_types, results))}){o.location}"
    )
    return True


rewrites: dict[str, Callable[[RewrittenLine], bool]] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.iota": _iota,
    "stablehlo.reshape": _reshape,
    "stablehlo.constant": _constant,
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.pad": _pad,
    "stablehlo.gather": _gather,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.convolution": _convolution,
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "chlo.top_k": _top_k,
}
