"""Joining and splitting arrays, padding, and lists of arrays as blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.array import KeyArray
from xlab.core.dims import compared, dim_index
from xlab.core.trace import EVAL, state
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import cast_operand, check, host, kind_of, kinds_of, ndim_of, shape_of
from xlab.numpy.shape import atleast_1d, atleast_2d, atleast_3d, ravel

__all__ = ["append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit",
           "hstack", "pad", "split", "stack", "unstack", "vsplit", "vstack"]  # fmt: skip


def _listed(name, arrays):
    if kind_of(arrays) is not None:
        if not ndim_of(arrays):
            # Where shapes are brought together first, a scalar is a mistake of type.
            kind = TypeError if name in ("vstack", "hstack", "dstack") else ValueError
            raise kind(f"{name} takes a sequence of arrays, got a scalar")
        return [
            lax.index_in_dim(as_array(arrays), i, 0, keepdims=False)
            for i in range(shape_of(arrays)[0])
        ]
    arrays = list(arrays)
    if not arrays:
        raise ValueError(f"Need at least one array to {name}.")
    return list(check(name, *arrays))


def _keys(name, arrays, operation):
    """Key arrays, joined eagerly through the arrays of numbers they are made of."""
    if state.trace is EVAL and any(isinstance(a, KeyArray) for a in arrays):
        if not all(isinstance(a, KeyArray) and a.dtype == arrays[0].dtype for a in arrays):
            raise TypeError(
                f"{name} got random keys beside other arrays; join keys with keys of one type"
            )
        return KeyArray(operation([a.base for a in arrays]), arrays[0].dtype)
    return None


def _common(arrays, dtype):
    if dtype is None:
        dtype, weak = dtypes.result_of(kinds_of(arrays))
    else:
        dtype, weak = dtypes.check_user_dtype(dtype, "concatenate"), False
    return [cast_operand(a, dtype, weak) for a in arrays]


def concatenate(
    arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Arrays joined along an axis.

    Args:
        arrays: arrays whose shapes agree but for the axis.
        axis: the axis to join along; None joins them flattened.
        dtype: the dtype of the result; by default they are promoted together.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.concatenate([jnp.array([1, 2]), jnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    arrays = _listed("concatenate", arrays)
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    if not ndim_of(arrays[0]):
        raise ValueError("Zero-dimensional arrays cannot be concatenated: use stack.")
    if len({ndim_of(a) for a in arrays}) > 1:
        raise TypeError(
            f"Cannot concatenate arrays with different numbers of dimensions: got "
            f"{', '.join(str(shape_of(a)) for a in arrays)}."
        )
    axis = canonical_axis(axis, ndim_of(arrays[0]))
    keys = _keys("concatenate", arrays, lambda bases: lax.concatenate(bases, axis))
    return _concatenate(arrays, axis=axis, dtype=dtype) if keys is None else keys


@jit_when_eager(static=("axis", "dtype"))
def _concatenate(arrays, axis, dtype):
    arrays = _common(arrays, dtype)
    return as_array(arrays[0]) if len(arrays) == 1 else lax.concatenate(arrays, axis)


def concat(arrays: ArrayLike | Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis, as `concatenate`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.concat([jnp.array([1, 2]), jnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


def stack(
    arrays: ArrayLike | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Arrays of one shape joined along a new axis.

    Args:
        arrays: arrays of one shape.
        axis: where the new axis stands.
        out: has to be None: arrays are not written to.
        dtype: the dtype of the result; by default that of the operands.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.stack([jnp.ones(3), jnp.zeros(3)], axis=1).shape
        (3, 2)
    """
    if out is not None:
        raise NotImplementedError(
            "stack: arrays are not changed in place, so out= is not supported; use the result"
        )
    arrays = _listed("stack", arrays)
    if not len(arrays):
        raise ValueError("Need at least one array to stack.")
    shapes = {shape_of(a) for a in arrays}
    if len(shapes) > 1:
        raise ValueError(
            f"All input arrays must have the same shape, got {', '.join(str(shape_of(a)) for a in arrays)}"
        )
    axis = canonical_axis(axis, len(shapes.pop()) + 1)
    keys = _keys("stack", arrays, lambda bases: lax.stack(bases, axis))
    return _stack(arrays, axis=axis, dtype=dtype) if keys is None else keys


@jit_when_eager(static=("axis", "dtype"))
def _stack(arrays, axis, dtype):
    return lax.stack(_common(arrays, dtype), axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, as a tuple.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.unstack(jnp.ones((3, 2))))
        3
    """
    (x,) = check("unstack", x)
    if not ndim_of(x):
        raise ValueError("unstack requires arrays with at least one dimension, got a scalar")
    axis = canonical_axis(axis, ndim_of(x))
    return tuple(_unstack(x, axis=axis))


@jit_when_eager(static="axis")
def _unstack(x, axis):
    return lax.unstack(as_array(x), axis)


def _joined(name, promote, axis, arrays, dtype):
    arrays = [promote(a) for a in _listed(name, arrays)]
    return concatenate(arrays, axis=axis, dtype=dtype)


def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the first axis, vectors as rows.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.vstack([jnp.ones(3), jnp.zeros((2, 3))]).shape
        (3, 3)
    """
    return _joined("vstack", atleast_2d, 0, tup, dtype)


