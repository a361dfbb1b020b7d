"""Bits: logical operations, shifts, counts."""

from __future__ import annotations

from xlab.interpreters import ad, mlir
from xlab.lax import elementwise as _e
from xlab.lax.elementwise import adapt, elementwise

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "mulhi", "population_count", "shift_left",
           "shift_right_arithmetic", "shift_right_logical"]


def _bitwise(name: str, accepts, operands: int, op: str):
    prim = elementwise(name, accepts, operands=operands)
    ad.defzero(prim)
    mlir.register_lowering(prim, (mlir.binary if operands == 2 else mlir.unary)(f"stablehlo.{op}"))
    return prim


and_p = _bitwise("and", _e.integer_or_bool, 2, "and")
or_p = _bitwise("or", _e.integer_or_bool, 2, "or")
xor_p = _bitwise("xor", _e.integer_or_bool, 2, "xor")
not_p = _bitwise("not", _e.integer_or_bool, 1, "not")
shift_left_p = _bitwise("shift_left", _e.integer, 2, "shift_left")
shift_right_logical_p = _bitwise("shift_right_logical", _e.integer, 2, "shift_right_logical")
shift_right_arithmetic_p = _bitwise("shift_right_arithmetic", _e.integer, 2, "shift_right_arithmetic")
population_count_p = _bitwise("population_count", _e.integer, 1, "popcnt")
clz_p = _bitwise("clz", _e.integer, 1, "count_leading_zeros")

mulhi_p = elementwise("mulhi", _e.integer, operands=2)
ad.defzero(mulhi_p)


def bitwise_and(x, y):
    """Elementwise and."""
    return and_p.bind(*adapt("bitwise_and", x, y))


def bitwise_or(x, y):
    """Elementwise or."""
    return or_p.bind(*adapt("bitwise_or", x, y))


def bitwise_xor(x, y):
    """Elementwise exclusive or."""
    return xor_p.bind(*adapt("bitwise_xor", x, y))


def bitwise_not(x):
    """Elementwise complement."""
    return not_p.bind(x)


def shift_left(x, y):
    """Elementwise `x << y`; 0 where `y` is at least the width."""
    return shift_left_p.bind(*adapt("shift_left", x, y))


def shift_right_logical(x, y):
    """Elementwise `x >> y`, filling with zeros."""
    return shift_right_logical_p.bind(*adapt("shift_right_logical", x, y))


def shift_right_arithmetic(x, y):
    """Elementwise `x >> y`, filling with the sign."""
    return shift_right_arithmetic_p.bind(*adapt("shift_right_arithmetic", x, y))


def population_count(x):
    """Number of one bits in each element."""
    return population_count_p.bind(x)


def clz(x):
    """Number of leading zero bits in each element."""
    return clz_p.bind(x)


def mulhi(x, y, /):
    """The upper half of the elementwise product: what does not fit into the integers' own width.

    Example:
        >>> import numpy as np
        >>> from xlab import lax
        >>> print(lax.mulhi(np.uint8([200]), np.uint8([100])))
        [78]
    """
    return mulhi_p.bind(*adapt("mulhi", x, y))


def _mulhi_lowering(ctx, x, y):
    out = ctx.avals_out[0]
    t = mlir.tensor_type(out)
    x, y = (ctx.spread(v, a, out) for v, a in zip((x, y), ctx.avals_in))
    return ctx.op(f"chlo.mulhi {x}, {y} : {t}, {t} -> {t}")


mlir.register_lowering(mulhi_p, _mulhi_lowering)
