"""Bits in bytes: `packbits`, `unpackbits`."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.array import Array
from xlab.core.typing import ArrayLike
from xlab.lax.shape import canonical_axis
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    check,
    dtype_of,
    ndim_of,
)
from xlab.numpy.shape import ravel

__all__ = ["packbits", "unpackbits"]


@jit_when_eager(static=("axis", "bitorder"))
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight booleans per byte along an axis.

    Args:
        a: booleans or integers, nonzero meaning 1.
        axis: the axis to pack along; by default the flattened array.
        bitorder: 'big' or 'little': which bit of a byte comes first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.packbits(jnp.array([1, 0, 1]))
        Array([160], dtype=uint8)
    """
    from xlab.numpy.logic import truth

    (a,) = check("packbits", a)
    if not (dtypes.issubdtype(dtype_of(a), np.integer) or dtype_of(a) == np.bool_):
        raise TypeError("Expected an input array of integer or boolean data type")
    shifts = _shifts("packbits", bitorder)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), canonical_axis(axis, ndim_of(a)))
    bits = lax.convert_element_type(truth(a), np.uint8)
    n = bits.shape[axis]
    bits = lax.pad(
        bits, np.uint8(0), [(0, -n % 8, 0) if i == axis else (0, 0, 0) for i in range(bits.ndim)]
    )
    shape = bits.shape
    bits = lax.reshape(bits, (*shape[:axis], shape[axis] // 8, 8, *shape[axis + 1 :]))
    wide = lax.broadcast_in_dim(shifts, bits.shape, (axis + 1,))
    return lax.reduce_sum(lax.shift_left(bits, wide), (axis + 1,))


def _shifts(name, bitorder):
    if bitorder not in ("little", "big"):
        raise ValueError(f"{name}: 'order' must be either 'little' or 'big', got {bitorder!r}")
    return np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1].copy()


@jit_when_eager(static=("axis", "count", "bitorder"))
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The eight bits of each byte along an axis.

    Args:
        a: bytes, uint8.
        axis: the axis to unpack along; by default the flattened array.
        count: how many bits to keep.
        bitorder: 'big' or 'little': which bit of a byte comes first.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.unpackbits(jnp.array([160], dtype=jnp.uint8))
        Array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)
    """
    (a,) = check("unpackbits", a)
    if dtype_of(a) != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    shifts = _shifts("unpackbits", bitorder)
    a, axis = (ravel(a), 0) if axis is None else (as_array(a), canonical_axis(axis, ndim_of(a)))
    shape = (*a.shape[: axis + 1], 8, *a.shape[axis + 1 :])
    wide = lax.broadcast_in_dim(a, shape, [i + (i > axis) for i in range(a.ndim)])
    bits = lax.bitwise_and(
        lax.shift_right_logical(wide, lax.broadcast_in_dim(shifts, shape, (axis + 1,))), np.uint8(1)
    )
    bits = lax.reshape(bits, (*a.shape[:axis], a.shape[axis] * 8, *a.shape[axis + 1 :]))
    if count is None:
        return bits
    n = bits.shape[axis]
    if count > n:
        return lax.pad(
            bits,
            np.uint8(0),
            [(0, count - n, 0) if i == axis else (0, 0, 0) for i in range(bits.ndim)],
        )
    return lax.slice_in_dim(bits, 0, count if count >= 0 else max(n + count, 0), axis=axis)
