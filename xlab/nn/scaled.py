"""Products of arrays rounded to narrow numbers in blocks, each block with a scale of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike, DTypeLike
from xlab.lax.precision import DotDimensionNumbers
from xlab.lax.shape import canonical_axes
from xlab.numpy.arithmetic import as_array
from xlab.transforms.custom_vjp import custom_vjp

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]


@dataclass
class BlockScaleConfig:
    """How an array is rounded: numbers of `data_type` in blocks, with scales of `scale_type`.

    Attributes:
        mode: "mxfp8" or "nvfp4".
        block_size: how many numbers share a scale.
        data_type, scale_type: of numbers and scales.
        global_scale: by what everything is divided first, if anything.
        infer_only: whether no derivative is wanted.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


def get_scaled_dot_general_config(
    mode: str, global_scale: ArrayLike | None = None
) -> BlockScaleConfig:
    """The way of rounding for `scaled_dot_general` by its name.

    Args:
        mode: "mxfp8", blocks of 32 with powers of two as scales, or "nvfp4", blocks of 16 with 8-bit floats as scales.
        global_scale: for "nvfp4", by what everything is divided first; 1 by default.

    Example:
        >>> from xlab import nn
        >>> nn.get_scaled_dot_general_config("mxfp8").block_size
        32
    """

    def scalar(name):
        return np.dtype(dtypes.to_dtype(name)).type

    if mode == "mxfp8":
        return BlockScaleConfig("mxfp8", 32, scalar("float8_e4m3fn"), scalar("float8_e8m0fnu"))
    if mode == "nvfp4":
        scale = lax.full((1,), 1, np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(
            "nvfp4", 16, scalar("float4_e2m1fn"), scalar("float8_e4m3fn"), scale
        )
    raise ValueError(f"Unsupported mode: {mode}; there are 'mxfp8' and 'nvfp4'")


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """Products of matrices in blocks with scales, along the last dimension of both operands.

    Args:
        lhs, rhs: `(batch, m, k)` and `(batch, n, k)`.
        lhs_scales, rhs_scales: `(batch, m, k / block)` and `(batch, n, k / block)`.
        preferred_element_type: dtype of the result.

    Returns:
        `(batch, m, n)`.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import nn
        >>> x, s = jnp.ones((1, 2, 64), jnp.float8_e4m3fn), jnp.full((1, 2, 2), 2, jnp.float8_e8m0fnu)
        >>> nn.scaled_matmul(x, x, s, s)[0, 0, 0]
        Array(256., dtype=float32)
    """
    a, b, sa, sb = map(aval_of, (lhs, rhs, lhs_scales, rhs_scales))
    if any(x.ndim != 3 for x in (a, b, sa, sb)):
        raise ValueError(
            f"scaled_matmul requires all inputs to be 3-dimensional arrays, got {a}, {b}, {sa}, {sb}"
        )
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[2]:
        raise ValueError(
            f"scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) dimensions, but got "
            f"shapes {a.shape} and {b.shape}"
        )
    if (
        sa.shape[0] != sb.shape[0]
        or sa.shape[2] != sb.shape[2]
        or not sa.shape[2]
        or a.shape[2] % sa.shape[2]
    ):
        raise ValueError(
            f"scaled_matmul requires scales to have matching batch (B) and contract (K) dimensions, but got shapes "
            f"{sa.shape} and {sb.shape}"
        )
    if any(dtypes.itemsize(s.dtype) > 1 for s in (sa, sb)):
        raise TypeError(
            f"scaled_matmul takes scales of 8-bit floats, got {dtypes.name(sa.dtype)} and {dtypes.name(sb.dtype)}"
        )
    return lax.scaled_dot(
        lhs,
        rhs,
        lhs_scale=lhs_scales,
        rhs_scale=rhs_scales,
        dimension_numbers=(((2,), (2,)), ((0,), (0,))),
        preferred_element_type=preferred_element_type,
    )


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[Any] | None = None,
    implementation: str | None = None,
) -> Array:
    """`dot_general` of operands rounded in blocks along what is contracted; so are the products of its derivative.

    Args:
        lhs, rhs: operands.
        dimension_numbers: as for `xlab.lax.dot_general`.
        preferred_element_type: float32, bfloat16 or float16, the dtype of the result.
        configs: how to round the left operand, the right one, and cotangents, from `get_scaled_dot_general_config`; no
            rounding by default.
        implementation: accepted for compatibility.

    Example:
        >>> import xlab.numpy as jnp
        >>> from xlab import nn
        >>> config = nn.get_scaled_dot_general_config("mxfp8")
        >>> nn.scaled_dot_general(jnp.ones((2, 32)), jnp.ones((32, 3)), (((1,), (0,)), ((), ())), configs=[config] * 3).shape
        (2, 3)
    """
    if configs is None:
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    preferred = dtypes.canonicalize_dtype(preferred_element_type)
    if preferred not in (np.float32, np.float16, dtypes.bfloat16):
        raise TypeError(
            f"Only support preferred_element_type in (f32, bf16, f16), but got {dtypes.name(preferred)}"
        )
    if len(configs) < 2:
        raise IndexError(
            f"scaled_dot_general needs a config for each operand and one for cotangents, got {len(configs)}"
        )
    lhs, rhs = as_array(lhs), as_array(rhs)
    (lc, rc), (lb, rb) = dimension_numbers
    left, lfree = _as_matrices(lhs, canonical_axes(lc, lhs.ndim), canonical_axes(lb, lhs.ndim))
    right, rfree = _as_matrices(rhs, canonical_axes(rc, rhs.ndim), canonical_axes(rb, rhs.ndim))
    out = _rounded_product(left, right, preferred, list(configs))
    return lax.reshape(out, (*(lhs.shape[i] for i in lb), *lfree, *rfree))


