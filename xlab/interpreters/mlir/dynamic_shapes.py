"""Programs with symbolic dimensions as StableHLO whose shapes are dynamic.

Lowering rules know nothing of this: they write a symbolic dimension as its expression between marks, `tensor<⟨2*b⟩x3xf32>`, and a
shape in an attribute likewise. Afterwards each operation with such a mark is rewritten. In types the mark becomes `?`; operations
whose attributes state a shape become the dynamic ones, which take it as an operand. `main` computes the variables from the shapes
of its arguments and checks what has to hold; other functions get them as leading arguments, which is what shape refinement wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from xlab.backend.values import fresh, record_class
from xlab.core.avals import ShapedArray
from xlab.core.dim_equations import Equations
from xlab.core.dims import (
    CLOSE,
    OPEN,
    Dim,
    Factor,
    SymbolicDim,
    spelling,
)
from xlab.interpreters.mlir.dynamic_operations import (
    I32,
    OPERATION,
    RewrittenLine,
    plain,
    rewrites,
    split_list,
)
from xlab.interpreters.mlir.values import escape, tensor_type

# Compiled when they are first used, as few programs have symbolic dimensions.
_FUNCTION = r"^(\s*func\.func (?:public|private) @([\w.$-]+)\()(.*)"
_CALL = r"func\.call @([\w.$-]+)\(([^)]*)\)(.*?) : \("
_CALLED = r"@([\w.$-]+)"


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


@record_class
class _Function:
    """One function on its way from marks to dynamic operations."""

    source: str
    name: str
    variables: Sequence[str]
    takes: set[str]
    in_avals: Sequence[ShapedArray]
    equations: Equations
    prologue: list[str] = fresh(factory=list)
    known: dict = fresh(factory=dict)
    count: int = 0
    reducers: list[str] = fresh(factory=list)  # functions of their own

    def text(self) -> str:
        header, *lines = self.source.split("\n")
        start, _, rest = re.match(_FUNCTION, header).groups()
        if self.name == "main":
            self._solve()
        else:
            arguments = [f"%dim_{v}: {I32}" for v in self.variables]
            rest = ", ".join(arguments) + (", " if not rest.startswith(")") else "") + rest
            self.known.update({Factor(v).key: f"%dim_{v}" for v in self.variables})
        body: list[str] = []
        left = iter(lines)
        for line in left:
            if "stablehlo.reduce_window" in line and OPEN in line:
                body += self._reduce_window(line, left)
            else:
                body += self._line(line)
        return "\n".join([plain(start + rest), *self.prologue, *body, *self.reducers])

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
            self.known["n", n] = self.emit(f"stablehlo.constant dense<{n}> : {I32}")
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
        return self.emit(f"stablehlo.{op} {a}, {b} : {I32}")

    def compare(self, direction: str, a: str, b: str) -> str:
        return self.emit(
            f"stablehlo.compare {direction}, {a}, {b}, SIGNED : ({I32}, {I32}) -> tensor<i1>"
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
            self.emit(f"stablehlo.select {off}, {x}, {y} : tensor<i1>, {I32}")
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
        return self.emit(f"stablehlo.reshape {scalar} : ({I32}) -> tensor<1xi32>")

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
            value = rest if step.coefficient == 1 else self.emit(f"stablehlo.negate {rest} : {I32}")
        self.known[Factor(step.variable).key] = value
        self._assert(self.compare("GE", value, self.number(1)), step.too_small, [value])

    def _size(self, i: int, d: int) -> str:
        kind = plain(tensor_type(self.in_avals[i]))
        return self.emit(f"stablehlo.get_dimension_size %arg{i}, dim = {d} : ({kind}) -> {I32}")

    def _assert(self, ok: str, message: str, values: Sequence[str]) -> None:
        operands, types = ", ".join([ok, *values]), ", ".join(["tensor<i1>", *[I32] * len(values)])
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
            types = ", ".join([I32] * len(dims)) + ("" if after.startswith(")") else ", ")
            line = f"{line[: found.start()]}func.call @{found[1]}({operands}){found[3]} : ({types}{after}"
        if OPEN not in line:
            return [line]
        line, location = _without_location(line)
        parsed = re.match(OPERATION, line)
        rewrite = rewrites.get(parsed[3]) if parsed else None
        if rewrite is not None:
            indent, result, op, rest = parsed.groups()
            operation = RewrittenLine(self, indent, result, op, rest, location)
            if rewrite(operation):
                return operation.lines
        return [plain(line) + location]

    def _reduce_window(self, line: str, following: Iterator[str]) -> list[str]:
        """A reduction over windows, whose reducer is a region on the following lines."""
        region: list[str] = []
        for inner in following:
            if inner.strip().startswith("})"):
                break
            region.append(inner)
        end, location = _without_location(inner.strip())
        window = line[: line.rindex("({")]
        indent, result, op, rest = re.match(OPERATION, window).groups()
        o = RewrittenLine(self, indent, result, op, rest + end.removeprefix("})"), location)
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
            plain(
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


def _without_location(line: str) -> tuple[str, str]:
    at = line.find(' loc("')
    return (line, "") if at < 0 else (line[:at], line[at:])
