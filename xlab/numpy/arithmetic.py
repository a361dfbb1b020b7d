"""Elementwise arithmetic that is more than one primitive: division with floors, powers, rounding, logarithms, parts."""

from __future__ import annotations

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.avals import aval_of, explicit_types
from xlab.core.trace import Tracer
from xlab.core.typing import Array, ArrayLike
from xlab.lax.comparison import select
from xlab.lax.convert import convert
from xlab.lax.cumulative import log_add_exp
from xlab.lax.elementwise import convert_on_host
from xlab.lax.reshard import reshard
from xlab.lax.sharding_in_types import broadcast
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    aligned,
    cast_operand,
    check,
    dtype_of,
    kind_of,
    kinds_of,
    narrow_host_dtype,
    no_keywords,
    promoted,
    promoted_inexact,
    promoted_numeric,
    shape_of,
    strip_weak_type,
    strip_weak_types,
)
from xlab.numpy.ufuncs import inexact
from xlab.sharding.typed import of_entries
from xlab.transforms.custom_jvp import custom_jvp


def is_complex(x) -> bool:
    return dtype_of(x).kind == "c"


def scalar(value, like):
    """A number as a literal of an operand's type."""
    aval = aval_of(like)
    return cast_operand(value, aval.dtype, aval.weak_type)


def select_promoted(mask, on_true, on_false):
    """`select` with everything spread to one shape; the cases have one dtype."""
    one, other = aval_of(on_true), aval_of(on_false)
    shape = lax.broadcast_shapes(shape_of(mask), one.shape, other.shape)
    weak = one.weak_type and other.weak_type
    explicit = None
    if explicit_types.in_use:  # what has no explicit sharding of its own takes that of the others
        laid = [a for a in (one, other, aval_of(mask)) if a.explicit_sharding is not None]
        laid.sort(key=lambda a: a.shape != shape)
        explicit = _spread_sharding(laid[0], shape) if laid else None
    cases = [
        _spread(cast_operand(c, one.dtype, weak), shape, explicit) for c in (on_true, on_false)
    ]
    return select(mask if not shape_of(mask) else _spread(mask, shape, explicit), *cases)


def _spread_sharding(aval, shape):
    """The sharding of a type once it is spread to a shape: new dimensions, and those of size 1, are whole."""
    dims = range(len(shape) - aval.ndim, len(shape))
    (axes,) = broadcast([aval], None, shape=shape, broadcast_dimensions=dims, sharding=None)
    return of_entries(aval.explicit_sharding.mesh, tuple(axes))


def _spread(x, shape, explicit=None):
    mine = shape_of(x)
    if mine == shape:
        return (
            x
            if explicit is None or aval_of(x).explicit_sharding is not None
            else reshard(x, explicit)
        )
    return lax.broadcast_in_dim(
        x, shape, range(len(shape) - len(mine), len(shape)), out_sharding=explicit
    )


def select_like(mask, on_true, on_false):
    """`select_promoted` whose first case is a number, which takes the type of the second."""
    return select_promoted(mask, scalar(on_true, on_false), on_false)


# -- sign and absolute value ------------------------------------------------------------------------------


@jit_when_eager
def abs(x: ArrayLike, /) -> Array:
    """Absolute value of each element; the modulus of complex numbers.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.abs(jnp.array([-2, 3]))
        Array([2, 3], dtype=int32)
    """
    if not isinstance(x, Tracer):
        (x,) = check("abs", x)
        x = narrow_host_dtype(x)
    dtype = dtype_of(x)
    if dtype == np.bool_ or dtypes.issubdtype(dtype, np.unsignedinteger):
        return as_array(x)
    return lax.abs(x)


def as_array(x):
    """An operand as an array or traced value, for functions with nothing to do."""
    if kind_of(x) == "array":
        return x
    from xlab.numpy.creation import asarray

    return asarray(x)


absolute = alias(abs, "absolute")


@jit_when_eager
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value as floats.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fabs(-2)
        Array(2., dtype=float32, weak_type=True)
    """
    (x,) = promoted_inexact("fabs", x)
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        raise TypeError("fabs does not take complex numbers; abs gives their absolute value")
    return lax.abs(x)


@jit_when_eager
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of each element; `x / |x|` for complex numbers.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.sign(jnp.array([-2.0, 0.0]))
        Array([-1.,  0.], dtype=float32)
    """
    (x,) = check("sign", x)
    return lax.sign(narrow_host_dtype(x))


