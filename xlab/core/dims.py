"""Symbolic dimensions: sizes that a program leaves open, as integer expressions of named variables.

A `SymbolicDim` stands in a shape where a number would. It is a polynomial with integer coefficients in variables and
operations (`floordiv`, `mod`, `max`, `min`), kept in a normal form, so that two expressions are equal exactly if their
terms are. A result without variables is a plain `int`. What a comparison may conclude is decided in `dim_bounds.py`;
where variables come from, and what is known of them, is their scope's business (`dim_scope.py`).
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlab.errors import InconclusiveDimensionOperation

if TYPE_CHECKING:
    from xlab.core.dim_scope import SymbolicScope

Dim = Any  # an int or a SymbolicDim

# Set by lax/dim_value.py: an expression as an array.
_as_array: Callable[[SymbolicDim], Any] = None  # type: ignore[assignment]


def set_as_array(convert: Callable[[SymbolicDim], Any]) -> None:
    global _as_array
    _as_array = convert


class _Spelling(threading.local):
    """How dimensions are spelled: while a program is lowered, so that they can be found in its text."""

    marked = 0


spelling = _Spelling()
OPEN, CLOSE = "\u27e8", "\u27e9"


class Factor:
    """A variable, or an operation on expressions: what the terms of an expression are products of."""

    __slots__ = ("_hash", "key", "name", "operands")

    def __init__(self, name: str, operands: tuple = ()):
        self.name, self.operands = name, operands
        # Variables come before operations; so the order of printing is that of names.
        self.key: tuple = (1, name, tuple(map(_key, operands))) if operands else (0, name)
        self._hash = hash(self.key)

    def __eq__(self, other):
        return self is other or (isinstance(other, Factor) and self.key == other.key)

    def __hash__(self):
        return self._hash

    def __str__(self):
        return (
            f"{self.name}({', '.join(map(_text, self.operands))})" if self.operands else self.name
        )


Monomial = tuple  # of (factor, power), ordered
_CONSTANT: Monomial = ()


def _monomial_key(monomial: Monomial) -> tuple:
    degree = sum(power for _, power in monomial)
    return degree, len(monomial), tuple((f.key, p) for f, p in monomial)


def _key(e: Dim) -> tuple:
    if isinstance(e, SymbolicDim):
        return e.key
    return (((0, 0, ()), int(e)),)


def _text(e: Dim) -> str:
    return e.text() if isinstance(e, SymbolicDim) else str(e)


def terms_of(e: Dim) -> dict[Monomial, int]:
    """The terms of an expression: coefficient by monomial."""
    if isinstance(e, SymbolicDim):
        return dict(e.terms)
    return {_CONSTANT: int(e)} if e else {}


def build(terms: Mapping[Monomial, int], scope: SymbolicScope) -> Dim:
    """The expression with these terms, after what the scope says is equal."""
    found = {m: c for m, c in terms.items() if c}
    if scope.equalities:
        found = scope.rewritten(found)
    if not found:
        return 0
    if len(found) == 1 and _CONSTANT in found:
        return found[_CONSTANT]
    return SymbolicDim(found, scope)


def variable(name: str, scope: SymbolicScope) -> Dim:
    """The variable of a name, or what the scope says it equals."""
    return build({((Factor(name), 1),): 1}, scope)


def operation(name: str, *operands: Dim) -> Dim:
    """An operation as it stands, without simplification."""
    return build({((Factor(name, operands), 1),): 1}, common_scope(*operands))


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials."""
    powers = dict(a)
    for factor, power in b:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """The quotient of two monomials, None if the second does not divide the first."""
    powers = dict(a)
    for factor, power in b:
        left = powers.get(factor, 0) - power
        if left < 0:
            return None
        powers[factor] = left
    return tuple(item for item in powers.items() if item[1])


def common_scope(*operands: Dim) -> SymbolicScope:
    """The one scope of all symbolic operands."""
    scope: Any = None
    for e in operands:
        if isinstance(e, SymbolicDim):
            if scope is None:
                scope = e.scope
            elif e.scope is not scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: {e} belongs to {e.scope}, and is combined with a dimension of {scope}. "
                    f"Make all dimensions of one program in one scope: symbolic_shape(..., scope=scope)."
                )
    return scope


