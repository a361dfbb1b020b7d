"""Elementwise functions of special uses: bits, signs, parts of floats, common divisors, degrees, sinc and the like."""

from __future__ import annotations

import math

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.lax.elementwise import beside
from xlab.numpy.arithmetic import as_array, is_complex, scalar, select_like, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    aligned,
    cast_operand,
    check,
    dtype_of,
    no_out,
    promoted,
    promoted_inexact,
    promoted_numeric,
    shape_of,
    strip_weak_type,
    strip_weak_types,
)
from xlab.numpy.ufuncs import greater, less
from xlab.transforms.custom_jvp import custom_jvp

__all__ = ["bitwise_count", "bitwise_right_shift", "copysign", "deg2rad", "degrees", "fmax", "fmin", "frexp", "gcd", "heaviside",
           "i0", "lcm", "ldexp", "modf", "nextafter", "rad2deg", "radians", "right_shift", "signbit", "sinc", "spacing"]  # fmt: skip


@jit_when_eager
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Bits moved down by `x2`; signed numbers keep their sign.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.right_shift(jnp.array([8, -8]), 2)
        Array([ 2, -2], dtype=int32)
    """
    x, y = aligned("right_shift", *promoted_numeric("right_shift", x1, x2))
    if dtypes.issubdtype(dtype_of(x), np.unsignedinteger):
        return lax.shift_right_logical(x, y)
    return lax.shift_right_arithmetic(x, y)


bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


@jit_when_eager
def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of one bits in the absolute value of each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.bitwise_count(jnp.array([7, -1]))
        Array([3, 1], dtype=uint8)
    """
    (x,) = promoted_numeric("bitwise_count", x)
    size = x if dtypes.issubdtype(dtype_of(x), np.unsignedinteger) else lax.abs(x)
    return lax.convert_element_type(lax.population_count(size), np.uint8)


def _bits(dtype):
    return np.dtype(f"int{8 * dtypes.itemsize(dtype)}")


@jit_when_eager
def signbit(x: ArrayLike, /) -> Array:
    """Whether each element is negative; tells -0.0 from 0.0.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.signbit(jnp.array([-0.0, 1.0]))
        Array([ True, False], dtype=bool)
    """
    (x,) = check("signbit", x)
    dtype = dtype_of(x)
    if dtypes.issubdtype(dtype, np.integer):
        return strip_weak_type(lax.lt(x, scalar(0, x)))
    if dtype == np.bool_:
        return lax.full(shape_of(x), False, dtype)
    if not dtypes.issubdtype(dtype, np.floating):
        raise ValueError(f"signbit is not well-defined for dtype {dtype}: it takes real numbers")
    return lax.lt(
        lax.bitcast_convert_type(as_array(x), _bits(dtype)), np.zeros((), _bits(dtype))[()]
    )


@jit_when_eager
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Size of the first with the sign of the second.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.copysign(2.0, -1.0)
        Array(-2., dtype=float32, weak_type=True)
    """
    x1, x2 = promoted_inexact("copysign", x1, x2)
    if is_complex(x1):
        raise TypeError("copysign does not support complex-valued inputs")
    size = lax.abs(x1)
    return select_promoted(signbit(x2), lax.neg(size), size)


@jit_when_eager
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Larger of two elements; a number rather than a NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fmax(jnp.nan, 1.0)
        Array(1., dtype=float32, weak_type=True)
    """
    x1, x2 = aligned("fmax", *promoted("fmax", x1, x2))
    return select_promoted(lax.bitwise_or(greater(x1, x2), lax.ne(x2, x2)), x1, x2)