@jit_when_eager
def positive(x: ArrayLike, /) -> Array:
    """The elements as they are.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.positive(jnp.array([-1.0]))
        Array([-1.], dtype=float32)
    """
    (x,) = promoted("positive", x)
    return as_array(x)


@jit_when_eager
def reciprocal(x: ArrayLike, /) -> Array:
    """One over each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.reciprocal(4.0)
        Array(0.25, dtype=float32, weak_type=True)
    """
    (x,) = promoted_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


@jit_when_eager
def square(x: ArrayLike, /) -> Array:
    """Each element times itself.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.square(jnp.array([2, 3]))
        Array([4, 9], dtype=int32)
    """
    if isinstance(x, Tracer) and x.aval.dtype != np.bool_:
        return lax.square(x)
    return lax.square(promoted_numeric("square", x)[0])


# -- division ---------------------------------------------------------------------------------------------


@jit_when_eager
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Quotient rounded down; the dtype stays.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.floor_divide(jnp.array([7, -7]), 2)
        Array([ 3, -4], dtype=int32)
    """
    x, y = aligned("floor_divide", *promoted_numeric("floor_divide", x1, x2))
    dtype = dtype_of(x)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return lax.div(x, y)
    if dtypes.issubdtype(dtype, np.integer):
        q = lax.div(x, y)
        down = lax.bitwise_and(
            lax.ne(lax.sign(x), lax.sign(y)), lax.ne(lax.rem(x, y), scalar(0, x))
        )
        return select_promoted(down, lax.sub(q, scalar(1, q)), q)
    if dtype.kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs: they have no order")
    return _float_divmod(x, y)[0]


def _float_divmod(x, y):
    mod = lax.rem(x, y)
    quotient = lax.div(select_promoted(lax.eq(y, scalar(0, y)), x, lax.sub(x, mod)), y)
    adjust = lax.bitwise_and(lax.ne(mod, scalar(0, mod)), lax.ne(lax.sign(y), lax.sign(mod)))
    mod = select_promoted(adjust, lax.add(mod, y), mod)
    quotient = select_promoted(adjust, lax.sub(quotient, scalar(1, quotient)), quotient)
    return lax.round(quotient), mod


@jit_when_eager
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Remainder with the sign of the divisor.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.remainder(jnp.array([7, -7]), 3)
        Array([1, 2], dtype=int32)
    """
    x, y = aligned("remainder", *promoted_numeric("remainder", x1, x2))
    if dtypes.issubdtype(dtype_of(x), np.integer):
        y = select_promoted(lax.eq(y, scalar(0, y)), scalar(1, y), y)
    mod = lax.rem(x, y)
    zero = scalar(0, mod)
    away = lax.ne(lax.lt(mod, zero), lax.lt(y, zero))
    return select_promoted(lax.bitwise_and(away, lax.ne(mod, zero)), lax.add(mod, y), mod)


mod = alias(remainder, "mod")


@jit_when_eager
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Remainder with the sign of the dividend.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.fmod(jnp.array([7, -7]), 3)
        Array([ 1, -1], dtype=int32)
    """
    x, y = aligned("fmod", *promoted_numeric("fmod", x1, x2))
    if dtypes.issubdtype(dtype_of(x), np.integer):
        y = select_promoted(lax.eq(y, scalar(0, y)), scalar(1, y), y)
    return lax.rem(x, y)


@jit_when_eager
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Quotient rounded down, and remainder.

    Example:
        >>> import xlab.numpy as jnp
        >>> [int(v) for v in jnp.divmod(7, 2)]
        [3, 1]
    """
    x, y = aligned("divmod", *promoted_numeric("divmod", x1, x2))
    if dtypes.issubdtype(dtype_of(x), np.integer):
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y)


