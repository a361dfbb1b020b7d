"""Values of dimension variables from the shapes of arguments.

A symbolic shape of an argument and the shape that it has give an equation for each dimension. Those that are linear in one variable
that is not known yet, such as `2*a + b == 7` once `b` is known, are solved one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlab.backend.values import value_class
from xlab.core.dim_values import evaluate
from xlab.core.dims import (
    Dim,
    Factor,
    SymbolicDim,
    build,
    compared,
    floor_divide,
    modulo,
    subtract,
    variables_of,
)


@value_class
class VariableSolution:
    """How one variable is found: `coefficient * variable + rest` is a dimension of an argument."""

    variable: str
    coefficient: int
    rest: Dim
    place: tuple[int, int]  # of the argument, and of its dimension
    indivisible: str  # what is said where the quotient is no integer
    too_small: str


class Equations:
    """The equations between symbolic shapes of arguments and shapes that are given.

    Args:
        shapes: shapes of the arguments, with numbers and expressions of one scope.
        names: what the arguments are called in messages, such as `args[0]`.

    Raises:
        ValueError: some variable cannot be found from the shapes.
    """

    def __init__(self, shapes: Sequence[tuple], names: Sequence[str] | None = None):
        self.shapes = tuple(map(tuple, shapes))
        self.names = tuple(names or (f"args[{i}]" for i in range(len(shapes))))
        symbolic = [
            (d, (i, k))
            for i, shape in enumerate(self.shapes)
            for k, d in enumerate(shape)
            if isinstance(d, SymbolicDim)
        ]
        self.scope = symbolic[0][0].scope if symbolic else None
        self.specification = ", ".join(
            f"{name}.shape = {_shape_text(shape)}"
            for name, shape in zip(self.names, self.shapes)
            if any(isinstance(d, SymbolicDim) for d in shape)
        )
        self.variables: set[str] = set().union(*(d.variables() for d, _ in symbolic))
        self.steps: list[VariableSolution] = []
        self.further: list[tuple[Dim, tuple[int, int]]] = []  # that say the same again
        self._order(symbolic)

    def _order(self, symbolic: Sequence[tuple[SymbolicDim, tuple[int, int]]]) -> None:
        known: set[str] = set()
        left = list(symbolic)
        while left:
            for item in left:
                e, place = item
                step = self._step(e, place, known)
                if step is not None:
                    left.remove(item)
                    self.steps.append(step)
                    known.add(step.variable)
                    break
                if e.variables() <= known:
                    left.remove(item)
                    self.further.append(item)
                    break
            else:
                missing = sorted(set().union(*(e.variables() for e, _ in left)) - known)
                unused = ", ".join(
                    f"'{e.text()}' for dimension size {self._name(p)}" for e, p in left
                )
                raise ValueError(
                    f"Cannot solve for values of dimension variables {{{', '.join(map(repr, missing))}}}. We can only solve linear uni-variate "
                    f"constraints. {self._using()} Unprocessed specifications: {unused}. Let each variable be a dimension of its "
                    f"own in some argument, such as symbolic_shape('{', '.join(missing)}')."
                )

    def _name(self, place: tuple[int, int]) -> str:
        return f"{self.names[place[0]]}.shape[{place[1]}]"

    def _using(self) -> str:
        return f"Using the following polymorphic shapes specifications: {self.specification}."

    def _step(
        self, e: SymbolicDim, place: tuple[int, int], known: set[str]
    ) -> VariableSolution | None:
        unknown = e.variables() - known
        if len(unknown) != 1:
            return None
        (name,) = unknown
        mine = [(m, c) for m, c in e.terms if any(name in _names(f) for f, _ in m)]
        if (
            len(mine) != 1
            or len(mine[0][0]) != 1
            or mine[0][0][0][1] != 1
            or mine[0][0][0][0].operands
        ):
            return None
        ((monomial, c),) = mine
        rest = build({m: k for m, k in e.terms if m != monomial}, e.scope)
        said = "Input shapes do not match the polymorphic shapes specification."
        return VariableSolution(
            name, c, rest, place,
            f"{said} Division had remainder {{0}} when computing the value of '{name}' from '{e.text()}' for dimension "
            f"{self._name(place)}. {self._using()}",
            f"{said} Expected value >= 1 for dimension variable '{name}', but found {{0}} from '{e.text()}' for dimension "
            f"{self._name(place)}. {self._using()}",
        )  # fmt: skip

    def checks(self) -> list[tuple[str, SymbolicDim, bool, str]]:
        """What has to hold of the variables besides: a text, an expression, whether it is to be zero, and what is said otherwise."""
        found: list[tuple[str, SymbolicDim, bool, str]] = []
        if self.scope is None:
            return found
        for text, e, zero in self.scope.checks:
            if e.variables() <= self.variables:
                found.append((text, e, zero, (
                    f"Input shapes do not match the symbolic shape constraint {text}. Expected '{e.text()}' to be "
                    f"{'equal' if zero else 'greater or equal'} to 0, but found {{0}}. {self._using()}"
                )))  # fmt: skip
        return found

    def further_checks(self) -> list[tuple[SymbolicDim, tuple[int, int], str]]:
        """Dimensions that say again what is known: an expression, where it stands, and what is said where the sizes differ."""
        return [
            (e, place, (
                f"Input shapes do not match the polymorphic shapes specification. Found inconsistency between dimension size "
                f"{self._name(place)} (= {{0}}) and the specification '{e.text()}' (= {{1}}). {self._using()}"
            ))
            for e, place in self.further
        ]  # fmt: skip

    def solve(self, shapes: Sequence[tuple]) -> dict[str, Dim]:
        """The values of the variables for shapes of the arguments, which may be symbolic in another scope.

        Raises:
            ValueError: the shapes do not fit.
        """
        env: dict[str, Dim] = {}
        for step in self.steps:
            i, k = step.place
            rest = subtract(shapes[i][k], evaluate(step.rest, env))
            left = modulo(rest, step.coefficient)
            if left != 0:
                raise ValueError(f"{step.indivisible.format(left)}{self._found(env, shapes)}")
            value = env[step.variable] = floor_divide(rest, step.coefficient)
            if compared(value, ">=", 1) is not True:
                raise ValueError(f"{step.too_small.format(value)}{self._found(env, shapes)}")
        for e, (i, k), why in self.further_checks():
            value = evaluate(e, env)
            if value != shapes[i][k]:
                raise ValueError(f"{why.format(shapes[i][k], value)}{self._found(env, shapes)}")
        for _, e, zero, why in self.checks():
            value = evaluate(e, env)
            if not (value == 0 if zero else compared(value, ">=", 0)):
                raise ValueError(f"{why.format(value)}{self._found(env, shapes)}")
        return env

    def _found(self, env: Mapping[str, Dim], shapes: Sequence[tuple]) -> str:
        if not env:
            return ""
        places = {step.variable: step.place for step in self.steps}
        return (
            " Obtained dimension variables: "
            + ", ".join(
                f"'{name}' = {value} from {self._name(places[name])} (= {shapes[places[name][0]][places[name][1]]})"
                for name, value in env.items()
            )
            + "."
        )


def _names(factor: Factor) -> set[str]:
    return set().union(*map(variables_of, factor.operands)) if factor.operands else {factor.name}


def _shape_text(shape: tuple) -> str:
    inner = ", ".join(d.text() if isinstance(d, SymbolicDim) else str(d) for d in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