class SymbolicDim:
    """A size that is an expression of dimension variables; behaves like the integer it stands for.

    Arithmetic with integers and other dimensions gives dimensions, with anything else it gives arrays. Comparisons for order
    answer if the answer is the same for all values of the variables, and raise `InconclusiveDimensionOperation` otherwise; two
    expressions are equal if they are for all values, and different otherwise.

    Example:
        >>> from xlab.export import symbolic_shape
        >>> a, b = symbolic_shape("a, b")
        >>> a * (b + 1) - a, (2 * a) // 2, a + 1 > 0
        (a*b, a, True)
    """

    __slots__ = ("__weakref__", "_hash", "_ordered", "key", "scope", "terms")

    __array_ufunc__ = None  # so that operators of NumPy arrays leave them to those below

    def __init__(self, terms: Mapping[Monomial, int], scope: SymbolicScope):
        ordered = sorted(
            ((_monomial_key(m), c, m) for m, c in terms.items()), key=lambda t: t[0], reverse=True
        )
        self.terms = tuple((m, c) for _, c, m in ordered)
        self.key = tuple((k, c) for k, c, _ in ordered)
        self.scope = scope
        self._hash = hash(self.key)

    # -- as text ---------------------------------------------------------------------------------------

    def text(self) -> str:
        """The expression, as `symbolic_shape` reads it."""
        out = ""
        for monomial, c in self.terms:
            names = [f"{f}^{p}" if p > 1 else str(f) for f, p in monomial]
            size = abs(c)
            if size != 1 or not names:
                names.insert(0, str(size))
            sign = ("- " if c < 0 else "") if not out else (" - " if c < 0 else " + ")
            out += sign + "*".join(names)
        return out

    def __str__(self):
        return f"{OPEN}{self.text()}{CLOSE}" if spelling.marked else self.text()

    __repr__ = __str__

    # -- equality and order ----------------------------------------------------------------------------

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if isinstance(other, SymbolicDim):
            return self is other or (self.scope is other.scope and self.key == other.key)
        if isinstance(other, (int, np.integer)):
            return False  # equal to a number for all values, it would be that number
        return _on_arrays(operator.eq, self, other) if _is_array(other) else NotImplemented

    def __ne__(self, other):
        same = self.__eq__(other)
        if same is NotImplemented or not isinstance(same, bool):
            return (
                NotImplemented if same is NotImplemented else _on_arrays(operator.ne, self, other)
            )
        return not same

    def __bool__(self):
        return True  # different from 0, as long as it is not 0 for all values

    def __ge__(self, other):
        return self._compare(other, ">=", operator.ge)

    def __gt__(self, other):
        return self._compare(other, ">", operator.gt)

    def __le__(self, other):
        return self._compare(other, "<=", operator.le)

    def __lt__(self, other):
        return self._compare(other, "<", operator.lt)

    def _compare(self, other, symbol, op):
        right = as_dim(other)
        if right is None:
            return _on_arrays(op, self, other)
        answer = compared(self, symbol, right)
        if answer is None:
            raise_inconclusive(self, symbol, right)
        return answer

    # -- arithmetic ------------------------------------------------------------------------------------

    def __add__(self, other):
        return _apply(add, operator.add, self, other)

    def __radd__(self, other):
        return _apply(add, operator.add, other, self)

    def __sub__(self, other):
        return _apply(subtract, operator.sub, self, other)

    def __rsub__(self, other):
        return _apply(subtract, operator.sub, other, self)

    def __mul__(self, other):
        return _apply(multiply, operator.mul, self, other)

    def __rmul__(self, other):
        return _apply(multiply, operator.mul, other, self)

    def __floordiv__(self, other):
        return _apply(floor_divide, operator.floordiv, self, other)

    def __rfloordiv__(self, other):
        return _apply(floor_divide, operator.floordiv, other, self)

    def __mod__(self, other):
        return _apply(modulo, operator.mod, self, other)

    def __rmod__(self, other):
        return _apply(modulo, operator.mod, other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __truediv__(self, other):
        return _on_arrays(operator.truediv, self, other)

    def __rtruediv__(self, other):
        return _on_arrays(operator.truediv, other, self)

    def __neg__(self):
        return multiply(-1, self)

    def __pos__(self):
        return self

    def __pow__(self, power):
        if isinstance(power, SymbolicDim) or not isinstance(power, (int, np.integer)):
            return _on_arrays(operator.pow, self, power)
        if power < 0:
            raise ValueError(
                f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{power}'"
            )
        out: Dim = 1
        for _ in range(int(power)):
            out = multiply(out, self)
        return out

    def __rpow__(self, base):
        return _on_arrays(operator.pow, base, self)

    # -- where a number is asked for -------------------------------------------------------------------

    def _constant(self) -> NoReturn:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self.text()}' used in a context that requires a constant: a number known while tracing, such as "
            f"the length of a Python loop or of a NumPy array. Its value is known only when the exported program is called. "
            f"Use a loop of the program instead (lax.fori_loop, lax.scan), compute with x.shape[i] without converting it to a "
            f"Python or NumPy number, or export with that dimension fixed.{_known(self.scope)}"
        )

    def __index__(self):
        self._constant()

    def __int__(self):
        self._constant()

    def __float__(self):
        self._constant()

    def __complex__(self):
        self._constant()

    def __jax_array__(self):
        return _as_array(self)

    def variables(self) -> set[str]:
        """The names of the variables in the expression."""
        return {
            name
            for monomial, _ in self.terms
            for f, _ in monomial
            for name in (
                set().union(*(variables_of(x) for x in f.operands)) if f.operands else {f.name}
            )
        }

    def __reduce__(self):
        return _rebuilt, (self.text(), self.scope)


