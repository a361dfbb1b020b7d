"""What is known of the value of a symbolic dimension: bounds that hold for all values of its variables.

Three means, each sound by itself, whose best is taken:

- interval arithmetic (Moore, *Interval Analysis*, 1966) on the terms;
- facts, which are expressions known to be at least zero: the scope's constraints, and for every operation in the expression what
  defines it, such as `d*floordiv(n, d) <= n`. Adding a multiple of a fact takes a term out, as in Fourier-Motzkin elimination;
- a shift of all variables to their least values, after which a polynomial with positive coefficients grows with each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlab.core.dim_values import evaluate
from xlab.core.dims import Dim, Factor, Monomial, SymbolicDim, add, build, multiply, subtract

if TYPE_CHECKING:
    from xlab.core.dim_scope import SymbolicScope

Interval = tuple[float, float]  # of ints, or infinities
_INF = math.inf
_DEPTH = 4


def bounds(e: Dim, scope: SymbolicScope, depth: int = _DEPTH) -> Interval:
    """The least and the largest value an expression may have, as far as this finds; infinite where it is open."""
    if not isinstance(e, SymbolicDim):
        return e, e
    known = scope.known_bounds.get((e.key, depth))
    if known is None:
        low = _lower(e, scope, depth)
        high = -_lower(multiply(-1, e), scope, depth)
        known = scope.known_bounds[e.key, depth] = (low, high)
    return known


def _product(a: Interval, b: Interval) -> Interval:
    ends = [0 if not x or not y else x * y for x in a for y in b]
    return min(ends), max(ends)


def _monomial(monomial: Monomial, scope: SymbolicScope, depth: int) -> Interval:
    out: Interval = (1, 1)
    for f, power in monomial:
        low, high = factor_bounds(f, scope, depth)
        if power % 2 == 0 and low < 0:  # an even power
            most = max(-low, high)
            ends = (0 if high >= 0 else (-high) ** power, most**power)
        else:
            ends = (low**power, high**power)
        out = _product(out, ends)
    return out


def factor_bounds(f: Factor, scope: SymbolicScope, depth: int = _DEPTH) -> Interval:
    """Bounds of a variable or an operation."""
    low, high = scope.factor_ranges.get(f.key, (1, _INF) if not f.operands else (-_INF, _INF))
    if f.operands and depth > 0:
        found = _operation(f.name, *(bounds(x, scope, depth - 1) for x in f.operands))
        low, high = max(low, found[0]), min(high, found[1])
    return low, high


def _floor(x: float, y: float) -> float:
    """x // y where both may be infinite; `y` is not zero."""
    if math.isinf(x):
        return x if y > 0 else -x
    if math.isinf(y):
        return 0 if x == 0 or (x > 0) == (y > 0) else -1
    return x // y


def _operation(name: str, a: Interval, b: Interval) -> Interval:
    if name == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if name == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    # A divisor of zero has no value, so it is left out of an interval that it ends.
    low, high = (1 if b[0] == 0 else b[0]), (-1 if b[1] == 0 else b[1])
    if low > high or low <= 0 <= high:
        return (-_INF, _INF)
    if name == "floordiv":
        ends = [_floor(x, y) for x in a for y in (low, high)]
        return min(ends), max(ends)
    if low > 0:  # mod of a positive number
        return a if a[0] >= 0 and a[1] < low else (0, min(high - 1, a[1] if a[0] >= 0 else _INF))
    return (low + 1, 0)


def _lower(e: SymbolicDim, scope: SymbolicScope, depth: int) -> float:
    best: float = 0
    open_terms = []
    for monomial, c in e.terms:
        low = _product(_monomial(monomial, scope, depth), (c, c))[0] if monomial else c
        if low == -_INF:
            open_terms.append((monomial, c))
        best += low
    if depth <= 0:
        return best
    split = _split(e)
    if split is not None and depth > 1:
        best = max(best, min(bounds(case, scope, depth - 1)[0] for case in split))
    best = max(best, _shifted(e, scope, depth))
    for fact in (*scope.facts, *_defining(e, scope, depth)):
        given = dict(fact.terms)
        for monomial, c in open_terms or e.terms:
            k = given.get(monomial, 0)
            if not monomial or not k or (k > 0) != (c > 0):
                continue
            # |k| e = |c| fact + rest, and the fact is at least zero.
            rest = subtract(multiply(abs(k), e), multiply(abs(c), fact))
            low = bounds(rest, scope, depth - 1)[0]
            if low > -_INF:
                best = max(best, -((-low) // abs(k)))
    return best


def _split(e: SymbolicDim) -> tuple[Dim, Dim] | None:
    """An expression with a `max` or `min` is one of two without it."""
    for monomial, _ in e.terms:
        for f, _ in monomial:
            if f.name in ("max", "min") and f.operands:
                return _with(e, f, f.operands[0]), _with(e, f, f.operands[1])
    return None


def _with(e: SymbolicDim, factor: Factor, value: Dim) -> Dim:
    """The expression with another value for a factor of its terms."""
    total: Dim = 0
    for monomial, c in e.terms:
        product: Dim = c
        for f, power in monomial:
            product = multiply(
                product, value**power if f == factor else build({((f, power),): 1}, e.scope)
            )
        total = add(total, product)
    return total


def _defining(e: SymbolicDim, scope: SymbolicScope, depth: int) -> list[SymbolicDim]:
    """What the operations in an expression say of themselves: expressions that are at least zero."""
    found: list[Dim] = []
    for monomial, _ in e.terms:
        for f, _ in monomial:
            if not f.operands:
                continue
            x, y = f.operands
            value = build({((f, 1),): 1}, scope)
            if f.name == "max":
                found += [subtract(value, x), subtract(value, y)]
            elif f.name == "min":
                found += [subtract(x, value), subtract(y, value)]
            elif bounds(y, scope, depth - 1)[0] > 0:
                if f.name == "floordiv":
                    rest = subtract(x, multiply(y, value))
                    found += [rest, subtract(subtract(y, 1), rest)]
                else:
                    found.append(subtract(subtract(y, 1), value))
                    if bounds(x, scope, depth - 1)[0] >= 0:
                        found.append(subtract(x, value))
    return [fact for fact in found if isinstance(fact, SymbolicDim)]


def _shifted(e: SymbolicDim, scope: SymbolicScope, depth: int) -> float:
    """The value at the least values of all factors, if the expression grows with each of them."""
    factors = {f for monomial, _ in e.terms for f, _ in monomial}
    least = {f: factor_bounds(f, scope, depth - 1)[0] for f in factors}
    if any(math.isinf(low) for low in least.values()):
        return -_INF
    total: dict[tuple, int] = {}
    for monomial, c in e.terms:
        expanded: dict[tuple, int] = {(): c}
        for f, power in monomial:
            for _ in range(power):  # times (f' + least), with f' >= 0
                grown: dict[tuple, int] = {}
                for m, k in expanded.items():
                    longer = tuple(sorted((*m, f.key)))
                    grown[longer] = grown.get(longer, 0) + k
                    grown[m] = grown.get(m, 0) + k * int(least[f])
                expanded = grown
        for m, k in expanded.items():
            total[m] = total.get(m, 0) + k
    return total.get((), 0) if all(k >= 0 for m, k in total.items() if m) else -_INF


def holds(fact: Dim, env: Mapping[str, int]) -> bool:
    """Whether a constraint, an expression to be at least zero, holds for values of the variables."""
    return evaluate(fact, env) >= 0