@jit_when_eager
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Smaller of two elements; a number rather than a NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fmin(jnp.nan, 1.0)
        Array(1., dtype=float32, weak_type=True)
    """
    x1, x2 = aligned("fmin", *promoted("fmin", x1, x2))
    return select_promoted(lax.bitwise_or(less(x1, x2), lax.ne(x2, x2)), x1, x2)


@jit_when_eager
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 for negative elements, 1 for positive ones, `x2` at 0.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1, x2 = aligned("heaviside", *promoted_inexact("heaviside", x1, x2))
    if shape_of(x1):
        x1, x2 = strip_weak_type(x1), strip_weak_type(x2)
    zero = scalar(0, x1)
    at_zero = select_promoted(lax.ne(x1, x1), x1, x2)
    return select_like(lax.lt(x1, zero), 0, select_like(lax.gt(x1, zero), 1, at_zero))


@jit_when_eager
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next number after `x` in the direction of `y`.

    Example:
        >>> import xlab.numpy as jnp
        >>> bool(jnp.nextafter(1.0, 2.0) > 1.0)
        True
    """
    x, y = (as_array(v) for v in aligned("nextafter", *promoted_inexact("nextafter", x, y)))
    dtype = dtypes.result_type(x)
    shape = lax.broadcast_shapes(x.shape, y.shape)
    x, y = (
        lax.broadcast_in_dim(v, shape, range(len(shape) - v.ndim, len(shape)))
        if v.shape != shape
        else v
        for v in (x, y)
    )
    bits = _bits(dtype)
    zero, one = scalar(0, x), bits.type(1)
    code = lax.bitcast_convert_type(x, bits)
    up = lax.gt(y, x)
    away = select_promoted(up, lax.gt(x, zero), lax.lt(x, zero))
    moved = lax.bitcast_convert_type(
        select_promoted(away, lax.add(code, one), lax.sub(code, one)), dtype
    )
    tiny = lax.bitcast_convert_type(lax.full(shape, 1, bits), dtype)
    moved = select_promoted(lax.eq(x, zero), select_promoted(up, tiny, lax.neg(tiny)), moved)
    out = select_promoted(lax.eq(x, y), y, moved)
    return select_promoted(
        lax.bitwise_or(lax.ne(x, x), lax.ne(y, y)),
        lax.add(x, y),
        cast_operand(out, dtype, aval_of(x).weak_type),
    )


@jit_when_eager
def spacing(x: ArrayLike, /) -> Array:
    """Distance to the next number further from zero.

    Example:
        >>> import xlab.numpy as jnp
        >>> bool(jnp.spacing(1.0) == jnp.finfo(jnp.float32).eps)
        True
    """
    (x,) = promoted_inexact("spacing", x)
    if is_complex(x):
        raise ValueError("spacing is not defined for complex numbers: they have no order")
    # From the exponent's bits: a difference of neighbors below the normal numbers would be flushed to 0.
    x = as_array(x)
    dtype, bits = x.dtype, _bits(x.dtype)
    mantissa = bits.type(dtypes.finfo(dtype).nmant)
    one = bits.type(1)
    code = lax.bitcast_convert_type(lax.abs(x), bits)
    exponent = lax.sub(
        lax.shift_right_logical(code, lax.full_like(code, mantissa)), bits.type(mantissa)
    )
    normal = lax.shift_left(lax.max(exponent, one), lax.full_like(code, mantissa))
    below = lax.shift_left(
        lax.full_like(code, 1),
        lax.clamp(bits.type(0), lax.add(exponent, bits.type(mantissa - 1)), mantissa),
    )
    size = cast_operand(
        lax.bitcast_convert_type(select_promoted(lax.ge(exponent, one), normal, below), dtype),
        dtype,
    )
    size = select_promoted(lax.is_finite(x), size, scalar(np.nan, size))
    return select_promoted(signbit(x), lax.neg(size), size)