def _rebuilt(text, scope):
    return scope.parse(text)


def variables_of(e: Dim) -> set[str]:
    """The names of the variables in an expression; none in a number."""
    return e.variables() if isinstance(e, SymbolicDim) else set()


def is_symbolic_dim(p: Any) -> bool:
    """Whether a dimension is an expression of dimension variables.

    Example:
        >>> from xlab.export import symbolic_shape
        >>> [is_symbolic_dim(d) for d in symbolic_shape("2*a, 3")]
        [True, False]
    """
    return isinstance(p, SymbolicDim)


def is_constant_dim(d: Any) -> bool:
    """Whether a dimension is a number."""
    return not isinstance(d, SymbolicDim)


def is_symbolic_shape(shape: Iterable) -> bool:
    """Whether some dimension is an expression."""
    return any(type(d) is SymbolicDim for d in shape)


def as_dim(x: Any) -> Dim | None:
    """`x` if it is an integer or a dimension, otherwise None."""
    if type(x) is int or isinstance(x, SymbolicDim):
        return x
    return int(x) if isinstance(x, (int, np.integer)) and not isinstance(x, np.bool_) else None


def dim_index(x: Any) -> Dim:
    """A size or a position as a number or a dimension: `operator.index` for what a shape is made of."""
    try:
        return operator.index(x)
    except InconclusiveDimensionOperation:
        return x


def dim_indices(values: Iterable) -> tuple:
    """`dim_index` of each."""
    if type(values) is not tuple:
        values = tuple(values)
    try:
        return tuple(map(operator.index, values))
    except InconclusiveDimensionOperation:
        return tuple(map(dim_index, values))


def known_negative(d: Dim) -> bool:
    """Whether a size is negative whatever the variables are."""
    return compared(d, "<", 0) is True if isinstance(d, SymbolicDim) else d < 0


def within(d: Dim, limit: int) -> bool:
    """Whether a size is at most a limit of at least 32 bits: symbolic ones are, since programs with dynamic shapes count in 32 bits."""
    return d <= limit if type(d) is int else True


def _known(scope: Any) -> str:
    return f" Using the {scope}." if scope.constraints else ""


def raise_inconclusive(a: Dim, symbol: str, b: Dim) -> NoReturn:
    scope = common_scope(a, b)
    raise InconclusiveDimensionOperation(
        f"Symbolic dimension comparison '{_text(a)}' {symbol} '{_text(b)}' is inconclusive: it holds for some values of the "
        f"dimension variables and not for others, and a program is traced once for all of them. Say what is known, such as "
        f"symbolic_shape(..., constraints=['{_text(a)} {symbol if symbol in ('>=', '<=') else '>='} {_text(b)}']), take "
        f"xlab.core.max_dim or min_dim instead of max and min, or branch in the program with lax.cond.{_known(scope)}"
    )


def compared(a: Dim, symbol: str, b: Dim) -> bool | None:
    """The answer to a comparison if it is the same for all values, otherwise None."""
    if symbol in ("<", "<="):
        return compared(b, ">" if symbol == "<" else ">=", a)
    difference = subtract(a, b)
    least = 0 if symbol == ">=" else 1  # they are integers
    if not isinstance(difference, SymbolicDim):
        return difference >= least
    low, high = difference.scope.bounds(difference)
    return True if low >= least else False if high < least else None


def _is_array(x: object) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _apply(on_dims, on_arrays, a, b):
    x, y = as_dim(a), as_dim(b)
    if x is None or y is None:
        return _on_arrays(on_arrays, a, b)
    return on_dims(x, y)


