"""Truth, tests, selection and rounding."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from xlab import lax
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.avals import aval_of
from xlab.core.typing import Array, ArrayLike
from xlab.numpy.arithmetic import as_array, is_complex, scalar, select_like, select_promoted
from xlab.numpy.jit_when_eager import jit_when_eager
from xlab.numpy.operands import (
    aligned,
    cast_operand,
    check,
    dtype_of,
    narrow_host_dtype,
    no_keywords,
    no_out,
    promoted,
    promoted_inexact,
    shape_of,
    strip_weak_type,
    strip_weak_types,
)

__all__ = ["allclose", "angle", "around", "array_equal", "array_equiv", "ceil", "clip", "conj", "conjugate", "fix", "floor",
           "imag", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "iscomplex", "isreal", "logical_and",
           "logical_not", "logical_or", "logical_xor", "nan_to_num", "real", "rint", "round", "select", "trunc"]  # fmt: skip


def truth(x):
    """Whether each element differs from zero."""
    x = narrow_host_dtype(x)
    if dtype_of(x) == np.bool_:
        return x
    return lax.ne(x, scalar(0, x))


def _logical(name, combine, doc):
    def logical(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
        no_keywords(name, out, where)
        x, y = promoted(name, x, y)
        return combine(*strip_weak_types(*aligned(name, truth(x), truth(y))))

    logical.__name__ = logical.__qualname__ = name
    logical.__doc__ = (
        f"{doc}\n\n    Args:\n        out, where: None; NumPy's have them, and arrays are never changed in place here."
        f"\n\n    Example:\n        >>> import xlab.numpy as jnp\n        >>> jnp.{name}(True, 0).dtype\n"
        f"        dtype('bool')\n    "
    )
    return jit_when_eager(logical)


logical_and = _logical("logical_and", lax.bitwise_and, "Whether both elements are true.")
logical_or = _logical("logical_or", lax.bitwise_or, "Whether either element is true.")
logical_xor = _logical("logical_xor", lax.bitwise_xor, "Whether exactly one element is true.")


@jit_when_eager
def logical_not(x: ArrayLike, /) -> Array:
    """Whether an element is not true.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.logical_not(jnp.array([0, 2]))
        Array([ True, False], dtype=bool)
    """
    return lax.bitwise_not(truth(*check("logical_not", x)))


# -- tests ------------------------------------------------------------------------------------------------


def _constant(x, value):
    return lax.full(shape_of(x), value, np.dtype(bool))


@jit_when_eager
def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is not a number.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
        Array([False,  True], dtype=bool)
    """
    (x,) = promoted("isnan", x)
    return lax.ne(x, x)


def _test(name, doc, of_floats, otherwise):
    @jit_when_eager
    def test(x: ArrayLike, /) -> Array:
        x = narrow_host_dtype(*check(name, x))
        if is_complex(x):
            if name in ("isposinf", "isneginf"):
                raise ValueError(
                    f"{name} is not defined for complex numbers, which have no sign; test the real or the imaginary part"
                )
            return (
                lax.bitwise_or(of_floats(lax.real(x)), of_floats(lax.imag(x)))
                if name != "isfinite"
                else lax.bitwise_and(of_floats(lax.real(x)), of_floats(lax.imag(x)))
            )
        return (
            of_floats(x) if dtypes.issubdtype(dtype_of(x), np.inexact) else _constant(x, otherwise)
        )

    test.__name__ = test.__qualname__ = name
    test.__doc__ = (
        f"{doc}\n\n    Example:\n        >>> import xlab.numpy as jnp\n        >>> jnp.{name}(jnp.ones(2)).shape\n"
        f"        (2,)\n    "
    )
    return test