# -- parts of floats --------------------------------------------------------------------------------------


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Fractional and whole part, both with the sign of the element; `out` is for NumPy's sake and cannot be given.

    Args:
        x: an array.
        out: has to be None.

    Example:
        >>> import xlab.numpy as jnp
        >>> [float(v) for v in jnp.modf(2.5)]
        [0.5, 2.0]
    """
    no_out("modf", out)
    return _modf(x)


@jit_when_eager
def _modf(x):
    (x,) = promoted_inexact("modf", x)
    whole = select_promoted(lax.ge(x, scalar(0, x)), lax.floor(x), lax.ceil(x))
    return lax.sub(x, whole), whole


@jit_when_eager
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Fraction in [0.5, 1) and power of two of each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> [float(v) for v in jnp.frexp(6.0)]
        [0.75, 3.0]
    """
    (x,) = promoted_inexact("frexp", x)
    x = as_array(x)
    if is_complex(x):
        raise TypeError("frexp does not support complex-valued inputs")
    return _frexp(x)


@custom_jvp
def _frexp(x):
    dtype, bits = x.dtype, _bits(x.dtype)
    info = dtypes.finfo(dtype)
    mantissa, bias = int(info.nmant), 1 - int(info.minexp)
    # Numbers below the normal ones are scaled up first.
    small = lax.lt(lax.abs(x), scalar(float(info.tiny), x))
    scaled = select_promoted(small, lax.mul(x, scalar(2.0**mantissa, x)), x)
    code = lax.bitcast_convert_type(scaled, bits)
    width = (1 << (8 * dtypes.itemsize(dtype) - 1 - mantissa)) - 1
    field = lax.bitwise_and(lax.shift_right_arithmetic(code, bits.type(mantissa)), bits.type(width))
    exponent = lax.sub(lax.convert_element_type(field, np.int32), np.int32(bias - 1))
    exponent = select_promoted(small, lax.sub(exponent, np.int32(mantissa)), exponent)
    keep = bits.type(~(width << mantissa))
    half = bits.type((bias - 1) << mantissa)
    fraction = lax.bitcast_convert_type(lax.bitwise_or(lax.bitwise_and(code, keep), half), dtype)
    special = lax.bitwise_or(lax.bitwise_not(lax.is_finite(x)), lax.eq(x, scalar(0, x)))
    return select_promoted(special, x, cast_operand(fraction, dtype)), select_promoted(
        special, np.int32(0), exponent
    )


@_frexp.defjvp
def _frexp_jvp(primals, tangents):
    # The exponent is constant between the powers of two: the fraction grows by 2^-exponent.
    fraction, exponent = _frexp(*primals)
    slope = ldexp(lax.full_like(fraction, 1), lax.neg(exponent))
    return (fraction, exponent), (
        lax.mul(slope, tangents[0]),
        np.zeros(exponent.shape, dtypes.float0),
    )


@jit_when_eager
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.ldexp(0.75, 3)
        Array(6., dtype=float32)
    """
    check("ldexp", x1, x2)
    if is_complex(x1) or is_complex(x2):
        raise ValueError(
            f"ldexp does not support complex-valued inputs, got {dtype_of(x1)} and {dtype_of(x2)}"
        )
    if dtype_of(x2) != np.bool_ and not dtypes.issubdtype(dtype_of(x2), np.integer):
        raise ValueError(f"ldexp: x2 must be integers, got {dtype_of(x2)}")
    (x1,) = promoted_inexact("ldexp", x1)
    x1, x2 = aligned("ldexp", strip_weak_type(x1), cast_operand(x2, np.dtype(np.int32)))
    # In two steps, so that neither power overflows before the product does.
    half = lax.shift_right_arithmetic(x2, np.int32(1))
    two = scalar(2, x1)
    powers = (
        lax.pow(two, cast_operand(p, aval_of(x1).dtype, aval_of(x1).weak_type))
        for p in (half, lax.sub(x2, half))
    )
    first, second = powers
    out = lax.mul(lax.mul(x1, first), second)
    special = lax.bitwise_or(lax.bitwise_not(lax.is_finite(x1)), lax.eq(x1, scalar(0, x1)))
    return select_promoted(special, x1, out)


# -- integers ---------------------------------------------------------------------------------------------


@jit_when_eager
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.gcd(12, 18)
        Array(6, dtype=int32, weak_type=True)
    """
    from xlab.lax.control import while_loop

    x1, x2 = promoted("gcd", x1, x2)
    if not dtypes.issubdtype(dtype_of(x1), np.integer):
        raise ValueError(f"Arguments to gcd must be integers, got {dtype_of(x1)}.")
    x1, x2 = strip_weak_types(x1, x2)
    shape = lax.broadcast_shapes(shape_of(x1), shape_of(x2))
    signed = not dtypes.issubdtype(dtype_of(x1), np.unsignedinteger)
    x1, x2 = (as_array(lax.abs(x) if signed else x) for x in (x1, x2))
    x1, x2 = (
        lax.broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape))) for x in (x1, x2)
    )
    zero = scalar(0, x1)

    def step(pair):
        a, b = pair
        more = lax.ne(b, zero)
        return select_promoted(more, b, a), select_promoted(
            more,
            lax.rem(a, select_promoted(more, b, scalar(1, b))),
            zero if not shape else lax.full_like(b, 0),
        )

    return while_loop(
        lambda pair: lax.reduce_or(lax.ne(pair[1], zero), range(len(shape))), step, (x1, x2)
    )[0]


