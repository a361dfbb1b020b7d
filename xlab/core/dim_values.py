"""What dimensions come to: for values of their variables, and the positions that slices of them have."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from xlab.core.dims import (
    Dim,
    SymbolicDim,
    add,
    compared,
    dim_index,
    floor_divide,
    max_dim,
    min_dim,
    multiply,
    operations,
    raise_inconclusive,
    subtract,
)


def slice_indices(s: slice, n: Dim) -> tuple[Dim, Dim, Dim]:
    """Where a slice starts and stops in a symbolic dimension, and its step: `s.indices(n)`.

    Raises:
        TypeError: an entry is no integer.
    """
    step = 1 if s.step is None else operator.index(s.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, n) if step > 0 else (-1, subtract(n, 1))

    def place(i, default):
        if i is None:
            return default
        i = dim_index(i)
        if compared(i, "<", 0) is True:
            return max_dim(low, add(i, n))
        if compared(i, ">=", 0) is None:
            raise_inconclusive(i, ">=", 0)
        return min_dim(high, i)

    return place(s.start, low if step > 0 else high), place(s.stop, high if step > 0 else low), step


def range_size(start: Dim, stop: Dim, step: Dim) -> Dim:
    """`len(range(start, stop, step))`."""
    if compared(step, "<", 0):
        start, stop, step = stop, start, multiply(-1, step)
    return max_dim(0, floor_divide(add(subtract(stop, start), subtract(step, 1)), step))


def evaluate(e: Dim, env: Mapping[str, Dim]) -> Dim:
    """The value of an expression for values of its variables, which may be dimensions of another scope.

    Raises:
        KeyError: a variable has no value.
    """
    if not isinstance(e, SymbolicDim):
        return e
    total: Dim = 0
    for monomial, c in e.terms:
        product: Dim = c
        for f, power in monomial:
            value = (
                operations[f.name](*(evaluate(x, env) for x in f.operands))
                if f.operands
                else env[f.name]
            )
            product = multiply(product, value**power)
        total = add(total, product)
    return total


def evaluate_shape(shape: Sequence[Dim], env: Mapping[str, Dim]) -> tuple:
    """`evaluate` of each dimension."""
    return tuple(evaluate(d, env) for d in shape)
