"""Bits: logical operations, shifts, counts."""

from __future__ import annotations

import numpy as np

from xlab.core import dtypes
from xlab.core.typing import Array, ArrayLike
from xlab.interpreters import ad, mlir
from xlab.lax import elementwise as _e
from xlab.lax.elementwise import elementwise

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "clz",
    "mulhi",
    "population_count",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
]


def _bitwise(name: str, accepts, operands: int, op: str):
    prim = elementwise(name, accepts, operands=operands)
    ad.defzero(prim)
    mlir.register_text_lowering(
        prim, (mlir.binary if operands == 2 else mlir.unary)(f"stablehlo.{op}")
    )
    return prim


and_p = _bitwise("and", _e.integer_or_bool, 2, "and")
or_p = _bitwise("or", _e.integer_or_bool, 2, "or")
xor_p = _bitwise("xor", _e.integer_or_bool, 2, "xor")
not_p = _bitwise("not", _e.integer_or_bool, 1, "not")
shift_left_p = _bitwise("shift_left", _e.integer, 2, "shift_left")
shift_right_logical_p = _bitwise("shift_right_logical", _e.integer, 2, "shift_right_logical")
shift_right_arithmetic_p = _bitwise(
    "shift_right_arithmetic", _e.integer, 2, "shift_right_arithmetic"
)
population_count_p = _bitwise("population_count", _e.integer, 1, "popcnt")
clz_p = _bitwise("clz", _e.integer, 1, "count_leading_zeros")

mulhi_p = elementwise("mulhi", _e.integer, operands=2)
ad.defzero(mulhi_p)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise and."""
    return and_p.bind(x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise or."""
    return or_p.bind(x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise exclusive or."""
    return xor_p.bind(x, y)


def bitwise_not(x: ArrayLike) -> Array:
    """Elementwise complement."""
    return not_p.bind(x)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x << y`; 0 where `y` is at least the width."""
    return shift_left_p.bind(x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x >> y`, filling with zeros."""
    return shift_right_logical_p.bind(x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise `x >> y`, filling with the sign."""
    return shift_right_arithmetic_p.bind(x, y)


def population_count(x: ArrayLike) -> Array:
    """Number of one bits in each element."""
    return population_count_p.bind(x)


def clz(x: ArrayLike) -> Array:
    """Number of leading zero bits in each element."""
    return clz_p.bind(x)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the elementwise product: what does not fit into the integers' own width.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.mulhi(np.uint8([200]), np.uint8([100])))
        [78]
    """
    return mulhi_p.bind(x, y)


def _mulhi_lowering(ctx, x, y):
    """Written out: the CPU has no such instruction, and its rewriter misses those inside fusions."""
    out = ctx.avals_out[0]
    x, y = (ctx.broadcast_operand(v, a, out) for v, a in zip((x, y), ctx.avals_in))
    width, signed = 8 * out.dtype.itemsize, dtypes.issubdtype(out.dtype, np.signedinteger)
    t = mlir.tensor_type(out)
    if width < 64:
        wide = out.update(dtype=np.dtype(np.int64 if signed else np.uint64))
        w = mlir.tensor_type(wide)
        x, y = (ctx.op(f"stablehlo.convert {v} : ({t}) -> {w}") for v in (x, y))
        shift = "arithmetic" if signed else "logical"
        product = ctx.op(f"stablehlo.multiply {x}, {y} : {w}")
        high = ctx.op(
            f"stablehlo.shift_right_{shift} {product}, {ctx.fill(np.asarray(width, wide.dtype), wide)} : {w}"
        )
        return ctx.op(f"stablehlo.convert {high} : ({w}) -> {t}")
    return _mulhi_64(ctx, x, y, out, t, signed)


def _mulhi_64(ctx, x, y, out, t, signed):
    """By products of halves, as on paper; negative numbers are corrected afterwards."""
    plain = out.update(dtype=np.dtype(np.uint64))
    u = mlir.tensor_type(plain)
    half, mask = (ctx.fill(np.asarray(v, np.uint64), plain) for v in (32, 2**32 - 1))

    def op(name, a, b):
        return ctx.op(f"stablehlo.{name} {a}, {b} : {u}")

    def halves(v):
        return op("shift_right_logical", v, half), op("and", v, mask)

    a, b = (ctx.op(f"stablehlo.convert {v} : ({t}) -> {u}") if signed else v for v in (x, y))
    (a1, a0), (b1, b0) = halves(a), halves(b)
    t1, t0 = halves(
        op("add", op("multiply", a1, b0), op("shift_right_logical", op("multiply", a0, b0), half))
    )
    carry, _ = halves(op("add", t0, op("multiply", a0, b1)))
    high = op("add", op("add", op("multiply", a1, b1), t1), carry)
    if not signed:
        return high
    zero, sign = (ctx.fill(np.asarray(v, np.uint64), plain) for v in (0, 63))
    for one, other in ((a, b), (b, a)):
        negative = op("subtract", zero, op("shift_right_logical", one, sign))  # all bits, or none
        high = op("subtract", high, op("and", negative, other))
    return ctx.op(f"stablehlo.convert {high} : ({u}) -> {t}")


mlir.register_text_lowering(mulhi_p, _mulhi_lowering)
