"""Elements in other places: flipping, rolling, repeating, diagonals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.dims import SymbolicDim, dim_index, max_dim, min_dim
from xlab.core.typing import Array, ArrayLike, AxisLike, DTypeLike, ShardingLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array, remainder, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    cast_operand,
    check,
    host,
    index_dtype,
    kind_of,
    known_axis,
    ndim_of,
    no_out,
    numbers,
    shape_of,
    strip_weak_type,
)
from xlab.numpy.reductions import axes_of
from xlab.numpy.reductions import sum as _sum
from xlab.numpy.shape import moveaxis, ravel, swapaxes

__all__ = [
    "diag",
    "diagflat",
    "diagonal",
    "flip",
    "fliplr",
    "flipud",
    "repeat",
    "roll",
    "rot90",
    "tile",
    "trace",
]


def flip(m: ArrayLike, axis: AxisLike | None = None) -> Array:
    """The array with the order of elements along axes reversed.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.flip(jnp.arange(3))
        Array([2, 1, 0], dtype=int32)
    """
    (m,) = check("flip", m)
    return lax.rev(as_array(m), axes_of("flip", axis, ndim_of(m)))


def fliplr(m: ArrayLike) -> Array:
    """The array with its second axis reversed.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fliplr(jnp.array([[1, 2]]))
        Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """The array with its first axis reversed.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.flipud(jnp.array([1, 2]))
        Array([2, 1], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned by 90 degrees, `k` times, in the plane of two axes.

    Args:
        m: an array of two or more dimensions.
        k: how many quarter turns.
        axes: the plane, from the first axis towards the second.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.rot90(jnp.array([[1, 2]]))
        Array([[2],
               [1]], dtype=int32)
    """
    (m,) = check("rot90", m)
    one, two = (canonical_axis(a, ndim_of(m)) for a in axes)
    if one == two:
        raise ValueError(f"rot90 needs two different axes, got {axes}")
    k %= 4
    if k == 0:
        return as_array(m)
    if k == 2:
        return flip(m, (one, two))
    return swapaxes(flip(m, two), one, two) if k == 1 else flip(swapaxes(m, one, two), two)


def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: AxisLike | None = None) -> Array:
    """The array with elements moved along axes, those pushed out coming back at the start.

    Args:
        a: an array.
        shift: how many places, one number or one for each axis; negative ones move towards the
            start.
        axis: the axes; None rolls the flattened array.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.roll(jnp.arange(4), 1)
        Array([3, 0, 1, 2], dtype=int32)
    """
    (a,) = check("roll", a)
    if axis is None:
        return lax.reshape(roll(ravel(a), shift, 0), shape_of(a))
    known_axis(axis, "roll")
    axes = numbers(axis)
    if len(axes) == 1 and len(shape_of(shift)) == 1:  # all of them along the one axis
        axes = axes * shape_of(shift)[0]
    if type(shift) is SymbolicDim or (
        isinstance(shift, Sequence) and any(type(s) is SymbolicDim for s in shift)
    ):
        shift = as_array(shift)
    if not hasattr(shift, "aval") or kind_of(shift) == "host":
        given = np.asarray(shift)
        huge = given.dtype == object and all(isinstance(s, int) for s in given.flat)
        if given.dtype.kind not in "biuf" and not huge:
            raise TypeError(
                f"roll takes a number of places as shift, or one per axis, got {shift!r}"
            )
        shifts = np.broadcast_to(given, (len(axes),)) if given.size == 1 else given
        if len(shifts) != len(axes):
            raise ValueError(
                f"Mismatched lengths between shifts and axes: {len(shifts)} and {len(axes)}"
            )
        return _roll_static(
            a,
            shifts=tuple(int(s) for s in shifts),
            axes=tuple(canonical_axis(i, ndim_of(a)) for i in axes),
        )
    by = aval_of(shift).dtype
    if not (dtypes.issubdtype(by, np.integer) and dtypes.itemsize_bits(by) >= 32):
        # Floats are cut, as on the host, and sizes have to fit in the dtype.
        if dtypes.is_extended(by) or dtypes.issubdtype(by, np.complexfloating):
            raise TypeError(
                f"roll takes a number of places as shift, or one per axis, got {aval_of(shift)}"
            )
        shift = lax.convert_element_type(shift, index_dtype())
    return _roll_dynamic(a, shift, axes=tuple(canonical_axis(i, ndim_of(a)) for i in axes))


