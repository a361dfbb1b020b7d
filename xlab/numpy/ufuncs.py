"""Elementwise functions that are one primitive after promotion, as two tables: of one operand and of two.

A function has three forms: a compiled program for eager calls, a fast exit for traced operands of one type, and the
general form with promotion and broadcasting.
"""

from __future__ import annotations

import inspect

import numpy as np

from xlab import lax
from xlab.compile.jit import jit
from xlab.core import dtypes
from xlab.core.alias import alias
from xlab.core.trace import EVAL, Tracer, state
from xlab.core.typing import Array, ArrayLike
from xlab.lax import arithmetic as _a
from xlab.lax import bits as _b
from xlab.lax import comparison as _c
from xlab.lax import transcendental as _t
from xlab.numpy.operands import (
    aligned,
    check,
    kind_of,
    narrow_host_dtype,
    no_keywords,
    promoted,
    promoted_inexact,
    promoted_numeric,
    python_number,
)

_NUMBERS = frozenset((int, float))


def _dtype_is(category):
    known: dict = {}

    def test(dtype) -> bool:
        found = known.get(dtype)
        if found is None:
            found = known[dtype] = dtypes.issubdtype(dtype, category)
        return found

    return test


inexact, integer, number = _dtype_is(np.inexact), _dtype_is(np.integer), _dtype_is(np.number)
signed = _dtype_is(np.signedinteger)


def _in_use(dtype) -> bool:
    """Whether numbers may take a dtype: one of 64 bits comes from outside where those are off."""
    return dtype.itemsize < 8 or dtypes.canonicalize_dtype(dtype) == dtype


KEYWORDS = """

    Args:
        out, where: None; NumPy's have them, and arrays are never changed in place here."""


def name_of(fun, name: str, doc: str, example: str, keywords: bool = False):
    fun.__name__ = fun.__qualname__ = name
    fun.__module__ = "xlab.numpy"
    fun.__doc__ = f"{doc}{KEYWORDS if keywords else ''}\n\n    Example:\n        >>> import xlab.numpy as jnp\n        >>> {example}\n    "
    return fun