isinf = _test(
    "isinf",
    "Whether each element is infinite.",
    lambda x: lax.eq(lax.abs(x), cast_operand(np.inf, dtype_of(x))),
    False,
)
isfinite = _test(
    "isfinite", "Whether each element is neither infinite nor NaN.", lax.is_finite, True
)
_isposinf = _test("isposinf", "", lambda x: strip_weak_type(lax.eq(x, scalar(np.inf, x))), False)
_isneginf = _test("isneginf", "", lambda x: strip_weak_type(lax.eq(x, scalar(-np.inf, x))), False)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is positive infinity; `out` is for NumPy's sake and cannot be given.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isposinf(jnp.array([1.0, jnp.inf]))
        Array([False,  True], dtype=bool)
    """
    no_out("isposinf", out)
    return _isposinf(x)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is negative infinity; `out` is for NumPy's sake and cannot be given.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isneginf(jnp.array([1.0, -jnp.inf]))
        Array([False,  True], dtype=bool)
    """
    no_out("isneginf", out)
    return _isneginf(x)


@jit_when_eager
def isreal(x: ArrayLike) -> Array:
    """Whether each element has no imaginary part.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isreal(jnp.array([1j, 2]))
        Array([False,  True], dtype=bool)
    """
    x = narrow_host_dtype(*check("isreal", x))
    return (
        lax.eq(lax.imag(x), scalar(0, lax.imag(x)))
        if is_complex(x)
        else cast_operand(_constant(x, True), np.dtype(bool), aval_of(x).weak_type)
    )


@jit_when_eager
def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.iscomplex(jnp.array([1j, 2]))
        Array([ True, False], dtype=bool)
    """
    x = narrow_host_dtype(*check("iscomplex", x))
    return (
        lax.ne(lax.imag(x), scalar(0, lax.imag(x)))
        if is_complex(x)
        else cast_operand(_constant(x, False), np.dtype(bool), aval_of(x).weak_type)
    )


@jit_when_eager(static="equal_nan")
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Whether `|a - b| <= atol + rtol |b|`.

    Args:
        a, b: arrays that broadcast together.
        rtol: relative and absolute tolerance: `|a - b| <= atol + rtol * |b|`.
        equal_nan: whether NaN equals NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.isclose(1.0, 1.0 + 1e-7)
        Array(True, dtype=bool)
    """
    a, b = aligned("isclose", *promoted("isclose", a, b))
    if dtypes.is_extended(dtype_of(a)):  # keys are close where they are equal
        return lax.eq(a, b)
    if dtypes.issubdtype(dtype_of(a), np.integer) or dtype_of(a) == np.bool_:
        a, b = promoted_inexact("isclose", a, b)
    bound = lax.abs(b)
    real = aval_of(bound).dtype
    rtol, atol = cast_operand(rtol, real), cast_operand(atol, real)
    near = lax.le(lax.abs(lax.sub(a, b)), lax.add(atol, lax.mul(rtol, bound)))
    near = lax.bitwise_or(lax.eq(a, b), lax.bitwise_and(isfinite(b), near))
    if equal_nan:
        near = lax.bitwise_or(near, lax.bitwise_and(lax.ne(a, a), lax.ne(b, b)))
    return near


@jit_when_eager(static="equal_nan")
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements are close; see `isclose`.

    Args:
        a, b: arrays that broadcast together.
        rtol: relative and absolute tolerance: `|a - b| <= atol + rtol * |b|`.
        equal_nan: whether NaN equals NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.allclose(jnp.ones(3), 1.0)
        Array(True, dtype=bool)
    """
    near = isclose(a, b, rtol, atol, equal_nan=equal_nan)
    return lax.reduce_and(near, range(near.ndim))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements.

    Args:
        a1, a2: arrays.
        equal_nan: whether NaN equals NaN.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.array_equal(jnp.ones(3), jnp.ones(3))
        Array(True, dtype=bool)
    """
    from xlab.numpy.creation import asarray

    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return asarray(False)
    return _array_equal(a1, a2, equal_nan=bool(equal_nan))