@jit_when_eager(static=("shifts", "axes"))
def _roll_static(a, shifts, axes):
    a = as_array(a)
    for by, i in zip(shifts, axes):
        n = a.shape[i]
        by = by % n if n else 0
        if by:
            a = lax.concatenate(
                [lax.slice_in_dim(a, n - by, n, axis=i), lax.slice_in_dim(a, 0, n - by, axis=i)], i
            )
    return a


@jit_when_eager(static="axes")
def _roll_dynamic(a, shift, axes):
    a = as_array(a)
    shifts = lax.broadcast_in_dim(shift, (len(axes),), () if not shape_of(shift) else (0,))
    for number, i in enumerate(axes):
        n = a.shape[i]
        by = remainder(lax.index_in_dim(shifts, number, 0, keepdims=False), max(n, 1))
        a = lax.dynamic_slice_in_dim(lax.concatenate([a, a], i), lax.sub(n, by), n, i)
    return a


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """The array repeated as a whole along each dimension.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.tile(jnp.arange(2), 2)
        Array([0, 1, 0, 1], dtype=int32)
    """
    (A,) = check("tile", A)
    try:
        reps = tuple(dim_index(r) for r in reps)
    except TypeError:
        reps = (dim_index(reps),)
    return _tile(A, reps=reps)


@jit_when_eager(static="reps")
def _tile(A, reps):
    dims = shape_of(A)
    n = max(len(dims), len(reps))
    dims, reps = (1,) * (n - len(dims)) + dims, (1,) * (n - len(reps)) + reps
    wide = [s for pair in zip(reps, dims) for s in pair]
    out = lax.broadcast_in_dim(lax.reshape(as_array(A), dims), wide, range(1, 2 * n, 2))
    return lax.reshape(out, [r * d for r, d in zip(reps, dims)])


def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: ShardingLike | None = None,
) -> Array:
    """Each element repeated along an axis; counts that are traced need `total_repeat_length`.

    Args:
        out_sharding: how the result lies, a `PartitionSpec` over explicit axes of the mesh or a `NamedSharding`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.repeat(jnp.arange(2), 2)
        Array([0, 0, 1, 1], dtype=int32)
    """
    if out_sharding is not None:
        from xlab.numpy.creation import resharded

        return resharded(
            repeat(a, repeats, axis, total_repeat_length=total_repeat_length),
            out_sharding,
            "repeat",
        )
    (a,) = check("repeat", a)
    if axis is None:
        a, axis = ravel(a), 0
    if not shape_of(a):
        a = lax.reshape(as_array(a), (1,))
    axis = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    if total_repeat_length is None:
        counts = host(repeats, "repeat")
        if counts.ndim > 1 or not dtypes.issubdtype(counts.dtype, np.integer):
            raise ValueError(
                f"repeat takes an integer count or a vector of counts, got {repeats!r}"
            )
        if counts.size == 1:
            return _repeat_each(a, n=int(counts.reshape(())), axis=axis)
        if counts.size != n:
            raise ValueError(
                f"repeat needs one count for each of the {n} elements along axis {axis}, got {counts.size}"
            )
        from xlab.numpy.indexing import take

        return take(a, np.repeat(np.arange(n, dtype=np.int32), counts), axis=axis)
    return _repeat_total(
        a,
        cast_operand(as_array(repeats), np.dtype(np.int32)),
        axis=axis,
        total=dim_index(total_repeat_length),
    )


@jit_when_eager(static=("n", "axis"))
def _repeat_each(a, n, axis):
    a = as_array(a)
    dims = list(a.shape)
    spread = lax.broadcast_in_dim(
        a, [*dims[: axis + 1], n, *dims[axis + 1 :]], [i + (i > axis) for i in range(len(dims))]
    )
    dims[axis] *= n
    return lax.reshape(spread, dims)