def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the second axis, vectors along their only one.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hstack([jnp.ones((2, 1)), jnp.zeros((2, 3))]).shape
        (2, 4)
    """
    arrays = [atleast_1d(a) for a in _listed("hstack", tup)]
    return concatenate(arrays, axis=0 if arrays[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along the third axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.dstack([jnp.ones((2, 3)), jnp.zeros((2, 3))]).shape
        (2, 3, 2)
    """
    return _joined("dstack", atleast_3d, 2, tup, dtype)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Vectors as the columns of a matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.column_stack([jnp.ones(3), jnp.zeros(3)]).shape
        (3, 2)
    """
    arrays = [
        lax.transpose(atleast_2d(a), (1, 0)) if ndim_of(a) < 2 else a
        for a in _listed("column_stack", tup)
    ]
    return concatenate(arrays, axis=1)


def block(arrays: Any) -> Array:
    """Nested lists of arrays as one array: innermost lists along the last axis, and so on outwards.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.block([[jnp.eye(2), jnp.zeros((2, 1))]]).shape
        (2, 3)
    """

    def depth(x):
        if isinstance(x, list):
            if not x:
                raise ValueError("block: lists cannot be empty")
            depths = {depth(v) for v in x}
            if len(depths) > 1:
                raise ValueError(
                    f"block: list depths are mismatched, got {sorted(depths)} at one level"
                )
            return 1 + depths.pop()
        if isinstance(x, tuple):
            raise ValueError(
                f"block takes lists of lists, not tuples, which could be meant as arrays; got {x!r}"
            )
        return 0

    levels = depth(arrays)

    def rank(x):
        return max(map(rank, x)) if isinstance(x, list) else ndim_of(as_array(x))

    n = max(levels, rank(arrays))

    def build(x, level):
        if isinstance(x, list):
            return concatenate([build(v, level - 1) for v in x], axis=n - level)
        x = as_array(x)
        return lax.broadcast_in_dim(x, (1,) * (n - x.ndim) + x.shape, range(n - x.ndim, n))

    return build(arrays, levels)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values joined at the end of an axis (of the flattened array by default).

    Args:
        arr: an array.
        values: what is put behind it.
        axis: the axis to join along; None joins them flattened.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.append(jnp.array([1, 2]), 3)
        Array([1, 2, 3], dtype=int32)
    """
    arr, values = check("append", arr, values)
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], axis=0)
    return concatenate([arr, values], axis=axis)


# -- splitting --------------------------------------------------------------------------------------------


MOST_PARTS = 1_000_000
"""Parts that an array is cut into, where most of them are empty."""


def _split(name, ary, sections, axis, exact):
    (ary,) = check(name, ary)
    axis = canonical_axis(axis, ndim_of(ary))
    n = shape_of(ary)[axis]
    if np.ndim(sections) or isinstance(sections, (list, tuple)):
        cuts = [0, *(int(dim_index(i)) for i in host(sections, name).tolist()), n]
        if any(a > b for a, b in pairwise(cuts)):
            raise ValueError(
                f"{name}: Sizes passed to split must be nonnegative; positions {cuts[1:-1]} do not increase within "
                f"the {n} elements of axis {axis}"
            )
        sizes = [b - a for a, b in pairwise(cuts)]
    else:
        sections = host(sections, name)[()] if hasattr(sections, "aval") else sections
        parts = int(sections) if isinstance(sections, (float, np.floating)) else dim_index(sections)
        if parts <= 0:
            raise ValueError(f"{name}: number of sections must be positive, got {parts}")
        if parts > MOST_PARTS and not compared(parts, "<=", n):
            raise ValueError(
                f"{name}: {parts} parts of the {n} elements of axis {axis} are more than anybody can hold, {MOST_PARTS} at most"
            )
        if exact and n % parts:
            raise ValueError(
                f"array split does not result in an equal division: axis {axis} of size {n} into {parts} parts. "
                f"Use array_split."
            )
        sizes = [n // parts + (i < n % parts) for i in range(parts)]
    return list(lax.split(as_array(ary), sizes, axis))


def split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0
) -> list[Array]:
    """The array cut into equal parts, or at given positions.

    Args:
        ary: an array.
        indices_or_sections: number of equal parts, or where to cut.
        axis: the axis to cut along.

    Example:
        >>> import xlab.numpy as jnp
        >>> [p.shape for p in jnp.split(jnp.arange(6), [1, 3])]
        [(1,), (2,), (3,)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0
) -> list[Array]:
    """As `split`; parts may differ by one element.

    Args:
        ary: an array.
        indices_or_sections: number of parts, equal but for one element, or where to cut.
        axis: the axis to cut along.

    Example:
        >>> import xlab.numpy as jnp
        >>> [p.shape for p in jnp.array_split(jnp.arange(5), 2)]
        [(3,), (2,)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """As `split`, along the first axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.vsplit(jnp.ones((4, 2)), 2))
        2
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """As `split`, along the second axis (the only one of vectors).

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.hsplit(jnp.ones((2, 4)), 2))
        2
    """
    return split(ary, indices_or_sections, 0 if ndim_of(*check("hsplit", ary)) == 1 else 1)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """As `split`, along the third axis.

    Example:
        >>> import xlab.numpy as jnp
        >>> len(jnp.dsplit(jnp.ones((2, 2, 4)), 2))
        2
    """
    return split(ary, indices_or_sections, 2)


# -- padding ----------------------------------------------------------------------------------------------


def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable = "constant", **kwargs: Any
) -> Array:
    """The array with elements added before and after, along each axis.

    Args:
        array: array.
        pad_width: an amount, a pair `(before, after)`, or one such per axis.
        mode: "constant" (with `constant_values=`), "edge", "reflect", "symmetric", "wrap", "empty", "mean", "maximum",
            "minimum", "linear_ramp" (with `end_values=`), or a function `f(vector, widths, axis, kwargs)`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.pad(jnp.array([1, 2]), (1, 2))
        Array([0, 1, 2, 0, 0], dtype=int32)
    """
    from xlab.numpy.padding import pad as padded

    return padded(array, pad_width, mode, **kwargs)