@jit_when_eager
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.lcm(4, 6)
        Array(12, dtype=int32, weak_type=True)
    """
    from xlab.numpy.arithmetic import abs, floor_divide
    from xlab.numpy.ufuncs import multiply

    x1, x2 = promoted("lcm", x1, x2)
    if not dtypes.issubdtype(dtype_of(x1), np.integer):
        raise ValueError(f"Arguments to lcm must be integers, got {dtype_of(x1)}.")
    x1, x2 = map(abs, strip_weak_types(x1, x2))
    divisor = gcd(x1, x2)
    safe = select_like(lax.eq(divisor, scalar(0, divisor)), 1, divisor)
    return select_like(lax.eq(divisor, scalar(0, divisor)), 0, multiply(x1, floor_divide(x2, safe)))


# -- angles and special functions -------------------------------------------------------------------------


@jit_when_eager
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.deg2rad(180.0)
        Array(3.1415927, dtype=float32, weak_type=True)
    """
    (x,) = promoted_inexact("deg2rad", x)
    return lax.mul(x, beside(np.pi / 180, x))


@jit_when_eager
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.rad2deg(jnp.pi)
        Array(180., dtype=float32, weak_type=True)
    """
    (x,) = promoted_inexact("rad2deg", x)
    return lax.mul(x, beside(180 / np.pi, x))


radians, degrees = alias(deg2rad, "radians"), alias(rad2deg, "degrees")


@jit_when_eager
def sinc(x: ArrayLike, /) -> Array:
    """`sin(πx) / (πx)`, and 1 at 0.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.sinc(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promoted_inexact("sinc", x)
    angle = lax.mul(beside(np.pi, x), x)
    near = lax.lt(lax.abs(angle), scalar(0.5, lax.abs(angle)))
    safe = select_like(near, 1, angle)
    # The series has the function's derivatives near 0, where those of the quotient lose themselves. Farther out its powers overflow.
    series = _polynomial(
        [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)],
        lax.square(select_like(lax.bitwise_not(near), 0, angle)),
    )
    return select_promoted(near, series, lax.div(lax.sin(safe), safe))


@jit_when_eager
def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind, order 0.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.i0(jnp.ones(1)).round(3)
        Array([1.266], dtype=float32)
    """
    (x,) = promoted_inexact("i0", x)
    if is_complex(x):
        raise ValueError(f"i0 takes real numbers, got {dtype_of(x)}")
    # The size by the sign, whose slope at zero is none, as that of the scaled function.
    return lax.mul(lax.exp(lax.mul(lax.sign(x), x)), lax.bessel_i0e(x))


def _polynomial(coefficients, x):
    out = scalar(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        out = lax.add(lax.mul(out, x), scalar(c, x))
    return out