@jit_when_eager(static=("axis", "total"))
def _repeat_total(a, repeats, axis, total):
    """Element i fills the places from the sum of the counts before it; the last one fills the rest."""
    from xlab.numpy.cumulative import cumsum
    from xlab.numpy.indexing import take

    n = shape_of(a)[axis]
    ends = cumsum(lax.broadcast_in_dim(repeats, (n,), () if not shape_of(repeats) else (0,)))
    places = lax.broadcasted_iota(np.int32, (total, n), 0)
    index = _sum(lax.ge(places, lax.broadcast_in_dim(ends, (1, n), (1,))), axis=1, dtype=np.int32)
    return take(a, lax.min(index, np.int32(n - 1)), axis=axis)


# -- diagonals --------------------------------------------------------------------------------------------


@jit_when_eager(static=("offset", "axis1", "axis2"))
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices in two axes, as a last dimension.

    Args:
        a: an array.
        offset: which diagonal: 0 the main one, positive above, negative below.
        axis1: the two axes of the matrices.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.diagonal(jnp.arange(4).reshape(2, 2))
        Array([0, 3], dtype=int32)
    """
    (a,) = check("diagonal", a)
    if ndim_of(a) < 2:
        raise ValueError(
            f"diagonal requires an array of at least two dimensions, got shape {shape_of(a)}"
        )
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    n = max_dim(0, min_dim(rows + min(offset, 0), columns - max(offset, 0)))
    top, left = min_dim(max(0, -offset), rows - n), min_dim(max(0, offset), columns - n)
    # The block that holds the diagonal, flattened with a stride of its rows plus one.
    block = lax.slice_in_dim(
        lax.slice_in_dim(a, top, top + n, axis=a.ndim - 2), left, left + n, axis=a.ndim - 1
    )
    lead = a.shape[:-2]
    flat = lax.reshape(block, (*lead, n * n))
    if isinstance(n, SymbolicDim):  # filled up to rows of one more, whose first elements they are
        config = [(0, 0, 0)] * len(lead) + [(0, n, 0)]
        full = lax.pad(flat, np.zeros((), flat.dtype)[()], config)
        rows = lax.reshape(full, (*lead, n, n + 1))
        return lax.index_in_dim(rows, 0, len(lead) + 1, keepdims=False)
    return (
        lax.slice_in_dim(flat, 0, n * n, n + 1, axis=len(lead))
        if n
        else lax.reshape(flat, (*lead, 0))
    )


def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the given diagonal, or the diagonal of a matrix.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.diag(jnp.array([1, 2]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    (v,) = check("diag", v)
    n = ndim_of(v)
    if n == 1:
        return _diag(v, k=dim_index(k))
    if n == 2:
        return diagonal(v, dim_index(k))
    raise ValueError(f"diag input must be 1d or 2d, got shape {shape_of(v)}")


@jit_when_eager(static="k")
def _diag(v, k):
    n = shape_of(v)[0] + max(k, -k)
    zero = cast_operand(0, aval_of(v).dtype, aval_of(v).weak_type)
    padded = lax.pad(as_array(v), zero, [(max(0, -k), max(0, k), 0)])
    rows = lax.add(lax.broadcasted_iota(np.int32, (n, n), 0), np.int32(k))
    mask = lax.eq(rows, lax.broadcasted_iota(np.int32, (n, n), 1))
    return select_promoted(mask, lax.broadcast_in_dim(padded, (n, 1), (0,)), zero)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the flattened values as its diagonal.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.diagflat(jnp.ones((1, 2))).shape
        (2, 2)
    """
    return strip_weak_type(diag(ravel(v), k))


@jit_when_eager(static=("offset", "axis1", "axis2", "dtype", "out"))
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Sum of a diagonal.

    Args:
        a: an array.
        offset: which diagonal: 0 the main one, positive above, negative below.
        axis1: the two axes of the matrices.
        dtype: the dtype of the result; by default that of the operands.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.trace(jnp.eye(3))
        Array(3., dtype=float32)
    """
    no_out("trace", out)
    return _sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)
