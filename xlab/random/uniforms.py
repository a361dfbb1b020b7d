"""Uniform numbers: random mantissas."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike, ShapeLike
from xlab.lax.shape import canonical_shape
from xlab.random.bits import random_bits_p
from xlab.random.drawing import (
    as_dtype,
    check_broadcasts,
    drawn,
    float_dtype,
    to_rank,
)
from xlab.random.keys import one_key
from xlab.sharding import NamedSharding, PartitionSpec

__all__ = ["uniform"]


def uniform(
    key: Array,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Uniform numbers in [minval, maxval).

    Args:
        key: a key, used up by the call.
        shape: shape of the result.
        dtype: a floating dtype, float32 by default.
        minval, maxval: bounds, numbers or arrays that broadcast to the shape.
        out_sharding: where the result goes.

    Example:
        >>> import xlab
        >>> xlab.random.uniform(xlab.random.key(0), (2, 3)).shape
        (2, 3)
    """
    key, _ = one_key("uniform", key)
    dtype = float_dtype("uniform", dtype)
    shape = canonical_shape(shape)
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if own := aval_of(bound).shape:
            check_broadcasts("uniform", shape, name, own, TypeError)
    return _uniform(key, shape, dtype, minval, maxval, out_sharding=out_sharding)


@drawn(2)
def _uniform(key, shape, dtype, minval, maxval):
    return unit_uniform(key, shape, dtype, minval, maxval)


def unit_uniform(key, shape, dtype, minval=0.0, maxval=1.0):
    """Random mantissas under the exponent of 1 make numbers in [1, 2), every one of them equally likely."""
    minval, maxval = (to_rank(as_dtype(x, dtype), len(shape)) for x in (minval, maxval))
    mantissa = dtypes.finfo(dtype).nmant
    width = dtypes.itemsize_bits(dtype)
    drawn_width = max(width, 8) if mantissa >= 8 else 8
    word = np.dtype(f"uint{width}")
    bits = random_bits_p.bind(key, bit_width=drawn_width, shape=shape)
    if drawn_width != width:
        bits = lax.convert_element_type(bits, word)
    one = np.ones((), dtype)
    bits = lax.bitwise_or(
        lax.shift_right_logical(bits, word.type(drawn_width - mantissa)), one.view(word)[()]
    )
    unit = lax.sub(lax.bitcast_convert_type(bits, dtype), one[()])
    return lax.max(minval, lax.add(lax.mul(unit, lax.sub(maxval, minval)), minval))