def _on_arrays(op, a, b):
    """An operation with something that is no integer: on the values of the dimensions, as arrays."""
    other = b if isinstance(a, SymbolicDim) else a
    if isinstance(a, SymbolicDim) and isinstance(b, SymbolicDim):
        return op(_as_array(a), _as_array(b))
    if not _is_array(other) and not isinstance(other, (int, float, complex)):
        return NotImplemented
    return op(*(_as_array(x) if isinstance(x, SymbolicDim) else x for x in (a, b)))


def add(a: Dim, b: Dim) -> Dim:
    """a + b."""
    scope = common_scope(a, b)
    if scope is None:
        return a + b
    out = terms_of(a)
    for m, c in terms_of(b).items():
        out[m] = out.get(m, 0) + c
    return build(out, scope)


def subtract(a: Dim, b: Dim) -> Dim:
    """a - b."""
    return add(a, multiply(-1, b))


def multiply(a: Dim, b: Dim) -> Dim:
    """a * b."""
    scope = common_scope(a, b)
    if scope is None:
        return a * b
    out: dict[Monomial, int] = {}
    right = terms_of(b).items()
    for m, c in terms_of(a).items():
        for n, d in right:
            product = multiply_monomials(m, n)
            out[product] = out.get(product, 0) + c * d
    return build(out, scope)


def exact_quotient(a: Dim, b: Dim) -> tuple[Dim, Dim] | None:
    """Quotient and remainder if `a` is a multiple of `b` plus a number in [0, b); otherwise None.

    By polynomial long division: the leading term of the rest is divided by the leading term of `b`, until nothing or a
    number is left.
    """
    scope = common_scope(a, b)
    divisor = terms_of(b)
    # Lexicographic by factors, in which a product's leading term is the product of leading terms.
    lead = max(divisor, key=_lexicographic)
    rest = terms_of(a)
    quotient: dict = {}
    while any(m != _CONSTANT for m in rest):
        m = max(rest, key=_lexicographic)
        by = divide_monomials(m, lead)
        if by is None or rest[m] % divisor[lead]:
            return None
        c = rest[m] // divisor[lead]
        quotient[by] = quotient.get(by, 0) + c
        for n, d in divisor.items():
            product = multiply_monomials(by, n)
            left = rest.get(product, 0) - c * d
            if left:
                rest[product] = left
            else:
                rest.pop(product, None)
    left = rest.get(_CONSTANT, 0)
    whole = build(quotient, scope)
    if not isinstance(b, SymbolicDim):
        return add(whole, left // b), left % b
    return (whole, 0) if not left else None


def _lexicographic(monomial: Monomial) -> tuple:
    # Negated keys cannot be made of names: the last factor weighs most, which is an order as good.
    return tuple((f.key, p) for f, p in reversed(monomial))


def floor_divide(a: Dim, b: Dim) -> Dim:
    """a // b, rounded down as in Python."""
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError(f"integer division or modulo by zero: {a} // 0")
    if common_scope(a, b) is None:
        return a // b
    found = exact_quotient(a, b)
    return operation("floordiv", a, b) if found is None else found[0]


def modulo(a: Dim, b: Dim) -> Dim:
    """a % b, with the sign of b as in Python."""
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError(f"integer division or modulo by zero: {a} % 0")
    if common_scope(a, b) is None:
        return a % b
    found = exact_quotient(a, b)
    return operation("mod", a, b) if found is None else found[1]


def max_dim(d1: Dim, d2: Dim) -> Dim:
    """The larger of two dimensions.

    Example:
        >>> from xlab.export import symbolic_shape
        >>> a, b = symbolic_shape("a, b")
        >>> max_dim(a, b), max_dim(a, 1), max_dim(2, 3)
        (max(a, b), a, 3)
    """
    a, b = dim_index(d1), dim_index(d2)
    if common_scope(a, b) is None:
        return max(a, b)
    least = compared(a, ">=", b)
    if least is not None:
        return a if least else b
    return b if compared(b, ">=", a) else operation("max", a, b)


def min_dim(d1: Dim, d2: Dim) -> Dim:
    """The smaller of two dimensions.

    Example:
        >>> from xlab.export import symbolic_shape
        >>> a, b = symbolic_shape("a, b")
        >>> min_dim(a, b), min_dim(a, a + 1), min_dim(2, 3)
        (min(a, b), a, 2)
    """
    a, b = dim_index(d1), dim_index(d2)
    if common_scope(a, b) is None:
        return min(a, b)
    least = compared(a, "<=", b)
    if least is not None:
        return a if least else b
    return b if compared(b, "<=", a) else operation("min", a, b)


operations: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floor_divide,
    "mod": modulo,
    "max": max_dim,
    "min": min_dim,
}