@jit_when_eager(static="equal_nan")
def _array_equal(a1, a2, equal_nan):
    a1, a2 = promoted("array_equal", a1, a2)
    same = lax.eq(a1, a2)
    if equal_nan:
        same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(a1, a1), lax.ne(a2, a2)))
    return lax.reduce_and(same, range(same.ndim))


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays are equal after broadcasting.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.array_equiv(jnp.ones((2, 3)), 1.0)
        Array(True, dtype=bool)
    """
    from xlab.numpy.creation import asarray
    from xlab.numpy.ufuncs import equal

    a1, a2 = asarray(a1), asarray(a2)
    try:
        lax.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    same = equal(a1, a2)
    return lax.reduce_and(same, range(same.ndim))


# -- selection --------------------------------------------------------------------------------------------


@jit_when_eager
def choose_where(condition, x, y):
    """Elements of `x` where the condition holds, of `y` elsewhere, after promotion."""
    condition = truth(condition)
    x, y = promoted("where", x, y)
    return select_promoted(condition, x, y)


def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """For each element, the choice of the first condition that holds.

    Args:
        condlist: booleans, the first true of which counts.
        choicelist: an array for each condition.
        default: where no condition is true.

    Example:
        >>> import xlab.numpy as jnp
        >>> x = jnp.arange(3)
        >>> jnp.select([x < 1, x < 2], [10, 20], 30)
        Array([10, 20, 30], dtype=int32, weak_type=True)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"select needs as many conditions as choices, got {len(condlist)} and {len(choicelist)}"
        )
    if not condlist:
        raise ValueError("select needs at least one condition")
    return _select_first(list(condlist), list(choicelist), default)


@jit_when_eager
def _select_first(condlist, choicelist, default):
    check("select", *condlist, *choicelist, default)
    *choices, out = promoted("select", *choicelist, default)
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        out = select_promoted(truth(condition), choice, out)
    return out


def clip(
    arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None
) -> Array:
    """The elements limited to `[min, max]`.

    Args:
        arr: an array.
        min, max: the least and the largest value; None for no bound.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.clip(jnp.array([-2.0, 0.5, 2.0]), -1, 1)
        Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    if arr is None:
        raise ValueError("clip needs an array: it has no default")
    return _clip(arr, min, max)


@jit_when_eager
def _clip(arr, min, max):
    if any(v is not None and is_complex(v) for v in (arr, min, max)):
        raise ValueError(
            "clip does not support complex arrays or bounds: complex numbers have no order"
        )
    check("clip", arr, *[v for v in (min, max) if v is not None])
    for bound, op in ((min, lax.max), (max, lax.min)):
        if bound is not None:
            lo, arr = aligned("clip", *promoted("clip", bound, arr))
            arr = op(lo, arr)
    return as_array(arr)


@jit_when_eager(static="copy")
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """The elements with NaN and infinities replaced by numbers.

    Args:
        x: an array.
        copy: has no meaning here: arrays are not written to.
        nan: what stands for NaN.
        posinf: what stands for infinity; by default the largest number of the dtype.
        neginf: what stands for minus infinity; by default the least number.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0]))
        Array([0., 1.], dtype=float32)
    """
    (x,) = check("nan_to_num", x)
    dtype = dtype_of(x)
    if not dtypes.issubdtype(dtype, np.inexact):
        return as_array(x)
    x = as_array(strip_weak_type(x))
    if dtype.kind == "c":
        return lax.complex(
            nan_to_num(lax.real(x), copy, nan, posinf, neginf),
            nan_to_num(lax.imag(x), copy, nan, posinf, neginf),
        )
    info = dtypes.finfo(dtype)
    out = select_like(lax.ne(x, x), nan, x)
    out = select_like(
        lax.eq(out, scalar(np.inf, out)), float(info.max) if posinf is None else posinf, out
    )
    return select_like(
        lax.eq(out, scalar(-np.inf, out)), float(info.min) if neginf is None else neginf, out
    )


# -- rounding ---------------------------------------------------------------------------------------------


def _rounding(name, op, doc):
    @jit_when_eager
    def rounding(x: ArrayLike, /) -> Array:
        (x,) = check(name, x)
        if not dtypes.issubdtype(dtype_of(x), np.inexact):
            return as_array(x)
        return op(x)

    rounding.__name__ = rounding.__qualname__ = name
    rounding.__doc__ = (
        f"{doc}\n\n    Example:\n        >>> import xlab.numpy as jnp\n        >>> jnp.{name}(jnp.array([1.5])).shape"
        f"\n        (1,)\n    "
    )
    return rounding


def _truncated(x):
    return select_promoted(lax.lt(x, scalar(0, x)), lax.ceil(x), lax.floor(x))


floor = _rounding(
    "floor", lax.floor, "Largest integer not above each element, as the element's type."
)
ceil = _rounding(
    "ceil", lax.ceil, "Smallest integer not below each element, as the element's type."
)
_trunc = _rounding("trunc", _truncated, "")


def trunc(x: ArrayLike) -> Array:
    """Each element cut towards zero.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.trunc(jnp.array([1.5, -1.5]))
        Array([ 1., -1.], dtype=float32)
    """
    return _trunc(x)


fix = alias(trunc, "fix")


@jit_when_eager
def rint(x: ArrayLike, /) -> Array:
    """Nearest integer as a float, halves to even.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.rint(jnp.array([0.5, 1.5]))
        Array([0., 2.], dtype=float32)
    """
    (x,) = check("rint", x)
    if not dtypes.issubdtype(dtype_of(x), np.inexact):
        return as_array(cast_operand(x, dtypes.canonicalize_dtype(np.float64)))
    (x,) = promoted_inexact("rint", x)
    if is_complex(x):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, 1)


@jit_when_eager(static=("decimals", "out"))
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """The elements rounded to a number of decimals, halves to even.

    Args:
        a: an array.
        decimals: how many digits stay behind the point; negative ones round before it.
        out: has to be None: arrays are not written to.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.round(jnp.array([1.234, 2.5]), 1)
        Array([1.2, 2.5], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError(
            "round: arrays are not changed in place, so out= is not supported; use the result"
        )
    decimals = operator.index(decimals)
    (a,) = check("round", a)
    dtype = dtype_of(a)
    if dtypes.issubdtype(dtype, np.integer):
        if decimals < 0:
            raise NotImplementedError(
                "round: integers cannot be rounded to negative decimals; convert to floats first"
            )
        return as_array(a)
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"round: dtype {dtype} is not inexact; convert the array first")
    if dtype.kind == "c":
        return lax.complex(round(lax.real(a), decimals), round(lax.imag(a), decimals))
    if not decimals:
        return lax.round(a, 1)
    wide = (
        cast_operand(a, np.dtype(np.float32), aval_of(a).weak_type)
        if dtypes.itemsize(dtype) < 4
        else a
    )
    factor = scalar(10.0**decimals, wide)
    return cast_operand(
        lax.div(lax.round(lax.mul(wide, factor), 1), factor), dtype, aval_of(a).weak_type
    )