# -- powers -----------------------------------------------------------------------------------------------


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power `x2`. A Python integer exponent becomes repeated multiplication.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.power(jnp.array([2.0, 3.0]), 2)
        Array([4., 9.], dtype=float32)
    """
    if type(x2) is int:
        return _integer_power(x1, n=x2)
    if isinstance(x2, Tracer):
        out = _power(x1, x2)
        # Powers of integers with an exponent known only later are of the dtype itself.
        return out if inexact(out.dtype) else strip_weak_type(out)
    if not _is_known_integer(x1, x2):
        return _power(x1, x2)
    if not isinstance(x2, Array) or not dtypes.issubdtype(dtype_of(x1), np.floating):
        return _integer_power(x1, n=int(x2))
    # Real floats come out the same without waiting for the exponent, and without a program for each.
    out = _power(x1, x2)
    return convert(out, out.dtype, aval_of(x1).weak_type)


def _is_known_integer(x, y) -> bool:
    """Whether an exponent that is known counts as an integer: powers are then of the type of the base, and never of 1 / 0."""
    if type(y) is bool:
        return dtype_of(x) != np.bool_
    (y,) = check("power", y)
    return not shape_of(y) and dtypes.issubdtype(dtype_of(y), np.integer)


pow = alias(power, "pow")


@jit_when_eager(static="n")
def _integer_power(x, n):
    (x,) = promoted_numeric("power", x)
    if n < 0 and not inexact(dtype_of(x)):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got an array of {dtype_of(x)} to the power {n}. "
            f"Convert it to floats first."
        )
    if n == 1 and kind_of(x) == "array":
        return x
    return lax.integer_pow(x, n)


@jit_when_eager
def _power(x, y):
    x, y = check("power", x, y)
    dtype, weak = dtypes.result_of(kinds_of((x, y)))
    if dtype == np.bool_:
        dtype, weak = np.dtype(np.int32), False
    if dtypes.issubdtype(dtype, np.integer):
        return _int_pow(
            *strip_weak_types(
                *aligned("power", cast_operand(x, dtype, weak), cast_operand(y, dtype, weak))
            )
        )
    if (
        dtypes.issubdtype(dtype_of(y), np.integer)
        and kind_of(y) == "array"
        and dtypes.issubdtype(dtype_of(x), np.inexact)
    ):
        return lax.pow(*aligned("power", cast_operand(x, dtype, weak), y))
    return lax.pow(*aligned("power", cast_operand(x, dtype, weak), cast_operand(y, dtype, weak)))


def _int_pow(x, y):
    """Integer powers by squaring over the bits of an exponent below 64; `0 ** y` is 0."""
    zero = lax.bitwise_and(lax.eq(x, scalar(0, x)), lax.ne(y, scalar(0, y)))
    shape = lax.broadcast_shapes(shape_of(x), shape_of(y))
    acc = _spread(select_promoted(zero, scalar(0, x), scalar(1, x)), shape)
    for _ in range(6):
        acc = select_promoted(
            lax.ne(lax.bitwise_and(y, scalar(1, y)), scalar(0, y)), lax.mul(acc, x), acc
        )
        x = lax.mul(x, x)
        y = lax.shift_right_logical(y, scalar(1, y))
    return acc


@jit_when_eager
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` to the power `y`, as floats.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.float_power(2, 3)
        Array(8., dtype=float32, weak_type=True)
    """
    return lax.pow(*aligned("float_power", *promoted_inexact("float_power", x, y)))


@jit_when_eager
def log2(x: ArrayLike, /) -> Array:
    """Logarithm to base 2.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.log2(8.0)
        Array(3., dtype=float32)
    """
    (x,) = promoted_inexact("log2", x)
    if is_complex(x):
        return _scaled_log(x, 1 / np.log(2))
    return lax.div(lax.log(x), lax.log(_strong(2, x)))


def _strong(value, x):
    """A factor in the dtype of an operand that is not weak, so that neither a product nor its gradient is."""
    return convert_on_host(value, dtype_of(x))[()]


def _scaled_log(x, factor):
    """A multiple of a complex logarithm, by parts: a complex factor would make NaN of the infinity at 0."""
    out = lax.log(x)
    return strip_weak_type(
        lax.complex(
            *(lax.mul(part, scalar(float(factor), part)) for part in (lax.real(out), lax.imag(out)))
        )
    )


@jit_when_eager
def log10(x: ArrayLike, /) -> Array:
    """Logarithm to base 10.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.log10(100.0)
        Array(2., dtype=float32)
    """
    (x,) = promoted_inexact("log10", x)
    if is_complex(x):
        return _scaled_log(x, 1 / np.log(10))
    return lax.mul(lax.log(x), _strong(1 / np.log(10), x))


