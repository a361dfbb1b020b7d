"""Programs with symbolic dimensions as StableHLO whose shapes are dynamic.

Lowering rules know nothing of this: they write a symbolic dimension as its expression between marks, `tensor<⟨2*b⟩x3xf32>`, and a
shape in an attribute likewise. Afterwards each operation with such a mark is rewritten. In types the mark becomes `?`; operations
whose attributes state a shape become the dynamic ones, which take it as an operand. `main` computes the variables from the shapes
of its arguments and checks what has to hold; other functions get them as leading arguments, which is what shape refinement wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlab.core.avals import ShapedArray
from xlab.core.dim_equations import Equations
from xlab.core.dims import (
    CLOSE,
    OPEN,
    Dim,
    Factor,
    SymbolicDim,
    add,
    multiply,
    spelling,
    subtract,
)
from xlab.interpreters.mlir.values import escape, tensor_type

# Compiled when they are first used, as few programs have symbolic dimensions.
_MARK = f"{OPEN}([^{CLOSE}]*){CLOSE}"
_I32 = "tensor<i32>"
_OPERATION = r'^(\s*)(?:(%[\w]+)(?::\d+)? = )?"?([a-z_]+\.[\w.]+|return)"?(.*)$'
_FUNCTION = r"^(\s*func\.func (?:public|private) @([\w.$-]+)\()(.*)"
_CALL = r"func\.call @([\w.$-]+)\(([^)]*)\)(.*?) : \("
_CALLED = r"@([\w.$-]+)"
_TYPES = r"^(.*) : \((.*)\) -> (.*)$"


@contextmanager
def marked_dimensions():
    """Symbolic dimensions are written between marks in the block."""
    spelling.marked += 1
    try:
        yield
    finally:
        spelling.marked -= 1


def is_dynamic(avals: Iterable) -> bool:
    """Whether some type has a symbolic dimension."""
    return any(
        type(a) is ShapedArray and any(type(d) is SymbolicDim for d in a.shape) for a in avals
    )


def dynamic_functions(
    functions: Sequence[str], in_avals: Sequence[ShapedArray], equations: Equations, first: int = 0
) -> list[str]:
    """The functions of a module, `main` among them, with dynamic shapes.

    `in_avals` are the types of the arguments of `main` that are arrays of the program; they are called `%arg0` and so on.
    """
    names = sorted(equations.variables)
    bodies = {re.match(_FUNCTION, text)[2]: text for text in functions if re.match(_FUNCTION, text)}
    calls = {name: set(re.findall(_CALLED, text)) - {name} for name, text in bodies.items()}
    takes = {name for name, text in bodies.items() if OPEN in text}
    while more := {name for name, called in calls.items() if called & takes} - takes:
        takes |= more
    takes.discard("main")
    out = []
    for text in functions:
        found = re.match(_FUNCTION, text)
        if found is None:
            out.append(text)
        elif found[2] == "main" or found[2] in takes:
            out.append(_Function(text, found[2], names, takes, in_avals, equations).text())
        else:
            out.append(text)
    return out


@dataclass
class _Function:
    """One function on its way from marks to dynamic operations."""

    source: str
    name: str
    variables: Sequence[str]
    takes: set[str]
    in_avals: Sequence[ShapedArray]
    equations: Equations
    prologue: list[str] = field(default_factory=list)
    known: dict = field(default_factory=dict)
    count: int = 0
    reducers: list[str] = field(default_factory=list)  # functions of their own

    def text(self) -> str:
        header, *lines = self.source.split("\n")
        start, _, rest = re.match(_FUNCTION, header).groups()
        if self.name == "main":
            self._solve()
        else:
            arguments = [f"%dim_{v}: {_I32}" for v in self.variables]
            rest = ", ".join(arguments) + (", " if not rest.startswith(")") else "") + rest
            self.known.update({Factor(v).key: f"%dim_{v}" for v in self.variables})
        body: list[str] = []
        left = iter(lines)
        for line in left:
            if "stablehlo.reduce_window" in line and OPEN in line:
                body += self._reduce_window(line, left)
            else:
                body += self._line(line)
        return "\n".join([_plain(start + rest), *self.prologue, *body, *self.reducers])

    # -- dimensions as values --------------------------------------------------------------------------

    def emit(self, operation: str) -> str:
        """An operation at the top of the function."""
        self.count += 1
        name = f"%d{self.count}"
        self.prologue.append(f"    {name} = {operation}")
        return name

    def number(self, n: int) -> str:
        """A constant, as an i32 scalar."""
        if ("n", n) not in self.known:
            self.known["n", n] = self.emit(f"stablehlo.constant dense<{n}> : {_I32}")
        return self.known["n", n]

    def dim(self, e: Dim) -> str:
        """The value of an expression, as an i32 scalar."""
        if not isinstance(e, SymbolicDim):
            return self.number(e)
        if e.key not in self.known:
            self.known[e.key] = self._computed(e)
        return self.known[e.key]

    def _computed(self, e: SymbolicDim) -> str:
        total = None
        for monomial, c in e.terms:
            product = None if c == 1 and monomial else self.number(c)
            for f, power in monomial:
                for _ in range(power):
                    value = self._factor(f)
                    product = value if product is None else self._binary("multiply", product, value)
            total = product if total is None else self._binary("add", total, product)
        return total

    def _binary(self, op: str, a: str, b: str) -> str:
        return self.emit(f"stablehlo.{op} {a}, {b} : {_I32}")

    def compare(self, direction: str, a: str, b: str) -> str:
        return self.emit(
            f"stablehlo.compare {direction}, {a}, {b}, SIGNED : ({_I32}, {_I32}) -> tensor<i1>"
        )

    def _factor(self, f: Factor) -> str:
        found = self.known.get(f.key)
        if found is None:
            a, b = map(self.dim, f.operands)
            found = self.known[f.key] = {
                "max": lambda: self._binary("maximum", a, b),
                "min": lambda: self._binary("minimum", a, b),
                "floordiv": lambda: self._divided(a, b)[0],
                "mod": lambda: self._divided(a, b)[1],
            }[f.name]()
        return found

    def _divided(self, a: str, b: str) -> tuple[str, str]:
        # The operations round to zero: where the remainder has another sign than the divisor, one less and one divisor more.
        quotient, rest = self._binary("divide", a, b), self._binary("remainder", a, b)
        zero = self.number(0)
        signs = self.emit(
            f"stablehlo.compare NE, {self.compare('LT', rest, zero)}, {self.compare('LT', b, zero)}, UNSIGNED : "
            f"(tensor<i1>, tensor<i1>) -> tensor<i1>"
        )
        off = self.emit(f"stablehlo.and {signs}, {self.compare('NE', rest, zero)} : tensor<i1>")
        less, more = (
            self._binary("subtract", quotient, self.number(1)),
            self._binary("add", rest, b),
        )
        return tuple(
            self.emit(f"stablehlo.select {off}, {x}, {y} : tensor<i1>, {_I32}")
            for x, y in ((less, quotient), (more, rest))
        )

    def vector(self, dims: Sequence[Dim]) -> tuple[str, str]:
        """Expressions as an i32 vector: its name and its type."""
        dims = tuple(dims)
        kind = f"tensor<{len(dims)}xi32>"
        key = ("vector", *(d.key if isinstance(d, SymbolicDim) else d for d in dims))
        if key not in self.known:
            if any(isinstance(d, SymbolicDim) for d in dims):
                parts = [self.row(self.dim(d)) for d in dims]
                self.known[key] = (
                    self.emit(
                        f"stablehlo.concatenate {', '.join(parts)}, dim = 0 : "
                        f"({', '.join(['tensor<1xi32>'] * len(parts))}) -> {kind}"
                    )
                    if len(parts) > 1
                    else parts[0]
                )
            else:
                text = f"[{', '.join(map(str, dims))}]" if dims else ""
                self.known[key] = self.emit(f"stablehlo.constant dense<{text}> : {kind}")
        return self.known[key], kind

    def row(self, scalar: str) -> str:
        return self.emit(f"stablehlo.reshape {scalar} : ({_I32}) -> tensor<1xi32>")

    # -- variables from the shapes of arguments --------------------------------------------------------

    def _solve(self) -> None:
        for step in self.equations.steps:
            self._assert_solved(step)
        for e, place, why in self.equations.further_checks():
            have, want = self._size(*place), self.dim(e)
            self._assert(self.compare("EQ", have, want), why, [have, want])
        for _, e, zero, why in self.equations.checks():
            value = self._computed(e)
            ok = self.compare("EQ" if zero else "GE", value, self.number(0))
            self._assert(ok, why, [value])

    def _assert_solved(self, step) -> None:
        i, d = step.place
        size = self._size(i, d)
        rest = size if not step.rest else self._binary("subtract", size, self.dim(step.rest))
        if abs(step.coefficient) != 1:
            by = self.number(step.coefficient)
            left = self._binary("remainder", rest, by)
            self._assert(self.compare("EQ", left, self.number(0)), step.indivisible, [left])
            value = self._binary("divide", rest, by)
        else:
            value = (
                rest if step.coefficient == 1 else self.emit(f"stablehlo.negate {rest} : {_I32}")
            )
        self.known[Factor(step.variable).key] = value
        self._assert(self.compare("GE", value, self.number(1)), step.too_small, [value])

    def _size(self, i: int, d: int) -> str:
        kind = _plain(tensor_type(self.in_avals[i]))
        return self.emit(f"stablehlo.get_dimension_size %arg{i}, dim = {d} : ({kind}) -> {_I32}")

    def _assert(self, ok: str, message: str, values: Sequence[str]) -> None:
        operands, types = ", ".join([ok, *values]), ", ".join(["tensor<i1>", *[_I32] * len(values)])
        self.prologue.append(
            f"    stablehlo.custom_call @shape_assertion({operands}) {{api_version = 2 : i32, error_message = "
            f'"{escape(message)}", has_side_effect = true}} : ({types}) -> ()'
        )

    # -- operations ------------------------------------------------------------------------------------

    def _line(self, line: str) -> list[str]:
        found = re.search(_CALL, line)
        if found is not None and found[1] in self.takes:
            dims = [self.dim_variable(v) for v in self.variables]
            operands = ", ".join([*dims, *filter(None, [found[2]])])
            after = line[found.end() :]
            types = ", ".join([_I32] * len(dims)) + ("" if after.startswith(")") else ", ")
            line = f"{line[: found.start()]}func.call @{found[1]}({operands}){found[3]} : ({types}{after}"
        if OPEN not in line:
            return [line]
        line, location = _without_location(line)
        parsed = re.match(_OPERATION, line)
        rewrite = _rewrites.get(parsed[3]) if parsed else None
        if rewrite is not None:
            indent, result, op, rest = parsed.groups()
            operation = _Operation(self, indent, result, op, rest, location)
            if rewrite(operation):
                return operation.lines
        return [_plain(line) + location]

    def _reduce_window(self, line: str, following: Iterator[str]) -> list[str]:
        """A reduction over windows, whose reducer is a region on the following lines."""
        region: list[str] = []
        for inner in following:
            if inner.strip().startswith("})"):
                break
            region.append(inner)
        end, location = _without_location(inner.strip())
        window = line[: line.rindex("({")]
        indent, result, op, rest = re.match(_OPERATION, window).groups()
        o = _Operation(self, indent, result, op, rest + end.removeprefix("})"), location)
        names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        given = [o.attribute(name) for name in names]
        padding = [
            [self.parse(part) for part in split_list(pair.strip("[]"))]
            for pair in split_list(re.search(r"padding = dense<\[(.*?)\]> :", rest)[1])
        ]
        if not any(isinstance(d, SymbolicDim) for ds in [*given, *padding] for d in ds):
            return [
                *self._line(line),
                *(part for r in region for part in self._line(r)),
                *self._line(inner),
            ]
        ones = [1] * len(padding)
        names, kinds = zip(*(self.vector(ds or ones) for ds in given))
        pads, _ = self.vector([d for pair in padding for d in pair])
        square = f"tensor<{len(padding)}x2xi32>"
        pads = self.emit(f"stablehlo.reshape {pads} : (tensor<{2 * len(padding)}xi32>) -> {square}")
        types, out = re.fullmatch(r" : \((.*)\) -> (.*)", end.removeprefix("})")).groups()
        reducer = f"{self.name}_reducer{len(self.reducers)}"
        arguments = re.search(r"\^bb0\((.*)\):", region[0])[1]
        kind = arguments.rsplit(": ", 1)[1]
        lines = [x.replace("stablehlo.return", "return") for x in region[1:]]
        self.reducers.append(
            "\n".join(
                [f"  func.func private @{reducer}({arguments}) -> ({kind}) {{", *lines, "  }"]
            )
        )
        operands = re.match(r'"?\((.*?)\) <', rest)[1]
        return [
            _plain(
                f"{indent}{result} = stablehlo.custom_call @stablehlo.dynamic_reduce_window({operands}, {', '.join(names)}, {pads}) "
                f"{{api_version = 2 : i32, called_computations = [@{reducer}]}} : ({types}, {', '.join(kinds)}, {square}) -> {out}"
            )
            + location
        ]

    def dim_variable(self, name: str) -> str:
        return self._factor(Factor(name))

    def parse(self, text: str) -> Dim:
        """An expression, as it stands between marks or as a number."""
        return self.equations.scope.parse(text.strip().strip(OPEN + CLOSE))

    def shape(self, tensor: str) -> list[Dim]:
        """The dimensions of a type as marks spell it."""
        inner = tensor.strip().removeprefix("tensor<").removesuffix(">")
        dims = []
        while found := re.match(f"(?:{OPEN}([^{CLOSE}]*){CLOSE}|(\\d+))x", inner):
            dims.append(self.parse(found[1]) if found[1] else int(found[2]))
            inner = inner[found.end() :]
        return dims


def _plain(text: str) -> str:
    """Text with `?` for every mark of a type; a mark elsewhere is a size that the operation needs as a constant."""
    left = re.sub(f"(?<=[<x]){OPEN}[^{CLOSE}]*{CLOSE}(?=x)", "?", text)
    found = re.search(_MARK, left)
    if found is not None:
        operation = re.match(_OPERATION, text)
        raise NotImplementedError(
            f"{operation[3] if operation else 'this operation'} needs {found[1]} as a constant, which is a symbolic dimension: there is no "
            f"dynamic form of it in StableHLO. Export with that dimension fixed, or compute with operations that have one."
        )
    return left


def _without_location(line: str) -> tuple[str, str]:
    at = line.find(' loc("')
    return (line, "") if at < 0 else (line[:at], line[at:])


def plain_types(text: str) -> str:
    """A type with `?` for symbolic dimensions."""
    return re.sub(_MARK, "?", text)


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


class _Operation:
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
        self.lines.append(f"{self.indent}{self.result} = {_plain(text)}{self.location}")
        return True


def _broadcast_in_dim(o: _Operation) -> bool:
    head, (operand,), result = o.types()
    x, dims = split_list(head)[0], head[head.index(", dims") :]
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(
        f"stablehlo.dynamic_broadcast_in_dim {x}, {shape}{dims} : ({operand}, {kind}) -> {result}"
    )


def _iota(o: _Operation) -> bool:
    dim, result = o.rest.split(" : ")
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(f"stablehlo.dynamic_iota {shape},{dim} : ({kind}) -> {result}")


def _reshape(o: _Operation) -> bool:
    x, (operand,), result = o.types()
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(f"stablehlo.dynamic_reshape {x}, {shape} : ({operand}, {kind}) -> {result}")


def _constant(o: _Operation) -> bool:
    value, result = re.fullmatch(r"\s*dense<(.*)> : (tensor<.*>)", o.rest).groups()
    if OPEN not in result:  # dimensions as values
        element = result.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]
        if value.startswith("["):
            name, kind = o.function.vector([o.function.parse(v) for v in split_list(value[1:-1])])
        else:
            name, kind = o.function.dim(o.function.parse(value)), _I32
        return o.write(f"stablehlo.convert {name} : ({kind}) -> {kind.replace('i32', element)}")
    element = re.sub(f"(?:{OPEN}[^{CLOSE}]*{CLOSE}|\\d+)x", "", result)
    scalar = o.before(f"stablehlo.constant dense<{value}> : {element}")
    shape, kind = o.function.vector(o.function.shape(result))
    return o.write(
        f"stablehlo.dynamic_broadcast_in_dim {scalar}, {shape}, dims = [] : ({element}, {kind}) -> {result}"
    )


def _slice(o: _Operation) -> bool:
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


def _dynamic_slice(o: _Operation) -> bool:
    head, types, result = o.types()
    sizes = o.attribute("sizes")
    if not any(isinstance(n, SymbolicDim) for n in sizes):
        return False
    x, *starts = split_list(head[: head.index(", sizes")])
    f, rows = o.function, []
    for start, kind, n, size in zip(starts, types[1:], f.shape(types[0]), sizes):
        unsigned = "ui" in kind
        if kind != _I32:
            if unsigned or "i64" in kind:  # before it is narrowed
                most = o.before(f"stablehlo.convert {f.dim(n)} : ({_I32}) -> {kind}")
                start = o.before(f"stablehlo.minimum {start}, {most} : {kind}")
            start = o.before(f"stablehlo.convert {start} : ({kind}) -> {_I32}")
        last = f.dim(subtract(n, size))
        start = o.before(f"stablehlo.clamp {f.number(0)}, {start}, {last} : {_I32}")
        rows.append(o.before(f"stablehlo.reshape {start} : ({_I32}) -> tensor<1xi32>"))
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


def _pad(o: _Operation) -> bool:
    head, types, result = o.types()
    configs = [o.attribute(name) for name in ("low", "high", "interior")]
    if not any(isinstance(n, SymbolicDim) for config in configs for n in config):
        return False
    x, value = split_list(head)[:2]
    names, kinds = zip(*map(o.function.vector, configs))
    return o.write(
        f"stablehlo.dynamic_pad {x}, {value}, {', '.join(names)} : ({', '.join([*types, *kinds])}) -> {result}"
    )


def _gather(o: _Operation) -> bool:
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


def _custom_call(o: _Operation) -> bool:
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
        _plain(
            f'{o.indent}{o.result}{count} = "stablehlo.custom_call"({", ".join([*filter(None, [operands]), *names])}) '
            f"{{{attributes}, indices_of_shape_operands = dense<[{places}]> : tensor<{len(names)}xi64>}} : "
            f"({', '.join([*types, *kinds])}) -> {result}"
        )
        + o.location
    )
    return True


def _convolution(o: _Operation) -> bool:
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


def _top_k(o: _Operation) -> bool:
    found = re.fullmatch(r"\((%\S+), k = (.*)\) : (\S+) -> \((.*)\)", o.rest)
    k = o.function.parse(found[2])
    if not isinstance(k, SymbolicDim):
        return False
    o.lines.append(
        f"{o.indent}{o.result}:2 = stablehlo.custom_call @stablehlo.dynamic_top_k({found[1]}, {o.function.dim(k)}) "
        f"{{api_version = 2 : i32}} : ({plain_types(found[3])}, {_I32}) -> ({plain_types(found[4])}){o.location}"
    )
    return True


def _rng_bit_generator(o: _Operation) -> bool:
    found = re.fullmatch(r" (%\S+), algorithm = +(\w+) : \((.*)\) -> \((.*)\)", o.rest)
    results = split_list(found[4])
    shape, kind = o.function.vector(o.function.shape(results[1]))
    o.lines.append(
        f"{o.indent}{o.result}:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator({found[1]}, {shape}) "
        f"{{api_version = 2 : i32, rng_algorithm = #stablehlo<rng_algorithm {found[2]}>}} : ({found[3]}, {kind}) -> "
        f"({', '.join(map(plain_types, results))}){o.location}"
    )
    return True


_rewrites: dict[str, Callable[[_Operation], bool]] = {
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