def unary(name: str, prim, doc: str, *, floats: bool = True, keywords: bool = False):
    """A function of one operand: `floats` brings integers to floats first, `keywords` are those of ufuncs."""
    accepts = inexact if floats else number

    def traced(x, /):
        if isinstance(x, Tracer) and accepts(x.aval.dtype):
            return prim.bind(x)
        if floats:
            (x,) = promoted_inexact(name, x)
        else:
            (x,) = check(name, x)
            x = narrow_host_dtype(x)
        return prim.bind(x)

    traced.__name__ = traced.__qualname__ = name
    traced._single_operation = True  # type: ignore[attr-defined]
    compiled = jit(traced)

    def ufunc(x: ArrayLike, /) -> Array:
        if state.trace is EVAL:
            return compiled(x)
        return traced(x)

    if keywords:

        def ufunc(x: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
            if out is not None or where is not None:
                no_keywords(name, out, where)
            if state.trace is EVAL:
                return compiled(x)
            return traced(x)

    ufunc.compiled = compiled
    return name_of(
        ufunc,
        name,
        doc,
        f"jnp.{name}(jnp.ones(3{'' if floats else ', int'})).shape\n        (3,)",
        keywords,
    )


def binary(
    name: str,
    prim,
    doc: str,
    *,
    promote=promoted,
    on_bool=None,
    category=None,
    keywords=False,
    names=("x", "y"),
):
    """A function of two operands, brought together by `promote`; `on_bool` is what it is on booleans.

    `keywords` are those of ufuncs; `names` are what the operands are called in its signature.
    """

    def traced(x, y, /):
        if isinstance(x, Tracer) and isinstance(y, Tracer):
            # Operands of one type need nothing.
            a = x.aval
            if (
                a is y.aval
                and (category is None or category(a.dtype))
                and (on_bool is None or a.dtype != np.bool_)
            ):
                return prim.bind(x, y)
        elif type(y) in _NUMBERS and isinstance(x, Tracer):
            a = x.aval
            if (number if type(y) is int and category is None else inexact)(a.dtype) and _in_use(
                a.dtype
            ):
                return prim.bind(x, python_number(y, a.dtype, a.weak_type))
        elif type(x) in _NUMBERS and isinstance(y, Tracer):
            a = y.aval
            if (number if type(x) is int and category is None else inexact)(a.dtype) and _in_use(
                a.dtype
            ):
                return prim.bind(python_number(x, a.dtype, a.weak_type), y)
        x, y = promote(name, x, y)
        x, y = aligned(name, x, y)
        if (
            on_bool is not None
            and (x.dtype if kind_of(x) != "python" else np.dtype(type(x))) == np.bool_
        ):
            return on_bool.bind(x, y)
        return prim.bind(x, y)

    traced.__name__ = traced.__qualname__ = name
    traced._single_operation = True  # type: ignore[attr-defined]
    compiled = jit(traced)

    def ufunc(x: ArrayLike, y: ArrayLike, /) -> Array:
        if state.trace is EVAL:
            return compiled(x, y)
        return traced(x, y)

    if keywords:

        def ufunc(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
            if out is not None or where is not None:
                no_keywords(name, out, where)
            if state.trace is EVAL:
                return compiled(x, y)
            return traced(x, y)

    if names != ("x", "y"):
        shown = inspect.signature(ufunc)
        operands = [p.replace(name=n) for p, n in zip(shown.parameters.values(), names)]
        ufunc.__signature__ = shown.replace(parameters=operands)
        ufunc.__annotations__ = dict.fromkeys(names, ArrayLike) | {"return": Array}
    ufunc.compiled = compiled
    return name_of(
        ufunc,
        name,
        doc,
        f"jnp.{name}(jnp.ones(3, int), jnp.ones((2, 1), int)).shape\n        (2, 3)",
        keywords,
    )


# -- one operand ------------------------------------------------------------------------------------------

sin = unary("sin", _t.sin_p, "Sine of each element.")
cos = unary("cos", _t.cos_p, "Cosine of each element.")
tan = unary("tan", _t.tan_p, "Tangent of each element.")
arcsin = unary("arcsin", _t.asin_p, "Inverse sine of each element.")
arccos = unary("arccos", _t.acos_p, "Inverse cosine of each element.")
arctan = unary("arctan", _t.atan_p, "Inverse tangent of each element.")
sinh = unary("sinh", _t.sinh_p, "Hyperbolic sine of each element.")
cosh = unary("cosh", _t.cosh_p, "Hyperbolic cosine of each element.")
tanh = unary("tanh", _t.tanh_p, "Hyperbolic tangent of each element.")
arcsinh = unary("arcsinh", _t.asinh_p, "Inverse hyperbolic sine of each element.")
arccosh = unary("arccosh", _t.acosh_p, "Inverse hyperbolic cosine of each element.")
arctanh = unary("arctanh", _t.atanh_p, "Inverse hyperbolic tangent of each element.")
exp = unary("exp", _t.exp_p, "Exponential of each element.")
exp2 = unary("exp2", _t.exp2_p, "Two to the power of each element.")
expm1 = unary("expm1", _t.expm1_p, "`exp(x) - 1`, accurate near zero.")
log = unary("log", _t.log_p, "Natural logarithm of each element.")
log1p = unary("log1p", _t.log1p_p, "`log(1 + x)`, accurate near zero.")
sqrt = unary("sqrt", _t.sqrt_p, "Square root of each element.")
cbrt = unary("cbrt", _t.cbrt_p, "Cube root of each element.")
negative = unary(
    "negative", _a.neg_p, "Each element with the opposite sign.", floats=False, keywords=True
)
square = unary("square", _a.square_p, "Each element times itself.", floats=False)
bitwise_not = unary(
    "bitwise_not", _b.not_p, "Bits of each element flipped; `not` for booleans.", floats=False
)


# -- two operands -----------------------------------------------------------------------------------------

add = binary(
    "add", _a.add_p, "Sum of the elements; `or` for booleans.", on_bool=_b.or_p, keywords=True
)
multiply = binary(
    "multiply",
    _a.mul_p,
    "Product of the elements; `and` for booleans.",
    on_bool=_b.and_p,
    keywords=True,
)
subtract = binary("subtract", _a.sub_p, "Difference of the elements.", keywords=True)
divide = binary(
    "divide",
    _a.div_p,
    "Quotient of the elements, as floats.",
    names=("x1", "x2"),
    promote=promoted_inexact,
    category=inexact,
)
maximum = binary(
    "maximum", _a.max_p, "Larger of two elements; NaN if either is NaN.", keywords=True
)
minimum = binary(
    "minimum", _a.min_p, "Smaller of two elements; NaN if either is NaN.", keywords=True
)
arctan2 = binary(
    "arctan2",
    _t.atan2_p,
    "Angle of the point (x2, x1) from the first axis.",
    names=("x1", "x2"),
    promote=promoted_inexact,
    category=inexact,
)
equal = binary("equal", _c.eq_p, "Whether elements are equal.")
not_equal = binary("not_equal", _c.ne_p, "Whether elements differ.")
less_order = binary("less", _c.lt_p, "Whether `x < y`.")
less_equal_order = binary("less_equal", _c.le_p, "Whether `x <= y`.")
greater_order = binary("greater", _c.gt_p, "Whether `x > y`.")
greater_equal_order = binary("greater_equal", _c.ge_p, "Whether `x >= y`.")
bitwise_and = binary(
    "bitwise_and", _b.and_p, "Bits set in both; `and` for booleans.", keywords=True
)
bitwise_or = binary("bitwise_or", _b.or_p, "Bits set in either; `or` for booleans.", keywords=True)
bitwise_xor = binary(
    "bitwise_xor", _b.xor_p, "Bits set in exactly one; `xor` for booleans.", keywords=True
)
left_shift = binary(
    "left_shift",
    _b.shift_left_p,
    "Bits moved up by `y`.",
    promote=promoted_numeric,
    category=integer,
)


def _order(name: str, plain, prim, doc: str):
    """A comparison that orders complex numbers by real part, then by imaginary part, as NumPy does."""

    def traced(x, y, /):
        x, y = promoted(name, x, y)
        if not any(
            dtypes.issubdtype(getattr(v, "dtype", type(v)), np.complexfloating) for v in (x, y)
        ):
            return plain(x, y)
        rx, ry = lax.real(x), lax.real(y)
        strict = prim if prim in (_c.lt_p, _c.gt_p) else (_c.lt_p if prim is _c.le_p else _c.gt_p)
        return lax.bitwise_or(
            strict.bind(*aligned(name, rx, ry)),
            lax.bitwise_and(
                lax.eq(*aligned(name, rx, ry)), prim.bind(*aligned(name, lax.imag(x), lax.imag(y)))
            ),
        )

    traced.__name__ = traced.__qualname__ = name
    traced._single_operation = True  # type: ignore[attr-defined]
    compiled = jit(traced)

    def ufunc(x: ArrayLike, y: ArrayLike, /) -> Array:
        if state.trace is EVAL:
            return compiled(x, y)
        if (
            isinstance(x, Tracer)
            and isinstance(y, Tracer)
            and x.aval is y.aval
            and x.aval.dtype.kind != "c"
        ):
            return prim.bind(x, y)
        return traced(x, y)

    ufunc.compiled = compiled
    return name_of(ufunc, name, doc, f"jnp.{name}(jnp.ones(3), 2.0).shape\n        (3,)")


less = _order("less", less_order, _c.lt_p, "Whether `x < y`.")
less_equal = _order("less_equal", less_equal_order, _c.le_p, "Whether `x <= y`.")
greater = _order("greater", greater_order, _c.gt_p, "Whether `x > y`.")
greater_equal = _order("greater_equal", greater_equal_order, _c.ge_p, "Whether `x >= y`.")

acos, acosh, asin, asinh, atan, atanh, atan2 = (
    alias(arccos, "acos"),
    alias(arccosh, "acosh"),
    alias(arcsin, "asin"),
    alias(arcsinh, "asinh"),
    alias(arctan, "atan"),
    alias(arctanh, "atanh"),
    alias(arctan2, "atan2"),
)
invert, bitwise_invert = alias(bitwise_not, "invert"), alias(bitwise_not, "bitwise_invert")
bitwise_left_shift, true_divide = (
    alias(left_shift, "bitwise_left_shift"),
    alias(divide, "true_divide"),
)
