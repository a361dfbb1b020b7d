"""Scopes of dimension variables: their names, what is known of them, and how shapes are read from text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from xlab.core.dim_bounds import bounds, factor_bounds
from xlab.core.dim_values import evaluate
from xlab.core.dims import (
    Dim,
    Factor,
    SymbolicDim,
    add,
    build,
    divide_monomials,
    floor_divide,
    max_dim,
    min_dim,
    modulo,
    multiply,
    subtract,
    terms_of,
    variable,
)

_TOKEN = re.compile(r"\s*(?:(\d+\.\d+)|(\d+)|([A-Za-z_]\w*)|(\.\.\.|//|\*\*|>=|<=|==|.))")
_FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "floordiv": floor_divide,
    "floor_div": floor_divide,
    "mod": modulo,
    "max": max_dim,
    "min": min_dim,
    "non_negative": lambda x: max_dim(x, 0),
}
_ROUNDS = 4


class SymbolicScope:
    """Dimension variables that belong together, and the constraints that hold for them.

    Every variable is at least 1. Dimensions of different scopes cannot be combined, so all symbolic shapes of a program are made
    in one scope.

    Args:
        constraints_str: comparisons with `>=`, `<=` or `==`, such as `"a >= 2*b"`, `"mod(a, 8) == 0"`. The left side of an equality is
            a product, which is replaced by the right side.

    Raises:
        ValueError: a constraint cannot be read, or no values fulfil it.

    Example:
        >>> from xlab.export import symbolic_shape
        >>> scope = SymbolicScope(["a >= 4", "mod(a, 2) == 0"])
        >>> a, = symbolic_shape("a", scope=scope)
        >>> a - 4 >= 0, a % 2
        (True, 0)
    """

    def __init__(self, constraints_str: Sequence[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(
                f"the constraints of symbolic dimensions are a sequence of texts, such as ['{constraints_str}'], got the text "
                f"{constraints_str!r}"
            )
        self.constraints: tuple[str, ...] = tuple(constraints_str)
        self.equalities: dict[Any, tuple[int, Dim]] = {}
        self.facts: list[SymbolicDim] = []
        # Text, expression, whether it is to be zero (or else at least zero).
        self.checks: list[tuple[str, SymbolicDim, bool]] = []
        self.factor_ranges: dict[tuple, tuple[float, float]] = {}
        self.known_bounds: dict[tuple, tuple[float, float]] = {}
        self.made_at = _caller()
        for text in self.constraints:
            self._add(text)
        if self.equalities:  # of what is replaced no fact is needed
            self.known_bounds.clear()
            facts = [build(terms_of(fact), self) for fact in self.facts]
            self.facts = [fact for fact in facts if isinstance(fact, SymbolicDim)]
        self._propagate()

    def __repr__(self):
        known = f" with constraints: {', '.join(self.constraints)}" if self.constraints else ""
        return f"symbolic scope made at {self.made_at}{known}"

    def __reduce__(self):
        return SymbolicScope, (self.constraints,)

    def parse(self, text: str) -> Dim:
        """The dimension that a text stands for."""
        (dim,) = parse_shape(text, self)
        return dim

    def bounds(self, e: Dim) -> tuple[float, float]:
        """The least and the largest value of an expression, as far as they can be found."""
        return bounds(e, self)

    def rewritten(self, terms: dict) -> dict:
        """Terms after the replacements that the equality constraints ask for."""
        for _ in range(_ROUNDS * (1 + len(self.equalities))):
            found = self._replacement(terms)
            if found is None:
                break
            terms = found
        return terms

    def _replacement(self, terms: dict) -> dict | None:
        for monomial, c in terms.items():
            for replaced, (k, value) in self.equalities.items():
                rest = divide_monomials(monomial, replaced) if c % k == 0 else None
                if rest is None:
                    continue
                out = {m: d for m, d in terms.items() if m != monomial}
                for m, d in terms_of(value).items():
                    powers = dict(rest)
                    for f, p in m:
                        powers[f] = powers.get(f, 0) + p
                    product = tuple(sorted(powers.items(), key=lambda item: item[0].key))
                    out[product] = out.get(product, 0) + d * c // k
                return {m: d for m, d in out.items() if d}
        return None

    def _add(self, text: str) -> None:
        found = re.fullmatch(r"\s*(.*?)\s*(>=|<=|==)\s*(.*?)\s*", text)
        if found is None:
            raise ValueError(
                f"Constraint parsing error: {text!r} must contain one of '==' or '>=' or '<=', as in 'a >= 8' or 'mod(a, 2) == 0'"
            )
        left, right = (parse_shape(side, self, what="constraint") for side in (found[1], found[3]))
        if len(left) != 1 or len(right) != 1:
            raise ValueError(f"Constraint parsing error: {text!r} must compare two dimensions")
        a, b = left[0], right[0]
        difference = subtract(b, a) if found[2] == "<=" else subtract(a, b)
        if not isinstance(difference, SymbolicDim):
            if difference < 0 or (found[2] == "==" and difference):
                raise ValueError(f"Unsatisfiable explicit constraint: {text}")
            return
        self.checks.append((text, difference, found[2] == "=="))
        if found[2] != "==":
            self.facts.append(difference)
            return
        terms = terms_of(a)
        if len(terms) != 1 or not isinstance(a, SymbolicDim):
            raise ValueError(
                f"Invalid equality constraint: {text}. The left-hand-side must be of the form `term * coefficient`, such as a, 2*a or "
                f"mod(a, 2), which the right-hand-side replaces."
            )
        ((monomial, k),) = terms.items()
        variable_of_one = len(monomial) == 1 and not monomial[0][0].operands and k == 1
        self.facts += [difference, multiply(-1, difference)]
        self._add_equality(a, b)
        if variable_of_one and isinstance(b, SymbolicDim):
            self.facts.append(subtract(b, 1))
        if len(monomial) == 1 and k == 1 and monomial[0][0].name == "mod" and b == 0:
            n, d = monomial[0][0].operands
            if not isinstance(d, SymbolicDim):  # then d*floordiv(n, d) is n
                whole = multiply(d, build({((Factor("floordiv", (n, d)), 1),): 1}, self))
                if isinstance(whole, SymbolicDim):
                    self._add_equality(whole, n)

    def _add_equality(self, a: SymbolicDim, b: Dim) -> None:
        ((monomial, k),) = a.terms
        if any(divide_monomials(m, monomial) is not None for m in terms_of(b)):
            return  # it would replace itself without end
        self.equalities[monomial] = (abs(k), b if k > 0 else multiply(-1, b))

    def _propagate(self) -> None:
        """Ranges of variables and operations from the constraints: what the others leave to each."""
        for _ in range(_ROUNDS):
            for fact in self.facts:
                for monomial, c in fact.terms:
                    if len(monomial) != 1 or monomial[0][1] != 1:
                        continue
                    # c*f + rest >= 0
                    rest = subtract(fact, build({monomial: c}, self))
                    most = bounds(rest, self, 1)[1]
                    if most == float("inf"):
                        continue
                    f = monomial[0][0]
                    low, high = factor_bounds(f, self, 1)
                    if c > 0:
                        low = max(low, -(most // c))
                    else:
                        high = min(high, most // -c)
                    if low > high:
                        raise ValueError(
                            f"Unsatisfiable constraints {', '.join(self.constraints)}: they leave no value for {f}, which would "
                            f"be at least {low} and at most {high}"
                        )
                    if (low, high) != self.factor_ranges.get(f.key):
                        self.factor_ranges[f.key] = (low, high)
                        self.known_bounds.clear()

    def violated(self, env: Mapping[str, int]) -> list[tuple[str, Dim, bool, int]]:
        """The constraints that do not hold for values of the variables: text, expression, whether it is to be zero, its value."""
        found = []
        for text, e, zero in self.checks:
            if not e.variables() <= env.keys():
                continue  # of a variable that another has replaced
            value = evaluate(e, env)
            if (value != 0) if zero else (value < 0):
                found.append((text, e, zero, value))
        return found


def _caller() -> str:
    """The line outside of this package that makes a scope."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("xlab."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple:
    """The shape that a text stands for: numbers, and expressions of dimension variables.

    Expressions are made of names, integers, `+`, `-`, `*`, `^` with a number, `floordiv(x, y)` or `x // y`, `mod(x, y)` or `x % y`,
    `max(x, y)`, `min(x, y)` and `non_negative(x)`. Every variable is at least 1.

    Args:
        shape_spec: dimensions as text, such as `"b, 2*n + 1"`; None means `"..."`.
        constraints: what holds of the dimensions, as text: see `SymbolicScope`. Not together with `scope`.
        scope: the scope of the variables, if other shapes of the program have one already.
        like: a known shape, whose dimensions stand where the text says `_`, or `...` for several.

    Returns:
        A tuple of ints and symbolic dimensions.

    Raises:
        ValueError: the text cannot be read, or contradicts `like`.

    Example:
        >>> symbolic_shape("b, 2*n, ...", like=(None, None, 3))
        (b, 2*n, 3)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError(
            "symbolic_shape takes either `scope` or `constraints`: a scope has its constraints already, made with "
            "SymbolicScope(constraints)"
        )
    return parse_shape("..." if shape_spec is None else shape_spec, scope, like=like)


def parse_shape(text: str, scope: SymbolicScope, *, like: Any = None, what: str = "shape") -> tuple:
    """Reads dimensions, separated by commas."""
    return _Reader(text, scope, like, what).shape()


class _Reader:
    """Recursive descent over the tokens of a shape."""

    def __init__(self, text: str, scope: SymbolicScope, like: Any, what: str):
        self.text, self.scope, self.like, self.what = text, scope, like, what
        self.tokens: list[tuple[int, str, int]] = []
        at, stripped = 0, text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            assert (
                found is not None and found.lastindex is not None
            )  # the last alternative is any character
            self.tokens.append(
                (found.start(found.lastindex), found[found.lastindex], found.lastindex)
            )
            at = found.end()
        self.at = 0
        self.dims: list[Dim] = []
        if self._enclosed():
            self.tokens = self.tokens[1:-1]

    def _enclosed(self) -> bool:
        """Whether brackets stand around the whole."""
        depth = 0
        for i, (_, token, _) in enumerate(self.tokens):
            depth += (token in "([") - (token in ")]")
            if depth == 0:
                return i > 0 and i == len(self.tokens) - 1
        return False

    def _fail(self, why: str) -> NoReturn:
        at = self.tokens[self.at][0] if self.at < len(self.tokens) else len(self.text)
        raise ValueError(
            f"syntax error in symbolic {self.what} {self.text!r} in dimension {len(self.dims)}: {why}. Parsed "
            f"{self.text[:at]!r}, remaining {self.text[at:]!r}."
        )

    def _next(self) -> str | None:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def _take(self, *tokens: str) -> str | None:
        if self._next() in tokens:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._fail(f"expected {token!r} but found {self._next() or 'the end'!r}")

    def shape(self) -> tuple:
        while self.at < len(self.tokens):
            self._dimension()
            if self.at < len(self.tokens):
                self._expect(",")
        return tuple(self.dims)

    def _dimension(self) -> None:
        place = self._next()
        if place in ("...", "_"):
            if self.like is None:
                self._fail(
                    f"{place} stands for dimensions of a known shape, and no `like` was given"
                )
            self.at += 1
            if place == "_":
                self.dims.append(self._known(len(self.dims)))
                return
            after = 0 if self._next() is None else 1 + self._commas()
            stop = len(self.like) - after + (1 if self._next() == "," else 0)
            while len(self.dims) < stop:
                self.dims.append(self._known(len(self.dims)))
            if self._next() not in (",", None):
                self._fail("'...' stands for whole dimensions")
            return
        dim = self._sum()
        known = self.like[len(self.dims)] if self.like and len(self.dims) < len(self.like) else None
        if isinstance(dim, int) and isinstance(known, int) and dim != known:
            self._fail(f"different size {dim} for known dimension; like={tuple(self.like)}")
        self.dims.append(dim)

    def _commas(self) -> int:
        """Commas outside of brackets that are left, a last one not counted."""
        depth = count = 0
        for i, (_, token, _) in enumerate(self.tokens[self.at :], self.at):
            depth += (token == "(") - (token == ")")
            count += token == "," and depth == 0 and i < len(self.tokens) - 1
        return count

    def _known(self, i: int) -> Dim:
        if i >= len(self.like) or self.like[i] is None:
            self._fail(f"dimension {i} of like={tuple(self.like)} is not known")
        return self.like[i]

    def _sum(self) -> Dim:
        total = self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            total = add(total, term) if sign == "+" else subtract(total, term)
        return total

    def _product(self) -> Dim:
        if self._take("-"):
            return multiply(-1, self._product())
        product = self._power()
        while symbol := self._take("*", "//", "%"):
            by = self._power()
            product = {"*": multiply, "//": floor_divide, "%": modulo}[symbol](product, by)
        return product

    def _power(self) -> Dim:
        base = self._atom()
        if not self._take("^", "**"):
            return base
        if self.at == len(self.tokens) or self.tokens[self.at][2] != 2:
            self._fail(f"expected a number as power but found {self._next() or 'the end'!r}")
        self.at += 1
        return base ** int(self.tokens[self.at - 1][1])

    def _atom(self) -> Dim:
        if self._take("-"):
            return multiply(-1, self._atom())
        if self._take("("):
            inner = self._sum()
            self._expect(")")
            return inner
        token = self._next()
        if token is None:
            self._fail("expected a name, a number or an operation but found 'the end'")
        kind = self.tokens[self.at][2]
        if kind == 1:
            self._fail(f"expected an integer, found {token}")
        if kind == 2:
            self.at += 1
            return int(token)
        if kind != 3 or token == "_":
            self._fail(f"expected a name, a number or an operation but found {token!r}")
        self.at += 1
        if self._next() != "(":
            return variable(token, self.scope)
        function = _FUNCTIONS.get(token)
        if function is None:
            self.at -= 1
            self._fail(f"{token} is none of the operations {', '.join(_FUNCTIONS)}")
        self.at += 1
        operands = [self._sum()]
        if token != "non_negative":
            self._expect(",")
            operands.append(self._sum())
        self._expect(")")
        return function(*operands)