@jit_when_eager
def logaddexp(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    """`log(exp(x) + exp(y))` without overflow.

    Args:
        x, y: arrays.
        out, where: None; NumPy's have them, and arrays are never changed in place here.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.logaddexp(0.0, 0.0)
        Array(0.6931472, dtype=float32, weak_type=True)
    """
    no_keywords("logaddexp", out, where)
    x, y = aligned("logaddexp", *promoted_inexact("logaddexp", x, y))
    return _logaddexp(*(strip_weak_types(x, y) if is_complex(x) else (x, y)))


@custom_jvp
def _logaddexp(x, y):
    if is_complex(x):
        shape = lax.broadcast_shapes(shape_of(x), shape_of(y))
        out = log_add_exp(_spread(x, shape), _spread(y, shape))
        return cast_operand(out, out.dtype, aval_of(x).weak_type and aval_of(y).weak_type)
    delta = lax.sub(x, y)
    soft = lax.add(lax.max(x, y), lax.log1p(lax.exp(lax.neg(lax.abs(delta)))))
    return select_promoted(lax.ne(delta, delta), lax.add(x, y), soft)


def _shares(function, power):
    """The rule of a logarithm of summed powers: shares `power(x - out)` and `power(y - out)`; of an infinite sum that of the infinite."""

    def share(v, out):
        infinite = lax.bitwise_and(lax.eq(v, scalar(np.inf, v)), lax.eq(out, scalar(np.inf, out)))
        return power(select_like(infinite, 0, lax.sub(v, out)))

    def rule(primals, tangents):
        out = function(*primals)
        return out, lax.add(*(lax.mul(t, share(v, out)) for v, t in zip(primals, tangents)))

    return rule


_logaddexp.defjvp(_shares(_logaddexp, lax.exp))


@jit_when_eager
def logaddexp2(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    """`log2(2**x + 2**y)` without overflow.

    Args:
        x, y: arrays.
        out, where: None; NumPy's have them, and arrays are never changed in place here.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.logaddexp2(1.0, 1.0)
        Array(2., dtype=float32, weak_type=True)
    """
    no_keywords("logaddexp2", out, where)
    x, y = strip_weak_types(*aligned("logaddexp2", *promoted_inexact("logaddexp2", x, y)))
    if is_complex(x):
        # Real: infinity times a complex number has no imaginary part.
        ln2 = scalar(float(np.log(2)), lax.real(x))
        x, y = (lax.complex(lax.mul(lax.real(v), ln2), lax.mul(lax.imag(v), ln2)) for v in (x, y))
        out = _logaddexp(x, y)
        return lax.complex(lax.div(lax.real(out), ln2), lax.div(lax.imag(out), ln2))
    return _logaddexp2(x, y)


@custom_jvp
def _logaddexp2(x, y):
    delta = lax.sub(x, y)
    soft = lax.div(lax.log1p(lax.exp2(lax.neg(lax.abs(delta)))), scalar(float(np.log(2)), delta))
    soft = lax.add(lax.max(x, y), soft)
    return select_promoted(lax.ne(delta, delta), lax.add(x, y), soft)


_logaddexp2.defjvp(_shares(_logaddexp2, lax.exp2))


@jit_when_eager
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Length of the vector (x, y) without overflow.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.hypot(3.0, 4.0)
        Array(5., dtype=float32, weak_type=True)
    """
    x, y = aligned("hypot", *promoted_inexact("hypot", x1, x2))
    if is_complex(x):
        raise ValueError(
            "hypot is not well defined for complex-valued inputs: give it their absolute values, abs(x) and abs(y)"
        )
    x, y = (lax.abs(v) for v in strip_weak_types(x, y))
    infinite = lax.bitwise_or(lax.eq(x, scalar(np.inf, x)), lax.eq(y, scalar(np.inf, y)))
    big, small = lax.max(x, y), lax.min(x, y)
    safe = select_like(lax.eq(big, scalar(0, big)), 1, big)
    out = lax.mul(big, lax.sqrt(lax.add(scalar(1, big), lax.square(lax.div(small, safe)))))
    return select_like(infinite, np.inf, select_promoted(lax.eq(big, scalar(0, big)), big, out))