def _as_matrices(x, contracting, batch):
    """An operand as (batch, rows, contracted), and the sizes its rows come from."""
    free = [i for i in range(x.ndim) if i not in contracting and i not in batch]
    sizes = [[x.shape[i] for i in axes] for axes in (batch, free, contracting)]
    return lax.reshape(
        lax.transpose(x, (*batch, *free, *contracting)), [math.prod(s) for s in sizes]
    ), sizes[1]


def _rounded_product(left, right, preferred, configs):
    def product(a, b, one, two):
        (a, sa), (b, sb) = _rounded(a, one), _rounded(b, two)
        if one.block_size != two.block_size:
            raise ValueError(
                f"both operands of a product must be rounded in blocks of one size, got {one.block_size} and "
                f"{two.block_size}"
            )
        out = scaled_matmul(a, b, sa, sb, preferred)
        for config in (one, two):
            if config.global_scale is not None:
                scale = lax.reshape(lax.convert_element_type(config.global_scale, preferred), ())
                out = lax.mul(out, lax.broadcast_in_dim(scale, out.shape, ()))
        return out

    @custom_vjp
    def run(left, right):
        return product(left, right, configs[0], configs[1])

    def forwards(left, right):
        return run(left, right), (left, right)

    def backwards(kept, ct):
        left, right = kept
        if len(configs) < 3:
            raise IndexError(
                "the derivative of scaled_dot_general needs a third config, for cotangents"
            )
        turned = lambda x: lax.transpose(x, (0, 2, 1))
        ct_left = product(ct, turned(right), configs[2], configs[1])
        ct_right = product(turned(ct), turned(left), configs[2], configs[0])
        return (
            lax.convert_element_type(ct_left, left.dtype),
            lax.convert_element_type(ct_right, right.dtype),
        )

    run.defvjp(forwards, backwards)
    return run(left, right)


def _rounded(x, config):
    """(batch, rows, k) in the narrow type, and the scales of its blocks along k."""
    b, m, k = x.shape
    if k % config.block_size:
        raise ValueError(
            f"a contracted size of {k} cannot be cut into blocks of {config.block_size} ({config.mode}); pad it"
        )
    x = lax.reshape(
        lax.convert_element_type(x, np.float32), (b, m, k // config.block_size, config.block_size)
    )
    if config.global_scale is not None:
        scale = lax.reshape(lax.convert_element_type(config.global_scale, np.float32), ())
        x = lax.div(x, lax.broadcast_in_dim(scale, x.shape, ()))
    most = float(dtypes.finfo(config.data_type).max)
    wanted = lax.div(lax.reduce_max(lax.abs(x), (3,)), np.float32(most))
    scales = (
        _powers_of_two(wanted)
        if config.mode == "mxfp8"
        else lax.convert_element_type(
            lax.min(wanted, np.float32(dtypes.finfo(config.scale_type).max)), config.scale_type
        )
    )
    divisors = lax.broadcast_in_dim(
        lax.convert_element_type(scales, np.float32), x.shape, (0, 1, 2)
    )
    nothing = lax.eq(divisors, np.float32(0))
    x = lax.div(x, lax.select(nothing, lax.full_like(divisors, 1), divisors))
    x = lax.clamp(np.float32(-most), x, np.float32(most))
    return lax.reshape(lax.convert_element_type(x, config.data_type), (b, m, k)), scales


def _powers_of_two(x):
    """The next powers of two that are not below positive numbers, as numbers that are exponents only."""
    bits = lax.bitcast_convert_type(x, np.uint32)
    exponent, fraction = (
        lax.shift_right_logical(bits, np.uint32(23)),
        lax.bitwise_and(bits, np.uint32(0x7FFFFF)),
    )
    # Above the largest exponent there is none; the lowest one, 2**-127, is the half of the smallest normal number.
    small = lax.bitwise_and(lax.eq(exponent, np.uint32(0)), lax.le(fraction, np.uint32(0x400000)))
    up = lax.bitwise_and(
        lax.bitwise_and(lax.gt(fraction, np.uint32(0)), lax.ne(exponent, np.uint32(254))),
        lax.bitwise_not(small),
    )
    exponent = lax.select(up, lax.add(exponent, np.uint32(1)), exponent)
    return lax.bitcast_convert_type(
        lax.convert_element_type(exponent, np.uint8), dtypes.to_dtype("float8_e8m0fnu")
    )
