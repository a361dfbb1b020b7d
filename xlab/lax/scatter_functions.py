"""`scatter` and its kin: slices at run-time positions of an array, replaced or combined with updates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlab.core.avals import ShapedArray, aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import partial_eval as pe
from xlab.lax.convert import convert_element_type
from xlab.lax.creation import full
from xlab.lax.device_put import in_memory
from xlab.lax.gather import GatherScatterMode
from xlab.lax.scatter import (
    ScatterDimensionNumbers,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from xlab.lax.shape import canonical_shape

__all__ = [
    "ScatterDimensionNumbers",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]


def _public(
    prim,
    operand,
    indices,
    updates,
    numbers,
    indices_are_sorted,
    unique_indices,
    mode,
    update_jaxpr=None,
):
    operand_aval_, dtype = aval_of(operand), aval_of(operand).dtype
    if isinstance(updates, (bool, int, float, complex)):
        updates = np.asarray(updates).astype(dtype)
    elif aval_of(updates).weak_type:  # Python's numbers go wherever the arrays are
        updates = in_memory(updates, operand_aval_)
    mode = GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:  # for writes it says the same
        mode = GatherScatterMode.FILL_OR_DROP
    if update_jaxpr is None and prim.combine is not None:
        update_jaxpr = _combiner(prim.combine, operand_aval_.dtype)
    return prim.bind(
        operand,
        in_memory(indices, operand_aval_),
        updates,
        dimension_numbers=ScatterDimensionNumbers(*map(tuple, numbers)),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=mode,
        update_jaxpr=update_jaxpr,
        update_consts=(),
    )


@functools.lru_cache(maxsize=256)
def _combiner(prim, dtype):
    """The scalar program that combines old value and update."""
    scalar = ShapedArray((), dtype)
    return pe.trace_to_closed_jaxpr(lambda a, b: [prim.bind(a, b)], (scalar, scalar)).jaxpr


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The operand with slices at run-time positions replaced by updates.

    Args:
        operand: the array to start from.
        scatter_indices: integers; the last dimension holds one position.
        updates: the new slices.
        dimension_numbers: a `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: promises about the positions, used by the compiler.
        mode: what happens to positions outside the operand, see `GatherScatterMode`; by default they are dropped.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> print(lax.scatter(np.float32([1, 2, 3]), np.int32([[2], [0]]), np.float32([7, 8]), numbers))
        [8. 2. 7.]
    """
    return _public(
        scatter_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The operand with updates added at run-time positions; arguments as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        updates: what is combined at those places.
        dimension_numbers: which dimension is which.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    return _public(
        scatter_add_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The operand with updates subtracted at run-time positions; arguments as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        updates: what is combined at those places.
        dimension_numbers: which dimension is which.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    return _public(
        scatter_sub_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The operand multiplied by updates at run-time positions; arguments as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        updates: what is combined at those places.
        dimension_numbers: which dimension is which.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    return _public(
        scatter_mul_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The minimum of operand and updates at run-time positions; arguments as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        updates: what is combined at those places.
        dimension_numbers: which dimension is which.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    return _public(
        scatter_min_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The maximum of operand and updates at run-time positions; arguments as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        updates: what is combined at those places.
        dimension_numbers: which dimension is which.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    return _public(
        scatter_max_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable,
    dimension_numbers: Any,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The operand with a function of one number applied at run-time positions (again where they repeat).

    `update_shape` is the shape that updates would have; the other arguments are as for `scatter`.

    Args:
        operand: an array.
        scatter_indices: where windows begin, as for `scatter`.
        func: takes an element and returns the new one.
        dimension_numbers: which dimension is which.
        update_shape: shape of the updates that there would be.
        indices_are_sorted: a promise that the indices are sorted.
        unique_indices: a promise that no two indices are equal.
        mode: what happens to indices outside of the bounds.
    """
    dtype = aval_of(operand).dtype
    unused = full(canonical_shape(update_shape), 0, dtype)
    return _public(
        scatter_p,
        operand,
        scatter_indices,
        unused,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
        _applied(func, dtype),
    )


@functools.lru_cache(maxsize=256)
def _applied(func, dtype):
    """The scalar program of `scatter_apply`, whose second operand is not used; the same one for the same function."""
    scalar = ShapedArray((), dtype)
    closed = pe.trace_to_closed_jaxpr(
        lambda a, _: [convert_element_type(func(a), dtype)], (scalar, scalar)
    )
    if closed.consts:
        raise ValueError(
            "scatter_apply needs a function that does not close over arrays: pass numbers, or use "
            "x.at[index].set(f(x[index]))"
        )
    if closed.out_avals[0].shape:
        raise TypeError(
            f"scatter_apply needs a function from a scalar to a scalar, got one to {closed.out_avals[0]}"
        )
    return closed.jaxpr