around = alias(round, "around")


# -- complex parts ----------------------------------------------------------------------------------------


@jit_when_eager
def real(val: ArrayLike, /) -> Array:
    """Real part of each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.real(jnp.array([1 + 2j]))
        Array([1.], dtype=float32)
    """
    (x,) = check("real", val)
    return lax.real(x) if is_complex(x) else as_array(x)


@jit_when_eager
def imag(val: ArrayLike, /) -> Array:
    """Imaginary part of each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.imag(jnp.array([1 + 2j]))
        Array([2.], dtype=float32)
    """
    (x,) = check("imag", val)
    return lax.imag(x) if is_complex(x) else lax.full_like(x, 0)


@jit_when_eager
def conjugate(x: ArrayLike, /) -> Array:
    """Complex conjugate of each element.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.conj(jnp.array([1 + 2j]))
        Array([1.-2.j], dtype=complex64)
    """
    (x,) = check("conjugate", x)
    return lax.conj(x) if is_complex(x) else as_array(x)


conj = alias(conjugate, "conj")


@jit_when_eager(static="deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Argument of complex numbers, in radians or degrees.

    Example:
        >>> import xlab.numpy as jnp
        >>> jnp.angle(1j, deg=True)
        Array(90., dtype=float32, weak_type=True)
    """
    (z,) = check("angle", z)
    if not dtypes.issubdtype(dtype_of(z), np.inexact):
        z = cast_operand(z, dtypes.canonicalize_dtype(np.float64))
    elif not is_complex(z):
        z = strip_weak_type(z)
    parts = (lax.imag(z), lax.real(z)) if is_complex(z) else (lax.full_like(z, 0), z)
    out = lax.atan2(*parts)
    return lax.mul(out, scalar(180 / np.pi, out)) if deg else out
